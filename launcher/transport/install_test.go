package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// shellHost is a host as the bootstrap script sees it: a login shell, a /bin/sh and
// an environment.
type shellHost struct {
	login string   // words
	sh    string   // words; "" for /bin/sh
	env   []string // HOME, PATH and so on
	wg    *sync.WaitGroup
}

// run is a fakeServer's shell: it gives the command to the login shell, as sshd does.
func (h shellHost) run(ch ssh.Channel, command string) uint32 {
	if h.sh != "" {
		command = strings.Replace(command, "exec /bin/sh -c", "exec "+h.sh+" -c", 1)
	}
	words := strings.Fields(h.login)
	cmd := exec.Command(words[0], append(words[1:], "-c", command)...)
	cmd.Env, cmd.Dir = h.env, "/"
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 255
	}
	h.wg.Go(func() { io.Copy(in, ch); in.Close() })
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return uint32(code)
	}
	return 255
}

func (h shellHost) serve(t *testing.T) *fakeServer {
	t.Helper()
	s := newFakeServer(t, "127.0.0.1:0")
	h.wg = &s.wg
	s.shell = h.run
	return s.start()
}

// counter is a log handler that counts messages.
type counter struct {
	slog.Handler
	mu    sync.Mutex
	count map[string]int
}

func newCounter() *counter { return &counter{Handler: slog.DiscardHandler, count: map[string]int{}} }

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[r.Message]++
	return nil
}

func (c *counter) of(message string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[message]
}

const installing = "installing gorun"

func cacheOf(home string) string { return filepath.Join(home, ".cache", "gorun") }

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func pathEnv(home string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, more...)
}

// jobID is a job's name that no other test uses; fallback directories of that name are removed at the end.
func jobID(t *testing.T) string {
	t.Helper()
	id := "t" + newNonce()[:12]
	t.Cleanup(func() {
		for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
			os.RemoveAll(filepath.Join(dir, "gorun-agent-"+id))
		}
	})
	return id
}

func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(strings.Fields(p)[0]); err != nil {
			skip(t, "needs %s", p)
		}
	}
}

