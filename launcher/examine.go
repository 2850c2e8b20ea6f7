package launcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gorun/launcher/wire"
)

// What a machine does before the ranks are placed, if the job has a preflight: when all
// hosts are up, their agents listen for each other's probes, then probe; meanwhile each
// tells its facts, which it has begun to collect at its hello. In a full preflight the
// probes begin when the facts are in, so that they have the hosts for themselves.
//
//	listening ──all listen──► probing ──all have answered──► awaiting ──all facts are in──► judging ──ruling──► over
//
// Between awaiting and judging a full preflight has rails: RDMA is tried between the hosts
// that Preflight.Rails names, in rounds.
//
// A host that is lost meanwhile, or does not answer in time, ends nothing: it is told as
// such to whoever judges.

// surveyStage is where that stands.
type surveyStage string

const (
	surveyOff       surveyStage = ""          // hosts are dialled yet
	surveyListening surveyStage = "listening" // the agents open their ports
	surveyProbing   surveyStage = "probing"
	surveyAwaiting  surveyStage = "awaiting" // the rest of the facts
	surveyRails     surveyStage = "rails"    // RDMA is tried
	surveyJudging   surveyStage = "judging"
	surveyOver      surveyStage = "over"
)

// inquiry is the machine's part of a preflight. Its hosts are those of the machine, until
// it is over.
type inquiry struct {
	full, only, drop bool
	rdma             bool          // Preflight.Rails is to be asked
	limit            time.Duration // for facts

	stage surveyStage
	hosts []inquired
	left  [][]int // in a full preflight, by host: whom it is to probe yet, and to be probed by at the same time
	links int     // that are to be probed, in both directions
	done  int     // of these

	rails  *railPlan // nil: it has not come
	rounds int       // of it that have begun
}

// railPlan is between which hosts RDMA is tried, in rounds.
type railPlan struct{ rounds [][]RailOrder }

// inquired is one host of an inquiry.
type inquired struct {
	told    bool  // its facts are in
	port    bool  // it listens
	waiting int   // answers of its agent that are to come: 1 to Listen, or as many as it has links to probe
	err     error // why it does not count
}

// newInquiry is that of a job, nil if it has no preflight.
func newInquiry(job Job, hosts int) *inquiry {
	p := job.Preflight
	if p == nil {
		return nil
	}
	return &inquiry{full: p.Full, rdma: p.Full && p.Rails != nil, only: p.Only, drop: p.Drop || p.Only, limit: p.limit(), hosts: make([]inquired, hosts)}
}

// excused reports whether a host that is lost now is left to the ruling.
func (m *machine) excused() bool {
	q := m.inquiry
	return q != nil && !m.stopping && (m.phase == phaseSurveying || m.phase == phaseConnecting && q.drop)
}

// giveUpOn has host i not count.
func (m *machine) giveUpOn(i int, err error) {
	if h := &m.inquiry.hosts[i]; h.err == nil {
		h.err = err
		m.emitHost("host_failed", i, Event{Text: err.Error()})
	}
}

// counts reports whether anything is expected of host i.
func (m *machine) counts(i int) bool { return m.live(i) && m.inquiry.hosts[i].err == nil }

// beginSurvey is called when all hosts are up, or will not be.
func (m *machine) beginSurvey() []action {
	m.phase, m.inquiry.stage = phaseSurveying, surveyListening
	return []action{{timer: m.waits.listen}, {patience: m.inquiry.limit}, {survey: true}}
}

// listening: these hosts have been asked to listen.
func (m *machine) listening(asked []int) {
	for _, i := range asked {
		m.inquiry.hosts[i].waiting = 1
	}
}

// facts is that a host's facts have come, or why they never will.
type facts struct{ err error }

func (m *machine) factsCame(i int, t *facts) {
	if m.inquiry == nil || m.inquiry.stage == surveyOver {
		return
	}
	m.inquiry.hosts[i].told = true
	if t.err != nil {
		m.giveUpOn(i, t.err)
	}
}

func (m *machine) hostListens(i int, p *wire.Probing) {
	q := m.inquiry
	if q == nil || q.stage != surveyListening || q.hosts[i].waiting == 0 {
		return // it was given up, or not asked
	}
	q.hosts[i].waiting, q.hosts[i].port = 0, p.Port != 0
}

func (m *machine) hostProbed(i int) []action {
	q := m.inquiry
	if q == nil || q.stage != surveyProbing && q.stage != surveyRails || q.hosts[i].waiting == 0 {
		return nil
	}
	waited := q.hosts[i].waiting
	q.hosts[i].waiting = 0
	if q.stage == surveyRails {
		return nil
	}
	q.done += waited
	out := []action{{timer: m.waits.probe}}
	if q.left != nil {
		out = append(out, m.pair(i)...)
	}
	return out
}

