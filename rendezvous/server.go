package rendezvous

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// helloTimeout is how long a connection may take to say hello.
const helloTimeout = 5 * time.Second

// acceptPause is how long a Server waits when the system has no file descriptor or
// memory for a connection.
const acceptPause = 50 * time.Millisecond

// ServerConfig is what a host's Server must know of the job. All fields are needed.
type ServerConfig struct {
	Secret []byte // SecretLen bytes
	Ranks  []int  // the ranks of this host
	UID    int    // only processes of this user are served

	// Send passes a request to the head. It must not block or call the Server, and
	// must keep the order of calls, which come one at a time and not after Close.
	// r.Value must not be changed.
	Send func(r Request)
}

// Server serves the ranks of one host on a unix socket. Its methods are safe for
// concurrent use.
//
// What a client can do to it is bounded: a rank has at most 64 connections and 1024
// requests waiting; connections that have not said hello are closed after 5 seconds,
// those that were refused after a second, and either earlier, oldest first, when there
// are too many.
type Server struct {
	uid      int
	listener *net.UnixListener
	done     chan struct{}
	wake     chan struct{} // the hub's next tick may have changed
	running  sync.WaitGroup

	mu        sync.Mutex
	hub       *hub               // guarded by mu
	peers     map[*peer]struct{} // guarded by mu
	strangers *list.List         // guarded by mu; peers before hello, oldest first
	most      int                // of strangers
	closed    bool               // guarded by mu
	paused    time.Duration      // guarded by mu; for which the hub's clock stood still, in all
	stands    time.Time          // guarded by mu; where that clock stands still now; zero: it goes
}

// Listen starts a Server on a new socket at path, of mode 0600. The directory that
// holds it must belong to cfg.UID, with mode 0700; path has at most MaxPath bytes.
func Listen(path string, cfg ServerConfig) (*Server, error) {
	if err := cfg.check(path); err != nil {
		return nil, err
	}
	if err := checkDir(filepath.Dir(path), cfg.UID); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := newServer(cfg)
	s.listener = l
	s.running.Go(s.accept)
	s.running.Go(s.tick)
	return s, nil
}

func newServer(cfg ServerConfig) *Server {
	return &Server{
		uid: cfg.UID, done: make(chan struct{}), wake: make(chan struct{}, 1),
		hub: newHub(cfg.Secret, cfg.Ranks, cfg.Send), peers: map[*peer]struct{}{},
		strangers: list.New(), most: 256 + 2*len(cfg.Ranks),
	}
}

func (c *ServerConfig) check(path string) error {
	switch {
	case len(path) > MaxPath:
		return fmt.Errorf("path %q has %d bytes; the limit is %d", path, len(path), MaxPath)
	case len(c.Secret) != SecretLen:
		return fmt.Errorf("secret of %d bytes; want %d", len(c.Secret), SecretLen)
	case len(c.Ranks) == 0:
		return errors.New("no ranks to serve")
	case c.Send == nil:
		return errors.New("no way to the head")
	}
	return nil
}

// checkDir makes sure that nobody else can come near the socket, not even in the
// moment before its mode is set.
func checkDir(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory", dir)
	case !ok || int(st.Uid) != uid:
		return fmt.Errorf("directory %q does not belong to user %d", dir, uid)
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("directory %q has mode %#o; want 0700", dir, info.Mode().Perm())
	}
	return nil
}

// Deliver takes a reply of the head. It does not block on ranks, takes over r, and
// ignores a reply that nobody waits for.
func (s *Server) Deliver(r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.hub.deliver(s.nowLocked(), r)
		s.poke()
	}
}

// Pause stops the clock of deadlines while the job is suspended, as the head does
// with the Engine's, and lets it go on.
func (s *Server) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on:
		s.stands = s.nowLocked()
	case !s.stands.IsZero():
		s.paused, s.stands = time.Since(s.stands), time.Time{}
		s.poke()
	}
}