// TestScriptIsPlain: the commands must pass through every login shell unchanged.
func TestScriptIsPlain(t *testing.T) {
	b := &binary{size: 12345678, name: "gorun-0123456789abcdef"}
	for _, cmd := range []string{installCommand(testNonce, "job-1", b), shCommand(cleanScript)} {
		inner, ok := strings.CutPrefix(cmd, "exec /bin/sh -c '")
		inner, ok2 := strings.CutSuffix(inner, "'")
		if !ok || !ok2 || strings.ContainsAny(inner, "!\\\n'") {
			t.Errorf("not plain: %s", cmd)
		}
		if n := len(cmd); n > 3500 {
			t.Errorf("%d bytes; want a command that fits everywhere", n)
		}
	}
	if got, want := firstCommand(testNonce, b), `exec "$HOME/.cache/gorun/gorun-0123456789abcdef" agent `+testNonce; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestShells(t *testing.T) {
	logins := []string{"dash", "bash", "tcsh", "fish", "zsh", "busybox ash"}
	shs := []string{"dash", "bash --posix", "busybox sh"}
	needPrograms(t, append(slices.Clone(logins), shs...)...)
	for i, login := range logins {
		for j, sh := range shs {
			if i > 1 && j != i%len(shs) {
				continue // all pairs would be slow
			}
			t.Run(strings.ReplaceAll(login+"-"+sh, " ", "-"), func(t *testing.T) {
				t.Parallel()
				home := filepath.Join(t.TempDir(), "it's a $home")
				os.Mkdir(home, 0o700)
				s := shellHost{login: login, sh: sh, env: pathEnv(home)}.serve(t)
				log := newCounter()
				d := fakeDialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
				for _, first := range []bool{true, false} {
					l := mustDial(t, d, s.host())
					if got := ask(t, l, "bytes \t kept"); !strings.HasPrefix(got, "bytes") {
						t.Errorf("got %q", got)
					}
					if got := ask(t, l, "umask"); got != "0022" {
						t.Errorf("umask: got %s; want 0022", got)
					}
					if got := ask(t, l, "exe"); !strings.HasPrefix(got, cacheOf(home)+"/gorun-") {
						t.Errorf("runs from %s; want the cache in %s", got, home)
					}
					if got := ask(t, l, "args"); got != "" {
						t.Errorf("more arguments: got %q; want none", got)
					}
					phases := fmt.Sprint(l.Timeline())
					if strings.Contains(phases, "install") != first {
						t.Errorf("phases: got %s; want install only the first time", phases)
					}
					l.Close()
				}
				if got := log.of(installing); got != 1 {
					t.Errorf("sent %d times; want once", got)
				}
				names := listDir(t, cacheOf(home))
				if len(names) != 1 {
					t.Fatalf("cache: got %v; want one file", names)
				}
				got, _ := os.ReadFile(filepath.Join(cacheOf(home), names[0]))
				want, _ := os.ReadFile(d.opts.Self)
				if !bytes.Equal(got, want) {
					t.Errorf("cached file: %d bytes differ from the %d sent", len(got), len(want))
				}
				if st, _ := os.Stat(cacheOf(home)); st.Mode().Perm() != 0o700 {
					t.Errorf("cache directory: got mode %v; want 0700", st.Mode().Perm())
				}
			})
		}
	}
}

// mountTmpfs mounts a small file system.
func mountTmpfs(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "needs root to mount")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		skip(t, "mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// TestHomes are homes in which gorun cannot be kept: it is run from a directory of
// the job then, and told to remove it.
func TestHomes(t *testing.T) {
	tests := []struct {
		name string
		env  func(t *testing.T, home string) []string
		tmp  bool // runs from /tmp
		sent int  // times
		fail string
	}{
		{"good", func(t *testing.T, home string) []string { return pathEnv(home) }, false, 1, ""},
		{"unset", func(t *testing.T, home string) []string { return pathEnv(home)[:1] }, true, 1, ""},
		{"empty", func(t *testing.T, home string) []string { return pathEnv("") }, true, 1, ""},
		{"missing", func(t *testing.T, home string) []string { return pathEnv(filepath.Join(home, "none")) }, true, 1, ""},
		{"file", func(t *testing.T, home string) []string { return pathEnv("/etc/passwd") }, true, 1, ""},
		{"cache-is-a-file", func(t *testing.T, home string) []string {
			write(t, filepath.Join(home, ".cache"), "", 0o600)
			return pathEnv(home)
		}, true, 1, ""},
		{"read-only", func(t *testing.T, home string) []string {
			mountTmpfs(t, home, syscall.MS_RDONLY, "")
			return pathEnv(home)
		}, true, 1, ""},
		{"noexec", func(t *testing.T, home string) []string {
			mountTmpfs(t, home, syscall.MS_NOEXEC, "")
			return pathEnv(home)
		}, true, 1, ""},
		{"full", func(t *testing.T, home string) []string {
			mountTmpfs(t, home, 0, "size=64k")
			return pathEnv(home)
		}, true, 2, ""},
	}
	shs := []string{"dash", "bash --posix", "busybox sh"}
	for i, tt := range tests {
		for j, sh := range shs {
			if tt.sent == 1 && tt.name != "noexec" && i%len(shs) != j {
				continue // one of them will do
			}
			t.Run(tt.name+"-"+strings.Fields(sh)[0], func(t *testing.T) {
				t.Parallel()
				needPrograms(t, sh)
				home := filepath.Join(t.TempDir(), "home")
				os.Mkdir(home, 0o700)
				s := shellHost{login: "bash", sh: sh, env: tt.env(t, home)}.serve(t)
				log := newCounter()
				id := jobID(t)
				d := fakeDialer(t, func(o *Options) {
					o.Self, o.JobID, o.Logger, o.ConnectTimeout = scriptSelf(t, strings.Repeat("x", 100<<10)), id, slog.New(log), time.Minute
				})
				l := mustDial(t, d, s.host())
				dir := "/tmp/gorun-agent-" + id
				exe, args := ask(t, l, "exe"), ask(t, l, "args")
				if tt.tmp && (exe != dir+"/gorun" || args != "--remove "+dir) || !tt.tmp && (args != "" || !strings.HasPrefix(exe, home)) {
					t.Errorf("runs %s %q; want it in %s: %v", exe, args, dir, tt.tmp)
				}
				if got := log.of(installing); got != tt.sent {
					t.Errorf("sent %d times; want %d", got, tt.sent)
				}
				if st, err := os.Stat(dir); tt.tmp && (err != nil || st.Mode().Perm() != 0o700) {
					t.Errorf("%s: got %v, %v; want mode 0700", dir, st, err)
				}
				for _, name := range listDir(t, cacheOf(home)) {
					if strings.HasPrefix(name, "tmp.") {
						t.Errorf("left behind: %s", name)
					}
				}
				if out, err := l.Run(t.Context(), "agent", "sweep", id); err != nil || string(out) != "swept "+id+"\n" {
					t.Errorf("Run: got %q, %v; want it to find gorun again", out, err)
				}
			})
		}
	}
}

// TestNowhere: every directory fails, and the error says why for each.
func TestNowhere(t *testing.T) {
	id := jobID(t)
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		// What is there already is not used, whatever it is.
		if err := os.Symlink("/root", filepath.Join(dir, "gorun-agent-"+id)); err != nil {
			skip(t, "needs to write to %s", dir)
		}
	}
	xdg := t.TempDir()
	os.Mkdir(filepath.Join(xdg, "gorun-agent-"+id), 0o700)
	s := shellHost{login: "bash", env: pathEnv("/nonexistent", "XDG_RUNTIME_DIR="+xdg)}.serve(t)
	d := fakeDialer(t, func(o *Options) { o.JobID = id })
	_, err := dial(t, d, s.host())
	hostError(t, err)
	e, ok := errors.AsType[*InstallError](err)
	if !ok {
		t.Fatalf("got %v; want an InstallError", err)
	}
	var got []string
	for _, p := range e.Places {
		got = append(got, p.Dir+": "+p.Why)
	}
	const no = ": cannot make a directory there"
	want := []string{"/nonexistent: there is no such home directory", "/tmp" + no, "/var/tmp" + no, "/dev/shm" + no, xdg + no}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if !strings.Contains(e.Stderr, "File exists") {
		t.Errorf("stderr: got %q; want what mkdir said", e.Stderr)
	}
}

// TestXDG: the last resort works, blanks in its name included.
func TestXDG(t *testing.T) {
	id := jobID(t)
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		os.WriteFile(filepath.Join(dir, "gorun-agent-"+id), nil, 0o600)
	}
	xdg := filepath.Join(t.TempDir(), "run user")
	os.Mkdir(xdg, 0o700)
	s := shellHost{login: "bash", env: pathEnv("/nonexistent", "XDG_RUNTIME_DIR="+xdg)}.serve(t)
	l := mustDial(t, fakeDialer(t, func(o *Options) { o.JobID = id }), s.host())
	if got, want := ask(t, l, "args"), "--remove "+xdg+"/gorun-agent-"+id; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if out, err := l.Run(t.Context(), "agent", "sweep", "x"); err != nil || string(out) != "swept x\n" {
		t.Errorf("Run: got %q, %v", out, err)
	}
}

// TestSharedHome: of many hosts with one home, one is sent the binary.
func TestSharedHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	log := newCounter()
	d := fakeDialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
	servers := make([]*fakeServer, 8)
	for i := range servers {
		servers[i] = shellHost{login: "sh", env: pathEnv(home)}.serve(t)
	}
	dialAll(t, d, servers)
	if got := log.of(installing); got != 1 {
		t.Errorf("sent %d times; want once", got)
	}
	if names := listDir(t, cacheOf(home)); len(names) != 1 {
		t.Errorf("cache: got %v; want one file", names)
	}
}

// TestPrivateHomes: hosts with homes of their own are all sent it, and a slow one
// holds up nobody but the start.
func TestPrivateHomes(t *testing.T) {
	t.Parallel()
	log := newCounter()
	d := fakeDialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
	servers := make([]*fakeServer, 6)
	for i := range servers {
		servers[i] = shellHost{login: "sh", env: pathEnv(t.TempDir())}.serve(t)
	}
	dialAll(t, d, servers)
	if got := log.of(installing); got != len(servers) {
		t.Errorf("sent %d times; want %d", got, len(servers))
	}
}

// TestLeaderFails: the host that installs for the others breaks; they go on.
func TestLeaderFails(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	log := newCounter()
	d := fakeDialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
	asked := make(chan struct{})
	bad := newFakeServer(t, "127.0.0.1:0")
	bad.shell = func(ch ssh.Channel, command string) uint32 {
		if !strings.Contains(command, "/bin/sh") {
			return 127
		}
		fmt.Fprintf(ch, "@gorun-%s need Linux %s home\n", nonceOf(command), unameMachine())
		io.ReadFull(ch, make([]byte, len("send\n")))
		close(asked)
		time.Sleep(200 * time.Millisecond)
		return 3
	}
	bad.start()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := d.Dial(t.Context(), bad.host()); err == nil {
			t.Error("the bad host: got no error")
		}
	})
	<-asked
	dialAll(t, d, []*fakeServer{shellHost{login: "sh", env: pathEnv(home)}.serve(t), shellHost{login: "sh", env: pathEnv(t.TempDir())}.serve(t)})
	wg.Wait()
	if got := log.of(installing); got != 3 {
		t.Errorf("sent %d times; want 3", got)
	}
}

