package rendezvous

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is a get or a barrier in which a rank of a host waits.
type Waiting struct {
	Rank int
	Op   string        // get or barrier
	Name string        // of the key or the barrier, quoted, with its epoch if it has one
	For  time.Duration // so long already
}

// Waiting lists what the ranks of this host wait for, by rank and name.
func (s *Server) Waiting() []Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub.waiting(s.nowLocked())
}

func (h *hub) waiting(now time.Time) []Waiting {
	var out []Waiting
	add := func(c *call) {
		out = append(out, Waiting{c.session.rank, c.op, c.name.String(), now.Sub(c.due.Add(-c.timeout))})
	}
	for _, f := range h.fetches {
		for _, c := range f.calls {
			add(c)
		}
	}
	for _, g := range h.gatherings {
		for _, c := range g.in {
			add(c)
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Name, b.Name), cmp.Compare(b.For, a.For))
	})
	return out
}

// Wanted is something in the store that ranks wait for.
type Wanted struct {
	Op   string // get or barrier
	Name string // as in a Waiting
	Text string // who has not come, or not written the key
	From []int  // those ranks, ascending; empty if it is not known who is to write the key
}

// Wanted lists what the hosts' agents have said that they wait for, by name. Of a barrier
// they do so a second after the first of their ranks has come, or when all have.
func (e *Engine) Wanted() []Wanted {
	var out []Wanted
	for n, waits := range e.gets {
		w := waits[0]
		if i := slices.IndexFunc(waits, func(w *wait) bool { return w.from >= 0 }); i >= 0 {
			w = waits[i]
		}
		out = append(out, Wanted{opGet, n.String(), e.getText(w), e.known(w.from)})
	}
	for n, m := range e.meetings {
		missing, _ := e.absent(m)
		out = append(out, Wanted{opBarrier, n.String(), e.meetingText(n, m), slices.Sorted(slices.Values(slices.Concat(missing...)))})
		m.text = "" // at the deadline others may be gone
	}
	slices.SortFunc(out, func(a, b Wanted) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Op, b.Op)) })
	return out
}

// known lists rank, if the job has it.
func (e *Engine) known(rank int) []int {
	if rank < 0 || rank >= len(e.hostOf) {
		return nil
	}
	return []int{rank}
}
