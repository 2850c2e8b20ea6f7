package topo

import (
	"cmp"
	"fmt"
	"math"
)

// Assignment is the NIC that a GPU's traffic to other hosts should take.
type Assignment struct {
	GPU    int
	NIC    string // "" if the host has no usable NIC
	Link   Link
	Shared bool // another GPU has the same NIC
}

// Direct reports whether NCCL by default lets the NIC reach the GPU's memory without the host's.
func (a Assignment) Direct() bool { return a.NIC != "" && a.Link.Within(PXB) }

// judgeNICs sets Usable and Reason. Ports that are down carry nothing. Of those that are up the
// ranks' traffic belongs on one network: the link layer with the most bandwidth, InfiniBand if they
// are equal, and there on NICs of at least half the highest rate, for a slower one is the
// host's management or storage. A NIC of which nothing is known is usable.
func judgeNICs(nics []NIC) {
	layer, top := network(nics)
	for i := range nics {
		n := &nics[i]
		n.Reason = unusable(n, layer, top)
		n.Usable = n.Reason == ""
	}
}

func unusable(n *NIC, layer string, top float64) string {
	if n.Excluded != "" {
		return n.Excluded
	}
	if n.Ports == nil {
		return ""
	}
	p, ok := n.best(layer)
	switch {
	case !ok:
		return "no port is active"
	case layer != "" && p.Layer != "" && p.Layer != layer:
		return fmt.Sprintf("its link layer is %s; most of this host's bandwidth is %s", p.Layer, layer)
	case p.Rate > 0 && p.Rate < top/2:
		return fmt.Sprintf("its rate is %g Gb/s; others of this host have %g Gb/s", p.Rate, top)
	}
	return ""
}

// best returns the fastest active port, of that layer if there is one.
func (n *NIC) best(layer string) (best Port, ok bool) {
	for _, p := range n.Ports {
		if !p.Active {
			continue
		}
		on, bestOn := p.Layer == layer, best.Layer == layer
		if !ok || on && !bestOn || on == bestOn && p.Rate > best.Rate {
			best, ok = p, true
		}
	}
	return best, ok
}

// network returns the link layer with the most bandwidth and the highest rate of a port on it.
func network(nics []NIC) (layer string, top float64) {
	sum, highest, seen := map[string]float64{}, map[string]float64{}, map[string]bool{}
	for _, n := range nics {
		if n.Excluded != "" {
			continue
		}
		for _, p := range n.Ports {
			if p.Active && p.Layer != "" {
				seen[p.Layer] = true
				sum[p.Layer] += p.Rate
				highest[p.Layer] = max(highest[p.Layer], p.Rate)
			}
		}
	}
	for l := range seen {
		// On a tie, the later name: InfiniBand.
		if layer == "" || cmp.Or(cmp.Compare(sum[l], sum[layer]), cmp.Compare(l, layer)) > 0 {
			layer = l
		}
	}
	return layer, highest[layer]
}

// Costs of giving a NIC to a GPU, so that none is outweighed by any number of the next: whether
// GPUDirect works by default and whether the way crosses NUMA nodes; how many GPUs have the NIC
// already; the classes that remain equal so far; the order of GPUs and NICs.
const (
	costShare = 1e9
	costClass = 1e7
	costTier  = 1e13
)

func linkCost(l Link) int64 {
	switch {
	case l.Within(PIX):
		return 0
	case l.Within(PXB):
		return costClass
	case l.Within(PHB):
		return costTier
	case l.Within(NODE):
		return costTier + costClass
	case l.Within(SYS):
		return 2 * costTier
	}
	return 3 * costTier
}

// Assign returns an entry per GPU, in their order: the nearest usable NIC. Of several, a GPU gets
// one of its own before two share. A far NIC is never taken to spare a near one from being shared.
// What is equal then goes by PCI order, so that equal hosts get equal answers.
func (v *View) Assign() []Assignment {
	var usable []int
	for j, n := range v.NICs {
		if n.Usable {
			usable = append(usable, j)
		}
	}
	all := make([]Assignment, len(v.GPUs))
	for i, g := range v.GPUs {
		all[i] = Assignment{GPU: g.Index, Link: Link{Kind: Unknown}}
	}
	if len(usable) == 0 || len(all) == 0 {
		return all
	}
	// Each NIC has a place per GPU, and each further place costs more.
	rounds := len(all)
	got := match(len(all), len(usable)*rounds, func(i, slot int) int64 {
		j, times := slot/rounds, slot%rounds
		off := int64(i - j)
		return linkCost(v.gpuNIC[i][usable[j]]) + int64(times)*costShare + off*off
	})
	users := map[int]int{}
	for _, slot := range got {
		users[slot/rounds]++
	}
	for i, slot := range got {
		j := slot / rounds
		all[i].NIC, all[i].Link, all[i].Shared = v.NICs[usable[j]].Name, v.gpuNIC[i][usable[j]], users[j] > 1
	}
	return all
}

// match gives each of rows a column of its own at the least cost in sum (the Hungarian method).
// There are at least as many columns as rows.
func match(rows, columns int, cost func(row, column int) int64) []int {
	rowPrice, colPrice := make([]int64, rows+1), make([]int64, columns+1)
	owner, from := make([]int, columns+1), make([]int, columns+1) // row of a column from 1; 0: none
	for row := 1; row <= rows; row++ {
		owner[0] = row
		least, done := make([]int64, columns+1), make([]bool, columns+1)
		for j := range least {
			least[j] = math.MaxInt64
		}
		at := 0
		for owner[at] != 0 {
			at = relax(owner[at], at, cost, rowPrice, colPrice, least, owner, from, done)
		}
		for at != 0 {
			owner[at] = owner[from[at]]
			at = from[at]
		}
	}
	got := make([]int, rows)
	for j, row := range owner {
		if j > 0 && row > 0 {
			got[row-1] = j - 1
		}
	}
	return got
}

// relax takes column at into the tree of reached columns and returns the one to reach next.
func relax(row, at int, cost func(int, int) int64, rowPrice, colPrice, least []int64, owner, from []int, done []bool) int {
	done[at] = true
	step, next := int64(math.MaxInt64), 0
	for j := 1; j < len(least); j++ {
		if done[j] {
			continue
		}
		if c := cost(row-1, j-1) - rowPrice[row] - colPrice[j]; c < least[j] {
			least[j], from[j] = c, at
		}
		if least[j] < step {
			step, next = least[j], j
		}
	}
	for j := range least {
		if done[j] {
			rowPrice[owner[j]] += step
			colPrice[j] -= step
		} else {
			least[j] -= step
		}
	}
	return next
}
