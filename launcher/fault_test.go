package launcher

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// hostError wants a job that could not use one host, and returns the reason.
func (w *world) hostError() string {
	w.Helper()
	res, err := w.run()
	e, ok := errors.AsType[*HostsError](err)
	if !ok || len(e.Hosts) != 1 || e.Good != len(w.job.Hosts)-1 {
		w.Fatalf("got %v (%+v); want one bad host", err, e)
	}
	for _, r := range res.Ranks {
		if r.State != StateWaiting {
			w.Errorf("rank %d: %s; want none started", r.Rank, r.State)
		}
	}
	return e.Hosts[0].Err.Error()
}

func TestHostsBeforeTheStart(t *testing.T) {
	tests := []struct {
		behaviour string
		hosts     int
		want      string
		short     bool // the limit for hello and plan
	}{
		{"no-hail", 1, "gorun's agent was started on this machine, but did not speak in 1s", true},
		{"no-hello", 1, "its agent started but sent no hello: nothing came within 200ms", true},
		{"dies-hailing", 1, `its agent started but sent no hello: gorun's agent was lost: exit status 3 (its stderr: "oops")`, false},
		{"crashes-hailing", 1, `exit status 2 (its stderr begins: "runtime: no thread\nfatal error: newosproc"; -v shows all)`, false},
		{"dies-up", 2, `gorun's agent was lost: exit status 3 (its stderr: "?[1moops")`, false},
		{"dies-planned", 2, "gorun's agent was lost: killed by SIGKILL", false},
		{"no-answer", 2, "reached, but its agent did not prepare the ranks within 200ms", true},
		{"hangs-planned", 2, "reached, but its agent did not prepare the ranks within 200ms", true},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, []int{1, 1}[:tt.hosts]...)
			if tt.short {
				w.waits.kill = 300 * time.Millisecond
				if tt.behaviour == "no-hail" {
					w.job.ConnectTimeout = time.Second
				}
				w.tweak = func(r *run) {
					r.job.ConnectTimeout = 200 * time.Millisecond
					r.m.prepareLimit = 200 * time.Millisecond
				}
			}
			if got := w.hostError(); !strings.Contains(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			if tt.hosts > 1 && !w.has("done") {
				t.Error("the good host was not told to stop")
			}
		})
	}
}

// All that an agent said when it crashed is for those who ask.
func TestCrashIsToldWithV(t *testing.T) {
	for name, want := range map[string]int{"quiet": 0, "verbose": 100} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "crashes-hailing", 1)
			w.io.Verbose = want > 0
			w.hostError()
			if got := strings.Count(w.stderr.String(), "localhost: goroutine 1\n"); got != want {
				t.Errorf("got %d lines of it; want %d", got, want)
			}
		})
	}
}

func TestPrepareFailures(t *testing.T) {
	w := newWorld(t, "not-found", 1, 1)
	res, err := w.run()
	e, ok := errors.AsType[*PrepareError](err)
	if !ok || len(e.Failures) != 1 || e.Failures[0] != (PrepareFailure{Host: "127.0.0.1", Rank: 1, Code: 127, Text: "app: not found"}) {
		t.Errorf("got %v", err)
	}
	w.wantStates(res, "waiting, waiting")
}

// Hosts are named in the order of their list, whichever answers first.
func TestFailuresInOrder(t *testing.T) {
	w := newWorld(t, "not-found-backwards", 1, 1)
	_, err := w.run()
	e, ok := errors.AsType[*PrepareError](err)
	if !ok || len(e.Failures) != 2 || e.Failures[0].Host != "localhost" || e.Failures[1].Host != "127.0.0.1" {
		t.Errorf("got %+v", err)
	}
}

// An agent knows its twin by number only.
func TestSameMachineTwice(t *testing.T) {
	w := newWorld(t, "same-machine", 1, 1)
	_, err := w.run()
	e, ok := errors.AsType[*PrepareError](err)
	if !ok || len(e.Failures) != 1 || e.Failures[0] != (PrepareFailure{Host: "127.0.0.1", Rank: -1, Code: 125, Text: "is the same as localhost (hosts:2 and hosts:1)"}) {
		t.Errorf("got %v", err)
	}
}

