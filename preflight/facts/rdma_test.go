package facts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// dumped is a tree of what a file of testdata says: lines of path and content, which real
// hosts had. What could not be read there is not there here.
func dumped(t *testing.T, name string, more map[string]string) *source {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		path, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " =")
		if ok && !strings.HasSuffix(value, "<unreadable>") {
			files[path] = strings.TrimPrefix(value, " ") + "\n"
		}
	}
	for path, content := range more {
		files[path] = content
	}
	return tree(t, files)
}

func rdma(t *testing.T, s *source, o Order) RDMA {
	t.Helper()
	var h Host
	if err := collectRDMA(o.withDefaults())(t.Context(), s, &h); err != nil {
		t.Fatal(err)
	}
	return h.RDMA
}

// TestRxe reads what two software devices of a real kernel said.
func TestRxe(t *testing.T) {
	s := dumped(t, "rxe-sysfs.txt", map[string]string{
		"/dev/infiniband/uverbs0": "", "/dev/infiniband/uverbs1": "-> /nowhere",
		"/sys/module/rdma_rxe/": "", "/sys/module/ib_uverbs/": "", "/sys/class/infiniband_mad/abi_version": "5\n",
	})
	r := rdma(t, s, Order{})
	want := HCA{
		Name: "rxe0", NUMA: -1, Parent: "veth0", GUID: "68a1:fcff:fe93:c62e", ImageGUID: "68a1:fcff:fe93:c62e", Uverbs: "/dev/infiniband/uverbs0",
		Ports: []Port{{
			Num: 1, State: "ACTIVE", Phys: "LinkUp", Rate: 10, RateText: "10 Gb/sec (1X FDR10)", Layer: "Ethernet",
			PKeys: []string{"0xffff"}, NetDevs: []string{"veth0"}, MTU: 4096,
			GIDs: []GID{
				{0, "fe80::68a1:fcff:fe93:c62e", "RoCE v2", "veth0"},
				{1, "::ffff:10.77.0.1", "RoCE v2", "veth0"},
			},
		}},
	}
	if len(r.Devices) != 2 {
		t.Fatalf("got %d devices; want 2", len(r.Devices))
	}
	if diff := cmp.Diff(want, r.Devices[0]); diff != "" {
		t.Error(diff)
	}
	if got, want := r.Devices[1].Open, "no such file or directory"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if diff := cmp.Diff(map[string]string{"rdma_rxe": "", "ib_uverbs": ""}, r.Modules); diff != "" {
		t.Error(diff)
	}
	if r.ABI != "5" || r.PeerMem || r.DMABuf != "" {
		t.Errorf("got ABI %q, peermem %v, DMA-BUF %q; want 5, false and nothing known", r.ABI, r.PeerMem, r.DMABuf)
	}
}

// hcaDevice adds the PCI device of an HCA to files.
func hcaDevice(files map[string]string, name, bdf string) {
	path := "/sys/devices/pci0000:10/0000:10:01.0/" + bdf
	for file, content := range map[string]string{
		"numa_node": "1", "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "8", "max_link_width": "16", "net/ib_" + name + "/dev_port": "0",
	} {
		files[path+"/"+file] = content
	}
	// The tree has a class directory where a kernel has a link to the device's.
	files["/sys/class/infiniband/"+name+"/device"] = "-> ../../../devices/pci0000:10/0000:10:01.0/" + bdf
}

