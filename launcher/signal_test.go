package launcher

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	sigINT  = syscall.SIGINT
	sigTERM = syscall.SIGTERM
)

// valve is a reader of stdout that takes nothing before it is opened.
type valve struct {
	open chan struct{}
	n    atomic.Int64
}

func newValve() *valve { return &valve{open: make(chan struct{})} }

func (v *valve) Write(p []byte) (int, error) {
	<-v.open
	v.n.Add(int64(len(p)))
	return len(p), nil
}

func TestInterrupts(t *testing.T) {
	tests := []struct {
		name, behaviour, at string
		signals             []syscall.Signal
		hosts               int
		states              string
		signal              syscall.Signal // of the result
		said                string
	}{
		{"dialling", "no-hail", "up", []syscall.Signal{sigINT}, 1, "", sigINT, ""},
		{"before-hello", "no-hello", "up", []syscall.Signal{sigTERM}, 1, "", sigTERM, ""},
		{"preparing", "no-answer", "planned", []syscall.Signal{sigINT}, 2, "waiting, waiting", sigINT, ""},
		{"ranks-obey", "signals", "running", []syscall.Signal{sigINT}, 2, "stopped, stopped", sigINT, "stopping 2 ranks on localhost, 127.0.0.1; KILL follows after 20s"},
		{"twice", "stubborn", "running", []syscall.Signal{sigINT, sigINT}, 2, "stopped, stopped", sigINT, "killing 2 ranks on localhost, 127.0.0.1"},
		{"term-then-int", "stubborn", "running", []syscall.Signal{sigTERM, sigINT}, 1, "stopped", sigTERM, "killing 1 rank"},
		{"hup-quit", "stubborn", "running", []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT}, 1, "stopped", syscall.SIGHUP, ""},
		{"while-cleaning-up", "hurried", "stopping", []syscall.Signal{sigINT, sigINT}, 1, "exited 0", sigINT, "waiting for localhost to clean up"},
		{"after-a-failure", "fails-then-hurried", "stopping", []syscall.Signal{sigINT, sigINT}, 1, "exited 3", 0, "waiting for localhost to clean up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, []int{1, 1}[:tt.hosts]...)
			w.signalAt(tt.at, tt.signals...)
			res := w.good()
			w.wantStates(res, tt.states)
			if res.Signal != int(tt.signal) || (res.First != nil) != (tt.signal == 0) {
				t.Errorf("got signal %d, first failure %+v; want signal %d", res.Signal, res.First, tt.signal)
			}
			if !strings.Contains(w.stderr.String(), tt.said) {
				t.Errorf("stderr: got %q; want %q", w.stderr, tt.said)
			}
		})
	}
}

// After an INT the ranks have half of the grace, and half again after TERM.
func TestInterruptThatIsIgnored(t *testing.T) {
	w := newWorld(t, "stubborn", 1)
	w.job.Grace, w.waits.stop = 100*time.Millisecond, 50*time.Millisecond
	w.signalAt("running", sigINT)
	res := w.good()
	w.wantStates(res, "stopped")
	if !w.has("signal-2") || !w.has("stop-50ms") || !w.has("stop-0s") {
		t.Errorf("want INT, a stop, and one without grace (stderr %q)", w.stderr)
	}
}

func TestContextEnds(t *testing.T) {
	w := newWorld(t, "stubborn", 1)
	w.job.Grace = 0
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		w.marked("running")
		cancel()
	}()
	res, err := w.runIn(ctx)
	if err != nil || res.Signal != int(sigTERM) {
		t.Errorf("got signal %d, %v; want TERM", res.Signal, err)
	}
}

func TestUserSignalsAndPause(t *testing.T) {
	w := newWorld(t, "signals", 1, 1)
	var suspended atomic.Bool
	w.io.Suspend = func() { // by now the agents have been told
		w.marked("pause-true")
		suspended.Store(true)
	}
	go func() {
		w.marked("running")
		w.signals <- syscall.SIGUSR1
		w.marked("signal-10")
		w.signals <- syscall.SIGTSTP
		w.signals <- syscall.SIGCONT
		w.marked("pause-false")
		w.signals <- sigINT
	}()
	res := w.good()
	w.wantStates(res, "stopped, stopped")
	if !suspended.Load() || res.Signal != int(sigINT) {
		t.Errorf("suspended: %v, signal %d", suspended.Load(), res.Signal)
	}
}

