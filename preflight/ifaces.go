package preflight

import (
	"net/netip"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

// insideNames begin the names of interfaces behind which there are usually only
// containers or virtual machines of the same host.
var insideNames = []string{"docker", "br-", "virbr", "cni", "podman", "lxc", "flannel", "cali", "tmfifo_net"}

// insideDrivers drive USB networks, behind which there usually is the host's BMC.
var insideDrivers = []string{"cdc_ether", "cdc_ncm", "cdc_subset", "rndis_host"}

// inside reports whether an interface of h does not lead to other hosts. One that has
// the address which ranks use, or the default route, does, whatever it is: in a container
// it may be a veth.
func inside(h *Host, i *facts.Interface) bool {
	if i.Kind == "loopback" || i.Name == "lo" {
		return true
	}
	if hasAddr(i, h.Facts.Addr) {
		return false
	}
	named := slices.Contains(insideDrivers, i.Driver) || slices.ContainsFunc(insideNames, func(n string) bool { return strings.HasPrefix(i.Name, n) })
	switch i.Kind {
	case "veth", "tunnel", "virtual":
		_, out := defaultRoute(h, i.Name)
		return !out
	case "bridge":
		return named || !bridgesOut(h, i)
	}
	return named
}

// bridgesOut reports whether a bridge has a port that leads out of the host.
func bridgesOut(h *Host, bridge *facts.Interface) bool {
	for k := range h.Facts.Net.Interfaces {
		i := &h.Facts.Net.Interfaces[k]
		out := i.Kind == "physical" || i.Kind == "bond" || i.Kind == "vlan"
		if out && (i.Master == bridge.Name || slices.Contains(bridge.Slaves, i.Name)) {
			return true
		}
	}
	return false
}

func hasAddr(i *facts.Interface, addr string) bool {
	return addr != "" && slices.ContainsFunc(i.Addrs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Addr().String() == addr
	})
}

// globalAddrs lists the addresses of an interface by which other hosts can call it.
func globalAddrs(i *facts.Interface) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range i.Addrs {
		p, err := netip.ParsePrefix(text)
		if a := p.Addr(); err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() {
			all = append(all, p)
		}
	}
	return all
}

// family is NCCL_SOCKET_FAMILY: 4, 6, or 0 for any.
func family(h *Host) int {
	switch h.Settings["NCCL_SOCKET_FAMILY"] {
	case "AF_INET":
		return 4
	case "AF_INET6":
		return 6
	}
	return 0
}

// firstOf returns the interface that NCCL takes of those that names match: the first
// that runs and has an IPv4 address, else the first with an IPv6 one; nil if there is
// none.
func firstOf(h *Host, names ncclNames) *facts.Interface {
	want := family(h)
	for _, version := range []int{4, 6} {
		if want != 0 && want != version {
			continue
		}
		for k := range h.Facts.Net.Interfaces {
			i := &h.Facts.Net.Interfaces[k]
			if i.Up && i.Running && names.match(i.Name, -1) && hasVersion(i, version) {
				return i
			}
		}
	}
	return nil
}

func hasVersion(i *facts.Interface, version int) bool {
	return slices.ContainsFunc(i.Addrs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Addr().Is4() == (version == 4) && !(version == 6 && p.Addr().IsLoopback())
	})
}

// byItself returns the interface that NCCL takes if NCCL_SOCKET_IFNAME is not set.
func byItself(h *Host) *facts.Interface {
	for _, names := range []string{"ib", "^docker,lo,virbr", "docker", "lo", "virbr"} {
		if i := firstOf(h, parseNCCLNames(names)); i != nil {
			return i
		}
	}
	return nil
}

// meeting is where the ranks of a job can reach each other.
type meeting struct {
	prefix netip.Prefix             // of the network that all hosts are in; not valid: there is none
	on     map[int]*facts.Interface // of each host, the interface that leads there; nil: none
}

