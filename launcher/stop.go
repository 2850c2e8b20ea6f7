package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

// stopSlack is how long after the grace an agent may take to confirm that nothing is left.
const stopSlack = 10 * time.Second

// killSlack is the same after a kill: nothing is given grace then.
const killSlack = 5 * time.Second

// stop ends the job on every host that can still be told. It may be called again:
// a shorter grace shortens the first.
func (m *machine) stop(grace time.Duration) []action {
	m.fatal = true
	if m.stopRequested && grace > 0 {
		return nil
	}
	m.stopRequested = true
	out := m.toAll(wire.Message{Stop: &wire.Stop{Grace: grace}})
	if m.phase != phaseConnecting {
		m.phase = phaseStopping
	}
	for i := range m.hosts {
		if m.hosts[i].state == hostDialing {
			out = append(out, action{host: i, drop: true})
		}
	}
	slack := stopSlack
	if grace == 0 {
		slack = killSlack
	}
	return append(out, action{timer: grace + slack})
}

// signalled1 handles a signal to gorun. INT, HUP and QUIT are passed to the ranks,
// which get half the grace before TERM; TERM stops at once; a second one kills.
// USR1, USR2 and CONT only pass; TSTP pauses.
func (m *machine) signalled1(s syscall.Signal) []action {
	switch s {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		if m.phase != phaseRunning {
			return []action{{say: fmt.Sprintf("no rank runs yet: %s is dropped", signalName(s))}}
		}
		return m.toAll(wire.Message{Signal: &wire.Signal{Num: int(s)}})
	case syscall.SIGTSTP:
		out := m.toAll(wire.Message{Pause: &wire.Pause{On: true}})
		out = append(out, action{suspend: true})
		return append(out, m.toAll(wire.Message{Pause: &wire.Pause{}})...)
	case syscall.SIGCONT:
		return nil // the suspend action above sees it
	}
	return m.endBySignal(s)
}

func (m *machine) endBySignal(s syscall.Signal) []action {
	m.signalled++
	if m.signal == 0 {
		m.signal = s
	}
	switch {
	case m.signalled > 1:
		return append(m.sayWaiting("killing"), m.stop(0)...)
	case m.phase != phaseRunning:
		return m.stop(m.grace)
	case s == syscall.SIGTERM:
		return append(m.stop(m.grace), m.sayWaiting("stopping")...)
	}
	out := m.toAll(wire.Message{Signal: &wire.Signal{Num: int(s)}})
	out = append(out, action{timer: m.grace / 2})
	return append(out, m.sayWaiting("stopping")...)
}

// sayWaiting says in one line what the stop waits for.
func (m *machine) sayWaiting(what string) []action {
	byHost := make([]int, len(m.hosts))
	waiting := 0
	for r, p := range m.layout.Ranks {
		if m.ranks[r].State == StateWaiting {
			byHost[p.Host]++
			waiting++
		}
	}
	if waiting == 0 {
		return nil
	}
	var hosts []string
	for h, n := range byHost {
		if n > 0 {
			hosts = append(hosts, m.hosts[h].name)
		}
	}
	hint := ""
	if what == "stopping" {
		hint = fmt.Sprintf("; KILL follows after %v, Ctrl-C again kills now", m.grace)
	}
	return []action{{say: fmt.Sprintf("%s %s on %s%s", what, count(waiting, "rank"), someOf(hosts), hint)}}
}

// deadlinePassed: in the running phase the ranks had their half of the grace after a
// signal; in the stopping phase everything is killed, then the agents are given up.
func (m *machine) deadlinePassed() []action {
	switch m.phase {
	case phaseRunning:
		return m.stop(m.grace / 2)
	case phasePreparing:
		for _, h := range m.hosts {
			if h.state == hostUp {
				err := fmt.Errorf("reached, but its agent did not prepare the ranks within %v", m.prepareLimit)
				m.hostFailures = append(m.hostFailures, HostFailure{Host: h.name, Err: err})
			}
		}
		return m.stop(0)
	case phaseStopping:
		if !m.forced {
			m.forced = true
			return m.stop(0)
		}
	}
	return m.giveUp()
}

// giveUp ends the wait for agents that confirm nothing.
func (m *machine) giveUp() []action {
	var out []action
	for i := range m.hosts {
		h := &m.hosts[i]
		switch h.state {
		case hostUp, hostPrepared, hostStarted:
			m.lostHosts = append(m.lostHosts, h.name+": did not confirm the stop")
			m.left = append(m.left, h.name+": it is not known whether processes of the job are left")
			m.loseRanks(i)
		case hostSweeping:
			m.left = append(m.left, h.name+": the sweep did not end in time")
		case hostDialing: // its dialling was cancelled; nothing runs there
		default:
			continue
		}
		h.state = hostLost
		out = append(out, action{host: i, drop: true})
	}
	if m.phase == phaseConnecting {
		m.phase = phaseStopping
	}
	return out
}

// patient reports whether the job may take as long as the reader of its output does:
// nobody asked for its end.
func (m *machine) patient() bool { return m.signal == 0 && !m.timeout && !m.stdoutClosed }

// first returns the first failure: the earliest by the ranks' own clocks, and the
// lowest rank among equals. What gorun's stop ended does not count.
func (m *machine) first() *RankResult {
	var first *RankResult
	for i := range m.ranks {
		r := &m.ranks[i]
		if r.failed() && (first == nil || r.At < first.At) {
			first = r
		}
	}
	return first
}

// someOf lists up to eight names.
func someOf(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
