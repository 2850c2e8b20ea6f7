package launcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/output"
	"gorun/launcher/transport"
	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// Times of the head's liveness checks.
const (
	heartbeatEvery = 2 * time.Second
	silentAfter    = 10 * time.Second // then one line names the host
)

// run is one job under way. Its loop owns everything that is not said to be shared.
type run struct {
	job    Job
	io     IO
	id     string
	secret []byte
	began  time.Time
	env    []envsync.Var

	hosts  []*host
	m      *machine
	dialer *transport.Dialer
	post   chan func() // what the hosts' goroutines want done by the loop

	trouble chan func() // the same of the merger's; room for its two calls in a job's life

	// Set when the job is placed; read by the hosts' goroutines through placed.
	placed atomic.Pointer[placement]
	engine *rendezvous.Engine
	stdin  *stdinPump

	started  time.Time     // of the ranks
	paused   time.Duration // for which the job has been suspended, in all
	deadline *time.Timer   // of the machine's current wait
	limit    *time.Timer   // of the ranks' run; stopped if there is none
	limitEnd time.Time
	outErr   atomic.Pointer[string] // the first output that could not be written
}

// placement is what is known once the ranks have places. It does not change.
type placement struct {
	layout Layout
	nodes  []int // node number by host
	hosts  []int // host by node number
	out    *output.Merger
	credit *creditBook
}

// Run carries the job out and returns when it is over and every host that can be
// reached is clean. The result is nil only if nothing was tried. Errors are a
// *HostsError, *SlotsError, *PrepareError, one of envsync's, or trouble on this
// machine; a job whose ranks fail is a result, not an error. When ctx ends, the job
// is stopped as by SIGTERM.
func Run(ctx context.Context, job Job, io IO) (*Result, error) {
	r, err := newRun(job, io)
	if err != nil {
		return nil, err
	}
	defer r.dialer.Close()
	r.dialAll(ctx)
	r.loop(ctx)
	r.finish()
	return r.result(), r.failure()
}

// newRun checks what can be checked without a connection.
func newRun(job Job, io IO) (*run, error) {
	r := &run{job: job, io: io, began: time.Now(), post: make(chan func(), 256), trouble: make(chan func(), 2)}
	r.id, r.secret = newID(), make([]byte, 32)
	rand.Read(r.secret)
	env, notes, err := job.Env.Build()
	if err != nil {
		return nil, err
	}
	r.env = env
	for _, n := range notes {
		r.note(n.Level, n.Text)
	}
	if err := checkSizes(job.Apps, env); err != nil {
		return nil, err
	}
	hosts, err := job.neededHosts()
	if err != nil {
		return nil, err
	}
	var names []string
	for i, h := range hosts {
		r.hosts = append(r.hosts, &host{index: i, spec: h, ended: make(chan struct{})})
		names = append(names, h.Name)
	}
	r.m = newMachine(names, job.Grace, job.ConnectTimeout, job.KeepGoing)
	r.dialer, err = transport.New(transport.Options{
		ConnectTimeout: job.ConnectTimeout, AcceptNewHostKeys: job.AcceptNewHostKeys, Home: io.Home, User: io.User,
		AgentSocket: os.Getenv("SSH_AUTH_SOCK"), Prompt: io.Prompt, Self: io.Exe, JobID: r.id, Logger: io.Log, Fanout: job.Fanout,
	})
	return r, err
}

// neededHosts are the hosts to connect to: those that get ranks if the list tells
// every host's slots, else all. No host means this machine.
func (j Job) neededHosts() ([]hostfile.Host, error) {
	if len(j.Hosts) == 0 {
		return []hostfile.Host{{Name: "localhost", Slots: -1, File: thisMachine}}, nil
	}
	var offers []Offer
	for _, h := range j.Hosts {
		o, ok := offer(h, nil)
		if !ok {
			return j.Hosts, nil
		}
		offers = append(offers, o)
	}
	layout, err := j.Place(offers)
	if err != nil {
		return nil, err
	}
	var needed []hostfile.Host
	for i, h := range j.Hosts {
		if layout.Count[i] > 0 {
			needed = append(needed, h)
		}
	}
	return needed, nil
}

func newID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) dialAll(ctx context.Context) {
	for _, h := range r.hosts {
		hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		h.cancel = cancel
		go h.serve(hctx, r.dialer, r.job.ConnectTimeout, r.now, r)
	}
}

// loop runs until the machine is over. Nothing in it blocks.
func (r *run) loop(ctx context.Context) {
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	r.deadline, r.limit = stoppedTimer(), stoppedTimer()
	defer r.deadline.Stop()
	defer r.limit.Stop()
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
			r.step(event{timeout: true})
		case <-beat.C:
			r.heartbeat()
		case <-store:
			r.reply(r.engine.Tick(r.storeTime()))
		}
		stopStore()
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
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
	if s, ok := s.(syscall.Signal); ok {
		r.step(event{signal: s})
	}
}

