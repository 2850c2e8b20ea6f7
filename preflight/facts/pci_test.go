package facts

import (
	"encoding/binary"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// qemuTree is the bus of a real kernel, as testdata/pci-qemu.txt tells. Its stand-ins for
// GPUs become GPUs.
func qemuTree(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/pci-qemu.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		bdf, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || parseBDF(bdf) != bdf {
			continue
		}
		values := map[string]string{}
		// Blanks are in values, too: "cur=16.0 GT/s PCIe/x32".
		key := ""
		for word := range strings.FieldsSeq(rest) {
			k, v, ok := strings.Cut(word, "=")
			if !ok {
				values[key] += " " + word
				continue
			}
			key, values[k] = k, v
		}
		dir := strings.TrimPrefix(values["path"], "/")
		files["sys/bus/pci/devices/"+bdf] = "-> ../../../" + strings.TrimPrefix(dir, "sys/")
		if values["class"] == "0x00ff00" {
			values["class"], values["vendor"] = "0x030200", "0x10de"
		}
		for name, key := range map[string]string{"class": "class", "vendor": "vendor", "device": "device", "numa_node": "numa"} {
			files[dir+"/"+name] = values[key] + "\n"
		}
		for prefix, key := range map[string]string{"current_link_": "cur", "max_link_": "max"} {
			i := strings.LastIndex(values[key], "/x")
			if i > 0 {
				files[dir+"/"+prefix+"speed"], files[dir+"/"+prefix+"width"] = values[key][:i]+"\n", values[key][i+2:]+"\n"
			}
		}
	}
	return files
}

func collectedPCI(t *testing.T, files map[string]string) map[string]PCIDevice {
	t.Helper()
	var h Host
	if err := collectPCI(t.Context(), tree(t, files), &h); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(h.PCI.Devices, func(a, b PCIDevice) int { return strings.Compare(a.BDF, b.BDF) }) {
		t.Error("devices are not in order")
	}
	out := map[string]PCIDevice{}
	for _, d := range h.PCI.Devices {
		out[d.BDF] = d
	}
	return out
}

func TestCollectPCI(t *testing.T) {
	devices := collectedPCI(t, qemuTree(t))
	want := []string{"0000:40:00.0", "0000:40:01.0", "0000:41:00.0", "0000:42:00.0", "0000:42:01.0", "0000:43:00.0", "0000:44:00.0", "0000:45:00.0", "0000:80:00.0", "0000:80:01.0", "0000:81:00.0", "0000:82:00.0"}
	if got := slices.Sorted(maps.Keys(devices)); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
	for _, d := range []PCIDevice{
		{BDF: "0000:44:00.0", Path: "pci0000:40/0000:40:00.0/0000:41:00.0/0000:42:01.0/0000:44:00.0", Class: 0x020000, Vendor: 0x1af4, Device: 0x1041, Width: 1, MaxWidth: 1, Speed: "2.5 GT/s PCIe", MaxSpeed: "2.5 GT/s PCIe"},
		{BDF: "0000:42:00.0", Path: "pci0000:40/0000:40:00.0/0000:41:00.0/0000:42:00.0", Class: 0x060400, Vendor: 0x104c, Device: 0x8233, Width: 1, Speed: "2.5 GT/s PCIe"},
		{BDF: "0000:81:00.0", Path: "pci0000:80/0000:80:00.0/0000:81:00.0", Class: 0x030200, Vendor: 0x10de, Device: 0x11e8, NUMA: 1},
	} {
		if got := devices[d.BDF]; got != d {
			t.Errorf("got %+v; want %+v", got, d)
		}
	}
}

func TestCollectPCIPartial(t *testing.T) {
	got := collectedPCI(t, map[string]string{
		"sys/bus/pci/devices/0000:9b:00.0/class":              "0x020700\n",
		"sys/bus/pci/devices/0000:9b:00.0/current_link_width": "63\n",
		"sys/bus/pci/devices/0000:9b:00.0/current_link_speed": "Unknown\n",
		"sys/bus/pci/devices/0000:9b:00.0/numa_node":          "x\n",
		"sys/bus/pci/devices/strange/class":                   "y\n",
	})
	if want := (PCIDevice{BDF: "0000:9b:00.0", Class: 0x020700, NUMA: -1}); len(got) != 1 || got[want.BDF] != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	var h Host
	if err := collectPCI(t.Context(), tree(t, nil), &h); err == nil || err.Error() != "/sys is not mounted" {
		t.Errorf("got %v; want that /sys is not mounted", err)
	}
}

