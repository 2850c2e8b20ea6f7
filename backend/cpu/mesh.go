package cpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/rendezvous"
)

const (
	// maxStrangers is how many connections may be proving themselves at once, besides
	// those that all ranks together make. When there are more, the oldest is dropped:
	// ranks prove themselves in milliseconds.
	maxStrangers = 256

	// refusedFor is how long an address that refuses connections is tried: a rank
	// listens before it gives its address away.
	refusedFor = 5 * time.Second

	// inquiry is how long the store is asked for a rank that has not come.
	inquiry = 200 * time.Millisecond

	// dialing is how many ranks are being connected to at once.
	dialing = 16

	// silence is how long a peer's host may not acknowledge anything before its
	// connections are given up.
	silence = 15 * time.Second
)

// link is a connection that has proved itself.
type link struct {
	rank int
	lane lane
	conn net.Conn
}

// join connects this rank with all others: it dials the lower ranks, and the higher
// ones dial it. It ends early when the communicator dies, as when a rank that is
// connected already gives up.
func (c *comm) join(ctx context.Context) error {
	if c.size == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout) // an earlier deadline stays
	defer cancel()
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.session.addr, "0"))
	if err != nil {
		return err
	}
	m := &mesh{
		comm: c, lis: lis, links: make(chan link), failed: make(chan error, 1),
		keys: keys{c.session.secret, fmt.Sprintf("%s/%d/%d", c.name, c.session.epoch, c.size)},
	}
	m.ctx, m.cancel = context.WithCancel(ctx)
	m.wg.Go(m.accept)
	m.wg.Go(m.dialLower)
	defer m.close()
	if err := c.session.store.Put(ctx, m.key(c.rank), []byte(lis.Addr().String())); err != nil {
		return err
	}
	return m.gather()
}

// mesh is the state of join.
type mesh struct {
	comm   *comm
	keys   keys
	lis    net.Listener
	links  chan link
	failed chan error // a rank that cannot be reached; capacity 1
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	strangers []net.Conn // guarded by mu; connections that have not proved themselves, oldest first
}

func (m *mesh) key(rank int) string {
	return fmt.Sprintf("mesh/%s/%d/%d", m.comm.name, m.comm.session.epoch, rank)
}

// close ends the goroutines of join. Nothing listens after that.
func (m *mesh) close() {
	m.cancel()
	m.lis.Close()
	m.mu.Lock()
	for _, conn := range m.strangers {
		conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// gather takes links until all peers have theirs.
func (m *mesh) gather() error {
	c := m.comm
	for missing := 2 * (c.size - 1); missing > 0; {
		select {
		case l := <-m.links:
			p := c.peers[l.rank]
			if !p.attach(l.lane, l.conn) {
				l.conn.Close() // a rank connects once
				continue
			}
			if l.lane == controlLane {
				c.wg.Go(func() { c.watch(p, l.conn) })
			}
			missing--
		case err := <-m.failed:
			return err
		case <-c.dead:
			return c.failure()
		case <-m.ctx.Done():
			return m.late()
		}
	}
	return nil
}

// late says why the mesh is not complete when the time is over: as the store or the
// dialing of a lower rank says it, which knows more, else by who has not come.
func (m *mesh) late() error {
	var who []int
	for _, p := range m.comm.peers {
		if p != nil && (p.data == nil || p.ctl == nil) {
			who = append(who, p.rank)
		}
	}
	if who[0] < m.comm.rank {
		t := time.NewTimer(verdictTimeout)
		defer t.Stop()
		select {
		case err := <-m.failed:
			return err
		case <-t.C:
		}
	}
	cause := context.Cause(m.ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("not connected with rank %s: %w", someOf(who), cause)
	}
	return fmt.Errorf("not connected with rank %s: %s: %w", someOf(who), m.inquire(who[0]), cause)
}

// someOf lists up to eight ranks.
func someOf(ranks []int) string {
	const most = 8
	text := strings.Trim(fmt.Sprint(ranks[:min(len(ranks), most)]), "[]")
	text = strings.ReplaceAll(text, " ", ", ")
	if more := len(ranks) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// inquire says what the store knows of a rank that has not come, such as its host.
func (m *mesh) inquire(rank int) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), inquiry)
	defer cancel()
	addr, err := m.comm.session.store.GetFrom(ctx, m.key(rank), m.comm.ranks[rank])
	switch e, ok := errors.AsType[*rendezvous.Error](err); {
	case ok:
		return e.Text
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("rank %d listens at %s", rank, addr)
}

// accept takes connections of whoever comes, until the listener is closed.
func (m *mesh) accept() {
	for {
		conn, err := m.lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or a connection that ended meanwhile
			if !pause(m.ctx, 10*time.Millisecond) {
				return
			}
			continue
		}
		m.arrive(conn)
		m.wg.Go(func() { m.admit(conn) })
	}
}

