package preflight

import (
	"fmt"
	"strings"
)

const explainRDMACount = `NCCL uses every ACTIVE port that NCCL_IB_HCA leaves, and pairs the ports of one host with those of the others by their place on the PCI bus. ` +
	`If hosts have different numbers of ports, NCCL only mentions it (NCCL_IGNORE_NET_MISMATCH is 1 by default) and the job may hang (NCCL issue 2428). ` +
	`The ports of the main network, the one that carries the most, are counted on each host and compared with most hosts. ` +
	`Ports that are there but not ACTIVE are the matter of rdma-port, ports of another network that of rdma-layer. ` +
	`A host that lacks an HCA may have lost it: look at lspci and dmesg there, and power it off and on.`

func checkRDMACount(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	var hosts []int
	for _, i := range f.hosts {
		if !f.explained(i) && unmatched(&v.Hosts[i]) == "" {
			hosts = append(hosts, i)
		}
	}
	found = append(f.unknown, v.odd(hosts, contrast{
		of:   func(h *Host) string { return count(len(onLayer(inUse(h), f.layer)), f.layer+" port") },
		what: "", subject: "how many HCA ports they have", blame: v.rdmaVerdict(NoHost), differ: v.rdmaVerdict(NoCluster),
		remedy: "on HOST, look for the missing HCA (lspci -d 15b3:, dmesg); or choose ports that all hosts have with NCCL_IB_HCA",
	})...)
	if len(f.hosts) > 0 {
		r := f.rails(f.hosts[0])
		good = "no ACTIVE port"
		if len(r) > 0 {
			good = fmt.Sprintf("%s of %s %s", count(len(r), "port"), r[0].speed(), f.layer)
		}
		if len(f.hosts) > 1 {
			good += " on each host"
		}
	}
	return found, good, ""
}

// lackOf is how many ports host i has less than most hosts.
func (f fabric) lackOf(i int) int { return f.count - len(f.rails(i)) }

// explained reports whether another check says why host i has fewer ports: they are
// there but not ACTIVE, or are of another layer.
func (f fabric) explained(i int) bool {
	lack := f.lackOf(i)
	return lack > 0 && (len(f.idle(i)) >= lack || f.swapped(i))
}

// idle lists the ports of host i that NCCL would use if they were ACTIVE: if possible
// those that are on most hosts by their name.
func (f fabric) idle(i int) []rail {
	var all, known []rail
	for _, r := range chosen(&f.Hosts[i]) {
		if r.active() || r.port.Layer != f.layer && r.port.Layer != "" {
			continue
		}
		all = append(all, r)
		if f.up[r.name()] {
			known = append(known, r)
		}
	}
	if len(known) >= f.lackOf(i) && len(known) > 0 {
		return known
	}
	return all
}

// swapped reports whether host i has as many ports as others, but of another layer.
func (f fabric) swapped(i int) bool {
	return f.lackOf(i) > 0 && len(inUse(&f.Hosts[i])) == f.total
}

const explainRDMALayer = `A port speaks InfiniBand or Ethernet (RoCE), and cannot talk to one that speaks the other. ` +
	`Most HCAs can do both; mlxconfig (LINK_TYPE_P1) says which, and a restart of the host is needed to change it. ` +
	`A host whose ports are of another kind than those of most hosts is excluded. ` +
	`Where hosts have both kinds, NCCL may use all ACTIVE ports, also those that are for storage: they can be slower, or in a network where hosts do not reach each other. If all hosts have the same, that is mentioned, and else a warning. ` +
	`NCCL_IB_HCA chooses; the remedy has a value that holds on all hosts, if there is one.`

func checkRDMALayer(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	var whole, mixed []int
	for _, i := range f.hosts {
		all := inUse(&v.Hosts[i])
		if len(all) == f.total && len(all) > 0 {
			whole = append(whole, i)
		}
		if n := len(f.rails(i)); n > 0 && n < len(all) {
			mixed = append(mixed, i)
		}
	}
	found = append(f.unknown, v.odd(whole, contrast{
		of: layersOf, verb: "uses", subject: "the kind of their RDMA network", blame: v.rdmaVerdict(NoHost), differ: v.rdmaVerdict(NoCluster),
		remedy: "on HOST: mlxconfig -d DEVICE set LINK_TYPE_P1=1 for InfiniBand, 2 for Ethernet, and restart it (needs root; stops other jobs on HOST)",
	})...)
	if len(found) == len(f.unknown) && len(mixed) > 0 {
		found = append(found, f.mixed(mixed))
	}
	return found, f.layer, ""
}

// layersOf says how many ports of which layers NCCL would use on h.
func layersOf(h *Host) string {
	all := inUse(h)
	var parts []string
	for _, layer := range []string{infiniBand, ethernet} {
		if n := len(onLayer(all, layer)); n > 0 {
			parts = append(parts, count(n, layer+" port"))
		}
	}
	return strings.Join(parts, " and ")
}

// mixed is the finding that NCCL would use ports of both layers.
func (f fabric) mixed(hosts []int) Finding {
	var n notes
	for _, i := range hosts {
		var names []string
		for _, r := range inUse(&f.Hosts[i]) {
			if r.port.Layer != f.layer {
				names = append(names, fmt.Sprintf("%s %s %s", r.name(), r.port.Layer, r.speed()))
			}
		}
		n.add(i, layersOf(&f.Hosts[i])+": "+strings.Join(names, ", "))
	}
	verdict := Warn
	if len(f.groups(f.hosts, layersOf)) == 1 {
		verdict = Info
	}
	return f.finding(verdict, hosts, "NCCL would use InfiniBand and Ethernet ports side by side", f.listRemedy(), n.lines(f.view))
}
