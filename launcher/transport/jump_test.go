package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

func TestParseJump(t *testing.T) {
	tests := []struct{ text, want string }{
		{"j", "j"}, {"me@j:22", "me@j:22"}, {"a,b,c", "a,b,c"}, {"none", ""}, {"NONE", ""}, {"a # why", "a"},
		{"ssh://me@j:22/", "me@j:22"}, {"ssh://j", "j"}, {"[fd00::1]:3", "[fd00::1]:3"}, {"fd00::1", "fd00::1"}, {"u@[fd00::1]", "u@fd00::1"},
		{"u@v@j", "u@v@j"},
		{"", `"" names no host`}, {"a,,b", `"" names no host`}, {"@j", `no user before @ in "@j"`}, {"j:0", `bad port in "j:0"`}, {"j:x", `bad port in "j:x"`},
		{"-oProxyCommand=x", `"-oProxyCommand=x" names no host`}, {"[fd00::1", `no ] in "[fd00::1"`}, {"[fd00::1]x", `no : behind ] in "[fd00::1]x"`}, {"a b", `"a b" names no host`},
	}
	for _, tt := range tests {
		hops, err := parseJump(tt.text)
		got := jumpName(hops)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: got %q; want %q", tt.text, got, tt.want)
		}
		if again, err := parseJump(jumpName(hops)); err == nil && jumpName(again) != jumpName(hops) {
			t.Errorf("%q: %q is read as %q", tt.text, jumpName(hops), jumpName(again))
		}
	}
}

// forwardAll connects to wherever a client asks.
func forwardAll(nc ssh.NewChannel) {
	var m struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	ssh.Unmarshal(nc.ExtraData(), &m)
	conn, err := net.Dial("tcp", net.JoinHostPort(m.Host, fmt.Sprint(m.Port)))
	if err != nil {
		nc.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	go func() { io.Copy(ch, conn); ch.Close() }()
	io.Copy(conn, ch)
	conn.Close()
}

// behind returns n servers and lines of ssh_config that name them gpu0 and so on.
func behind(t *testing.T, n int, jump string) (lines []string) {
	for i := range n {
		s := newFakeServer(t, "127.0.0.1:0").start()
		lines = append(lines, fmt.Sprintf("Host gpu%d\nHostName 127.0.0.1\nPort %d\nProxyJump %s", i, s.port(), jump))
	}
	return lines
}

func jumpHost(name string, s *fakeServer) string {
	return fmt.Sprintf("Host %s\nHostName 127.0.0.1\nUser %s\nPort %d", name, name, s.port())
}

// dialMany dials gpu0 and so on at the same time.
func dialMany(t *testing.T, d *Dialer, n int) (links []Link, errs []error) {
	links, errs = make([]Link, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { links[i], errs[i] = dial(t, d, hostfile.Host{Name: fmt.Sprintf("gpu%d", i), Line: 1}) })
	}
	wg.Wait()
	return links, errs
}

// All hosts behind a jump host share one connection to it, also a host that is named in a
// chain and one that has a jump host of its own.
func TestJump(t *testing.T) {
	a, b := newFakeServer(t, "127.0.0.1:0").start(), newFakeServer(t, "127.0.0.1:0").start()
	config := append(behind(t, 6, "b"), jumpHost("a", a), jumpHost("b", b)+"\nProxyJump a")
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...); o.Fanout = 2 })
	links, errs := dialMany(t, d, 6)
	for i, l := range links {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if got := ask(t, l, fmt.Sprint("ping ", i)); got != fmt.Sprint("ping ", i) {
			t.Errorf("gpu%d: got %q; want the line back", i, got)
		}
	}
	if a.count() != 1 || b.count() != 1 {
		t.Errorf("got %d and %d connections to the jump hosts; want one each", a.count(), b.count())
	}
	var names []string
	for _, p := range links[0].Timeline() {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "jump connect auth agent ready" {
		t.Errorf("phases: got %s", got)
	}
}

func TestJumpChain(t *testing.T) {
	a, b := newFakeServer(t, "127.0.0.1:0").start(), newFakeServer(t, "127.0.0.1:0").start()
	// The chain counts, not what ssh_config says of b.
	config := append(behind(t, 2, "a,b"), jumpHost("a", a), jumpHost("b", b)+"\nProxyJump nowhere\nProxyCommand false")
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	_, errs := dialMany(t, d, 2)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if a.count() != 1 || b.count() != 1 {
		t.Errorf("got %d and %d connections to the jump hosts; want one each", a.count(), b.count())
	}
}