// meet finds the network that all of hosts are in, if there are several that with the
// addresses which ranks use; else, of each host, the interface that has that address, or
// the default route.
func (v *view) meet(hosts []int) meeting {
	on := map[netip.Prefix]map[int]*facts.Interface{}
	var order []netip.Prefix
	everywhere := v.everywhere(hosts)
	for _, i := range hosts {
		v.eachNetwork(i, everywhere, func(p netip.Prefix, iface *facts.Interface) {
			if on[p] == nil {
				on[p] = map[int]*facts.Interface{}
				order = append(order, p)
			}
			if on[p][i] == nil {
				on[p][i] = iface
			}
		})
	}
	var best netip.Prefix
	most := -1
	for _, p := range order {
		if len(on[p]) < len(hosts) {
			continue
		}
		if n := v.meetsAt(hosts, on[p]); n > most {
			best, most = p, n
		}
	}
	if best.IsValid() {
		return meeting{best, on[best]}
	}
	m := meeting{on: map[int]*facts.Interface{}}
	for _, i := range hosts {
		m.on[i] = wayOut(&v.Hosts[i])
	}
	return m
}

// meetsAt counts the hosts that are called by an address of the interface.
func (v *view) meetsAt(hosts []int, on map[int]*facts.Interface) (n int) {
	for _, i := range hosts {
		if hasAddr(on[i], v.Hosts[i].Facts.Addr) {
			n++
		}
	}
	return n
}

// eachNetwork calls what for each network that an interface of host i leads to.
// An address that most hosts have is of a network inside of each, unless ranks use it.
func (v *view) eachNetwork(i int, everywhere map[netip.Addr]bool, what func(netip.Prefix, *facts.Interface)) {
	h := &v.Hosts[i]
	for k := range h.Facts.Net.Interfaces {
		iface := &h.Facts.Net.Interfaces[k]
		if !iface.Up || !iface.Running || inside(h, iface) {
			continue
		}
		for _, p := range globalAddrs(iface) {
			if !everywhere[p.Addr()] || p.Addr().String() == h.Facts.Addr {
				what(p.Masked(), iface)
			}
		}
	}
}

// everywhere has the addresses that more than half of hosts have.
func (v *view) everywhere(hosts []int) map[netip.Addr]bool {
	counts := map[netip.Addr]int{}
	for _, i := range hosts {
		for k := range v.Hosts[i].Facts.Net.Interfaces {
			for _, p := range globalAddrs(&v.Hosts[i].Facts.Net.Interfaces[k]) {
				counts[p.Addr()]++
			}
		}
	}
	all := map[netip.Addr]bool{}
	for a, n := range counts {
		if n > 1 && 2*n > len(hosts) {
			all[a] = true
		}
	}
	return all
}

// wayOut returns the interface that has the address which ranks use, else that of the
// default route; nil if there is none.
func wayOut(h *Host) *facts.Interface {
	var best *facts.Interface
	least := 0
	for k := range h.Facts.Net.Interfaces {
		i := &h.Facts.Net.Interfaces[k]
		if !i.Up || !i.Running || inside(h, i) || len(globalAddrs(i)) == 0 {
			continue
		}
		if hasAddr(i, h.Facts.Addr) {
			return i
		}
		if metric, ok := defaultRoute(h, i.Name); ok && (best == nil || metric < least) {
			best, least = i, metric
		}
	}
	return best
}

func defaultRoute(h *Host, iface string) (metric int, ok bool) {
	for _, r := range h.Facts.Net.Routes {
		if r.Interface == iface && (r.Prefix == "0.0.0.0/0" || r.Prefix == "::/0" || r.Prefix == "default") {
			return r.Metric, true
		}
	}
	return 0, false
}

// ifaceNames lists the interfaces of h for people, without lo.
func ifaceNames(h *Host) string {
	var names []string
	for k := range h.Facts.Net.Interfaces {
		if i := &h.Facts.Net.Interfaces[k]; i.Kind != "loopback" {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return "no interface"
	}
	return strings.Join(names, ", ")
}
