package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorun/hostfile"
)

// standInRsh makes a command that runs what it is given here, as if that were a host. text
// is a shell script behind the host's name: "$@" are the words that follow that.
func standInRsh(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, "#!/bin/sh\nhost=$1; shift\n"+text+"\n", 0o755)
	return path
}

// What the two kinds of commands do with the words.
const (
	asShell = `exec sh -c "$*"` // as sshd: one line for a login shell
	asWords = `exec "$@"`       // as docker exec
)

// rshDialer dials by a command. Hosts' home is a directory of the test's.
func rshDialer(t *testing.T, line string, change func(*Options)) (d *Dialer, home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	return fakeDialer(t, func(o *Options) {
		o.Rsh = line
		if change != nil {
			change(o)
		}
	}), home
}

func TestRsh(t *testing.T) {
	words := standInRsh(t, "docker", "echo a banner; printf 'and more '; echo warning >&2; "+asWords)
	tests := []struct{ name, line string }{
		{"ssh", standInRsh(t, "myssh", asShell) + " {host}"},
		{"host-appended", standInRsh(t, "myssh", asShell)},
		{"docker", words + " {host}"},
		{"said-to-be-direct", standInRsh(t, "enter", asWords) + " {host} {sh}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log lockedBuffer
			d, home := rshDialer(t, tt.line, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			for _, phases := range []string{"connect agent install ready", "connect agent ready"} {
				l := mustDial(t, d, hostfile.Host{Name: "node1"})
				if got := ask(t, l, "hello there"); got != "hello there" {
					t.Errorf("got %q; want the line back", got)
				}
				if got, want := ask(t, l, "exe"), filepath.Join(home, ".cache/gorun"); !strings.HasPrefix(got, want) {
					t.Errorf("the agent is %s; want it in %s", got, want)
				}
				var names []string
				for _, p := range l.Timeline() {
					names = append(names, p.Name)
				}
				if got := strings.Join(names, " "); got != phases {
					t.Errorf("timeline: got %s; want %s", got, phases)
				}
				ask(t, l, "stderr some words")
				waitFor(t, "stderr", func() bool { return l.Stderr() == "some words" })
				if out, err := l.Run(t.Context(), "agent", "sweep", "job1"); err != nil || !strings.Contains(string(out), "swept job1\n") {
					t.Errorf("Run: got %q, %v", out, err)
				}
				io.WriteString(l, "exit 5\n")
				var exit *ExitError
				if err := l.Wait(t.Context()); !errors.As(err, &exit) || exit.Status != 5 || !strings.HasPrefix(err.Error(), "--rsh ") {
					t.Errorf("Wait: got %v; want exit status 5", err)
				}
				if out, err := l.Run(t.Context(), "agent", "sweep", "job1"); err != nil || !strings.Contains(string(out), "swept job1\n") {
					t.Errorf("Run after the agent: got %q, %v", out, err)
				}
				l.Close()
				if _, err := l.Run(t.Context(), "agent", "sweep", "job1"); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Run after Close: got %v; want %v", err, net.ErrClosed)
				}
			}
			if got := strings.Contains(log.String(), `"a banner\nand more"`) && strings.Contains(log.String(), "warning"); got != (tt.name == "docker") {
				t.Errorf("the log tells of a banner: %v\n%s", got, log.String())
			}
			if got, err := d.Clean(t.Context(), hostfile.Host{Name: "node1"}, nil); err != nil || got != (Cleaned{Programs: 1}) {
				t.Errorf("Clean: got %+v, %v; want one program removed", got, err)
			}
			if files, err := os.ReadDir(filepath.Join(home, ".cache", "gorun")); err == nil {
				t.Errorf("Clean left %v", files)
			}
		})
	}
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestRshFallback: a container without a home directory.
func TestRshFallback(t *testing.T) {
	id := jobID(t)
	d, _ := rshDialer(t, standInRsh(t, "docker", "unset HOME; "+asWords), func(o *Options) { o.JobID = id })
	l := mustDial(t, d, hostfile.Host{Name: "node1"})
	if got, want := ask(t, l, "args"), "--remove /tmp/gorun-agent-"+id; got != want {
		t.Errorf("arguments: got %q; want %q", got, want)
	}
	if out, err := l.Run(t.Context(), "agent", "sweep", id); err != nil || string(out) != "swept "+id+"\n" {
		t.Errorf("Run: got %q, %v", out, err)
	}
	os.RemoveAll("/tmp/gorun-agent-" + id) // the stand-in does not
}

