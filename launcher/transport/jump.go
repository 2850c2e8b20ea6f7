package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

// parseJump reads the value of a ProxyJump: hosts with commas between, in the order in
// which they are passed. "none" is no host.
func parseJump(value string) ([]hostfile.Host, error) {
	value, _, _ = strings.Cut(value, "#")
	if value = strings.TrimSpace(value); strings.EqualFold(value, "none") {
		return nil, nil
	}
	var hops []hostfile.Host
	for text := range strings.SplitSeq(value, ",") {
		h, err := parseHop(text)
		if err != nil {
			return nil, err
		}
		hops = append(hops, h)
	}
	return hops, nil
}

// parseHop reads [user@]host[:port] or ssh://[user@]host[:port].
func parseHop(text string) (h hostfile.Host, err error) {
	rest, uri := strings.CutPrefix(text, "ssh://")
	if uri {
		rest = strings.TrimSuffix(rest, "/")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.User, rest = rest[:at], rest[at+1:]
		if h.User == "" {
			return h, fmt.Errorf("no user before @ in %q", text)
		}
	}
	port := ""
	if after, bracketed := strings.CutPrefix(rest, "["); bracketed {
		end := strings.IndexByte(after, ']')
		if end < 0 {
			return h, fmt.Errorf("no ] in %q", text)
		}
		h.Name, rest = after[:end], after[end+1:]
		if rest != "" && rest[0] != ':' {
			return h, fmt.Errorf("no : behind ] in %q", text)
		}
		port = strings.TrimPrefix(rest, ":")
	} else if strings.Count(rest, ":") == 1 || uri {
		h.Name, port, _ = strings.Cut(rest, ":")
	} else {
		h.Name = rest // an IPv6 address has more colons
	}
	if h.Name == "" || strings.HasPrefix(h.Name, "-") || strings.ContainsAny(h.Name, " \t/@") {
		return h, fmt.Errorf("%q names no host", text)
	}
	if port != "" {
		if h.Port, err = strconv.Atoi(port); err != nil || h.Port < 1 || h.Port > 65535 {
			return h, fmt.Errorf("bad port in %q", text)
		}
	}
	return h, nil
}

// jumpHost is the last of the hosts in front of this one, as far as that is known; "" if
// there is none.
func (e *evaluation) jumpHost() string {
	d := e.values["proxy"]
	if d == nil || d.key != "proxyjump" {
		return ""
	}
	hops, err := parseJump(d.rest)
	if err != nil || len(hops) == 0 {
		return ""
	}
	return hops[len(hops)-1].Name
}

// noJump reports whether "ProxyJump none" has been read: it leaves room for a ProxyCommand.
func (e *evaluation) noJump() bool {
	d := e.values["proxy"]
	return d != nil && d.key == "proxyjump" && strings.EqualFold(d.args[0], "none")
}

// proxied reports whether something else than a connection of one's own leads to the host.
func (e *evaluation) proxied() bool {
	d := e.values["proxy"]
	return d != nil && !strings.EqualFold(d.args[0], "none")
}

