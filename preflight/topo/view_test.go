package topo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// dellNICs are the NICs of sample 19 with the states that ibstat tells. The copy of its output
// ends at mlx5_7; mlx5_8 is taken to be its twin and mlx5_9 one of the eight.
func dellNICs(t *testing.T) []NIC {
	t.Helper()
	b, err := os.ReadFile("testdata/ibstat-dell.txt")
	if err != nil {
		t.Fatal(err)
	}
	var nics []NIC
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "CA '"); ok {
			nics = append(nics, NIC{Name: strings.TrimSuffix(name, "'"), Device: Device{NUMA: -1}, Ports: []Port{{Number: 1}}})
		}
		if len(nics) == 0 {
			continue
		}
		p := &nics[len(nics)-1].Ports[0]
		switch key, value, _ := strings.Cut(line, ": "); key {
		case "State":
			p.Active = value == "Active"
		case "Rate":
			fmt.Sscan(value, &p.Rate)
		case "Link layer":
			p.Layer = value
		}
	}
	nics = append(nics,
		NIC{Name: "mlx5_8", Device: Device{NUMA: -1}, Ports: []Port{{1, true, "Ethernet", 100}}},
		NIC{Name: "mlx5_9", Device: Device{NUMA: -1}, Ports: []Port{{1, true, "InfiniBand", 400}}})
	return nics
}

func TestNearestNICsOnADellWithEthernet(t *testing.T) {
	nics := dellNICs(t)
	if len(nics) != 12 {
		t.Fatalf("got %d NICs; want 12", len(nics))
	}
	v := New(nil, nics, parsed(t, "19"))
	if got, want := assigned(v), "mlx5_0 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	for _, n := range v.NICs {
		want := map[string]string{"mlx5_1": "no port is active", "mlx5_2": "no port is active", "mlx5_7": "link layer is Ethernet", "mlx5_8": "link layer is Ethernet"}[n.Name]
		if n.Usable != (want == "") || !strings.Contains(n.Reason, want) {
			t.Errorf("%s: got usable %v, reason %q; want %q", n.Name, n.Usable, n.Reason, want)
		}
	}
	// With its own down, GPU0 shares the one that is nearest of the others.
	for i := range nics {
		if nics[i].Name == "mlx5_0" {
			nics[i].Ports[0].Active = false
		}
	}
	a := New(nil, nics, parsed(t, "19")).Assign()[0]
	if a.NIC != "mlx5_3" || a.Link.Kind != NODE || !a.Shared || a.Direct() {
		t.Errorf("GPU0 without its NIC: got %+v; want mlx5_3 by NODE, shared", a)
	}
}

func TestNICsOfAnH100Host(t *testing.T) {
	dirs, err := filepath.Glob("testdata/h100/*/ports/1")
	if err != nil || len(dirs) != 9 {
		t.Fatalf("got %d NICs, %v; want 9", len(dirs), err)
	}
	var nics []NIC
	for _, dir := range dirs {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(b))
		}
		p := Port{Number: 1, Active: read("state") == "4: ACTIVE", Layer: read("link_layer")}
		fmt.Sscan(read("rate"), &p.Rate)
		nics = append(nics, NIC{Name: filepath.Base(filepath.Dir(filepath.Dir(dir))), Ports: []Port{p}})
	}
	for _, n := range New(nil, nics, nil).NICs {
		if n.Usable != (n.Name != "mlx5_bond_0") {
			t.Errorf("%s: got usable %v, reason %q", n.Name, n.Usable, n.Reason)
		}
	}
}

