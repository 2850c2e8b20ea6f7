package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// clientVersion is what gorun calls itself to ssh servers.
const clientVersion = "SSH-2.0-gorun"

const (
	raceDelay  = 250 * time.Millisecond // before the next address is tried beside a silent one (RFC 8305)
	preambleIn = 4 << 10                // bytes that a server may send before its banner
)

// stage is how far a connection came.
type stage int32

const (
	atTCP stage = iota
	atBanner
	atKeys // key exchange
	atAuth
	atSign // ssh-agent is asked for a signature
	atAgent
	atFiles // the user's own files are read
)

// bannerConn is a connection on which the server's ssh banner has come. Our own
// version line goes out at once, not when the ssh package writes it, so that waiting
// for the banner costs no round trip.
type bannerConn struct {
	net.Conn
	pre   []byte // read ahead
	said  bool   // our version line has been dropped from what the ssh package writes
	reads int    // until now, of those that acknowledge at once
}

// promptReads is more reads than there are until a command runs on the host. Until then sshd
// holds a short message back while the one before it is not acknowledged (Nagle), and our
// kernel would take 40 ms for that if there is nothing to send (delayed ACK): so it was
// behind every login, after which sshd tells its keys and then that a channel is open.
const promptReads = 64

func (c *bannerConn) Read(p []byte) (int, error) {
	if len(c.pre) > 0 {
		n := copy(p, c.pre)
		if c.pre = c.pre[n:]; len(c.pre) == 0 {
			c.pre = nil
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if tcp, ok := c.Conn.(*net.TCPConn); ok && c.reads < promptReads {
		c.reads++
		acknowledge(tcp)
	}
	return n, err
}

// acknowledge has the kernel acknowledge now what has come. It may fail, which costs time
// and nothing else.
func acknowledge(conn *net.TCPConn) {
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	}
}

func (c *bannerConn) Write(p []byte) (int, error) {
	if !c.said {
		c.said = true
		if line := clientVersion + "\r\n"; string(p) == line {
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// greet exchanges version lines. Servers may say something first: lines before the
// banner are kept for the error if no banner follows.
func (c *bannerConn) greet() error {
	if _, err := c.Conn.Write([]byte(clientVersion + "\r\n")); err != nil {
		return err
	}
	var buf [256]byte
	for !bytes.HasPrefix(c.pre, []byte("SSH-")) && !bytes.Contains(c.pre, []byte("\nSSH-")) {
		n, err := c.Conn.Read(buf[:])
		c.pre = append(c.pre, buf[:n]...)
		if err != nil {
			return c.dropped(err)
		}
		if len(c.pre) > preambleIn {
			return &DroppedError{Addr: c.RemoteAddr().String(), Text: cleanLine(string(c.pre), 200)}
		}
	}
	return nil
}

func (c *bannerConn) dropped(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	return &DroppedError{Addr: c.RemoteAddr().String(), Text: cleanLine(string(c.pre), 200), err: err}
}

// connector tries the addresses of one host.
type connector struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	port  uint16
	stage *atomic.Int32 // moved on to atBanner when an address answers
}

type connected struct {
	conn *bannerConn
	err  error
}

// connect returns a connection to the first address whose ssh banner comes. The next
// address is tried when one fails, or says nothing for a moment.
func (c *connector) connect(ctx context.Context, addrs []netip.Addr) (*bannerConn, error) {
	if len(addrs) == 1 {
		return c.try(ctx, addrs[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan connected)
	open := 0
	defer func() {
		cancel()
		for range open {
			if r := <-results; r.conn != nil {
				r.conn.Close()
			}
		}
	}()
	var errs addrErrors
	for len(addrs) > 0 || open > 0 {
		var next <-chan time.Time
		if len(addrs) > 0 {
			go func(a netip.Addr) {
				conn, err := c.try(ctx, a)
				results <- connected{conn, err}
			}(addrs[0])
			addrs = addrs[1:]
			open++
			next = time.After(raceDelay)
		}
		select {
		case r := <-results:
			open--
			if r.err == nil {
				return r.conn, nil
			}
			errs = append(errs, r.err)
		case <-next:
		}
	}
	return nil, errs
}

func (c *connector) try(ctx context.Context, addr netip.Addr) (*bannerConn, error) {
	conn, err := c.dial(ctx, "tcp", netip.AddrPortFrom(addr, c.port).String())
	if err != nil {
		return nil, err
	}
	c.stage.CompareAndSwap(int32(atTCP), int32(atBanner))
	return greeted(ctx, conn)
}

// greeted waits for the ssh banner on a connection, and closes it if that does not come.
func greeted(ctx context.Context, conn net.Conn) (*bannerConn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	bc := &bannerConn{Conn: conn}
	err := bc.greet()
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	return bc, nil
}

// addrErrors is why each address of a host failed.
type addrErrors []error

func (e addrErrors) Unwrap() []error { return e }

func (e addrErrors) Error() string {
	var texts []string
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}
