package launcher

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

// phase is where a job stands. It only moves down this list; failures skip ahead to
// phaseStopping, or to phaseOver when no agent is left to be stopped.
//
//	connecting ──all up──► [surveying ──ruled──►] [staging ──all have the files──►] preparing ──all prepared──► running ──all ranks ended──► stopping ──all done──► over
type phase string

const (
	phaseConnecting phase = "connecting" // hosts are dialled; hellos come in
	phaseSurveying  phase = "surveying"  // hosts are examined, and judged, if the job asks for that
	phaseStaging    phase = "staging"    // files are brought to the hosts, if the job has any
	phasePreparing  phase = "preparing"  // plans are out
	phaseRunning    phase = "running"    // start is out
	phaseStopping   phase = "stopping"   // stop is out; agents clean up
	phaseOver       phase = "over"
)

// hostState is where one host stands.
type hostState string

const (
	hostDialing  hostState = "dialing"
	hostAsked    hostState = "asked"  // its hello is in, and something more is to come
	hostUp       hostState = "up"     // all that the layout needs is known
	hostStaged   hostState = "staged" // the job's files are there
	hostPrepared hostState = "prepared"
	hostStarted  hostState = "started"
	hostDone     hostState = "done" // nothing of the job is left there
	hostFailed   hostState = "failed"
	hostLost     hostState = "lost"
	hostSweeping hostState = "sweeping" // its agent died; a second session cleans up
)

// event is one thing that happened. Exactly one of the pointers is set.
type event struct {
	host int // for those that have one

	up       *wire.Hello
	answers  int   // with up: Settings that are to come yet
	failed   error // the host could not be reached
	planned  *Layout
	planErr  error
	unstaged []PrepareFailure // why files cannot be brought to hosts
	prepared *wire.Prepared
	started  *wire.Started
	exited   *wire.Exited
	broke    *breach // a rank, as an MPI process
	done     *wire.Done
	picture  *wire.Picture
	watching *wire.Watching
	word     *word
	around   *around         // it is time to look after the hosts' watch on each other
	differs  []EnvDifference // between ranks' environments, which cannot work together
	lost     *lostEvent
	swept    *sweptEvent
	silent   time.Duration // since the host was last heard
	fresh    int           // with silent: hosts of the watch that were heard lately
	signal   syscall.Signal
	timeout  bool // the job's own limit has passed
	staged   bool // the host has the job's files
	answered bool // Settings have come
	moved    bool // they have come a bit further, somewhere
	deadline bool // the wait of the current phase has passed
	looked   bool // the look at the ranks has taken too long
	probed   bool // it has said what its links are like
	late     bool // the patience of a survey is over

	told      *facts
	listening []int         // these hosts were asked to listen for probes
	rails     *railPlan     // RDMA is to be tried so
	probing   *wire.Probing // one of them does
	ruled     []int         // the job goes on with these hosts
	stdout    bool          // stdout or stderr was closed by its reader
}

// lostEvent: a host's stream ended, or fell silent, before its Done.
type lostEvent struct {
	why   string
	sweep bool // its agent has ended, or must be ended, but the connection may live
	fresh int  // as an event's, if it fell silent
}

// sweptEvent: the second session has ended.
type sweptEvent struct{ err error }

// action is one thing to be done. Exactly one field beside host is set.
type action struct {
	host    int
	plan    bool          // all hosts are up: place, build the plans, and send them if no files go before
	stage   bool          // bring the job's files to the hosts
	prepare bool          // they are there: send the plans
	send    *wire.Message // to host
	drop    bool          // close host's link
	sweep   bool          // start the sweep of host
	say     string        // a line for the user
	timer   time.Duration // rearm the phase's deadline; never disarms it
	look    time.Duration // the limit of a look begins; it passes beside the phase's deadline
	show    *look         // tell what the ranks are doing
	limit   bool          // the ranks run: the job's own time limit begins
	suspend bool          // stop this process until it is continued
	listen  bool          // have host listen for the others' gossip
	meet    []int         // have host get to know these, in this order
	watch   time.Duration // so long until the next look after the watch
	note    *wire.Log     // a line for the user, as an agent's

	survey    bool          // have hosts listen for probes: those that have addresses
	probe     []int         // have host probe these
	planRails bool          // ask between which hosts RDMA is to be tried
	rail      *RailOrder    // have host try its rails so
	patience  time.Duration // with what takes long in a survey; beside the phase's deadline, never disarms it
	judge     bool          // all is in that will come: have it judged
	release   bool          // host is not used: forget it
	use       []int         // the hosts are these from now on, of those there were
}