// deadlinePassed passes the end of a wait on, unless what is waited for is only that
// somebody reads our output.
func (r *run) deadlinePassed() {
	p := r.placed.Load()
	if p != nil && p.credit.pending() > 0 && r.m.patient() {
		r.deadline.Reset(stopSlack)
		return
	}
	r.step(event{deadline: true})
}

// heartbeat tells every agent that the head lives, and looks who has fallen silent.
func (r *run) heartbeat() {
	now := r.now()
	for _, h := range r.hosts {
		if !r.m.live(h.index) {
			continue
		}
		h.send.Send(wire.Frame{Kind: wire.Heartbeat})
		switch silence := now - time.Duration(h.heard.Load()); {
		case silence > r.job.LostAfter:
			r.step(event{host: h.index, lost: &lostEvent{why: fmt.Sprintf("silent for %v", silence.Round(time.Second))}})
		case silence > silentAfter && !h.said:
			h.said = true
			r.step(event{host: h.index, silent: silence})
		case silence < silentAfter:
			h.said = false
		}
	}
}

// step feeds the machine and carries out what it says.
func (r *run) step(e event) {
	if e.exited != nil {
		e.exited.At += r.hosts[e.host].startAt
	}
	for _, a := range r.m.step(e) {
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
	case a.send != nil:
		r.send(h, *a.send)
	case a.drop:
		wait := time.Duration(0)
		if r.m.hosts[a.host].state == hostDone {
			wait = dropGrace
		}
		h.drop(wait)
	case a.sweep:
		r.sweep(h)
	case a.say != "":
		r.say(a.say)
	case a.timer == never:
		r.deadline.Stop()
	case a.timer != 0:
		r.deadline.Reset(a.timer)
	case a.limit:
		r.ranksBegin()
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
	r.started = time.Now()
	if r.job.Timeout > 0 {
		r.limitEnd = r.started.Add(r.job.Timeout)
		r.limit.Reset(r.job.Timeout)
	}
}

// sweep removes what an agent that died has left, over the connection it died on.
func (r *run) sweep(h *host) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopSlack)
		defer cancel()
		_, err := h.link.Run(ctx, "agent", "sweep", r.id)
		r.post <- func() { r.step(event{host: h.index, swept: &sweptEvent{err}}) }
	}()
}

// suspend stops this process once the agents have been told to pause.
func (r *run) suspend() {
	for _, h := range r.hosts {
		if r.m.live(h.index) {
			told := make(chan struct{})
			go func() { h.send.SendBulk(wire.Frame{Kind: wire.Heartbeat}); close(told) }()
			select {
			case <-told: // bulk goes after what was queued
			case <-time.After(time.Second):
			}
		}
	}
	before := time.Now()
	r.io.Suspend()
	took := time.Since(before)
	r.paused += took
	if r.limit.Stop() {
		r.limitEnd = r.limitEnd.Add(took)
		r.limit.Reset(time.Until(r.limitEnd))
	}
	for _, h := range r.hosts {
		h.heard.Store(int64(r.now()))
	}
}

// say writes a line of gorun's own, whole, between the ranks' lines.
func (r *run) say(text string) {
	line := "gorun: " + text
	if p := r.placed.Load(); p != nil {
		p.out.Line(line)
		return
	}
	fmt.Fprintln(r.io.Stderr, output.Clean(line))
}

// note says a warning always and an info line with -v.
func (r *run) note(level, text string) {
	switch {
	case level == "warn":
		r.say("warning: " + text)
	case r.io.Verbose:
		r.say(text)
	}
}

// finish ends every goroutine and flushes the ranks' output.
func (r *run) finish() {
	for _, h := range r.hosts {
		h.drop(0)
	}
	for _, h := range r.hosts {
		r.join(h)
	}
	if r.stdin != nil {
		r.stdin.close()
	}
	if p := r.placed.Load(); p != nil {
		ctx, cancel := r.flushLimit()
		defer cancel()
		p.out.Close(ctx)
	}
}

// join waits for a host's goroutine, which may be posting.
func (r *run) join(h *host) {
	for {
		select {
		case <-h.ended:
			return
		case <-r.post:
		}
	}
}

// flushLimit bounds the last write to a blocked stdout: a user who ended the job, or
// does so now, does not want to wait for it.
func (r *run) flushLimit() (context.Context, context.CancelFunc) {
	if !r.m.patient() {
		return context.WithTimeout(context.Background(), time.Second)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.io.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// ignoreTTIN keeps a background job from being stopped when it reads the terminal.
func ignoreTTIN() { signal.Ignore(syscall.SIGTTIN) }
