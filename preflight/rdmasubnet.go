package preflight

import (
	"fmt"
	"net/netip"
	"slices"

	"gorun/preflight/facts"
)

const explainRDMASubnet = `A rail is the HCA port at the same place on the PCI bus of every host; NCCL connects ports of one rail with each other. ` +
	`They must be in one network, or routers must join their networks. ` +
	`For RoCE the network is that of the GID which NCCL will use, with the prefix length of its interface; for InfiniBand it is the upper half of GID 0. ` +
	`A host whose port is in another network than that of most hosts is excluded, unless it has a route through that port's interface. If that is so of all its RoCE ports, it may be behind another switch, with routes that are not seen here, and it is a warning. The reason is often a swapped cable or an address given to the wrong interface. ` +
	`Networks of two addresses (/31, /30) on every port are a routed design, and are not compared. ` +
	`Only hosts with the usual number of ports are compared, as places mean nothing on the others.`

func checkRDMASubnet(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	hosts, t := f.complete(), v.tally()
	nets := f.networks(hosts)
	usual := make([]string, f.count)
	var differ []string
	for p := range f.count {
		counts := map[string]int{}
		for k := range hosts {
			if name := nets[k][p]; name != "" {
				counts[name]++
			}
		}
		var ok bool
		if usual[p], ok = most(counts); !ok && len(counts) > 1 && !f.routed(hosts, p, nets) {
			differ = append(differ, f.atNetwork(hosts, p, nets)...)
		}
	}
	for k, i := range hosts {
		verdict := v.rdmaVerdict(NoHost)
		if f.elsewhere(nets[k], usual) {
			verdict = Warn
		}
		for p, name := range nets[k] {
			if usual[p] != "" && name != "" && name != usual[p] && !f.wayTo(i, f.rails(i)[p], usual[p]) {
				t.add(i, f.strayRail(i, p, verdict, name, usual))
			}
		}
	}
	found = append(f.unknown, t.findings()...)
	if len(differ) > 0 {
		found = append(found, v.finding(Warn, hosts, "hosts differ in the networks of their rails", "give the interfaces of one rail addresses of one network on all hosts, or join the networks by routes", cut(differ)))
	}
	return found, subnetGood(usual), ""
}

// elsewhere reports whether none of a host's RoCE ports is in a network that is usual for
// any rail.
func (f fabric) elsewhere(nets, usual []string) bool {
	return f.layer == ethernet && !slices.ContainsFunc(nets, func(name string) bool { return name != "" && slices.Contains(usual, name) })
}

func subnetGood(usual []string) string {
	names := unique(slices.DeleteFunc(slices.Clone(usual), func(s string) bool { return s == "" }))
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return "all rails are in " + names[0]
	}
	return fmt.Sprintf("%d networks, %s to %s", len(names), names[0], names[len(names)-1])
}

// networks has the network of each rail of each of hosts; "" if it is not known.
func (f fabric) networks(hosts []int) [][]string {
	all := make([][]string, len(hosts))
	for k, i := range hosts {
		h := &f.Hosts[i]
		for _, r := range f.rails(i) {
			all[k] = append(all[k], network(h, r))
		}
	}
	return all
}

// network is the network of a port's GID: "10.100.0.0/16".
func network(h *Host, r rail) string {
	g := gidOf(h, r.port)
	if g == nil {
		return ""
	}
	a := gidAddr(g).Unmap()
	if r.port.Layer == infiniBand {
		p, _ := a.Prefix(64)
		return p.String()
	}
	i := netDev(h, r, g)
	if i == nil || !validGID(g) {
		return ""
	}
	for _, text := range i.Addrs {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr() == a {
			return p.Masked().String()
		}
	}
	return ""
}

// netDev is the network interface of a GID, nil if it is not known.
func netDev(h *Host, r rail, g *facts.GID) *facts.Interface {
	name := ""
	if g != nil {
		name = g.NetDev
	}
	if name == "" && len(r.port.NetDevs) > 0 {
		name = r.port.NetDevs[0]
	}
	for k := range h.Facts.Net.Interfaces {
		if h.Facts.Net.Interfaces[k].Name == name && name != "" {
			return &h.Facts.Net.Interfaces[k]
		}
	}
	return nil
}

