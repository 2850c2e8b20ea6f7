package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

// waits bound what the head waits for, beside what a Job says. Tests shorten them.
type waits struct {
	beat   time.Duration // between heartbeats
	silent time.Duration // silence after which one line names the host
	stop   time.Duration // for an agent to confirm the stop, after the grace
	kill   time.Duration // the same, when nothing was given grace
	answer time.Duration // for a host to tell of its settings
	listen time.Duration // for it to say that it listens for probes
	probe  time.Duration // for any host to say what its links are like, when they are probed
	rails  time.Duration // for any host to say what its rails are like
	probes time.Duration // until no more pairs of hosts begin to probe each other
	stage  time.Duration // for anything to move while files are brought to the hosts
	look   time.Duration // for the hosts to say what their ranks are doing
	watch  time.Duration // from the start of the ranks to that of the hosts' watch on each other
	join   time.Duration // for the hosts to answer either step towards it
	quiet  time.Duration // silence after which a host is lost that the others cannot reach either
	drop   time.Duration // for an agent that has said Done to close its stream
	flush  time.Duration // for the rest of the output, when somebody ended the job
}

func defaultWaits() waits {
	return waits{
		beat: 2 * time.Second, silent: 10 * time.Second, stop: 10 * time.Second, kill: 5 * time.Second,
		answer: 12 * time.Second, listen: 5 * time.Second, probe: 12 * time.Second, rails: 40 * time.Second, probes: 20 * time.Second, stage: 30 * time.Second, look: lookLimit, drop: 2 * time.Second, flush: time.Second,
		watch: 2 * time.Second, join: wire.JoinLimit + 2*time.Second, quiet: 5 * time.Second,
	}
}

// stop ends the job on every host that can still be told, with the grace if ranks
// may run. What asks for the end after that changes nothing, but for kill.
func (m *machine) stop() []action { return m.stopWithin(m.grace) }

func (m *machine) stopWithin(grace time.Duration) []action {
	switch {
	case m.stopping:
		return nil
	case !m.begun || grace == 0:
		return m.kill()
	}
	slack := m.waits.stop
	if !m.patient() {
		slack = m.waits.kill // who asked for the end does not wait for output that nobody reads
	}
	return append(m.order(grace), action{timer: grace + slack})
}

// kill ends the job without grace. It may follow a stop and be repeated: an agent
// that has only output left to send gives that up then. Asking again does not make
// the wait longer.
func (m *machine) kill() []action {
	again := m.killing
	m.killing = true
	out := m.order(0)
	if again {
		return out
	}
	return append(out, action{timer: m.waits.kill})
}

// order sends the stop, and lets the hosts go that are not reached yet.
func (m *machine) order(grace time.Duration) []action {
	if !m.stopping {
		m.emitStop()
	}
	m.stopping = true
	out := m.toAll(wire.Message{Stop: &wire.Stop{Grace: grace}})
	if m.phase != phaseConnecting {
		m.phase = phaseStopping
	}
	for i := range m.hosts {
		if m.hosts[i].state == hostDialing {
			out = append(out, action{host: i, drop: true})
		}
	}
	return append(out, m.breakLook()...)
}

