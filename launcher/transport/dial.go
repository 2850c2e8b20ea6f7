package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

// attempt is one Dial: one host on its way.
type attempt struct {
	d      *Dialer
	host   hostfile.Host
	s      *settings // nil for a host that is plainly local, and by Options.Rsh
	rsh    []string  // by Options.Rsh: what runs cat on the host
	caller context.Context
	ctx    context.Context // ends with the caller's, or with errBudget
	cancel context.CancelCauseFunc
	budget *budget
	trail  trail
	stage  atomic.Int32
	peer   string // addresses being tried, for messages
	said   *tail  // what a ProxyCommand said
	jump   *jump  // through which the last try went; nil: none
	tries  int
	seated bool // holds one of the Dialer's slots
}

// trail is when the phases of a Dial began.
type trail struct {
	start time.Time

	mu     sync.Mutex
	phases []Phase // guarded by mu
}

func (t *trail) mark(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.phases); n == 0 || t.phases[n-1].Name != name {
		t.phases = append(t.phases, Phase{name, time.Since(t.start)})
	}
}

func (t *trail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.phases); n > 0 {
		return t.phases[n-1].Name
	}
	return "config"
}

func (t *trail) all() []Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Phase(nil), t.phases...)
}

// prepare begins an attempt. It says whether the host is this machine as far as that
// is known without asking a name server. ssh_config may send a host's name elsewhere,
// but is not asked about a host that the user did not write down.
func (d *Dialer) prepare(ctx context.Context, h hostfile.Host) (a *attempt, local bool, err error) {
	a = d.attempt(ctx, h)
	h.Name = h.Target() // for ssh; people know the host by its name
	named := d.machine().is(h)
	if named && h.Line == 0 || d.rsh != nil {
		return a, named, nil
	}
	config, err := a.configuration()
	if err == nil { // it may wait for programs, which have time limits of their own
		a.s, err = config.lookup(a.ctx, h, lookupOptions{port: d.opts.Port, acceptNew: d.opts.AcceptNewHostKeys})
	}
	if err != nil && !named {
		a.end()
		return nil, false, a.fail(err)
	}
	if local = named && (err != nil || !a.s.elsewhere); !local {
		d.doubt(a.s.doubts)
	}
	return a, local, nil
}

func (d *Dialer) attempt(ctx context.Context, h hostfile.Host) *attempt {
	a := &attempt{d: d, host: h, caller: ctx, trail: trail{start: time.Now()}}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.budget = newBudget(d.opts.ConnectTimeout, d.keys.prompts.recess.spent, a.cancel)
	return a
}

// configuration reads ssh's files, on the host's time.
func (a *attempt) configuration() (*sshConfig, error) {
	a.stage.Store(int32(atFiles))
	a.budget.resume()
	defer a.budget.pause()
	return await(a.ctx, a.d.config)
}

// end frees what the attempt holds.
func (a *attempt) end() {
	a.budget.pause()
	a.leave()
	a.cancel(nil)
}

