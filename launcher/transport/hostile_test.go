package transport

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestChattyServers never fall silent, but do not come to the point either: the dial
// ends when its time is over, whatever comes.
func TestChattyServers(t *testing.T) {
	drip := func(s *fakeServer, say func() error) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for say() == nil {
			select {
			case <-tick.C:
			case <-s.hang:
				return
			}
		}
	}
	tests := []struct {
		name string
		talk func(s *fakeServer, c net.Conn)
		want string
	}{
		{"banner-by-bytes", func(s *fakeServer, c net.Conn) {
			drip(s, func() error { _, err := c.Write([]byte("-")); return err })
		}, "no ssh banner came in 1.5s"},
		{"version-by-bytes", func(s *fakeServer, c net.Conn) {
			c.Write([]byte("SSH-"))
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := c.Write([]byte("2")); err != nil {
					return
				}
			}
		}, "the key exchange stalled (path MTU?) in 1.5s"},
		{"login-banners", func(s *fakeServer, c net.Conn) {
			config := *s.config
			config.PreAuthConnCallback = func(conn ssh.ServerPreAuthConn) {
				s.wg.Go(func() { drip(s, func() error { return conn.SendAuthBanner(strings.Repeat("Welcome\x1b[2J", 99)) }) })
			}
			config.NoClientAuthCallback = func(ssh.ConnMetadata) (*ssh.Permissions, error) { <-s.hang; return nil, nil }
			ssh.NewServerConn(c, &config)
		}, "the key exchange is done, but the login was not answered in 1.5s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeServer(t, "127.0.0.1:0")
			s.greeting = func(c net.Conn, n int) bool { tt.talk(s, c); return false }
			s.start()
			d := fakeDialer(t, func(o *Options) { o.ConnectTimeout = 1500 * time.Millisecond })
			_, err := dial(t, d, s.host())
			if timeout, ok := errors.AsType[*TimeoutError](err); !ok || !strings.Contains(timeout.Error(), tt.want) {
				t.Errorf("got %v; want %s", err, tt.want)
			}
		})
	}
}

// A server that lets keys log in and opens no session, as by MaxSessions 0.
func TestNoSessions(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.greeting = func(c net.Conn, n int) bool {
		_, chans, reqs, err := ssh.NewServerConn(c, s.config)
		if err != nil {
			return false
		}
		s.wg.Go(func() { ssh.DiscardRequests(reqs) })
		for nc := range chans {
			nc.Reject(ssh.ConnectionFailed, "open \x1bfailed")
		}
		return false
	}
	s.start()
	_, err := dial(t, fakeDialer(t, nil), s.host())
	if _, ok := errors.AsType[*HostError](err); !ok || !strings.Contains(err.Error(), "MaxSessions 0 in its sshd_config?") || !strings.HasSuffix(err.Error(), `failed"`) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %q; want the server's setting to be named", err)
	}
}

// TestIntrusiveServer opens channels and asks for things all the time: it is refused,
// and the link works.
func TestIntrusiveServer(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.greeting = func(c net.Conn, n int) bool {
		conn, chans, reqs, err := ssh.NewServerConn(c, s.config)
		if err != nil {
			return false
		}
		s.wg.Go(func() { ssh.DiscardRequests(reqs) })
		s.wg.Go(func() {
			for {
				_, _, err := conn.OpenChannel("auth-agent@openssh.com", nil)
				if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
					if err == nil {
						t.Error("a channel to ssh-agent was opened")
					}
					return
				}
			}
		})
		s.wg.Go(func() {
			for ok, err := false, error(nil); err == nil && !ok; {
				ok, _, err = conn.SendRequest("keepalive@openssh.com", true, nil)
			}
		})
		for nc := range chans {
			if ch, reqs, err := nc.Accept(); err == nil {
				s.wg.Go(func() { s.session(ch, reqs) })
			}
		}
		return false
	}
	s.start()
	l := mustDial(t, fakeDialer(t, nil), s.host())
	for i := range 20 {
		if got, want := ask(t, l, fmt.Sprint("line ", i)), fmt.Sprint("line ", i); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

// TestNoise: what a login shell prints is skipped up to a limit, on standard error
// without one.
func TestNoise(t *testing.T) {
	tests := []struct {
		name           string
		stdout, stderr int // MiB
		want           string
	}{
		{"stderr", 0, 8, ""},
		{"stdout", 8, 0, errNoise.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFakeServer(t, "127.0.0.1:0")
			s.shell = func(ch ssh.Channel, command string) uint32 {
				noise := bytes.Repeat([]byte("noise\x1b[0m\n"), 1<<20/10)
				for range tt.stderr {
					ch.Stderr().Write(noise)
				}
				for range tt.stdout {
					if _, err := ch.Write(noise); err != nil {
						return 1
					}
				}
				return hailingShell(ch, command)
			}
			s.start()
			l, err := dial(t, fakeDialer(t, nil), s.host())
			switch {
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v; want %s", err, tt.want)
			case tt.want == "" && err != nil:
				t.Errorf("got %v; want success", err)
			case tt.want == "":
				if got := ask(t, l, "hello"); got != "hello" || len(l.Stderr()) > stderrKept {
					t.Errorf("got %q, and %d bytes of stderr; want hello, and %d at most", got, len(l.Stderr()), stderrKept)
				}
			}
		})
	}
}