// A host that is lost while another has found that it cannot run the program.
func TestPrepareFailureAndLostHost(t *testing.T) {
	w := newWorld(t, "not-found-and-dead", 1, 1)
	_, err := w.run()
	e, ok := errors.AsType[*PrepareError](err)
	if !ok || len(e.Failures) != 2 || e.Failures[0].Code != 126 || e.Failures[1].Code != 125 || e.Failures[1].Host != "localhost" || e.Failures[1].Rank != -1 {
		t.Errorf("got %+v", err)
	}
}

func TestHostsWhileRunning(t *testing.T) {
	tests := []struct {
		behaviour string
		want      string // about the host that is lost
		swept     bool
		keepGoing bool
		others    string
	}{
		{"dies-running", "127.0.0.1: gorun's agent was lost: killed by SIGKILL", true, false, "stopped"},
		{"sweep-fails", "127.0.0.1: gorun's agent was lost: killed by SIGKILL", true, false, "stopped"},
		{"closes-stream", "127.0.0.1: gorun's agent closed its stream", true, false, "stopped"},
		{"done-unasked", "127.0.0.1: gorun's agent was told to stop there", false, false, "stopped"},
		{"silent", "127.0.0.1: silent for ", true, false, "stopped"},
		{"last-dies", "127.0.0.1: gorun's agent was lost: killed by SIGKILL", true, true, "exited 0"},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, 2, 2)
			w.job.KeepGoing = tt.keepGoing
			if tt.behaviour == "silent" {
				w.job.LostAfter = 1500 * time.Millisecond
				w.waits.beat, w.waits.silent = 50*time.Millisecond, 500*time.Millisecond
			}
			res := w.good()
			w.wantStates(res, tt.others+", "+tt.others+", lost, lost")
			if len(res.Lost) != 1 || !strings.HasPrefix(res.Lost[0], tt.want) {
				t.Errorf("lost: got %q; want %q", res.Lost, tt.want)
			}
			if w.has("swept") != tt.swept {
				t.Errorf("swept: got %v; want %v", !tt.swept, tt.swept)
			}
			if left := contains(res.Left, "exit status 1: cannot"); left != (tt.behaviour == "sweep-fails") || left != (len(res.Left) > 0) {
				t.Errorf("left: got %q", res.Left)
			}
			if said := strings.Contains(w.stderr.String(), "127.0.0.1: silent for"); said != (tt.behaviour == "silent") {
				t.Errorf("stderr: %q", w.stderr)
			}
		})
	}
}

func TestRanksFail(t *testing.T) {
	tests := []struct {
		behaviour string
		keepGoing bool
		states    string
		first     int
		others    int
		stopped   int
	}{
		{"fails", false, "stopped, exited 3", 1, 0, 1},
		{"not-started", false, "stopped, not started", 1, 0, 1},
		{"all-fail", true, "killed 11, killed 11", 1, 1, 0},
		{"one-fails-others-end", true, "exited 0, exited 7", 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, 1, 1)
			w.job.KeepGoing = tt.keepGoing
			res := w.good()
			w.wantStates(res, tt.states)
			if res.First == nil || res.First.Rank != tt.first || res.Others != tt.others || res.Stopped != tt.stopped {
				t.Errorf("got first failure %+v, %d others, %d stopped; want rank %d, %d, %d", res.First, res.Others, res.Stopped, tt.first, tt.others, tt.stopped)
			}
			if got := strings.Join(res.Tail, "|"); tt.behaviour == "fails" && got != "first line|last line" {
				t.Errorf("last lines: got %q", got)
			}
		})
	}
}

// A failure's time is the rank's own, plus when its host was told to start.
func TestFailureTime(t *testing.T) {
	w := newWorld(t, "fails", 1, 1)
	res := w.good()
	if at := res.First.At; at < time.Second || at > time.Second+res.Elapsed {
		t.Errorf("got %v; want a second and a bit", at)
	}
}

