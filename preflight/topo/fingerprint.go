package topo

import (
	"fmt"
	"slices"
	"strings"
)

// Fingerprint returns a text that is equal for hosts whose GPUs and NICs are connected alike: how
// many there are, each GPU's NUMA node, and what connects it with each GPU and NIC. Devices are in
// PCI order, for names and indices differ from host to host even of one cluster. All NICs count,
// whatever their ports' state; those without a PCI address do not where others have one.
func (v *View) Fingerprint() string {
	gpus, nics := v.byAddress()
	node := v.nodeNames(gpus)
	var b strings.Builder
	fmt.Fprintf(&b, "gpus %d nics %d\n", len(gpus), len(nics))
	for i, g := range gpus {
		fmt.Fprintf(&b, "gpu %d numa %s:", i, node[i])
		for _, h := range gpus {
			fmt.Fprintf(&b, " %s", v.gpuGPU[g][h])
		}
		b.WriteString(" |")
		for _, n := range nics {
			fmt.Fprintf(&b, " %s", v.gpuNIC[g][n])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// byAddress returns the positions of the GPUs and of the PCI devices among the NICs in PCI order.
func (v *View) byAddress() (gpus, nics []int) {
	gpus = sequence(len(v.GPUs))
	if !slices.ContainsFunc(v.gpuPlace, func(p place) bool { return !p.known }) {
		slices.SortStableFunc(gpus, func(a, b int) int { return v.gpuPlace[a].addr.compare(v.gpuPlace[b].addr) })
	}
	nics = sequence(len(v.NICs))
	if slices.ContainsFunc(v.nicPlace, func(p place) bool { return p.known }) {
		nics = slices.DeleteFunc(nics, func(j int) bool { return !v.nicPlace[j].known })
		slices.SortStableFunc(nics, func(a, b int) int { return v.nicPlace[a].addr.compare(v.nicPlace[b].addr) })
	}
	return gpus, nics
}

// nodeNames names the NUMA node of each GPU. Nodes known only by their CPUs, which differ with
// what a container may use, are numbered as they come.
func (v *View) nodeNames(gpus []int) []string {
	names, numbered := make([]string, len(gpus)), map[string]string{}
	for i, g := range gpus {
		name := v.numa(g)
		switch {
		case name == "":
			name = "?"
		case strings.HasPrefix(name, "cpus "):
			if numbered[name] == "" {
				numbered[name] = fmt.Sprintf("#%d", len(numbered))
			}
			name = numbered[name]
		}
		names[i] = name
	}
	return names
}

// Explain tells the first difference between the fingerprints of two hosts, each with its own
// names of devices, as in "GPU5 reaches mlx5_9 by PIX, the other host's GPU5 mlx5_7 by NODE"; ""
// if there is none.
func (v *View) Explain(other *View) string {
	gpus, nics := v.byAddress()
	gpus2, nics2 := other.byAddress()
	if len(gpus) != len(gpus2) {
		return fmt.Sprintf("%d GPUs, the other host has %d", len(gpus), len(gpus2))
	}
	if len(nics) != len(nics2) {
		return fmt.Sprintf("%d NICs, the other host has %d", len(nics), len(nics2))
	}
	node, node2 := v.nodeNames(gpus), other.nodeNames(gpus2)
	for i, g := range gpus {
		g2 := gpus2[i]
		a, b := gpuName(v.GPUs[g].Index), gpuName(other.GPUs[g2].Index)
		if node[i] != node2[i] {
			return fmt.Sprintf("%s is on NUMA node %s, the other host's %s on %s", a, node[i], b, node2[i])
		}
		for k, h := range gpus {
			h2 := gpus2[k]
			if l, l2 := v.gpuGPU[g][h], other.gpuGPU[g2][h2]; l.String() != l2.String() {
				return differ(a, gpuName(v.GPUs[h].Index), l, b, gpuName(other.GPUs[h2].Index), l2)
			}
		}
		for k, n := range nics {
			n2 := nics2[k]
			if l, l2 := v.gpuNIC[g][n], other.gpuNIC[g2][n2]; l.String() != l2.String() {
				return differ(a, v.NICs[n].Name, l, b, other.NICs[n2].Name, l2)
			}
		}
	}
	return ""
}

func differ(a, x string, l Link, b, y string, m Link) string {
	return fmt.Sprintf("%s reaches %s by %s, the other host's %s %s by %s", a, x, l, b, y, m)
}
