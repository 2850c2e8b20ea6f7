package preflight

import (
	"fmt"
	"slices"
	"strings"
)

const explainRDMAMTU = `A RoCE port sends packets of at most its active MTU, the largest of 256 to 4096 bytes that the MTU of its interface holds. ` +
	`Two ports use the smaller of theirs; a port with less than the others makes every transfer with it slower, and often shows that its interface was not set up as the others. ` +
	`If a switch between two ports passes less than both believe, nothing large arrives at all. ` +
	`Active MTU and interface MTU of each rail are compared with those of most hosts, on a single host with its other rails. ` +
	`Set it by: ip link set DEVICE mtu 9000, and in the host's network configuration.`

func checkRDMAMTU(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	if f.layer != ethernet {
		return f.unknown, "", "the RDMA network is not RoCE"
	}
	t, hosts := v.tally(), f.complete()
	var differ []string
	for p := range f.count {
		counts := map[string]int{}
		for _, i := range hosts {
			counts[mtuOf(&v.Hosts[i], f.rails(i)[p])]++
		}
		usual, ok := most(counts)
		if !ok && len(counts) > 1 {
			differ = append(differ, f.atMTU(hosts, p)...)
			continue
		}
		for _, i := range hosts {
			r := f.rails(i)[p]
			if mtu := mtuOf(&v.Hosts[i], r); ok && mtu != usual && mtu != "" {
				t.add(i, fault{verdict: Warn, what: "has HCA ports with another MTU than most hosts", which: fmt.Sprintf("%s %s, others %s", r.name(), mtu, shown(usual)), remedy: "on HOST: ip link set DEVICE mtu BYTES for the interface of that port (needs root)"})
			}
		}
	}
	found = append(f.unknown, t.findings()...)
	if len(differ) > 0 {
		found = append(found, v.finding(Warn, hosts, "hosts differ in the MTU of HCA ports", "ip link set DEVICE mtu BYTES, alike on all hosts (needs root)", cut(differ)))
	}
	if len(hosts) == 1 {
		found = append(found, f.unevenMTU(hosts[0])...)
	}
	if len(hosts) > 0 {
		good = mtuOf(&v.Hosts[hosts[0]], f.rails(hosts[0])[0])
	}
	return found, good, ""
}

// mtuOf says what a port sends at once: "active MTU 4096, rail0 9000". The interface's
// name is left out, as it may differ; "" if nothing is known.
func mtuOf(h *Host, r rail) string {
	var parts []string
	if r.port.MTU > 0 {
		parts = append(parts, fmt.Sprintf("active MTU %d", r.port.MTU))
	}
	if i := netDev(h, r, gidOf(h, r.port)); i != nil && i.MTU > 0 {
		parts = append(parts, fmt.Sprintf("interface MTU %d", i.MTU))
	}
	return strings.Join(parts, ", ")
}

func (f fabric) atMTU(hosts []int, p int) []string {
	var n notes
	for _, i := range hosts {
		r := f.rails(i)[p]
		n.add(i, r.name()+" "+shown(mtuOf(&f.Hosts[i], r)))
	}
	return n.lines(f.view)
}

// unevenMTU finds ports of one host that have different MTUs.
func (f fabric) unevenMTU(i int) []Finding {
	var n notes
	var all []string
	for _, r := range f.rails(i) {
		mtu := mtuOf(&f.Hosts[i], r)
		all = append(all, mtu)
		n.add(i, r.name()+" "+shown(mtu))
	}
	slices.Sort(all)
	if len(slices.Compact(all)) < 2 {
		return nil
	}
	return []Finding{f.finding(Warn, []int{i}, f.say([]int{i}, "has HCA ports with different MTUs"), "ip link set DEVICE mtu BYTES, alike for all interfaces of HCAs (needs root)", n.lines(f.view))}
}
