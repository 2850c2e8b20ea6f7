package facts

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributeKind is the part of an attribute's kind that is no flag: NLA_TYPE_MASK.
const attributeKind = 1<<14 - 1

// netlink is what the kernel says of the network interfaces in two answers: lists of
// messages about interfaces, and about their addresses.
type netlink struct{ links, addrs []byte }

// askKernel takes some ten microseconds for each interface. It is right in any namespace,
// whatever is mounted at /sys.
func askKernel() (netlink, error) {
	links, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return netlink{}, fmt.Errorf("the kernel does not list the network interfaces: %w", err)
	}
	addrs, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return netlink{}, fmt.Errorf("the kernel does not list the network addresses: %w", err)
	}
	return netlink{links, addrs}, nil
}

// parseLinks returns the interfaces in the kernel's order. Kind is "" if it does not
// follow from what the kernel says here.
func parseLinks(n netlink) ([]Interface, error) {
	messages, err := syscall.ParseNetlinkMessage(n.links)
	if err != nil {
		return nil, fmt.Errorf("network interfaces: %w", err)
	}
	var out []Interface
	at := map[uint32]int{} // by the interface's number
	masters := map[int]uint32{}
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		link, master := parseLink(m.Data)
		if link.Name == "" {
			continue
		}
		at[binary.NativeEndian.Uint32(m.Data[4:])] = len(out)
		masters[len(out)] = master
		out = append(out, link)
	}
	for i, master := range masters {
		if m, ok := at[master]; ok && master != 0 {
			out[i].Master = out[m].Name
			out[m].Slaves = append(out[m].Slaves, out[i].Name)
		}
	}
	for i := range out {
		slices.Sort(out[i].Slaves)
	}
	return out, addAddrs(n.addrs, out, at)
}

// parseLink reads a message about one interface: ifinfomsg, and attributes.
func parseLink(data []byte) (out Interface, master uint32) {
	flags := binary.NativeEndian.Uint32(data[8:])
	out.Type = int(binary.NativeEndian.Uint16(data[2:]))
	out.Up, out.Running = flags&unix.IFF_UP != 0, flags&unix.IFF_UP != 0 && flags&unix.IFF_RUNNING != 0
	driver := ""
	for kind, value := range attributes(data[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			out.Name = plain(cString(value), unix.IFNAMSIZ)
		case unix.IFLA_MTU:
			out.MTU = int(number32(value))
		case unix.IFLA_MASTER:
			master = number32(value)
		case unix.IFLA_ADDRESS:
			if len(value) > 0 && len(value) <= 32 && !allZero(value) {
				out.MAC = net.HardwareAddr(value).String()
			}
		case unix.IFLA_LINKINFO:
			for kind, value := range attributes(value) {
				if kind == unix.IFLA_INFO_KIND {
					driver = cString(value)
				}
			}
		}
	}
	out.Kind = linkKind(driver, out.Type, flags)
	return out, master
}

// linkKind is an Interface's Kind, "" for one that is physical or virtual: only the
// device tree tells which.
func linkKind(driver string, arp int, flags uint32) string {
	if flags&unix.IFF_LOOPBACK != 0 {
		return "loopback"
	}
	switch driver {
	case "bridge", "veth", "vlan":
		return driver
	case "openvswitch":
		return "bridge"
	case "bond", "team":
		return "bond"
	case "ipoib":
		return "infiniband"
	case "tun", "vxlan", "geneve", "wireguard", "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan", "ipip", "sit", "ip6tnl",
		"vti", "vti6", "xfrm", "bareudp", "gtp", "ppp", "amt":
		return "tunnel"
	case "":
	default:
		return "virtual" // macvlan, ipvlan, dummy, ifb, ...
	}
	switch arp {
	case unix.ARPHRD_INFINIBAND:
		return "infiniband"
	case unix.ARPHRD_TUNNEL, unix.ARPHRD_TUNNEL6, unix.ARPHRD_SIT, unix.ARPHRD_IPGRE, unix.ARPHRD_NONE, unix.ARPHRD_PPP:
		return "tunnel"
	}
	return ""
}

// addAddrs gives interfaces their addresses.
func addAddrs(list []byte, to []Interface, at map[uint32]int) error {
	messages, err := syscall.ParseNetlinkMessage(list)
	if err != nil {
		return fmt.Errorf("network addresses: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWADDR || len(m.Data) < unix.SizeofIfAddrmsg {
			continue
		}
		i, ok := at[binary.NativeEndian.Uint32(m.Data[4:])]
		prefix, valid := parseAddr(m.Data)
		if ok && valid {
			to[i].Addrs = append(to[i].Addrs, prefix)
		}
	}
	return nil
}

// parseAddr reads a message about one address: ifaddrmsg, and attributes. The local end
// of a point-to-point link is its address here.
func parseAddr(data []byte) (prefix string, ok bool) {
	var local, addr netip.Addr
	for kind, value := range attributes(data[unix.SizeofIfAddrmsg:]) {
		a, ok := netip.AddrFromSlice(value)
		switch {
		case !ok:
		case kind == unix.IFA_LOCAL:
			local = a
		case kind == unix.IFA_ADDRESS:
			addr = a
		}
	}
	if !local.IsValid() {
		local = addr
	}
	p := netip.PrefixFrom(local, int(data[1]))
	return p.String(), p.IsValid()
}

// attributes walks netlink attributes: length, kind, value, each padded to four bytes.
func attributes(b []byte) func(yield func(kind int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(b) >= 4 {
			n := int(binary.NativeEndian.Uint16(b))
			if n < 4 || n > len(b) {
				return
			}
			if !yield(int(binary.NativeEndian.Uint16(b[2:])&attributeKind), b[4:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

func cString(b []byte) string {
	if end := slices.Index(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

func number32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }
