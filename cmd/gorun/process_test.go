package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// until polls cond, and reports whether it came true within limit.
func until(limit time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(10 * time.Millisecond)
	}
	return true
}

// buffer gathers output while others look at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// processState is the letter of /proc that says what a process does; "" if it is gone.
func processState(pid string) string {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := bytes.Cut(stat, []byte(") "))
	if len(after) == 0 {
		return ""
	}
	return string(after[:1])
}

// process is a gorun under way.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	dir            string
	stdout, stderr buffer
	done           chan struct{}
}

// start runs gorun with args in a directory of its own.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startTo(t, nil, args...)
}

// startTo is start with a standard error of its own, unless that is nil.
func startTo(t *testing.T, stderr *os.File, args ...string) *process {
	t.Helper()
	return startWith(t, func(c *exec.Cmd) {
		if c.Args = append(c.Args, args...); stderr != nil {
			c.Stderr = stderr
		}
	})
}

// startWith runs gorun as change says.
func startWith(t *testing.T, change func(*exec.Cmd)) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), done: make(chan struct{})}
	p.cmd = exec.Command("gorun")
	p.cmd.Dir = p.dir
	p.cmd.Env = append(os.Environ(), "HOME="+p.dir, "PWD="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	change(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// startAsJob is start for a gorun that a shell with job control would have started: in a
// process group of its own.
func startAsJob(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, func(c *exec.Cmd) {
		c.Args, c.SysProcAttr = append(c.Args, args...), &syscall.SysProcAttr{Setpgid: true}
	})
}

// waitFiles waits until ranks have written all of the named files.
func (p *process) waitFiles(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if !until(patience, func() bool { _, err := os.Stat(filepath.Join(p.dir, name)); return err == nil }) {
			p.t.Fatalf("no file %s after %v", name, patience)
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for gorun, checks its exit code, and returns what it said.
func (p *process) end(code int) (stdout, stderr string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("gorun still runs after %v", patience)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("got exit code %d; want %d\nstdout: %s\nstderr: %s", got, code, &p.stdout, &p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

// gone checks that no process is left whose number a rank has written to a file.
func (p *process) gone(pattern string) {
	p.t.Helper()
	files, _ := filepath.Glob(filepath.Join(p.dir, pattern))
	if len(files) == 0 {
		p.t.Fatalf("no file %s", pattern)
	}
	for _, f := range files {
		pid, err := os.ReadFile(f)
		if err != nil {
			p.t.Fatal(err)
		}
		proc := "/proc/" + strings.TrimSpace(string(pid))
		if !until(patience, func() bool { _, err := os.Stat(proc); return errors.Is(err, os.ErrNotExist) }) {
			p.t.Errorf("process %s is left", proc)
		}
	}
}

// sleeper is a rank that writes its number to pid.RANK, then sleeps.
const sleeper = `echo $$ >pid.new$RANK; mv pid.new$RANK pid.$RANK; exec sleep 60`

func TestSignalsEndTheJob(t *testing.T) {
	tests := map[string]struct {
		signal syscall.Signal
		code   int
		text   string
	}{
		"INT":  {syscall.SIGINT, 130, "gorun: ended by SIGINT; 2 ranks stopped"},
		"TERM": {syscall.SIGTERM, 143, "gorun: ended by SIGTERM; 2 ranks stopped"},
		"HUP":  {syscall.SIGHUP, 129, "gorun: ended by SIGHUP; 2 ranks stopped"},
		"QUIT": {syscall.SIGQUIT, 131, "gorun: ended by SIGQUIT; 2 ranks stopped"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "-np", "2", "--oversubscribe", "sh", "-c", sleeper)
			p.waitFiles("pid.0", "pid.1")
			p.signal(tt.signal)
			if _, stderr := p.end(tt.code); !strings.Contains(stderr, tt.text) {
				t.Errorf("got %q; want %q in it", stderr, tt.text)
			}
			p.gone("pid.*")
		})
	}
}

func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	p := start(t, "-np", "1", "--kill-grace", "60", "sh", "-c", `trap "" INT TERM; echo $$ >pid.0; while :; do sleep 1; done`)
	p.waitFiles("pid.0")
	p.signal(syscall.SIGINT)
	if !until(patience, func() bool { return strings.Contains(p.stderr.String(), "KILL follows") }) {
		t.Fatalf("got %q; want a line that says what is awaited", p.stderr.String())
	}
	p.signal(syscall.SIGINT)
	p.end(130)
	p.gone("pid.*")
}

// TestQuitBeforeTheJob has gorun wait for its hostfile: a signal ends it then as well,
// and Go says nothing.
func TestQuitBeforeTheJob(t *testing.T) {
	t.Parallel()
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := syscall.Mkfifo(hosts, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-hostfile", hosts, "true")
	var w *os.File
	opened := until(patience, func() (ok bool) {
		var err error
		w, err = os.OpenFile(hosts, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails as long as there is no reader
		return err == nil
	})
	if !opened {
		t.Fatal("gorun does not read the hostfile")
	}
	defer w.Close()
	p.signal(syscall.SIGQUIT)
	if _, stderr := p.end(131); stderr != "" {
		t.Errorf("got %q; want nothing", stderr)
	}
}

// TestUnreadStderr has nobody read standard error: the time limit ends the job all the
// same, and gorun with it.
func TestUnreadStderr(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := startTo(t, w, "--timeout", "1", "--kill-grace", "1", "-np", "2", "--oversubscribe", "sh", "-c", "yes >&2")
	p.end(124)
}

// TestClosedStderr: a job that says something to nobody ends, as with a closed stdout.
func TestClosedStderr(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	p := startTo(t, w, "-np", "1", "--result", "r.json", "sh", "-c", "yes >&2")
	p.end(141)
	result, err := os.ReadFile(filepath.Join(p.dir, "r.json"))
	if err != nil || !strings.Contains(string(result), "output was closed by its reader") {
		t.Errorf("the result does not tell of it: %v\n%s", err, result)
	}
}

func TestUserSignalsReachTheRanks(t *testing.T) {
	t.Parallel()
	p := start(t, "-np", "1", "sh", "-c", `trap "echo got USR1; exit 0" USR1; : >up; while :; do sleep 0.05; done`)
	p.waitFiles("up")
	p.signal(syscall.SIGUSR1)
	if stdout, _ := p.end(0); stdout != "got USR1\n" {
		t.Errorf("got %q; want %q", stdout, "got USR1\n")
	}
}

func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	// The rank waits without starting children: a shell is not "T" but "D" as long as a child
	// is stopped that has not yet become a program of its own.
	p := startAsJob(t, "-np", "1", "--timeout", "60", "sh", "-c", `mkfifo end; echo $$ >pid.new; mv pid.new pid.0; read line <end`)
	p.waitFiles("pid.0")
	p.signal(syscall.SIGTSTP)
	rank, _ := os.ReadFile(filepath.Join(p.dir, "pid.0"))
	for _, pid := range []string{strings.TrimSpace(string(rank)), fmt.Sprint(p.cmd.Process.Pid)} {
		if !until(patience, func() bool { return processState(pid) == "T" }) {
			t.Fatalf("process %s is in state %q; want T", pid, processState(pid))
		}
	}
	p.signal(syscall.SIGCONT)
	if err := os.WriteFile(filepath.Join(p.dir, "end"), []byte("\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p.end(0)
}

func TestKilledGorunLeavesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, "-np", "2", "--oversubscribe", "sh", "-c", sleeper)
	p.waitFiles("pid.0", "pid.1")
	p.signal(syscall.SIGKILL)
	p.gone("pid.*")
}

// silentServer accepts connections and says nothing; accepted gets one value for each.
func silentServer(t *testing.T) (port int, accepted <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := make(chan struct{}, 16)
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, conn := range conns {
			conn.Close()
		}
	})
	return l.Addr().(*net.TCPAddr).Port, c
}

// hostsFile writes a hostfile and returns its path.
func hostsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInterruptedWhileConnecting(t *testing.T) {
	t.Parallel()
	port, accepted := silentServer(t)
	p := start(t, "-hostfile", hostsFile(t, fmt.Sprintf("127.0.0.1 port=%d slots=1", port)), "true")
	select {
	case <-accepted:
	case <-time.After(patience):
		t.Fatal("gorun has not connected")
	}
	p.signal(syscall.SIGINT)
	if _, stderr := p.end(130); stderr != "gorun: ended by SIGINT; nothing was started\n" {
		t.Errorf("got %q", stderr)
	}
}

func TestHostsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	silent, _ := silentServer(t)
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().(*net.TCPAddr).Port
	l.Close()
	hosts := hostsFile(t, fmt.Sprintf("127.0.0.1 port=%d slots=1\n127.0.0.2 port=%d slots=1\n", silent, refused))
	p := start(t, "-hostfile", hosts, "--connect-timeout", "1", "--result", "r.json", "touch", "started")
	_, stderr := p.end(125)
	for _, want := range []string{
		"gorun: 2 of 2 hosts cannot be used; nothing was started\n", "gorun:   127.0.0.1: ", "gorun:   127.0.0.2: ", "refused", "port=N",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	result, err := os.ReadFile(filepath.Join(p.dir, "r.json"))
	if err != nil || !strings.Contains(string(result), `"host": "127.0.0.2"`) {
		t.Errorf("the result does not name the host: %v\n%s", err, result)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "started")); err == nil {
		t.Error("the program was started")
	}
}

func TestCleanIsInterrupted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, accepted := silentServer(t)
			p := start(t, "clean", "-hostfile", hostsFile(t, fmt.Sprintf("127.0.0.1 port=%d slots=1", port)))
			select {
			case <-accepted:
			case <-time.After(patience):
				t.Fatal("gorun has not connected")
			}
			p.signal(signal)
			_, stderr := p.end(128 + int(signal))
			if want := "gorun: ended by SIG" + name + "; not every host was cleaned\n"; stderr != want {
				t.Errorf("got %q; want %q", stderr, want)
			}
		})
	}
}
