package agent

import (
	"testing"

	"golang.org/x/sys/unix"

	"gorun/rendezvous"
)

// A rank that has ended is over when nothing that any rank has left behind runs: not
// before, as it might go on for it.
func TestRankIsOver(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh("(setsid sh -c 'echo child $$; exec sleep 1000' &); exit 0"), []string{"sleep", "1000"}))
	child := h.pid(0, "child ")
	h.exit(0)
	over := func() (ranks []int) {
		for _, b := range h.store {
			if r, err := rendezvous.ParseRequest(b); err == nil && r.Op == "over" {
				ranks = append(ranks, r.Missing...)
			}
		}
		return ranks
	}
	// Each heartbeat is four looks.
	beats := 0
	h.look(func() { beats = h.beats })
	h.until("heartbeats", func() bool { return h.beats > beats+2 })
	h.look(func() {
		if got := over(); len(got) > 0 {
			t.Errorf("ranks %v are over while a child of one runs", got)
		}
	})
	unix.Kill(child, unix.SIGKILL)
	h.until("rank 0 being over", func() bool { return len(over()) > 0 })
	h.look(func() { beats = h.beats })
	h.until("more heartbeats", func() bool { return h.beats > beats+1 })
	h.look(func() {
		if got := over(); len(got) != 1 || got[0] != 0 {
			t.Errorf("ranks %v are over; want 0, once", got)
		}
	})
	h.stop(0)
}
