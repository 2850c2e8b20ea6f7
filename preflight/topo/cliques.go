package topo

import (
	"math/bits"
	"slices"
)

// Islands returns the sets of GPUs that are connected by NVLink, directly or over others, each
// sorted, in the order of their first; a GPU without NVLink is an island by itself. Without
// NVLinkKnown, it returns nil.
func (v *View) Islands() [][]int {
	if known, _ := v.NVLinkKnown(); !known {
		return nil
	}
	var islands [][]int
	seen := make([]bool, len(v.GPUs))
	for i := range v.GPUs {
		if seen[i] {
			continue
		}
		seen[i] = true
		island := []int{i}
		for k := 0; k < len(island); k++ {
			for j := range v.GPUs {
				if !seen[j] && v.nv(island[k], j) {
					seen[j] = true
					island = append(island, j)
				}
			}
		}
		slices.Sort(island)
		islands = append(islands, v.indices(island))
	}
	return islands
}

// nv reports whether the GPUs at two positions have NVLink between them.
func (v *View) nv(i, j int) bool { return v.gpuGPU[i][j].Kind == NV }

func (v *View) indices(positions []int) []int {
	out := make([]int, len(positions))
	for i, p := range positions {
		out[i] = v.GPUs[p].Index
	}
	return out
}

// IsClique reports whether each pair of gpus has NVLink between them. One GPU is a clique; a GPU
// that is not there is in none.
func (v *View) IsClique(gpus []int) bool {
	for k, a := range gpus {
		if _, ok := v.position[a]; !ok {
			return false
		}
		for _, b := range gpus[k+1:] {
			if v.Between(a, b).Kind != NV {
				return false
			}
		}
	}
	return len(gpus) > 0
}

// Cliques parts all GPUs into sets in which each pair has NVLink: the largest first taken out, of
// several the one with the lowest indices, and sorted by their first. Without NVLinkKnown, nil.
func (v *View) Cliques() [][]int {
	if known, _ := v.NVLinkKnown(); !known {
		return nil
	}
	var near [maxGPUs]uint64 // positions with NVLink to each
	for i := range v.GPUs {
		for j := range v.GPUs {
			if v.nv(i, j) {
				near[i] |= 1 << j
			}
		}
	}
	left := uint64(1)<<len(v.GPUs) - 1
	var cliques [][]int
	for left != 0 {
		f := finder{near: near[:], budget: 1 << 16}
		f.grow(0, left)
		left &^= f.best
		cliques = append(cliques, v.indices(members(f.best)))
	}
	slices.SortFunc(cliques, slices.Compare)
	return cliques
}

// finder looks for the largest clique. Its budget bounds the work on graphs that no machine has;
// when it is used up, the best so far is still a clique.
type finder struct {
	near   []uint64
	best   uint64
	budget int
}

func (f *finder) grow(have, candidates uint64) {
	if bits.OnesCount64(have) > bits.OnesCount64(f.best) {
		f.best = have
	}
	for candidates != 0 && f.budget > 0 && bits.OnesCount64(have)+bits.OnesCount64(candidates) > bits.OnesCount64(f.best) {
		f.budget--
		i := bits.TrailingZeros64(candidates)
		candidates &^= 1 << i
		f.grow(have|1<<i, candidates&f.near[i])
	}
}

func members(set uint64) []int {
	out := make([]int, 0, bits.OnesCount64(set))
	for ; set != 0; set &= set - 1 {
		out = append(out, bits.TrailingZeros64(set))
	}
	return out
}
