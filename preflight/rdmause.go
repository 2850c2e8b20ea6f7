package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainRDMAUsed = `NCCL decides on each host by itself whether it uses RDMA: if it finds an HCA with an ACTIVE port, and NCCL_IB_DISABLE is not set. ` +
	`If some hosts of a job have none, they use TCP sockets while the others expect RDMA, and the job fails when it starts, or hangs. ` +
	`Hosts without RDMA are excluded if most hosts have it; those that have no GPU either are a warning, as they may have another part in the job. ` +
	`If most have none, or the settings differ, all hosts must be told the same: NCCL_IB_DISABLE=1 makes all use sockets, which is slow. ` +
	`That NCCL_IB_DISABLE leaves HCAs unused on all hosts is only told.`

func checkRDMAUsed(v *view) (found []Finding, good, skip string) {
	f, _ := v.fabric()
	found = f.unknown
	if len(f.hosts) == 0 && len(f.off) == 0 {
		if len(found) == 0 {
			return nil, "", "no host has an InfiniBand or RoCE device"
		}
		return found, "", ""
	}
	switch {
	case len(f.hosts) == 0 && len(f.none) == 0:
		found = append(found, v.finding(Info, f.off, "ranks will use sockets, though hosts have HCAs", "let NCCL use RDMA: leave NCCL_IB_DISABLE and NCCL_NET unset", []string{offReason(&v.Hosts[f.off[0]])}))
	case len(f.hosts) > 0 && len(f.off) > 0:
		found = append(found, v.finding(v.rdmaVerdict(NoCluster), f.off, v.say(f.off, "has RDMA switched off, other hosts use it"), "set NCCL_IB_DISABLE alike on all hosts", []string{offReason(&v.Hosts[f.off[0]])}))
	}
	if len(f.hosts) > 0 && len(f.none) > 0 {
		found = append(found, f.withoutRDMA())
	}
	return found, "all hosts use RDMA", ""
}

// withoutRDMA is the finding that hosts lack HCAs which others have.
func (f fabric) withoutRDMA() Finding {
	title := f.say(f.none, "has no HCA, other hosts do")
	if !hasAnyGPU(f.view, f.none) {
		return f.finding(Warn, f.none, title, "leave HOST out, or make all hosts use sockets: -x NCCL_IB_DISABLE=1", nil)
	}
	if n := len(f.hosts); n+len(f.none) >= 3 && n > len(f.none) {
		return f.finding(f.rdmaVerdict(NoHost), f.none, title, "on HOST, look for the HCAs (lspci -d 15b3:) and load their driver (modprobe mlx5_ib); or leave HOST out", nil)
	}
	all := slices.Sorted(slices.Values(slices.Concat(f.hosts, f.none)))
	return f.finding(f.rdmaVerdict(NoCluster), all, title, "make all hosts use sockets: -x NCCL_IB_DISABLE=1", []string{
		"with HCAs: " + f.fold(f.hosts), "without: " + f.fold(f.none),
	})
}

func offReason(h *Host) string {
	for _, name := range []string{"NCCL_IB_DISABLE", "NCCL_NET"} {
		if value := h.Settings[name]; value != "" {
			return name + "=" + value
		}
	}
	return ""
}

const explainRDMAList = `NCCL_IB_HCA says which HCAs NCCL uses: names or beginnings of names, "=" in front for whole names, "^" for all others, ":1" behind for a port. ` +
	`Names of HCAs depend on the order in which drivers find them, so that mlx5_3 may be the first compute port of one host and a storage port of the next; one list is then wrong on some hosts. ` +
	`NCCL says nothing of a name that does not exist, and falls back to sockets if none does. ` +
	`Each item of the list must match an HCA on every host. An item without "=" also takes longer names (mlx5_1 takes mlx5_10). ` +
	`If the list fails somewhere, the remedy is a value that takes the ACTIVE ports of the main network on all hosts, where there is one; else give NCCL_IB_HCA by [[host]] in the configuration.`

