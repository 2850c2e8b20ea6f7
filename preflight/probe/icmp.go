package probe

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// icmp is an ICMP message that ended a connect, as the kernel keeps it for sockets that
// have IP_RECVERR.
type icmp struct {
	six  bool // ICMPv6
	kind byte
	code byte
	from netip.Addr // who sent it
	own  bool       // this host did
}

// Values of sock_extended_err.ee_origin.
const (
	originICMP  = 2
	originICMP6 = 3
)

// lastICMP takes the newest ICMP message off the socket, or returns nil.
func lastICMP(fd int) *icmp {
	var last *icmp
	oob := make([]byte, 512)
	for range 16 {
		_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 64), oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			break
		}
		for _, m := range messages {
			v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
			v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
			if !v4 && !v6 {
				continue
			}
			if got := parseExtended(m.Data); got != nil {
				last = got
			}
		}
	}
	return last
}

// parseExtended reads a struct sock_extended_err and the socket address behind it, see
// ip(7). It returns nil if that does not come from ICMP.
func parseExtended(b []byte) *icmp {
	const size = 16
	if len(b) < size {
		return nil
	}
	m := &icmp{kind: b[5], code: b[6]}
	switch b[4] {
	case originICMP:
	case originICMP6:
		m.six = true
	default:
		return nil
	}
	b = b[size:]
	if len(b) < 2 {
		return m
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		m.from = netip.AddrFrom4([4]byte(b[4:8]))
	case family == unix.AF_INET6 && len(b) >= 24:
		m.from = netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	}
	return m
}

// what says in words what the message means, and whether only firewalls say so. Hosts
// say of a TCP port by a reset that nobody listens, never by ICMP.
func (m *icmp) what() (text string, firewall bool) {
	if m.six {
		switch {
		case m.kind != 1:
			return "ICMPv6 error", false
		case m.code == 0:
			return "no route", false
		case m.code == 1:
			return "administratively prohibited", true
		case m.code == 4:
			return "port unreachable", true
		case m.code == 5 || m.code == 6:
			return "rejected by policy or route", true
		}
		return "address unreachable", false
	}
	switch {
	case m.kind != 3:
		return "ICMP error", false
	case m.code == 0 || m.code == 6 || m.code == 11:
		return "network unreachable", false
	case m.code == 2:
		return "protocol unreachable", true
	case m.code == 3:
		return "port unreachable", true
	case m.code == 9 || m.code == 10 || m.code == 13:
		return "administratively prohibited", true
	}
	return "host unreachable", false
}

// fault tells what the message means for a connect to addr.
func (m *icmp) fault(addr netip.Addr) error {
	text, firewall := m.what()
	switch {
	case m.own && !firewall:
		return faultf(Unreachable, "no machine has that address in this host's network")
	case !m.from.IsValid():
		return faultf(Unreachable, "%s", text)
	case m.from == addr && !firewall:
		firewall = true // a host that answers is not unreachable
	}
	kind := Unreachable
	if firewall {
		kind = Rejected
	}
	return faultf(kind, "%s answers %q (ICMP type %d code %d)", m.from, text, m.kind, m.code)
}
