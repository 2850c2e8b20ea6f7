package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tries is how often a connection is made that is accepted and then ends: a listener that
// is beset by strangers may have dropped it for one of them.
const tries = 3

// session is a connection that both ends have proved. Its context's end closes it.
type session struct {
	conn *net.TCPConn
	stop func() bool
}

func (s session) close() {
	s.stop()
	s.conn.Close()
}

// reach connects to a target and proves both ends, and says how long the connect took.
// Its errors are faults.
func (p *prober) reach(ctx context.Context, t Target) (session, time.Duration, error) {
	wait := 10 * time.Millisecond
	for n := 1; ; n++ {
		s, took, err := p.reachOnce(ctx, t)
		if err == nil {
			return s, took, nil
		}
		kind := asFault(err).kind
		if n == tries || kind != Closed && kind != Reset || !pause(ctx, wait) {
			return session{}, took, err
		}
		wait *= 5
	}
}

func (p *prober) reachOnce(ctx context.Context, t Target) (session, time.Duration, error) {
	start := time.Now()
	conn, err := p.connect(ctx, t.Addr)
	took := time.Since(start)
	if err != nil {
		return session{}, 0, err
	}
	s := session{conn, context.AfterFunc(ctx, func() { conn.Close() })}
	conn.SetDeadline(time.Now().Add(p.order.Timeout))
	who, err := greet(conn, p.secret, p.self)
	if err != nil {
		s.close()
		return session{}, took, err
	}
	if who.Host != t.Host {
		s.close()
		f := asFault(faultf(OtherHost, "another host of this job answers there"))
		f.answered, f.boot = who.Host, cleanBoot(who.Boot)
		return session{}, took, f
	}
	return s, took, nil
}

// connect makes a TCP connection. When it fails, an ICMP message may say more than the
// error does: a firewall's "port unreachable" gives the same error as a host's reset.
func (p *prober) connect(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	six := to.Addr().Is6()
	second := -1 // a descriptor of the socket that stays when the connect has failed
	defer func() {
		if second >= 0 {
			unix.Close(second)
		}
	}()
	d := net.Dialer{Timeout: p.order.Timeout, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			if second >= 0 {
				unix.Close(second)
			}
			second, _ = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) // -1 on error
			receiveErrors(int(fd), six, 1)
		})
	}}
	d.SetMultipathTCP(false) // another protocol would be tried, and TCP_INFO say less
	// From an address of the other family nobody can connect; the kernel then chooses one.
	if p.source.IsValid() && p.source.Is4() == to.Addr().Is4() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.source, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, faultf(Other, "this host cannot connect from %s: %v", p.source, syscall.EADDRNOTAVAIL)
		}
		return nil, connectFault(err, p.said(second), to.Addr(), p.order.Timeout)
	}
	tcp := conn.(*net.TCPConn)
	control(tcp, func(fd int) { receiveErrors(fd, six, 0) })
	return tcp, nil
}

// said returns the ICMP message that has ended a connect, or nil.
func (p *prober) said(fd int) *icmp {
	if fd < 0 {
		return nil
	}
	m := lastICMP(fd)
	if m == nil {
		return nil
	}
	m.own = m.from.IsValid() && m.from == p.source
	if local, err := unix.Getsockname(fd); err == nil && !m.own {
		m.own = m.from.IsValid() && m.from == addrOf(local)
	}
	return m
}

func addrOf(sa unix.Sockaddr) netip.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr).Unmap()
	}
	return netip.Addr{}
}

// receiveErrors makes the kernel keep ICMP messages for fd, or not. A connection that
// stands must not, as it would then end by messages that TCP overcomes.
func receiveErrors(fd int, six bool, on int) {
	if six {
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, on)
		return
	}
	unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, on)
}

// control calls f with conn's descriptor, if it has one still.
func control(conn *net.TCPConn, f func(fd int)) {
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// pause waits, or returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cleanBoot returns a boot ID as another host says it, without what no boot ID has.
func cleanBoot(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-':
			b = append(b, c)
		}
	}
	return string(b)
}
