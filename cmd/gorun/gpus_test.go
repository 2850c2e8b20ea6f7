package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gorun/envsync"
	"gorun/launcher"
	"gorun/preflight/facts"
)

// gpuHost is a host with so many GPUs and one of topo's samples as its matrix.
func gpuHost(t *testing.T, name string, gpus int, sample string) *facts.Host {
	t.Helper()
	f := &facts.Host{Version: facts.Version, Name: name}
	for i := range gpus {
		f.GPU.Devices = append(f.GPU.Devices, facts.Device{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", name, i), NUMA: -1})
	}
	if sample != "" {
		text, err := os.ReadFile("../../preflight/topo/testdata/" + sample)
		if err != nil {
			t.Fatal(err)
		}
		f.GPU.Topo = string(text)
	}
	return f
}

const (
	dgx1  = "01-dgx1-v100-cubemesh-4mlx5.txt"
	seven = "18-7gpu-two-pcie-switches-mlx4.txt"
	h20   = "10-8xh20-8nic-pix-diagonal.txt"
)

func TestGPUPlan(t *testing.T) {
	crossed := func(h *facts.Host) { // NUMA nodes in turn, as some boards have them
		for i := range h.GPU.Devices {
			h.GPU.Devices[i].NUMA = i % 2
		}
	}
	for _, tt := range []struct {
		name        string
		gpus        int
		sample      string
		change      func(*facts.Host)
		set         string // the job's CUDA_VISIBLE_DEVICES; "": none
		one         bool
		ranks, near int
		want        string // values; of all, or by rank
		gpuOrder    string
		note        string
		err         string
	}{
		{name: "as-they-are", gpus: 8, sample: h20, ranks: 8, near: 8, gpuOrder: "0,1,2,3,4,5,6,7"},
		{name: "groups-that-are-cliques", gpus: 8, sample: dgx1, ranks: 8, near: 4, gpuOrder: "0,1,2,3,4,5,6,7"},
		{name: "pairs-with-more-links", gpus: 8, sample: dgx1, ranks: 8, near: 2, gpuOrder: "0,3,1,2,4,7,5,6", want: "GPU-h-0,GPU-h-3,GPU-h-1,GPU-h-2,GPU-h-4,GPU-h-7,GPU-h-5,GPU-h-6",
			note: "CUDA_VISIBLE_DEVICES has the GPUs in the order 0,3,1,2,4,7,5,6, by what is near on the host"},
		{name: "pairs-that-are-cliques", gpus: 8, sample: h20, ranks: 8, near: 2, gpuOrder: "0,1,2,3,4,5,6,7"},
		{name: "no-group-of-all", gpus: 8, sample: dgx1, ranks: 8, near: 8, gpuOrder: "0,1,2,3,4,5,6,7"},
		{name: "nodes-in-turn", gpus: 4, change: crossed, ranks: 4, near: 1, gpuOrder: "0,2,1,3", want: "GPU-h-0,GPU-h-2,GPU-h-1,GPU-h-3",
			note: "CUDA_VISIBLE_DEVICES has the GPUs in the order 0,2,1,3, by what is near on the host"},
		{name: "chosen", gpus: 4, change: crossed, set: "3,1", ranks: 2, near: 1, gpuOrder: "3,1",
			note: "CUDA_VISIBLE_DEVICES is as -x has it; by what is near on the host, GPUs would be in the order 0,2,1,3"},
		{name: "chosen-where-nothing-is-better", gpus: 4, set: "3,1", ranks: 2, near: 1, gpuOrder: "3,1"},
		{name: "of-the-session", gpus: 4, change: func(h *facts.Host) { crossed(h); h.GPU.Visible = new("1") }, ranks: 1, near: 1, gpuOrder: "1",
			note: "CUDA_VISIBLE_DEVICES is as the host's environment has it; by what is near on the host, GPUs would be in the order 0,2,1,3"},
		{name: "parts", gpus: 4, change: func(h *facts.Host) { crossed(h); h.GPU.Devices[2].MIG = "Enabled" }, ranks: 4, near: 1, gpuOrder: "0,1,2,3",
			note: "GPUs are in parts (MIG) or without UUIDs, and their order is left as it is; by what is near on the host, it would be 0,2,1,3"},
		{name: "one-each", gpus: 4, change: crossed, one: true, ranks: 3, near: 1, gpuOrder: "0,2,1,3", want: "GPU-h-0 GPU-h-2 GPU-h-1 GPU-h-3"},
		{name: "one-each-of-chosen", gpus: 4, set: "2,GPU-h-0", one: true, ranks: 2, near: 1, gpuOrder: "2,0", want: "2 GPU-h-0"},
		{name: "one-each-of-parts", gpus: 1, change: func(h *facts.Host) { h.GPU.Visible = new("MIG-a, MIG-b") }, one: true, ranks: 2, near: 1, gpuOrder: "", want: "MIG-a MIG-b"},
		{name: "odd-uuid", gpus: 4, change: func(h *facts.Host) { crossed(h); h.GPU.Devices[1].UUID = "GPU-\x00" }, ranks: 4, near: 1, gpuOrder: "0,1,2,3",
			note: "GPUs are in parts (MIG) or without UUIDs, and their order is left as it is; by what is near on the host, it would be 0,2,1,3"},
		{name: "one-each-of-odd", gpus: 1, change: func(h *facts.Host) { h.GPU.Visible = new("0,\x1b") }, one: true, ranks: 2, near: 1, err: "--gpu-bind one: h has 1 GPU for 2 ranks"},
		{name: "one-each-of-too-few", gpus: 4, one: true, ranks: 8, near: 1, err: "--gpu-bind one: h has 4 GPUs for 8 ranks"},
		{name: "one-each-of-none", one: true, ranks: 1, near: 1, err: "--gpu-bind one: h has 0 GPUs for 1 rank"},
		{name: "one-each-by-device-files", change: func(h *facts.Host) { h.GPU.DevFiles = []int{0, 1} }, one: true, ranks: 2, near: 1, want: "0 1",
			note: "nvidia-smi does not tell the GPUs: ranks get them by their numbers"},
		{name: "no-gpus", ranks: 8, near: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := gpuHost(t, "h", tt.gpus, tt.sample)
			if tt.change != nil {
				tt.change(h)
			}
			job := launcher.Job{Apps: []launcher.App{{Args: []string{"app"}}}}
			if tt.set != "" {
				job.Env.Set = []envsync.Setting{{Flag: "-x", Text: cudaDevices + "=" + tt.set}}
			}
			a := &arranger{job: job, one: tt.one, orders: map[string][]int{}}
			p, err := a.plan("h", h, tt.ranks, tt.near)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v; want %s", err, tt.err)
				}
				return
			}
			if got := strings.Join(p.visible, " "); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			if got := indexList(p.gpus); got != tt.gpuOrder {
				t.Errorf("got order %s; want %s", got, tt.gpuOrder)
			}
			if p.note != tt.note {
				t.Errorf("got note %q; want %q", p.note, tt.note)
			}
		})
	}
}

