package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/launcher/output"
	"gorun/launcher/transport"
	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// run is one job under way. Its loop owns everything that is not said to be shared.
type run struct {
	job    Job
	io     IO
	id     string
	secret []byte
	began  time.Time
	env    environment
	cargo  *cargo // nil: no files are brought to the hosts

	unneeded  int       // slots of hosts that ranks do not need
	libraries libraries // of NCCL on the hosts, as far as these have told
	lacked    lacked    // likewise
	unmet     unmet     // likewise
	bindings  bindings  // of the ranks, as far as hosts have told

	all    []*host // that are dialled
	hosts  []*host // those of them that the job has, once it is known which
	m      *machine
	dialer *transport.Dialer
	out    *output.Merger // gorun's own lines, and the ranks' once they are placed

	post    chan func()    // what the hosts' goroutines want done by the loop
	trouble chan func()    // the same of the merger's, which must not wait; room for its two calls in a job's life
	over    chan struct{}  // closed when the loop has ended
	aside   sync.WaitGroup // goroutines that the loop has started
	sweeps  sync.WaitGroup // those of them that sweep a host

	// Set when the job is placed; read by the hosts' goroutines through placed.
	placed  atomic.Pointer[placement]
	engine  *rendezvous.Engine
	stdin   *stdinPump
	planner *planner

	lateness  *alarm              // when it is said who keeps others waiting in a barrier of MPI's
	meeting   string              // the last such barrier that is known
	usesMPI   bool                // ranks have met in a barrier of MPI's
	parted    map[int]wire.Parted // ranks that have left MPI
	toldGone  bool                // it was said of a rank that it did not do so by MPI_Finalize
	toldAgain bool                // that a rank was an MPI program twice

	staging *staging     // nil without a cargo; set before the hosts' goroutines start
	exam    *examination // nil without a preflight

	warned      string                       // the first warning
	awaits      bool                         // it was said of a host that it is waited for
	started     time.Time                    // of the ranks
	suspensions atomic.Int64                 // how often the job was, or is being, suspended
	paused      time.Duration                // for which the job has been suspended, in all
	deadline    *alarm                       // of the machine's current wait
	limit       *alarm                       // of the ranks' run; off if there is none
	looking     *alarm                       // of the look that is under way
	around      *alarm                       // of the next look after the hosts' watch on each other
	lookedAt    time.Time                    // when that was begun
	picture     *Picture                     // the last; nil: none was made
	broken      map[int]*transport.JumpError // by host: the jump host with which it was lost
	oddities    []string                     // of hosts' settings, by which the job ends
	proof       *proof                       // of the ranks' environments; set when they run
	outErr      atomic.Pointer[string]       // the first output that could not be written
	pipeClosed  atomic.Bool                  // stdout or stderr was closed by its reader
}

// placement is what is known once the ranks have places. It does not change.
type placement struct {
	layout Layout
	nodes  []int // node number by host
	hosts  []int // host by node number
	out    *output.Merger
	credit *creditBook
}

// at is the index of h, and -1 before it has one that stays.
func (p *placement) at(h *host) int {
	if p == nil {
		return -1
	}
	return h.index
}

// has reports whether rank runs on host h.
func (p *placement) has(h, rank int) bool {
	return p != nil && rank >= 0 && rank < p.layout.Size() && p.layout.Ranks[rank].Host == h
}

// Run carries the job out and returns when it is over and every host that can be
// reached is clean. The result is nil only if nothing was tried. Errors are a
// *HostsError, *SlotsError, *PrepareError, one of envsync's, or trouble on this
// machine; a job whose ranks fail is a result, not an error. When ctx ends, the job
// is stopped as by SIGTERM.
func Run(ctx context.Context, job Job, io IO) (*Result, error) {
	r, err := newRun(job, io, defaultWaits())
	if err != nil {
		return nil, err
	}
	return r.follow(ctx)
}

// newRun checks what can be checked without a connection.
func newRun(job Job, io IO, w waits) (*run, error) {
	job = job.filled()
	r := &run{
		job: job, io: io, id: newID(), secret: make([]byte, 32), began: time.Now(),
		post: make(chan func(), 256), trouble: make(chan func(), 2), over: make(chan struct{}),
		lacked: lacked{}, unmet: unmet{},
	}
	rand.Read(r.secret)
	env, notes, err := job.environment()
	if err != nil {
		return nil, err
	}
	r.env = env
	if r.cargo, err = loadCargo(job, job.Dir); err != nil {
		return nil, err
	}
	hosts, err := job.neededHosts()
	if err != nil {
		return nil, err
	}
	r.unneeded = job.unneeded(hosts)
	var names []string
	for i, h := range hosts {
		r.hosts = append(r.hosts, newHost(i, h))
		names = append(names, h.Name)
	}
	r.all, r.exam = r.hosts, newExamination(r.job.Preflight)
	r.m = newMachine(names, r.job, w)
	r.m.listened = io.Events != nil
	if r.dialer, err = r.newDialer(); err != nil {
		return nil, err
	}
	if err := r.dialer.Room(hosts); err != nil {
		return nil, err
	}
	if r.out, err = output.New(output.Options{Stderr: io.Stderr, StderrTerminal: io.StderrTerminal, Width: io.Width}); err != nil {
		return nil, err
	}
	r.recordStart()
	for _, n := range notes {
		r.note(n.Level, n.Text)
	}
	return r, nil
}

