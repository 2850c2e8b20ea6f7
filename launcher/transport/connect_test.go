package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// peer says how an address behaves in a fake network.
type peer struct {
	connect time.Duration // until the connection is there, or refused
	err     error
	banner  time.Duration // until the banner comes after that; negative: never
	text    string        // said instead of the banner, and then the end
}

// network is a fake network for connector.dial.
func network(peers map[string]peer, dialled *[]string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	var mu sync.Mutex
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		mu.Lock()
		*dialled = append(*dialled, addr)
		mu.Unlock()
		p := peers[addr]
		select {
		case <-time.After(p.connect):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.err != nil {
			return nil, fmt.Errorf("%s: %w", addr, p.err)
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			go io.Copy(io.Discard, server)
			if p.banner < 0 {
				<-ctx.Done()
				return
			}
			select {
			case <-time.After(p.banner):
			case <-ctx.Done():
				return
			}
			if p.text != "" {
				io.WriteString(server, p.text)
				return
			}
			io.WriteString(server, "SSH-2.0-"+addr+"\r\n")
			<-ctx.Done()
		}()
		return client, nil
	}
}

func TestConnectRace(t *testing.T) {
	refused := syscall.ECONNREFUSED
	tests := []struct {
		name  string
		addrs string
		peers map[string]peer
		want  string // who answers, or the error
		after time.Duration
		dials int
	}{
		{"one", "10.0.0.1", map[string]peer{"10.0.0.1:22": {}}, "10.0.0.1:22", 0, 1},
		{"first-answers", "10.0.0.1 10.0.0.2", map[string]peer{"10.0.0.1:22": {connect: 200 * time.Millisecond}}, "10.0.0.1:22", 200 * time.Millisecond, 1},
		{"first-dead", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {connect: time.Hour}}, "[fd00::1]:22", 250 * time.Millisecond, 2},
		{"first-silent", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {banner: -1}}, "[fd00::1]:22", 250 * time.Millisecond, 2},
		{"first-refuses", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {err: refused}}, "[fd00::1]:22", 0, 2},
		{"first-is-not-ssh", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {text: "220 hello\r\n"}}, "[fd00::1]:22", 0, 2},
		{"first-is-slow-but-wins", "10.0.0.1 10.0.0.2", map[string]peer{"10.0.0.1:22": {banner: 300 * time.Millisecond}, "10.0.0.2:22": {banner: time.Hour}}, "10.0.0.1:22", 300 * time.Millisecond, 2},
		{"many-dead", "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4", map[string]peer{"10.0.0.1:22": {connect: time.Hour}, "10.0.0.2:22": {banner: -1}, "10.0.0.3:22": {connect: time.Hour}}, "10.0.0.4:22", 750 * time.Millisecond, 4},
		{"all-refuse", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {err: refused}, "[fd00::1]:22": {err: refused}}, "10.0.0.1:22: connection refused; [fd00::1]:22: connection refused", 0, 2},
		{"all-dead", "10.0.0.1 fd00::1", map[string]peer{"10.0.0.1:22": {connect: time.Hour}, "[fd00::1]:22": {connect: time.Hour}}, "context deadline exceeded; context deadline exceeded", 5 * time.Second, 2},
		{"words-first", "10.0.0.1", map[string]peer{"10.0.0.1:22": {text: "hello\nSSH-2.0-x\r\n"}}, "x", 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled []string
				c := connector{dial: network(tt.peers, &dialled), port: 22, stage: new(atomic.Int32)}
				var addrs []netip.Addr
				for a := range strings.FieldsSeq(tt.addrs) {
					addrs = append(addrs, netip.MustParseAddr(a))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				conn, err := c.connect(ctx, addrs)
				got := ""
				if err != nil {
					got = err.Error()
				} else {
					line, _ := bufio.NewReader(conn).ReadString('\n')
					if strings.HasPrefix(line, "hello") {
						line = "SSH-2.0-x"
					}
					got = strings.TrimPrefix(strings.TrimSpace(line), "SSH-2.0-")
					conn.Close()
				}
				if got != tt.want {
					t.Errorf("got %q; want %q", got, tt.want)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v; want %v", took, tt.after)
				}
				if len(dialled) != tt.dials {
					t.Errorf("dialled %v; want %d", dialled, tt.dials)
				}
			})
		})
	}
}