func TestMeshCosts(t *testing.T) {
	for _, tt := range []struct {
		name, sample string
		gpus         int
		mesh         string
		want         string
	}{
		{"clique-of-eight", h20, 8, "dp=*,tp=8", ""},
		{"cliques-of-four", dgx1, 8, "dp=*,tp=4", ""},
		{"no-clique-of-eight", dgx1, 8, "dp=*,tp=8", "h[1-2]: GPU0 and GPU5 of a group of tp=8 have no NVLink between them: SYS, across NUMA nodes"},
		{"data-parallel", dgx1, 8, "dp=*", ""},
		{"pcie", "02-4x-rtx6000ada-4nic-pcie.txt", 4, "dp=*,tp=2", "h[1-2]: GPU0 and GPU1 of a group of tp=2 have no NVLink between them: NODE, through the CPU"},
		{"nvlink-not-known", "24-8xh100-TOPO-MP-no-nvlink-rows.txt", 8, "dp=*,tp=4",
			"h[1-2]: GPU0 and GPU1 of a group of tp=4 are connected by NODE, through the CPU; whether they have NVLink is not known"},
		{"no-matrix", "", 8, "dp=*,tp=8", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var hosts []launcher.Offer
			var known []*facts.Host
			for _, name := range []string{"h1", "h2"} {
				hosts = append(hosts, launcher.Offer{Name: name, Slots: tt.gpus, Limit: tt.gpus})
				known = append(known, gpuHost(t, name, tt.gpus, tt.sample))
			}
			job := launcher.Job{Apps: []launcher.App{{Args: []string{"app"}}}, Mesh: meshOf(tt.mesh)}
			layout, err := job.Place(hosts)
			if err != nil {
				t.Fatal(err)
			}
			d, err := new(options).deal(job, layout, hosts, known)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want != "" {
				want = "--mesh " + layout.Mesh.String() + ": " + want
			}
			if got := strings.Join(d.costs, "\n"); got != want {
				t.Errorf("got %q; want %q", got, want)
			}
		})
	}
}

// Seven GPUs are parted into pairs by what is nearest, and one is left for the last.
func TestOrderOfSeven(t *testing.T) {
	a := new(options).arranger(launcher.Job{})
	p, err := a.plan("h", gpuHost(t, "h", 7, seven), 6, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := indexList(p.gpus), "0,1,3,4,5,6,2"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// BenchmarkDeal gives the ranks of 1,000 hosts their GPUs.
func BenchmarkDeal(b *testing.B) {
	text, err := os.ReadFile("../../preflight/topo/testdata/" + h20)
	if err != nil {
		b.Fatal(err)
	}
	var hosts []launcher.Offer
	var known []*facts.Host
	for h := range 1000 {
		f := &facts.Host{Name: fmt.Sprint("gpu", h)}
		for i := range 8 {
			f.GPU.Devices = append(f.GPU.Devices, facts.Device{Index: i, UUID: fmt.Sprintf("GPU-%d-%d", h, i), NUMA: i / 4, BDF: fmt.Sprintf("0000:%d0:00.0", i+1)})
		}
		f.GPU.Topo = string(text)
		hosts, known = append(hosts, launcher.Offer{Name: f.Name, Slots: 8, Limit: 8}), append(known, f)
	}
	job := launcher.Job{Apps: []launcher.App{{Args: []string{"app"}}}, Mesh: meshOf("dp=*,tp=4")}
	layout, err := job.Place(hosts)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := new(options).deal(job, layout, hosts, known); err != nil {
			b.Fatal(err)
		}
	}
}