// never as a timer means no deadline.
const never time.Duration = -1

// machine is the state of a job. step is its only way to change; it does no I/O
// and reads no clock: times come with the events.
type machine struct {
	hosts  []machineHost
	ranks  []RankResult // by rank, once placed
	ended  int          // ranks that have ended
	phase  phase
	layout Layout
	byHost [][]int // ranks of each host, once placed

	grace        time.Duration
	timeLimit    time.Duration // of the whole job; 0: none
	prepareLimit time.Duration // for every host to answer its plan
	keepGoing    bool
	waits        waits

	staged   bool // no files are to be brought to the hosts, or all have them
	begun    bool // Start is out: ranks may run
	stopping bool // Stop is out: no new phase begins
	killing  bool // and it gave no grace
	forced   bool // the agents have been told twice; they are given up next

	look  *look // under way; nil: none
	looks int   // begun so far
	watch watch // of the hosts on each other

	inquiry *inquiry // nil: the job has no preflight

	hostFailures []HostFailure // hosts that could not be used; nothing was started then
	prepare      []PrepareFailure
	planErr      error
	signal       syscall.Signal // by which the user ended the job
	signalled    int            // how often the user asked for the end
	timeout      bool
	stdoutClosed bool
	differ       []EnvDifference // for which the job was stopped
	lostHosts    []lostHost      // when ranks may have run there
	killed       []int
	kept         []KeptDir
	left         []string

	listened bool    // somebody wants the events
	events   []Event // since the last journal
}

type machineHost struct {
	name    string
	state   hostState
	answers int // that are to come before it is up
}

// newMachine is a machine for a job on the named hosts, which are being dialled.
func newMachine(names []string, job Job, w waits) *machine {
	m := &machine{phase: phaseConnecting, grace: job.Grace, timeLimit: job.Timeout, prepareLimit: job.ConnectTimeout, keepGoing: job.KeepGoing, waits: w, staged: !job.ships()}
	for _, n := range names {
		m.hosts = append(m.hosts, machineHost{name: n, state: hostDialing})
	}
	m.inquiry = newInquiry(job, len(names))
	return m
}

// step takes one event and returns what is to be done, in order.
func (m *machine) step(e event) []action {
	if m.phase == phaseOver {
		return nil
	}
	before := m.phase
	out := m.settle(m.react(e))
	if m.phase != before {
		m.emit(Event{Event: "phase", Phase: string(m.phase)})
	}
	return out
}

// react does what the event itself asks for.
func (m *machine) react(e event) []action {
	var out []action
	switch {
	case e.up != nil:
		out = m.hostCameUp(e.host, e.up, e.answers)
	case e.answered:
		m.hostAnswered(e.host)
	case e.failed != nil:
		m.hostDidNotCome(e.host, e.failed)
	case e.told != nil, e.listening != nil, e.probing != nil, e.probed, e.rails != nil, e.late, e.ruled != nil:
		out = m.inquire(e)
	case e.planned != nil:
		out = m.place(*e.planned)
	case e.planErr != nil:
		m.planErr = e.planErr
		out = m.stop()
	case e.staged:
		m.hostStaged(e.host)
	case e.unstaged != nil:
		out = m.cannotStage(e.unstaged)
	case e.moved:
		out = m.stagingMoves()
	case e.prepared != nil:
		m.hostPrepared(e.host, e.prepared)
	case e.started != nil:
		m.hostStarted(e.host, e.started)
	case e.exited != nil:
		out = m.rankEnded(e.host, e.exited)
	case e.broke != nil:
		out = m.rankBroke(e.broke)
	case e.done != nil:
		out = m.hostIsDone(e.host, e.done)
	case e.picture != nil:
		m.pictureCame(e.host, e.picture)
	case e.differs != nil:
		out = m.environmentsDiffer(e.differs)
	case e.lost != nil:
		why := e.lost.why + m.othersSay(e.host, e.lost.fresh)
		out = m.hostIsLost(e.host, &lostEvent{why: why, sweep: e.lost.sweep})
	case e.swept != nil:
		out = m.hostIsSwept(e.host, e.swept)
	case e.watching != nil:
		out = m.hostWatches(e.host, e.watching)
	case e.word != nil:
		out = m.wordCame(e.host, e.word)
	case e.around != nil:
		out = m.lookAround(e.around)
	case e.silent != 0:
		out = m.hostIsSilent(e.host, e.silent, e.fresh)
	case e.signal != 0:
		out = m.signalCame(e.signal)
	case e.timeout:
		out = m.timeoutPassed()
	case e.deadline:
		out = m.deadlinePassed()
	case e.looked && m.look != nil:
		out = m.looked()
	case e.stdout:
		m.stdoutClosed = true
		out = m.stop()
	}
	return out
}