func dialAll(t *testing.T, d *Dialer, servers []*fakeServer) {
	t.Helper()
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			l, err := d.Dial(t.Context(), s.host())
			if err != nil {
				t.Errorf("host %d: %v", i, err)
				return
			}
			l.Close()
		})
	}
	wg.Wait()
}

// TestDamagedCache: a cached file that cannot be run is found out and replaced.
func TestDamagedCache(t *testing.T) {
	for _, sh := range []string{"dash", "bash --posix", "busybox sh"} {
		for name, content := range map[string]string{"garbage": "\x7fELF\x02\x01\x01\x00\x00>\x00garbage\n", "empty": "", "failing": "#!/bin/sh\nexit 7\n"} {
			t.Run(strings.Fields(sh)[0]+"-"+name, func(t *testing.T) {
				t.Parallel()
				needPrograms(t, sh)
				home := t.TempDir()
				log := newCounter()
				d := fakeDialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
				b, err := d.ship.get()
				if err != nil {
					t.Fatal(err)
				}
				os.MkdirAll(cacheOf(home), 0o700)
				write(t, filepath.Join(cacheOf(home), b.name), content, 0o700)
				l := mustDial(t, d, shellHost{login: "sh", sh: sh, env: pathEnv(home)}.serve(t).host())
				if got := ask(t, l, "exe"); got != filepath.Join(cacheOf(home), b.name) {
					t.Errorf("runs from %s; want the cache", got)
				}
				if got := log.of(installing); got != 1 {
					t.Errorf("sent %d times; want once", got)
				}
			})
		}
	}
}

func TestOtherArchitecture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the host pretends to be arm64")
	}
	bin := t.TempDir()
	write(t, filepath.Join(bin, "uname"), "#!/bin/sh\ncase $1 in -m) echo aarch64;; *) echo Linux;; esac\n", 0o755)
	for _, cached := range []bool{false, true} {
		t.Run(fmt.Sprintf("cached-%v", cached), func(t *testing.T) {
			home := t.TempDir()
			d := fakeDialer(t, nil)
			if cached { // as on a shared home, put there by a host of our own architecture
				b, _ := d.ship.get()
				os.MkdirAll(cacheOf(home), 0o700)
				write(t, filepath.Join(cacheOf(home), b.name), "\x7fELF\x02\x01\x01\x00\x00\xb7\x00garbage\n", 0o700)
			}
			s := shellHost{login: "sh", env: []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH")}}.serve(t)
			_, err := dial(t, d, s.host())
			e, ok := errors.AsType[*ArchError](err)
			want := ArchError{Kernel: "Linux", Machine: "aarch64", GOOS: "linux", GOARCH: "arm64", Have: "linux/amd64"}
			if !ok || *e != want {
				t.Errorf("got %v; want %+v", err, want)
			}
		})
	}
}

