package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
	"gorun/launcher/wire"
)

// fakeServer is an ssh server in this process that plays an agent, and may misbehave.
type fakeServer struct {
	listener net.Listener
	config   *ssh.ServerConfig
	shell    func(ch ssh.Channel, command string) uint32 // returns the exit status
	greeting func(conn net.Conn, n int) bool             // before ssh; false: it is done with the connection
	hostKey  ssh.Signer
	forward  func(nc ssh.NewChannel) // what becomes of connections through it

	hang chan struct{} // closed when the test ends: what hangs waits for it

	mu       sync.Mutex
	accepted int      // guarded by mu
	commands []string // guarded by mu
	wg       sync.WaitGroup
	conns    map[net.Conn]bool // guarded by mu
}

func newFakeServer(t *testing.T, address string) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{listener: l, config: &ssh.ServerConfig{NoClientAuth: true}, shell: hailingShell, forward: forwardAll, hang: make(chan struct{}), conns: map[net.Conn]bool{}}
	_, s.hostKey = newKey(t)
	t.Cleanup(s.close)
	return s
}

func (s *fakeServer) start() *fakeServer {
	if s.hostKey != nil {
		s.config.AddHostKey(s.hostKey)
	}
	s.wg.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted++
			n := s.accepted
			s.conns[conn] = true
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(conn, n) })
		}
	})
	return s
}

func (s *fakeServer) close() {
	close(s.hang)
	s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *fakeServer) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *fakeServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

func (s *fakeServer) serve(conn net.Conn, n int) {
	defer conn.Close()
	if s.greeting != nil && !s.greeting(conn, n) {
		return
	}
	_, chans, reqs, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	s.wg.Go(func() { ssh.DiscardRequests(reqs) })
	for nc := range chans {
		if nc.ChannelType() == "direct-tcpip" {
			s.wg.Go(func() { s.forward(nc) })
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.session(ch, reqs) })
	}
}

func (s *fakeServer) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	for req := range reqs {
		if req.Type != "exec" {
			req.Reply(false, nil)
			continue
		}
		var m struct{ Command string }
		ssh.Unmarshal(req.Payload, &m)
		s.mu.Lock()
		s.commands = append(s.commands, m.Command)
		s.mu.Unlock()
		req.Reply(true, nil)
		s.wg.Go(func() {
			status := s.shell(ch, m.Command)
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			ch.Close()
		})
	}
}

// nonceOf finds the nonce in the first command, or in the script.
func nonceOf(command string) string {
	if _, nonce, ok := strings.Cut(command, " agent "); ok && !strings.Contains(command, "/bin/sh") {
		return nonce
	}
	_, rest, _ := strings.Cut(command, "n=")
	nonce, _, _ := strings.Cut(rest, ";")
	return nonce
}

// hailingShell is a host that has the binary: it hails, and echoes.
func hailingShell(ch ssh.Channel, command string) uint32 {
	fmt.Fprintln(ch, wire.Hail(nonceOf(command)))
	io.Copy(ch, ch)
	return 0
}

// host is the server's name for a Dialer that is configured by config.
func (s *fakeServer) host() hostfile.Host {
	return hostfile.Host{Name: "127.0.0.1", User: "u", Port: s.port()}
}

