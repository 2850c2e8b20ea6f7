package agent

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// This file reads back, from the processes that run, the environments that ranks were
// given. The kernel tells what a process was started with: what it sets later in its own
// environment is not seen.

const (
	glanceLimit = 2 * time.Second // for one look at all ranks
	glances     = 16              // ranks that are read at once

	// A process that is seen again after so long is no passing stage of its rank: a
	// shell that is about to run something else is its first process, and that changes
	// its file then; what a shell that stays has started may be one of several.
	settleFirst = 700 * time.Millisecond
	settleOther = 2900 * time.Millisecond

	// A program that is what was started may still start itself anew, with other settings.
	// Ranks do so at different times, as their file systems are not equally fast.
	settleWhole = 4500 * time.Millisecond
)

// proofTime is when ranks are looked at.
type proofTime struct {
	at    time.Duration // after their start
	again bool          // only if some have not settled
}

func proofTimes() []proofTime {
	return []proofTime{
		{200 * time.Millisecond, false}, {time.Second, false}, {2 * time.Second, true},
		{5 * time.Second, false}, {6 * time.Second, true}, {20 * time.Second, false}, {21 * time.Second, true},
	}
}

// prove has the ranks' environments read back for some time, and the head told. It does
// not wait for that, which ends with the order to stop.
func (a *agent) prove(j *job) {
	a.looks.Go(func() {
		p, begun := newProver(j), time.Now()
		times := proofTimes()
		for i, t := range times {
			timer := time.NewTimer(t.at - time.Since(begun))
			select {
			case <-timer.C:
			case <-a.end.begun:
				timer.Stop()
				return
			}
			if !t.again || p.unsettled() {
				trees := j.trees()
				if len(trees) == 0 {
					return // all have ended
				}
				p.look(trees, time.Since(begun), a.end.begun)
			}
			if isClosed(a.end.begun) {
				return // nobody asks any more
			}
			for _, m := range p.proofs(i == len(times)-1) {
				a.out.SendMessage(wire.Message{Proof: &m})
			}
		}
	})
}

// prover follows what the ranks run with. It belongs to one goroutine.
type prover struct {
	looker *looker
	ranks  map[int]*proving
	slots  chan struct{} // held by readers
	found  chan glimpse  // from readers; one for each rank at most, as there is room for
}

// proving is one rank as a prover sees it.
type proving struct {
	plan  environ
	path  string // of the program that was started
	argv  []string
	first int  // pid of its first process
	busy  bool // a reader has not come back

	last    glimpse
	since   time.Duration // when last was first seen
	settled bool
	early   bool // it has settled, but may start itself anew
	refused bool // its process does not let itself be read, or is not of this rank by its environment
	told    string
	denied  bool // that it was refused has been told
}

func newProver(j *job) *prover {
	p := &prover{
		looker: newLooker(os.DirFS("/proc")), ranks: map[int]*proving{},
		slots: make(chan struct{}, glances), found: make(chan glimpse, len(j.ranks)),
	}
	p.looker.alone = j.plan.PMI != nil && j.plan.Size > 1
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.ranks {
		p.ranks[r.n] = &proving{plan: planned(r.env), path: r.path, argv: r.argv, first: r.pid}
	}
	return p
}

// look looks at every rank that has processes. A process that hangs in the kernel may hold
// up its reader for ever: that one is left behind, and its rank not looked at again.
func (p *prover) look(trees map[int][]proc, at time.Duration, cut <-chan struct{}) {
	late := time.NewTimer(glanceLimit)
	defer late.Stop()
	waiting := 0
	for rank, procs := range trees {
		r := p.ranks[rank]
		if r == nil || r.busy {
			continue
		}
		r.busy = true
		waiting++
		known, library := r.last.key, r.last.library
		go func() {
			p.slots <- struct{}{}
			g := p.looker.glance(rank, procs, known, library)
			<-p.slots
			p.found <- g
		}()
	}
	for ; waiting > 0; waiting-- {
		select {
		case g := <-p.found:
			r := p.ranks[g.rank]
			r.busy = false
			r.take(g, at)
		case <-late.C:
			return
		case <-cut:
			return
		}
	}
}

// unsettled reports whether a rank may yet become something else.
func (p *prover) unsettled() bool {
	for _, r := range p.ranks {
		if !r.settled {
			return true
		}
	}
	return false
}

// take takes over what a look has told.
func (r *proving) take(g glimpse, at time.Duration) {
	if g.gone {
		return
	}
	r.refused = !g.readable || !r.plan.sameRank(g.environ)
	switch {
	case r.refused:
		r.last, r.settled = glimpse{}, false
	case g.key != r.last.key || g.file != r.last.file || !maps.Equal(g.environ.values, r.last.environ.values):
		r.last, r.since, r.settled = g, at, false
	default:
		need := settleOther
		if g.key.pid == r.first {
			need = settleFirst
		}
		r.last = g
		r.settled = at-r.since >= need
		r.early = g.key.pid == r.first && asStarted(g.cmdline, r.path, r.argv) && at-r.since < settleWhole
	}
}

