package launcher

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// The ranks are looked at when the limit has passed, and what is seen is kept.
func TestLookAtTheTimeout(t *testing.T) {
	w := newWorld(t, "seen", 1, 2)
	w.waits.look = 30 * time.Second // that long nobody takes
	w.job.Timeout = 300 * time.Millisecond
	res := w.good()
	w.wantStates(res, "stopped, stopped, stopped")
	text := w.stderr.String()
	for _, want := range []string{
		"gorun: at the timeout of ", " after the start: rank 1 on 127.0.0.1 is stopped (state T); 2 sleeping\n",
		"gorun:   ranks 0,2: sleeping in futex, 0 % CPU; last output ", ` ago: "step 1"` + "\n",
		"gorun:   rank 1 on 127.0.0.1: stopped by a signal (state T); last output ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("stderr %q lacks %q", text, want)
		}
	}
	p := res.Picture
	if p == nil || len(p.Ranks) != 3 || p.Ranks[1].Doing != doingStopped || p.Ranks[0].Program != `a\x1bpp` || p.Ranks[2].LastLine != "step 1" {
		t.Errorf("got picture %+v", p)
	}
	if !res.Timeout {
		t.Error("the job did not end by its limit")
	}
}

// USR2 shows the ranks, goes on only to those that have a handler, and ends nothing.
func TestLookBySignal(t *testing.T) {
	w := newWorld(t, "seen", 2)
	w.waits.look = 30 * time.Second
	w.signalAt("running", syscall.SIGUSR2)
	w.signalAt("signal-12-true", syscall.SIGTERM)
	res := w.good()
	if !strings.Contains(w.stderr.String(), "gorun: on SIGUSR2, ") || res.Picture == nil {
		t.Errorf("stderr %q; want a picture", w.stderr)
	}
}

// Hosts that do not answer hold the stop up only so long, and are named.
func TestLookWithoutAnswer(t *testing.T) {
	w := newWorld(t, "stubborn", 1, 1)
	w.job.Timeout, w.job.Grace = 100*time.Millisecond, 0
	res := w.good()
	if text := w.stderr.String(); !strings.Contains(text, "gorun:   no answer within 200 ms: localhost, 127.0.0.1\n") {
		t.Errorf("stderr %q; want the hosts named", text)
	}
	if p := res.Picture; p == nil || len(p.Silent) != 2 || p.Ranks[0].Doing != doingUnknown {
		t.Errorf("got picture %+v", p)
	}
}