func TestPauseWhileDialling(t *testing.T) {
	w := newWorld(t, "well", 1)
	w.signals <- syscall.SIGTSTP
	w.signals <- syscall.SIGUSR1
	var suspended atomic.Bool
	w.io.Suspend = func() { suspended.Store(true) }
	w.wantStates(w.good(), "exited 0")
	if !suspended.Load() {
		t.Error("gorun was not suspended")
	}
}

// waiting is a sink that only says how long a hello may take.
type waiting struct {
	sink
	limit time.Duration
	times atomic.Int64
}

func (w *waiting) patience() time.Duration { return w.limit }
func (w *waiting) suspended() int64        { return w.times.Load() }

// A hello has its whole time again after a suspension, and no more.
func TestPauseBeforeHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun, over := &waiting{limit: 10 * time.Second}, time.Now(), make(chan struct{})
		l := newLimit(w, func() { close(over) })
		time.Sleep(9 * time.Second)
		w.times.Add(1)
		time.Sleep(3 * time.Second) // the limit has passed, and begins again
		<-over
		if took := time.Since(begun); took != 20*time.Second || !l.stop() {
			t.Errorf("over after %v; want 20s", took)
		}
		l = newLimit(w, func() { t.Error("over, though it was stopped") })
		time.Sleep(9 * time.Second)
		if l.stop() {
			t.Error("over too early")
		}
		time.Sleep(time.Minute)
	})
}

// Limits stand still while the job is suspended, and nobody is missed.
func TestPauseStopsLimits(t *testing.T) {
	t.Parallel()
	r := placeable(t)
	r.deadline, r.limit, r.looking, r.around, r.lateness = newAlarm(), newAlarm(), newAlarm(), newAlarm(), newAlarm()
	r.limit.set(time.Hour)
	end := r.limit.end
	const took = 50 * time.Millisecond
	r.io.Suspend = func() { time.Sleep(took) }
	r.suspend()
	if got := r.limit.end.Sub(end); got < took || !r.deadline.end.IsZero() {
		t.Errorf("the limit was put off by %v, the deadline that is off to %v; want %v and none", got, r.deadline.end, took)
	}
	if r.paused < took || time.Since(r.storeTime()) < took {
		t.Errorf("the store's clock stood still for %v; want %v", r.paused, took)
	}
	for _, h := range r.hosts {
		if heard := time.Duration(h.heard.Load()); heard < took {
			t.Errorf("host %s was last heard at %v; want now", h.spec.Name, heard)
		}
	}
}

// Signals while only output is left to be written to a reader that takes none.
func TestSignalsWhileFlushing(t *testing.T) {
	w := newWorld(t, "flood", 1)
	out := newValve()
	defer close(out.open)
	w.io.Stdout = out
	suspended := make(chan struct{})
	w.io.Suspend = func() { close(suspended) }
	w.tweak = func(r *run) {
		go func() {
			<-r.over
			w.signals <- syscall.SIGUSR1
			w.signals <- syscall.SIGTSTP
			<-suspended
			w.signals <- sigINT
		}()
	}
	res := w.good()
	w.wantStates(res, "exited 0")
	if res.Signal != int(sigINT) || !strings.Contains(res.OutputError, "bytes not written") {
		t.Errorf("got signal %d, output error %q", res.Signal, res.OutputError)
	}
}

// A job that somebody ended does not wait for the reader of its output.
func TestTimeoutWithBlockedOutput(t *testing.T) {
	w := newWorld(t, "stubborn-flood", 1)
	out := newValve()
	defer close(out.open)
	w.io.Stdout = out
	w.job.Grace, w.waits.flush = 0, 50*time.Millisecond
	w.job.Timeout = 200 * time.Millisecond
	res := w.good()
	w.wantStates(res, "stopped")
	if !res.Timeout || res.OutputError == "" {
		t.Errorf("got timeout %v, output error %q", res.Timeout, res.OutputError)
	}
}

func TestStdoutClosed(t *testing.T) {
	for _, behaviour := range []string{"flood", "stubborn-flood"} { // at the end, and before it
		t.Run(behaviour, func(t *testing.T) {
			w := newWorld(t, behaviour, 1)
			r, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			r.Close()
			w.io.Stdout = out
			w.job.Grace = 0
			res := w.good()
			if !res.StdoutClosed || res.First != nil || res.OutputError != "" {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestOutputError(t *testing.T) {
	w := newWorld(t, "prints", 1)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	w.io.Stdout = full
	res := w.good()
	w.wantStates(res, "exited 0")
	if !strings.Contains(res.OutputError, "output to stdout is lost: ") || !strings.Contains(res.OutputError, "no space left") {
		t.Errorf("got %q", res.OutputError)
	}
}
