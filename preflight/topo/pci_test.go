package topo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// machines returns the devices of the two virtual machines of the sample, by address.
func machines(t *testing.T) [2]map[string]Device {
	t.Helper()
	b, err := os.ReadFile("testdata/qemu-pci-numa-tree.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all [2]map[string]Device
	for i, text := range strings.SplitN(string(b), "#### second machine", 2) {
		all[i] = map[string]Device{}
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) == 0 || !isBridge(f[0]) {
				continue
			}
			d := Device{BDF: f[0]}
			for _, w := range f[1:] {
				key, value, _ := strings.Cut(w, "=")
				switch key {
				case "path":
					d.Path = value
				case "numa":
					fmt.Sscan(value, &d.NUMA)
				case "class":
					fmt.Sscan(value, &d.Class)
				}
			}
			all[i][d.BDF] = d
		}
	}
	return all
}

func TestDistanceInRealTrees(t *testing.T) {
	vms := machines(t)
	for _, tt := range []struct {
		name    string
		machine int
		a, b    string
		want    Kind
	}{
		{"one-switch", 0, "0000:43:00.0", "0000:44:00.0", PIX},
		{"one-host-bridge", 0, "0000:45:00.0", "0000:44:00.0", PHB},
		{"other-numa-node", 0, "0000:43:00.0", "0000:82:00.0", SYS},
		{"same-host-bridge-on-node-1", 0, "0000:81:00.0", "0000:82:00.0", PHB},
		{"itself", 0, "0000:43:00.0", "0000:43:00.0", Self},
		{"node-not-known", 0, "0000:00:1f.2", "0000:43:00.0", Unknown},
		{"node-not-known-but-one-bridge", 0, "0000:00:1f.2", "0000:00:02.0", PHB},
		{"cascaded-switch", 1, "0000:43:00.0", "0000:46:00.0", PXB},
		{"cascaded-switch-both-below-second", 1, "0000:46:00.0", "0000:47:00.0", PIX},
		{"other-host-bridge-of-one-node", 1, "0000:c1:00.0", "0000:43:00.0", NODE},
		{"other-node", 1, "0000:81:00.0", "0000:46:00.0", SYS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := vms[tt.machine][tt.a], vms[tt.machine][tt.b]
			if a.Path == "" || b.Path == "" {
				t.Fatalf("the sample has no %s or %s", tt.a, tt.b)
			}
			if got, back := Distance(a, b), Distance(b, a); got.Kind != tt.want || back != got {
				t.Errorf("got %s and back %s; want %s", got, back, tt.want)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	dev := func(numa int, path string) Device {
		return Device{BDF: path[strings.LastIndex(path, "/")+1:], Path: path, NUMA: numa}
	}
	for _, tt := range []struct {
		name string
		a, b Device
		want Kind
	}{
		{"two-ports-of-a-card", dev(0, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"), dev(0, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.1"), PIX},
		{"other-domains-of-a-node", dev(0, "/sys/devices/pci0009:00/0009:00:00.0/0009:01:00.0"), dev(0, "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0"), NODE},
		{"same-bus-of-another-domain", dev(0, "/sys/devices/pci0001:00/0001:00:00.0/0001:01:00.0"), dev(1, "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0"), SYS},
		{"below-a-virtual-machine-bus", dev(0, "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234/pci0001:00/0001:00:00.0"), dev(0, "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0002-0000-3130-444531444234/pci0002:00/0002:00:00.0"), NODE},
		{"a-volume-management-device", dev(0, "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0"), dev(0, "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:07.0/10000:e2:00.0"), PHB},
		{"virtual-device", dev(0, "/sys/devices/virtual/infiniband/rxe0"), dev(0, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"), Unknown},
		{"no-path", Device{BDF: "0000:01:00.0"}, dev(0, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"), Unknown},
		{"no-path-but-the-same-address", Device{BDF: "00000000:41:00.0"}, Device{BDF: "0000:41:00.0"}, Self},
		{"below-the-device", dev(0, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/virtio0/net/eth0"), dev(0, "/sys/devices/pci0000:40/0000:40:01.2/0000:42:00.0"), PHB},
		{"numa-off", dev(-1, "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"), dev(-1, "/sys/devices/pci0000:80/0000:80:01.1/0000:81:00.0"), Unknown},
		{"two-levels-of-a-switch", dev(0, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0"), dev(0, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0"), PXB},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got.Kind != tt.want || back != got {
				t.Errorf("got %s and back %s; want %s", got, back, tt.want)
			}
		})
	}
}

func TestCanonicalBDF(t *testing.T) {
	for in, want := range map[string]string{
		"0000:17:00.0": "0000:17:00.0", "00000000:9B:00.0": "0000:9b:00.0", "00000009:01:00.0": "0009:01:00.0",
		"17:00.1": "0000:17:00.1", "10000:e1:00.0": "10000:e1:00.0",
		"": "", "0000:17:00": "", "0000:17:20.0": "", "0000:17:00.8": "", "x:17:00.0": "", "0000:+1:00.0": "", "1:2:3:4.0": "",
	} {
		if got, ok := CanonicalBDF(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", in, got, ok, want)
		}
	}
}

func FuzzDistance(f *testing.F) {
	f.Add("/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0", "/sys/devices/pci0000:40/0000:40:01.2/0000:42:00.0", 0)
	f.Fuzz(func(t *testing.T, p, q string, numa int) {
		a, b := Device{Path: p, NUMA: numa}, Device{Path: q}
		if got, back := Distance(a, b), Distance(b, a); got != back || got.Kind < Self {
			t.Errorf("%q %q: got %s and back %s", p, q, got, back)
		}
	})
}