// fakeDialer returns a Dialer that accepts new host keys, has one key, and asks no one.
func fakeDialer(t *testing.T, change func(*Options)) *Dialer {
	t.Helper()
	home := t.TempDir()
	opts := Options{Home: home, User: "u", Self: scriptSelf(t, ""), JobID: "job1", Config: []string{}, AcceptNewHostKeys: true, ConnectTimeout: 10 * time.Second}
	if change != nil {
		change(&opts)
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// sshConfigFile writes a config file for Options.Config.
func sshConfigFile(t *testing.T, lines ...string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config")
	write(t, name, strings.Join(lines, "\n")+"\n", 0o600)
	return []string{name}
}

func hostError(t *testing.T, err error) *HostError {
	t.Helper()
	e, ok := errors.AsType[*HostError](err)
	if !ok {
		t.Fatalf("got %T %v; want a *HostError", err, err)
	}
	if strings.ContainsAny(e.Error(), "\x1b\n\r") {
		t.Errorf("text with control characters: %q", e.Error())
	}
	return e
}

func TestDialFake(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0").start()
	d := fakeDialer(t, nil)
	l := mustDial(t, d, s.host())
	if got := ask(t, l, "ping"); got != "ping" {
		t.Errorf("got %q; want the line back", got)
	}
	var names []string
	for i, p := range l.Timeline() {
		names = append(names, p.Name)
		if i > 0 && p.At < l.Timeline()[i-1].At {
			t.Errorf("timeline goes backwards: %v", l.Timeline())
		}
	}
	if got := strings.Join(names, " "); got != "resolve connect auth agent ready" {
		t.Errorf("timeline: got %s; want resolve connect auth agent ready", got)
	}
	l.Close()
	if _, err := l.Read(make([]byte, 1)); err == nil {
		t.Error("read after Close: got no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := l.Wait(ctx); !errors.Is(err, errNoExit) {
		t.Errorf("Wait after Close: got %v; want %v", err, errNoExit)
	}
}

// A host that has an address beside its name is reached there, and known by the name.
func TestDialAddress(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0").start()
	d := fakeDialer(t, nil)
	h := s.host()
	h.Name, h.Addr = "gpu1.invalid", h.Name
	if got := ask(t, mustDial(t, d, h), "ping"); got != "ping" {
		t.Errorf("got %q; want the line back", got)
	}
	h.Addr = "elsewhere.invalid"
	_, err := dial(t, d, h)
	if e := hostError(t, err); e.Host != "gpu1.invalid" || !strings.Contains(e.Error(), h.Addr) {
		t.Errorf("got host %s, error %v; want the name, and in the error the address", e.Host, e)
	}
}

// TestSilences are hosts that stop answering at some point: each must be reported
// when the time is over, and say how far it came.
func TestSilences(t *testing.T) {
	tests := []struct {
		name  string
		serve func(s *fakeServer)
		want  string
		phase string
	}{
		{"no-banner", func(s *fakeServer) {
			s.greeting = func(c net.Conn, n int) bool { <-s.hang; return false }
		}, "connected to 127.0.0.1:PORT, but no ssh banner came in 1.5s", "connect"},
		{"banner-then-nothing", func(s *fakeServer) {
			s.greeting = func(c net.Conn, n int) bool { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n"); <-s.hang; return false }
		}, "the ssh banner came, but the key exchange stalled (path MTU?) in 1.5s", "connect"},
		{"login-unanswered", func(s *fakeServer) {
			s.config.NoClientAuthCallback = func(ssh.ConnMetadata) (*ssh.Permissions, error) { <-s.hang; return nil, nil }
		}, "the key exchange is done, but the login was not answered in 1.5s", "auth"},
		{"silent-shell", func(s *fakeServer) {
			s.shell = func(ch ssh.Channel, _ string) uint32 { fmt.Fprint(ch, "Hello\x1b[2J"); <-s.hang; return 0 }
		}, `logged in, but the login shell did not start gorun's agent in 1.5s; it printed "Hello?[2J"`, "agent"},
		{"install-stalls", func(s *fakeServer) {
			s.shell = func(ch ssh.Channel, command string) uint32 {
				fmt.Fprintf(ch, "@gorun-%s need Linux %s home\n", nonceOf(command), unameMachine())
				<-s.hang
				return 0
			}
		}, "logged in, but sending gorun's binary made no progress in 1.5s", "install"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeServer(t, "127.0.0.1:0")
			tt.serve(s)
			s.start()
			d := fakeDialer(t, func(o *Options) { o.ConnectTimeout = 1500 * time.Millisecond })
			start := time.Now()
			_, err := dial(t, d, s.host())
			e := hostError(t, err)
			want := strings.ReplaceAll(tt.want, "PORT", strconv.Itoa(s.port()))
			timeout, ok := errors.AsType[*TimeoutError](err)
			if !ok || timeout.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if e.Phase != tt.phase {
				t.Errorf("phase: got %s; want %s", e.Phase, tt.phase)
			}
			if took := time.Since(start); took > 6*time.Second {
				t.Errorf("took %v; want about 1.5s", took)
			}
		})
	}
}

// TestDrops are servers that close some connections: those are tried again, others not.
func TestDrops(t *testing.T) {
	tests := []struct {
		name     string
		greeting func(c net.Conn, n int) bool
		want     string // error; "" for none
		accepted int    // connections, 0: more than one
	}{
		{"silently-twice", func(c net.Conn, n int) bool { return n > 2 }, "", 3},
		{"with-words-twice", func(c net.Conn, n int) bool {
			if n <= 2 {
				fmt.Fprint(c, "Exceeded MaxStartups\r\n")
			}
			return n > 2
		}, "", 3},
		{"reset", func(c net.Conn, n int) bool {
			if n == 1 {
				c.(*net.TCPConn).SetLinger(0)
			}
			return n > 1
		}, "", 2},
		{"in-key-exchange", func(c net.Conn, n int) bool {
			if n == 1 {
				fmt.Fprint(c, "SSH-2.0-x\r\n")
				bufio.NewReader(c).ReadString('\n')
			}
			return n > 1
		}, "", 2},
		{"always", func(c net.Conn, n int) bool {
			fmt.Fprint(c, "Exceeded MaxStartups\r\n")
			return false
		}, `closed the connection before the ssh banner: it said "Exceeded MaxStartups"`, 0},
		{"always-silently", func(c net.Conn, n int) bool { return false }, `closed the connection before the ssh banner (MaxStartups reached, or not an ssh server)`, 0},
		{"other-protocol", func(c net.Conn, n int) bool {
			fmt.Fprint(c, strings.Repeat("220 smtp\x1b ready\r\n", 500))
			return false
		}, "is not an ssh server", 1},
		{"words-before-banner", func(c net.Conn, n int) bool {
			fmt.Fprint(c, "hello\r\nthere\r\n")
			return true
		}, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeServer(t, "127.0.0.1:0")
			s.greeting = tt.greeting
			s.start()
			d := fakeDialer(t, func(o *Options) {
				if tt.want != "" {
					o.ConnectTimeout = time.Second
				}
			})
			_, err := dial(t, d, s.host())
			if tt.want == "" && err != nil {
				t.Errorf("got %v; want success", err)
			}
			if tt.want != "" {
				e := hostError(t, err)
				if dropped, ok := errors.AsType[*DroppedError](err); !ok || !strings.Contains(dropped.Error(), tt.want) {
					t.Errorf("got %v; want %s", err, tt.want)
				}
				if e.Tries != s.count() {
					t.Errorf("tries: got %d; want %d", e.Tries, s.count())
				}
			}
			if got := s.count(); got != tt.accepted && (tt.accepted > 0 || got < 2) {
				t.Errorf("connections: got %d; want %d (0: several)", got, tt.accepted)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	d := fakeDialer(t, func(o *Options) { o.ConnectTimeout = 800 * time.Millisecond })
	h := hostfile.Host{Name: "127.0.0.1", User: "u", Port: freePort(t)}
	start := time.Now()
	_, err := dial(t, d, h)
	e := hostError(t, err)
	if !strings.Contains(err.Error(), "connection refused") || e.Tries < 2 || e.Phase != "connect" {
		t.Errorf("got %v (phase %s); want refused after several tries, in phase connect", err, e.Phase)
	}
	if took := time.Since(start); took > 700*time.Millisecond {
		t.Errorf("took %v; want no more than half of ConnectTimeout", took)
	}
}

func TestComesUpLate(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	d := fakeDialer(t, nil)
	time.AfterFunc(300*time.Millisecond, func() { newFakeServer(t, fmt.Sprintf("127.0.0.1:%d", port)).start() })
	l := mustDial(t, d, hostfile.Host{Name: "127.0.0.1", User: "u", Port: port})
	if got := ask(t, l, "x"); got != "x" {
		t.Errorf("got %q; want x", got)
	}
}

// TestNotRetried are failures for which one connection must be enough.
func TestNotRetried(t *testing.T) {
	t.Run("key-refused", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0")
		s.config = &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }}
		s.start()
		if _, err := dial(t, fakeDialer(t, nil), s.host()); hostError(t, err).Phase != "auth" {
			t.Errorf("got %v; want an error in phase auth", err)
		}
		if s.count() != 1 {
			t.Errorf("connections: got %d; want 1", s.count())
		}
	})
	t.Run("unknown-key", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0").start()
		d := fakeDialer(t, func(o *Options) { o.AcceptNewHostKeys = false })
		_, err := dial(t, d, s.host())
		e, ok := errors.AsType[*HostKeyError](err)
		want := HostKeyError{Problem: HostKeyUnknown, Name: fmt.Sprintf("[127.0.0.1]:%d", s.port()), Algorithm: "ssh-ed25519",
			Fingerprint: ssh.FingerprintSHA256(s.hostKey.PublicKey()), Command: fmt.Sprintf("ssh -F none -p %d u@127.0.0.1 true", s.port())}
		if !ok || *e != want {
			t.Errorf("got %+v\nwant %+v", e, want)
		}
		if s.count() != 1 {
			t.Errorf("connections: got %d; want 1", s.count())
		}
	})
	t.Run("barred", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0").start()
		d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, "ProxyUseFdpass yes") })
		_, err := dial(t, d, s.host())
		if _, ok := errors.AsType[*ConfigError](err); !ok || s.count() != 0 {
			t.Errorf("got %v after %d connections; want a ConfigError, and no connection", err, s.count())
		}
	})
}

