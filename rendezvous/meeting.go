package rendezvous

import (
	"slices"
	"time"
)

// meeting is a barrier that has begun, as the Engine sees it: one report of each
// host in which a rank waits. It ends when every host waits whole, or when no host
// waits any more.
type meeting struct {
	waits map[int]*wait // by host
	whole int           // hosts all of whose ranks wait
	left  map[int][]int // by host without a wait: ranks that came and left again
	text  string        // who has not come, if somebody has not; "" when not known
}

func (w *wait) whole() bool { return len(w.missing) == 0 && len(w.left) == 0 }

// report takes a host's report, which replaces its last one. An agent that has
// reported its host whole sends no other report before it has a reply, so a
// report never belongs to a barrier that was released before.
func (e *Engine) report(now time.Time, host int, n name, r *Request) []Routed {
	m := e.meetings[n]
	if m == nil {
		m = &meeting{waits: map[int]*wait{}, left: map[int][]int{}}
	}
	w := e.add(now, host, n, r)
	if old := m.waits[host]; old != nil {
		e.remove(old)
		m.count(old, -1)
	}
	m.text = ""
	w.meeting, w.missing, w.left = m, slices.Clone(r.Missing), slices.Clone(r.Left)
	m.waits[host] = w
	delete(m.left, host)
	m.count(w, 1)
	e.meetings[n] = m
	if m.whole < e.busy {
		return e.refuseMeeting(n, m)
	}
	return e.dissolve(n, m, Reply{})
}

func (m *meeting) count(w *wait, by int) {
	if w.whole() {
		m.whole += by
	}
}

// dissolve ends the meeting with an answer to every host that waits.
func (e *Engine) dissolve(n name, m *meeting, r Reply) []Routed {
	out := make([]Routed, 0, len(m.waits))
	for host := range e.hosts {
		if w := m.waits[host]; w != nil {
			e.remove(w)
			r.ID = w.id
			out = append(out, Routed{host, r})
		}
	}
	delete(e.meetings, n)
	return out
}

// leave takes a host out of the meeting, but remembers who had come.
func (e *Engine) leave(w *wait) {
	m := w.meeting
	delete(m.waits, w.host)
	m.count(w, -1)
	for _, rank := range e.ranks[w.host] {
		if !slices.Contains(w.missing, rank) {
			m.left[w.host] = append(m.left[w.host], rank)
		}
	}
	if len(m.waits) == 0 {
		delete(e.meetings, w.name)
	}
}

// absent returns, by host, the ranks that have not come, and those that came and
// left again.
func (e *Engine) absent(m *meeting) (missing, left [][]int) {
	missing, left = make([][]int, len(e.hosts)), make([][]int, len(e.hosts))
	for host, ranks := range e.ranks {
		if w := m.waits[host]; w != nil {
			missing[host], left[host] = w.missing, w.left
			continue
		}
		left[host] = m.left[host]
		missing[host] = slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool {
			return slices.Contains(left[host], rank)
		})
	}
	return missing, left
}
