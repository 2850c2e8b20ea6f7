package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/topo"
)

// machine is what is drawn of hosts that look the same.
type machine struct {
	hosts    []string
	domains  []domain
	switches int // NVSwitches
	pairs    []nvpair
	gpus     int
	what     string // "8 × NVIDIA H100, 8 × 400 Gb/s InfiniBand"
}

// domain is a NUMA node.
type domain struct {
	id      int // -1: it is not known of which one the devices are
	cpus    string
	bridges []bridge
}

// bridge is a PCIe switch, or else a PCIe root, with what is below it.
type bridge struct {
	switched   bool
	gpus, nics []box
}

// box is a device.
type box struct {
	index      int // of a GPU
	name, line string
	bad        bool
	links      string // NVLinks of a GPU: "18", "17 of 18"; "" none
	cut        bool   // some of them are down
}

// nvpair is two GPUs with NVLinks between them, by index.
type nvpair struct{ a, b, links int }

// machines are the kinds of hosts, that of most hosts first, and the hosts that have
// neither GPUs nor HCAs.
func machines(hosts []facts.Host) (kinds []*machine, plain []string) {
	by := map[string]*machine{}
	for _, h := range hosts {
		if len(h.GPU.Devices) == 0 && len(h.RDMA.Devices) == 0 {
			plain = append(plain, h.Name)
			continue
		}
		m := machineOf(h)
		key := fmt.Sprint(m.domains, m.switches, m.pairs, m.what)
		if by[key] == nil {
			by[key] = m
			kinds = append(kinds, m)
		}
		by[key].hosts = append(by[key].hosts, h.Name)
	}
	slices.SortStableFunc(kinds, func(a, b *machine) int { return cmp.Compare(len(b.hosts), len(a.hosts)) })
	return kinds, plain
}

func machineOf(h facts.Host) *machine {
	m := &machine{switches: len(h.GPU.Switches), gpus: len(h.GPU.Devices), what: describe(h)}
	t := tree{}
	for _, n := range h.System.NUMA {
		t.domain(n.ID).cpus = n.CPUs
	}
	for _, d := range h.GPU.Devices {
		b := t.bridge(d.NUMA, d.Path)
		b.gpus = append(b.gpus, gpuBox(d))
	}
	for _, d := range h.RDMA.Devices {
		b := t.bridge(d.NUMA, d.Path)
		b.nics = append(b.nics, nicBox(d))
	}
	m.domains = t.domains()
	if h.GPU.Topo != "" {
		m.pairs = nvpairs(h.GPU.Topo)
	}
	return m
}

// describe says what a host has.
func describe(h facts.Host) string {
	var words []string
	for _, d := range h.GPU.Devices {
		words = append(words, d.Name)
	}
	for _, d := range h.RDMA.Devices {
		words = append(words, portLine(d))
	}
	var parts []string
	for len(words) > 0 {
		word, n := words[0], 0
		words = slices.DeleteFunc(words, func(w string) bool {
			if w == word {
				n++
			}
			return w == word
		})
		if n > 1 {
			word = fmt.Sprintf("%d × %s", n, word)
		}
		parts = append(parts, word)
	}
	return strings.Join(parts, ", ")
}

func gpuBox(d facts.Device) box {
	b := box{index: d.Index, name: fmt.Sprintf("GPU%d", d.Index), line: strings.TrimPrefix(strings.TrimPrefix(d.Name, "NVIDIA "), "Tesla ")}
	if d.NVLinks > 0 {
		b.links, b.cut = fmt.Sprint(d.NVActive), d.NVActive < d.NVLinks
		if b.cut {
			b.links = fmt.Sprintf("%d of %d", d.NVActive, d.NVLinks)
		}
	}
	return b
}

func nicBox(d facts.HCA) box {
	b := box{name: d.Name, line: strings.Replace(portLine(d), "InfiniBand", "IB", 1)}
	for _, p := range d.Ports {
		b.bad = b.bad || p.State != "ACTIVE"
	}
	return b
}

// portLine says what the first port of an HCA is: "400 Gb/s InfiniBand", "DOWN".
func portLine(d facts.HCA) string {
	if len(d.Ports) == 0 {
		return "HCA without port"
	}
	p := d.Ports[0]
	if p.State != "ACTIVE" {
		return strings.TrimSpace("HCA " + p.State)
	}
	if p.Layer == "Ethernet" {
		return fmt.Sprintf("%g Gb/s RoCE", p.Rate)
	}
	return fmt.Sprintf("%g Gb/s %s", p.Rate, p.Layer)
}

// nvpairs are the pairs of GPUs with NVLinks that nvidia-smi tells; none if it cannot be read.
func nvpairs(text string) (pairs []nvpair) {
	m, err := topo.ParseMatrix(text)
	if err != nil {
		return nil
	}
	index := func(i int) (n int) {
		if _, err := fmt.Sscanf(m.Columns[i], "GPU%d", &n); err != nil {
			return -1
		}
		return n
	}
	for y := range m.GPUs {
		for x := y + 1; x < m.GPUs; x++ {
			if l := m.Cells[y][x]; l.Kind == topo.NV {
				pairs = append(pairs, nvpair{index(y), index(x), l.NVLinks})
			}
		}
	}
	return pairs
}

// alike reports whether all GPUs are connected with each other by as many NVLinks: they
// are behind switches then, even where the host cannot see these.
func (m *machine) alike() bool {
	gpus := map[int]bool{}
	for _, p := range m.pairs {
		gpus[p.a], gpus[p.b] = true, true
		if p.links != m.pairs[0].links {
			return false
		}
	}
	return len(gpus) > 2 && len(m.pairs) == len(gpus)*(len(gpus)-1)/2
}

// tree collects bridges by NUMA node and path.
type tree struct {
	of map[int]*branch
}

type branch struct {
	domain
	paths []string // of bridges
}

func (t *tree) domain(id int) *branch {
	if t.of == nil {
		t.of = map[int]*branch{}
	}
	if t.of[id] == nil {
		t.of[id] = &branch{domain: domain{id: id}}
	}
	return t.of[id]
}

// bridge is the one that the device of this path is below.
func (t *tree) bridge(numa int, path string) *bridge {
	d := t.domain(max(numa, -1))
	key, switched := above(path)
	k := slices.Index(d.paths, key)
	if k < 0 {
		k = len(d.paths)
		d.paths, d.bridges = append(d.paths, key), append(d.bridges, bridge{switched: switched})
	}
	return &d.bridges[k]
}

// above is what path has above its device: the PCIe switch next to the root, or else "",
// for devices at roots of their own are no nearer to each other than to others.
func above(path string) (key string, switched bool) {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		// Root, its port, the switch's port up, its port down, the device.
		if strings.HasPrefix(parts[i], "pci") && len(parts)-i >= 5 {
			return strings.Join(parts[:i+3], "/"), true
		}
	}
	return "", false
}

// domains are the NUMA nodes in order, each with its switches in the order of their GPUs.
func (t *tree) domains() []domain {
	var all []domain
	for _, b := range t.of {
		if len(b.bridges) == 0 {
			continue
		}
		slices.SortStableFunc(b.bridges, func(x, y bridge) int { return cmp.Compare(first(x), first(y)) })
		all = append(all, b.domain)
	}
	slices.SortFunc(all, func(a, b domain) int { return cmp.Compare(a.id, b.id) })
	return all
}

// first is the lowest index of a GPU below b; those without GPUs come last.
func first(b bridge) int {
	if len(b.gpus) == 0 {
		return 1 << 30
	}
	return b.gpus[0].index
}