// TestRshLocal: this machine is reached by nothing.
func TestRshLocal(t *testing.T) {
	d, _ := rshDialer(t, "/nonexistent/ssh", nil)
	for _, h := range []hostfile.Host{{Name: "localhost"}, {Name: "127.0.0.1", Line: 3}, {}} {
		if got := ask(t, mustDial(t, d, h), "hello"); got != "hello" {
			t.Errorf("%+v: got %q; want the line back", h, got)
		}
	}
	_, err := dial(t, d, hostfile.Host{Name: "node1"})
	if e := hostError(t, err); e.Error() != "--rsh ssh: fork/exec /nonexistent/ssh: no such file or directory" {
		t.Errorf("got %q", e.Error())
	}
}

func TestRshFailures(t *testing.T) {
	banner := strings.Repeat("Authorized use only. ", 30)
	tests := []struct{ name, text, want string }{
		{"exits", "echo 'no such container' >&2; exit 125", `--rsh exits: it ended (exit status 125) before gorun's agent spoke; it printed "no such container"`},
		{"exits-silently", "exit 0", "--rsh exits-silently: it ended (exit status 0) before gorun's agent spoke"},
		{"last-lines", "echo '" + banner + "' >&2; echo 'Permission denied (publickey).' >&2; exit 255", `use only.  | Permission denied (publickey)."`},
		{"killed", "kill -9 $$", "--rsh killed: it ended (killed by SIGKILL)"},
		{"echoes", `echo "$@"; exit 1`, "--rsh echoes: it ended (exit status 1) before gorun's agent spoke; it gave back what was sent to it"},
		{"quotes", `echo "no such file: '$*'" >&2; exit 1`, `spoke; it gave back what was sent to it; it printed "no such file: ..."`},
		{"hangs-echoing", `echo "$@"; exec sleep 1000`, `did not speak in 500ms; it printed "..."`},
		{"prints", "echo hello; exit 1", `it printed "hello"`},
		{"control-characters", `printf 'a\033[31mb\n' >&2; exit 1`, `it printed "a?[31mb"`},
		{"hangs", "exec sleep 1000", "--rsh hangs: it was started, but gorun's agent did not speak in 500ms"},
		{"hangs-after-a-banner", "echo hello; exec sleep 1000", `did not speak in 500ms; it printed "hello"`},
		{"hangs-without-output", "exec sleep 1000 >&-", "--rsh hangs-without-output: it was started, but gorun's agent did not speak in 500ms"},
		{"asks-for-a-terminal", "read -r x < /dev/tty || { echo no terminal >&2; exit 3; }", "(exit status 3)"},
		{"noise", "yes", "printed more than 1 MiB before gorun's agent spoke"},
		{"terminal", `exec sh -c "$*" | sed -u 's/$/\r/'`, "--rsh terminal: a terminal is on the way"},
		{"eats-input", "cat > /dev/null", "did not speak in 500ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := standInRsh(t, tt.name, tt.text)
			d := fakeDialer(t, func(o *Options) {
				o.Rsh = line
				if strings.Contains(tt.want, "500ms") {
					o.ConnectTimeout = 500 * time.Millisecond
				}
			})
			_, err := dial(t, d, hostfile.Host{Name: "node1"})
			e := hostError(t, err)
			if !strings.Contains(e.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s in it", e, tt.want)
			}
			if got := strings.Join(e.Rsh, " "); got != line+" node1 cat" {
				t.Errorf("what reaches the host: got %q", got)
			}
		})
	}
	d := fakeDialer(t, func(o *Options) { o.Rsh = "nosuch-rsh {host}" })
	_, err := dial(t, d, hostfile.Host{Name: "node1"})
	if e := hostError(t, err); e.Error() != "--rsh nosuch-rsh: executable file not found in $PATH" {
		t.Errorf("got %q", e.Error())
	}
	if _, err := New(Options{Rsh: "ssh {hst}"}); err == nil || !strings.Contains(err.Error(), "unknown placeholder {hst}") {
		t.Errorf("New: got %v; want the placeholder to be refused", err)
	}
}

