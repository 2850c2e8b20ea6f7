package launcher

import "slices"

// The probes of a full preflight: first all hosts reach all others, at once. Then those
// two and two that do measure the way between them, alone with each other. Hosts meet as
// in a knock-out whose losers stay: first the two of a pair, then two and two pairs, at
// last both halves of all hosts. In each such meeting every host of the first half
// probes all of the second by itself, each begins with another one, and none waits for
// the head between two partners: few messages pass for many pairs. A meeting begins when
// the one before it is over. A host that never answers delays the next one, and is then
// left out.

const (
	mostReached = 256 // hosts that one is to reach by one order
	mostPaired  = 16  // hosts with which one is to measure by one order, which has a limit
)

// pairing is where the probes stand.
type pairing struct {
	meetings [][][]int // that are to come: by host, whom it probes
	left     [][]int   // of the meeting under way, by host: whom it is to probe yet
	turns    bool      // that measures, else it reaches

	done, total int    // of the links that are reached, or of the pairs that are measured
	what        string // these are
}

// giveUp has no more probes begin.
func (q *pairing) giveUp() { q.meetings, q.left = nil, nil }

// probe begins the probes: of all pairs, or of all neighbours at once.
func (m *machine) probe() []action {
	q := m.inquiry
	var ready []int
	for i := range m.hosts {
		if m.counts(i) && q.hosts[i].port {
			ready = append(ready, i)
		}
	}
	if len(ready) < 2 {
		return nil
	}
	out := []action{{timer: m.waits.probe}}
	if !q.full {
		for k, i := range ready {
			next, last := ready[(k+1)%len(ready)], ready[(k+len(ready)-1)%len(ready)]
			out = append(out, m.probeOf(i, slices.Compact([]int{next, last})...))
		}
		return out
	}
	q.meetings = meetings(ready, len(m.hosts))
	q.left, q.total, q.what = allOthers(ready, len(m.hosts)), len(ready)*(len(ready)-1), "links tested"
	out = append(out, action{patience: m.waits.probes})
	for _, i := range ready {
		out = append(out, m.probeNext(i)...)
	}
	return out
}

// nextMeeting begins the next meeting.
func (m *machine) nextMeeting() []action {
	q := m.inquiry
	if !q.turns {
		q.turns, q.done, q.total, q.what = true, 0, q.total/2, "pairs measured"
	}
	q.left, q.meetings = q.meetings[0], q.meetings[1:]
	out := []action{{timer: m.waits.probe}}
	for i := range q.left {
		out = append(out, m.probeNext(i)...)
	}
	return out
}

// probeNext has host i probe the next of those that it is to probe yet.
func (m *machine) probeNext(i int) []action {
	q := m.inquiry
	if q.left == nil || !m.counts(i) {
		return nil
	}
	most := mostReached
	if q.turns {
		most = mostPaired
	}
	var now []int
	for len(now) < most && len(q.left[i]) > 0 {
		if k := q.left[i][0]; m.counts(k) {
			now = append(now, k)
		}
		q.left[i] = q.left[i][1:]
	}
	if len(now) == 0 {
		return nil
	}
	return []action{m.probeOf(i, now...)}
}

// probeOf has host i probe others.
func (m *machine) probeOf(i int, others ...int) action {
	m.inquiry.hosts[i].waiting = len(others)
	return action{host: i, probe: others, turns: m.inquiry.turns}
}

// allOthers has for each of n hosts the others of ready, if it is one of them; they begin
// with the one behind it.
func allOthers(ready []int, n int) [][]int {
	out := make([][]int, n)
	for k, i := range ready {
		out[i] = slices.Concat(ready[k+1:], ready[:k])
	}
	return out
}

// meetings have every two of ready, which are of n hosts, meet once: by meeting and host,
// whom it probes. Hosts probe those of a higher number.
func meetings(ready []int, n int) (all [][][]int) {
	var halve func(part []int, level int)
	halve = func(part []int, level int) {
		if len(part) < 2 {
			return
		}
		first, second := part[:len(part)/2], part[len(part)/2:]
		halve(first, level+1)
		halve(second, level+1)
		for len(all) <= level {
			all = append(all, make([][]int, n))
		}
		for k, i := range first {
			all[level][i] = slices.Concat(second[k:], second[:k])
		}
	}
	halve(ready, 0)
	slices.Reverse(all)
	return all
}
