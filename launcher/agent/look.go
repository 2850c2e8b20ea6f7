package agent

import (
	"io/fs"
	"os"
	"slices"
	"time"

	"gorun/launcher/wire"
)

// tickTime is the unit of CPU times in /proc: USER_HZ is 100 wherever Linux runs ranks.
const tickTime = 10 * time.Millisecond

// mostPatience bounds what the head may ask for.
const mostPatience = 30 * time.Second

// inspect has the ranks looked at, and the head told. It does not wait for that. The
// head asks again only when it has an answer, or no more hope of one.
func (a *agent) inspect(j *job, q wire.Inspect) {
	if !a.looking.CompareAndSwap(false, true) {
		return
	}
	a.looks.Go(func() {
		defer a.looking.Store(false)
		if p, ok := a.look(j, q); ok {
			a.out.SendMessage(wire.Message{Picture: &p})
		}
	})
}

// look looks at the ranks twice. ok is false when the agent is told to stop meanwhile:
// then nobody asks any more.
func (a *agent) look(j *job, q wire.Inspect) (p wire.Picture, ok bool) {
	late := time.NewTimer(min(q.Within, mostPatience))
	defer late.Stop()
	first, begun := j.trees(), time.Now()
	select {
	case <-time.After(min(q.Between, mostPatience)):
	case <-a.end.begun:
		return p, false
	}
	second := j.trees()
	p = wire.Picture{ID: q.ID, Took: time.Since(begun), Sights: compare(first, second)}
	l := newLooker(os.DirFS("/proc"))
	if !l.detail(p.Sights, second, late.C, a.end.begun) {
		return p, false
	}
	a.addStore(p.Sights)
	return fit(p), true
}

// trees returns the living processes of every rank that has any: those that descend from
// its first process, or are in that one's group. What has left the group and lost its
// parent is nobody's.
func (j *job) trees() map[int][]proc {
	groups, all := j.groups(), j.descendants()
	parent := map[int]int{}
	for _, p := range all {
		parent[p.pid] = p.ppid
	}
	out := map[int][]proc{}
	for _, p := range all {
		rank, ok := groups[p.pid]
		for up, steps := p.ppid, 0; !ok && up != 0 && steps < len(all); up, steps = parent[up], steps+1 {
			rank, ok = groups[up]
		}
		if !ok {
			rank, ok = groups[p.pgrp]
		}
		if ok {
			out[rank] = append(out[rank], p)
		}
	}
	return out
}

// compare says of each rank what two looks tell.
func compare(first, second map[int][]proc) []wire.Sight {
	var out []wire.Sight
	for rank, procs := range second {
		s := wire.Sight{Rank: rank, Processes: len(procs), CPU: max(cpuTime(procs)-cpuTime(first[rank]), 0)}
		for _, p := range procs {
			s.Threads += p.threads
		}
		p := teller(first[rank], procs)
		s.PID, s.Name, s.State = p.pid, clean(p.comm), string(p.state)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b wire.Sight) int { return a.Rank - b.Rank })
	return out
}

// cpuTime is what processes have used, and their children that have ended: that of a
// child which ends between two looks has moved to its parent.
func cpuTime(procs []proc) (sum time.Duration) {
	for _, p := range procs {
		sum += time.Duration(p.ticks) * tickTime
	}
	return sum
}

// teller returns the process of a rank that tells most: one that hangs in the kernel,
// else the one that has used most CPU since the first look, else, of those without
// children, the one that has used most ever. A shell that waits for the program tells
// nothing.
func teller(first, procs []proc) proc {
	before, parents := map[procKey]uint64{}, map[int]bool{}
	for _, p := range first {
		before[p.key()] = p.own
	}
	for _, p := range procs {
		parents[p.ppid] = true
	}
	better := func(a, b proc) bool {
		usedA, usedB := a.own-min(a.own, before[a.key()]), b.own-min(b.own, before[b.key()])
		switch {
		case (a.state == 'D') != (b.state == 'D'):
			return a.state == 'D'
		case usedA != usedB:
			return usedA > usedB
		case parents[a.pid] != parents[b.pid]:
			return !parents[a.pid]
		}
		return a.own > b.own
	}
	best := procs[0]
	for _, p := range procs[1:] {
		if better(p, best) {
			best = p
		}
	}
	return best
}

// addStore adds what the ranks wait for in the store.
func (a *agent) addStore(sights []wire.Sight) {
	store := a.store.Load()
	if store == nil {
		return
	}
	waits := map[int][]wire.StoreWait{}
	for _, w := range store.Waiting() {
		if list := waits[w.Rank]; len(list) < wire.MaxStores {
			waits[w.Rank] = append(list, wire.StoreWait{Op: w.Op, Name: w.Name, For: w.For})
		}
	}
	for i := range sights {
		sights[i].Store = waits[sights[i].Rank]
	}
}

// fit makes p short enough for the head, which sees of what it is not told.
func fit(p wire.Picture) wire.Picture {
	for most := wire.MaxPeers; !fits(p); most /= 4 {
		if most == 0 {
			p.Sights = p.Sights[:len(p.Sights)/2]
		}
		for i := range p.Sights {
			shorten(&p.Sights[i], most/4)
		}
	}
	return p
}

func fits(p wire.Picture) bool {
	f, err := wire.Encode(wire.Message{Picture: &p})
	return err == nil && len(f.Payload) <= wire.MaxReport
}

func shorten(s *wire.Sight, most int) {
	over := max(len(s.Conns)-most, 0)
	s.Conns, s.More = s.Conns[:len(s.Conns)-over], s.More+over
	s.Listens = s.Listens[:min(len(s.Listens), most)]
	s.Store = s.Store[:min(len(s.Store), most)]
	if most == 0 {
		s.File = ""
	}
}

// result is one rank's details.
type result struct {
	index int
	sight wire.Sight
}

// detail adds to the sights what takes longer to read. A process that hangs in the
// kernel may hold up its reader for ever, so each rank has a reader of its own that can
// be left behind. It reports false when cut is closed before all is known.
func (l *looker) detail(sights []wire.Sight, trees map[int][]proc, late <-chan time.Time, cut <-chan struct{}) bool {
	results := make(chan result, len(sights))
	for i, s := range sights {
		go func() { results <- result{i, l.see(s, trees[s.Rank])} }()
		sights[i].Partial = true // until there is more
	}
	for range sights {
		select {
		case r := <-results:
			sights[r.index] = r.sight
		case <-late:
			return true
		case <-cut:
			return false
		}
	}
	return true
}

// newLooker returns a looker on the files of /proc.
func newLooker(proc fs.FS) *looker {
	return &looker{proc: proc, tables: map[string]map[uint64]socket{}, libraries: map[fileKey]wire.Library{}}
}