// arrive adds a stranger, and drops the oldest of too many.
func (m *mesh) arrive(conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.strangers = append(m.strangers, conn); len(m.strangers) > maxStrangers+2*m.comm.size {
		m.strangers[0].Close()
		m.strangers = m.strangers[1:]
	}
	if m.ctx.Err() != nil {
		conn.Close()
	}
}

// depart takes conn off the strangers.
func (m *mesh) depart(conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.strangers {
		if s == conn {
			m.strangers = append(m.strangers[:i], m.strangers[i+1:]...)
			return
		}
	}
}

// admit makes a stranger a link, or drops it.
func (m *mesh) admit(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	h, err := m.keys.admit(conn, m.comm.rank, m.comm.size)
	m.depart(conn)
	if err != nil {
		conn.Close()
		return
	}
	m.deliver(int(h.from), h.lane, conn)
}

// deliver prepares a proved connection and gives it to gather.
func (m *mesh) deliver(rank int, lane lane, conn net.Conn) {
	conn.SetDeadline(time.Time{})
	keepAlive(conn.(*net.TCPConn), lane)
	select {
	case m.links <- link{rank, lane, conn}:
	case <-m.ctx.Done():
		conn.Close()
	}
}

// keepAlive makes the kernel end a connection whose other host is silent: TCP would
// wait for a quarter of an hour, or for ever. A stopped process is not silent. An
// option that the kernel refuses is only slower to notice.
func keepAlive(conn *net.TCPConn, lane lane) {
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2})
	if lane != controlLane {
		return // data may wait for as long as the peer does not read them
	}
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
		})
	}
}

// dialLower connects to all lower ranks.
func (m *mesh) dialLower() {
	limit := make(chan struct{}, dialing)
	for rank := range m.comm.rank {
		limit <- struct{}{}
		m.wg.Go(func() {
			defer func() { <-limit }()
			if err := m.reach(rank); err != nil {
				select {
				case m.failed <- err:
				default: // one is enough
				}
			}
		})
	}
}

// reach makes both connections to rank.
func (m *mesh) reach(rank int) error {
	addr, err := m.comm.session.store.GetFrom(m.ctx, m.key(rank), m.comm.ranks[rank])
	if err != nil {
		return err
	}
	for _, lane := range []lane{dataLane, controlLane} {
		conn, err := m.dial(rank, lane, string(addr))
		if err != nil {
			return fmt.Errorf("rank %d at %s: %w", rank, addr, err)
		}
		m.deliver(rank, lane, conn)
	}
	return nil
}

// dial connects to rank at addr and proves both ends. It tries until m's context
// ends: a rank that is busy or beset by strangers may drop connections. It does not
// try for long where nobody listens, or somebody else does.
func (m *mesh) dial(rank int, lane lane, addr string) (net.Conn, error) {
	start := time.Now()
	var last error // before the context ended
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second/2) {
		conn, err := m.try(rank, lane, addr)
		if err == nil {
			return conn, nil
		}
		if last == nil || m.ctx.Err() == nil {
			last = err
		}
		switch {
		case errors.Is(err, errProof):
			return nil, err
		case errors.Is(err, syscall.ECONNREFUSED) && time.Since(start) > refusedFor:
			return nil, err
		case !pause(m.ctx, wait):
			return nil, fmt.Errorf("%w: %w", context.Cause(m.ctx), last)
		}
	}
}

func (m *mesh) try(rank int, lane lane, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	conn, err := d.DialContext(m.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(m.ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := m.keys.greet(conn, hello{lane: lane, from: uint32(m.comm.rank), to: uint32(rank)}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// pause waits for d, and reports whether ctx still goes on.
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
