package preflight

import (
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// rack puts a host's GPUs into a multi-host NVLink domain, as GB200 has them.
func rack(h *Host, cluster, clique string) {
	h.Facts.GPU.Switches, h.Facts.GPU.Fabric = nil, facts.Fabric{}
	h.Facts.GPU.IMEX = []string{"/dev/nvidia-caps-imex-channels/channel0"}
	eachGPU(h, func(d *facts.Device) { d.FabricCluster, d.FabricClique = cluster, clique })
}

const rackA, rackB = "1d3c1a52-5d6e-4f9b-93a8-fb2d8d5bcb51", "77777777-5d6e-4f9b-93a8-fb2d8d5bcb51"

func gpuLinkFirings() []firing {
	noNVLink := func(h *Host) { h.Facts.GPU.Topo = strings.ReplaceAll(h.Facts.GPU.Topo, "NV18", "SYS") }
	racks := func(h *Host) { rack(h, rackA, "1") }
	links := func(n int) func(d *facts.Device) { return func(d *facts.Device) { d.NVActive = n } }
	return []firing{
		{check: "gpu-nvlink", name: "one-down", wreck: gpu(1, 5, func(d *facts.Device) { d.NVActive, d.NVDown = 17, []int{4} }),
			verdict: NoHost, blamed: "gpu02", title: "GPU 5", evidence: "17 of 18 NVLinks are up, down: 4"},
		{check: "gpu-nvlink", name: "all-of-a-host", wreck: gpus(1, links(0)), verdict: NoHost, blamed: "gpu02", evidence: "0 of 18 NVLinks"},
		{check: "gpu-nvlink", name: "fewer-than-the-model", hosts: 1, wreck: gpu(0, 3, func(d *facts.Device) { d.NVLinks, d.NVActive = 0, 0 }), verdict: NoHost, blamed: "gpu01", evidence: "0 of 18 NVLinks are up"},
		{check: "gpu-nvlink", name: "all-fewer-than-the-model", hosts: 2, wreck: all(func(h *Host) {
			eachGPU(h, func(d *facts.Device) { d.Name, d.NVLinks, d.NVActive = "Tesla V100-SXM2-16GB", 6, 4 })
		}), verdict: Warn, blamed: "gpu01 gpu02", evidence: "4 NVLinks are up; Tesla V100-SXM2-16GB has 6"},
		{check: "gpu-nvlink", name: "no-bridges-on-one", wreck: func(in *Input) {
			all(func(h *Host) {
				h.Facts.GPU.Switches = nil
				eachGPU(h, func(d *facts.Device) { d.Name, d.NVLinks, d.NVActive = "NVIDIA H100 NVL", 12, 12 })
			})(in)
			gpus(1, func(d *facts.Device) { d.NVLinks, d.NVActive = -1, 0 })(in)
		}, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-nvlink", name: "none-of-an-unknown-number", wreck: gpus(1, func(d *facts.Device) { d.NVLinks, d.NVActive = -1, 0 }), verdict: NoHost, blamed: "gpu02", evidence: "0 of 18"},
		{check: "gpu-nvlink", name: "other-model-without", wreck: gpus(1, func(d *facts.Device) { d.Name, d.NVLinks, d.NVActive = "NVIDIA A100-PCIE-40GB", 0, 0 }), verdict: ""},
		{check: "gpu-nvlink", name: "bridge-between-some", hosts: 1, wreck: all(func(h *Host) {
			eachGPU(h, func(d *facts.Device) {
				d.Name, d.NVLinks, d.NVActive = "NVIDIA RTX A6000", -1, 0
				if d.Index < 2 {
					d.NVLinks, d.NVActive = 4, 4
				}
			})
		})},
		{check: "gpu-nvlink", name: "bridge-half-seated", hosts: 1, wreck: all(func(h *Host) {
			eachGPU(h, func(d *facts.Device) {
				d.Name, d.NVLinks, d.NVActive, d.NVDown = "NVIDIA RTX A6000", 4, 3, []int{2}
			})
		}), verdict: Warn, blamed: "gpu01", evidence: "3 of 4 NVLinks are up, down: 2"},
		{check: "gpu-nvlink", name: "most-have-fewer", wreck: all(func(h *Host) { eachGPU(h, func(d *facts.Device) { d.NVLinks, d.NVActive = 0, 0 }) }), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-nvlink", name: "unknown", wreck: unknownOn(1, facts.ItemGPUNVLink), verdict: Unknown, blamed: "gpu02"},
		{check: "gpu-p2p", name: "all-sys", wreck: on(1, noNVLink), verdict: NoHost, blamed: "gpu02", evidence: "no NVLink for 28 pairs: GPU0-GPU1 SYS"},
		{check: "gpu-p2p", name: "one-gpu", wreck: on(1, func(h *Host) {
			lines := strings.Split(h.Facts.GPU.Topo, "\n")
			for y := range lines {
				cells := strings.Split(lines[y], "\t")
				switch {
				case cells[0] == "GPU5":
					lines[y] = strings.ReplaceAll(lines[y], "NV18", "NODE")
				case strings.HasPrefix(cells[0], "GPU"):
					cells[6] = "NODE"
					lines[y] = strings.Join(cells, "\t")
				}
			}
			h.Facts.GPU.Topo = strings.Join(lines, "\n")
		}), verdict: NoHost, blamed: "gpu02", evidence: "no NV18 for 7 pairs: GPU0-GPU5 NODE"},
		{check: "gpu-p2p", name: "everywhere", wreck: all(noNVLink), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-p2p", name: "virtual-machine", hosts: 1, wreck: on(0, func(h *Host) { noNVLink(h); h.Facts.System.Virtual = "virtual machine (QEMU)" }), verdict: Warn, blamed: "gpu01"},
		{check: "gpu-p2p", name: "corrupt", wreck: on(1, func(h *Host) { h.Facts.GPU.Topo = h.Facts.GPU.Topo[:200] }), verdict: Unknown, blamed: "gpu02"},
		{check: "gpu-p2p", name: "nothing", wreck: on(1, func(h *Host) { h.Facts.GPU.Topo = "" }), verdict: Unknown, blamed: "gpu02"},
		{check: "gpu-p2p", name: "refused", wreck: on(1, refuse(2, 5, "NS")), verdict: NoHost, blamed: "gpu02", title: "although NVLink connects them", evidence: "no OK for 1 pair with NVLink: GPU2-GPU5 NS"},
		{check: "gpu-p2p", name: "refused-one-way", wreck: on(1, refuse(5, 2, "DR")), verdict: NoHost, blamed: "gpu02", evidence: "GPU2-GPU5 DR"},
		{check: "gpu-p2p", name: "refused-everywhere", wreck: all(refuse(2, 5, "CNS")), verdict: NoHost, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-p2p", name: "refused-but-ignored", wreck: on(1, func(h *Host) {
			refuse(2, 5, "NS")(h)
			h.Settings = map[string]string{"NCCL_IGNORE_DISABLED_P2P": "1"}
		}), verdict: Warn, blamed: "gpu02", title: "NCCL passes over", evidence: "NCCL_IGNORE_DISABLED_P2P is set"},
		{check: "gpu-p2p", name: "refused-without-gpus-in-the-job", wreck: func(in *Input) { on(1, refuse(2, 5, "NS"))(in); in.Job.GPU = false }, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-p2p", name: "refused-but-unused", wreck: on(1, func(h *Host) { refuse(2, 5, "NS")(h); h.GPUs, h.Ranks = []int{0, 1, 2, 3}, 4 })},
		{check: "gpu-p2p", name: "refused-in-parts", wreck: func(in *Input) {
			on(1, refuse(2, 5, "NS"))(in)
			gpu(1, 5, func(d *facts.Device) { d.MIG = "Enabled" })(in)
		}},
		{check: "gpu-p2p", name: "old-driver", wreck: on(1, func(h *Host) { h.Facts.GPU.P2P = "" })},
		{check: "gpu-p2p", name: "p2p-corrupt", wreck: on(1, func(h *Host) { h.Facts.GPU.P2P = h.Facts.GPU.P2P[:80] })},
		{check: "gpu-p2p", name: "bridge-refused", hosts: 1, wreck: all(func(h *Host) { consumer(h, "NV4", "TNS") }), verdict: NoHost, blamed: "gpu01", evidence: "GPU0-GPU1 TNS"},
		{check: "gpu-p2p", name: "bridge", hosts: 1, wreck: all(func(h *Host) { consumer(h, "NV4", "OK") })},
		{check: "gpu-p2p", name: "consumer-cards", wreck: all(func(h *Host) { consumer(h, "PHB", "GNS") })},
		{check: "gpu-p2p", name: "pcie-odd", wreck: func(in *Input) {
			all(func(h *Host) { consumer(h, "PHB", "OK") })(in)
			on(1, func(h *Host) { consumer(h, "PHB", "CNS") })(in)
		}, verdict: Warn, blamed: "gpu02", title: "by PCIe", evidence: "no OK for 1 pair without NVLink: GPU0-GPU1 CNS"},
		{check: "gpu-p2p", name: "pcie-two-differ", hosts: 2, wreck: func(in *Input) {
			all(func(h *Host) { consumer(h, "PHB", "OK") })(in)
			on(1, func(h *Host) { consumer(h, "PHB", "CNS") })(in)
		}},
		{check: "gpu-fabric", name: "not-installed", wreck: on(1, func(h *Host) { h.Facts.GPU.Fabric = facts.Fabric{}; eachGPU(h, noFabricState) }),
			verdict: NoHost, blamed: "gpu02", title: "no fabric manager is installed", remedy: "install nvidia-fabricmanager of driver version 550.54.15"},
		{check: "gpu-fabric", name: "in-container", wreck: all(func(h *Host) {
			h.Facts.System.Virtual, h.Facts.GPU.Fabric = "docker", facts.Fabric{}
			eachGPU(h, noFabricState)
		})},
		{check: "gpu-fabric", name: "runs-from-elsewhere", wreck: on(1, func(h *Host) { h.Facts.GPU.Fabric = facts.Fabric{Running: true} })},
		{check: "gpu-fabric", name: "not-running-but-set-up", wreck: on(1, func(h *Host) { h.Facts.GPU.Fabric.Running = false }), verdict: Warn, blamed: "gpu02"},
		{check: "gpu-fabric", name: "not-running", wreck: on(1, func(h *Host) { h.Facts.GPU.Fabric.Running = false; eachGPU(h, noFabricState) }), verdict: NoHost, blamed: "gpu02", title: "does not run", remedy: "systemctl start"},
		{check: "gpu-fabric", name: "other-version", wreck: on(1, func(h *Host) { h.Facts.GPU.Fabric.Version = "535.1" }), verdict: Warn, blamed: "gpu02", title: "535.1 with driver 550.54.15"},
		{check: "gpu-fabric", name: "in-progress", wreck: gpus(1, func(d *facts.Device) { d.FabricState = "In Progress" }), verdict: NoHost, blamed: "gpu02", evidence: "fabric state: In Progress"},
		{check: "gpu-fabric", name: "bad-status", wreck: gpus(1, func(d *facts.Device) { d.FabricStatus = "Failure" }), verdict: NoHost, blamed: "gpu02", evidence: "fabric status: Failure"},
		{check: "gpu-fabric", name: "no-local-manager-in-a-rack", wreck: all(racks)},
		{check: "gpu-fabric", name: "unknown", wreck: unknownOn(1, facts.ItemFabric), verdict: Unknown, blamed: "gpu02"},
		{check: "gpu-domain", name: "one-clique", wreck: all(racks)},
		{check: "gpu-domain", name: "odd-clique", wreck: func(in *Input) { all(racks)(in); on(1, func(h *Host) { rack(h, rackA, "2") })(in) }, verdict: Warn, blamed: "gpu02", title: "clique 2"},
		{check: "gpu-domain", name: "two-racks", wreck: func(in *Input) {
			all(racks)(in)
			on(2, func(h *Host) { rack(h, rackB, "1") })(in)
			on(3, func(h *Host) { rack(h, rackB, "1") })(in)
		}},
		{check: "gpu-domain", name: "torn-host", wreck: func(in *Input) { all(racks)(in); gpu(1, 0, func(d *facts.Device) { d.FabricClique = "9" })(in) }, verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-domain", name: "no-imex", wreck: func(in *Input) { all(racks)(in); on(1, func(h *Host) { h.Facts.GPU.IMEX = nil })(in) }, verdict: Warn, blamed: "gpu02", title: "IMEX"},
		{check: "gpu-topology", name: "other-slot", wreck: on(1, swapNICs),
			verdict: Warn, blamed: "gpu02", evidence: "reaches"},
		{check: "gpu-topology", name: "two", hosts: 2, wreck: on(1, swapNICs), verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in how GPUs and NICs are connected"},
		{check: "gpu-topology", name: "unknown", build: factstest.RoCE, wreck: unknownOn(1, facts.ItemGPUTopo), verdict: Unknown, blamed: "gpu02"},
	}
}

// refuse gives the cell of two GPUs in the matrix of P2P another word.
func refuse(from, to int, word string) func(h *Host) {
	return func(h *Host) {
		lines := strings.Split(h.Facts.GPU.P2P, "\n")
		cells := strings.Split(lines[from+1], "\t")
		cells[to+1] = word
		lines[from+1] = strings.Join(cells, "\t")
		h.Facts.GPU.P2P = strings.Join(lines, "\n")
	}
}

// consumer makes a host one with two cards in slots, so connected.
func consumer(h *Host, link, status string) {
	g := &h.Facts.GPU
	g.Switches, g.Fabric, g.Devices, g.PCI, g.DevFiles = nil, facts.Fabric{}, g.Devices[:2], g.PCI[:2], []int{0, 1}
	h.Ranks = 2
	eachGPU(h, func(d *facts.Device) { d.Name = "NVIDIA RTX A6000" })
	cells := func(text, self, cell string) string {
		return strings.NewReplacer("S", self, "C", cell).Replace(text)
	}
	g.Topo = "\tGPU0\tGPU1\tCPU Affinity\n" + cells("GPU0\tS\tC\t0-63\nGPU1\tC\tS\t0-63\n\nLegend:\n", " X ", link)
	g.P2P = " \tGPU0\tGPU1\t\n" + cells(" GPU0\tS\tC\t\n GPU1\tC\tS\t\n", "X", status)
}

// swapNICs makes GPU 0 near another NIC, in the matrix.
func swapNICs(h *Host) {
	t := strings.Replace(h.Facts.GPU.Topo, "  NIC0: mlx5_0\n", "  NIC0: mlx5_9\n", 1)
	t = strings.Replace(t, "  NIC1: mlx5_1\n", "  NIC1: mlx5_0\n", 1)
	h.Facts.GPU.Topo = strings.Replace(t, "  NIC0: mlx5_9\n", "  NIC0: mlx5_1\n", 1)
}

// noFabricState makes a GPU one of a generation that does not tell its fabric's state.
func noFabricState(d *facts.Device) { d.FabricState, d.FabricStatus = "N/A", "N/A" }
