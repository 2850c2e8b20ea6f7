package topo

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Grouping is how the GPUs of a host are parted into tensor-parallel groups.
type Grouping struct {
	Groups [][]int // GPU indices; none if there is no group of that size
	Left   []int   // GPUs in no group, as their number does not divide

	Worst      Link // the farthest two GPUs of any group; Self if groups have one GPU
	Clique     bool // each pair of each group has NVLink
	CrossNUMA  bool // a group has GPUs of several NUMA nodes
	NVLinkSure bool // whether it is known which GPUs have NVLink
	Why        string
}

// maxExact is up to how many GPUs all ways to part them are compared.
const maxExact = 16

// Groups parts the GPUs into as many groups of size tp as there are. Groups are preferred that are
// cliques of NVLink, then such that NVLink connects, each by the widest link or cut, then such
// below common PCIe switches, then such of one NUMA node; a group crosses NUMA nodes only if
// nothing else is as near. Why says in a sentence what came of it, also if it is impossible.
func (v *View) Groups(tp int) Grouping {
	n := len(v.GPUs)
	sure, unsure := v.NVLinkKnown()
	g := Grouping{NVLinkSure: sure, Worst: Link{Kind: Self}}
	switch {
	case tp < 1:
		g.Why = fmt.Sprintf("A group cannot have %d GPUs.", tp)
	case tp > n:
		g.Why = fmt.Sprintf("There is no group of %d GPUs on a host with %d.", tp, n)
	}
	if g.Why != "" {
		g.Left = v.indices(sequence(n))
		return g
	}
	var sets []uint64
	if n <= maxExact {
		sets = v.partExactly(tp)
	} else {
		sets = v.partInOrder(tp)
	}
	left, worst := uint64(1)<<n-1, classClique
	for _, set := range sets {
		left &^= set
		worst = max(worst, v.classOf(set))
		v.describe(&g, set)
	}
	g.Left = v.indices(members(left))
	g.Clique = worst == classClique && tp > 1
	g.Why = v.why(g, worst, tp)
	if !sure {
		g.Why += " Which GPUs have NVLink is not known: " + unsure + "."
	}
	return g
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func (v *View) describe(g *Grouping, set uint64) {
	at := members(set)
	g.Groups = append(g.Groups, v.indices(at))
	for k, i := range at {
		for _, j := range at[k+1:] {
			if l := v.gpuGPU[i][j]; l.Compare(g.Worst) > 0 {
				g.Worst = l
			}
			g.CrossNUMA = g.CrossNUMA || v.apart(i, j)
		}
	}
}

func (v *View) why(g Grouping, worst class, tp int) string {
	var s string
	switch {
	case tp == 1:
		s = "Each GPU is a group by itself."
	case !g.NVLinkSure && worst < classUnknown:
		s = fmt.Sprintf("By PCIe, the GPUs of a group are at most %s from each other.", g.Worst)
	case worst == classClique:
		s = fmt.Sprintf("Each pair of GPUs in a group has NVLink, %s or wider.", g.Worst)
	case worst == classConnected:
		s = fmt.Sprintf("NVLink connects each group but not each pair in it: some reach each other by %s.", g.Worst)
	case worst == classSwitch:
		s = fmt.Sprintf("The GPUs of a group are below common PCIe switches (%s).", g.Worst)
	case worst == classNode:
		s = fmt.Sprintf("Some GPUs of a group reach each other only through the CPU (%s), which is slow; some cards cannot copy directly from one to the other there.", g.Worst)
	case worst == classFar:
		s = fmt.Sprintf("Some GPUs of a group reach each other only across NUMA nodes (%s), the slowest way there is.", g.Worst)
	default:
		s = "How some GPUs of a group are connected is not known."
	}
	if g.CrossNUMA && worst <= classConnected {
		s += " Groups have GPUs of several NUMA nodes."
	}
	if len(g.Left) > 0 {
		s += fmt.Sprintf(" %d GPUs do not divide into groups of %d: %s left over.", len(v.GPUs), tp, verb(g.Left))
	}
	return s
}

func verb(gpus []int) string {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = "GPU" + strconv.Itoa(g)
	}
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// partInOrder takes groups one after the other, for hosts with more GPUs than can be compared.
func (v *View) partInOrder(tp int) []uint64 {
	var sets []uint64
	for chunk := range slices.Chunk(v.Order(), tp) {
		if len(chunk) < tp {
			break
		}
		set := uint64(0)
		for _, index := range chunk {
			set |= 1 << v.position[index]
		}
		sets = append(sets, set)
	}
	return sets
}

// partExactly compares all ways to part the GPUs and returns the cheapest, of equal ones that with
// the lowest indices first.
func (v *View) partExactly(tp int) []uint64 {
	n := len(v.GPUs)
	p := parter{v: v, tp: tp, best: make([]part, 1<<n), costs: make([]cost, 1<<n)}
	all := uint64(1)<<n - 1
	p.solve(all)
	var sets []uint64
	for left := all; left != 0; {
		set := p.best[left].set
		if bits.OnesCount64(set) == tp && !p.best[left].leave {
			sets = append(sets, set)
		}
		left &^= set
	}
	return sets
}

// part is the best way to part a set of GPUs: first take set out, either as a group or to leave it.
type part struct {
	done, leave bool
	set         uint64
	cost        cost
}

type parter struct {
	v     *View
	tp    int
	best  []part // by the set of GPUs that are left to part
	costs []cost // of one group
}

func (p *parter) solve(left uint64) cost {
	if left == 0 {
		return cost{}
	}
	if b := &p.best[left]; b.done {
		return b.cost
	}
	var best part
	low := left & -left
	p.choose(low, left&^low, p.tp-1, func(set uint64) {
		best.offer(part{set: set, cost: p.of(set).plus(p.solve(left &^ set))})
	})
	if bits.OnesCount64(left)%p.tp != 0 {
		best.offer(part{set: low, leave: true, cost: p.solve(left &^ low)})
	}
	p.best[left] = best
	return best.cost
}

func (b *part) offer(c part) {
	if !b.done || c.cost.compare(b.cost) < 0 {
		*b = c
		b.done = true
	}
}

// choose calls f with have and each choice of k of from, lowest first.
func (p *parter) choose(have, from uint64, k int, f func(uint64)) {
	if k == 0 {
		f(have)
		return
	}
	for bits.OnesCount64(from) >= k {
		low := from & -from
		from &^= low
		p.choose(have|low, from, k-1, f)
	}
}

func (p *parter) of(set uint64) cost {
	if c := &p.costs[set]; c[0] == 0 {
		*c = p.v.costOf(set)
	}
	return p.costs[set]
}
