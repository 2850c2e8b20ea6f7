package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const explainRDMARate = `A port that has trained to a lower rate than it should slows every collective that crosses it, and with rails all hosts wait for it. ` +
	`The rate of each port is compared with that of the port at the same place on the other hosts, not with a table of models. ` +
	`A port slower than most is a warning, and excludes its host if it is an HCA of the usual model below half of the usual rate (preflight.slow-bandwidth). ` +
	`On a single host ports of one model are compared with each other. ` +
	`The usual reasons are a dirty or half-seated cable or transceiver: clean and reseat it, then take the port down and up.`

func checkRDMARate(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	t, hosts := v.tally(), f.complete()
	var differ []string
	for p := range f.count {
		rates := map[float64]int{}
		for _, i := range hosts {
			rates[f.rails(i)[p].port.Rate]++
		}
		usual, ok := most(rates)
		if !ok && len(rates) > 1 {
			differ = append(differ, f.at(hosts, p, rail.speed)...)
			continue
		}
		for _, i := range hosts {
			if r := f.rails(i)[p]; ok && r.port.Rate < usual {
				t.add(i, f.slowPort(r, usual, f.usualType(hosts, p)))
			}
		}
	}
	found = append(f.unknown, t.findings()...)
	if len(differ) > 0 {
		found = append(found, v.finding(Warn, hosts, "hosts differ in the rate of HCA ports", unevenRemedy, cut(differ)))
	}
	if len(hosts) == 1 {
		found = append(found, f.unevenRates(hosts[0])...)
	}
	if len(hosts) > 0 {
		good = f.rails(hosts[0])[0].speed()
	}
	return found, good, ""
}

const (
	slowRemedy   = "leave HOST out until the slow port's cable is cleaned and reseated, and the port was taken down and up (needs root; stops other jobs on HOST)"
	unevenRemedy = "clean and reseat the cables of the slow ports, then take these down and up (needs root)"
)

// usualType is the model of rail p on most hosts; "" if there is none.
func (f fabric) usualType(hosts []int, p int) string {
	types := map[string]int{}
	for _, i := range hosts {
		types[f.rails(i)[p].hca.Type]++
	}
	usual, _ := most(types)
	return usual
}

func (f fabric) slowPort(r rail, usual float64, model string) fault {
	verdict := Warn
	if r.port.Rate < f.Limits.Bandwidth*usual && r.hca.Type == model {
		verdict = f.rdmaVerdict(NoHost)
	}
	return fault{verdict: verdict, what: "has HCA ports that are slower than those of most hosts", which: fmt.Sprintf("%s at %s, others %s", r.name(), r.speed(), gbps(usual)), remedy: slowRemedy}
}

// unevenRates finds ports of one model that run at different rates on one host.
func (f fabric) unevenRates(i int) []Finding {
	rates := map[string]map[string]bool{}
	var n notes
	uneven := false
	for _, r := range f.rails(i) {
		if rates[r.hca.Type] == nil {
			rates[r.hca.Type] = map[string]bool{}
		}
		rates[r.hca.Type][r.speed()] = true
		uneven = uneven || len(rates[r.hca.Type]) > 1
		n.add(i, r.name()+" "+r.speed())
	}
	if !uneven {
		return nil
	}
	return []Finding{f.finding(Warn, []int{i}, f.say([]int{i}, "has HCA ports of one model at different rates"), unevenRemedy, n.lines(f.view))}
}

// at has a line for what each host says of its rail p.
func (f fabric) at(hosts []int, p int, of func(rail) string) []string {
	var n notes
	for _, i := range hosts {
		r := f.rails(i)[p]
		n.add(i, r.name()+" "+of(r))
	}
	return n.lines(f.view)
}

// cut keeps as many lines as a finding has.
func cut(lines []string) []string {
	if len(lines) <= maxEvidence {
		return lines
	}
	return append(lines[:maxEvidence-1:maxEvidence-1], fmt.Sprintf("and %d more", len(lines)-maxEvidence+1))
}

const explainRDMAPKey = `A partition key says which InfiniBand ports may talk to each other. NCCL uses the entry of the table that NCCL_IB_PKEY names, by default the first. ` +
	`Two ports must have the same key but for the highest bit, and at least one of the two must be a full member: that bit, as in 0xffff. ` +
	`The keys of all ports of the main network are compared with those of most hosts, and a host in another partition is excluded. ` +
	`One host of limited members reaches all others; two do not reach each other. ` +
	`Keys are given by the subnet manager (partitions.conf of opensm, or the cloud's control plane), not on the host.`

func checkRDMAPKey(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	if f.layer != infiniBand {
		return f.unknown, "", "the RDMA network is not InfiniBand"
	}
	var hosts, limited []int
	for _, i := range f.hosts {
		if len(f.rails(i)) > 0 {
			hosts = append(hosts, i)
		}
		if slices.ContainsFunc(f.rails(i), func(r rail) bool { return isLimited(hostKey(&v.Hosts[i], r)) }) {
			limited = append(limited, i)
		}
	}
	found = append(f.unknown, v.odd(hosts, contrast{
		of: partitions, what: "partition key", blame: v.rdmaVerdict(NoHost), differ: v.rdmaVerdict(NoCluster),
		remedy: "let the subnet manager put HOST into the same partition as the others",
	})...)
	if len(hosts) > 0 {
		good = "partition key " + partitions(&v.Hosts[hosts[0]])
	}
	if len(limited) > 1 && len(found) == len(f.unknown) {
		verdict, title := NoHost, v.say(limited, "has ports that are limited members of their partition, which cannot talk to each other")
		if len(limited) == len(hosts) || len(hosts) < 3 {
			verdict, title = NoCluster, "all ports are limited members of their partition, which cannot talk to each other"
		}
		found = append(found, v.finding(v.rdmaVerdict(verdict), limited, title, "let the subnet manager make them full members", nil))
	}
	return found, good, ""
}

// partitions are the keys of a host's InfiniBand ports in use, as those of full members.
func partitions(h *Host) string {
	var all []string
	for _, r := range onLayer(inUse(h), infiniBand) {
		key := hostKey(h, r)
		if n, err := strconv.ParseUint(key, 0, 16); err == nil {
			key = fmt.Sprintf("%#04x", n|0x8000)
		}
		all = append(all, key)
	}
	return strings.Join(unique(all), ", ")
}

func hostKey(h *Host, r rail) string { return pkey(r, intSetting(h.Settings, "NCCL_IB_PKEY", 0)) }

// isLimited reports whether a key is that of a limited member.
func isLimited(key string) bool {
	n, err := strconv.ParseUint(key, 0, 16)
	return err == nil && n&0x8000 == 0
}

// pkey is the key that NCCL takes of a port. The table has no empty entries here.
func pkey(r rail, index int) string {
	if index >= 0 && index < len(r.port.PKeys) {
		return strings.ToLower(r.port.PKeys[index])
	}
	return "none"
}