func TestBrokenConfigIsToldForEveryHost(t *testing.T) {
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, `Port "22`) })
	for _, name := range []string{"a", "b"} {
		_, err := dial(t, d, hostfile.Host{Name: name})
		if e := hostError(t, err); e.Phase != "config" || !strings.Contains(e.Error(), "config:1: a quote") {
			t.Errorf("%s: got %v; want the line in the config", name, err)
		}
	}
	if _, err := dial(t, d, hostfile.Host{Name: "localhost"}); err != nil {
		t.Errorf("localhost needs no config: %v", err)
	}
}

func TestCancelledDial(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.greeting = func(c net.Conn, n int) bool { <-s.hang; return false }
	s.start()
	d := fakeDialer(t, nil)
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := d.Dial(ctx, s.host()); !errors.Is(err, cause) {
		t.Errorf("got %v; want %v", err, cause)
	}
}

// TestFanout: never more dials at once than allowed; a host that does not answer the
// connection does not keep its place.
func TestFanout(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	s := newFakeServer(t, "127.0.0.1:0")
	s.config.NoClientAuthCallback = func(ssh.ConnMetadata) (*ssh.Permissions, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return nil, nil
	}
	s.start()
	d := fakeDialer(t, func(o *Options) { o.Fanout = 3 })
	dialTCP := d.dialTCP
	hang := make(chan struct{})
	d.dialTCP = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "192.0.2.") {
			select {
			case <-hang:
			case <-ctx.Done():
			}
			return nil, errors.New("no answer")
		}
		return dialTCP(ctx, network, addr)
	}
	var dead sync.WaitGroup
	for i := range 6 {
		dead.Go(func() { d.Dial(t.Context(), hostfile.Host{Name: fmt.Sprintf("192.0.2.%d", i+1), Port: 22}) })
	}
	start := time.Now()
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			l, err := d.Dial(t.Context(), s.host())
			if err != nil {
				t.Error(err)
				return
			}
			l.Close()
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("took %v: dead hosts kept their places", took)
	}
	close(hang)
	dead.Wait()
	if most > 3 {
		t.Errorf("logins at once: got %d; want 3 at most", most)
	}
}

