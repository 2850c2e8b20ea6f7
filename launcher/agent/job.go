package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// job is what a Plan makes of this host: its ranks and what is known of them.
type job struct {
	id    string
	plan  *wire.Plan
	files string // directory of the files that were brought here; "": none were
	ranks []*rank
	by    map[int]*rank     // by global rank
	alien map[procKey]bool  // descended from this process before the job: left alone with all below them
	send  func(wire.Exited) // must not block
	mpi   *mpiServer        // set by prepare; nil: the job has none

	lacked []string // set by prepare; names that ranks got as nothing else sets them

	// How the ranks are bound; set by bind, before they are started.
	allowed  []int // CPUs of this process
	bindings []wire.Binding
	unbound  string // why the ranks are not bound as the plan says
	// What bindThread met with; of the forker's goroutine.
	bindFailures []string

	ended chan struct{} // capacity 1: something may have changed among our processes

	mu       sync.Mutex
	window   wire.Window   // guarded by mu; size of the ranks' terminals, if the plan gives them any
	begun    time.Time     // guarded by mu; when the Start frame arrived
	told     bool          // guarded by mu; Started has been sent
	early    []wire.Exited // guarded by mu; to be sent after Started
	stopping bool          // guarded by mu; exits from now on are by our stop
}

// rank is one rank of this host. Its fields below the plan are set by prepare.
type rank struct {
	n    int
	plan wire.RankPlan
	argv []string
	dir  string // working directory
	env  []string
	path string // of the program, absolute or relative to the working directory
	cpus []int  // to be bound to; nil: all

	out, err *stream
	in       *feed // nil: the rank reads /dev/null

	pid   int  // guarded by job.mu; of its first process, which leads its process group; 0: none
	over  bool // guarded by job.mu; its end has been seen
	calm  int  // guarded by job.mu; ticks in a row in which nothing of it was seen to run
	freed bool // guarded by job.mu; its pid has been reaped, and may be another process's now
}

// newJob checks a plan for what would be dangerous or senseless to carry out.
func newJob(p *wire.Plan, grant func(wire.Frame), bulk func(wire.Frame) error) (*job, error) {
	if !validID(p.JobID) {
		return nil, fmt.Errorf("bad job id %q", p.JobID)
	}
	if p.Bind != nil && (p.Bind.Each < 0 || p.Bind.Each > maxList) {
		return nil, fmt.Errorf("%d cores for each rank in the plan", p.Bind.Each)
	}
	if p.Credit < 0 || p.Node < 0 || p.Nodes < 1 || len(p.Ranks) == 0 {
		return nil, errors.New("senseless plan")
	}
	j := &job{id: p.JobID, plan: p, by: map[int]*rank{}, ended: make(chan struct{}, 1)}
	if p.Window != nil {
		j.window = *p.Window
	}
	window, pool := stdinWindow(p), newPool()
	for _, rp := range p.Ranks {
		if rp.Rank < 0 || rp.Rank >= p.Size || j.by[rp.Rank] != nil || len(rp.Args) == 0 {
			return nil, fmt.Errorf("bad rank %d of %d in the plan", rp.Rank, p.Size)
		}
		r := &rank{n: rp.Rank, plan: rp, argv: texts(rp.Args), dir: string(p.Dir)}
		if len(rp.Dir) > 0 {
			r.dir = string(rp.Dir)
		}
		r.out = newStream(wire.StreamID(r.n, wire.Out), p.Credit, pool, bulk)
		r.err = newStream(wire.StreamID(r.n, wire.Err), p.Credit, pool, bulk)
		if rp.Stdin {
			r.in = newFeed(wire.StreamID(r.n, wire.In), window, grant)
		}
		j.ranks, j.by[r.n] = append(j.ranks, r), r
	}
	return j, nil
}

// validID reports whether id is hexadecimal and of a sane length: it becomes part of paths.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if !bytes.ContainsRune([]byte("0123456789abcdefABCDEF"), rune(c)) {
			return false
		}
	}
	return len(id) >= 8 && len(id) <= 64
}

func texts(bs []wire.Bytes) []string {
	out := make([]string, len(bs))
	for i, b := range bs {
		out[i] = string(b)
	}
	return out
}

// stream returns the output stream that id names, nil if there is none.
func (j *job) stream(id uint32) *stream {
	n, which := wire.SplitStream(id)
	r := j.by[n]
	switch {
	case r != nil && which == wire.Out:
		return r.out
	case r != nil && which == wire.Err:
		return r.err
	}
	return nil
}

// feed returns the stdin that id names, nil if there is none.
func (j *job) feed(id uint32) *feed {
	if n, which := wire.SplitStream(id); which == wire.In && j.by[n] != nil {
		return j.by[n].in
	}
	return nil
}

// streams lists all output streams.
func (j *job) streams() []*stream {
	var out []*stream
	for _, r := range j.ranks {
		out = append(out, r.out, r.err)
	}
	return out
}

// signal sends sig to every rank's process group. A group whose leader has ended is
// signalled too: the leader is not reaped before its group is gone, so the number
// cannot belong to anybody else.
func (j *job) signal(sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.ranks {
		if r.pid > 1 && !r.freed {
			unix.Kill(-r.pid, sig)
		}
	}
}

// signalCaught sends sig to those processes of the ranks' groups that have a handler for
// it: the others it might end.
func (j *job) signalCaught(sig syscall.Signal) {
	groups := j.groups()
	for _, p := range j.descendants() {
		if _, ok := groups[p.pgrp]; ok && catches(p.pid, sig) {
			p.signal(sig)
		}
	}
}

// signalAll sends the signals to every rank's group and to all other descendants of
// this process. It returns the ranks of which a process was alive, and the processes
// outside of the ranks' groups.
func (j *job) signalAll(sig ...syscall.Signal) (ranks map[int]bool, outside []proc) {
	groups := j.groups()
	ranks = map[int]bool{}
	for _, p := range j.descendants() {
		if n, ok := groups[p.pgrp]; ok {
			ranks[n] = true
		} else {
			outside = append(outside, p)
		}
	}
	for _, s := range sig {
		j.signal(s)
		for _, p := range outside {
			p.signal(s)
		}
	}
	return ranks, outside
}

// groups returns the ranks by process group.
func (j *job) groups() map[int]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[int]int{}
	for _, r := range j.ranks {
		if r.pid > 1 && !r.freed {
			out[r.pid] = r.n
		}
	}
	return out
}

// descendants returns the job's processes that are alive: all that descend from
// this one. Processes that lost their parent do, as this one is their subreaper.
func (j *job) descendants() []proc {
	all, alien := processes(), map[int]bool{}
	for _, p := range all {
		if j.alien[p.key()] {
			alien[p.pid] = true
		}
	}
	var out []proc
	for _, p := range below(all, map[int]bool{os.Getpid(): true}, alien) {
		if p.live() {
			out = append(out, p)
		}
	}
	return out
}
