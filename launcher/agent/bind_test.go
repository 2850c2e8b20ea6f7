package agent

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gorun/launcher/wire"
)

// machine is a shape of hosts whose /sys/devices/system tests make.
type machine struct {
	sockets, nodes, cores, threads int  // nodes of a socket, cores of a node, threads of a core
	scattered                      bool // CPUs are numbered over the nodes in turn
}

// sys makes the files: as most machines do, it numbers the first threads of all cores
// before the second ones.
func (m machine) sys() fs.FS {
	files := fstest.MapFS{"node/possible": file("0-7"), "node/has_cpu": file("0"), "cpu/online": file("0"), "cpu/cpufreq/x": file("")}
	nodes := m.sockets * m.nodes
	all := nodes * m.cores
	cpus := make([]map[int]bool, nodes)
	for c := range all {
		node := c / m.cores
		if m.scattered {
			node = c % nodes
		}
		threads := map[int]bool{}
		for t := range m.threads {
			threads[c+t*all] = true
		}
		for t := range threads {
			dir := fmt.Sprintf("cpu/cpu%d/topology/", t)
			files[dir+"thread_siblings_list"] = file(formatList(threads))
			files[dir+"physical_package_id"] = file(fmt.Sprint(node / m.nodes))
			if cpus[node] == nil {
				cpus[node] = map[int]bool{}
			}
			cpus[node][t] = true
		}
	}
	for n, set := range cpus {
		files[fmt.Sprintf("node/node%d/cpulist", n)] = file(formatList(set))
	}
	files[fmt.Sprintf("node/node%d/cpulist", nodes)] = file("") // memory only
	return files
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }

// The hosts of the tests below.
func shapes() map[string]machine {
	return map[string]machine{
		"xeon":      {2, 1, 4, 2, false}, // 2 sockets of 4 cores with 2 threads: CPUs 0-3,8-11 and 4-7,12-15
		"scattered": {2, 1, 4, 1, true},  // node 0 has the even CPUs
		"epyc":      {2, 4, 2, 1, false}, // 8 NUMA nodes of 2 cores
		"odd":       {2, 1, 5, 1, false},
		"laptop":    {1, 1, 4, 1, false},
	}
}

