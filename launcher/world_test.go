package launcher

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
)

// world is a job on fake agents, and what it sees of the world.
type world struct {
	*testing.T
	dir            string
	job            Job
	io             IO
	waits          waits
	stdout, stderr *safeBuffer
	signals        chan os.Signal
	tweak          func(*run) // before the run; nil for nothing
}

// localNames are names of this machine: each is a host of its own for the fakes.
var localNames = []string{"localhost", "127.0.0.1", "::1"}

// newWorld is a job of agents of one behaviour, with so many ranks on each host.
func newWorld(t *testing.T, name string, ranks ...int) *world {
	t.Helper()
	t.Parallel()
	if behaviour(name) == nil {
		t.Fatalf("no behaviour %q", name)
	}
	w := &world{T: t, dir: t.TempDir(), stdout: &safeBuffer{}, stderr: &safeBuffer{}, signals: make(chan os.Signal, 16), waits: defaultWaits()}
	w.waits.look = 200 * time.Millisecond // most fakes do not answer
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(w.dir, name)
	if err := os.Symlink(self, exe); err != nil {
		t.Fatal(err)
	}
	w.job = Job{
		Apps: []App{{Args: []string{"app"}}}, Dir: "/", Env: envsync.Policy{}, Stdin: StdinNone,
		Grace: 20 * time.Second, ConnectTimeout: 30 * time.Second, LostAfter: 30 * time.Second,
	}
	for i, n := range ranks {
		w.job.Hosts = append(w.job.Hosts, hostfile.Host{Name: localNames[i], Slots: n, File: "hosts", Line: i + 1})
	}
	w.io = IO{Stdout: w.stdout, Stderr: w.stderr, Signals: w.signals, Exe: exe, Home: w.dir, User: "nobody", Suspend: func() {}}
	return w
}

// run runs the job, which must end soon.
func (w *world) run() (*Result, error) {
	w.Helper()
	return w.runIn(w.Context())
}

func (w *world) runIn(ctx context.Context) (*Result, error) {
	w.Helper()
	r, err := newRun(w.job, w.io, w.waits)
	if err != nil {
		w.Fatal(err)
	}
	if w.tweak != nil {
		w.tweak(r)
	}
	type end struct {
		res *Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		res, err := r.follow(ctx)
		ended <- end{res, err}
	}()
	select {
	case e := <-ended:
		return e.res, e.err
	case <-time.After(60 * time.Second):
		buf := make([]byte, 1<<20)
		w.Fatalf("the job does not end; stderr %q\n%s", w.stderr, buf[:runtime.Stack(buf, true)])
		return nil, nil
	}
}

// good runs the job and wants a result without an error.
func (w *world) good() *Result {
	w.Helper()
	res, err := w.run()
	if err != nil {
		w.Fatalf("got error %v; want none", err)
	}
	return res
}

// marked waits until an agent has made its mark.
func (w *world) marked(name string) {
	for late := time.Now().Add(30 * time.Second); !w.has(name); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			w.Errorf("no agent came to %q", name)
			return
		}
	}
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// signalAt sends signals to the head, each when an agent has made a mark.
func (w *world) signalAt(mark string, signals ...syscall.Signal) {
	go func() {
		w.marked(mark)
		for _, s := range signals {
			w.signals <- s
		}
	}()
}

// states writes the ranks' states as "exited 3, killed 11, stopped, lost".
func states(res *Result) string {
	var out []string
	for _, r := range res.Ranks {
		out = append(out, rankText(r))
	}
	return strings.Join(out, ", ")
}

// wantStates compares the ranks' ends.
func (w *world) wantStates(res *Result, want string) {
	w.Helper()
	if got := states(res); got != want {
		w.Errorf("ranks: got %s; want %s (stderr %q)", got, want, w.stderr)
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// contains reports whether one of the texts contains part.
func contains(texts []string, part string) bool {
	return strings.Contains(strings.Join(texts, "\n"), part)
}

// leftGoroutines returns the stacks of goroutines of this module that do not end
// within limit, "" if there are none.
func leftGoroutines(limit time.Duration) string {
	for late := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		var left []string
		for _, s := range stacks[1:] { // the first is this one
			if strings.Contains(s, "gorun/launcher") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(late) {
			return strings.Join(left, "\n\n")
		}
	}
}
