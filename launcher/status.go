package launcher

import (
	"fmt"
	"time"
)

const (
	statusEvery = 200 * time.Millisecond
	statusFrom  = 500 * time.Millisecond // before it there is none: short jobs need none
)

// status is one line on where the job stands, "" for none: what has been reached of what
// is wanted, and who is waited for. A rank that has the terminal for itself is left alone.
func (m *machine) status(elapsed time.Duration) string {
	took := elapsed.Truncate(time.Second)
	switch {
	case elapsed < statusFrom || m.begun && len(m.ranks) == 1 && !m.stopping:
		return ""
	case m.phase == phaseConnecting:
		return fmt.Sprintf("%d of %s connected%s, %v; waiting for %s", len(m.in(hostAsked, hostUp)), count(len(m.hosts), "host"), m.notUsable(), took, someOf(m.in(hostDialing, hostAsked)))
	case m.phase == phaseSurveying:
		return m.surveyStatus() + fmt.Sprintf(", %v", took)
	case m.phase == phaseStaging:
		return fmt.Sprintf("bringing files to %s, %v", someOf(m.in(hostUp)), took)
	case m.phase == phasePreparing:
		return fmt.Sprintf("waiting for %s to prepare, %v", someOf(m.in(hostUp, hostStaged)), took)
	case m.phase == phaseRunning && m.ended > 0:
		return fmt.Sprintf("%d of %s on %s run, %v", len(m.ranks)-m.ended, count(len(m.ranks), "rank"), count(m.used(), "host"), took)
	case m.phase == phaseRunning:
		return fmt.Sprintf("%s on %s, %v", count(len(m.ranks), "rank"), count(m.used(), "host"), took)
	case m.phase == phaseStopping && m.begun && m.ended < len(m.ranks):
		return fmt.Sprintf("stopping, %s left, %v", count(len(m.ranks)-m.ended, "rank"), took)
	case m.phase == phaseStopping:
		return fmt.Sprintf("waiting for %s to clean up, %v", someOf(m.in(hostAsked, hostUp, hostStaged, hostPrepared, hostStarted, hostSweeping)), took)
	}
	return ""
}

// surveyStatus says how far the survey of the hosts is, and whom it waits for.
func (m *machine) surveyStatus() string {
	if m.inquiry.stage == surveyJudging {
		return "judging what the hosts have told"
	}
	done, total, what := m.surveyed()
	text := fmt.Sprintf("preflight: %d of %d %s", done, total, what)
	var names []string
	for i, h := range m.hosts {
		if q := m.inquiry.hosts[i]; m.counts(i) && (!q.told || q.waiting > 0) {
			names = append(names, h.name)
		}
	}
	if len(names) > 0 {
		text += "; waiting for " + someOf(names)
	}
	return text
}

// notUsable counts the hosts that have failed, if any.
func (m *machine) notUsable() string {
	if len(m.hostFailures) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d cannot be used", len(m.hostFailures))
}

// in lists the hosts that are in one of these states.
func (m *machine) in(states ...hostState) []string {
	var names []string
	for _, h := range m.hosts {
		for _, s := range states {
			if h.state == s {
				names = append(names, h.name)
			}
		}
	}
	return names
}

// used is the number of hosts that have ranks.
func (m *machine) used() (n int) {
	for _, ranks := range m.layout.Count {
		n += min(ranks, 1)
	}
	return n
}

// showStatus brings the last line of the terminal up to date.
func (r *run) showStatus() {
	text := r.m.status(r.now() - r.paused)
	if text != "" {
		text = "gorun: " + text
		if r.warned != "" {
			text += "; warning: " + r.warned
		}
	}
	r.out.Status(text)
}

// statusTimer ticks when the status may have changed; never if nobody wants it.
func (r *run) statusTimer() (<-chan time.Time, func()) {
	if !r.io.Status {
		return nil, func() {}
	}
	t := time.NewTicker(statusEvery)
	return t.C, t.Stop
}

// prompt asks for a passphrase with the last line of the terminal out of the way.
func (r *run) prompt() func(string) ([]byte, error) {
	if r.io.Prompt == nil {
		return nil
	}
	return func(text string) ([]byte, error) {
		show := r.out.Hide()
		defer show()
		return r.io.Prompt(text)
	}
}
