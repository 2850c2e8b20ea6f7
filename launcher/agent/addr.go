package agent

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"unsafe"

	"gorun/launcher/wire"
)

// sshAddrs takes the two addresses out of SSH_CONNECTION: "client port server port".
func sshAddrs(s string) (client, server string) {
	f := strings.Fields(s)
	if len(f) != 4 {
		return "", ""
	}
	return f[0], f[2]
}

// routeAddr is this host's source address on the way to client, "" if there is no
// way. Connecting a UDP socket sends nothing.
func routeAddr(client string) string {
	to, err := netip.ParseAddr(client)
	if err != nil {
		return ""
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return ""
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("").String()
}

// outAddr is this host's source address by its default route, "" without one. The
// addresses that it asks for are of documentation (RFC 5737, RFC 3849), and on no network.
func outAddr() string {
	if a := routeAddr("192.0.2.1"); a != "" {
		return a
	}
	return routeAddr("2001:db8::1")
}

// interfaces lists the interfaces that are up and have addresses. It asks the kernel
// for all addresses at once: net.Interface.Addrs would do so for each interface, and
// hosts with containers have hundreds.
func interfaces() []wire.Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	addrs := parseAddrs(rib)
	var out []wire.Interface
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && len(addrs[i.Index]) > 0 {
			out = append(out, wire.Interface{Name: i.Name, Addrs: addrs[i.Index]})
		}
	}
	return out
}

// parseAddrs reads the kernel's answer to RTM_GETADDR: addresses by interface index.
func parseAddrs(rib []byte) map[int][]string {
	out := map[int][]string{}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return out
	}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		head := (*syscall.IfAddrmsg)(unsafe.Pointer(&m.Data[0]))
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			continue
		}
		if a := addrOf(attrs); a.IsValid() {
			out[int(head.Index)] = append(out[int(head.Index)], a.String())
		}
	}
	return out
}

// addrOf chooses the interface's own address: on a point-to-point link IFA_ADDRESS
// is the peer's and IFA_LOCAL ours; IPv6 has IFA_ADDRESS only.
func addrOf(attrs []syscall.NetlinkRouteAttr) netip.Addr {
	var addr, local netip.Addr
	for _, a := range attrs {
		switch a.Attr.Type {
		case syscall.IFA_ADDRESS:
			addr, _ = netip.AddrFromSlice(a.Value)
		case syscall.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if local.IsValid() {
		return local
	}
	return addr
}