// signalCame handles a signal to gorun. INT, HUP and QUIT are passed to the ranks,
// which get half the grace before TERM; TERM stops at once; a second one kills.
// USR1 only passes; USR2 has the ranks looked at; TSTP pauses.
func (m *machine) signalCame(s syscall.Signal) []action {
	switch s {
	case syscall.SIGUSR2:
		return m.userLook()
	case syscall.SIGUSR1:
		if m.phase != phaseRunning {
			return []action{{say: fmt.Sprintf("no rank runs: %s is dropped", signalName(s))}}
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
	m.interrupted(s)
	m.emit(Event{Event: "signal", Signal: int(s)})
	switch {
	case m.signalled > 1:
		return append(m.sayWaiting("killing", ""), m.kill()...)
	case m.phase == phaseStopping:
		return m.sayWaiting("stopping", "; Ctrl-C again kills now")
	case m.phase != phaseRunning:
		return m.stop()
	}
	out := m.sayWaiting("stopping", fmt.Sprintf("; KILL follows after %v, Ctrl-C again kills now", m.grace))
	if s == syscall.SIGTERM {
		return append(out, m.stop()...)
	}
	out = append(out, m.toAll(wire.Message{Signal: &wire.Signal{Num: int(s)}})...)
	return append(out, action{timer: max(m.grace/2, time.Millisecond)})
}

// interrupted notes that the user wants the job to end. That is not why it ends if it
// was already ending for another reason than that all is done.
func (m *machine) interrupted(s syscall.Signal) {
	m.signalled++
	if m.signal == 0 && (!m.stopping && !m.ending() || m.well()) {
		m.signal = s
	}
}

// well reports whether nothing has ended the job before its time.
func (m *machine) well() bool {
	return m.first() == nil && m.planErr == nil && len(m.prepare)+len(m.hostFailures)+len(m.lostHosts) == 0 &&
		!m.timeout && !m.stdoutClosed && m.differ == nil
}

// sayWaiting says in one line what the stop waits for.
func (m *machine) sayWaiting(what, hint string) []action {
	byHost := make([]int, len(m.hosts))
	waiting := 0
	for r, p := range m.layout.Ranks {
		if m.ranks[r].State == StateWaiting {
			byHost[p.Host]++
			waiting++
		}
	}
	if waiting == 0 {
		return m.sayCleaning()
	}
	var hosts []string
	for h, n := range byHost {
		if n > 0 {
			hosts = append(hosts, m.hosts[h].name)
		}
	}
	return []action{{say: fmt.Sprintf("%s %s on %s%s", what, count(waiting, "rank"), someOf(hosts), hint)}}
}

// sayCleaning is sayWaiting when no rank runs.
func (m *machine) sayCleaning() []action {
	var hosts []string
	for i, h := range m.hosts {
		if m.live(i) || h.state == hostSweeping {
			hosts = append(hosts, h.name)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return []action{{say: "waiting for " + someOf(hosts) + " to clean up"}}
}

// deadlinePassed: in the running phase the ranks had their half of the grace after a
// signal; in the stopping phase everything is killed, then the agents are given up.
func (m *machine) deadlinePassed() []action {
	switch {
	case m.phase == phaseConnecting && !m.stopping:
		for i, h := range m.hosts {
			if h.state == hostAsked { // what it has is not worth more time
				m.hosts[i].state = hostUp
			}
		}
		return nil
	case m.phase == phaseSurveying && !m.stopping:
		return m.surveyStands()
	case m.phase == phaseRunning:
		return m.stopWithin(m.grace / 2)
	case m.phase == phaseStaging:
		for i, h := range m.hosts {
			if h.state == hostUp {
				err := fmt.Errorf("reached, but bringing files there made no progress for %v", m.waits.stage)
				m.hostFails(i, err)
			}
		}
		return m.stop()
	case m.phase == phasePreparing:
		for i, h := range m.hosts {
			if h.state == hostUp || h.state == hostStaged {
				err := fmt.Errorf("reached, but its agent did not prepare the ranks within %v", m.prepareLimit)
				m.hostFails(i, err)
			}
		}
		return m.stop()
	case m.begun && !m.forced:
		m.forced, m.killing = true, true
		return append(m.order(0), action{timer: m.waits.kill})
	}
	return m.giveUp()
}

// giveUp ends the wait for agents that confirm nothing.
func (m *machine) giveUp() []action {
	var out []action
	for i := range m.hosts {
		h := &m.hosts[i]
		switch {
		case h.state == hostDialing: // its dialling was cancelled; nothing runs there
		case h.state == hostSweeping && m.begun:
			m.left = append(m.left, h.name+": the sweep did not end in time")
			m.emitHost("host_swept", i, Event{Text: "did not end in time"})
		case h.state == hostSweeping:
		case m.live(i) && m.begun:
			m.lostHosts = append(m.lostHosts, lostHost{i, "did not confirm the stop"})
			m.emitHost("host_lost", i, Event{Text: "did not confirm the stop"})
			m.left = append(m.left, h.name+": it is not known whether processes of the job are left")
			m.loseRanks(i)
		case m.live(i):
			m.lostHosts = append(m.lostHosts, lostHost{i, "did not confirm the stop; nothing was started there"})
			m.emitHost("host_lost", i, Event{Text: "did not confirm the stop; nothing was started there"})
		default:
			continue
		}
		h.state = hostLost
		out = append(out, action{host: i, drop: true})
	}
	m.phase = phaseStopping
	return out
}

// patient reports whether the job may take as long as the reader of its output does:
// nobody asked for its end.
func (m *machine) patient() bool { return m.signalled == 0 && !m.timeout && !m.stdoutClosed }

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
