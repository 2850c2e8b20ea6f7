package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// job is one run of gorun on node0, as user rank.
type job struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *os.File // read by the test, or nil
	given  *os.File // the other end of stdout, for gorun
	out    buffer
	err    buffer
	begun  time.Time
	ended  chan struct{}
}

// setup changes how gorun is run.
type setup func(*job)

// ended is what a run of gorun came to.
type ended struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// mostOutput bounds what a test keeps: a gorun gone wild must not fill the memory.
const mostOutput = 256 << 20

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.Len()+len(p) > mostOutput {
		return 0, fmt.Errorf("more than %d bytes of output", mostOutput)
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// variable sets NAME=value for gorun.
func variable(assignment string) setup {
	return func(j *job) { j.cmd.Env = append(j.cmd.Env, "TESTBED_ENV="+assignment) }
}

// input gives gorun text to read; without it stdin is /dev/null.
func input(r io.Reader) setup { return func(j *job) { j.cmd.Stdin = r } }

// unread leaves gorun's standard output to the test.
func unread(j *job) {
	var err error
	if j.stdout, j.given, err = os.Pipe(); err != nil {
		j.t.Fatal(err)
	}
	j.cmd.Stdout = j.given
	j.t.Cleanup(func() { j.stdout.Close() })
}

// start runs gorun. The test must wait for it.
func start(t *testing.T, args []string, setups ...setup) *job {
	t.Helper()
	need(t)
	j := &job{t: t, cmd: exec.Command(script, append([]string{"exec", "node0", "gorun"}, args...)...), ended: make(chan struct{})}
	j.cmd.Env = os.Environ()
	j.cmd.Stdout, j.cmd.Stderr = &j.out, &j.err
	for _, s := range setups {
		s(j)
	}
	j.begun = time.Now()
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if j.given != nil {
		j.given.Close()
	}
	go func() {
		j.cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(j.abandon)
	return j
}

// pid is gorun's own pid as this machine counts, once it runs; 0 before.
func (j *job) pid() int {
	p := j.cmd.Process.Pid
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p, p))
	child, _ := strconv.Atoi(strings.TrimSpace(string(list)))
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); filepath.Base(exe) != "gorun" {
		return 0
	}
	return child
}

// signal sends gorun a signal, as soon as it runs.
func (j *job) signal(s syscall.Signal) {
	j.t.Helper()
	within(j.t, 10*time.Second, "gorun running on node0", func() bool { return j.pid() != 0 })
	if err := syscall.Kill(j.pid(), s); err != nil {
		j.t.Fatal(err)
	}
}

// wait returns how gorun ended; it must within limit.
func (j *job) wait(limit time.Duration) ended {
	j.t.Helper()
	limit = patience(limit)
	select {
	case <-j.ended:
	case <-time.After(limit):
		j.signal(syscall.SIGQUIT) // the goroutines' stacks tell where it hangs
		time.Sleep(time.Second)
		j.t.Fatalf("gorun has not ended within %v\nstdout: %s\nstderr: %s", limit, shorten(j.out.String()), shorten(j.err.String()))
	}
	return ended{exitCode(j.cmd.ProcessState), j.out.String(), j.err.String(), time.Since(j.begun)}
}

// abandon kills what a failed test has left running.
func (j *job) abandon() {
	select {
	case <-j.ended:
		return
	default:
	}
	if pid := j.pid(); pid != 0 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	j.cmd.Process.Kill()
	<-j.ended
}

func exitCode(s *os.ProcessState) int {
	if w := s.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// gorun runs gorun to its end.
func gorun(t *testing.T, args []string, setups ...setup) ended {
	t.Helper()
	return start(t, args, setups...).wait(60 * time.Second)
}

// want checks the exit code, and that stderr has all of the texts.
func (e ended) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if e.code != code {
		t.Errorf("exit code %d; want %d", e.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(e.stderr, text) {
			t.Errorf("stderr lacks %q", text)
		}
	}
	if t.Failed() {
		t.Logf("took %v\nstdout: %s\nstderr: %s", e.took.Round(time.Millisecond), shorten(e.stdout), shorten(e.stderr))
	}
}

// soon is what nothing may exceed that has no reason to wait: far above what a quiet
// machine needs, below every default limit of gorun's (20 s, 30 s) with something on top.
const soon = 25 * time.Second

// wantWithin checks that gorun took no longer than limit; see patience.
func (e ended) wantWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	limit = patience(limit)
	if e.took > limit {
		t.Errorf("took %v; want at most %v\nstderr: %s", e.took, limit, shorten(e.stderr))
	}
}

func shorten(s string) string {
	const most = 4000
	if len(s) > most {
		return s[:most/2] + "\n…\n" + s[len(s)-most/2:]
	}
	return s
}

// shared returns a new directory that every host sees at the same path and that user
// rank may write.
func shared(t *testing.T) string {
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp(state, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return own(t, dir)
}

// own gives path to user rank.
func own(t *testing.T, path string) string {
	t.Helper()
	if err := os.Chown(path, rankID, rankID); err != nil {
		t.Fatal(err)
	}
	return path
}

// write makes a file of rank's in dir, and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return own(t, path)
}

// newHome makes a home directory for gorun with a copy of rank's .ssh, that a test may
// change. Only gorun itself uses it: on hosts the home stays what it is.
func newHome(t *testing.T) (dir string, use setup) {
	t.Helper()
	dir = shared(t)
	if out, err := exec.Command("cp", "-a", state+"/home/rank/.ssh", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	return dir, variable("HOME=" + dir)
}

// hostfile writes one line for each host, with the same words after each.
func hostfile(t *testing.T, names []string, words string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintln(&text, name, words)
	}
	return write(t, shared(t), "hosts", text.String())
}

// sh makes arguments that run a shell script in every rank.
func sh(args []string, script string) []string {
	return append(args[:len(args):len(args)], "sh", "-c", script)
}

// lines splits output, sorted by nothing.
func lines(s string) []string {
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
