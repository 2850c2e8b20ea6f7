package launcher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// FuzzMachine plays any events in any order, as no sane set of agents would send
// them, and then has the user and the deadlines end the job: it must end.
func FuzzMachine(f *testing.F) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 8+rnd.IntN(120))
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 || len(script) > 400 {
			return
		}
		g := newGame(t, script[0])
		for i := 1; i+1 < len(script); i += 2 {
			g.play(g.event(script[i], script[i+1]))
		}
		g.end()
	})
}

// game is a machine on three hosts with what it has ordered.
type game struct {
	t        *testing.T
	m        *machine
	at       []int   // by host: which of the three it is
	let      [3]bool // released
	judging  bool    // a ruling is to come
	planning bool    // a plan for rails is to come
	patient  bool    // the patience of a survey will be over
	timer    bool    // a deadline is set
	alarm    bool    // a look has a limit
	watch    bool    // a look after the hosts' watch on each other will come
	now      time.Duration
	dropped  [3]bool
	swept    [3]bool
	started  bool
	grace    [3]time.Duration // of the last stop
	log      []string
}

func newGame(t *testing.T, flags byte) *game {
	job := Job{Grace: time.Duration(flags&3) * time.Second, ConnectTimeout: time.Second, KeepGoing: flags&4 != 0, Bcast: flags&8 != 0}
	if flags&16 != 0 {
		job.Preflight = &Preflight{Full: flags&32 != 0, Drop: flags&64 != 0, Only: flags&192 == 192}
		if flags&8 != 0 {
			job.Preflight.Rails = func(Survey) [][]RailOrder { return nil }
		}
	}
	g := &game{t: t, at: []int{0, 1, 2}, m: newMachine([]string{"a", "b", "c"}, job, defaultWaits())}
	for i := range g.grace {
		g.grace[i] = time.Hour
	}
	return g
}

func (g *game) event(kind, arg byte) event {
	host, n := int(arg%3)%len(g.m.hosts), int(arg/3)
	e := event{host: host}
	switch kind % 37 {
	case 0, 1:
		e.up, e.answers = &wire.Hello{Cores: 1}, n%3
	case 2:
		e.failed = errors.New("no route")
	case 3, 4:
		e.prepared = &wire.Prepared{}
		if n%8 == 0 {
			e.prepared.Failures = []wire.Failure{{Rank: n, Code: 127}}
		}
	case 5, 6:
		e.started = &wire.Started{}
	case 7, 8, 9:
		e.exited = &wire.Exited{Rank: n%7 - 1, Code: n & 1, Signal: n & 2, ByStop: n&8 != 0, At: time.Duration(n)}
	case 10:
		e.done = &wire.Done{}
	case 11:
		e.lost = &lostEvent{why: "gone", sweep: n&1 != 0}
	case 12:
		e.swept = &sweptEvent{}
	case 13:
		e.silent = time.Second
	case 14:
		signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGHUP}
		e.signal = signals[n%len(signals)]
	case 15:
		e.timeout = true
	case 16:
		e.stdout = true
	case 17:
		e.picture = &wire.Picture{ID: n % 4}
	case 18:
		e.looked = true
	case 19:
		if !g.timer { // it would not go off
			e.silent = time.Second
			break
		}
		e.deadline = true
	case 20, 21:
		e.staged = true
	case 23:
		e.answered = true
	case 28:
		e.differs = []EnvDifference{{Name: "NCCL_ALGO"}}
	case 22:
		e.moved = true
		if n%4 == 0 {
			e.moved, e.unstaged = false, []PrepareFailure{{Rank: -1, Code: codeOurs}}
		}
	case 24:
		e.watching = &wire.Watching{Port: uint16(n % 4), Joined: n%8 > 0}
	case 25:
		e.word = &word{dead: []int{n % 3}, alive: []int{n / 3 % 3}}
	case 29, 30:
		e.told = &facts{}
		if n%8 == 0 {
			e.told.err = errors.New("broken")
		}
	case 31:
		e.probing = &wire.Probing{Port: uint16(n % 8)}
	case 32, 33:
		e.probed = true
	case 34:
		e.late = g.patient
		e.moved = !g.patient // it would not go off
	case 35:
		if !g.judging || g.m.stopping {
			e.moved = true
			break
		}
		e.ruled = [][]int{{0, 1, 2}, {2, 0}, {1}, {2, 1, 0}}[n%4]
	case 36:
		if !g.planning || g.m.stopping {
			e.moved = true
			break
		}
		e.rails = &railPlan{[][][]RailOrder{nil, {{{From: 0, To: 1}, {From: 1, To: 0}, {From: 0, To: 2}}, {{From: 5, To: -1}}, {{From: 2, To: 0}}}}[n%2]}
	case 26, 27:
		if !g.watch { // it would not go off
			e.moved = true
			break
		}
		g.now += time.Duration(n) * 100 * time.Millisecond
		e.around = &around{now: g.now, heard: []time.Duration{g.now, g.now / 2, g.now - 5*time.Second}}
	}
	return e
}