func TestAssign(t *testing.T) {
	tests := []struct {
		name, host, mask string // mask "": all CPUs
		ranks            int
		by               string
		each             int
		want             string // "CPUs/cores/NUMA" by rank, or an error
	}{
		{"all-cores", "xeon", "", 8, "core", 0, "0,8/0/0 1,9/1/0 2,10/2/0 3,11/3/0 4,12/4/1 5,13/5/1 6,14/6/1 7,15/7/1"},
		{"two-each", "xeon", "", 4, "core", 0, "0-1,8-9/0-1/0 2-3,10-11/2-3/0 4-5,12-13/4-5/1 6-7,14-15/6-7/1"},
		{"one-rank", "xeon", "", 1, "core", 0, "0-15/0-7/0-1"},
		{"a-socket-each", "xeon", "", 2, "core", 0, "0-3,8-11/0-3/0 4-7,12-15/4-7/1"},
		{"uneven", "xeon", "", 3, "core", 0, "0-1,8-9/0-1/0 2-3,10-11/2-3/0 5-6,13-14/5-6/1"},
		{"uneven-five", "xeon", "", 5, "core", 0, "0,8/0/0 1,9/1/0 3,11/3/0 4,12/4/1 6,14/6/1"},
		{"odd-nodes", "odd", "", 3, "core", 0, "0-2/0-2/0 3-5/3-5/0-1 6-8/6-8/1"},
		{"odd-nodes-by-two", "odd", "", 4, "core", 2, "0-1/0-1/0 2-3/2-3/0 5-6/5-6/1 7-8/7-8/1"},
		{"one-core-each-over-nodes", "xeon", "", 2, "core", 1, "0,8/0/0 4,12/4/1"},
		{"three-each", "xeon", "", 2, "core", 3, "0-2,8-10/0-2/0 4-6,12-14/4-6/1"},
		{"not-over-a-node", "xeon", "", 2, "core", 4, "0-3,8-11/0-3/0 4-7,12-15/4-7/1"},
		{"pe-too-many", "xeon", "", 3, "core", 3, "3 ranks of 3 cores each, for 8 cores"},
		{"too-many-ranks", "xeon", "", 9, "core", 0, "9 ranks for 8 cores"},
		{"threads", "xeon", "", 16, "hwthread", 0, "0/0/0 8/0/0 1/1/0 9/1/0 2/2/0 10/2/0 3/3/0 11/3/0 4/4/1 12/4/1 5/5/1 13/5/1 6/6/1 14/6/1 7/7/1 15/7/1"},
		{"threads-of-a-core", "xeon", "", 8, "hwthread", 2, "0,8/0/0 1,9/1/0 2,10/2/0 3,11/3/0 4,12/4/1 5,13/5/1 6,14/6/1 7,15/7/1"},
		{"too-many-threads", "xeon", "", 17, "hwthread", 0, "17 ranks for 16 hardware threads"},
		{"numa", "xeon", "", 4, "numa", 0, "0-3,8-11/0-3/0 0-3,8-11/0-3/0 4-7,12-15/4-7/1 4-7,12-15/4-7/1"},
		{"numa-one-rank", "xeon", "", 1, "numa", 0, "0-3,8-11/0-3/0"},
		{"numa-odd", "xeon", "", 3, "numa", 0, "0-3,8-11/0-3/0 0-3,8-11/0-3/0 4-7,12-15/4-7/1"},
		{"numa-too-many", "xeon", "", 9, "numa", 0, "9 ranks for 8 cores"},
		{"numa-of-many", "epyc", "", 4, "numa", 0, "0-1/0-1/0 4-5/4-5/2 8-9/8-9/4 12-13/12-13/6"},
		{"socket-of-nodes", "epyc", "", 2, "socket", 0, "0-7/0-7/0-3 8-15/8-15/4-7"},
		{"nodes-whole", "epyc", "", 4, "core", 0, "0-3/0-3/0-1 4-7/4-7/2-3 8-11/8-11/4-5 12-15/12-15/6-7"},
		{"scattered-numbers", "scattered", "", 4, "core", 0, "0,2/0,2/0 4,6/4,6/0 1,3/1,3/1 5,7/5,7/1"},
		{"scattered-numa", "scattered", "", 2, "numa", 0, "0,2,4,6/0,2,4,6/0 1,3,5,7/1,3,5,7/1"},
		{"mask", "xeon", "2-5", 2, "core", 0, "2-3/2-3/0 4-5/4-5/1"},
		{"mask-of-threads", "xeon", "1,9,10", 2, "core", 0, "1,9/1/0 10/2/0"},
		{"mask-of-second-threads", "xeon", "8-15", 8, "core", 0, "8/0/0 9/1/0 10/2/0 11/3/0 12/4/1 13/5/1 14/6/1 15/7/1"},
		{"mask-too-small", "xeon", "0,8", 2, "core", 0, "2 ranks for 1 core"},
		{"mask-lopsided", "xeon", "0,4-7", 4, "numa", 0, "0/0/0 4-7/4-7/1 4-7/4-7/1 4-7/4-7/1"},
		{"mask-without-a-node", "xeon", "4-7", 2, "numa", 0, "4-7/4-7/1 4-7/4-7/1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := shapes()[tt.host]
			mask, ok := parseList(tt.mask)
			if !ok {
				mask = numbers(m.sockets * m.nodes * m.cores * m.threads)
			}
			if got := assigned(readCores(m.sys(), mask), tt.ranks, wire.Bind{By: tt.by, Each: tt.each}); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

// numbers are 0 to n-1.
func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// assigned writes what each rank gets.
func assigned(cores []core, n int, b wire.Bind) string {
	parts, err := assign(cores, n, b)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, p := range parts {
		d, _ := describePart(p)
		out = append(out, d.CPUs+"/"+d.Cores+"/"+d.NUMA)
	}
	return strings.Join(out, " ")
}

// Kernels and containers that tell less: then a CPU is a core, and there is no NUMA.
func TestAssignWithoutTopology(t *testing.T) {
	tests := []struct {
		name string
		sys  fstest.MapFS
		by   string
		want string
	}{
		{"nothing", nil, "core", "0-1/0-1/ 2-3/2-3/"},
		{"nothing-numa", nil, "numa", "the kernel there tells of no NUMA nodes"},
		{"nothing-socket", nil, "socket", "the kernel there tells of no sockets"},
		{"malformed", fstest.MapFS{"cpu/cpu0/topology/thread_siblings_list": file("0-"), "cpu/cpu1/topology/thread_siblings_list": file("7"),
			"cpu/cpu2/topology/physical_package_id": file("-1"), "node/node0/cpulist": file("x"), "node/nodeX/cpulist": file("0-3")}, "core", "0-1/0-1/ 2-3/2-3/"},
		{"one-node-of-two", fstest.MapFS{"node/node1/cpulist": file("2-3")}, "core", "0-1/0-1/ 2-3/2-3/1"},
		{"siblings-not-allowed", fstest.MapFS{"cpu/cpu3/topology/thread_siblings_list": file("3,9")}, "core", "0-1/0-1/ 2-3/2-3/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := assigned(readCores(tt.sys, numbers(4)), 2, wire.Bind{By: tt.by}); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

// Whatever the host and the mask: ranks get equal parts that do not overlap, of allowed
// CPUs only, or a reason.
func TestAssignHoldsItsPromises(t *testing.T) {
	for name, m := range shapes() {
		all := m.sockets * m.nodes * m.cores * m.threads
		for bits := 1; bits < 1<<all; bits += 1 + bits/37 {
			var mask []int
			for c := range all {
				if bits>>c&1 == 1 {
					mask = append(mask, c)
				}
			}
			cores := readCores(m.sys(), mask)
			for ranks := 1; ranks <= all+1; ranks += 2 {
				for _, by := range []string{wire.BindCore, wire.BindThread} {
					checkParts(t, fmt.Sprint(name, mask, ranks, by), cores, mask, ranks, wire.Bind{By: by})
				}
			}
		}
	}
}

func checkParts(t *testing.T, what string, cores []core, mask []int, ranks int, b wire.Bind) {
	t.Helper()
	parts, err := assign(cores, ranks, b)
	units := len(unitsOf(cores, b.By))
	if (err == nil) != (ranks <= units) {
		t.Fatalf("%s: %v with %d units", what, err, units)
	}
	seen := map[int]bool{}
	for _, p := range parts {
		if len(p) != units/ranks {
			t.Fatalf("%s: got %v; want %d units for each", what, parts, units/ranks)
		}
		for _, u := range p {
			for _, c := range u.cpus {
				if seen[c] || !slices.Contains(mask, c) {
					t.Fatalf("%s: CPU %d twice, or not allowed: %v", what, c, parts)
				}
				seen[c] = true
			}
		}
	}
}

func TestFormatList(t *testing.T) {
	for _, s := range []string{"", "0", "0-1", "0,2,4", "0-3,8,10-12", "65535"} {
		list, _ := parseList(s)
		if got := formatList(setOf(list)); got != s {
			t.Errorf("got %q; want %q", got, s)
		}
	}
}

// The cores of this machine are those that may be used, each CPU once.
func TestOwnCores(t *testing.T) {
	mask := affinity()
	var got []int
	for _, k := range readCores(os.DirFS(systemDir), mask) {
		got = append(got, k.cpus...)
	}
	if slices.Sort(got); len(mask) == 0 || !slices.Equal(got, mask) {
		t.Errorf("got %v; want %v", got, mask)
	}
}

// FuzzCPUList checks that any text is no list, or one that is written back to an equal one.
func FuzzCPUList(f *testing.F) {
	for _, s := range []string{"0-3,8,10-12", "", "0", "3-1", "-1", "1,,2", "0-65535", "0-65536", "00-01", "+1", "1-2-3", "0-3:2/4", "0-9,5-6\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, ok := parseList(s)
		if !ok {
			if list != nil {
				t.Fatalf("%q: got %v", s, list)
			}
			return
		}
		again, ok := parseList(formatList(setOf(list)))
		slices.Sort(list)
		if !ok || !slices.Equal(again, slices.Compact(list)) {
			t.Fatalf("%q: got %v, and %v when it is written anew", s, list, again)
		}
		// A host that says it has these CPUs is not to be a burden.
		sys := fstest.MapFS{"cpu/cpu0/topology/thread_siblings_list": file(s), "node/node0/cpulist": file(s)}
		if cores := readCores(sys, []int{0, 1}); len(cores) < 1 || len(cores) > 2 {
			t.Fatalf("%q: got cores %v", s, cores)
		}
	})
}
