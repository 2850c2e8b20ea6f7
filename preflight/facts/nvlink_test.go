package facts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseNVLink(t *testing.T) {
	real, err := os.ReadFile("testdata/nvlink-a100.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := parseNVLink(string(real))
	if len(got) != 8 {
		t.Fatalf("got %d GPUs; want 8", len(got))
	}
	for i, l := range got {
		if l.index != i || len(l.up) != 12 || l.down != nil || l.none || l.name != "NVIDIA A100-SXM4-80GB" {
			t.Errorf("GPU %d: got %+v", i, l)
		}
	}
	if want := "GPU-754035b4-4708-efcd-b261-623aea38bcad"; got[7].uuid != want {
		t.Errorf("UUID: got %q; want %q", got[7].uuid, want)
	}
}

func TestParseNVLinkStates(t *testing.T) {
	for _, test := range []struct {
		name, text string
		active     int
		down       []int
		none       bool
	}{
		{"inactive", "GPU 0: X (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n", 2, []int{1}, false},
		{"words", "GPU 0: X (UUID: GPU-1)\n\t Link 0 is inactive\n\t Link 1: FEATURE_DISABLED\n\t Link 2: 0 GB/s\n\t Link 3: ERR!\n", 0, []int{0, 1, 2, 3}, false},
		{"all-inactive", "GPU 0: X (UUID: GPU-1)\n\t NVML: Unable to retrieve NVLink information as all links are inActive\n", 0, nil, true},
		{"no-links", "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\n", 0, nil, false},
		{"strange", "GPU 0: X (UUID: GPU-1)\nLink x: 25 GB/s\nLink -1: 25 GB/s\nLink 999999: 25 GB/s\nLink\n\n", 0, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := parseNVLink(test.text)
			if len(got) != 1 || len(got[0].up) != test.active || !slices.Equal(got[0].down, test.down) || got[0].none != test.none {
				t.Errorf("got %+v; want %d active, down %v, none %v", got, test.active, test.down, test.none)
			}
		})
	}
	if got := parseNVLink("Link 0: 25 GB/s\nGPU x: y\n"); got != nil {
		t.Errorf("links of no GPU: got %+v", got)
	}
}

func TestCollectNVLink(t *testing.T) {
	src := tree(t, gpuTree(nil))
	answer(src, "GPU 0: A (UUID: GPU-b)\n Link 0: 25 GB/s\n Link 1: <inactive>\nGPU 1: A (UUID: GPU-a)\n NVML: Unable to retrieve NVLink information as all links are inActive\nGPU 2: A (UUID: GPU-c)\n", nil)
	var h Host
	for i, uuid := range []string{"GPU-a", "GPU-b"} {
		d := newDevice()
		d.Index, d.UUID = i, uuid
		h.GPU.Devices = append(h.GPU.Devices, d)
	}
	if err := collectNVLink(t.Context(), src, &h); err != nil {
		t.Fatal(err)
	}
	d := h.GPU.Devices
	if len(d) != 3 || d[0].NVLinks != -1 || d[0].NVActive != 0 || d[1].NVLinks != 2 || d[1].NVActive != 1 || !slices.Equal(d[1].NVDown, []int{1}) {
		t.Errorf("got %+v", d)
	}
	if d[2].UUID != "GPU-c" || d[2].Index != 2 || d[2].NVLinks != 0 || d[2].MemTotal != -1 {
		t.Errorf("added: got %+v", d[2])
	}
}

func TestCollectNVLinkFailures(t *testing.T) {
	for _, test := range []struct {
		name, out string
		fail      error
		err       bool
		links     int
	}{
		{"not-offered", "", &exitError{"nvidia-smi", 3, "Not Supported"}, false, -1},
		{"one-lost", "GPU 0: A (UUID: GPU-a)\n Link 0: 25 GB/s\n", &exitError{"nvidia-smi", 15, "GPU is lost"}, false, 1},
		{"nothing", "", &exitError{"nvidia-smi", 255, "Unknown Error"}, true, -1},
		{"hangs", "GPU 0: A (UUID: GPU-a)\n Link 0: 25 GB/s\n", errors.New("nvidia-smi: no answer in 4s"), true, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := tree(t, gpuTree(nil))
			answer(src, test.out, test.fail)
			h := Host{GPU: GPU{Devices: []Device{newDevice()}}}
			err := collectNVLink(t.Context(), src, &h)
			if (err != nil) != test.err || h.GPU.Devices[0].NVLinks != test.links {
				t.Errorf("got %v, %d links; want %v, %d", err, h.GPU.Devices[0].NVLinks, test.err, test.links)
			}
		})
	}
}

func FuzzNVLink(f *testing.F) {
	real, err := os.ReadFile("testdata/nvlink-a100.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(real))
	f.Add("GPU 0: X (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n")
	f.Add("GPU 0: X (UUID: GPU-1)\n\t NVML: Unable to retrieve NVLink information as all links are inActive\n")
	f.Fuzz(func(t *testing.T, text string) {
		var g GPU
		g.setLinks(parseNVLink(text))
		for _, d := range g.Devices {
			if d.Index < 0 || d.NVActive < 0 || d.NVLinks < -1 || len(d.NVDown) > maxLinks || strings.ContainsAny(d.UUID+d.Name, "\n\x1b") {
				t.Errorf("got %+v", d)
			}
		}
	})
}