// settle moves to the next phase when the current one has nothing left to wait for.
func (m *machine) settle(out []action) []action {
	switch {
	case m.phase == phaseConnecting && m.none(hostDialing, hostAsked):
		if m.stopping || len(m.hostFailures) > 0 {
			out = append(out, m.stop()...)
			m.phase = phaseStopping
			break
		}
		if m.inquiry != nil {
			out = append(out, m.beginSurvey()...)
			break
		}
		m.phase = phasePreparing
		out = append(out, action{timer: m.prepareLimit}, action{plan: true})
	case m.phase == phaseSurveying && !m.stopping && !m.ending():
		out = m.survey(out)
	case m.phase == phaseStaging && !m.stopping && m.none(hostUp):
		m.phase, m.staged = phasePreparing, true
		out = append(out, action{timer: m.prepareLimit}, action{prepare: true})
	case m.phase == phasePreparing && !m.stopping && len(m.ranks) > 0 && m.none(hostUp, hostStaged):
		if len(m.prepare) > 0 {
			out = append(out, m.stop()...)
			break
		}
		m.phase, m.begun = phaseRunning, true
		out = append(out, action{timer: never}, action{limit: true})
		out = append(out, m.toAll(wire.Message{Start: &wire.Start{}})...)
	case m.phase == phaseRunning && m.ended == len(m.ranks):
		out = append(out, m.stop()...)
	case m.look != nil && len(m.look.waiting) == 0:
		out = append(out, m.looked()...)
	}
	if m.phase == phaseStopping && m.none(hostDialing, hostAsked, hostUp, hostStaged, hostPrepared, hostStarted, hostSweeping) {
		m.phase = phaseOver
	}
	return out
}

func (m *machine) none(states ...hostState) bool {
	return !slices.ContainsFunc(m.hosts, func(h machineHost) bool { return slices.Contains(states, h.state) })
}

// live reports whether an agent is expected to read what is sent to host i.
func (m *machine) live(i int) bool {
	s := m.hosts[i].state
	return s == hostAsked || s == hostUp || s == hostStaged || s == hostPrepared || s == hostStarted
}

func (m *machine) toAll(msg wire.Message) []action {
	var out []action
	for i := range m.hosts {
		if m.live(i) {
			out = append(out, action{host: i, send: &msg})
		}
	}
	return out
}

func (m *machine) rankEnded(host int, x *wire.Exited) []action {
	if !m.begun || x.Rank < 0 || x.Rank >= len(m.ranks) || m.layout.Ranks[x.Rank].Host != host || m.ranks[x.Rank].State != StateWaiting {
		return nil // a confused agent cannot end another host's rank, one twice, or one that was not started
	}
	if x.ByStop && !m.stopping {
		return m.hostIsLost(host, &lostEvent{why: toldToStop})
	}
	r := &m.ranks[x.Rank]
	m.ended++
	if r.Fault == "" {
		r.Code, r.Signal, r.Core, r.Text, r.At = x.Code, x.Signal, x.Core, x.Text, x.At
	}
	switch failed := x.Code != 0 || x.Signal != 0; {
	case r.Fault != "": // what it did before counts
		r.State = StateExited
	case x.ByStop || (failed && (m.signal != 0 || m.ending())):
		r.State = StateStopped
	case x.Text != "":
		r.State = StateNotStarted
	case x.Signal != 0:
		r.State = StateKilled
	default:
		r.State = StateExited
	}
	m.emitEnded(*r)
	if r.failed() && !m.keepGoing {
		return m.stop()
	}
	return nil
}