// play has the machine take an event, and checks what it orders.
func (g *game) play(e event) {
	if e.deadline {
		g.timer = false
	}
	if e.looked {
		g.alarm = false
	}
	if e.late {
		g.patient = false
	}
	if e.ruled != nil {
		g.judging = false
	}
	if e.rails != nil {
		g.planning = false
	}
	if e.around != nil {
		g.watch = false
	}
	g.log = append(g.log, fmt.Sprintf("%+v", e))
	for _, a := range g.m.step(e) {
		g.check(a)
	}
	if g.m.phase == phaseSurveying && !g.judging && !g.planning && !g.timer && !g.patient {
		g.fail("a survey that nothing ends")
	}
	ended := 0
	for _, r := range g.m.ranks {
		if r.State != StateWaiting {
			ended++
		}
	}
	if ended != g.m.ended {
		g.fail("%d ranks have ended; the machine counts %d", ended, g.m.ended)
	}
	if g.m.phase != phaseOver && g.m.stopping && !g.timer {
		g.fail("a stop without a deadline")
	}
	if g.m.watch.armed != g.watch && g.m.watch.stage != watchOff {
		g.fail("a watch that nobody looks after")
	}
	if g.m.look != nil && (!g.alarm || g.m.stopping) {
		g.fail("a look that nothing ends, or beside the stop")
	}
}

func (g *game) check(a action) {
	host := g.at[a.host]
	live := a.host < len(g.m.hosts) && g.m.live(a.host)
	switch {
	case a.survey:
		if len(g.m.hosts) != 3 {
			g.fail("a second survey")
		}
		asked := []int{}
		for i := range g.m.hosts {
			if g.m.counts(i) {
				asked = append(asked, i)
			}
		}
		g.play(event{listening: asked})
	case a.probe != nil:
		if !live || len(a.probe) == 0 {
			g.fail("%+v of host %d, which is %s", a.probe, host, g.m.hosts[a.host].state)
		}
	case a.patience != 0:
		g.patient = a.patience > 0
	case a.planRails:
		g.planning = true
	case a.rail != nil:
		if !live || !g.m.counts(a.rail.To) {
			g.fail("rails of host %d to host %d, which is gone", host, a.rail.To)
		}
	case a.judge:
		g.judging = true
	case a.release:
		g.let[host] = true
	case a.use != nil:
		var at []int
		for _, i := range a.use {
			at = append(at, g.at[i])
		}
		g.at = at
	case a.plan:
		counts := []int{2, 1, 0}
		if g.m.keepGoing {
			counts = []int{1, 2, 3}
		}
		l := evenly(counts[:len(g.m.hosts)]...)
		g.play(event{planned: &l})
	case a.stage || a.prepare:
		if g.started || g.m.stopping {
			g.fail("files or plans behind the start or the stop")
		}
	case a.drop:
		g.dropped[host] = true
	case a.sweep:
		if g.swept[host] || g.dropped[host] {
			g.fail("host %d is swept twice, or without a link", a.host)
		}
		g.swept[host] = true
	case a.timer == never:
		g.timer = false
	case a.timer > 0:
		g.timer = true
	case a.look > 0:
		g.alarm = true
	case a.watch > 0:
		g.watch = true
	case a.listen || len(a.meet) > 0:
		if !live || g.m.phase != phaseRunning {
			g.fail("a watch of a host that is not there")
		}
	case a.note != nil:
	case a.show != nil:
		g.alarm = false
		if len(a.show.pictures)+len(a.show.waiting) == 0 {
			g.fail("a picture of nobody")
		}
	case a.limit:
		g.watch = true
		g.started = true
	case a.send != nil:
		if g.dropped[host] {
			g.fail("%+v is sent to host %d, which was let go", a.send, a.host)
		}
		if s := a.send.Stop; s != nil {
			if s.Grace > g.grace[host] {
				g.fail("host %d: grace grows from %v to %v", a.host, g.grace[host], s.Grace)
			}
			g.grace[host] = s.Grace
		} else if !live {
			g.fail("%+v is sent to host %d, which is %s", a.send, a.host, g.m.hosts[a.host].state)
		}
		if a.send.Start != nil && !g.started {
			g.fail("start without the limit's begin")
		}
	case a.say == "" && !a.suspend:
		g.fail("an empty action")
	}
}

// end has the user ask twice, and lets deadlines pass as often as it takes.
func (g *game) end() {
	g.play(event{signal: syscall.SIGINT})
	g.play(event{signal: syscall.SIGINT})
	for range 4 {
		if g.m.phase == phaseOver {
			break
		}
		g.play(event{deadline: true})
	}
	if g.m.phase != phaseOver {
		g.fail("the job does not end: %s", g.m.phase)
	}
	if g.m.step(event{signal: syscall.SIGINT}) != nil {
		g.fail("something is to be done after the end")
	}
	for i, at := range g.at {
		g.let[at] = g.let[at] || g.dropped[at] || g.m.hosts[i].state == hostFailed
	}
	for i, let := range g.let {
		if !let {
			g.fail("host %d: its link is open", i)
		}
	}
	for i, h := range g.m.hosts {
		if !g.dropped[g.at[i]] && h.state != hostFailed {
			g.fail("host %d is %s, and its link is open", i, h.state)
		}
	}
}

func (g *game) fail(format string, args ...any) {
	g.t.Helper()
	for _, l := range g.log {
		g.t.Log(l)
	}
	g.t.Fatalf(format, args...)
}