// asStarted reports whether a command line is that of a program that was started with
// argv, or of the interpreter that the kernel takes for a script.
func asStarted(cmdline, path string, argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	line := func(first string) string { return strings.Join(append([]string{first}, argv[1:]...), "\x00") + "\x00" }
	return cmdline == line(argv[0]) || strings.HasSuffix(cmdline, "\x00"+line(path))
}

// sameRank reports whether an environment is by its names the planned rank's. One that is
// not was emptied, by env -i or for a process's title, or belongs to another job.
func (e environ) sameRank(seen environ) bool {
	return e.values["GORUN_JOB_ID"] == seen.values["GORUN_JOB_ID"] && e.values["GORUN_RANK"] == seen.values["GORUN_RANK"]
}

// proofs is what is new since the last call, and, with last, that no more comes.
func (p *prover) proofs(last bool) []wire.Proof {
	groups := map[string]*wire.Settled{}
	var refused []int
	for rank, r := range p.ranks {
		switch {
		case r.settled:
			s := r.seen()
			key := keyOf(s)
			if key == r.told {
				continue
			}
			r.told = key
			if groups[key] == nil {
				groups[key] = &s
			}
			groups[key].Ranks = append(groups[key].Ranks, rank)
		case r.refused && !r.denied && r.told == "":
			r.denied = true
			refused = append(refused, rank)
		}
	}
	slices.Sort(refused)
	var seen []wire.Settled
	for _, s := range groups {
		slices.Sort(s.Ranks)
		seen = append(seen, *s)
	}
	slices.SortFunc(seen, func(a, b wire.Settled) int { return cmp.Compare(a.Ranks[0], b.Ranks[0]) })
	return pack(seen, refused, last)
}

// Limits of one message.
const (
	maxGroups  = 64
	maxChanges = 512 // of all groups together
)

// pack puts what was seen into messages that the head takes.
func pack(seen []wire.Settled, refused []int, last bool) []wire.Proof {
	var out []wire.Proof
	groups, changes := maxGroups, 0
	for _, s := range seen {
		s.More = max(len(s.Changes)-wire.MaxChanges, 0)
		s.Changes = s.Changes[:len(s.Changes)-s.More]
		if groups == maxGroups || changes+len(s.Changes) > maxChanges {
			out = append(out, wire.Proof{})
			groups, changes = 0, 0
		}
		m := &out[len(out)-1]
		m.Settled = append(m.Settled, s)
		groups, changes = groups+1, changes+len(s.Changes)
	}
	if len(out) == 0 && (last || refused != nil) {
		out = append(out, wire.Proof{})
	}
	if len(out) > 0 {
		out[len(out)-1].Refused, out[len(out)-1].Last = refused, last
	}
	return out
}

// seen is what is told of a rank that has settled.
func (r *proving) seen() wire.Settled {
	s := wire.Settled{
		Program: r.last.program, File: wire.Bytes(cutName(r.last.file)), Library: wire.Bytes(cutName(r.last.library)),
		Version: cutName(r.last.version), Build: r.last.build, MPI: wire.Bytes(cutName(r.last.mpi)),
		Digest: r.last.environ.digest.String(),
	}
	now := r.last.environ.values
	for name := range maps.Keys(now) {
		if now[name].sum != r.plan.values[name].sum {
			s.Changes = append(s.Changes, wire.Change{Name: name, Sum: now[name].sum, Value: wire.Bytes(now[name].text)})
		}
	}
	for name := range r.plan.values {
		if _, set := now[name]; !set {
			s.Changes = append(s.Changes, wire.Change{Name: name})
		}
	}
	s.Early = r.early && len(s.Changes) == 0
	slices.SortFunc(s.Changes, func(a, b wire.Change) int {
		return cmp.Or(cmp.Compare(weight(a.Name), weight(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// weight puts first what is told in any case.
func weight(name string) int {
	if _, known := envsync.Lookup(name); known {
		return 0
	}
	if strings.HasPrefix(name, "NCCL_") {
		return 1
	}
	return 2
}

// keyOf is the same for ranks of which the same is told.
func keyOf(s wire.Settled) string {
	var b strings.Builder
	for _, part := range []string{s.Program, string(s.File), string(s.Library), s.Version, s.Build, string(s.MPI), s.Digest} {
		b.WriteString(part + "\x00")
	}
	for _, c := range s.Changes {
		b.WriteString(c.Name + "=" + c.Sum + "\x00")
	}
	if s.Early {
		b.WriteString("early")
	}
	return b.String()
}

func cutName(name string) string { return name[:min(len(name), maxName)] }

// oldestFirst returns procs in the order of their starts.
func oldestFirst(procs []proc) []proc {
	return slices.SortedFunc(slices.Values(procs), func(a, b proc) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid))
	})
}