func TestUsable(t *testing.T) {
	up := func(layer string, rate float64) []Port { return []Port{{1, true, layer, rate}} }
	for _, tt := range []struct {
		name   string
		nics   []NIC
		usable string // names
	}{
		{"all-equal", []NIC{{Name: "a", Ports: up("Ethernet", 200)}, {Name: "b", Ports: up("Ethernet", 200)}}, "a b"},
		{"slow-management", []NIC{{Name: "a", Ports: up("Ethernet", 400)}, {Name: "b", Ports: up("Ethernet", 25)}}, "a"},
		{"half-rate-is-a-fault-not-another-network", []NIC{{Name: "a", Ports: up("InfiniBand", 400)}, {Name: "b", Ports: up("InfiniBand", 200)}}, "a b"},
		{"storage-infiniband-beside-roce", []NIC{{Name: "a", Ports: up("Ethernet", 400)}, {Name: "b", Ports: up("Ethernet", 400)}, {Name: "c", Ports: up("InfiniBand", 200)}}, "a b"},
		{"equal-bandwidth", []NIC{{Name: "a", Ports: up("Ethernet", 200)}, {Name: "b", Ports: up("InfiniBand", 200)}}, "b"},
		{"down-with-a-rate", []NIC{{Name: "a", Ports: []Port{{1, false, "InfiniBand", 400}}}, {Name: "b", Ports: up("Ethernet", 100)}}, "b"},
		{"second-port-is-up", []NIC{{Name: "a", Ports: []Port{{1, false, "InfiniBand", 40}, {2, true, "InfiniBand", 40}}}}, "a"},
		{"ports-of-two-layers", []NIC{{Name: "a", Ports: []Port{{1, true, "Ethernet", 400}, {2, true, "InfiniBand", 400}}}, {Name: "b", Ports: up("InfiniBand", 400)}}, "a b"},
		{"nothing-known", []NIC{{Name: "a"}}, "a"},
		{"no-ports", []NIC{{Name: "a", Ports: []Port{}}}, ""},
		{"rate-not-known", []NIC{{Name: "a", Ports: up("InfiniBand", 0)}, {Name: "b", Ports: up("InfiniBand", 400)}}, "a b"},
		{"excluded-by-the-user", []NIC{{Name: "a", Ports: up("InfiniBand", 400), Excluded: "NCCL_IB_HCA excludes it"}, {Name: "b", Ports: up("Ethernet", 100)}}, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, n := range New(nil, tt.nics, nil).NICs {
				if n.Usable != (n.Reason == "") {
					t.Errorf("%s: got usable %v with reason %q", n.Name, n.Usable, n.Reason)
				}
				if n.Usable {
					got = append(got, n.Name)
				}
			}
			if strings.Join(got, " ") != tt.usable {
				t.Errorf("got %q; want %q", got, tt.usable)
			}
		})
	}
}

func pci(numa int, path string) Device {
	return Device{BDF: filepath.Base(path), Path: "/sys/devices/" + path, NUMA: numa}
}

// gb200 are the devices of sample 12, each in a PCI domain of its own.
func gb200() ([]GPU, []NIC) {
	var gpus []GPU
	var nics []NIC
	for i, domain := range []int{8, 9, 0x18, 0x19} {
		gpus = append(gpus, GPU{Index: i, Device: pci(i/2, fmt.Sprintf("pci%04x:00/%04x:00:00.0/%04x:01:00.0", domain, domain, domain)), FabricCluster: "c1", FabricClique: "0"})
	}
	for i := range 8 {
		at := fmt.Sprintf("%04x", i/4*16+[]int{0, 2, 6, 6}[i%4])
		nics = append(nics, NIC{Name: fmt.Sprintf("mlx5_%d", i), Device: pci(i/4, "pci"+at+":00/"+at+":00:00.0/"+at+":01:00."+fmt.Sprint(max(0, i%4-2)))})
	}
	return gpus, nics
}

func TestTreeIsAskedWhereTheMatrixSaysNothing(t *testing.T) {
	gpus, nics := gb200()
	v := New(gpus, nics, parsed(t, "12"))
	if got, want := assigned(v), "mlx5_0 mlx5_1 mlx5_4 mlx5_5"; got != want {
		t.Errorf("got NICs %s; want %s", got, want)
	}
	for _, a := range v.Assign() {
		if a.Link.Kind != NODE {
			t.Errorf("GPU%d: got %s; want NODE", a.GPU, a.Link)
		}
	}
	if got := v.Contradictions(); len(got) != 0 {
		t.Errorf("got contradictions %v; want none", got)
	}
	if !slices.ContainsFunc(v.Notes, func(s string) bool { return strings.Contains(s, "knows better") }) {
		t.Errorf("got notes %q; want one on the matrix", v.Notes)
	}
	if got := sets(v.Groups(2).Groups); got != "0,1 2,3" {
		t.Errorf("got groups %s; want 0,1 2,3", got)
	}
}