func TestAgentsThatDoNotConfirm(t *testing.T) {
	tests := []struct {
		behaviour string
		states    string
		lost      string
		left      string
	}{
		{"never-done", "exited 0", "localhost: did not confirm the stop", "localhost: it is not known whether processes of the job are left"},
		{"forgets-ranks", "lost", "", "localhost: pid 5 (app)"},
		{"dies-stopping", "lost", "localhost: gorun's agent was lost: killed by SIGKILL", ""},
		{"hurried", "exited 0", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, 1)
			switch tt.behaviour {
			case "never-done":
				w.job.Grace, w.waits.stop, w.waits.kill = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
			case "hurried":
				w.job.Grace, w.waits.stop = 50*time.Millisecond, 50*time.Millisecond
			default:
				w.job.Timeout = time.Millisecond
			}
			res := w.good()
			w.wantStates(res, tt.states)
			if !contains(res.Lost, tt.lost) || (tt.lost == "" && res.Lost != nil) {
				t.Errorf("lost: got %q; want %q", res.Lost, tt.lost)
			}
			if !contains(res.Left, tt.left) || (tt.left == "" && res.Left != nil) {
				t.Errorf("left: got %q; want %q", res.Left, tt.left)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	w := newWorld(t, "stubborn", 1, 1)
	w.job.Timeout, w.job.Grace = 50*time.Millisecond, 100*time.Millisecond
	w.waits.stop = 100 * time.Millisecond
	res := w.good()
	w.wantStates(res, "stopped, stopped")
	if !res.Timeout || !w.has("stop-100ms") || !w.has("stop-0s") {
		t.Errorf("got timeout %v; want a stop with grace, then one without", res.Timeout)
	}
}

// Without grace the first stop kills.
func TestNoGrace(t *testing.T) {
	w := newWorld(t, "stubborn", 1)
	w.job.Timeout, w.job.Grace = 50*time.Millisecond, 0
	res := w.good()
	w.wantStates(res, "stopped")
	if !res.Timeout || !w.has("stop-0s") {
		t.Errorf("got timeout %v", res.Timeout)
	}
}

// The stop may take as long as the reader of stdout does: the agents wait for credit.
func TestStopWaitsForTheReader(t *testing.T) {
	w := newWorld(t, "floods-on", 1)
	w.job.Grace, w.waits.stop = 30*time.Millisecond, 30*time.Millisecond
	out := newValve()
	w.io.Stdout = out
	go func() {
		w.marked("stopping")
		time.Sleep(300 * time.Millisecond)
		if w.has("hurried") {
			t.Error("the agent was not given the time that its output takes")
		}
		close(out.open)
	}()
	res := w.good()
	w.wantStates(res, "exited 0")
	if res.Lost != nil || res.OutputError != "" || out.n.Load() != int64(streamCredit(1)) {
		t.Errorf("got %+v; %d bytes written", res, out.n.Load())
	}
}

func TestNothingIsStartedThatDoesNotFit(t *testing.T) {
	w := newWorld(t, "not-asked", -1, -1)
	w.job.Apps[0].NP = 5
	_, err := w.run()
	e, ok := errors.AsType[*SlotsError](err)
	if !ok || e.Need != 5 || e.Have != 4 || e.Hosts[1].Origin != "2 cores" {
		t.Errorf("got %v (%+v)", err, e)
	}
	if !w.has("done") {
		t.Error("the agents were not told to stop")
	}
}

// A host that gets no rank is let go at once.
func TestHostWithoutRanks(t *testing.T) {
	w := newWorld(t, "well", -1, -1)
	w.job.Apps[0].NP = 1
	w.waits.drop = time.Hour // it must end by itself
	res := w.good()
	w.wantStates(res, "exited 0")
	if res.Hosts[0].Ranks != 1 || res.Hosts[1].Ranks != 0 || res.Hosts[1].Slots != 2 {
		t.Errorf("got hosts %+v", res.Hosts)
	}
}
