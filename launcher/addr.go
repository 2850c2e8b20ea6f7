package launcher

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
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

// holders counts the machines that have an address.
type holders map[string]int

// holdersOf counts hosts that are one machine once, as containers with the machine's own
// network are: by its address they do reach each other.
func holdersOf(hellos []wire.Hello) holders {
	n := holders{}
	known := map[[2]string]bool{} // an address, and the machine
	for i, h := range hellos {
		machine := cmp.Or(h.BootID, strconv.Itoa(i))
		for _, iface := range h.Interfaces {
			for _, addr := range iface.Addrs {
				if key := [2]string{addr, machine}; !known[key] {
					known[key] = true
					n[addr]++
				}
			}
		}
	}
	return n
}

// reach reports whether other hosts can reach by addr the one that has it. They reach
// themselves by a loopback address, and by any that they have, too, like that of a bridge
// to their containers.
func (n holders) reach(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return n[addr] < 2 && (err != nil || !a.Unmap().IsLoopback())
}

// better returns an address by which others reach h, if possible of iface; "" if there is
// none.
func (n holders) better(h wire.Hello, iface string, others []netip.Addr) (addr string, asked bool) {
	h.Interfaces = slices.Clone(h.Interfaces)
	for i := range h.Interfaces {
		h.Interfaces[i].Addrs = slices.DeleteFunc(slices.Clone(h.Interfaces[i].Addrs), func(addr string) bool { return !n.reach(addr) })
	}
	if iface != "" {
		if addr, err := hostAddr(h, iface, "", others); err == nil {
			return addr, true
		}
	}
	addr, _ = hostAddr(h, "", "", others)
	return addr, false
}

// misleading is what leads to addresses by which hosts are not reached: hosts by a text,
// in the order of the first.
type misleading struct {
	texts []string
	hosts map[string][]string
}

// take notes that host has addr because of an interface's name, that of --interface or of
// NCCL_SOCKET_IFNAME; and whether it has a better one.
func (m *misleading) take(host, iface, spec, addr string, better bool) {
	var text string
	switch {
	case iface != "":
		text = "--interface " + quoteArg(iface) + " means " + addr
	case spec != "":
		text = "NCCL_SOCKET_IFNAME=" + quoteArg(spec) + " means " + addr
	case better:
		return // nobody has asked for it
	default:
		text = "there is no other address than " + addr
	}
	text += ", by which other hosts reach only themselves"
	if iface == "" && spec != "" {
		text += ": NCCL hangs"
	}
	if better {
		text += "; MASTER_ADDR and GORUN_HOST_ADDR are another interface's"
	}
	if m.hosts == nil {
		m.hosts = map[string][]string{}
	}
	if m.hosts[text] == nil {
		m.texts = append(m.texts, text)
	}
	m.hosts[text] = append(m.hosts[text], host)
}

func (m *misleading) notes() []string {
	var out []string
	for _, text := range m.texts {
		out = append(out, someOf(m.hosts[text])+": "+text)
	}
	return out
}
