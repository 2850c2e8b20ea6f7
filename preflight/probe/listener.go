package probe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// proveWithin is how long a connection has to prove itself. Real ones take
	// milliseconds.
	proveWithin = 3 * time.Second

	// maxStrangers is how many connections may be proving themselves at once. When
	// there are more, the oldest is dropped.
	maxStrangers = 512

	// samePorts is how many ports are tried that all hosts of the job have in common.
	samePorts = 4
)

// Listener answers the probes of this job's other hosts. Whoever does not prove to know
// the job's secret is dropped within seconds, and can neither stall nor learn anything.
type Listener struct {
	self     Identity
	secret   []byte
	patience time.Duration // with who has not proved itself
	lis      *net.TCPListener
	ctx      context.Context // ends with cancel, at Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	stream   chan struct{} // capacity 1: streams take turns, so that each has the whole link

	mu        sync.Mutex
	conns     map[net.Conn]struct{} // guarded by mu; all of them
	strangers []net.Conn            // guarded by mu; those that have not proved themselves, oldest first
}

// Listen answers probes as self at addr, on a port of the range that ports are given out
// of (net.ipv4.ip_local_port_range), as the job's own will be. It is the same one on every
// host of the job if it is free, so that a host that has another's address answers, and
// says who it is. The caller closes the Listener.
func Listen(self Identity, addr netip.Addr, secret []byte) (*Listener, error) {
	return listenFor(self, addr, secret, proveWithin)
}

// listenFor is Listen; a connection has so much patience to prove itself.
func listenFor(self Identity, addr netip.Addr, secret []byte, patience time.Duration) (*Listener, error) {
	addr = addr.Unmap()
	if err := usable(addr); err != nil {
		return nil, err
	}
	if len(secret) == 0 {
		return nil, errNoSecret
	}
	if self.Host < 0 || self.Host > math.MaxInt32 {
		return nil, fmt.Errorf("no host %d", self.Host)
	}
	lis, err := listen(addr, secret)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		self: self, secret: slices.Clone(secret), patience: patience, lis: lis,
		stream: make(chan struct{}, 1), conns: map[net.Conn]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.accept)
	return l, nil
}

func listen(addr netip.Addr, secret []byte) (*net.TCPListener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // what jobs use is tried, and that is TCP
	for _, port := range commonPorts(secret) {
		if lis, err := config.Listen(context.Background(), "tcp", netip.AddrPortFrom(addr, port).String()); err == nil {
			return lis.(*net.TCPListener), nil
		}
	}
	lis, err := config.Listen(context.Background(), "tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, err
	}
	return lis.(*net.TCPListener), nil
}

// commonPorts returns ports that every host of the job knows and nobody else.
func commonPorts(secret []byte) []uint16 {
	low, high := portRange()
	ports := make([]uint16, samePorts)
	for i := range ports {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "port %d", i)
		ports[i] = low + uint16(binary.BigEndian.Uint32(mac.Sum(nil))%uint32(high-low+1))
	}
	return ports
}

// portRange returns the ports that the kernel gives out, or its default range.
func portRange() (low, high uint16) {
	const defaultLow, defaultHigh = 32768, 60999
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultLow, defaultHigh
	}
	if n, err := fmt.Sscan(string(b), &low, &high); n != 2 || err != nil || low > high || low < 1024 {
		return defaultLow, defaultHigh
	}
	return low, high
}

// Port returns the TCP port that it listens at.
func (l *Listener) Port() uint16 { return uint16(l.lis.Addr().(*net.TCPAddr).Port) }

// Close ends all connections, and returns when nothing is left of the Listener. It may be
// called more than once.
func (l *Listener) Close() error {
	l.cancel()
	err := l.lis.Close()
	l.mu.Lock()
	for conn := range l.conns {
		conn.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept takes connections of whoever comes, until the listener is closed.
func (l *Listener) accept() {
	for {
		conn, err := l.lis.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or a connection that ended meanwhile
			if !pause(l.ctx, 10*time.Millisecond) {
				return
			}
			continue
		}
		l.arrive(conn)
		l.wg.Go(func() {
			defer l.leave(conn)
			l.answer(conn)
		})
	}
}

// arrive adds a stranger, and drops the oldest of too many.
func (l *Listener) arrive(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	if l.strangers = append(l.strangers, conn); len(l.strangers) > maxStrangers {
		l.strangers[0].Close()
		l.strangers = l.strangers[1:]
	}
	if l.ctx.Err() != nil {
		conn.Close()
	}
}

// proved takes conn off the strangers.
func (l *Listener) proved(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.strangers, conn); i >= 0 {
		l.strangers = slices.Delete(l.strangers, i, i+1)
	}
}

func (l *Listener) leave(conn net.Conn) {
	conn.Close()
	l.proved(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}
