// Package agent runs one host's ranks for the head and reports everything they do.
//
// One process per host, gorun itself, does it at the end of a byte stream: it says
// hello, is told a plan, prepares and starts the ranks, carries their output and
// stdin against credit, and ends when the head says so or when the stream ends for
// any other reason. Either way it first stops every process that descends from it
// and removes every file of the job. It decides nothing about the job as a whole,
// and knows nothing of ssh.
//
// The agent is the subreaper of all it starts, and never reaps a rank's first
// process before that process's group is gone; so it can always find what it has
// to end, and never signals what is not the job's. When the agent itself is killed
// the kernel kills the ranks' first processes, and Sweep, in another process, what
// they have left.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// Exit codes of the agent's own process.
const (
	exitDone  = 0
	exitLost  = 1 // the link ended, or what came was no frame
	exitUsage = 2
)

const (
	defaultLost = 30 * time.Second // lost-after until a plan says otherwise
	joinLimit   = time.Second      // for goroutines that may hang in the kernel
)

// Config says what Serve has to know of its process. All fields but Remove and Log
// are needed.
type Config struct {
	Nonce   string    // the head's, repeated in the first line
	Exe     string    // path of this binary, for GORUN_EXE
	Remove  string    // directory to remove at the end: a fallback install directory
	Environ []string  // the session's environment
	Threads int       // CPUs to use when the ranks print much; 0: as many as at the start
	Log     io.Writer // gets a line when the agent ends without being asked to; nil: nobody
}

// agent is the state of one Serve.
type agent struct {
	cfg   Config
	r     io.Reader
	w     io.Writer
	out   *wire.Sender
	end   *ending
	fork  *forker
	port  heldPort
	claim claim
	alien map[procKey]bool // what descended from this process at its start: the session's, not the job's

	plans  chan *job      // capacity 1: from the link
	starts chan time.Time // capacity 1: from the link
	over   chan struct{}  // closed when the background goroutines shall end
	read   chan struct{}  // closed when the link's reader has ended
	grace  atomic.Int64   // the plan's, for a stop of our own
	lost   atomic.Int64   // the plan's lost-after
	sent   atomic.Int64   // bytes of output
	heard  atomic.Int64   // nanoseconds since began, when a frame last came
	paused atomic.Bool    // the head is suspended
	job    atomic.Pointer[job]
	store  atomic.Pointer[rendezvous.Server]
	files  []wire.File            // the last list of them; owned by the link's reader
	stager atomic.Pointer[stager] // nil: the job has no files to bring
	own    *settler
	exam   *examiner
	began  time.Time

	peers   chan []netip.AddrPort // capacity 1: from the link; nil before gossip is wanted; owned by readLink
	gossips sync.WaitGroup        // of the watch on other hosts; it ends with the order to stop

	looking atomic.Bool    // the ranks are being looked at
	looks   sync.WaitGroup // of that, and of prove; they end with the order to stop
}

// Serve runs one host's ranks for the head, which is at the other end of r and w,
// and returns the exit code for this process when none of it is left: 0 if the head
// asked for the end, else the reason is written to cfg.Log. It blocks for the life
// of the job; when ctx ends, or SIGTERM, SIGINT or SIGHUP comes, it stops the ranks
// on its own.
//
// Serve owns its process: it becomes a subreaper, handles signals, raises limits,
// and reaps all children. It is to be called once, and the process is to end after
// it. It closes r and w if they can be closed; if not, a goroutine that is blocked
// in them stays behind.
func Serve(ctx context.Context, r io.Reader, w io.Writer, cfg Config) int {
	a := newAgent(r, w, cfg)
	signals := catchSignals()
	if err := ownProcess(); err != nil {
		return a.fail(err)
	}
	if _, err := io.WriteString(w, wire.Hail(cfg.Nonce)+"\n"); err != nil {
		return a.fail(err)
	}
	a.out, a.port, a.fork = wire.NewSender(w), holdPort(), newForker()
	a.own = a.newSettler()
	a.own.start()
	a.exam.settled = a.own.settled
	h := hello(cfg.Environ, a.port.port)
	known := <-a.own.first
	h.Settings, h.More = known.now, known.more
	a.out.SendMessage(wire.Message{Hello: h})
	close(a.own.greeted)
	go a.readLink()
	watched := make(chan struct{})
	go func() { defer close(watched); a.watch(ctx, signals) }()
	done := a.run()
	why, code := a.end.reason()
	if !a.leave(done) && code == exitDone {
		why, code = "link lost before the end was told", exitLost
	}
	close(a.over)
	<-watched
	a.looks.Wait()
	a.gossips.Wait()
	if why != "" {
		return a.exit(why, code)
	}
	return code
}