// jumpName is how the user would write a chain of hosts to jump through.
func jumpName(hops []hostfile.Host) string {
	var names []string
	for _, h := range hops {
		name := h.Name
		if h.Port != 0 {
			name = net.JoinHostPort(name, strconv.Itoa(h.Port))
		}
		if h.User != "" {
			name = h.User + "@" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// jumps are the connections to the hosts through which others are reached: one for each
// chain of hosts, for all that are behind it, until the Dialer is closed.
type jumps struct {
	d    *Dialer
	ctx  context.Context // ends with the Dialer
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*jump // guarded by mu, by jumpName
}

// jump is one such connection.
type jump struct {
	name   string        // of the whole chain
	host   string        // the last one's
	done   chan struct{} // closed when it is made, or conn is nil and err says why not
	conn   *sshConn
	before *jump // through which it was made; nil: none
	err    *JumpError
	gone   chan struct{} // closed when the connection has ended
	over   time.Time     // when err was set
}

func newJumps(d *Dialer) *jumps {
	j := &jumps{d: d, open: map[string]*jump{}}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// close drops the connections and waits for what they have started.
func (js *jumps) close() {
	js.stop()
	js.wg.Wait()
}

// through returns the connection to the last of some hosts. It is made when it is first
// asked for, and made anew if it has broken since.
func (js *jumps) through(hops []hostfile.Host) *jump {
	name := jumpName(hops)
	js.mu.Lock()
	defer js.mu.Unlock()
	if j := js.open[name]; j != nil && !j.broken() {
		return j
	}
	j := &jump{name: name, host: hops[len(hops)-1].Name, done: make(chan struct{}), gone: make(chan struct{})}
	js.open[name] = j
	js.wg.Go(func() { js.connect(j, hops) })
	return j
}

// shared is how long the failure of a jump host is that of all who ask.
const shared = time.Second

// broken reports whether the connection was there, and is no more, or could not be made
// some time ago.
func (j *jump) broken() bool {
	select {
	case <-j.gone:
		return j.conn != nil || time.Since(j.over) > shared
	default:
		return false
	}
}

// connect makes a connection and keeps it until it breaks or the Dialer is closed.
func (js *jumps) connect(j *jump, hops []hostfile.Host) {
	defer close(j.gone)
	conn, before, err := js.reach(hops[len(hops)-1], hops[:len(hops)-1])
	if err != nil {
		j.err, j.over = &JumpError{Host: j.host, Err: err}, time.Now()
		close(j.done)
		return
	}
	js.d.log.Info("jump host connected", "host", j.name)
	j.conn, j.before = conn, before
	close(j.done)
	defer context.AfterFunc(js.ctx, func() { conn.Conn.Close() })()
	conn.Wait()
	conn.close()
}

// reach logs in to a jump host, which is a host like any other, but that it is never this
// machine, and that the hosts in front of it may be given. through is the connection that
// it was reached by, if that is one to another jump host.
func (js *jumps) reach(h hostfile.Host, before []hostfile.Host) (conn *sshConn, through *jump, err error) {
	a := js.d.attempt(js.ctx, h)
	defer a.end()
	config, err := a.configuration()
	if err == nil {
		a.s, err = config.lookup(a.ctx, h, lookupOptions{acceptNew: js.d.opts.AcceptNewHostKeys, jumps: before})
	}
	if err == nil {
		err = config.leads(a.ctx, h, a.s)
	}
	if err != nil {
		return nil, nil, a.fail(err)
	}
	a.s.elsewhere = true
	conn, _, err = a.reach()
	return conn, a.jump, a.fail(err)
}

// leads follows the jump hosts of a host to one that is reached by itself. That there is
// none must be found before one of them waits for another.
func (c *sshConfig) leads(ctx context.Context, h hostfile.Host, s *settings) error {
	path := []string{h.Name}
	for seen := map[string]bool{}; len(s.jumps) > 0; {
		name := jumpName(s.jumps)
		if path = append(path, name); seen[name] || s.jumps[len(s.jumps)-1] == h {
			return fmt.Errorf("its ProxyJump comes back to it: %s; ProxyJump none in a Host block for the last of these, above the block with that ProxyJump, ends the circle", strings.Join(path, " by way of "))
		}
		seen[name] = true
		last := len(s.jumps) - 1
		next, err := c.lookup(ctx, s.jumps[last], lookupOptions{jumps: s.jumps[:last]})
		if err != nil {
			return err
		}
		s = next
	}
	return nil
}

// throughJump connects to the host through the last of its jump hosts. Waiting for that
// one is not on this host's time, and takes none of the Dialer's slots.
func (a *attempt) throughJump() (*bannerConn, error) {
	a.trail.mark("jump")
	j := a.d.jumps.through(a.s.jumps)
	a.jump = j
	a.leave()
	a.budget.pause()
	select {
	case <-j.done:
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
	if j.err != nil {
		return nil, j.err
	}
	if err := a.enter(); err != nil {
		return nil, err
	}
	a.trail.mark("connect")
	target := a.s.target()
	a.peer = target + " through " + j.name
	return a.patiently(func() (*bannerConn, error) {
		conn, err := j.conn.forward(a.ctx, a.s.hostname, a.s.port, forwardAddr{target, j.name})
		if err != nil {
			return nil, err
		}
		a.stage.CompareAndSwap(int32(atTCP), int32(atBanner))
		return greeted(a.ctx, conn)
	})
}

// forward opens a connection from the server to another host. The server may take its
// time to say that it cannot: what comes after the end of ctx is closed.
func (c *sshConn) forward(ctx context.Context, host string, port int, addr forwardAddr) (net.Conn, error) {
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0})
	type result struct {
		ch  ssh.Channel
		err error
	}
	done := make(chan result)
	open := c.spawn(func() {
		ch, reqs, err := c.OpenChannel("direct-tcpip", payload)
		if err == nil {
			c.spawn(func() { ssh.DiscardRequests(reqs) })
		}
		select {
		case done <- result{ch, err}:
		case <-ctx.Done():
			if err == nil {
				ch.Close()
			}
		}
	})
	if !open {
		return nil, &ForwardError{Jump: addr.jump, Target: addr.target, Text: "the connection to it has ended", again: true}
	}
	select {
	case r := <-done:
		if r.err != nil {
			return nil, forwardFailure(r.err, addr)
		}
		return c.join(r.ch, addr), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func forwardFailure(err error, addr forwardAddr) *ForwardError {
	e := &ForwardError{Jump: addr.jump, Target: addr.target}
	refused, ok := errors.AsType[*ssh.OpenChannelError](err)
	if !ok {
		e.Text, e.again = "the connection to it has ended: "+err.Error(), true
		return e
	}
	e.Text, e.Prohibited = cleanLine(refused.Message, 200), refused.Reason == ssh.Prohibited
	e.again = refused.Reason == ssh.ResourceShortage || refused.Reason == ssh.ConnectionFailed && strings.Contains(refused.Message, "refused")
	return e
}

// forwarded is one end of a pipe whose other end is joined to a channel. The channel
// itself would not do: a call of its Read or Write that the server does not let return
// is not ended by its Close.
type forwarded struct {
	net.Conn
	addr forwardAddr
}

// forwardAddr is where such a connection leads, as a net.Addr.
type forwardAddr struct{ target, jump string }

func (a forwardAddr) Network() string { return "ssh" }
func (a forwardAddr) String() string  { return a.target + " through " + a.jump }

func (f *forwarded) RemoteAddr() net.Addr { return f.addr }

// forwardBuffer is what a connection through a jump host holds, each way.
const forwardBuffer = 8 << 10

// join makes a connection of a channel.
func (c *sshConn) join(ch ssh.Channel, addr forwardAddr) net.Conn {
	near, far := net.Pipe()
	c.spawn(func() {
		defer far.Close()
		io.CopyBuffer(far, ch, make([]byte, forwardBuffer))
	})
	c.spawn(func() {
		defer ch.Close()
		io.CopyBuffer(ch, far, make([]byte, forwardBuffer))
	})
	return &forwarded{near, addr}
}
