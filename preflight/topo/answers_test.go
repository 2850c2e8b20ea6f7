package topo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// use calls everything that a View has.
func use(v *View) {
	v.Islands()
	v.Cliques()
	v.Assign()
	order := v.Order()
	v.Ring(order)
	for _, tp := range []int{0, 1, 2, 4, len(order), len(order) + 1} {
		v.Groups(tp)
	}
	v.Evidence()
	v.Contradictions()
	v.Fingerprint()
	v.Explain(v)
}

// sets writes sets of GPUs as "0,1 2,3".
func sets(groups [][]int) string {
	var all []string
	for _, g := range groups {
		all = append(all, strings.Trim(strings.ReplaceAll(fmt.Sprint(g), " ", ","), "[]"))
	}
	return strings.Join(all, " ")
}

// assigned writes assignments as "mlx5_0 mlx5_1": by the order of the GPUs, "-" for none.
func assigned(v *View) string {
	var all []string
	for _, a := range v.Assign() {
		name := a.NIC
		if name == "" {
			name = "-"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestRightAnswers(t *testing.T) {
	const all8 = "0,1,2,3,4,5,6,7"
	for _, tt := range []struct {
		number            string
		islands, cliques  string
		nics, class       string // nearest NICs, and how near each GPU's is
		order             string
		tp2, tp4, tp8     string
		nvlinkUnknown     bool
		differentGPUsNICs bool // each GPU its own NIC
	}{
		{number: "01", islands: all8, cliques: "0,1,2,3 4,5,6,7", nics: "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3", class: "PIX", order: all8,
			tp2: "0,3 1,2 4,7 5,6", tp4: "0,1,2,3 4,5,6,7", tp8: all8},
		{number: "02", islands: "0 1 2 3", cliques: "0 1 2 3", nics: "mlx5_0 mlx5_1 mlx5_2 mlx5_3", class: "NODE", order: "0,1,2,3", tp2: "0,1 2,3", tp4: "0,1,2,3", differentGPUsNICs: true},
		{number: "03", islands: "0 1", cliques: "0 1", nics: "mlx5_0 mlx5_1", class: "NODE", order: "0,1", tp2: "0,1", differentGPUsNICs: true},
		{number: "04", islands: "0,1 2", cliques: "0,1 2", nics: "- - -", class: "unknown", order: "0,1,2", tp2: "0,1"},
		{number: "05", islands: "0 1", cliques: "0 1", nics: "mlx5_0 mlx5_1", class: "NODE", order: "0,1", tp2: "0,1", differentGPUsNICs: true},
		{number: "06", islands: "0,1 2,3", cliques: "0,1 2,3", nics: "mlx5_0 mlx5_1 mlx5_2 mlx5_3", class: "NODE", order: "0,1,2,3", tp2: "0,1 2,3", tp4: "0,1,2,3", differentGPUsNICs: true},
		{number: "07", islands: all8, cliques: all8, nics: "mlx5_2 mlx5_3 mlx5_0 mlx5_1 mlx5_8 mlx5_9 mlx5_4 mlx5_5", class: "PXB", order: all8,
			tp2: "0,1 2,3 4,5 6,7", tp4: "0,1,2,3 4,5,6,7", tp8: all8, differentGPUsNICs: true},
		{number: "08", islands: "0 1 2 3", cliques: "0 1 2 3", nics: "- - - -", class: "unknown", order: "0,1,2,3", tp2: "0,1 2,3", tp4: "0,1,2,3"},
		{number: "10", islands: all8, cliques: all8, nics: "mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8", class: "PIX", order: all8,
			tp2: "0,1 2,3 4,5 6,7", tp4: "0,1,2,3 4,5,6,7", tp8: all8, differentGPUsNICs: true},
		{number: "12", islands: "0,1,2,3", cliques: "0,1,2,3", nics: "mlx5_0 mlx5_1 mlx5_2 mlx5_3", class: "SYS", order: "0,1,2,3", tp2: "0,1 2,3", tp4: "0,1,2,3", differentGPUsNICs: true},
		{number: "14", islands: "0 1", cliques: "0 1", nics: "- -", class: "unknown", order: "0,1", tp2: "0,1"},
		{number: "16", islands: "0 1 2 3", cliques: "0 1 2 3", nics: "- - - -", class: "unknown", order: "0,1,2,3", tp2: "0,1 2,3", tp4: "0,1,2,3"},
		{number: "18", nvlinkUnknown: true, nics: strings.Repeat("mlx4_0 ", 6) + "mlx4_0", class: "PIX PIX PIX PHB PHB PHB PHB", order: "0,1,2,3,4,5,6", tp2: "0,1 3,4 5,6", tp4: "3,4,5,6"},
		{number: "19", islands: all8, cliques: all8, nics: "mlx5_0 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11", class: "PIX", order: all8,
			tp2: "0,1 2,3 4,5 6,7", tp4: "0,1,2,3 4,5,6,7", tp8: all8, differentGPUsNICs: true},
		{number: "21", islands: "0,1", cliques: "0,1", nics: "NIC6 NIC7", class: "PXB", order: "0,1", tp2: "0,1", differentGPUsNICs: true},
		{number: "24", nvlinkUnknown: true, nics: "mlx5_0 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11", class: "PIX", order: all8,
			tp2: "0,1 2,3 4,5 6,7", tp4: "0,1,2,3 4,5,6,7", tp8: all8, differentGPUsNICs: true},
		{number: "25", islands: all8, cliques: all8, nics: "mlx5_0 mlx5_1 mlx5_2 mlx5_5 mlx5_6 mlx5_7 mlx5_8 mlx5_11", class: "PIX", order: all8,
			tp2: "0,1 2,3 4,5 6,7", tp4: "0,1,2,3 4,5,6,7", tp8: all8, differentGPUsNICs: true},
	} {
		t.Run("sample-"+tt.number, func(t *testing.T) {
			v := New(nil, nil, parsed(t, tt.number))
			check := func(what, got, want string) {
				if got != want {
					t.Errorf("%s: got %q; want %q", what, got, want)
				}
			}
			check("islands", sets(v.Islands()), tt.islands)
			check("cliques", sets(v.Cliques()), tt.cliques)
			check("NICs", assigned(v), tt.nics)
			check("order", sets([][]int{v.Order()}), tt.order)
			check("tp 2", sets(v.Groups(2).Groups), tt.tp2)
			check("tp 4", sets(v.Groups(4).Groups), tt.tp4)
			check("tp 8", sets(v.Groups(8).Groups), tt.tp8)
			if known, _ := v.NVLinkKnown(); known == tt.nvlinkUnknown {
				t.Errorf("NVLink known: got %v", known)
			}
			classes := strings.Fields(tt.class)
			for i, a := range v.Assign() {
				if want := classes[i%len(classes)]; a.Link.String() != want || a.Shared != (!tt.differentGPUsNICs && a.NIC != "") {
					t.Errorf("GPU%d: got %+v; want %s, shared %v", a.GPU, a, want, !tt.differentGPUsNICs)
				}
			}
		})
	}
}

func TestGroupsSayWhatTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name, number string
		tp           int
		left         string
		worst        string
		clique, node bool // cross NUMA nodes
		why          string
	}{
		{"clique-over-nodes", "10", 8, "", "NV18", true, true, "Groups have GPUs of several NUMA nodes."},
		{"clique-in-a-node", "10", 4, "", "NV18", true, false, "NVLink, NV18 or wider"},
		{"widest-pairs", "01", 2, "", "NV2", true, false, "NV2 or wider"},
		{"mesh-that-is-no-clique", "01", 8, "", "SYS", false, true, "NVLink connects each group but not each pair"},
		{"seven-in-pairs", "18", 2, "2", "PIX", false, false, "7 GPUs do not divide into groups of 2: GPU2 is left over"},
		{"four-of-seven", "18", 4, "0,1,2", "PIX", false, false, "GPU0, GPU1, GPU2 are left over"},
		{"one-bridge-and-one-alone", "04", 2, "2", "NV4", true, false, "GPU2 is left over"},
		{"three-of-which-two-have-a-bridge", "04", 3, "", "NODE", false, false, "through the CPU (NODE), which is slow"},
		{"across-sockets", "05", 2, "", "SYS", false, true, "only across NUMA nodes (SYS)"},
		{"more-than-there-are", "05", 4, "0,1", "X", false, false, "no group of 4 GPUs on a host with 2"},
		{"none", "05", 0, "0,1", "X", false, false, "cannot have 0 GPUs"},
		{"each-alone", "02", 1, "", "X", false, false, "by itself"},
		{"mode-without-nvlink", "24", 4, "", "NODE", false, false, "By PCIe, the GPUs of a group are at most NODE from each other. Which GPUs have NVLink is not known: the matrix is that of nvidia-smi topo -mp"},
		{"pairs-that-need-no-other-socket", "02", 2, "", "NODE", false, false, "(NODE)"},
		{"tray-of-gb200", "12", 4, "", "NV18", true, true, "NV18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := New(nil, nil, parsed(t, tt.number)).Groups(tt.tp)
			if got := sets([][]int{g.Left}); got != tt.left {
				t.Errorf("left: got %q; want %q", got, tt.left)
			}
			if g.Worst.String() != tt.worst || g.Clique != tt.clique || g.CrossNUMA != tt.node {
				t.Errorf("got worst %s, clique %v, across nodes %v; want %s, %v, %v", g.Worst, g.Clique, g.CrossNUMA, tt.worst, tt.clique, tt.node)
			}
			if !strings.Contains(g.Why, tt.why) || !strings.HasSuffix(g.Why, ".") {
				t.Errorf("why: got %q; want %q in it", g.Why, tt.why)
			}
		})
	}
}