// wayTo reports whether host i has a route to a network through the interface of r, by a
// router.
func (f fabric) wayTo(i int, r rail, to string) bool {
	h := &f.Hosts[i]
	p, err := netip.ParsePrefix(to)
	dev := netDev(h, r, gidOf(h, r.port))
	return err == nil && dev != nil && slices.ContainsFunc(h.Facts.Net.Routes, func(x facts.Route) bool {
		return x.Via != "" && leads(x, dev.Name, p.Addr())
	})
}

// leads reports whether a route leads to addr through an interface.
func leads(r facts.Route, iface string, addr netip.Addr) bool {
	p, err := netip.ParsePrefix(r.Prefix)
	return err == nil && r.Interface == iface && p.Contains(addr)
}

// routed reports whether the networks of rail p, which are different, are meant to be:
// those of two addresses, or such that each host has a route to the others.
func (f fabric) routed(hosts []int, p int, nets [][]string) bool {
	first, second := "", ""
	for k := range hosts {
		if first == "" {
			first = nets[k][p]
		} else if nets[k][p] != first {
			second = nets[k][p]
		}
	}
	for k, i := range hosts {
		own, err := netip.ParsePrefix(nets[k][p])
		if err != nil {
			continue
		}
		to := first
		if nets[k][p] == first {
			to = second
		}
		if own.Bits() < own.Addr().BitLen()-2 && !f.wayTo(i, f.rails(i)[p], to) {
			return false
		}
	}
	return true
}

func (f fabric) strayRail(i, p int, verdict Verdict, name string, usual []string) fault {
	which := fmt.Sprintf("%s (rail %d) in %s, others in %s", f.rails(i)[p].name(), p, name, usual[p])
	remedy := "give the interface of the port an address of the same network as on the other hosts"
	if f.layer == infiniBand {
		remedy = "connect the port of HOST to the same fabric as on the other hosts; the subnet manager gives the prefix"
	}
	if at := slices.Index(usual, name); at >= 0 {
		which += fmt.Sprintf(", as is their rail %d", at)
		remedy = "look for swapped cables or addresses on HOST"
	}
	return fault{verdict: verdict, what: "has HCA ports in other networks than most hosts", which: which, remedy: remedy}
}

func (f fabric) atNetwork(hosts []int, p int, nets [][]string) []string {
	var n notes
	for k, i := range hosts {
		n.add(i, f.rails(i)[p].name()+" "+shown(nets[k][p]))
	}
	return n.lines(f.view)
}

const explainRDMACross = `In many clusters each rail is a network of its own that has no way to the others. That is well as long as NCCL keeps to rails. ` +
	`NCCL_CROSS_NIC=1 tells it to connect different rails, which then fails after retries (status 12). ` +
	`By default NCCL may cross rails where it expects an advantage; NCCL_CROSS_NIC=0 forbids it. ` +
	`This check looks at the networks of the rails and at the routes through their interfaces, and warns only if NCCL_CROSS_NIC=1 is set.`

func checkRDMACross(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	if f.layer != ethernet {
		return f.unknown, "", "the RDMA network is not RoCE"
	}
	t := v.tally()
	islands := 0
	for _, i := range f.hosts {
		from, to := f.apart(i)
		if to == "" {
			continue
		}
		islands++
		if intSetting(v.Hosts[i].Settings, "NCCL_CROSS_NIC", 2) == 1 {
			t.add(i, fault{verdict: Warn, what: "has rails that cannot reach each other, and NCCL_CROSS_NIC=1", which: from + " has no way to " + to, remedy: "set NCCL_CROSS_NIC=0, or join the networks of the rails by routes"})
		}
	}
	good = "rails reach each other"
	if islands > 0 {
		good = "each rail is a network of its own; NCCL keeps to rails"
	}
	return append(f.unknown, t.findings()...), good, ""
}

// apart finds two rails of host i of which the first has no way to the network of the
// second; "" if there are none.
func (f fabric) apart(i int) (from, to string) {
	h := &f.Hosts[i]
	rails := f.rails(i)
	for _, r := range rails[min(1, len(rails)):] {
		if net := network(h, r); net != "" && net != network(h, rails[0]) && !f.wayTo(i, rails[0], net) {
			return rails[0].name(), net
		}
	}
	return "", ""
}