func (r *run) newDialer() (*transport.Dialer, error) {
	job, io := r.job, r.io
	var log *slog.Logger
	if io.Log != nil {
		log = io.Log(logLines{r})
	}
	return transport.New(transport.Options{
		ConnectTimeout: job.ConnectTimeout, AcceptNewHostKeys: job.AcceptNewHostKeys, Home: io.Home, User: io.User,
		AgentSocket: os.Getenv("SSH_AUTH_SOCK"), Prompt: r.prompt(), Self: io.Exe, JobID: r.id, Logger: log, Fanout: job.Fanout,
		Rsh: job.Rsh, Port: job.SSHPort, Config: job.SSHConfig,
	})
}

// follow follows the job to its end.
func (r *run) follow(ctx context.Context) (*Result, error) {
	defer r.dialer.Close()
	r.readFiles()
	for _, h := range r.all {
		go h.serve(r.dialer, r)
	}
	r.loop(ctx)
	r.finish(ctx)
	r.blame()
	return r.result(), r.failure()
}

func newID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// tell has the loop call f. It may block for a short time, and drops f when the loop
// has ended.
func (r *run) tell(f func()) {
	select {
	case r.post <- f:
	case <-r.over:
	}
}

// loop runs until the machine is over. Nothing in it blocks.
func (r *run) loop(ctx context.Context) {
	beat := time.NewTicker(r.m.waits.beat)
	defer beat.Stop()
	status, stopStatus := r.statusTimer()
	defer stopStatus()
	r.deadline, r.limit, r.looking, r.around, r.lateness = newAlarm(), newAlarm(), newAlarm(), newAlarm(), newAlarm()
	defer r.deadline.off()
	defer r.limit.off()
	defer r.looking.off()
	defer r.around.off()
	defer r.lateness.off()
	for r.m.phase != phaseOver {
		store, stopStore := r.storeTimer()
		select {
		case f := <-r.post:
			f()
		case f := <-r.trouble:
			f()
		case s := <-r.io.Signals:
			r.signalled(s)
		case <-ctx.Done():
			r.step(event{signal: syscall.SIGTERM})
			ctx = context.WithoutCancel(ctx)
		case <-r.deadline.C:
			r.deadlinePassed()
		case <-r.limit.C:
			r.limit.off()
			r.step(event{timeout: true})
		case <-r.lateness.C:
			r.lateness.off()
			r.mpiLate()
		case <-r.looking.C:
			r.looking.off()
			r.step(event{looked: true})
		case <-r.around.C:
			r.lookAround()
		case <-r.exam.over():
			r.exam.patience.off()
			r.step(event{late: true})
		case <-beat.C:
			r.heartbeat()
		case <-status:
			r.showStatus()
		case <-store:
			r.reply(r.engine.Tick(r.storeTime()))
		}
		stopStore()
	}
}

// storeTimer fires when a request in the store reaches its deadline.
func (r *run) storeTimer() (<-chan time.Time, func() bool) {
	never := func() bool { return false }
	if r.engine == nil {
		return nil, never
	}
	next := r.engine.Next()
	if next.IsZero() {
		return nil, never
	}
	t := time.NewTimer(next.Sub(r.storeTime()))
	return t.C, t.Stop
}

func (r *run) signalled(s os.Signal) {
	if s == syscall.SIGWINCH {
		r.resize()
	} else if s, ok := s.(syscall.Signal); ok {
		r.step(event{signal: s})
	}
}

// deadlinePassed passes the end of a wait on, unless what is waited for is only that
// somebody reads our output.
func (r *run) deadlinePassed() {
	p := r.placed.Load()
	if p != nil && p.credit.pending() > 0 && r.m.patient() {
		r.deadline.set(r.m.waits.stop)
		return
	}
	r.deadline.off()
	if r.m.phase == phaseStaging && !r.staging.read {
		r.step(event{planErr: fmt.Errorf("the files to be sent cannot be read: nothing came for %v", r.m.waits.stage)})
		return
	}
	r.step(event{deadline: true})
}