// A jump host that cannot be reached is one error, shared by all hosts behind it.
func TestJumpUnreachable(t *testing.T) {
	silent := newFakeServer(t, "127.0.0.1:0")
	silent.greeting = func(net.Conn, int) bool { <-silent.hang; return false }
	silent.start()
	tests := []struct{ name, config, want string }{
		{"down", fmt.Sprintf("Host a\nHostName 127.0.0.1\nPort %d", freePort(t)), "refused"},
		{"hangs", jumpHost("a", silent), "no ssh banner came in 1s"},
		{"circle", "Host a b\nHostName 127.0.0.1\nMatch originalhost a\nProxyJump b\nMatch originalhost b\nProxyJump a", "its ProxyJump comes back to it: a by way of b by way of a; ProxyJump none in a Host block for the last of these, above the block with that ProxyJump, ends"},
		{"itself", "Host *\nProxyJump a", "its ProxyJump comes back to it: a by way of a"},
		{"bad", "Host a\nPort x", `bad Port "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := fakeDialer(t, func(o *Options) {
				o.Config = sshConfigFile(t, append(behind(t, 3, "a"), tt.config)...)
				o.ConnectTimeout, o.Fanout = time.Second, 1
			})
			_, errs := dialMany(t, d, 3)
			first, _ := errors.AsType[*JumpError](errs[0])
			for _, err := range errs {
				if e := hostError(t, err); !strings.Contains(e.Error(), "jump host a: ") || !strings.Contains(e.Error(), tt.want) {
					t.Errorf("got %v; want an error with %q", e, tt.want)
				}
				if e, ok := errors.AsType[*JumpError](err); !ok || e != first {
					t.Errorf("got %v; want the same for all", err)
				}
			}
		})
	}
}

// Silence behind a jump host is the host's, and is waited for no longer than elsewhere.
func TestForwardFailures(t *testing.T) {
	reject := func(reason ssh.RejectionReason, text string) func(ssh.NewChannel) {
		return func(nc ssh.NewChannel) { nc.Reject(reason, text) }
	}
	tests := []struct {
		name    string
		forward func(nc ssh.NewChannel)
		want    string
	}{
		{"prohibited", reject(ssh.Prohibited, "open failed"), "jump host a may not connect to 127.0.0.1:22 (AllowTcpForwarding or PermitOpen in its sshd_config): it said \"open failed\""},
		{"unknown-name", reject(ssh.ConnectionFailed, "Name or service not known"), "jump host a cannot connect to 127.0.0.1:22: Name or service not known"},
		{"refused", reject(ssh.ConnectionFailed, "Connection refused\n\x1b[31m"), "cannot connect to 127.0.0.1:22: Connection refused | ?[31m"},
		{"no-answer", func(ssh.NewChannel) {}, "no answer from 127.0.0.1:22 through a in 1s"},
		{"no-banner", func(nc ssh.NewChannel) {
			_, reqs, _ := nc.Accept()
			ssh.DiscardRequests(reqs)
		}, "connected to 127.0.0.1:22 through a, but no ssh banner came in 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newFakeServer(t, "127.0.0.1:0")
			a.forward = tt.forward
			a.start()
			d := fakeDialer(t, func(o *Options) {
				o.Config = sshConfigFile(t, "Host gpu0\nHostName 127.0.0.1\nProxyJump a", jumpHost("a", a))
				o.ConnectTimeout = time.Second
			})
			_, errs := dialMany(t, d, 1)
			if e := hostError(t, errs[0]); !strings.Contains(e.Error(), tt.want) {
				t.Errorf("got %v; want %q", e, tt.want)
			}
		})
	}
}

// A jump connection that breaks is made anew for who asks next.
func TestJumpBreaks(t *testing.T) {
	a := newFakeServer(t, "127.0.0.1:0").start()
	config := append(behind(t, 1, "a"), jumpHost("a", a))
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	links, errs := dialMany(t, d, 1)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	j := d.jumps.through([]hostfile.Host{{Name: "a"}})
	j.conn.Conn.Close()
	<-j.gone
	if _, err := links[0].Read(make([]byte, 1)); err == nil {
		t.Error("a link is alive without its jump host")
	}
	if _, errs = dialMany(t, d, 1); errs[0] != nil {
		t.Error(errs[0])
	}
	if a.count() != 2 {
		t.Errorf("got %d connections to the jump host; want 2", a.count())
	}
}

// relay passes connections on to a port here, until it is stopped: then nothing moves.
func relay(t *testing.T, port int) (own int, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	stopped := make(chan struct{})
	pass := func(to, from net.Conn) {
		buf := make([]byte, 1<<10)
		for {
			n, err := from.Read(buf)
			select {
			case <-stopped:
				return
			default:
			}
			if _, bad := to.Write(buf[:n]); err != nil || bad != nil {
				to.Close()
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				near.Close()
				return
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			go pass(near, far)
			go pass(far, near)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() { close(stopped) }
}

// A link can be closed, and the Dialer, though the jump host does not react any more.
func TestJumpStuck(t *testing.T) {
	a := newFakeServer(t, "127.0.0.1:0").start()
	port, stop := relay(t, a.port())
	config := append(behind(t, 1, "a"), fmt.Sprintf("Host a\nHostName 127.0.0.1\nPort %d", port))
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	links, errs := dialMany(t, d, 1)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	go func() { // it is stuck in a read and, when no window is left, in a write
		for {
			if _, err := links[0].Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}()
	stop()
	done := make(chan struct{})
	go func() { links[0].Close(); d.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("Close did not return")
	}
}

// Which links have broken with which jump host: one that is gone, or silent, or well.
func TestBrokenJumps(t *testing.T) {
	a, b, c := newFakeServer(t, "127.0.0.1:0").start(), newFakeServer(t, "127.0.0.1:0").start(), newFakeServer(t, "127.0.0.1:0").start()
	port, stop := relay(t, c.port())
	config := append(behind(t, 2, "a,b"), fmt.Sprintf("Host c\nHostName 127.0.0.1\nPort %d", port), jumpHost("a", a), jumpHost("b", b))
	for i, jump := range []string{"a", "c", "none"} {
		s := newFakeServer(t, "127.0.0.1:0").start()
		config = append(config, fmt.Sprintf("Host gpu%d\nHostName 127.0.0.1\nPort %d\nProxyJump %s", i+2, s.port(), jump))
	}
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	links, errs := dialMany(t, d, 5)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	check := func(when string, wait time.Duration, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		broken := BrokenJumps(ctx, links)
		for i, e := range broken {
			got := ""
			if e != nil {
				got = e.Error()
			}
			if got != want[i] {
				t.Errorf("%s: gpu%d: got %q; want %q", when, i, got, want[i])
			}
		}
		if broken[0] != broken[1] {
			t.Errorf("%s: two hosts behind one jump host have different errors", when)
		}
	}
	check("all well", time.Minute, "", "", "", "", "")
	stop()
	mute := "jump host c: it does not answer any more"
	check("one is silent", 200*time.Millisecond, "", "", "", mute, "")
	d.jumps.through([]hostfile.Host{{Name: "a"}, {Name: "b"}}).conn.Conn.Close()
	gone := "jump host b: connection lost"
	check("the second of a chain is gone", 200*time.Millisecond, gone, gone, "", mute, "")
	d.jumps.through([]hostfile.Host{{Name: "a"}}).conn.Conn.Close()
	gone = "jump host a: connection lost"
	check("so is the first", 200*time.Millisecond, gone, gone, gone, mute, "")
}

// Ending a Dial ends its wait for a jump host, and Close the connection that is being made.
func TestJumpCancelled(t *testing.T) {
	silent := newFakeServer(t, "127.0.0.1:0")
	silent.greeting = func(net.Conn, int) bool { <-silent.hang; return false }
	config := append(behind(t, 1, "a"), jumpHost("a", silent.start()))
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...); o.ConnectTimeout = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := d.Dial(ctx, hostfile.Host{Name: "gpu0", Line: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the context's error", err)
	}
	d.Close()
}

func FuzzJump(f *testing.F) {
	for _, s := range []string{"me@j:22,ssh://[fd00::1]:3/", "none", "a,,b", "u@v@[x", "ssh://u@h:1:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hops, err := parseJump(text)
		for _, h := range hops {
			if err == nil && (h.Name == "" || strings.HasPrefix(h.Name, "-") || h.Port < 0 || h.Port > 65535) {
				t.Errorf("%q is read as %+v", text, h)
			}
		}
	})
}
