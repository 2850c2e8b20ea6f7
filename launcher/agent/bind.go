package agent

import (
	"fmt"
	"io/fs"
	"slices"

	"gorun/launcher/wire"
)

// A unit is what is dealt out to ranks: a core, or one of its hardware threads.
type unit struct {
	cpus []int
	core core
}

// assign gives each of n ranks its part of the cores, which are sorted by NUMA node, or
// says why it cannot. It is a pure function.
//
// Cores and hardware threads are dealt out evenly: as many to each rank as b says, or as
// can be, spread over the whole list; no rank gets those of two NUMA nodes where that can
// be avoided. Of NUMA nodes and sockets each rank gets a whole one, shared by
// as many ranks as it has cores for.
func assign(cores []core, n int, b wire.Bind) ([][]unit, error) {
	units := unitsOf(cores, b.By)
	noun := "core"
	if b.By == wire.BindThread {
		noun = "hardware thread"
	}
	each := max(b.Each, 1)
	if n*each > len(units) {
		if each > 1 {
			return nil, fmt.Errorf("%s of %s each, for %s", count(n, "rank"), count(each, noun), count(len(units), noun))
		}
		return nil, fmt.Errorf("%s for %s", count(n, "rank"), count(len(units), noun))
	}
	if b.By == wire.BindNUMA || b.By == wire.BindSocket {
		return shareGroups(units, n, b.By)
	}
	if b.Each == 0 {
		each = len(units) / n
	}
	parts := make([][]unit, n)
	for i, start := range spread(units, n, each) {
		parts[i] = units[start : start+each]
	}
	return parts, nil
}

// unitsOf is what is dealt out of the cores.
func unitsOf(cores []core, by string) []unit {
	var units []unit
	for _, k := range cores {
		if by != wire.BindThread {
			units = append(units, unit{k.cpus, k})
			continue
		}
		for _, c := range k.cpus {
			units = append(units, unit{[]int{c}, k})
		}
	}
	return units
}

// spread returns where in units the part of each of n ranks begins, which is each long.
func spread(units []unit, n, each int) []int {
	starts := make([]int, n)
	end := 0
	for i := range starts {
		start := max(end, i*len(units)/n)
		if cut := nodeEnd(units, start); cut < start+each { // it would have units of two nodes
			switch {
			case cut-each >= end:
				start = cut - each
			case len(units)-cut >= (n-i)*each:
				start = cut
			}
		}
		starts[i], end = start, start+each
	}
	return starts
}

// nodeEnd is where the units of the NUMA node that has units[i] end.
func nodeEnd(units []unit, i int) int {
	j := i
	for j < len(units) && units[j].core.node == units[i].core.node {
		j++
	}
	return j
}

// shareGroups gives each of n ranks a whole NUMA node or socket, in proportion to their
// cores.
func shareGroups(units []unit, n int, by string) ([][]unit, error) {
	group := func(u unit) int {
		if by == wire.BindSocket {
			return u.core.socket
		}
		return u.core.node
	}
	parts := make([][]unit, n)
	for i := range parts {
		mine := group(units[i*len(units)/n])
		if mine < 0 {
			return nil, fmt.Errorf("the kernel there tells of no %ss", map[string]string{wire.BindSocket: "socket", wire.BindNUMA: "NUMA node"}[by])
		}
		for _, u := range units {
			if group(u) == mine {
				parts[i] = append(parts[i], u)
			}
		}
	}
	return parts, nil
}

// bind decides which CPUs each rank may use; allowed are those of this process. What
// it decides is in j.bindings and, if they are not bound as they should be, j.unbound.
func (j *job) bind(sys fs.FS, allowed []int) {
	if j.plan.Bind == nil {
		return
	}
	j.allowed = allowed
	whole := wire.Binding{CPUs: formatList(setOf(allowed))}
	for _, r := range j.ranks {
		whole.Ranks = append(whole.Ranks, r.n)
	}
	j.bindings = []wire.Binding{whole}
	if j.plan.Bind.By == wire.BindNone {
		return
	}
	if len(allowed) == 0 {
		j.unbound = "the kernel there does not tell which CPUs may be used"
		return
	}
	parts, err := assign(readCores(sys, allowed), len(j.ranks), *j.plan.Bind)
	if err != nil {
		j.unbound = err.Error()
		return
	}
	j.bindings = nil
	for i, r := range j.ranks {
		b, cpus := describePart(parts[i])
		r.cpus = cpus
		k := slices.IndexFunc(j.bindings, func(other wire.Binding) bool { return other.CPUs == b.CPUs })
		if k < 0 {
			k, j.bindings = len(j.bindings), append(j.bindings, b)
		}
		j.bindings[k].Ranks = append(j.bindings[k].Ranks, r.n)
	}
}

// describePart is what the head is told of a rank's part, without the rank, and its CPUs.
func describePart(part []unit) (b wire.Binding, all []int) {
	cores, nodes := map[int]bool{}, map[int]bool{}
	for _, u := range part {
		all = append(all, u.cpus...)
		cores[u.core.name] = true
		if u.core.node >= 0 {
			nodes[u.core.node] = true
		}
	}
	return wire.Binding{CPUs: formatList(setOf(all)), Cores: formatList(cores), NUMA: formatList(nodes)}, all
}

func setOf(ns []int) map[int]bool {
	set := make(map[int]bool, len(ns))
	for _, n := range ns {
		set[n] = true
	}
	return set
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
