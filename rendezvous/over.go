package rendezvous

import (
	"cmp"
	"maps"
	"slices"
)

// Over is told that a rank of this host is over: it has ended, and so has everything that
// it had started, so that nobody will write or enter for it any more. Who waits for it is
// then answered at once. It reports false, and nothing comes of it, while a connection of
// the rank, or one that has not said whose it is, is still open.
func (s *Server) Over(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.hub.members[rank]
	switch {
	case s.closed || m == nil:
		return true
	case m.sessions > 0 || s.strangers.Len() > 0:
		return false
	}
	s.hub.send(Request{Op: opOver, Rank: rank, Missing: []int{rank}}) // behind all that it has asked for
	return true
}

// end notes that ranks of a host are over, and answers who waits for them.
func (e *Engine) end(ranks []int) []Routed {
	for _, rank := range ranks {
		e.over[rank], e.ended = true, true
	}
	var out []Routed
	for _, w := range slices.SortedFunc(maps.Values(e.waits), func(a, b *wait) int { return cmp.Compare(a.serial, b.serial) }) {
		if e.waits[w.origin] != w {
			continue // it was answered with another of the same barrier
		}
		if w.meeting == nil {
			out = append(out, e.refuseGet(w)...)
		} else {
			out = append(out, e.refuseMeeting(w.name, w.meeting)...)
		}
	}
	return out
}

// refuseGet answers a get if the rank that is to write the key is over.
func (e *Engine) refuseGet(w *wait) []Routed {
	if w.from < 0 || w.from >= len(e.over) || !e.over[w.from] {
		return nil
	}
	text := e.getText(w)
	e.drop(w)
	return []Routed{{w.host, Reply{ID: w.id, Code: CodeGone, Err: text}}}
}

// refuseMeeting answers all hosts that wait in a barrier if a rank that is not in it is over.
func (e *Engine) refuseMeeting(n name, m *meeting) []Routed {
	if !e.ended {
		return nil
	}
	missing, left := e.absent(m)
	isOver := func(rank int) bool { return e.over[rank] }
	if !slices.ContainsFunc(slices.Concat(missing...), isOver) && !slices.ContainsFunc(slices.Concat(left...), isOver) {
		return nil
	}
	m.text = "" // others may be gone since it was made
	text := e.meetingText(n, m)
	return e.dissolve(n, m, Reply{Code: CodeGone, Err: text})
}
