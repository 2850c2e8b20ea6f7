package agent

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher/wire"
)

// maxTable bounds what is read of a table of sockets, in bytes: about 400,000 sockets.
const maxTable = 64 << 20

// socket is one line of /proc/PID/net/tcp or tcp6.
type socket struct {
	local, remote  netip.AddrPort
	state          byte // as the kernel counts: see the constants
	unsent, unread int  // bytes; of one that listens, unread are connections not accepted
	inode          uint64
}

// States of a socket (include/net/tcp_states.h).
const (
	tcpSynSent   = 2
	tcpCloseWait = 8
	tcpListen    = 10
)

// parseSocket reads a line of a table: "sl local remote state unsent:unread timer
// retransmissions uid timeout inode …", all but the last in hexadecimal digits.
func parseSocket(line string) (s socket, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return socket{}, false
	}
	var goods [6]bool
	s.local, goods[0] = parseEndpoint(f[1])
	s.remote, goods[1] = parseEndpoint(f[2])
	state, err := strconv.ParseUint(f[3], 16, 8)
	goods[2] = err == nil
	unsent, unread, _ := strings.Cut(f[4], ":")
	s.unsent, goods[3] = parseQueue(unsent)
	s.unread, goods[4] = parseQueue(unread)
	s.inode, err = strconv.ParseUint(f[9], 10, 64)
	goods[5] = err == nil
	s.state = byte(state)
	return s, !slices.Contains(goods[:], false)
}

func parseQueue(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 16, 32)
	return int(n), err == nil
}

// parseEndpoint reads ADDRESS:PORT: the address as the words of memory in which it
// stands, each of them written as a number; the port as a number.
func parseEndpoint(s string) (netip.AddrPort, bool) {
	text, portText, _ := strings.Cut(s, ":")
	words, err := hex.DecodeString(text)
	port, err2 := strconv.ParseUint(portText, 16, 16)
	if err != nil || err2 != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i+4 <= len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	addr, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}

// readTable adds the sockets of a table to those that are known by inode. What a
// program has not accepted yet, or has closed, has no inode.
func readTable(r io.Reader, known map[uint64]socket) {
	lines := bufio.NewScanner(io.LimitReader(r, maxTable))
	for lines.Scan() {
		if s, ok := parseSocket(lines.Text()); ok && s.inode != 0 {
			known[s.inode] = s
		}
	}
}

// conn is what the head is told of a socket that does not listen.
func (s socket) conn() wire.Conn {
	c := wire.Conn{Local: s.local, Remote: s.remote, Unsent: s.unsent, Unread: s.unread}
	switch s.state {
	case tcpSynSent:
		c.State, c.Unsent = wire.ConnOpening, 0 // the kernel counts its own SYN
	case tcpCloseWait:
		c.State = wire.ConnClosed
	}
	return c
}

// plug puts the sockets into what is told of a rank: as many as there is room for, and
// those that say most first. A connection of the rank with itself says nothing.
func plug(s *wire.Sight, sockets []socket, waited uint64) {
	ends := map[[2]netip.AddrPort]bool{}
	for _, k := range sockets {
		ends[[2]netip.AddrPort{k.local, k.remote}] = true
	}
	for _, k := range sockets {
		own := ends[[2]netip.AddrPort{k.remote, k.local}]
		switch {
		case k.state == tcpListen:
			s.Listens = append(s.Listens, k.local)
		case k.remote.Port() != 0 && (!own || k.inode == waited): // a socket that is used
			c := k.conn()
			c.Waited = k.inode == waited
			s.Conns = append(s.Conns, c)
		}
	}
	slices.SortFunc(s.Listens, netip.AddrPort.Compare)
	s.Listens = slices.Compact(s.Listens)
	s.Listens = s.Listens[:min(len(s.Listens), wire.MaxPeers)]
	slices.SortFunc(s.Conns, func(a, b wire.Conn) int {
		return cmp.Or(cmp.Compare(telling(b), telling(a)), a.Remote.Compare(b.Remote), a.Local.Compare(b.Local))
	})
	s.More = max(len(s.Conns)-wire.MaxPeers, 0)
	s.Conns = s.Conns[:len(s.Conns)-s.More]
}

// telling is how much a connection says about why its rank does not go on.
func telling(c wire.Conn) int {
	switch {
	case c.Waited:
		return 3
	case c.State != "":
		return 2
	case c.Unsent+c.Unread > 0:
		return 1
	}
	return 0
}