func TestH100(t *testing.T) {
	more := map[string]string{
		"/proc/driver/nvidia/version":                               "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n",
		"/proc/sys/kernel/osrelease":                                "5.15.0-1053\n",
		"/sys/module/nvidia_peermem/version":                        "550.54.15\n",
		"/sys/devices/pci0000:10/0000:10:01.0/0000:12:00.1/physfn/": "",
	}
	hcaDevice(more, "mlx5_0", "0000:13:00.0")
	hcaDevice(more, "mlx5_9", "0000:12:00.1")
	r := rdma(t, dumped(t, "h100-sysfs.txt", more), Order{Full: true, Growth: time.Millisecond})
	var names []string
	for _, d := range r.Devices {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"mlx5_9", "mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_bond_0"}, names); diff != "" {
		t.Error(diff)
	}
	d := r.Devices[1]
	if !r.Devices[0].Virtual || d.Virtual {
		t.Error("want mlx5_9 to be a virtual function, and mlx5_0 none")
	}
	d.Ports = nil
	want := HCA{
		Name: "mlx5_0", BDF: "0000:13:00.0", Path: "pci0000:10/0000:10:01.0/0000:13:00.0", NUMA: 1, Firmware: "28.41.1000", Type: "MT4129",
		Board: "MT_0000000838", Open: "there is no uverbs device: is ib_uverbs loaded?", Speed: "32.0 GT/s PCIe", Width: 8, MaxWidth: 16,
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	p := r.Devices[1].Ports[0]
	if p.State != "ACTIVE" || p.Rate != 400 || p.Layer != "InfiniBand" || p.MTU != 0 || !slices.Equal(p.NetDevs, []string{"ib_mlx5_0"}) {
		t.Errorf("got %+v; want an active port of InfiniBand", p)
	}
	if got := r.Devices[2].Ports[0].Counters["link_downed"]; got != 255 {
		t.Errorf("got link_downed %d; want 255, at which it stays", got)
	}
	if n := len(p.Counters); n != 46 || p.Delta != nil || p.Unread != nil {
		t.Errorf("got %d counters, %v grown, %v unread; want 46 and no more: lifespan is none", n, p.Delta, p.Unread)
	}
	if !r.PeerMem || r.DMABuf != "yes" || r.Modules["nvidia_peermem"] != "550.54.15" {
		t.Errorf("got %+v; want both ways to the memory of GPUs", r)
	}
}

func TestCountersAreNotReadInQuick(t *testing.T) {
	r := rdma(t, dumped(t, "h100-sysfs.txt", nil), Order{})
	for _, d := range r.Devices {
		if d.Ports[0].Counters != nil {
			t.Errorf("%s: got counters; want none", d.Name)
		}
	}
}

// TestGrowthOfCounters has a counter grow between two looks, and one that cannot be read:
// the kernel answers EINVAL to reads of a pagemap that are no multiple of eight bytes.
func TestGrowthOfCounters(t *testing.T) {
	const port = "/sys/class/infiniband/mlx5_0/ports/1/"
	s := tree(t, map[string]string{
		port + "counters/link_downed": "255\n", port + "hw_counters/out_of_sequence": "7\n", port + "hw_counters/lifespan": "10\n",
		port + "counters/symbol_error": "-> /proc/self/pagemap", port + "counters/odd": "many\n",
	})
	devices := []HCA{{Name: "mlx5_0", Ports: []Port{{Num: 1}}}}
	first := true
	wait := func(context.Context, time.Duration) bool {
		first = false
		return os.WriteFile(s.at(port+"hw_counters/out_of_sequence"), []byte("11\n"), 0o600) == nil
	}
	if err := watchCounters(t.Context(), s, devices, time.Second, wait); err != nil || first {
		t.Fatal("want no error, and a wait", err)
	}
	p := devices[0].Ports[0]
	if diff := cmp.Diff(map[string]uint64{"link_downed": 255, "out_of_sequence": 7}, p.Counters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]uint64{"out_of_sequence": 4}, p.Delta); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat("/proc/self/pagemap"); err == nil && !slices.Equal(p.Unread, []string{"symbol_error"}) {
		t.Errorf("got %v unread; want symbol_error", p.Unread)
	}
}

func TestGIDTable(t *testing.T) {
	const table = "/sys/class/infiniband/mlx5_0/ports/1/gids/"
	files := map[string]string{}
	for i := range 128 {
		files[table+strconv.Itoa(i)] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
	}
	files[table+"0"] = "fe80:0000:0000:0000:0000:0000:0000:0000\n" // a prefix alone
	files[table+"3"] = "0000:0000:0000:0000:0000:ffff:0a64:0001\n"
	files[table+"30"] = "fd00:0000:0000:0000:0000:0000:0000:0001\n"
	files[table+"100"] = "fd00:0000:0000:0000:0000:0000:0000:0002\n" // too far away
	s := tree(t, files)
	got := gids(s, "/sys/class/infiniband/mlx5_0/ports/1")
	if diff := cmp.Diff([]GID{{Index: 3, GID: "::ffff:10.100.0.1"}, {Index: 30, GID: "fd00::1"}}, got); diff != "" {
		t.Error(diff)
	}
	if last := *s.last.Load(); !strings.HasSuffix(last, "/gids/63") {
		t.Errorf("read until %s; want no further than 33 after the last", last)
	}
}