func TestTreeAlone(t *testing.T) {
	vm := machines(t)[1]
	gpus := []GPU{{Index: 0, Device: vm["0000:43:00.0"]}, {Index: 1, Device: vm["0000:47:00.0"]}, {Index: 2, Device: vm["0000:c1:00.0"]}, {Index: 3, Device: vm["0000:81:00.0"]}}
	v := New(gpus, []NIC{{Name: "rxe0", Device: vm["0000:46:00.0"]}}, nil)
	if known, why := v.NVLinkKnown(); known || why == "" || v.Islands() != nil || v.Cliques() != nil {
		t.Errorf("got NVLink known %v, %q; want unknown", known, why)
	}
	var got []string
	for i := range 4 {
		got = append(got, v.ToNIC(i, "rxe0").String())
	}
	if want := []string{"PXB", "PIX", "NODE", "SYS"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if got := v.Between(0, 1).String(); got != "PXB" {
		t.Errorf("GPU0 and GPU1: got %s; want PXB", got)
	}
	if got := sets(v.Groups(2).Groups); got != "0,1 2,3" {
		t.Errorf("got groups %s; want 0,1 2,3", got)
	}
	if e := v.Evidence()[0]; e.Source != FromTree || e.Matrix.Known() {
		t.Errorf("got %+v; want it from the tree", e)
	}
	for _, l := range []Link{v.Between(0, 9), v.Between(9, 0), v.ToNIC(0, "no"), v.ToNIC(9, "rxe0")} {
		if l.Known() {
			t.Errorf("what is not there: got %s; want unknown", l)
		}
	}
}

func TestContradictions(t *testing.T) {
	gpus := []GPU{
		{Index: 0, Device: pci(0, "pci0000:40/0000:40:01.0/0000:41:00.0")},
		{Index: 1, Device: pci(0, "pci0000:60/0000:60:01.0/0000:61:00.0")},
	}
	nics := []NIC{
		{Name: "mlx5_0", Device: pci(0, "pci0000:20/0000:20:01.0/0000:21:00.0")},
		{Name: "mlx5_1", Device: pci(0, "pci0000:20/0000:20:01.0/0000:21:00.1")},
	}
	v := New(gpus, nics, parsed(t, "03"))
	got := v.Contradictions()
	if len(got) != 1 || got[0].String() != "GPU0 and GPU1: nvidia-smi says PHB, the PCI tree NODE" || got[0].Source != FromMatrix {
		t.Errorf("got %v; want GPU0 and GPU1, answered by the matrix", got)
	}
	if len(v.Notes) != 0 {
		t.Errorf("got notes %q; want none", v.Notes)
	}
}

func TestDevicesThatTheOtherSourceHasNot(t *testing.T) {
	gpus := []GPU{{Index: 0, Device: Device{NUMA: -1}}, {Index: 5, Device: Device{NUMA: -1}}, {Index: 5}}
	v := New(gpus, []NIC{{Name: "mlx5_0"}, {Name: "mlx5_0"}, {Name: "rxe0"}}, parsed(t, "03"))
	all := strings.Join(v.Notes, "\n")
	for _, want := range []string{"GPU5 is one GPU too many", "GPU5 is not in the matrix", "has 1 GPUs of which", `"mlx5_0" is one NIC too many`, "NIC1 (mlx5_1)"} {
		if !strings.Contains(all, want) {
			t.Errorf("got notes\n%s\nwant %q", all, want)
		}
	}
	if got := v.ToNIC(0, "mlx5_0"); got.Kind != NODE {
		t.Errorf("got %s; want NODE", got)
	}
}

func TestNodesThatDiffer(t *testing.T) {
	v := New([]GPU{{Index: 0, Device: Device{NUMA: 0}}, {Index: 1, Device: Device{NUMA: 0}}}, nil, parsed(t, "05"))
	if len(v.Notes) != 2 || !strings.Contains(v.Notes[0], "GPU1 is on NUMA node 0 for the kernel and on 1 for nvidia-smi") {
		t.Errorf("got notes %q; want one on GPU1", v.Notes)
	}
}

func TestNICsWithoutAddressAreInTheOrderOfTheMatrix(t *testing.T) {
	v := New(nil, []NIC{{Name: "rxe0"}, {Name: "mlx5_3"}, {Name: "mlx5_1"}, {Name: "mlx5_2"}}, parsed(t, "01"))
	var got []string
	for _, n := range v.NICs {
		got = append(got, n.Name)
	}
	if want := []string{"mlx5_2", "mlx5_1", "mlx5_3", "rxe0"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestPartedGPUsHaveNoNVLink(t *testing.T) {
	var gpus []GPU
	for i := range 8 {
		gpus = append(gpus, GPU{Index: i, MIG: i == 3, Device: Device{NUMA: i / 4}})
	}
	v := New(gpus, nil, parsed(t, "10"))
	if got := sets(v.Islands()); got != "0,1,2,4,5,6,7 3" {
		t.Errorf("got islands %s; want GPU3 alone", got)
	}
}

func TestUnwholeMatrixIsNotBelieved(t *testing.T) {
	for name, damage := range map[string]func(*Matrix){
		"no-cells":       func(m *Matrix) { m.Cells = nil },
		"short-row":      func(m *Matrix) { m.Cells[1] = m.Cells[1][:1] },
		"asymmetric":     func(m *Matrix) { m.Cells[0][1] = Link{Kind: PIX} },
		"no-affinity":    func(m *Matrix) { m.NUMAAffinity = nil },
		"too-many-gpus":  func(m *Matrix) { m.GPUs = 99 },
		"a-nic-as-gpu":   func(m *Matrix) { m.GPUs, m.CPUAffinity = 3, append(m.CPUAffinity, "") },
		"a-name-of-dirt": func(m *Matrix) { m.Names[2] = "mlx5\x1b[2J" },
		"names-short":    func(m *Matrix) { m.Names = m.Names[:1] },
	} {
		m := parsed(t, "03")
		damage(m)
		v := New(nil, nil, m)
		use(v)
		if v.Matrix != nil || len(v.Notes) == 0 {
			t.Errorf("%s: got matrix %v, notes %q; want it left out", name, v.Matrix, v.Notes)
		}
	}
}

func TestNothingAtAll(t *testing.T) {
	use(New(nil, nil, nil))
	use(New([]GPU{}, []NIC{}, nil))
}

func TestMatrixAsJSON(t *testing.T) {
	for _, number := range samples(t) {
		m := parsed(t, number)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Matrix
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(&back, m) {
			t.Errorf("sample %s: got %+v, %v; want %+v", number, back, err, *m)
		}
	}
	var l Link
	if err := l.UnmarshalText([]byte("NV18 ")); err == nil {
		t.Error("got no error of a bad link")
	}
	if err := l.UnmarshalText(nil); err != nil || l.Known() || (Link{}).Known() || (Link{}).String() != "unknown" {
		t.Errorf("got %s, %v; want unknown", l, err)
	}
}

func TestLinksByDistance(t *testing.T) {
	var prev Link
	for i, s := range []string{"X", "NV18", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS", "unknown"} {
		var l Link
		if err := l.UnmarshalText([]byte(s)); err != nil || l.String() != s {
			t.Errorf("%s: got %s, %v", s, l, err)
		}
		if i > 0 && (prev.Compare(l) >= 0 || l.Compare(prev) <= 0) {
			t.Errorf("%s is not nearer than %s", prev, l)
		}
		prev = l
	}
	if (Link{}).Within(SYS) || (Link{}).Within(Unknown) || (Link{Kind: Unknown}).Within(Unknown) {
		t.Error("an unknown link is within some distance")
	}
}

func TestFingerprint(t *testing.T) {
	gpus, nics := gb200()
	v := New(gpus, nics, parsed(t, "12"))
	renamed := slices.Clone(nics)
	for i := range renamed {
		renamed[i].Name = fmt.Sprintf("ibp%d", 9-i)
	}
	slices.Reverse(renamed)
	down := slices.Clone(nics)
	down[3].Ports = []Port{}
	other := slices.Clone(nics)
	other[5].NUMA = 0
	moved := slices.Clone(gpus)
	moved[2].NUMA = 0
	rxe := append(slices.Clone(nics), NIC{Name: "rxe0", Device: Device{NUMA: -1}})
	base := New(gpus, nics, nil)
	for _, tt := range []struct {
		name      string
		got, with *View
		want      string // of the difference
	}{
		{"itself", v, v, ""},
		{"other-names-and-order", New(gpus, renamed, nil), base, ""},
		{"a-port-down", New(gpus, down, nil), base, ""},
		{"a-virtual-device-more", New(gpus, rxe, nil), base, ""},
		{"a-nic-elsewhere", New(gpus, other, nil), base, "GPU0 reaches mlx5_5 by NODE, the other host's GPU0 mlx5_5 by SYS"},
		{"a-gpu-elsewhere", New(moved, nics, nil), base, "GPU0 reaches GPU2 by NODE, the other host's GPU0 GPU2 by SYS"},
		{"a-nic-less", New(gpus, nics[:7], nil), base, "7 NICs, the other host has 8"},
		{"a-gpu-less", New(gpus[:3], nics, nil), base, "3 GPUs, the other host has 4"},
		{"no-matrix", base, v, "GPU0 reaches GPU1 by NODE, the other host's GPU0 GPU1 by NV18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.got.Explain(tt.with); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			if equal := tt.got.Fingerprint() == tt.with.Fingerprint(); equal != (tt.want == "") {
				t.Errorf("got equal fingerprints %v\n%s\n%s", equal, tt.got.Fingerprint(), tt.with.Fingerprint())
			}
		})
	}
}

func TestFingerprintsOfSamplesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, number := range samples(t) {
		f := New(nil, nil, parsed(t, number)).Fingerprint()
		if seen[f] != "" {
			t.Errorf("samples %s and %s have the same", number, seen[f])
		}
		seen[f] = number
	}
}

