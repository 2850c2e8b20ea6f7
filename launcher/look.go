package launcher

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

// look is one look at what the ranks are doing: every host that has ranks running is
// asked, and what has come within a limit is shown.
type look struct {
	id       int
	why      string // when it was begun, for the user
	stop     bool   // the job is stopped after it
	signal   syscall.Signal
	broken   bool                  // it was ended before its limit
	waiting  map[int]bool          // hosts that have not answered
	pictures map[int]*wire.Picture // by host
}

// lookFirst has the ranks looked at, and stops the job then if stop is true. If nobody
// can be asked there is nothing to wait for.
func (m *machine) lookFirst(why string, stop bool) []action {
	if m.look != nil {
		if stop && !m.look.stop {
			m.look.why, m.look.stop = why, true
		}
		return nil
	}
	m.looks++
	m.look = &look{id: m.looks, why: why, stop: stop, waiting: map[int]bool{}, pictures: map[int]*wire.Picture{}}
	for r, p := range m.layout.Ranks {
		if m.ranks[r].State == StateWaiting && m.live(p.Host) {
			m.look.waiting[p.Host] = true
		}
	}
	if len(m.look.waiting) == 0 {
		return nil // settle ends it
	}
	var out []action
	ask := wire.Inspect{ID: m.look.id, Between: m.waits.look * 2 / 5, Within: m.waits.look * 4 / 5}
	for _, h := range slices.Sorted(maps.Keys(m.look.waiting)) {
		out = append(out, action{host: h, send: &wire.Message{Inspect: &ask}})
	}
	return append(out, action{look: m.waits.look})
}

// ending reports whether the job will be stopped: how ranks end from now on is not why.
func (m *machine) ending() bool { return m.look != nil && m.look.stop }

func (m *machine) pictureCame(host int, p *wire.Picture) {
	if m.look != nil && p.ID == m.look.id && m.look.waiting[host] {
		delete(m.look.waiting, host)
		m.look.pictures[host] = p
	}
}

// looked ends the look that is under way: all have answered, or it has taken too long.
func (m *machine) looked() []action {
	l := m.look
	m.look = nil
	var out []action
	if len(l.pictures)+len(l.waiting) > 0 {
		out = append(out, action{show: l})
	}
	if l.signal != 0 {
		out = append(out, m.toAll(wire.Message{Signal: &wire.Signal{Num: int(l.signal), Caught: true}})...)
	}
	if l.stop {
		out = append(out, m.stop()...)
	}
	return out
}

// breakLook ends a look because the job is being stopped; what has been seen is shown.
func (m *machine) breakLook() []action {
	l := m.look
	m.look = nil
	if l == nil || len(l.pictures) == 0 {
		return nil
	}
	l.broken = true
	return []action{{show: l}}
}

// userLook is USR2. It goes on to the ranks when they have been looked at, so that what
// they do about it is not seen; and only to those that do something, as it would end the
// others.
func (m *machine) userLook() []action {
	if m.phase != phaseRunning {
		return m.sayPhase()
	}
	out := m.lookFirst("on SIGUSR2", false)
	m.look.signal = syscall.SIGUSR2
	return out
}

// sayPhase says what a job waits for whose ranks do not run.
func (m *machine) sayPhase() []action {
	hosts := func(states ...hostState) (names []string) {
		for _, h := range m.hosts {
			if slices.Contains(states, h.state) {
				names = append(names, h.name)
			}
		}
		return names
	}
	var what string
	var waiting []string
	switch m.phase {
	case phaseConnecting:
		what, waiting = "connecting to", hosts(hostDialing, hostAsked)
	case phaseSurveying:
		return []action{{say: "no rank runs yet: " + m.surveyStatus()}}
	case phaseStaging:
		what, waiting = "bringing files to", hosts(hostUp)
	case phasePreparing:
		what, waiting = "waiting for the program to be found on", hosts(hostUp, hostStaged)
	default:
		return m.sayWaiting("stopping", "")
	}
	if len(waiting) == 0 {
		return nil
	}
	return []action{{say: fmt.Sprintf("no rank runs yet: %s %s", what, someOf(waiting))}}
}

// lookLimit is how long a look may take, and so how much later a job is stopped.
const lookLimit = 2500 * time.Millisecond
