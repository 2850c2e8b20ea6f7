package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// conn runs commands on a host.
type conn interface {
	// start runs a command, given as to a login shell. It blocks until the command has
	// been taken, or the connection is closed.
	start(command string) (*session, error)

	spawn(f func()) bool // runs f in a goroutine that close waits for, and reports whether it did
	cut()                // drops the connection; waits for nothing
	close()              // drops it and waits for its goroutines
}

// workers are a connection's goroutines.
type workers struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	closed bool // guarded by mu: no goroutine may be started any more
}

func (w *workers) spawn(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.wg.Go(f)
	}
	return !w.closed
}

// end starts no more of them, has cut make those that are there end, and waits for them.
func (w *workers) end(cut func()) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	cut()
	w.wg.Wait()
}

// sshConn is a connection that has logged in. It is leaner than ssh.Client: one
// goroutine answers all that the server may ask.
type sshConn struct {
	ssh.Conn
	workers
}

func newSSHConn(c ssh.Conn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) *sshConn {
	conn := &sshConn{Conn: c}
	conn.spawn(func() {
		for chans != nil || reqs != nil {
			select {
			case ch, ok := <-chans:
				if !ok {
					chans = nil
					continue
				}
				ch.Reject(ssh.Prohibited, "not offered")
			case req, ok := <-reqs:
				if !ok {
					reqs = nil
					continue
				}
				req.Reply(false, nil) // also answers the server's keepalives
			}
		}
	})
	return conn
}

func (c *sshConn) cut()   { c.Conn.Close() }
func (c *sshConn) close() { c.end(c.cut) }

// session is one command, on a host or here. Reading its output is the caller's.
type session struct {
	channel
	stderr *tail
	ended  chan struct{} // closed when the command has ended, and its stderr was read; exit may be read then
	exit   error         // nil for status 0
}

// channel leads to a command's input and comes from its output.
type channel interface {
	io.ReadWriteCloser
	CloseWrite() error
}

func (c *sshConn) start(command string) (*session, error) {
	ch, reqs, err := c.OpenChannel("session", nil)
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
		// A server that allows one session at a time (MaxSessions 1) forgets the last one
		// a moment after it has closed it: after a round trip.
		c.SendRequest("keepalive@openssh.com", true, nil)
		ch, reqs, err = c.OpenChannel("session", nil)
	}
	if e, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
		return nil, fmt.Errorf("the server lets nothing be run (MaxSessions 0 in its sshd_config?): it said %q", cleanLine(e.Message, 200))
	}
	if err != nil {
		return nil, err
	}
	s := &session{channel: ch, stderr: &tail{limit: stderrKept}, ended: make(chan struct{}), exit: errNoExit}
	said := make(chan struct{}) // closed when all of stderr has been read
	readStderr := func() {
		defer close(said)
		s.readStderr(ch.Stderr())
	}
	if !c.spawn(readStderr) || !c.spawn(func() { s.serve(reqs, said) }) {
		return nil, net.ErrClosed
	}
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !ok {
		err = errors.New("the server does not allow commands to be run")
	}
	if err != nil {
		ch.Close()
		return nil, err
	}
	return s, nil
}

// serve notes how the command ends.
func (s *session) serve(reqs <-chan *ssh.Request, said <-chan struct{}) {
	defer close(s.ended)
	for req := range reqs {
		switch req.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(req.Payload, &m) == nil {
				if s.exit = nil; m.Status != 0 {
					s.exit = &ExitError{Status: int(m.Status)}
				}
			}
		case "exit-signal":
			var m struct {
				Signal     string
				CoreDumped bool
				Error      string
				Lang       string
			}
			if ssh.Unmarshal(req.Payload, &m) == nil {
				s.exit = &ExitError{Signal: m.Signal}
			}
		}
		req.Reply(false, nil)
	}
	<-said // it is read to its end when the channel is closed
}

func (s *session) readStderr(r io.Reader) {
	var buf [512]byte
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			s.stderr.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// wait returns how the command ended.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return s.exit
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runOutput bounds what Link.Run returns.
const runOutput = 64 << 10

// runOn runs a command without input and returns its output, standard error after
// standard output.
func runOn(ctx context.Context, c conn, command string) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	open := c.spawn(func() {
		s, err := c.start(command)
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer context.AfterFunc(ctx, func() { s.Close() })()
		s.CloseWrite()
		out, _ := io.ReadAll(io.LimitReader(s, runOutput))
		io.Copy(io.Discard, s)
		<-s.ended
		if text := s.stderr.String(); text != "" {
			out = append(out, text...)
			out = out[:min(len(out), runOutput)]
		}
		done <- result{out, s.exit}
	})
	if !open {
		return nil, net.ErrClosed
	}
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return r.out, context.Cause(ctx)
		}
		return r.out, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// remoteLink is a Link to an agent on another host.
type remoteLink struct {
	conn   conn
	agent  *session
	rest   []byte // read ahead, behind the hail
	place  place  // where gorun is on the host
	dialer *Dialer
	jump   *jump  // the last one on the way; nil: none
	rsh    string // by Options.Rsh: the name of the command whose end is told for the agent's
	phases []Phase
	closed sync.Once
}

func (l *remoteLink) Read(p []byte) (int, error) {
	if len(l.rest) > 0 {
		n := copy(p, l.rest)
		if l.rest = l.rest[n:]; len(l.rest) == 0 {
			l.rest = nil
		}
		return n, nil
	}
	return l.agent.Read(p)
}

func (l *remoteLink) Write(p []byte) (int, error) { return l.agent.Write(p) }

func (l *remoteLink) Close() error {
	l.closed.Do(l.conn.close)
	return nil
}

func (l *remoteLink) Run(ctx context.Context, args ...string) ([]byte, error) {
	command, err := l.place.command(l.dialer, args)
	if err != nil {
		return nil, err
	}
	return runOn(ctx, l.conn, command)
}

func (l *remoteLink) Stderr() string { return l.agent.stderr.String() }

func (l *remoteLink) Timeline() []Phase { return l.phases }

func (l *remoteLink) Wait(ctx context.Context) error {
	err := l.agent.wait(ctx)
	if err != nil && l.rsh != "" {
		return fmt.Errorf("--rsh %s: %w", l.rsh, err)
	}
	return err
}
