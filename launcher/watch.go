package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gorun/launcher/wire"
)

// While ranks run the hosts watch each other by gossip, beside the connections to the
// head. What they say ends no job alone: a host is lost when half of the others or more
// cannot reach it and the head has not heard of it for some seconds. A job that is soon
// over never gets here, and pays nothing.

// watchStage is where the hosts' watch on each other stands.
type watchStage string

const (
	watchOff     watchStage = ""        // not begun
	watchOpening watchStage = "opening" // the agents open their ports
	watchJoining watchStage = "joining" // they get to know each other
	watchOn      watchStage = "on"
)

// watch is the machine's part of it. Its hosts are those of the machine.
type watch struct {
	stage   watchStage
	hosts   []watched // nil before it begins
	pending int       // hosts that have not answered yet in this stage
	armed   bool      // the next look is coming
}

// watched is one host of the watch.
type watched struct {
	answered bool // in this stage
	port     bool // it listens
	member   bool
	failure  string // why it is no member

	accusers map[int]bool  // members that cannot reach it
	since    time.Duration // when it was first seen that these are enough; 0: they are not
	heard    bool          // it was heard of after that
	wrong    int           // how often that was so
}

// mostWrong is how often a host may be heard of that the others cannot reach: after that
// it is their network that is not to be trusted.
const mostWrong = 3

// Looks after hosts that others cannot reach come soon after a word of one, and then so
// often until it is clear what to make of it.
const (
	doubtSoon  = 100 * time.Millisecond
	doubtEvery = 500 * time.Millisecond
)

// word is a wire.Word with hosts in the place of nodes.
type word struct{ dead, alive []int }

// around is what a look needs to know. Times are since the run began.
type around struct {
	now   time.Duration
	heard []time.Duration // when each host was last heard of
}

// lookAround is called when a step of the watch has taken long enough, and while there
// are hosts that others cannot reach.
func (m *machine) lookAround(a *around) []action {
	w := &m.watch
	w.armed = false
	switch {
	case m.phase != phaseRunning || m.ending() && w.stage != watchOn:
		return nil
	case w.stage == watchOff:
		return m.openWatch()
	case w.stage == watchOpening:
		return m.meet()
	case w.stage == watchJoining:
		return m.watchBegins()
	}
	return m.doubt(a)
}

// arm has the next look come in d, unless one comes already.
func (m *machine) arm(d time.Duration) []action {
	if m.watch.armed {
		return nil
	}
	m.watch.armed = true
	return []action{{watch: d}}
}

// await begins to wait for n hosts to answer.
func (m *machine) await(stage watchStage, n int) []action {
	w := &m.watch
	w.stage, w.pending, w.armed = stage, n, false
	for i := range w.hosts {
		w.hosts[i].answered = false
	}
	return m.arm(m.waits.join)
}

// openWatch has the agents listen.
func (m *machine) openWatch() []action {
	m.watch.hosts = make([]watched, len(m.hosts))
	var out []action
	for i := range m.hosts {
		if m.live(i) {
			out = append(out, action{host: i, listen: true})
		}
	}
	return append(out, m.await(watchOpening, len(out))...)
}

// hostWatches takes an answer.
func (m *machine) hostWatches(i int, a *wire.Watching) []action {
	w := &m.watch
	if w.stage == watchOff || !m.live(i) {
		return nil
	}
	h := &w.hosts[i]
	switch w.stage {
	case watchOpening:
		h.port = a.Port != 0
	case watchJoining, watchOn: // in the latter it comes late, and is welcome
		h.member = h.port && a.Joined
	}
	h.failure = a.Failure
	if w.stage == watchOn || h.answered {
		return nil
	}
	h.answered = true
	if w.pending--; w.pending > 0 {
		return nil
	}
	if w.stage == watchOpening {
		return m.meet()
	}
	return m.watchBegins()
}

// meet has each agent get to know few others: the one whose number differs in the lowest
// bit, then that in the next, and so on. As each tells whom it knows by then, all know all
// in the end, or nearly so; and every number has such a one below it.
func (m *machine) meet() []action {
	var ready []int
	for i := range m.hosts {
		if m.live(i) && m.watch.hosts[i].port {
			ready = append(ready, i)
		}
	}
	if len(ready) < 2 {
		return m.watchBegins()
	}
	var out []action
	for n, i := range ready {
		var peers []int
		for bit := 1; bit < len(ready); bit <<= 1 {
			if other := n ^ bit; other < len(ready) {
				peers = append(peers, ready[other])
			}
		}
		out = append(out, action{host: i, meet: peers})
	}
	return append(out, m.await(watchJoining, len(ready))...)
}

// watchBegins: those who are not in it by now are told of once.
func (m *machine) watchBegins() []action {
	w := &m.watch
	w.stage = watchOn
	var members, others []string
	why := ""
	for i, h := range m.hosts {
		switch {
		case !m.live(i):
		case w.hosts[i].member:
			members = append(members, h.name)
		default:
			others = append(others, h.name)
			if text := w.hosts[i].failure; why == "" && text != "" {
				why = h.name + ": " + text
			}
		}
	}
	var out []action
	if len(others) > 0 {
		out = append(out, m.sayUnwatched(others, len(members), why))
	}
	if len(members) < 2 {
		return out
	}
	m.emit(Event{Event: "watch", Hosts: members})
	text := fmt.Sprintf("%s watch each other", count(len(members), "host"))
	out = append(out, action{note: &wire.Log{Level: "info", Text: text}})
	return append(out, m.arm(doubtSoon)...)
}