func TestCollectPCIOfThisHost(t *testing.T) {
	var h Host
	if err := collectPCI(t.Context(), hostSource(), &h); err != nil {
		t.Skip(err)
	}
	for _, d := range h.PCI.Devices {
		if parseBDF(d.BDF) != d.BDF || path.Base(d.Path) != d.BDF {
			t.Errorf("got %+v", d)
		}
	}
}

// config is a configuration space with extended capabilities at the offsets given.
func config(capabilities ...[3]uint16) []byte {
	b := make([]byte, configLen)
	for i, c := range capabilities {
		next := uint16(0)
		if i+1 < len(capabilities) {
			next = capabilities[i+1][0]
		}
		binary.LittleEndian.PutUint32(b[c[0]:], uint32(c[1])|1<<16|uint32(next)<<20)
		binary.LittleEndian.PutUint16(b[c[0]+6:], c[2])
	}
	return b
}

func loopConfig() []byte {
	b := config([3]uint16{0x100, 1, 0})
	binary.LittleEndian.PutUint32(b[0x100:], 1|1<<16|0x100<<20)
	return b
}

func TestParseACS(t *testing.T) {
	for _, test := range []struct {
		name   string
		config []byte
		want   string
	}{
		{"on", config([3]uint16{0x100, 1, 0}, [3]uint16{0x148, 3, 0}, [3]uint16{0x220, 0xd, 0x1d}), "on"},
		{"source-validation-only", config([3]uint16{0x100, 1, 0}, [3]uint16{0x220, 0xd, 0x01}), "off"},
		{"off", config([3]uint16{0x100, 0xd, 0}), "off"},
		{"no-such-capability", config([3]uint16{0x100, 1, 0}), ""},
		{"last-bytes", config([3]uint16{0x100, 1, 0}, [3]uint16{0xff8, 0xd, 0x04}), "on"},
		{"beyond-the-end", config([3]uint16{0x100, 1, 0}, [3]uint16{0xff8, 0xd, 0x04})[:0xffe], ""},
		{"another-user", config([3]uint16{0x100, 0xd, 0x1d})[:64], ""},
		{"no-extended-space", config([3]uint16{0x100, 0xd, 0x1d})[:256], ""},
		{"device-is-gone", slices.Repeat([]byte{0xff}, configLen), ""},
		{"loop", loopConfig(), ""},
		{"empty", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parseACS(test.config); got != test.want {
				t.Errorf("got %q; want %q", got, test.want)
			}
		})
	}
}

func TestCollectPCIReadsACS(t *testing.T) {
	files := qemuTree(t)
	files["sys/devices/pci0000:40/0000:40:01.0/config"] = string(config([3]uint16{0x100, 0xd, 0x1d}))
	files["sys/devices/pci0000:40/0000:40:00.0/config"] = string(config([3]uint16{0x100, 0xd, 0}))
	devices := collectedPCI(t, files)
	if got := devices["0000:40:01.0"].ACS + devices["0000:40:00.0"].ACS + devices["0000:80:00.0"].ACS; got != "onoff" {
		t.Errorf("got %q; want on, off and none", got)
	}
}

func TestIOMMU(t *testing.T) {
	device := map[string]string{"sys/bus/pci/devices/0000:9b:00.0/class": "0x020700\n"}
	group := func(kind string) map[string]string {
		files := maps.Clone(device)
		files["sys/kernel/iommu_groups/7/reserved_regions"] = ""
		files["sys/bus/pci/devices/0000:9b:00.0/iommu_group"] = "-> ../../../../kernel/iommu_groups/7"
		if kind != "" {
			files["sys/kernel/iommu_groups/7/type"] = kind + "\n"
		}
		return files
	}
	with := func(files map[string]string, name, content string) map[string]string {
		files[name] = content
		return files
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"off", device, "off"},
		{"translated", group("DMA-FQ"), "on"},
		{"identity", group("identity"), "passthrough"},
		{"old-kernel", group(""), "on"},
		{"old-kernel-passthrough", with(group(""), "proc/cmdline", "quiet intel_iommu=on iommu=pt\n"), "passthrough"},
		{"device-in-no-group", with(maps.Clone(device), "sys/class/iommu/dmar0/", ""), "on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h Host
			if err := collectPCI(t.Context(), tree(t, test.files), &h); err != nil {
				t.Fatal(err)
			}
			if h.PCI.IOMMU != test.want {
				t.Errorf("got %q; want %q", h.PCI.IOMMU, test.want)
			}
		})
	}
}

func FuzzPCIConfig(f *testing.F) {
	f.Add(config([3]uint16{0x100, 1, 0}, [3]uint16{0x148, 3, 0}, [3]uint16{0x220, 0xd, 0x1d}))
	f.Add(loopConfig()[:512])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := parseACS(b); got != "" && got != "on" && got != "off" {
			t.Errorf("got %q", got)
		}
	})
}
