package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/topo"
)

// pair is two GPUs of a host, by index; a is less than b.
type pair struct{ a, b int }

// access says how two GPUs are connected, and whether each may access the other's memory.
type access struct {
	pair
	link   topo.Link
	status string // topo.StatusOK: each may; else nvidia-smi's word
}

func (c access) String() string { return fmt.Sprintf("GPU%d-GPU%d %s", c.a, c.b, c.status) }

// pairs lists the pairs of a host's GPUs of which nvidia-smi tells the status; none if it
// cannot be asked for that.
func (v *view) pairs(g *facts.GPU) []access {
	if strings.TrimSpace(g.P2P) == "" {
		return nil
	}
	m, err := v.matrix(g.Topo)
	p, bad := topo.ParseP2P(g.P2P)
	if err != nil || bad != nil || m == nil {
		return nil
	}
	var out []access
	for i := range m.GPUs {
		for j := i + 1; j < m.GPUs; j++ {
			a, b := columnGPU(m.Columns[i]), columnGPU(m.Columns[j])
			status := p.Status(a, b)
			if status == topo.StatusOK {
				status = p.Status(b, a)
			}
			if status != "" {
				out = append(out, access{pair{min(a, b), max(a, b)}, m.Cells[i][j], status})
			}
		}
	}
	return out
}

// columnGPU is the index of the GPU of that column; -1 if it is none.
func columnGPU(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "GPU"))
	if err != nil {
		return -1
	}
	return n
}

// counts reports whether the job uses the GPU of that index as a whole: parts of GPUs (MIG)
// never access each other.
func (v *view) counts(host, index int) bool {
	return v.uses(host, index) && !slices.ContainsFunc(v.Hosts[host].Facts.GPU.Devices, func(d facts.Device) bool {
		return d.Index == index && d.MIG == "Enabled"
	})
}

// addAccess adds hosts with pairs of GPUs that may not access each other's memory: always
// those with NVLink between them, those without only where they may on the majority of hosts
// with the same GPUs. Of hosts in trouble the latter is known already. It reports whether
// some pair with NVLink has been judged.
func (v *view) addAccess(t *tally, hosts []int, trouble map[int]string) (some bool) {
	known := map[int][]access{}
	read := map[[2]string][]access{} // equal texts, as most hosts have, are read once
	var told []int
	for _, i := range hosts {
		g := &v.Hosts[i].Facts.GPU
		all, ok := read[[2]string{g.Topo, g.P2P}]
		if !ok {
			all = v.pairs(g)
			read[[2]string{g.Topo, g.P2P}] = all
		}
		if len(all) > 0 {
			known[i], told = all, append(told, i)
		}
	}
	for _, same := range v.groups(told, namesOf) {
		most := mostMay(known, same.hosts)
		for _, i := range same.hosts {
			var linked, plain []string
			for _, c := range known[i] {
				if !v.counts(i, c.a) || !v.counts(i, c.b) {
					continue
				}
				nv := c.link.Kind == topo.NV
				some = some || nv
				switch {
				case c.status == topo.StatusOK:
				case nv:
					linked = append(linked, c.String())
				case most[c.pair] && trouble[i] == "":
					plain = append(plain, c.String())
				}
			}
			v.addRefused(t, i, linked, plain)
		}
	}
	return some
}

// mostMay tells the pairs that may access each other's memory on the majority of hosts.
func mostMay(known map[int][]access, hosts []int) map[pair]bool {
	may := map[pair]int{}
	for _, i := range hosts {
		for _, c := range known[i] {
			if c.status == topo.StatusOK {
				may[c.pair]++
			}
		}
	}
	most := map[pair]bool{}
	for p, n := range may {
		most[p] = len(hosts) >= 3 && 2*n > len(hosts)
	}
	return most
}

// addRefused adds what pairs of a host's GPUs may not: those with NVLink, and those without.
func (v *view) addRefused(t *tally, host int, linked, plain []string) {
	refused := func(pairs []string, kind string) []string {
		return []string{fmt.Sprintf("nvidia-smi topo -p2p r has no OK for %s %s: %s", count(len(pairs), "pair"), kind, strings.Join(pairs[:min(len(pairs), 6)], ", "))}
	}
	if len(linked) > 0 {
		f := fault{
			verdict: v.exclude(), what: "has GPUs that may not access each other's memory although NVLink connects them",
			remedy:   "on HOST: reboot; if nvidia-smi topo -p2p r then shows it still, have the GPUs repaired (needs root; stops other jobs on HOST)",
			evidence: refused(linked, "with NVLink"),
		}
		if set := ignoresP2P(v.Hosts[host].Settings); set != "" {
			f.verdict, f.what = Warn, f.what+", which NCCL passes over"
			f.evidence = append(f.evidence, set+" is set")
		}
		t.add(host, f)
	}
	if len(plain) > 0 {
		t.add(host, fault{
			verdict: Warn, what: "has GPUs that may not access each other's memory by PCIe, as those of most hosts may",
			remedy:   "on HOST: nvidia-smi topo -p2p r; compare the BIOS's settings for PCIe and the options of the module nvidia with those of the other hosts",
			evidence: refused(plain, "without NVLink"),
		})
	}
}

// ignoresP2P returns the setting with which NCCL does not fail on a pair with NVLink that
// may not access each other's memory; "" if there is none.
func ignoresP2P(set map[string]string) string {
	switch {
	case intSetting(set, "NCCL_IGNORE_DISABLED_P2P", 0) != 0:
		return "NCCL_IGNORE_DISABLED_P2P"
	case intSetting(set, "NCCL_P2P_DISABLE", 0) == 1:
		return "NCCL_P2P_DISABLE"
	}
	return ""
}