func TestDGX1(t *testing.T) {
	v := New(nil, nil, parsed(t, "01"))
	ring, step := v.Ring(v.Order())
	if want := []int{0, 3, 2, 1, 5, 6, 7, 4}; !slices.Equal(ring, want) || step.String() != "NV2" {
		t.Errorf("got ring %v by %s; want %v by NV2", ring, step, want)
	}
	var missing []string
	for i := range 8 {
		for j := i + 1; j < 8; j++ {
			if l := v.Between(i, j); l.Kind != NV {
				missing = append(missing, fmt.Sprintf("%d-%d %s", i, j, l))
			}
		}
	}
	if got, want := strings.Join(missing, ","), "0-5 SYS,0-6 SYS,0-7 SYS,1-4 SYS,1-6 SYS,1-7 SYS,2-4 SYS,2-5 SYS,2-7 SYS,3-4 SYS,3-5 SYS,3-6 SYS"; got != want {
		t.Errorf("got pairs without NVLink %s; want %s", got, want)
	}
	for set, want := range map[string]bool{"0 1 2 3": true, "4 5 6 7": true, "0 1 2 4": false, "0": true, "0 99": false, "": false} {
		var gpus []int
		for _, w := range strings.Fields(set) {
			var n int
			fmt.Sscan(w, &n)
			gpus = append(gpus, n)
		}
		if got := v.IsClique(gpus); got != want {
			t.Errorf("clique %q: got %v; want %v", set, got, want)
		}
	}
}