func TestDomains(t *testing.T) {
	host := func(name string, fabric ...string) HostGPUs {
		h := HostGPUs{Host: name}
		for i, f := range fabric {
			cluster, clique, _ := strings.Cut(f, "@")
			h.GPUs = append(h.GPUs, GPU{Index: i, FabricCluster: cluster, FabricClique: clique})
		}
		return h
	}
	zero := "00000000-0000-0000-0000-000000000000@0"
	got := Domains([]HostGPUs{
		host("tray1", "C1@1", "C1@1"), host("hgx1", zero, zero), host("tray2", "c1@1", "c1@1"), host("tray3", "c1@2", "c1@2"),
		host("hgx2", "N/A@N/A"), host("bare"), host("mixed", "c1@1", zero), host("tray4", "c2@1"),
	})
	want := []string{"c1/1: tray1 tray2", "/: hgx1", "c1/2: tray3", "/: hgx2", "/: bare", "/: mixed", "c2/1: tray4"}
	var lines []string
	for _, d := range got {
		lines = append(lines, d.Cluster+"/"+d.Clique+": "+strings.Join(d.Hosts, " "))
		if (d.Note != "") != (d.Hosts[0] == "mixed") {
			t.Errorf("%s: got note %q", d.Hosts[0], d.Note)
		}
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q; want %q", lines, want)
	}
}

func FuzzMatrixFromJSON(f *testing.F) {
	for _, number := range []string{"03", "04", "12", "18"} {
		b, err := json.Marshal(parsed(f, number))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Matrix
		if json.Unmarshal(b, &m) != nil {
			return
		}
		use(New(nil, nil, &m))
		use(New([]GPU{{Index: 0}, {Index: -1}, {Index: 1}}, []NIC{{Name: "mlx5_0"}, {Name: "NIC1"}}, &m))
	})
}