func newAgent(r io.Reader, w io.Writer, cfg Config) *agent {
	a := &agent{
		cfg: cfg, r: r, w: w, end: newEnding(), began: time.Now(),
		plans: make(chan *job, 1), starts: make(chan time.Time, 1),
		over: make(chan struct{}), read: make(chan struct{}), alien: map[procKey]bool{},
	}
	if hasChildren() {
		for _, p := range below(processes(), map[int]bool{os.Getpid(): true}, nil) {
			a.alien[p.key()] = true
		}
	}
	a.lost.Store(int64(defaultLost))
	a.exam = newExaminer(nil, func(m wire.Message) { a.out.SendMessage(m) })
	return a
}

// newSettler is what looks for this host's NCCL settings.
func (a *agent) newSettler() *settler {
	shell, ok := lookup(a.cfg.Environ, "SHELL")
	if !ok {
		shell = "/bin/sh"
	}
	return &settler{
		session: a.cfg.Environ, etc: "/etc", home: homeDir(a.cfg.Environ), end: a.end.begun,
		send: func(s wire.Settings) { a.out.SendMessage(wire.Message{Settings: &s}) },
		shell: loginShell{
			path: shell, session: a.cfg.Environ, mark: "gorun-" + a.cfg.Nonce, alien: a.alien, limit: loginLimit,
			fork: func(f func()) {
				done := make(chan struct{})
				a.fork.work <- func() { defer close(done); f() }
				<-done
			},
		},
	}
}

