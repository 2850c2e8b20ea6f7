package facts

import (
	"context"
	"os"
	"testing"
)

// A whole collection on a host with GPUs runs a real program in place of nvidia-smi.
func TestCollectAllOfGPUs(t *testing.T) {
	t.Parallel()
	nvlink, err := os.ReadFile("testdata/nvlink-a100.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := gpuTree(map[string]string{
		"q.xml": string(report(t, "h100-sxm-550.xml")), "nvlink.txt": string(nvlink),
		"usr/bin/nvidia-smi": "#!/bin/sh\ncd \"${0%/usr/bin/*}\"\ncase \"$*\" in '-q -x') cat q.xml;; 'nvlink -s') cat nvlink.txt;; 'topo -m') printf '\\tGPU0\\n';; 'topo -p2p r') echo p2p;; *) exit 2;; esac\n",
	})
	src := tree(t, files)
	o := Order{}.withDefaults()
	h := collect(t.Context(), func() *source {
		return &source{root: src.root, access: access, run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return runProgram(ctx, src.at(name), args...)
		}}
	}, o, items(o), nil)
	for _, item := range []string{ItemGPU, ItemGPUTopo, ItemGPUNVLink, ItemFabric, ItemPCI} {
		if why, unknown := h.Unknown[item]; unknown {
			t.Errorf("%s: got %q; want that it is known", item, why)
		}
	}
	g := h.GPU
	if g.Topo != "\tGPU0\n" || g.P2P != "p2p\n" || len(g.IMEX) != 1 || len(g.Devices) < 8 || len(h.PCI.Devices) != 3 {
		t.Errorf("got %q, %d IMEX channels, %d GPUs, %d PCI devices", g.Topo, len(g.IMEX), len(g.Devices), len(h.PCI.Devices))
	}
	// The files of links are of other GPUs, which are added.
	if d := g.Devices[len(g.Devices)-1]; len(g.Devices) != 16 || d.NVActive != 12 || d.NVLinks != 12 {
		t.Errorf("got %d GPUs, the last is %+v", len(g.Devices), d)
	}
}