func TestOrderOfDevices(t *testing.T) {
	devices := []HCA{
		{Name: "rxe10"}, {Name: "rxe9"}, {Name: "a", BDF: "10000:01:00.0"}, {Name: "b", BDF: "0001:01:00.0", Path: "pci0000:00/x"},
		{Name: "c", BDF: "0000:9b:00.0", Path: "pci0000:80/x"}, {Name: "d", BDF: "0000:18:00.0", Path: "pci0000:90/x"},
	}
	slices.SortFunc(devices, comparePCI)
	var got []string
	for _, d := range devices {
		got = append(got, d.Name)
	}
	if diff := cmp.Diff([]string{"d", "c", "b", "a", "rxe9", "rxe10"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRate(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       float64
	}{
		{"ndr", "400 Gb/sec (4X NDR)\n", 400},
		{"decimal", "2.5 Gb/sec (1X SDR)", 2.5},
		{"bare", "100 Gb/sec", 100},
		{"empty", "", 0},
		{"unit", "400 Mb/sec", 0},
		{"not-a-number", "NaN Gb/sec", 0},
		{"negative", "-1 Gb/sec", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parseRate(test.text); got != test.want {
				t.Errorf("got %v; want %v", got, test.want)
			}
		})
	}
}

func TestRoceMTU(t *testing.T) {
	for mtu, want := range map[int]int{1500: 1024, 4200: 4096, 4096: 2048, 9000: 4096, 352: 256, 351: 0, 0: 0, -5: 0} {
		if got := roceMTU(mtu); got != want {
			t.Errorf("%d: got %d; want %d", mtu, got, want)
		}
	}
}

func TestKernelAtLeast(t *testing.T) {
	for release, want := range map[string]bool{"5.12.0": true, "5.11.9": false, "6.1.0-57-amd64": true, "4.18.0-553.el8": false, "5.15-rc1": true, "": false, "x.y": false} {
		if got := kernelAtLeast(release, 5, 12); got != want {
			t.Errorf("%q: got %v; want %v", release, got, want)
		}
	}
}

func FuzzGID(f *testing.F) {
	for _, seed := range []string{"fe80:0000:0000:0000:68a1:fcff:fe93:c62e", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n", "::", "fe80::1%eth0", "10.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if gid, ok := parseGID(text); ok {
			if again, ok := parseGID(gid); !ok || again != gid {
				t.Errorf("%q gives %q, and that %q", text, gid, again)
			}
		}
	})
}

func FuzzRate(f *testing.F) {
	f.Add("400 Gb/sec (4X NDR)")
	f.Add("2.5 Gb/sec (1X SDR)")
	f.Fuzz(func(t *testing.T, text string) {
		if rate := parseRate(text); !(rate >= 0 && rate < 1e6) {
			t.Errorf("%q: got %v; want a rate", text, rate)
		}
	})
}

func TestVirtualFunctionsInVirtualMachines(t *testing.T) {
	for name, want := range map[string]bool{"0x101e": true, "0x1021": false} {
		s := tree(t, map[string]string{
			"/sys/class/infiniband/mlx5_0/device": "-> ../../../devices/pci0101:00/0101:00:00.0", "/sys/class/infiniband/mlx5_0/fw_ver": "28.41.1000\n",
			"/sys/devices/pci0101:00/0101:00:00.0/vendor": "0x15b3\n", "/sys/devices/pci0101:00/0101:00:00.0/device": name + "\n",
		})
		if got := rdma(t, s, Order{}).Devices[0].Virtual; got != want {
			t.Errorf("%s: got %v; want %v", name, got, want)
		}
	}
}