// nowLocked is the hub's time.
func (s *Server) nowLocked() time.Time {
	if !s.stands.IsZero() {
		return s.stands
	}
	return time.Now().Add(-s.paused)
}

// Close removes the socket, closes all connections (waiting clients get ErrGone)
// and returns when every goroutine of the Server has ended.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.shut()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) shut() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for p := range s.peers {
		p.conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// poke lets the tick loop look at the time again.
func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			s.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if !s.pause(acceptPause) {
				return
			}
		}
	}
}

// pause waits for d; it reports false when the Server is being closed.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// admit checks who is at the other end of conn, and serves it.
func (s *Server) admit(conn *net.UnixConn) {
	uid, err := peerUID(conn)
	if err == nil && uid == s.uid {
		s.serve(quicken(conn), nil)
		return
	}
	s.serve(conn, invalid("this store serves user %d; you are user %d", s.uid, uid))
}

// serve starts the goroutines of a connection; why is why it is refused, or nil.
func (s *Server) serve(conn net.Conn, why *Error) {
	p := newPeer(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return
	}
	s.unknown(p)
	s.peers[p] = struct{}{}
	s.running.Go(func() { s.run(p, why) })
}

// run reads p's requests until it leaves or is refused.
func (s *Server) run(p *peer, why *Error) {
	var writer sync.WaitGroup
	writer.Go(p.write)
	if why != nil {
		p.answer(refusal(0, why))
	}
	refused := why != nil || s.read(p)
	s.mu.Lock()
	if !s.closed {
		s.hub.leave(s.nowLocked(), &p.session)
		s.poke()
	}
	if refused {
		s.unknown(p)
	}
	s.mu.Unlock()
	p.finish()
	writer.Wait()
	if refused {
		p.drain()
	}
	s.mu.Lock()
	s.known(p)
	delete(s.peers, p)
	s.mu.Unlock()
	p.conn.Close()
}

// read serves p until it leaves or says nothing, or until what it sends is refused.
func (s *Server) read(p *peer) (refused bool) {
	p.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	for p.room() {
		r, err := readRequest(p.in, p.session.epoch)
		if e, ok := errors.AsType[*Error](err); ok {
			p.answer(refusal(r.ID, e))
			return true
		}
		if err != nil {
			return false
		}
		if !s.handle(p, r) {
			return true
		}
	}
	return false
}

func (s *Server) handle(p *peer, r Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.hub.handle(s.nowLocked(), &p.session, r) {
		return false
	}
	if p.stranger != nil {
		s.known(p)
		p.conn.SetReadDeadline(time.Time{})
	}
	if r.Op == opBarrier || r.Op == opCancel {
		s.poke()
	}
	return true
}

// unknown puts p among the strangers: those that have not said hello, and those that
// are on their way out; s.mu is held. When there are too many, the oldest must go: they
// cost memory, and who is honest says hello, or reads its last answer, at once.
func (s *Server) unknown(p *peer) {
	if p.stranger != nil {
		return
	}
	if s.strangers.Len() >= s.most {
		s.strangers.Remove(s.strangers.Front()).(*peer).conn.Close()
	}
	p.stranger = s.strangers.PushBack(p)
}

// known takes p out of the strangers; s.mu is held.
func (s *Server) known(p *peer) {
	if p.stranger != nil {
		s.strangers.Remove(p.stranger)
		p.stranger = nil
	}
}

// tick sends the hub's reports when they are due.
func (s *Server) tick() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		case <-timer.C:
		}
		s.mu.Lock()
		now := s.nowLocked()
		s.hub.tick(now)
		next, stands := s.hub.next(), !s.stands.IsZero()
		s.mu.Unlock()
		timer.Stop()
		if !next.IsZero() && !stands {
			timer.Reset(next.Sub(now))
		}
	}
}

func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var got error
	err = raw.Control(func(fd uintptr) {
		cred, got = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, got); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
