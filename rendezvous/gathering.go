package rendezvous

import (
	"fmt"
	"time"
)

// A host that does not wait whole reports so after firstReport (or half its
// timeout), so that the head can say who is missing; and again updateReport after
// each change.
const (
	firstReport  = time.Second
	updateReport = 100 * time.Millisecond
)

// gathering is a barrier in which ranks of this host wait.
//
//	            all ranks in                 reply: released
//	gathering ───────────────► committed ─────────────────────► (end)
//	    ▲                       │     │ a rank leaves: cancel     ▲
//	    │   reply: deadline     │     ▼                           │
//	    ├───────────────────────┘  leaving ─── reply: released ───┘
//	    │   reply: withdrawn          │
//	    └─────────────────────────────┘
//
// While committed or leaving nothing but that cancel is sent, so the head can
// release only what is really there, and knows every report's barrier by order alone.
type gathering struct {
	name     name
	state    gatherState
	in       map[int]*call // by rank
	left     map[int]bool  // ranks that came and left again
	id       uint64        // of the last report at the head, 0 for none
	due      time.Time     // of that report
	reportAt time.Time     // when to report, or zero
}

type gatherState string

const (
	stateGathering gatherState = "gathering" // some ranks are not in
	stateCommitted gatherState = "committed" // all are in, and the head knows
	stateLeaving   gatherState = "leaving"   // the head was asked to forget that
)

func (h *hub) enter(now time.Time, c *call) {
	g := h.gatherings[c.name]
	if g == nil {
		g = &gathering{name: c.name, state: stateGathering, in: map[int]*call{}, left: map[int]bool{}}
		h.gatherings[c.name] = g
	}
	rank := c.session.rank
	if g.in[rank] != nil {
		text := fmt.Sprintf("rank %d waits in barrier %v already", rank, c.name)
		h.finish(c, Reply{Code: CodeTwice, Err: text})
		return
	}
	g.in[rank] = c
	delete(g.left, rank)
	g.changed(h, now, min(firstReport, c.timeout/2))
}

// changed commits when all ranks are in. Else it plans a report: within first if
// the head has none yet.
func (g *gathering) changed(h *hub, now time.Time, first time.Duration) {
	if g.state != stateGathering {
		return
	}
	if len(g.in) == len(h.ranks) {
		g.state = stateCommitted
		g.report(h, now)
		return
	}
	delay := first
	if g.id != 0 {
		delay = min(first, updateReport)
	}
	if at := now.Add(delay); g.reportAt.IsZero() || at.Before(g.reportAt) {
		g.reportAt = at
	}
}

// report tells the head who is in; it replaces the last report.
func (g *gathering) report(h *hub, now time.Time) {
	delete(h.pending, g.id)
	g.reportAt = time.Time{}
	r := Request{Op: opBarrier, Key: g.name.key, Epoch: g.name.epoch, Rank: h.ranks[0]}
	calls := make([]*call, 0, len(g.in))
	for _, rank := range h.ranks {
		switch {
		case g.in[rank] != nil:
			calls = append(calls, g.in[rank])
		case g.left[rank]:
			r.Left = append(r.Left, rank)
		default:
			r.Missing = append(r.Missing, rank)
		}
	}
	g.due = span(calls)
	r.Timeout = remaining(now, g.due)
	g.id = h.ask(g, r)
}

// reply takes the head's answer to the last report.
func (g *gathering) reply(h *hub, now time.Time, r Reply) {
	g.id = 0
	switch r.Code {
	case CodeDeadline:
		g.end(h, r, func(c *call) bool { return !c.due.After(g.due) })
	case codeWithdrawn:
	default:
		g.end(h, r, func(*call) bool { return true })
	}
	g.state = stateGathering
	g.reportAt = time.Time{}
	if len(g.in) == 0 {
		delete(h.gatherings, g.name)
		return
	}
	g.changed(h, now, 0)
	if !g.reportAt.IsZero() {
		g.report(h, now)
	}
}

// end answers the calls of which over is true.
func (g *gathering) end(h *hub, r Reply, over func(*call) bool) {
	for _, rank := range h.ranks {
		if c := g.in[rank]; c != nil && over(c) {
			delete(g.in, rank)
			g.left[rank] = true
			h.finish(c, r)
		}
	}
}

// remove takes out a rank whose call was taken back.
func (g *gathering) remove(h *hub, now time.Time, c *call) {
	delete(g.in, c.session.rank)
	g.left[c.session.rank] = true
	switch {
	case g.state == stateCommitted:
		g.state = stateLeaving
		h.withdraw(g.id)
	case g.state == stateGathering && len(g.in) == 0:
		if g.id != 0 {
			h.forget(g.id, c.session.member)
		}
		delete(h.gatherings, g.name)
	case g.state == stateGathering && g.id != 0:
		g.changed(h, now, updateReport)
	}
}