func TestRing(t *testing.T) {
	for _, tt := range []struct{ number, ring, step string }{
		{"10", "0,1,2,3,4,5,6,7", "NV18"}, {"04", "0,1,2", "NODE"}, {"05", "0,1", "SYS"}, {"02", "0,1,2,3", "SYS"},
	} {
		v := New(nil, nil, parsed(t, tt.number))
		ring, step := v.Ring(v.Order())
		if got := sets([][]int{ring}); got != tt.ring || step.String() != tt.step {
			t.Errorf("sample %s: got %s by %s; want %s by %s", tt.number, got, step, tt.ring, tt.step)
		}
	}
}

func TestNotesOfSamples(t *testing.T) {
	for number, want := range map[string]string{"25": "numa=off", "21": "does not name NIC0"} {
		v := New(nil, nil, parsed(t, number))
		if !slices.ContainsFunc(v.Notes, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("sample %s: got notes %q; want %q", number, v.Notes, want)
		}
	}
}

// square builds a host of n GPUs with the link that between gives, without a matrix of text.
func square(n int, between func(i, j int) Link) *Matrix {
	m := &Matrix{GPUs: n, Legend: true, Cells: make([][]Link, n), CPUAffinity: make([]string, n), NUMAAffinity: make([]string, n), GPUNUMA: make([]string, n)}
	for i := range n {
		m.Columns = append(m.Columns, gpuName(i))
		m.Cells[i] = make([]Link, n)
		for j := range n {
			m.Cells[i][j] = between(min(i, j), max(i, j))
			if i == j {
				m.Cells[i][j] = Link{Kind: Self}
			}
		}
	}
	m.Names = m.Columns
	return m
}