// enter waits for one of the Dialer's slots, in turn, off the host's clock.
func (a *attempt) enter() error {
	if a.seated {
		return nil
	}
	a.budget.pause()
	select {
	case a.d.slots <- struct{}{}:
		a.seated = true
		a.budget.resume()
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

func (a *attempt) leave() {
	if a.seated {
		a.seated = false
		<-a.d.slots
	}
}

// reach connects to the host and logs in, trying again what may be passing trouble.
// It says so if the name turns out to be this machine's.
func (a *attempt) reach() (conn *sshConn, local bool, err error) {
	for {
		conn, local, err = a.once()
		if err == nil {
			return conn, local, nil
		}
		rest := a.budget.remaining()
		left := min(rest, patience(err, stage(a.stage.Load()), a.budget.total)-(a.budget.total-rest))
		wait := backoff(a.tries)
		if wait >= left || a.ctx.Err() != nil {
			return nil, false, err
		}
		a.d.log.Info("trying again", "host", a.host.Name, "in", wait.Round(time.Millisecond), "err", err)
		if err := a.rest(wait); err != nil {
			return nil, false, err
		}
	}
}

// rest waits between two tries, without a slot.
func (a *attempt) rest(d time.Duration) error {
	a.leave()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

// once makes one try.
func (a *attempt) once() (*sshConn, bool, error) {
	if err := a.enter(); err != nil {
		return nil, false, err
	}
	a.tries++
	a.stage.Store(int32(atTCP))
	conn, local, err := a.route()
	if err != nil || local {
		return nil, local, err
	}
	if err := a.enter(); err != nil {
		conn.Close()
		return nil, false, err
	}
	client, err := a.handshake(conn)
	return client, false, err
}

// route makes the connection on which ssh is to be spoken: through another host, by a
// command, or to the host itself, which may turn out to be this machine.
func (a *attempt) route() (conn *bannerConn, local bool, err error) {
	if len(a.s.jumps) == 0 && a.s.command == "" {
		return a.direct()
	}
	if err = a.mayConnect(); err != nil {
		return nil, false, err
	}
	if a.s.command != "" {
		conn, err = a.throughCommand()
	} else {
		conn, err = a.throughJump()
	}
	return conn, false, err
}

// mayConnect reports what forbids a connection, if something does.
func (a *attempt) mayConnect() error {
	switch {
	case a.s.problem != nil:
		return a.s.problem
	case a.s.user == "":
		return errors.New("this user has no name to log in with")
	}
	return nil
}

// direct connects to one of the host's addresses.
func (a *attempt) direct() (*bannerConn, bool, error) {
	a.trail.mark("resolve")
	a.peer = "the address of " + a.s.shown()
	addrs, err := resolve(a.ctx, a.s.shown(), a.budget.total) // which finds names without regard to case
	if err == nil && !a.s.elsewhere && a.d.machine().has(addrs) {
		return nil, true, nil
	}
	if no := a.mayConnect(); no != nil {
		return nil, false, no
	}
	if err == nil {
		addrs, err = a.s.ofFamily(addrs)
	}
	if err != nil {
		return nil, false, err
	}
	a.trail.mark("connect")
	var peers []string
	for _, addr := range addrs {
		peers = append(peers, netip.AddrPortFrom(addr, uint16(a.s.port)).String())
	}
	a.peer = strings.Join(peers, ", ")
	dial := a.d.dialTCP
	if a.s.bound() {
		if dial, err = a.s.boundDial(a.ctx, a.budget.total); err != nil {
			return nil, false, err
		}
	}
	c := connector{dial: dial, port: uint16(a.s.port), stage: &a.stage}
	conn, err := a.patiently(func() (*bannerConn, error) { return c.connect(a.ctx, addrs) })
	return conn, false, err
}

// patiently makes a connection. It gives up its slot while nothing answers: dead hosts
// must not keep others waiting. connect must end when a.ctx does.
func (a *attempt) patiently(connect func() (*bannerConn, error)) (*bannerConn, error) {
	type result struct {
		conn *bannerConn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := connect()
		done <- result{conn, err}
	}()
	slow := time.NewTimer(slotPatience)
	defer slow.Stop()
	for {
		select {
		case r := <-done:
			return r.conn, r.err
		case <-slow.C:
			a.leave()
		}
	}
}

// slotPatience is how long a connection that does not answer keeps its slot.
const slotPatience = time.Second

// handshake does the key exchange and logs in. It closes conn if it fails.
func (a *attempt) handshake(conn net.Conn) (*sshConn, error) {
	stop := context.AfterFunc(a.ctx, func() { conn.Close() })
	defer stop()
	check, l, err := a.secrets()
	if err != nil {
		conn.Close()
		return nil, err
	}
	a.stage.Store(int32(atKeys))
	config := &ssh.ClientConfig{
		Config:            ssh.Config{Ciphers: a.s.algorithms.ciphers, MACs: a.s.algorithms.macs, KeyExchanges: a.s.algorithms.kex},
		User:              a.s.user,
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: a.s.algorithms.hostKeyAlgorithms(check.lines()),
		HostKeyCallback:   a.authAfter(check.callback),
		AuthCallback:      l.next,
		BannerCallback:    a.banner,
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, a.s.hostname, config)
	if err != nil {
		return nil, a.explain(err, check, l)
	}
	if !stop() {
		c.Close()
		return nil, context.Cause(a.ctx)
	}
	a.stage.Store(int32(atAgent))
	return newSSHConn(c, chans, reqs), nil
}

// secrets reads known_hosts and the user's keys.
func (a *attempt) secrets() (*hostKeyCheck, *login, error) {
	a.stage.Store(int32(atFiles))
	check, err := await(a.ctx, func() (*hostKeyCheck, error) { return a.d.hosts.check(a.s) })
	if err != nil {
		return nil, nil, err
	}
	a.d.keys.agent(a.s.agent).keys() // it has a time limit of its own, and Close waits for it
	l, err := await(a.ctx, func() (*login, error) {
		l := &login{ctx: a.ctx, stage: &a.stage, user: a.s.user, noKeys: a.s.noKeys, accepted: &a.s.algorithms}
		l.rest, l.skipped = a.d.keys.candidates(a.s)
		return l, nil
	})
	return check, l, err
}

// authAfter notes that the login begins once the host's key is found good. In later key
// exchanges, when the attempt is over, no file is used.
func (a *attempt) authAfter(check ssh.HostKeyCallback) ssh.HostKeyCallback {
	return func(name string, addr net.Addr, key ssh.PublicKey) error {
		if stage(a.stage.Load()) != atKeys {
			return check(name, addr, key)
		}
		_, err := await(a.ctx, func() (struct{}, error) { return struct{}{}, check(name, addr, key) })
		if err == nil && a.stage.CompareAndSwap(int32(atKeys), int32(atAuth)) {
			a.trail.mark("auth")
		}
		return err
	}
}

func (a *attempt) banner(text string) error {
	if text = cleanLine(text, 1000); text != "" && a.d.log.Enabled(a.ctx, slog.LevelInfo) {
		a.d.log.Info("login banner", "host", a.host.Name, "text", text)
	}
	return nil
}

// explain finds the reason behind the error of a handshake.
func (a *attempt) explain(err error, check *hostKeyCheck, l *login) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if why := check.failure(); why != nil {
		return why
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the ssh package's "handshake failed"
	}
	if stage(a.stage.Load()) == atAuth {
		return l.failure(err)
	}
	return fmt.Errorf("key exchange: %w", err)
}

// fail makes the error that Dial returns.
func (a *attempt) fail(err error) error {
	if err == nil {
		return nil
	}
	if a.caller.Err() != nil {
		return context.Cause(a.caller)
	}
	e := &HostError{Host: a.host.Name, Rsh: a.rsh, Phase: a.trail.last(), Tries: a.tries, Err: err}
	if a.s != nil {
		e.Addr, e.Config, e.Unused, e.Doubts = a.s.address(), a.s.config, a.s.unused, a.s.doubts[:min(maxDoubts, len(a.s.doubts))]
		e.Unread = a.d.unreadable()
	}
	if _, ok := err.(*JumpError); ok {
		e.Addr, e.Unused, e.Doubts, e.Unread = "", nil, nil, nil // it is not about this host
	}
	if errors.Is(err, errBudget) || errors.Is(context.Cause(a.ctx), errBudget) {
		e.Err = a.timeout(err)
	}
	return e
}

// timeout says how far the attempt came before its time was over.
func (a *attempt) timeout(err error) error {
	if t, ok := errors.AsType[*TimeoutError](err); ok {
		return t
	}
	t := &TimeoutError{After: a.budget.total}
	if a.said != nil {
		t.Output = a.said.String()
	}
	switch stage(a.stage.Load()) {
	case atTCP:
		t.Reached = "no answer from " + a.peer
	case atBanner:
		t.Reached = "connected to " + a.peer + ", but no ssh banner came"
	case atKeys:
		t.Reached = "the ssh banner came, but the key exchange stalled (path MTU?)"
	case atAuth:
		t.Reached = "the key exchange is done, but the login was not answered"
	case atSign:
		t.Reached = "the host takes a key of ssh-agent, but ssh-agent did not sign with it (a key to be touched?)"
	case atFiles:
		t.Reached = "a file in ~/.ssh, or one that is named there, was not read (file server down?)"
	default:
		if a.rsh != nil {
			t.Reached = byRsh
			break
		}
		if a.s == nil {
			t.Reached = "gorun's agent was started on this machine, but did not speak"
			break
		}
		t.Reached = "logged in, but the host did not start gorun's agent"
	}
	return t
}