// toldToStop is why a host is lost whose agent stops its ranks although the head has
// not asked for that: something on the host did.
const toldToStop = "gorun's agent was told to stop there"

// hostIsDone: the agent has cleaned up. If the job still runs, nobody asked it to.
func (m *machine) hostIsDone(i int, d *wire.Done) []action {
	if !m.live(i) {
		return nil
	}
	if !m.stopping {
		return m.hostIsLost(i, &lostEvent{why: toldToStop})
	}
	if m.hosts[i].state == hostStarted {
		m.loseRanks(i) // those of which it has not said how they ended
	}
	m.hosts[i].state = hostDone
	m.killed = append(m.killed, d.Killed...)
	for _, l := range d.Left {
		m.left = append(m.left, m.hosts[i].name+": "+l)
	}
	if d.Kept != "" {
		m.kept = append(m.kept, KeptDir{Host: m.hosts[i].name, Dir: d.Kept})
	}
	m.emitHost("host_done", i, Event{Killed: d.Killed, Kept: d.Kept, Left: d.Left})
	return []action{{host: i, drop: true}}
}

// hostIsLost: the ranks of a lost host are lost with it, never "exited". Before any
// rank was started it is one more host that cannot be used.
func (m *machine) hostIsLost(i int, l *lostEvent) []action {
	if !m.live(i) {
		return nil
	}
	h := &m.hosts[i]
	m.unwatch(i)
	switch {
	case m.begun || m.stopping:
		m.lostHosts = append(m.lostHosts, lostHost{i, l.why})
	case m.excused():
		m.inquiry.hosts[i].err = lostHost{i, l.why}
	default:
		m.hostFailures = append(m.hostFailures, HostFailure{Host: h.name, Err: lostHost{i, l.why}})
	}
	m.emitHost("host_lost", i, Event{Text: l.why})
	m.loseRanks(i)
	h.state = hostLost
	if m.look != nil {
		delete(m.look.waiting, i)
	}
	out := []action{{host: i, drop: true}}
	if l.sweep {
		h.state = hostSweeping
		out = []action{{host: i, sweep: true}}
	}
	if m.phase == phaseConnecting || m.phase == phaseSurveying || (m.phase == phaseRunning && m.keepGoing) {
		return out // the other hosts are waited for
	}
	if m.phase == phaseRunning {
		return append(out, m.lookFirst("when "+h.name+" was lost", true)...)
	}
	return append(out, m.stop()...)
}

// environmentsDiffer: ranks would wait for each other for ever.
func (m *machine) environmentsDiffer(d []EnvDifference) []action {
	if m.phase != phaseRunning || m.ending() {
		return nil
	}
	m.differ = d
	return m.stop()
}

// timeoutPassed: the job has run for as long as it may. What the ranks were doing is
// what its user wants to know.
func (m *machine) timeoutPassed() []action {
	if m.stopping {
		return nil
	}
	m.timeout = true
	return m.lookFirst(fmt.Sprintf("at the timeout of %v", m.timeLimit), true)
}

// loseRanks gives up the ranks of a host that will not say how they ended. Those
// that were not started wait for ever.
func (m *machine) loseRanks(host int) {
	if !m.begun {
		return
	}
	for _, r := range m.byHost[host] {
		if m.ranks[r].State == StateWaiting {
			m.ranks[r].State = StateLost
			m.ended++
			m.emitEnded(m.ranks[r])
		}
	}
}

func (m *machine) hostIsSwept(i int, s *sweptEvent) []action {
	if m.hosts[i].state != hostSweeping {
		return nil
	}
	m.hosts[i].state = hostLost
	swept := Event{}
	if s.err != nil {
		swept.Text = s.err.Error()
	}
	m.emitHost("host_swept", i, swept)
	if s.err != nil && m.begun {
		m.left = append(m.left, fmt.Sprintf("%s: cannot tell whether processes of the job are left: %v", m.hosts[i].name, s.err))
	}
	return []action{{host: i, drop: true}}
}

func (m *machine) hostIsSilent(i int, d time.Duration, fresh int) []action {
	if !m.live(i) {
		return nil
	}
	m.emitHost("host_silent", i, Event{Silent: d})
	return []action{{say: fmt.Sprintf("%s: silent for %v%s", m.hosts[i].name, d.Round(time.Second), m.othersSay(i, fresh))}}
}