// TestRshLeavesNothing: a command and what it has started in its group end with the link,
// with a dial that is given up, and with its own first process.
func TestRshLeavesNothing(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	script := "echo $$ >> " + pids + "; sleep 1000 & echo $! >> " + pids + "; "
	started := func() (alive []int) {
		text, _ := os.ReadFile(pids)
		for f := range strings.FieldsSeq(string(text)) {
			if pid, _ := strconv.Atoi(f); syscall.Kill(pid, 0) == nil && !zombie(pid) {
				alive = append(alive, pid)
			}
		}
		return alive
	}
	gone := func(t *testing.T) {
		t.Helper()
		waitFor(t, "the processes to end", func() bool { return len(started()) == 0 })
		os.Remove(pids)
	}
	t.Run("closed", func(t *testing.T) {
		d, _ := rshDialer(t, standInRsh(t, "x", script+asWords)+" {host} {sh}", nil)
		l := mustDial(t, d, hostfile.Host{Name: "node1"})
		if len(started()) != 2 {
			t.Errorf("alive: got %v; want two processes", started())
		}
		l.Close()
		gone(t)
	})
	t.Run("command-ended", func(t *testing.T) {
		d, _ := rshDialer(t, standInRsh(t, "x", script+asWords)+" {host} {sh}", nil)
		l := mustDial(t, d, hostfile.Host{Name: "node1"})
		io.WriteString(l, "exit 0\n")
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v", err)
		}
		gone(t)
	})
	t.Run("given-up", func(t *testing.T) {
		d, _ := rshDialer(t, standInRsh(t, "x", script+"exec sleep 1000"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := d.Dial(ctx, hostfile.Host{Name: "node1"})
			failed <- err
		}()
		waitFor(t, "the command", func() bool { return len(started()) == 2 })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v; want %v", err, context.Canceled)
		}
		gone(t)
	})
	t.Run("run-given-up", func(t *testing.T) {
		d, _ := rshDialer(t, standInRsh(t, "x", `case $3 in *sweep*) `+script+`exec sleep 1000;; esac; `+asWords)+" {host} {sh}", nil)
		l := mustDial(t, d, hostfile.Host{Name: "node1"})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := l.Run(ctx, "agent", "sweep", "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want %v", err, context.DeadlineExceeded)
		}
		l.Close()
		gone(t)
	})
}

func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// TestDynamicBinary: a gorun that needs libraries is sent to no host, and runs here.
func TestDynamicBinary(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	loader := loaderOf(bytes.NewReader(shell))
	if loader == "" {
		t.Skip("/bin/sh is no dynamic program here")
	}
	for name, text := range map[string][]byte{"script": []byte("#!/bin/sh\n"), "empty": nil, "cut": shell[:100]} {
		if got := loaderOf(bytes.NewReader(text)); got != "" {
			t.Errorf("%s: got loader %q; want none", name, got)
		}
	}
	s := newFakeServer(t, "127.0.0.1:0").start()
	for name, rsh := range map[string]string{"ssh": "", "rsh": standInRsh(t, "docker", asWords)} {
		d := fakeDialer(t, func(o *Options) { o.Self, o.Rsh = "/bin/sh", rsh })
		h := hostfile.Host{Name: "node1"}
		if rsh == "" {
			h = hostfile.Host{Name: "127.0.0.1", Port: s.port()}
		}
		_, err := dial(t, d, h)
		hostError(t, err)
		e, ok := errors.AsType[*DynamicError](err)
		if !ok || e.Loader != loader || !strings.HasSuffix(e.Error(), "build one for all hosts with: CGO_ENABLED=0 go build ./cmd/gorun") {
			t.Errorf("%s: got %v; want it to be refused, with the build line", name, err)
		}
	}
}