// TestPrune: installing keeps the newest three, and removes what broke off long ago.
func TestPrune(t *testing.T) {
	home := t.TempDir()
	os.MkdirAll(cacheOf(home), 0o700)
	for i := range 5 {
		name := filepath.Join(cacheOf(home), fmt.Sprintf("gorun-%d", i))
		write(t, name, "old", 0o700)
		at := time.Now().Add(-time.Duration(i+2) * 24 * time.Hour)
		os.Chtimes(name, at, at)
	}
	for name, age := range map[string]time.Duration{"tmp.old": 72 * time.Hour, "tmp.new": time.Minute, "notes": 1000 * time.Hour} {
		write(t, filepath.Join(cacheOf(home), name), "", 0o600)
		at := time.Now().Add(-age)
		os.Chtimes(filepath.Join(cacheOf(home), name), at, at)
	}
	d := fakeDialer(t, nil)
	mustDial(t, d, shellHost{login: "sh", env: pathEnv(home)}.serve(t).host())
	b, _ := d.ship.get()
	want := []string{b.name, "gorun-0", "gorun-1", "notes", "tmp.new"}
	slices.Sort(want)
	if got := listDir(t, cacheOf(home)); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// TestPruneSparesTheUsed: other builds are installed while jobs run.
func TestPruneSparesTheUsed(t *testing.T) {
	home := t.TempDir()
	os.MkdirAll(cacheOf(home), 0o700)
	for name, age := range map[string]time.Duration{"gorun-1": time.Hour, "gorun-2": 2 * time.Hour, "gorun-3": 20 * time.Hour, "gorun-4": 25 * time.Hour} {
		write(t, filepath.Join(cacheOf(home), name), "", 0o700)
		at := time.Now().Add(-age)
		os.Chtimes(filepath.Join(cacheOf(home), name), at, at)
	}
	d := fakeDialer(t, nil)
	mustDial(t, d, shellHost{login: "sh", env: pathEnv(home)}.serve(t).host())
	b, _ := d.ship.get()
	want := []string{b.name, "gorun-1", "gorun-2", "gorun-3"}
	slices.Sort(want)
	if got := listDir(t, cacheOf(home)); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

// TestBadShells are logins that do not run what they are given.
func TestBadShells(t *testing.T) {
	tests := []struct{ name, login, sh, want string }{
		{"nologin", "/usr/sbin/nologin", "", "This account is currently not available"},
		{"restricted", "bash -r", "", "restricted"},
		{"no-sh", "dash", "/nonexistent/sh", "/nonexistent/sh: not found"},
		{"forced-command", "echo", "", `it gave back what was sent to it; it printed "-c ..."`},
		{"silent", "true", "", "the login shell ended (exit status 0) before gorun's agent spoke"},
		{"failing", "false", "", "the login shell ended (exit status 1) before gorun's agent spoke"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			needPrograms(t, tt.login)
			h := shellHost{login: tt.login, sh: tt.sh, env: pathEnv(t.TempDir())}
			_, err := dial(t, fakeDialer(t, nil), h.serve(t).host())
			hostError(t, err)
			if _, ok := errors.AsType[*ShellError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want a ShellError with %q", err, tt.want)
			}
		})
	}
}

func TestRunArguments(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0").start()
	l := mustDial(t, fakeDialer(t, nil), s.host())
	for _, arg := range []string{"", "a b", "$(x)", "a'b", "a;b", "a\nb", "é"} {
		if _, err := l.Run(t.Context(), "agent", arg); err == nil || !strings.Contains(err.Error(), "cannot be passed") {
			t.Errorf("%q: got %v; want it refused", arg, err)
		}
	}
}

func TestRunHangs(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.shell = func(ch ssh.Channel, command string) uint32 {
		if strings.Contains(command, "sweep") {
			<-s.hang
		}
		return hailingShell(ch, command)
	}
	s.start()
	l := mustDial(t, fakeDialer(t, nil), s.host())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Run(ctx, "agent", "sweep", "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the deadline", err)
	}
	if got := ask(t, l, "still here"); got != "still here" {
		t.Errorf("the agent's stream: got %q", got)
	}
}