func (m *machine) sayUnwatched(names []string, members int, why string) action {
	text := "the hosts cannot watch each other: "
	if members >= 2 {
		text = fmt.Sprintf("%s cannot take part when the hosts watch each other: ", someOf(names))
	}
	text += cmp.Or(why, fmt.Sprintf("no answer within %v", m.waits.join)) +
		"; is there a firewall between hosts (UDP and TCP)? That one is gone is then known by its silence alone (--lost-after). With --no-gossip they do not try"
	return action{note: &wire.Log{Level: "warn", Text: text}}
}

// wordCame notes what a member says of others.
func (m *machine) wordCame(i int, word *word) []action {
	w := &m.watch
	if !m.live(i) || w.stage == watchOff || !w.hosts[i].port {
		return nil
	}
	for _, d := range word.dead {
		if d == i {
			continue
		}
		h := &w.hosts[d]
		if h.accusers == nil {
			h.accusers = map[int]bool{}
		}
		h.accusers[i] = true
	}
	for _, a := range word.alive {
		delete(w.hosts[a].accusers, i)
	}
	if w.stage != watchOn {
		return nil // the look that is coming sees it
	}
	return m.arm(doubtSoon)
}

// members counts the hosts that can have an opinion.
func (m *machine) members() (n int) {
	for i := range m.watch.hosts {
		if m.watch.hosts[i].member && m.live(i) {
			n++
		}
	}
	return n
}

// doubt looks after the hosts that others cannot reach.
func (m *machine) doubt(a *around) []action {
	others := m.members() - 1
	var out []action
	var gone []int
	next := never
	for i := range m.watch.hosts {
		h := &m.watch.hosts[i]
		if !h.member || !m.live(i) || h.wrong >= mostWrong {
			continue
		}
		enough := len(h.accusers) > 0 && 2*len(h.accusers) >= others
		switch {
		case enough && h.since == 0:
			h.since, h.heard = a.now, false
			m.emitHost("host_unreachable", i, Event{Text: m.accusation(i, others)})
			out = append(out, m.info("%s: %s", m.hosts[i].name, m.accusation(i, others)))
		case !enough && h.since != 0:
			h.since = 0
			m.emitHost("host_reachable", i, Event{})
			out = append(out, m.info("%s: the other hosts reach it again", m.hosts[i].name))
		}
		if h.since == 0 || h.heard {
			continue
		}
		switch left := m.waits.quiet - (a.now - a.heard[i]); {
		case a.heard[i] > h.since:
			out = append(out, m.contradicted(i)...)
		case left <= 0:
			gone = append(gone, i)
		case next == never || left < next:
			next = min(left, doubtEvery)
		}
	}
	if len(gone) > 0 {
		out = append(out, m.areGone(gone, others, a)...)
	}
	if next != never {
		out = append(out, m.arm(max(next, doubtSoon))...)
	}
	return out
}

func (m *machine) info(format string, args ...any) action {
	return action{note: &wire.Log{Level: "info", Text: fmt.Sprintf(format, args...)}}
}

// accusation is "2 of 3 other hosts cannot reach it".
func (m *machine) accusation(i, others int) string {
	return fmt.Sprintf("%d of %s cannot reach it", len(m.watch.hosts[i].accusers), count(others, "other host"))
}

// contradicted: a host was heard of although others could not reach it.
func (m *machine) contradicted(i int) []action {
	h := &m.watch.hosts[i]
	h.heard = true
	if h.wrong++; h.wrong < mostWrong {
		return nil
	}
	text := fmt.Sprintf("%s: %d times other hosts could not reach it, but it was heard of here; what they say of it does not count any more (is there a firewall between hosts?)",
		m.hosts[i].name, h.wrong)
	return []action{{note: &wire.Log{Level: "warn", Text: text}}}
}

// areGone: hosts are lost that neither the others nor the head can reach.
func (m *machine) areGone(gone []int, others int, a *around) []action {
	var names, why []string
	for _, i := range gone {
		names = append(names, m.hosts[i].name)
		silence := (a.now - a.heard[i]).Round(100 * time.Millisecond)
		why = append(why, fmt.Sprintf("silent for %v, and %s either", silence, m.accusation(i, others)))
	}
	text := fmt.Sprintf("%s is lost: %s", names[0], why[0])
	if len(names) > 1 {
		text = fmt.Sprintf("%s are lost; %s: %s", someOf(names), names[0], why[0])
	}
	out := []action{{say: text}}
	for n, i := range gone {
		out = append(out, m.hostIsLost(i, &lostEvent{why: why[n], sweep: true})...)
	}
	return out
}

// othersSay is what the other hosts say of one that is silent, behind a semicolon; fresh
// of them were heard of lately.
func (m *machine) othersSay(i, fresh int) string {
	if m.watch.stage != watchOn || !m.watch.hosts[i].member || m.phase != phaseRunning {
		return "" // agents that are told to stop watch nobody
	}
	switch n := len(m.watch.hosts[i].accusers); {
	case n > 0:
		return "; " + m.accusation(i, m.members()-1) + " either"
	case fresh == 1:
		return "; the other host still reaches it: it is the link from here that is gone"
	case fresh > 1:
		return fmt.Sprintf("; %d other hosts still reach it: it is the link from here that is gone", fresh)
	}
	return ""
}

// unwatch forgets what host i, which is lost, has said.
func (m *machine) unwatch(i int) {
	for h := range m.watch.hosts {
		delete(m.watch.hosts[h].accusers, i)
	}
}

// watches reports whether host i is a member.
func (m *machine) watches(i int) bool {
	return m.watch.stage == watchOn && m.watch.hosts[i].member && m.live(i)
}

// wants reports whether the hosts of l are to watch each other.
func (j Job) wants(l Layout) bool {
	return !j.NoGossip && slices.IndexFunc(l.Ranks, func(p Place) bool { return p.Host != l.Ranks[0].Host }) > 0
}
