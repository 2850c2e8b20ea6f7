package agent

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// systemDir is where the kernel describes CPUs and NUMA nodes.
const systemDir = "/sys/devices/system"

// A core is a physical core as far as this process may use it.
type core struct {
	name   int   // its lowest CPU, whether that may be used or not
	cpus   []int // those that may be used
	node   int   // its NUMA node, -1 if it is not known
	socket int   // -1 if it is not known
}

// findCores groups cpus by their cores; sys is systemDir. A CPU that is not described is
// a core of its own. Only names and CPUs are set.
func findCores(sys fs.FS, cpus []int) []core {
	allowed := map[int]bool{}
	for _, c := range cpus {
		allowed[c] = true
	}
	var cores []core
	for _, c := range cpus {
		if !allowed[c] {
			continue // a thread of a core that was seen
		}
		threads, _ := readNumbers(sys, fmt.Sprintf("cpu/cpu%d/topology/thread_siblings_list", c))
		if !slices.Contains(threads, c) {
			threads = []int{c}
		}
		k := core{name: slices.Min(threads), node: -1, socket: -1}
		for _, t := range threads {
			if allowed[t] {
				k.cpus = append(k.cpus, t)
				delete(allowed, t)
			}
		}
		cores = append(cores, k)
	}
	return cores
}

// readCores is findCores with NUMA nodes and packages, by which the cores are sorted.
func readCores(sys fs.FS, cpus []int) []core {
	cores := findCores(sys, cpus)
	nodes := readNodes(sys)
	for i, k := range cores {
		if n, ok := nodes[k.cpus[0]]; ok {
			cores[i].node = n
		}
		if l, ok := readNumbers(sys, fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", k.cpus[0])); ok {
			cores[i].socket = l[0]
		}
	}
	slices.SortFunc(cores, func(a, b core) int {
		return cmp.Or(cmp.Compare(a.socket, b.socket), cmp.Compare(a.node, b.node), cmp.Compare(a.name, b.name))
	})
	return cores
}

// readNodes returns the NUMA node of each CPU that has one.
func readNodes(sys fs.FS) map[int]int {
	nodes := map[int]int{}
	entries, _ := fs.ReadDir(sys, "node")
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "node"))
		if err != nil || n < 0 {
			continue
		}
		cpus, _ := readNumbers(sys, "node/"+e.Name()+"/cpulist")
		for _, c := range cpus {
			nodes[c] = n
		}
	}
	return nodes
}

func readNumbers(sys fs.FS, path string) ([]int, bool) {
	text, err := fs.ReadFile(sys, path)
	if err != nil {
		return nil, false
	}
	return parseList(strings.TrimSpace(string(text)))
}

// physicalCores counts the cores behind cpus: hardware threads of one core count once.
func physicalCores(sys fs.FS, cpus []int) int { return max(len(findCores(sys, cpus)), 1) }

// maxList bounds what parseList expands.
const maxList = 1 << 16

// parseList reads the kernel's list format: "0-3,8".
func parseList(s string) ([]int, bool) {
	var out []int
	for item := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(item, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= maxList {
			return nil, false
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
		if len(out) > maxList {
			return nil, false
		}
	}
	return out, true
}

// formatList writes numbers in the kernel's list format, each once, in order.
func formatList(set map[int]bool) string {
	var b strings.Builder
	for ns := slices.Sorted(maps.Keys(set)); len(ns) > 0; {
		n := 1
		for n < len(ns) && ns[n] == ns[0]+n {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, ns[0])
		if n > 1 {
			fmt.Fprintf(&b, "-%d", ns[n-1])
		}
		ns = ns[n:]
	}
	return b.String()
}
