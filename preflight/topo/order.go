package topo

import (
	"cmp"
	"slices"
)

// Order returns the GPU that each local rank should have, so that ranks next to each other are
// near: by NVLink island, clique, NUMA node and PCIe switch. Where these do not cut across the
// order of the indices, it is that order. It is the same on hosts with equal fingerprints.
func (v *View) Order() []int {
	n := len(v.GPUs)
	island, clique := make([]int, n), make([]int, n)
	if v.anyNV() {
		v.number(island, v.Islands())
		v.number(clique, v.Cliques())
	}
	node, sw := make([]int, n), make([]int, n)
	for i := range n {
		node[i], sw[i] = i, i
		for j := i - 1; j >= 0; j-- {
			if v.numa(i) != "" && v.numa(i) == v.numa(j) {
				node[i] = node[j]
			}
			if v.byPCI(i, j) <= PXB && v.byPCI(i, j) > Self {
				sw[i] = sw[j]
			}
		}
	}
	at := sequence(n)
	slices.SortFunc(at, func(a, b int) int {
		return cmp.Or(cmp.Compare(island[a], island[b]), cmp.Compare(clique[a], clique[b]),
			cmp.Compare(node[a], node[b]), cmp.Compare(sw[a], sw[b]), cmp.Compare(a, b))
	})
	return v.indices(at)
}

func (v *View) anyNV() bool {
	return slices.ContainsFunc(v.gpuGPU, func(row []Link) bool {
		return slices.ContainsFunc(row, func(l Link) bool { return l.Kind == NV })
	})
}

// number sets for each GPU the number of the set it is in.
func (v *View) number(of []int, sets [][]int) {
	for k, set := range sets {
		for _, index := range set {
			of[v.position[index]] = k
		}
	}
}

// Ring returns gpus in an order in which each has a good way to the next, and the last to the
// first: that whose farthest step is nearest, of several the first by index, and that step. It
// compares all orders of up to 16 GPUs and returns larger sets as they are.
func (v *View) Ring(gpus []int) (ring []int, farthest Link) {
	gpus = slices.Clone(gpus)
	slices.Sort(gpus)
	if len(gpus) < 2 {
		return gpus, Link{Kind: Self}
	}
	var steps []Link
	for k, a := range gpus {
		for _, b := range gpus[k+1:] {
			steps = append(steps, v.Between(a, b))
		}
	}
	slices.SortFunc(steps, Link.Compare)
	steps = slices.Compact(steps)
	if len(gpus) > maxExact {
		return gpus, v.farthestStep(gpus)
	}
	for _, limit := range steps {
		if ring := v.ringWithin(gpus, limit); ring != nil {
			return ring, limit
		}
	}
	return gpus, v.farthestStep(gpus)
}

func (v *View) farthestStep(ring []int) Link {
	far := Link{Kind: Self}
	for i, a := range ring {
		if l := v.Between(a, ring[(i+1)%len(ring)]); l.Compare(far) > 0 {
			far = l
		}
	}
	return far
}

// ringWithin returns the first ring whose steps are all at most as far as limit; nil: none.
func (v *View) ringWithin(gpus []int, limit Link) []int {
	n := len(gpus)
	near := make([]uint32, n)
	for i, a := range gpus {
		for j, b := range gpus {
			if i != j && v.Between(a, b).Compare(limit) <= 0 {
				near[i] |= 1 << j
			}
		}
	}
	// dead has a bit per GPU from which the rest cannot be visited after the set that is its index.
	dead := make([]uint32, 1<<n)
	path := []int{0}
	var visit func(at int, seen uint32) bool
	visit = func(at int, seen uint32) bool {
		if len(path) == n {
			return near[at]&1 != 0
		}
		if dead[seen]&(1<<at) != 0 {
			return false
		}
		for j := range n {
			if near[at]&^seen&(1<<j) == 0 {
				continue
			}
			path = append(path, j)
			if visit(j, seen|1<<j) {
				return true
			}
			path = path[:len(path)-1]
		}
		dead[seen] |= 1 << at
		return false
	}
	if !visit(0, 1) {
		return nil
	}
	ring := make([]int, n)
	for i, p := range path {
		ring[i] = gpus[p]
	}
	return ring
}
