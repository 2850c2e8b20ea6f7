package transport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
)

// proxyDialer returns a Dialer for gpu0, which a command leads to.
func proxyDialer(t *testing.T, command string, timeout time.Duration) *Dialer {
	return fakeDialer(t, func(o *Options) {
		o.Config = sshConfigFile(t, "Host gpu*", "ProxyCommand "+command)
		o.ConnectTimeout = timeout
		o.getenv = func(name string) (string, bool) { return "", false }
	})
}

var gpu0 = hostfile.Host{Name: "gpu0", Line: 1}

func TestProxyCommand(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		skip(t, "needs bash")
	}
	s := newFakeServer(t, "127.0.0.1:0").start()
	pid := filepath.Join(t.TempDir(), "pid")
	pass := fmt.Sprintf(`bash -c 'echo %%n:%%h:%%p:%%r $$ > %s; exec 3<>/dev/tcp/127.0.0.1/%d; cat <&3 & cat >&3'`, pid, s.port())
	d := proxyDialer(t, pass, 10*time.Second)
	l := mustDial(t, d, gpu0)
	if got := ask(t, l, "ping"); got != "ping" {
		t.Errorf("got %q; want the line back", got)
	}
	data, _ := os.ReadFile(pid)
	who, number, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	if who != "gpu0:gpu0:22:u" {
		t.Errorf("tokens: got %s", who)
	}
	if stat, _ := os.ReadFile("/proc/" + number + "/stat"); !strings.Contains(string(stat), " "+number+" "+number+" ") {
		t.Errorf("the command leads no process group of its own: %s", stat)
	}
	l.Close()
	waitFor(t, "the command to be gone", func() bool { return !running(number) })
}

// A command that does not lead to an ssh server is shown with what it said, and is not
// left behind.
func TestProxyCommandFails(t *testing.T) {
	tests := []struct{ name, command, want string }{
		{"exits", "sh -c 'echo no way >&2; exit 3'", `ProxyCommand "sh -c 'echo no way >&2; exit 3'" ended (exit status 3) before an ssh banner came; it said "no way"`},
		{"unknown", "/no/such/command", "(exit status 127)"},
		{"killed", "sh -c 'kill -9 $$'", "(killed by SIGKILL)"},
		{"garbage", "sh -c 'while echo 220 smtp ready; do :; done'", `led to no ssh server: it wrote "220 smtp ready`},
		{"closes", "true", "ended before an ssh banner came"},
		{"hangs", "sh -c 'echo still here >&2; sleep 60'", `no answer from ProxyCommand "sh -c 'echo still here >&2; sleep 60'" in 1s; it printed "still here"`},
		{"deaf", "sh -c 'trap \"\" HUP TERM; sleep 60; sleep 60'", "no answer from ProxyCommand"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := proxyDialer(t, tt.command, time.Second)
			_, err := dial(t, d, gpu0)
			if e := hostError(t, err); !strings.Contains(e.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", e, tt.want)
			}
			reaped := make(chan struct{})
			go func() { d.children.Wait(); close(reaped) }()
			select {
			case <-reaped:
			case <-time.After(10 * time.Second):
				t.Error("the command is still there")
			}
		})
	}
}

// A jump host may be behind a command, and a host that is to be passed to a shell must
// have a harmless name.
func TestProxyNames(t *testing.T) {
	d := proxyDialer(t, "nc %h %p", time.Second)
	for _, h := range []hostfile.Host{{Name: "gpu;reboot", Line: 1}, {Name: "gpu0", User: "$(reboot)", Line: 1}, {Name: "gpu 0", Line: 1}} {
		if _, err := dial(t, d, h); err == nil || !strings.Contains(err.Error(), "cannot be part of a command") {
			t.Errorf("%+v: got %v; want it refused", h, err)
		}
	}
}

func TestProxyThenJump(t *testing.T) {
	a := newFakeServer(t, "127.0.0.1:0").start()
	config := append(behind(t, 2, "a"), fmt.Sprintf("Host a\nProxyCommand bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; cat <&3 & cat >&3'", a.port()))
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	links, errs := dialMany(t, d, 2)
	for i, l := range links {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if got := ask(t, l, "ping"); got != "ping" {
			t.Errorf("got %q; want the line back", got)
		}
	}
	if a.count() != 1 {
		t.Errorf("got %d connections; want one", a.count())
	}
}

// A connection that the server drops, as when too many log in, is made again.
func TestProxyRetries(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.greeting = func(_ net.Conn, n int) bool { return n > 2 }
	s.start()
	d := proxyDialer(t, fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; cat <&0 >&3 & exec cat <&3'", s.port()), 10*time.Second)
	mustDial(t, d, gpu0)
	if s.count() != 3 {
		t.Errorf("got %d connections; want 3", s.count())
	}
}
