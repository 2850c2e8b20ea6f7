package topo

import "slices"

// class says what connects a group of GPUs, from good to bad.
type class int

const (
	classClique    class = iota // NVLink between each pair
	classConnected              // NVLink, for some over others
	classSwitch                 // PCIe switches
	classNode                   // host bridges of one NUMA node
	classFar                    // several NUMA nodes
	classUnknown
)

// cost of groups, compared from its first number: what connects them, so that one bad group
// outweighs any number of better ones; the width of NVLink that they lack; how many cross NUMA
// nodes; how far their GPUs are by PCIe.
type cost [4]int

func (c cost) plus(d cost) cost {
	for i := range c {
		c[i] += d[i]
	}
	return c
}

func (c cost) compare(d cost) int { return slices.Compare(c[:], d[:]) }

// costOf returns the cost of one group. Its first number is never 0.
func (v *View) costOf(set uint64) cost {
	at := members(set)
	cl := v.classOf(set)
	c := cost{1 << (5 * int(cl))}
	switch cl {
	case classClique:
		c[1] = maxNVLinks - v.narrowest(at)
	case classConnected:
		c[1] = maxNVLinks*maxGPUs - v.narrowestCut(at)
	}
	for k, i := range at {
		for _, j := range at[k+1:] {
			if v.apart(i, j) {
				c[2] = 1
			}
			c[3] += int(v.byPCI(i, j))
		}
	}
	return c
}

// byPCI returns how far two GPUs are by PCIe; Self where NVLink hides it.
func (v *View) byPCI(i, j int) Kind {
	if tree := v.gpuPlace[i].distance(v.gpuPlace[j]); tree.Known() {
		return tree.Kind
	}
	if v.nv(i, j) {
		return Self
	}
	return v.gpuGPU[i][j].Kind
}

func (v *View) classOf(set uint64) class {
	at := members(set)
	worst, clique := Self, true
	for k, i := range at {
		for _, j := range at[k+1:] {
			worst = max(worst, v.gpuGPU[i][j].rank())
			clique = clique && v.nv(i, j)
		}
	}
	switch {
	case clique:
		return classClique
	case v.connected(set):
		return classConnected
	case worst <= PXB:
		return classSwitch
	case worst <= NODE:
		return classNode
	case worst == SYS:
		return classFar
	}
	return classUnknown
}

func (v *View) connected(set uint64) bool {
	reached := set & -set
	for grown := true; grown; {
		grown = false
		for _, i := range members(reached) {
			for _, j := range members(set &^ reached) {
				if v.nv(i, j) {
					reached |= 1 << j
					grown = true
				}
			}
		}
	}
	return reached == set
}

func (v *View) narrowest(at []int) int {
	least := maxNVLinks
	for k, i := range at {
		for _, j := range at[k+1:] {
			least = min(least, v.gpuGPU[i][j].NVLinks)
		}
	}
	return least
}

// narrowestCut returns the fewest NVLinks that part the GPUs in two (Stoer and Wagner's method).
func (v *View) narrowestCut(at []int) int {
	n := len(at)
	width := make([][]int, n)
	for a := range width {
		width[a] = make([]int, n)
		for b := range width[a] {
			if a != b {
				width[a][b] = v.gpuGPU[at[a]][at[b]].NVLinks
			}
		}
	}
	least, nodes := maxNVLinks*maxGPUs, sequence(n)
	for len(nodes) > 1 {
		least = min(least, mergeLast(width, &nodes))
	}
	return least
}

// mergeLast adds nodes to a set in the order of their width to it, returns the width of the last
// to all others, and makes one node of the last two.
func mergeLast(width [][]int, nodes *[]int) int {
	left := slices.Clone(*nodes)
	reach := map[int]int{}
	last, before := -1, -1
	for len(left) > 0 {
		k := 0
		for i, x := range left {
			if reach[x] > reach[left[k]] {
				k = i
			}
		}
		before, last = last, left[k]
		left = slices.Delete(left, k, k+1)
		for _, x := range left {
			reach[x] += width[last][x]
		}
	}
	for _, x := range *nodes {
		if x != before && x != last {
			width[before][x] += width[last][x]
			width[x][before] = width[before][x]
		}
	}
	*nodes = slices.DeleteFunc(*nodes, func(x int) bool { return x == last })
	return reach[last]
}