func checkRDMAList(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	set, lack, t := 0, map[int]string{}, v.tally()
	for _, i := range f.hosts {
		value := v.Hosts[i].Settings["NCCL_IB_HCA"]
		if value == "" {
			continue
		}
		set++
		if missing := unmatched(&v.Hosts[i]); missing != "" {
			lack[i] = missing
		} else if more := widened(&v.Hosts[i], value); more != "" {
			t.add(i, fault{verdict: Warn, what: "has more HCAs that " + setting("NCCL_IB_HCA", value) + " takes than it names", which: more, remedy: "write " + meant("NCCL_IB_HCA", "="+value)})
		}
	}
	if set == 0 {
		return f.unknown, "", "NCCL_IB_HCA is not set"
	}
	return append(append(f.unknown, f.unlisted(lack)...), t.findings()...), fmt.Sprintf("%s matches on %s", setting("NCCL_IB_HCA", v.Hosts[f.hosts[0]].Settings["NCCL_IB_HCA"]), count(set, "host")), ""
}

// unmatched lists the items of NCCL_IB_HCA that match no HCA of h; "" if all do.
func unmatched(h *Host) string {
	l := parseNCCLNames(h.Settings["NCCL_IB_HCA"])
	if l.exclude {
		if len(chosen(h)) == 0 {
			return "all HCAs are excluded"
		}
		return ""
	}
	var missing []string
	for _, item := range l.items {
		found := false
		for _, hca := range h.Facts.RDMA.Devices {
			for _, p := range hca.Ports {
				found = found || l.takes(item, hca.Name, p.Num)
			}
		}
		if !found {
			missing = append(missing, item.name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "no " + strings.Join(missing, ", no ")
}

// widened lists active ports that an item of NCCL_IB_HCA takes though it is the whole
// name of another HCA.
func widened(h *Host, value string) string {
	l := parseNCCLNames(value)
	if l.exclude || l.exact {
		return ""
	}
	whole := l
	whole.exact = true
	var more []string
	for _, r := range inUse(h) {
		named := slices.ContainsFunc(h.Facts.RDMA.Devices, func(hca facts.HCA) bool {
			return strings.HasPrefix(r.hca.Name, hca.Name) && whole.match(hca.Name, -1)
		})
		if named && !whole.match(r.hca.Name, r.port.Num) {
			more = append(more, r.name())
		}
	}
	return strings.Join(more, ", ")
}

// unlisted is the finding for hosts on which items match nothing.
func (f fabric) unlisted(lack map[int]string) []Finding {
	if len(lack) == 0 {
		return nil
	}
	var hosts []int
	var n notes
	for _, i := range f.hosts {
		if missing, ok := lack[i]; ok {
			hosts = append(hosts, i)
			n.add(i, missing+"; it has "+strings.Join(hcaNames(&f.Hosts[i]), ", "))
		}
	}
	verdict := NoHost
	if 2*len(hosts) >= len(f.hosts) {
		verdict = NoCluster
	}
	value := f.Hosts[hosts[0]].Settings["NCCL_IB_HCA"]
	title := f.say(hosts, "lacks HCAs that "+setting("NCCL_IB_HCA", value)+" names")
	return []Finding{f.finding(f.rdmaVerdict(verdict), hosts, title, f.listRemedy(), n.lines(f.view))}
}

// listRemedy says how all hosts' active ports of the main network can be chosen.
func (f fabric) listRemedy() string {
	mixed := false
	var all []choice
	for _, i := range f.hosts {
		c := f.hcaChoice(i)
		mixed = mixed || len(c.others) > 0
		all = append(all, c)
	}
	if !mixed {
		return "leave NCCL_IB_HCA unset: every ACTIVE port is of one kind of network"
	}
	if value := oneValue(all); value != "" {
		return "set a value that holds on all hosts: -x " + meant("NCCL_IB_HCA", value)
	}
	return "give each kind of host its own NCCL_IB_HCA, by [[host]] in the configuration"
}

// hcaChoice splits the HCAs of host i that have an active port, whatever NCCL_IB_HCA says.
func (f fabric) hcaChoice(i int) (c choice) {
	for k := range f.Hosts[i].Facts.RDMA.Devices {
		hca := &f.Hosts[i].Facts.RDMA.Devices[k]
		for p := range hca.Ports {
			r := rail{hca, &hca.Ports[p]}
			switch {
			case !r.active() || unusable(r.port):
			case r.port.Layer == f.layer:
				c.want = append(c.want, hca.Name)
			default:
				c.others = append(c.others, hca.Name)
			}
		}
	}
	return c
}

func hcaNames(h *Host) []string {
	var names []string
	for _, hca := range h.Facts.RDMA.Devices {
		names = append(names, hca.Name)
	}
	return names
}