// survey moves on to where there is something to wait for.
func (m *machine) survey(out []action) []action {
	q := m.inquiry
	for {
		switch {
		case q.stage == surveyListening && !m.waiting() && (!q.full || m.allTold()):
			q.stage = surveyProbing
			out = append(out, m.probe()...)
		case q.stage == surveyProbing && !m.waiting():
			q.stage, q.left = surveyAwaiting, nil
			out = append(out, action{timer: never})
		case q.stage == surveyAwaiting && m.allTold() && q.rdma:
			q.stage = surveyRails
			return append(out, action{patience: never}, action{planRails: true})
		case q.stage == surveyRails && q.rails != nil && !m.waiting() && q.rounds < len(q.rails.rounds):
			out = append(out, m.railRound()...)
		case q.stage == surveyAwaiting && m.allTold(), q.stage == surveyRails && q.rails != nil && !m.waiting():
			q.stage = surveyJudging
			if q.rails != nil {
				out = append(out, action{timer: never})
			}
			return append(out, action{patience: never}, action{judge: true})
		default:
			return out
		}
	}
}

func (m *machine) railsPlanned(p *railPlan) {
	if q := m.inquiry; q != nil && q.stage == surveyRails && q.rails == nil {
		q.rails = p
	}
}

// railRound begins the next round in which RDMA is tried.
func (m *machine) railRound() []action {
	q := m.inquiry
	round := q.rails.rounds[q.rounds]
	q.rounds++
	out := []action{{timer: m.waits.rails}}
	for _, o := range round {
		if min(o.From, o.To) < 0 || max(o.From, o.To) >= len(m.hosts) || q.hosts[o.From].waiting > 0 {
			continue
		}
		if m.counts(o.From) && m.counts(o.To) && q.hosts[o.To].port {
			q.hosts[o.From].waiting = 1
			out = append(out, action{host: o.From, rail: &o})
		}
	}
	return out
}

// waiting reports whether an agent is yet to answer what it was asked last.
func (m *machine) waiting() bool {
	for i := range m.hosts {
		if m.counts(i) && m.inquiry.hosts[i].waiting > 0 {
			return true
		}
	}
	return false
}

// allTold reports whether all facts are in that will come.
func (m *machine) allTold() bool {
	for i := range m.hosts {
		if m.counts(i) && !m.inquiry.hosts[i].told {
			return false
		}
	}
	return true
}

// probe begins the probes: of all pairs, each host with one other at a time, or of all
// neighbours at once.
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
			q.links += q.hosts[i].waiting
		}
		return out
	}
	q.left, q.links = make([][]int, len(m.hosts)), len(ready)*(len(ready)-1)
	for _, round := range rounds(len(ready)) {
		for _, p := range round {
			a, b := ready[p[0]], ready[p[1]]
			q.left[a], q.left[b] = append(q.left[a], b), append(q.left[b], a)
		}
	}
	out = append(out, action{patience: m.waits.probes})
	for _, i := range ready {
		out = append(out, m.pair(i)...)
	}
	return out
}

// probeOf has host i probe others.
func (m *machine) probeOf(i int, others ...int) action {
	m.inquiry.hosts[i].waiting = len(others)
	return action{host: i, probe: others}
}

// pair has host i, and one that it has not been paired with and that is free, probe each
// other. That comes in the order of rounds, but nobody waits for a pair that is slow.
func (m *machine) pair(i int) []action {
	q := m.inquiry
	free := func(k int) bool { return m.counts(k) && q.hosts[k].waiting == 0 }
	if !free(i) {
		return nil
	}
	k := slices.IndexFunc(q.left[i], free)
	if k < 0 {
		return nil
	}
	other := q.left[i][k]
	q.left[i] = slices.Delete(q.left[i], k, k+1)
	q.left[other] = slices.DeleteFunc(q.left[other], func(x int) bool { return x == i })
	return []action{m.probeOf(i, other), m.probeOf(other, i)}
}

// rounds are all pairs of n, in rounds in which each is in one pair at most: one stands,
// and the others move around it.
func rounds(n int) [][][2]int {
	m := n + n%2 // with an odd number one rests in each round
	out := make([][][2]int, 0, max(m-1, 0))
	at := func(round, place int) int {
		if place == 0 {
			return 0
		}
		return 1 + (place-1+round)%(m-1)
	}
	for r := range m - 1 {
		var round [][2]int
		for p := range m / 2 {
			if a, b := at(r, p), at(r, m-1-p); a < n && b < n {
				round = append(round, [2]int{a, b})
			}
		}
		out = append(out, round)
	}
	return out
}

