package factstest

import (
	"fmt"
	"strings"

	"gorun/preflight/facts"
)

// rails is how many GPUs a host has, and how many HCAs.
const rails = 8

// root is the bus number of the host bridge of GPU and HCA k.
func root(k int) int { return 0x10 + 0x1a*k }

func numa(k int) int { return k / (rails / 2) }

func gpuBDF(k int) string { return fmt.Sprintf("0000:%02x:00.0", root(k)+3) }

func nicBDF(k int) string { return fmt.Sprintf("0000:%02x:00.0", root(k)+4) }

// upstream is the path to the PCI switch that GPU k and HCA k share.
func upstream(k int) string {
	r := root(k)
	return fmt.Sprintf("pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", r, r, r+1)
}

func gpuPath(k int) string {
	return fmt.Sprintf("%s/0000:%02x:00.0/%s", upstream(k), root(k)+2, gpuBDF(k))
}

func nicPath(k int) string {
	return fmt.Sprintf("%s/0000:%02x:01.0/%s", upstream(k), root(k)+2, nicBDF(k))
}

// tree has the GPUs, the HCAs, the bridges above them, and the NVSwitches.
func tree() (out []facts.PCIDevice) {
	const speed = "32.0 GT/s PCIe"
	for k := range rails {
		r := root(k)
		bridge := func(bdf, path string) facts.PCIDevice {
			return facts.PCIDevice{BDF: bdf, Path: path, Class: 0x060400, Vendor: 0x1000, Device: 0xc030, NUMA: numa(k), Width: 16, MaxWidth: 16, Speed: speed, MaxSpeed: speed, ACS: "off"}
		}
		port := fmt.Sprintf("0000:%02x:01.0", r)
		out = append(out,
			bridge(port, fmt.Sprintf("pci0000:%02x/%s", r, port)),
			bridge(fmt.Sprintf("0000:%02x:00.0", r+1), upstream(k)),
			bridge(fmt.Sprintf("0000:%02x:00.0", r+2), fmt.Sprintf("%s/0000:%02x:00.0", upstream(k), r+2)),
			bridge(fmt.Sprintf("0000:%02x:01.0", r+2), fmt.Sprintf("%s/0000:%02x:01.0", upstream(k), r+2)),
			facts.PCIDevice{BDF: gpuBDF(k), Path: gpuPath(k), Class: 0x030200, Vendor: 0x10de, Device: 0x2330, NUMA: numa(k), Width: 16, MaxWidth: 16, Speed: speed, MaxSpeed: speed},
			facts.PCIDevice{BDF: nicBDF(k), Path: nicPath(k), Class: 0x020700, Vendor: 0x15b3, Device: 0x1021, NUMA: numa(k), Width: 16, MaxWidth: 16, Speed: speed, MaxSpeed: speed},
		)
	}
	for k := range switches {
		out = append(out, facts.PCIDevice{
			BDF: switchBDF(k), Path: fmt.Sprintf("pci0000:04/0000:04:0%d.0/%s", k+1, switchBDF(k)), Class: 0x068000, Vendor: 0x10de, Device: 0x22a3,
			Width: 2, MaxWidth: 2, Speed: "16.0 GT/s PCIe", MaxSpeed: "16.0 GT/s PCIe",
		})
	}
	return out
}

// switches is how many NVSwitches there are.
const switches = 4

func switchBDF(k int) string { return fmt.Sprintf("0000:0%d:00.0", 6+k) }

func gpu(i int) facts.GPU {
	g := facts.GPU{
		Driver: "550.54.15", CUDA: "12.4", Open: true, SMI: "/usr/bin/nvidia-smi", Topo: topo(), P2P: p2p(),
		Fabric: facts.Fabric{Installed: true, Running: true, Version: "550.54.15"},
	}
	for k := range rails {
		g.Devices = append(g.Devices, device(i, k))
		g.PCI = append(g.PCI, gpuBDF(k))
		g.DevFiles = append(g.DevFiles, k)
	}
	for k := range switches {
		g.Switches = append(g.Switches, switchBDF(k))
	}
	return g
}

func device(i, k int) facts.Device {
	return facts.Device{
		Index: k, UUID: fmt.Sprintf("GPU-4f2a91c0-77d3-%04x-b6e1-%012x", k, i+1), BDF: gpuBDF(k), Name: "NVIDIA H100 80GB HBM3",
		VBIOS: "96.00.89.00.01", Serial: fmt.Sprintf("165%06d%d", i, k), Minor: k, NUMA: numa(k), Path: gpuPath(k),
		MemTotal: 81559 << 20, MemUsed: 1 << 20, MIG: "Disabled", Compute: "Default", Persist: "Enabled", ECC: "Enabled", ECCNext: "Enabled",
		SRAMOver: "No", Recovery: "None",
		FabricState: "Completed", FabricStatus: "Success", FabricCluster: "00000000-0000-0000-0000-000000000000", FabricClique: "0",
		NVLinks: 18, NVActive: 18, Width: 16, MaxWidth: 16, Gen: 5, MaxGen: 5, Throttle: []string{"gpu_idle"}, Temp: 31,
	}
}

// topo is what nvidia-smi topo -m prints there.
func topo() string {
	var b strings.Builder
	names := make([]string, 0, 2*rails)
	for _, kind := range []string{"GPU", "NIC"} {
		for k := range rails {
			names = append(names, fmt.Sprintf("%s%d", kind, k))
		}
	}
	fmt.Fprintf(&b, "\t\x1b[4m%s\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n", strings.Join(names, "\t"))
	for y, name := range names {
		b.WriteString(name)
		for x := range names {
			b.WriteString("\t" + class(x, y))
		}
		if y < rails {
			fmt.Fprintf(&b, "\t%s\t%d\t\tN/A", []string{"0-47,96-143", "48-95,144-191"}[numa(y)], numa(y))
		}
		b.WriteString("\n")
	}
	b.WriteString(legend)
	for k := range rails {
		fmt.Fprintf(&b, "  NIC%d: mlx5_%d\n", k, k)
	}
	return b.String() + "\n"
}

// p2p is what nvidia-smi topo -p2p r prints there.
func p2p() string {
	var b strings.Builder
	b.WriteString(" ")
	for k := range rails {
		fmt.Fprintf(&b, "\tGPU%d", k)
	}
	for y := range rails {
		fmt.Fprintf(&b, "\t\n GPU%d", y)
		for x := range rails {
			b.WriteString("\t" + map[bool]string{true: "X", false: "OK"}[x == y])
		}
	}
	return b.String() + "\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  GNS  = GPU not supported\n" +
		"  TNS  = Topology not supported\n  NS   = Not supported\n  DR   = Disabled by regkey\n  U    = Unknown\n"
}

// class says how near the devices x and y are: GPUs come first, then NICs.
func class(x, y int) string {
	switch kx, ky := x%rails, y%rails; {
	case x == y:
		return " X "
	case x < rails && y < rails:
		return "NV18"
	case kx == ky:
		return "PIX"
	case numa(kx) == numa(ky):
		return "NODE"
	}
	return "SYS"
}

const legend = `
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

`