// ownProcess makes descriptors that were inherited close on exec, and orphans ours.
func ownProcess() error {
	if unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) != nil { // Linux before 5.11
		for _, fd := range openFiles() {
			unix.CloseOnExec(fd)
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// bulk sends a rank's output, on more CPUs once there has been much.
func (a *agent) bulk(f wire.Frame) error {
	if n := a.sent.Add(int64(len(f.Payload))); n >= busyAfter && a.cfg.Threads > 1 && n-int64(len(f.Payload)) < busyAfter {
		runtime.GOMAXPROCS(a.cfg.Threads)
	}
	return a.out.SendBulk(f)
}

// fail is the end of an agent that could not even say hello.
func (a *agent) fail(err error) int {
	removeInstall(a.cfg.Remove)
	return a.exit(err.Error(), exitLost)
}

func (a *agent) exit(why string, code int) int {
	if a.cfg.Log != nil {
		fmt.Fprintf(a.cfg.Log, "gorun agent: %s\n", clean(why))
	}
	return code
}

// run takes the job through its phases, cleans up, and returns the last message.
func (a *agent) run() wire.Done {
	select {
	case j := <-a.plans:
		return a.cleanUp(a.runJob(j))
	case <-a.end.begun:
		return a.cleanUp(nil)
	}
}

// runJob returns when the end was ordered; nil if no rank was started until then.
func (a *agent) runJob(j *job) *running {
	a.endExamination()
	if !j.plan.HoldPort {
		a.port.drop()
	}
	met := tryMeeting(j.plan.Meet)
	joinedOr(a.own.settled, a.end.begun) // no rank may start beside the login shell
	failures := a.prepare(j)
	if isClosed(a.end.begun) {
		return nil
	}
	if len(failures) == 0 {
		j.bind(os.DirFS(systemDir), affinity())
	}
	p := &wire.Prepared{Failures: failures, Bindings: j.bindings, Unbound: j.unbound}
	if len(failures) == 0 {
		p.Lacked = j.lacked
		p.Libraries, p.Unlooked = a.libraries(j)
		select {
		case p.Unmet = <-met:
		case <-a.end.begun:
		}
	}
	a.out.SendMessage(wire.Message{Prepared: p})
	if len(failures) > 0 {
		<-a.end.begun // nothing else can come
		return nil
	}
	select {
	case at := <-a.starts:
		return a.start(j, at)
	case <-a.end.begun:
		return nil
	}
}

// libraries looks for the libraries of NCCL that the first rank would find.
func (a *agent) libraries(j *job) (found []wire.Library, unlooked bool) {
	all := make(chan []wire.Library, 1)
	r := j.ranks[0]
	go func() { all <- libraries(r.env, r.dir) }() // a dead file server may hold it up for ever
	select {
	case found = <-all:
		return found, false
	case <-time.After(libraryLimit):
	case <-a.end.begun:
	}
	return nil, true
}

// prepare makes this host ready for its ranks, and says why if it cannot be.
func (a *agent) prepare(j *job) []wire.Failure {
	p := j.plan
	if err := a.claim.take(j.id, p.Node); err != nil {
		f := wire.Failure{Rank: -1, Code: codeOurs, Text: err.Error()}
		if twin, ok := errors.AsType[twinError](err); ok && twin >= 0 {
			f.Twin = new(int(twin))
		}
		return []wire.Failure{f}
	}
	if err := a.useFiles(j); err != nil {
		return []wire.Failure{{Rank: -1, Code: codeOurs, Text: err.Error()}}
	}
	var ranks []int
	for _, r := range j.ranks {
		ranks = append(ranks, r.n)
	}
	store, err := rendezvous.Listen(storePath(a.claim.dir), rendezvous.ServerConfig{
		Secret: p.Secret, Ranks: ranks, UID: unix.Geteuid(),
		Send: func(r rendezvous.Request) { a.out.Send(wire.Frame{Kind: wire.Store, Payload: r.Append(nil)}) },
	})
	if err != nil {
		return []wire.Failure{{Rank: -1, Code: codeOurs, Text: fmt.Sprintf("store: %v", err)}}
	}
	a.store.Store(store)
	if err := a.serveMPI(j, store); err != nil {
		return []wire.Failure{{Rank: -1, Code: codeOurs, Text: err.Error()}}
	}
	raiseLimits()
	found := make(chan []wire.Failure, 1)
	go func() { found <- j.check(a.cfg.Environ, a.cfg.Exe) }() // a dead file server may hold it up for ever
	select {
	case failures := <-found:
		return failures
	case <-a.end.begun:
		return nil
	}
}

// start forks the ranks and returns, when the end was ordered, what is running.
func (a *agent) start(j *job, at time.Time) *running {
	run := &running{
		job: j, shm: newShmWatch(a.claim.dir, j.descendants),
		forked: make(chan struct{}), quit: make(chan struct{}), looked: make(chan struct{}),
	}
	go func() { defer close(run.looked); run.shm.run(run.quit) }()
	a.fork.work <- func() {
		defer close(run.forked)
		j.start(at, func(s wire.Started) { a.out.SendMessage(wire.Message{Started: &s}) })
		a.prove(j)
		if text := j.bindTrouble(); text != "" {
			a.out.SendMessage(wire.Message{Log: &wire.Log{Level: "warn", Text: text}})
		}
	}
	<-a.end.begun
	return run
}

// running is a job whose ranks have been started.
type running struct {
	job    *job
	shm    *shmWatch
	forked chan struct{} // closed when all ranks have been forked
	quit   chan struct{} // closed to stop shm
	looked chan struct{} // closed when shm has stopped
}

// leave says goodbye, and joins what Serve has started as far as that is possible.
// It reports whether the head has been told.
func (a *agent) leave(done wire.Done) (told bool) {
	if joined(a.own.done, nil, joinLimit+reapLimit) { // else it may fork yet
		close(a.fork.work)
	}
	if !isClosed(a.end.gone) {
		a.out.SendMessage(wire.Message{Done: &done})
	}
	sent := make(chan struct{})
	var err error // of the sender; valid when sent is closed
	go func() {
		defer close(sent)
		err = a.out.Close()
	}()
	told = joined(sent, a.end.gone, time.Duration(a.lost.Load())) && err == nil
	a.closeLink()
	joined(a.read, nil, joinLimit)
	joined(sent, nil, joinLimit)
	return told
}

// joined waits until c is closed, or cut is, or the time is over. It reports the first.
func joined(c, cut <-chan struct{}, limit time.Duration) bool {
	select {
	case <-c:
		return true
	case <-cut:
	case <-time.After(limit):
	}
	return false
}

// closeLink ends whatever reads or writes it.
func (a *agent) closeLink() {
	for _, x := range []any{a.w, a.r} {
		if c, ok := x.(io.Closer); ok {
			c.Close()
		}
	}
}
