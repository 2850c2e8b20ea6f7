package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	portTries = 10       // a port that is free for TCP may be taken for UDP
	maxPacket = 64 << 10 // of UDP
	maxInside = 32       // connections of others at a time; the oldest goes when one more comes
	perNode   = 512      // bytes, more than what is told of a node on a connection
	around    = 64 << 10 // bytes, more than what is told beside
	errorRest = 50 * time.Millisecond
)

// network is memberlist's way to the others, over one UDP socket and TCP connections. In
// contrast to memberlist's own it bounds what strangers can make it hold, and knows when
// all of its connections have ended.
type network struct {
	tcp     *net.TCPListener
	udp     *net.UDPConn
	packets chan *memberlist.Packet
	streams chan net.Conn
	limit   int64 // bytes that are read of a connection
	loops   sync.WaitGroup
	ctx     context.Context // ended by Shutdown
	end     context.CancelFunc

	mu      sync.Mutex
	closed  bool             // guarded by mu
	inside  []*stream        // guarded by mu; connections that others have made, the oldest first
	outside []*stream        // guarded by mu; our own
	free    chan struct{}    // guarded by mu; nil, or closed when no connection is left
	unmet   map[string]error // guarded by mu; why the last connection to an address was not made
}

// listen opens a port that is free for both.
func listen(addr netip.Addr, nodes int) (*network, error) {
	for try := 1; ; try++ {
		n, err := listenAt(netip.AddrPortFrom(addr, 0), nodes)
		if err == nil || try == portTries {
			return n, err
		}
	}
}

func listenAt(at netip.AddrPort, nodes int) (*network, error) {
	n := &network{
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		limit: around + perNode*int64(nodes), unmet: map[string]error{},
	}
	var err error
	if n.tcp, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)); err != nil {
		return nil, err
	}
	if n.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), n.port()))); err != nil {
		n.tcp.Close()
		return nil, err
	}
	n.ctx, n.end = context.WithCancel(context.Background())
	n.loops.Go(n.accept)
	n.loops.Go(n.receive)
	return n, nil
}

func (n *network) addr() *net.TCPAddr { return n.tcp.Addr().(*net.TCPAddr) }

func (n *network) port() uint16 { return uint16(n.addr().Port) }

// stream is a connection that n knows of until it is closed.
type stream struct {
	net.Conn
	in   io.Reader
	of   *network
	once sync.Once
}

func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

func (s *stream) Close() error {
	err := s.Conn.Close()
	s.once.Do(func() { s.of.forget(s) })
	return err
}

// take makes a stream of c, or closes it when n is closed.
func (n *network) take(c net.Conn, list *[]*stream) *stream {
	s := &stream{Conn: c, in: io.LimitReader(c, n.limit), of: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		c.Close()
		return nil
	}
	*list = append(*list, s)
	if len(n.inside) > maxInside {
		n.inside[0].Conn.Close() // whoever serves it closes the stream then
		n.inside = slices.Delete(n.inside, 0, 1)
	}
	return s
}

func (n *network) forget(s *stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	is := func(other *stream) bool { return other == s }
	n.inside, n.outside = slices.DeleteFunc(n.inside, is), slices.DeleteFunc(n.outside, is)
	n.tellFreeLocked()
}

func (n *network) tellFreeLocked() {
	if n.free != nil && len(n.inside)+len(n.outside) == 0 {
		close(n.free)
		n.free = nil
	}
}

func (n *network) accept() {
	for {
		c, err := n.tcp.Accept()
		if err != nil {
			if n.rest() {
				continue
			}
			return
		}
		s := n.take(c, &n.inside)
		if s == nil {
			return
		}
		select {
		case n.streams <- s:
		case <-n.ctx.Done():
			s.Close()
			return
		}
	}
}

func (n *network) receive() {
	buf := make([]byte, maxPacket)
	for {
		size, from, err := n.udp.ReadFromUDPAddrPort(buf)
		at := time.Now()
		if err != nil {
			if n.rest() {
				continue
			}
			return
		}
		if size == 0 {
			continue
		}
		p := &memberlist.Packet{Buf: append([]byte(nil), buf[:size]...), From: net.UDPAddrFromAddrPort(from), Timestamp: at}
		select {
		case n.packets <- p:
		case <-n.ctx.Done():
			return
		}
	}
}

// rest waits a little after an error, and reports whether to go on.
func (n *network) rest() bool {
	select {
	case <-n.ctx.Done():
		return false
	case <-time.After(errorRest):
		return true
	}
}

// Shutdown ends everything but connections, which it closes: whoever uses them ends by
// that. It returns when no socket is open any more.
func (n *network) Shutdown() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	open := append(slices.Clone(n.inside), n.outside...)
	n.mu.Unlock()
	n.end()
	n.tcp.Close()
	n.udp.Close()
	for _, s := range open {
		s.Conn.Close()
	}
	n.loops.Wait()
	return nil
}

// wait returns, after Shutdown, when whoever uses a connection has let it go.
func (n *network) wait(limit time.Duration) {
	n.mu.Lock()
	free := make(chan struct{})
	n.free = free
	n.tellFreeLocked()
	n.mu.Unlock()
	select {
	case <-free:
	case <-time.After(limit):
	}
}

// These are memberlist's names.

func (n *network) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a := n.addr()
	if v4 := a.IP.To4(); v4 != nil {
		return v4, a.Port, nil
	}
	return a.IP, a.Port, nil
}

func (n *network) PacketCh() <-chan *memberlist.Packet { return n.packets }

func (n *network) StreamCh() <-chan net.Conn { return n.streams }

func (n *network) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err == nil {
		_, err = n.udp.WriteToUDPAddrPort(b, to)
	}
	return time.Now(), err
}

func (n *network) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return n.WriteTo(b, a.Addr)
}

func (n *network) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: limit}
	c, err := d.DialContext(n.ctx, "tcp", addr)
	n.noteUnmet(addr, err)
	if err != nil {
		return nil, err
	}
	if s := n.take(c, &n.outside); s != nil {
		return s, nil
	}
	return nil, os.ErrClosed
}

func (n *network) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	return n.DialTimeout(a.Addr, limit)
}

func (n *network) noteUnmet(addr string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		delete(n.unmet, addr)
	} else {
		n.unmet[addr] = err
	}
}

// whyNot is why a peer was not joined: memberlist's err keeps of the errors that it met
// with nothing but their text.
func (n *network) whyNot(peer netip.AddrPort, err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	dial := n.unmet[peer.String()]
	if op, ok := errors.AsType[*net.OpError](dial); ok {
		return op.Err
	}
	if dial != nil {
		return dial
	}
	return fmt.Errorf("no sensible answer: %s", strings.Join(strings.Fields(err.Error()), " "))
}