// surveyStands is called when agents have been silent for as long as the stage gives them.
func (m *machine) surveyStands() []action {
	q := m.inquiry
	limit, what := m.waits.listen, "answer"
	switch q.stage {
	case surveyProbing:
		limit, what = m.waits.probe, "say what its links are like"
		q.left = nil
	case surveyRails:
		limit, what = m.waits.rails, "say what its RDMA rails are like"
	}
	for i := range m.hosts {
		if m.counts(i) && q.hosts[i].waiting > 0 {
			m.giveUpOn(i, fmt.Errorf("reached, but its agent did not %s within %v", what, limit))
		}
	}
	return nil
}

// patienceOver ends the wait for facts; and, of all pairs, to begin with those that have
// had no turn yet.
func (m *machine) patienceOver() []action {
	q := m.inquiry
	if m.phase != phaseSurveying || m.stopping {
		return nil
	}
	if q.stage == surveyProbing && q.full {
		q.left = nil
		return nil
	}
	for i := range m.hosts {
		if m.counts(i) && !q.hosts[i].told {
			m.giveUpOn(i, fmt.Errorf("reached, but its agent has not told within %v what the host is like", q.limit))
		}
	}
	return nil
}

// rule carries a ruling out: the job goes on with these hosts, in this order.
func (m *machine) rule(use []int) []action {
	q := m.inquiry
	if q == nil || m.phase != phaseSurveying || q.stage != surveyJudging || m.stopping {
		return nil
	}
	q.stage = surveyOver
	m.emitRuling(use)
	if q.only {
		return m.stop()
	}
	for _, i := range use {
		if !m.live(i) {
			m.hostFailures = append(m.hostFailures, HostFailure{Host: m.hosts[i].name, Err: q.why(i)})
		}
	}
	if len(m.hostFailures) > 0 {
		return m.stop()
	}
	var out []action
	for i := range m.hosts {
		if slices.Contains(use, i) {
			continue
		}
		if m.live(i) {
			out = append(out, action{host: i, send: &wire.Message{Stop: &wire.Stop{}}})
		}
		out = append(out, action{host: i, release: true})
	}
	all := m.hosts
	m.hosts = nil
	for _, i := range use {
		m.hosts = append(m.hosts, all[i])
	}
	m.phase = phasePreparing
	return append(out, action{use: use}, action{timer: m.prepareLimit}, action{plan: true})
}

// why is why host i does not count.
func (q *inquiry) why(i int) error {
	if err := q.hosts[i].err; err != nil {
		return err
	}
	return errors.New("it was lost")
}

// emitRuling tells which hosts the job goes on with, and which it does not.
func (m *machine) emitRuling(use []int) {
	e := Event{Event: "preflight"}
	for _, i := range use {
		e.Hosts = append(e.Hosts, m.hosts[i].name)
	}
	for i, h := range m.hosts {
		if !slices.Contains(use, i) {
			e.Excluded = append(e.Excluded, h.name)
		}
	}
	m.emit(e)
}

// inquire takes an event of a preflight.
func (m *machine) inquire(e event) []action {
	switch {
	case e.told != nil:
		m.factsCame(e.host, e.told)
	case e.listening != nil:
		m.listening(e.listening)
	case e.probing != nil:
		m.hostListens(e.host, e.probing)
	case e.probed:
		return m.hostProbed(e.host)
	case e.rails != nil:
		m.railsPlanned(e.rails)
	case e.late:
		return m.patienceOver()
	case e.ruled != nil:
		return m.rule(e.ruled)
	}
	return nil
}

// surveyed says how far the survey is: done of total of what.
func (m *machine) surveyed() (done, total int, what string) {
	q := m.inquiry
	if q.rails != nil && len(q.rails.rounds) > 0 {
		return q.rounds, len(q.rails.rounds), "RDMA rounds begun"
	}
	if q.links > 0 && q.full {
		return q.done, q.links, "links tested"
	}
	return m.answered(), len(q.hosts), "hosts answered"
}

// answered counts, during a survey, the hosts of which nothing more is to come but what
// their links are like.
func (m *machine) answered() (n int) {
	if m.phase != phaseSurveying {
		return 0
	}
	for i, h := range m.inquiry.hosts {
		if h.told || !m.counts(i) {
			n++
		}
	}
	return n
}