// heartbeat tells every agent that the head lives, and looks who has fallen silent.
func (r *run) heartbeat() {
	now, fresh := r.now(), r.fresh()
	for _, h := range r.hosts {
		if !r.m.live(h.index) {
			continue
		}
		h.send.Send(wire.Frame{Kind: wire.Heartbeat})
		switch silence := now - time.Duration(h.heard.Load()); {
		case silence > r.job.LostAfter:
			// The agent may be stopped or stuck on a host that lives.
			r.step(event{host: h.index, lost: &lostEvent{why: fmt.Sprintf("silent for %v", silence.Round(time.Second)), sweep: true, fresh: fresh}})
		case silence > r.m.waits.silent && !h.said:
			h.said = true
			r.step(event{host: h.index, silent: silence, fresh: fresh})
		case silence < r.m.waits.silent:
			h.said = false
		}
	}
}

// step feeds the machine and carries out what it says.
func (r *run) step(e event) {
	if e.exited != nil {
		e.exited.At += r.hosts[e.host].startAt
	}
	actions := r.m.step(e)
	r.record(r.m.journal()...)
	for _, a := range actions {
		r.do(a)
	}
}

func (r *run) do(a action) {
	h := (*host)(nil)
	if a.host < len(r.hosts) {
		h = r.hosts[a.host]
	}
	switch {
	case a.plan:
		r.place()
	case a.stage:
		r.staging.begin()
	case a.prepare:
		r.staging.said()
		r.sendPlans()
	case a.send != nil:
		r.send(h, *a.send)
	case a.drop:
		r.drop(h)
	case a.sweep:
		r.forget(h)
		r.sweep(h)
	case a.say != "":
		r.say(a.say)
	case a.timer == never:
		r.deadline.off()
	case a.timer != 0:
		r.deadline.set(a.timer)
	case a.look != 0:
		r.lookedAt = time.Now()
		r.looking.set(a.look)
	case a.show != nil:
		r.show(a.show)
	case a.limit:
		r.ranksBegin()
	case a.listen:
		r.listen(h)
	case a.meet != nil:
		r.meet(h, a.meet)
	case a.watch != 0:
		r.around.set(a.watch)
	case a.survey:
		r.beginSurvey()
	case a.probe != nil:
		r.probe(h, a.probe)
	case a.planRails:
		r.planRails()
	case a.rail != nil:
		r.tryRails(h, *a.rail)
	case a.patience == never:
		r.exam.patience.off()
	case a.patience != 0:
		r.exam.patience.set(a.patience)
	case a.judge:
		r.judge()
	case a.release:
		r.release(h)
	case a.use != nil:
		r.use(a.use)
	case a.note != nil:
		r.note(a.note.Level, a.note.Text)
	case a.suspend:
		r.suspend()
	}
}

func (r *run) send(h *host, m wire.Message) {
	if m.Start != nil {
		h.startAt = time.Since(r.started)
		m.Start = &wire.Start{At: h.startAt}
	}
	h.send.SendMessage(m)
}

func (r *run) ranksBegin() {
	r.tellBindings()
	r.tellLibraries()
	r.tellLacked()
	r.tellUnmet()
	r.started, r.proof = time.Now(), newProof(r.m.layout, r.job.Rigor)
	if r.job.Timeout > 0 {
		r.limit.set(r.job.Timeout)
	}
	if r.job.wants(r.m.layout) {
		r.around.set(r.m.waits.watch)
	}
}

// drop lets a host go. An agent that has said Done, or is told to stop although it
// has no ranks, closes its stream itself.
func (r *run) drop(h *host) {
	r.forget(h)
	wait := time.Duration(0)
	if r.m.hosts[h.index].state == hostDone {
		wait = r.m.waits.drop
	}
	h.drop(wait)
}

// forget ends stdin for the ranks of a host that reads it no more: it must not hold
// up the others.
func (r *run) forget(h *host) {
	if r.stdin == nil || r.planner == nil {
		return
	}
	for _, rank := range r.planner.ranks[h.index] {
		r.stdin.forget(rank)
	}
}

// say writes a line of gorun's own, whole, between the ranks' lines.
func (r *run) say(text string) { r.out.Line("gorun: " + text) }

// logLines has the loop say what the hosts' goroutines log: each Write is one line.
type logLines struct{ r *run }

func (l logLines) Write(p []byte) (int, error) {
	text := strings.TrimSuffix(string(p), "\n")
	l.r.tell(func() { l.r.say(text) })
	return len(p), nil
}

// note says a warning always and an info line with -v.
func (r *run) note(level, text string) {
	switch {
	case level == "warn":
		r.warned = cmp.Or(r.warned, text)
		r.record(Event{Event: "warning", Text: text})
		r.say("warning: " + text)
	case r.io.Verbose:
		r.say(text)
	}
}