func TestSixteenGPUs(t *testing.T) {
	// Bridged pairs (0,8), (1,9), ... cut across the order of the indices.
	v := New(nil, nil, square(16, func(i, j int) Link {
		if j == i+8 {
			return Link{Kind: NV, NVLinks: 4}
		}
		return Link{Kind: NODE}
	}))
	if got, want := sets(v.Groups(2).Groups), "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"; got != want {
		t.Errorf("pairs: got %s; want %s", got, want)
	}
	if got, want := sets([][]int{v.Order()}), "0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15"; got != want {
		t.Errorf("order: got %s; want %s", got, want)
	}
	for _, tp := range []int{3, 5, 8, 16} {
		g := v.Groups(tp)
		if len(g.Groups) != 16/tp || len(g.Left) != 16%tp {
			t.Errorf("tp %d: got %v, left %v", tp, g.Groups, g.Left)
		}
	}
}

func TestManyGPUsAreGroupedInOrder(t *testing.T) {
	v := New(nil, nil, square(24, func(i, j int) Link { return Link{Kind: NV, NVLinks: 2} }))
	g := v.Groups(5)
	if len(g.Groups) != 4 || len(g.Left) != 4 || !g.Clique {
		t.Errorf("got %+v; want 4 groups and 4 left", g)
	}
	use(v)
}

func TestWidestCutWins(t *testing.T) {
	// A ring of eight, thin between 3 and 4 and between 7 and 0.
	v := New(nil, nil, square(8, func(i, j int) Link {
		switch {
		case i == 3 && j == 4, i == 0 && j == 7:
			return Link{Kind: NV, NVLinks: 1}
		case j == i+1:
			return Link{Kind: NV, NVLinks: 4}
		}
		return Link{Kind: NODE}
	}))
	if got, want := sets(v.Groups(4).Groups), "0,1,2,3 4,5,6,7"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestNoSplitOverNodesWithoutNeed(t *testing.T) {
	m := square(4, func(i, j int) Link { return Link{Kind: NV, NVLinks: 18} })
	m.NUMAAffinity = []string{"0", "1", "0", "1"}
	v := New(nil, nil, m)
	if got := sets(v.Groups(2).Groups); got != "0,2 1,3" {
		t.Errorf("groups: got %s; want 0,2 1,3", got)
	}
	if got := sets([][]int{v.Order()}); got != "0,2,1,3" {
		t.Errorf("order: got %s; want 0,2,1,3", got)
	}
}

func BenchmarkHost(b *testing.B) {
	m := parsed(b, "19")
	for b.Loop() {
		v := New(nil, nil, m)
		v.Assign()
		v.Groups(4)
		v.Fingerprint()
	}
}
