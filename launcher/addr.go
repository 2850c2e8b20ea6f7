package launcher

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"gorun/launcher/wire"
)

// loopback is the address of every rank of a job on one host.
const loopback = "127.0.0.1"

// hostAddr chooses the address under which the ranks of h are reached by the others:
// the user's interface, else the first of NCCL_SOCKET_IFNAME's (spec), else the one that
// the connection tells, else the one that has most in common with any of others, which
// their connections have told, else that of the default route, else any global one. Never
// the host's own name.
func hostAddr(h wire.Hello, iface, spec string, others []netip.Addr) (string, error) {
	if iface != "" {
		return addrOf(h.Interfaces, ifnames{names: []string{iface}, exact: true}, "--interface "+iface)
	}
	if spec != "" {
		return addrOf(h.Interfaces, parseIfnames(spec), "NCCL_SOCKET_IFNAME="+spec)
	}
	for _, addr := range []string{connected(h), nearest(h.Interfaces, others), onInterface(h.Interfaces, h.OutAddr)} {
		if addr != "" {
			return addr, nil
		}
	}
	if addr, err := addrOf(h.Interfaces, ifnames{names: inside, exclude: true}, ""); err == nil {
		return addr, nil
	}
	return addrOf(h.Interfaces, ifnames{}, "")
}

// connected is what the connection to a host tells of its address: where it came to if an
// interface has that, else the source address on the way to the head; "" if neither has.
func connected(h wire.Hello) string {
	return cmp.Or(onInterface(h.Interfaces, h.SSHServer), onInterface(h.Interfaces, h.RouteAddr))
}

// nearest returns the address with the longest beginning in common with one of others, as
// those of a network have; "" if there is none of eight bits or more. No host shares an
// address with another: one that both have is of a network inside of each.
func nearest(ifaces []wire.Interface, others []netip.Addr) string {
	best, most := "", 7
	inner := ifnames{names: inside, exclude: true}
	for _, i := range ifaces {
		if !inner.match(i.Name) {
			continue
		}
		for _, text := range i.Addrs {
			a, err := netip.ParseAddr(text)
			if err != nil || a.IsLinkLocalUnicast() || a.IsLoopback() || slices.Contains(others, a) {
				continue
			}
			for _, o := range others {
				if n := common(a, o); n > most {
					best, most = text, n
				}
			}
		}
	}
	return best
}

// common counts the bits at the beginning of two addresses that are equal; 0 if they are
// of different kinds.
func common(a, b netip.Addr) int {
	if a.BitLen() != b.BitLen() {
		return 0
	}
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if x[i] != y[i] {
			return 8*i + bits.LeadingZeros8(x[i]^y[i])
		}
	}
	return a.BitLen()
}

// inside are prefixes of interfaces behind which there are usually only containers
// or virtual machines of the same host.
var inside = []string{"lo", "docker", "br-", "veth", "virbr", "cni", "podman", "lxc"}

// ifnames is NCCL_SOCKET_IFNAME's grammar: "^" excludes, "=" wants whole names, else
// each item is a prefix (NCCL, src/misc/socket.cc).
type ifnames struct {
	names   []string
	exact   bool
	exclude bool
}

func parseIfnames(spec string) ifnames {
	var f ifnames
	spec, f.exclude = strings.CutPrefix(spec, "^")
	spec, f.exact = strings.CutPrefix(spec, "=")
	for name := range strings.SplitSeq(spec, ",") {
		if name != "" {
			f.names = append(f.names, name)
		}
	}
	return f
}

func (f ifnames) match(iface string) bool {
	for _, n := range f.names {
		if iface == n || (!f.exact && strings.HasPrefix(iface, n)) {
			return !f.exclude
		}
	}
	return f.exclude || len(f.names) == 0
}

// addrOf returns the best address of the first matching interface: IPv4 before IPv6,
// global before nothing; link-local and, unless named, loopback ones do not count.
// (NCCL itself takes lo if a list of what to exclude lacks it; envsync.Lint warns of that.)
func addrOf(ifaces []wire.Interface, f ifnames, what string) (string, error) {
	var v6 string
	for _, i := range ifaces {
		if !f.match(i.Name) {
			continue
		}
		for _, text := range i.Addrs {
			a, err := netip.ParseAddr(text)
			if err != nil || a.Zone() != "" || a.IsLinkLocalUnicast() || (a.IsLoopback() && (f.exclude || len(f.names) == 0)) {
				continue
			}
			if a.Is4() {
				return text, nil
			}
			if v6 == "" {
				v6 = text
			}
		}
	}
	if v6 != "" {
		return v6, nil
	}
	var names []string
	for _, i := range ifaces {
		names = append(names, i.Name)
	}
	if what == "" {
		return "", fmt.Errorf("no interface has an address for the other hosts; there are %s", strings.Join(names, ", "))
	}
	return "", fmt.Errorf("no interface fits %s; there are %s", what, strings.Join(names, ", "))
}

// interfaceOf returns the name of the interface that has addr; "" if that is loopback.
func interfaceOf(ifaces []wire.Interface, addr string) string {
	for _, i := range ifaces {
		if slices.Contains(i.Addrs, addr) && i.Name != "lo" {
			return i.Name
		}
	}
	return ""
}

// onInterface returns addr as the interface that has it writes it; "" if none has, or
// if no other host could reach it.
func onInterface(ifaces []wire.Interface, addr string) string {
	want, err := netip.ParseAddr(addr)
	if err != nil || want.Unmap().IsLoopback() || want.IsLinkLocalUnicast() {
		return ""
	}
	for _, i := range ifaces {
		for _, text := range i.Addrs {
			if a, err := netip.ParseAddr(text); err == nil && a.Unmap() == want.Unmap() {
				return a.String()
			}
		}
	}
	return ""
}
