package main

import (
	"fmt"

	"gorun/launcher"
	"gorun/preflight/topo"
)

// meshCosts are warnings of groups whose GPUs have no NVLink between them inside a host.
// Hosts are those of the layout, named, with the plans of their GPUs. Of what is not known
// nothing is said.
func meshCosts(l launcher.Layout, names []string, plans []gpuPlan) []string {
	axis := l.Mesh.Near()
	if axis < 0 {
		return nil
	}
	worst := make([]pair, len(names))
	for _, g := range l.Mesh.Groups(axis) {
		at := map[int][]int{} // GPUs of the group, by host
		for k := range g.Size {
			p := l.Ranks[g.Rank(k)]
			if gpus := plans[p.Host].gpus; plans[p.Host].view != nil && p.Local < len(gpus) {
				at[p.Host] = append(at[p.Host], gpus[p.Local])
			}
		}
		for h, gpus := range at {
			worst[h].look(plans[h].view, gpus)
		}
	}
	about := map[string]string{}
	for h, p := range worst {
		if p.seen && p.link.Kind != topo.NV && p.link.Known() {
			about[names[h]] = p.text(plans[h].view, l.Mesh[axis])
		}
	}
	return folded(about, names)
}

// pair is two GPUs of a group that are the farthest from each other.
type pair struct {
	seen bool
	a, b int
	link topo.Link
}

func (p *pair) look(v *topo.View, gpus []int) {
	for i, a := range gpus {
		for _, b := range gpus[i+1:] {
			if link := v.Between(a, b); a != b && (!p.seen || link.Compare(p.link) > 0) {
				*p = pair{true, a, b, link}
			}
		}
	}
}

func (p pair) text(v *topo.View, axis launcher.Axis) string {
	known, _ := v.NVLinkKnown()
	what := fmt.Sprintf("GPU%d and GPU%d of a group of %s", p.a, p.b, axis)
	if !known {
		return fmt.Sprintf("%s are connected by %s, %s; whether they have NVLink is not known", what, p.link, wayOf(p.link))
	}
	return fmt.Sprintf("%s have no NVLink between them: %s, %s", what, p.link, wayOf(p.link))
}

// wayOf says what a link by PCIe is.
func wayOf(l topo.Link) string {
	switch l.Kind {
	case topo.SYS:
		return "across NUMA nodes"
	case topo.NODE, topo.PHB:
		return "through the CPU"
	}
	return "through PCIe switches"
}
