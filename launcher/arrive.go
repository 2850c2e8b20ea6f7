package launcher

import "gorun/launcher/wire"

// What a machine does with a host on its way from being dialled to running ranks.

// hostCameUp: so many answers of the host are to come before its ranks can be planned.
func (m *machine) hostCameUp(i int, hello *wire.Hello, answers int) []action {
	switch {
	case m.hosts[i].state != hostDialing:
		return nil
	case m.stopping: // its dialling was cancelled too late: its link closes, and the agent ends with it
		m.hosts[i].state = hostDone
		return nil
	}
	m.emitHost("host_hello", i, Event{Cores: hello.Cores, GPUs: new(hello.GPUs)})
	if m.hosts[i].answers = answers; answers > 0 {
		m.hosts[i].state = hostAsked
		return []action{{timer: m.waits.answer}}
	}
	m.hosts[i].state = hostUp
	return nil
}

func (m *machine) hostAnswered(i int) {
	h := &m.hosts[i]
	if h.state != hostAsked {
		return
	}
	if h.answers--; h.answers == 0 {
		h.state = hostUp
	}
}

func (m *machine) hostDidNotCome(i int, err error) {
	if m.hosts[i].state != hostDialing {
		return
	}
	m.hosts[i].state = hostFailed
	switch {
	case m.stopping:
	case m.excused():
		m.giveUpOn(i, err)
	default:
		m.hostFails(i, err)
	}
}

func (m *machine) hostFails(i int, err error) {
	m.hostFailures = append(m.hostFailures, HostFailure{Host: m.hosts[i].name, Err: err})
	m.emitHost("host_failed", i, Event{Text: err.Error()})
}

// place takes the layout over. Hosts that got no rank are let go.
func (m *machine) place(l Layout) []action {
	m.layout = l
	m.ranks, m.byHost = make([]RankResult, l.Size()), make([][]int, len(m.hosts))
	for r, p := range l.Ranks {
		m.byHost[p.Host] = append(m.byHost[p.Host], r)
		m.ranks[r] = RankResult{Rank: r, App: p.App, Host: m.hosts[p.Host].name, State: StateWaiting}
	}
	var out []action
	for i, n := range l.Count {
		if n == 0 {
			m.hosts[i].state = hostDone
			out = append(out, action{host: i, send: &wire.Message{Stop: &wire.Stop{}}}, action{host: i, drop: true})
		}
	}
	if !m.staged && m.phase == phasePreparing {
		m.phase = phaseStaging
		out = append(out, action{timer: m.waits.stage}, action{stage: true})
	}
	return out
}

// hostStaged: files come before the plan, and once.
func (m *machine) hostStaged(i int) {
	if m.phase == phaseStaging && m.hosts[i].state == hostUp {
		m.hosts[i].state = hostStaged
		m.emitHost("host_staged", i, Event{})
	}
}

func (m *machine) cannotStage(why []PrepareFailure) []action {
	if m.phase != phaseStaging || m.stopping {
		return nil
	}
	for _, f := range why {
		m.cannotStart(f)
	}
	return m.stop()
}

// stagingMoves puts the deadline off: how long files take nobody knows beforehand.
func (m *machine) stagingMoves() []action {
	if m.phase != phaseStaging || m.stopping {
		return nil
	}
	return []action{{timer: m.waits.stage}}
}

func (m *machine) hostPrepared(i int, p *wire.Prepared) {
	if s := m.hosts[i].state; s != hostUp && s != hostStaged || len(m.ranks) == 0 || m.phase == phaseStaging {
		return // it cannot be prepared twice, or without a plan
	}
	m.hosts[i].state = hostPrepared
	if len(p.Failures) == 0 {
		m.emitHost("host_prepared", i, Event{})
	}
	for _, f := range p.Failures {
		m.cannotStart(PrepareFailure{Host: m.hosts[i].name, Rank: f.Rank, Code: f.Code, Text: f.Text})
	}
}

func (m *machine) cannotStart(f PrepareFailure) {
	m.prepare = append(m.prepare, f)
	m.emitUnable(f)
}

func (m *machine) hostStarted(i int, s *wire.Started) {
	if m.begun && m.hosts[i].state == hostPrepared {
		m.hosts[i].state = hostStarted
		m.emitStarted(i, s.PIDs)
	}
}
