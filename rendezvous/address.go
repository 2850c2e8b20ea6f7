package rendezvous

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// IDAddr returns the address inside of an ncclUniqueId, at which ranks meet. ok is false
// if there is none, as in an ID that NCCL has not made. It knows the layout of NCCL 2.15
// and later: eight random bytes, then a sockaddr as this machine writes it.
func IDAddr(id ID) (addr netip.AddrPort, ok bool) {
	const inet, inet6 = 2, 10 // AF_INET and AF_INET6
	sockaddr := id[8:36]
	port := binary.BigEndian.Uint16(sockaddr[2:])
	switch binary.NativeEndian.Uint16(sockaddr) {
	case inet:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sockaddr[4:])), port), true
	case inet6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sockaddr[8:])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// CheckID says why ranks on several hosts cannot meet by id, which a process on this
// host has made, or returns nil: id is all zero, or the address inside is a loopback or
// link-local one, or that of a bridge for this host's containers or virtual machines. An
// interface that NCCL_SOCKET_IFNAME calls by its whole name is right all the same, but
// for the loopback. An ID without an address is not looked at further. In a container
// interfaces have other names, and a bridge's address cannot be told.
func CheckID(id ID, hosts int) error {
	if id == (ID{}) {
		return invalid("the ID has 128 zero bytes")
	}
	addr, ok := IDAddr(id)
	if !ok || hosts < 2 {
		return nil
	}
	return checkAddr(addr.Addr(), interfaceOf(addr.Addr()), os.Getenv("NCCL_SOCKET_IFNAME"))
}

// checkAddr is CheckID for an address, the interface that has it ("": none here), and
// the value of NCCL_SOCKET_IFNAME.
func checkAddr(addr netip.Addr, iface, wanted string) error {
	var what string
	switch {
	case addr.IsUnspecified():
		what = "no address"
	case addr.IsLoopback():
		what = "a loopback address"
	case namesInterface(wanted, iface):
		return nil
	case addr.IsLinkLocalUnicast():
		what = "a link-local address"
	case insideOnly(iface):
		what = fmt.Sprintf("the address of %s, behind which there are only this host's containers or virtual machines", iface)
	default:
		return nil
	}
	return invalid("the ID says to meet at %v: %s, and this job has ranks on other hosts; NCCL_SOCKET_IFNAME=NAME names the interface to use", addr, what)
}

// namesInterface reports whether wanted, in the grammar of NCCL_SOCKET_IFNAME, has iface
// in full among the interfaces to be used.
func namesInterface(wanted, iface string) bool {
	names, exact := strings.CutPrefix(wanted, "=")
	if !exact && strings.HasPrefix(wanted, "^") {
		return false
	}
	return iface != "" && slices.Contains(strings.Split(names, ","), iface)
}

// insideOnly reports whether iface is called as Docker, Podman, libvirt, LXC and
// Kubernetes call the bridges that they make.
func insideOnly(iface string) bool {
	for _, prefix := range []string{"docker", "podman", "virbr", "lxcbr", "lxdbr", "cni"} {
		if strings.HasPrefix(iface, prefix) {
			return true
		}
	}
	// Docker's own networks: br- and twelve digits. Other bridges may be called br-….
	id, ok := strings.CutPrefix(iface, "br-")
	return ok && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == ""
}

// interfaceOf returns the name of the interface that has addr, "" if none has.
func interfaceOf(addr netip.Addr) string {
	all, _ := net.Interfaces()
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
				return i.Name
			}
		}
	}
	return ""
}