// unameMachine is what uname -m says here.
func unameMachine() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

// TestAcceptWithoutFiles: StrictHostKeyChecking no and /dev/null, as many have it for
// clusters: one warning with the number of hosts.
func TestAcceptWithoutFiles(t *testing.T) {
	d := fakeDialer(t, func(o *Options) {
		o.AcceptNewHostKeys = false
		o.Config = sshConfigFile(t, "StrictHostKeyChecking no", "UserKnownHostsFile /dev/null")
	})
	for range 3 {
		mustDial(t, d, newFakeServer(t, "127.0.0.1:0").start().host())
	}
	want := "trusted the keys of 3 hosts without knowing them: no known_hosts file is kept"
	if ws := d.Warnings(); len(ws) != 1 || ws[0] != want {
		t.Errorf("got %q; want %q", ws, want)
	}
	if _, err := os.Stat(filepath.Join(d.opts.Home, ".ssh")); err == nil {
		t.Error("~/.ssh was made, though nothing is kept in it")
	}
}

// TestNothingLeft: no goroutine outlives links, failed dials and the Dialer.
func TestNothingLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("use", func(t *testing.T) {
		good := newFakeServer(t, "127.0.0.1:0").start()
		bad := newFakeServer(t, "127.0.0.1:0")
		bad.shell = func(ch ssh.Channel, _ string) uint32 { return 1 }
		bad.start()
		d := fakeDialer(t, func(o *Options) { o.ConnectTimeout = 3 * time.Second })
		for range 3 {
			l := mustDial(t, d, good.host())
			l.Run(t.Context(), "agent", "sweep", "x")
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			l.Run(ctx, "agent", "sweep", "x")
			cancel()
			l.Close()
			if _, err := l.Run(t.Context(), "agent", "sweep", "x"); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Run after Close: got %v; want %v", err, net.ErrClosed)
			}
			dial(t, d, bad.host())
			mustDial(t, d, hostfile.Host{Name: "localhost"}).Close()
		}
		dial(t, d, hostfile.Host{Name: "127.0.0.1", Port: freePort(t)})
	})
	waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
