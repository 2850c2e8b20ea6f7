package launcher

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gorun/launcher/wire"
)

// loopback is the address of every rank of a job on one host.
const loopback = "127.0.0.1"

// hostAddr chooses the address under which the ranks of h are reached by the others:
// the user's interface, else the first of NCCL_SOCKET_IFNAME's (spec), else the
// address the ssh connection came to if an interface has it, else the source address
// on the route to the head, else any global one. Never the host's own name.
func hostAddr(h wire.Hello, iface, spec string) (string, error) {
	if iface != "" {
		return addrOf(h.Interfaces, ifnames{names: []string{iface}, exact: true}, "--interface "+iface)
	}
	if spec != "" {
		return addrOf(h.Interfaces, parseIfnames(spec), "NCCL_SOCKET_IFNAME="+spec)
	}
	for _, a := range []string{h.SSHServer, h.RouteAddr} {
		if addr := onInterface(h.Interfaces, a); addr != "" {
			return addr, nil
		}
	}
	if addr, err := addrOf(h.Interfaces, ifnames{names: inside, exclude: true}, ""); err == nil {
		return addr, nil
	}
	return addrOf(h.Interfaces, ifnames{}, "")
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