func TestPatience(t *testing.T) {
	const total = 20 * time.Second
	tests := []struct {
		name  string
		err   error
		stage stage
		want  time.Duration
	}{
		{"refused", fmt.Errorf("dial: %w", syscall.ECONNREFUSED), atTCP, total / 2},
		{"refused-by-all", addrErrors{syscall.ECONNREFUSED, syscall.ECONNREFUSED}, atTCP, total / 2},
		{"dropped-by-one", addrErrors{syscall.ECONNREFUSED, &DroppedError{err: io.EOF}}, atBanner, total},
		{"no-route", syscall.EHOSTUNREACH, atTCP, 0},
		{"not-ssh", &DroppedError{}, atBanner, 0},
		{"lost-in-key-exchange", fmt.Errorf("key exchange: %w", io.EOF), atKeys, total},
		{"lost-in-login", io.EOF, atAuth, 0},
		{"reset", syscall.ECONNRESET, atKeys, total},
		{"unknown-name", &net.DNSError{IsNotFound: true}, atTCP, 0},
		{"name-server-busy", &net.DNSError{IsTemporary: true}, atTCP, total},
		{"host-key", &HostKeyError{}, atKeys, 0},
		{"config", &ConfigError{}, atTCP, 0},
		{"jump-host-refuses", &JumpError{Err: syscall.ECONNREFUSED}, atTCP, 0},
		{"refused-behind-a-jump-host", forwardFailure(&ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "Connection refused"}, forwardAddr{}), atTCP, total / 2},
		{"unknown-behind-a-jump-host", forwardFailure(&ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "Name or service not known"}, forwardAddr{}), atTCP, 0},
		{"forwarding-not-allowed", forwardFailure(&ssh.OpenChannelError{Reason: ssh.Prohibited}, forwardAddr{}), atTCP, 0},
		{"jump-connection-lost", forwardFailure(io.EOF, forwardAddr{}), atTCP, total / 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := patience(tt.err, tt.stage, total); got != tt.want {
				t.Errorf("got %v; want %v", got, tt.want)
			}
		})
	}
	for n := 1; n < 40; n++ {
		if d := backoff(n); d < firstBackoff/2 || d > 2*lastBackoff {
			t.Errorf("backoff(%d): got %v", n, d)
		}
	}
}

func TestBudget(t *testing.T) {
	start := func(t *testing.T, asked func() time.Duration) (*budget, context.Context) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return newBudget(10*time.Second, asked, cancel), ctx
	}
	never := func() time.Duration { return 0 }
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("runs-out", func(t *testing.T) {
		b, ctx := start(t, never)
		begin := time.Now()
		b.resume()
		<-ctx.Done()
		if took := time.Since(begin); took != 10*time.Second || !errors.Is(context.Cause(ctx), errBudget) {
			t.Errorf("ended after %v with %v; want 10s, %v", took, context.Cause(ctx), errBudget)
		}
	})
	run("pauses", func(t *testing.T) {
		b, ctx := start(t, never)
		begin := time.Now()
		for range 3 {
			b.resume()
			time.Sleep(3 * time.Second)
			b.pause()
			time.Sleep(time.Minute)
		}
		if got := b.remaining(); got != time.Second {
			t.Errorf("remaining: got %v; want 1s", got)
		}
		b.resume()
		<-ctx.Done()
		if took := time.Since(begin); took != 3*time.Minute+10*time.Second {
			t.Errorf("ended after %v; want 3m10s", took)
		}
	})
	run("renews", func(t *testing.T) {
		b, ctx := start(t, never)
		begin := time.Now()
		b.resume()
		time.Sleep(9 * time.Second)
		b.renew()
		<-ctx.Done()
		if took := time.Since(begin); took != 19*time.Second {
			t.Errorf("ended after %v; want 19s", took)
		}
	})
	run("questions-are-free", func(t *testing.T) {
		p := &prompts{ask: func(string) ([]byte, error) { time.Sleep(time.Hour); return nil, nil }}
		b, ctx := start(t, p.recess.spent)
		begin := time.Now()
		b.resume()
		time.Sleep(9 * time.Second)
		p.question("?")
		if got := b.remaining(); got != time.Second {
			t.Errorf("remaining after the question: got %v; want 1s", got)
		}
		<-ctx.Done()
		if took := time.Since(begin); took != time.Hour+10*time.Second {
			t.Errorf("ended after %v; want 1h10s", took)
		}
	})
	run("suspension-is-free", func(t *testing.T) {
		var i recess
		b, ctx := start(t, i.spent)
		begin := time.Now()
		b.resume()
		time.Sleep(9 * time.Second)
		i.begin()
		time.Sleep(time.Hour)
		i.begin() // the user is asked as well
		time.Sleep(time.Hour)
		i.end()
		time.Sleep(time.Hour)
		i.end()
		<-ctx.Done()
		if took := time.Since(begin); took != 3*time.Hour+10*time.Second {
			t.Errorf("ended after %v; want 3h10s", took)
		}
	})
}

// What has come is acknowledged at once, until a command runs: the kernel does so for a
// connection on which it does not count on data to go with it.
func TestPromptReads(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go func() {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.Copy(conn, conn) // a byte for each
	}()
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	prompt := func() bool {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var on int
		raw.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK) })
		if err != nil {
			t.Fatal(err)
		}
		return on != 0
	}
	c := &bannerConn{Conn: conn, said: true}
	for i := range 2 * promptReads {
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Fatalf("got %d bytes, %v", n, err)
		}
		if i < promptReads && !prompt() {
			t.Fatalf("read %d leaves its acknowledgement to the kernel", i)
		}
	}
	if prompt() {
		t.Error("later reads cost an acknowledgement each")
	}
}
