package preflight

import (
	"fmt"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// unwell is a healthy cluster, of a kind that looks ill at the first glance.
type unwell struct {
	name  string
	build builder // nil: factstest.H100
	hosts int     // 0: four
	wreck func(in *Input)
	warns []string // checks that may warn
}

// bridges adds what container and machine managers put on every host alike.
func bridges(h *Host) {
	for k, name := range []string{"virbr0", "cni0", "br-0f12", "flannel.1", "lxcbr0"} {
		kind := "bridge"
		if name == "flannel.1" {
			kind = "tunnel"
		}
		h.Facts.Net.Interfaces = append(h.Facts.Net.Interfaces, facts.Interface{
			Name: name, Kind: kind, Up: true, Running: true, MTU: 1450, MAC: "52:54:00:00:00:01", Addrs: []string{fmt.Sprintf("192.168.%d.1/24", 122+k)},
		})
	}
	h.Facts.Net.OwnName = []string{"127.0.1.1"}
	h.Facts.Net.Names = []facts.NameAddr{{Name: h.Name, Addrs: []string{"127.0.1.1"}}}
}

// bond gives eth0's address to a bond of it and another one.
func bond(h *Host) {
	n := &h.Facts.Net
	iface("eth0", func(i *facts.Interface) {
		b := *i
		b.Name, b.Kind, b.BDF, b.Slaves = "bond0", "bond", "", []string{"eth0", "eth1"}
		i.Addrs, i.Master = nil, "bond0"
		second := *i
		second.Name, second.BDF = "eth1", "0000:05:00.1"
		n.Interfaces = append(n.Interfaces, b, second, facts.Interface{Name: "eno1", Kind: "physical", MTU: 1500, MAC: "3c:ec:ef:00:00:01"})
	})(h)
	for k := range n.Routes {
		if n.Routes[k].Interface == "eth0" {
			n.Routes[k].Interface = "bond0"
		}
	}
}

// efa makes a host one of a cloud whose network devices are EFAs.
func efa(h *Host) {
	h.Facts.System.Virtual = "virtual machine (Amazon EC2)"
	h.Facts.RDMA.PeerMem, h.Facts.RDMA.DMABuf = false, "no"
	h.Facts.RDMA.Modules = map[string]string{"efa": "2.10.0", "ib_uverbs": ""}
	h.Facts.Limits.Memlock = 8 << 20
	h.Facts.GPU.Topo = ""
	for k := range h.Facts.RDMA.Devices {
		d := &h.Facts.RDMA.Devices[k]
		d.Name, d.Type, d.Board = fmt.Sprintf("rdmap%ds0", k), "", ""
		d.Ports = []facts.Port{{Num: 1, State: "ACTIVE", Phys: "LinkUp", Rate: 100, Layer: "Unknown"}}
	}
	h.Facts.Net.Interfaces = h.Facts.Net.Interfaces[:3]
}

// azure makes a host a virtual machine with virtual functions, and an Ethernet one beside.
func azure(h *Host) {
	h.Facts.System.Virtual = "virtual machine (Microsoft Corporation)"
	h.Facts.GPU.Switches, h.Facts.GPU.Fabric = nil, facts.Fabric{}
	for k := range h.Facts.RDMA.Devices {
		d := &h.Facts.RDMA.Devices[k]
		d.Virtual = true
		d.Ports[0].PKeys = []string{"0x8042", "0x7fff"}
	}
	h.Facts.RDMA.Devices = append(h.Facts.RDMA.Devices, facts.HCA{
		Name: "mlx5_an0", BDF: "00ff:00:02.0", Type: "MT4118", Virtual: true, Uverbs: "/dev/infiniband/uverbs8",
		Ports: []facts.Port{{Num: 1, State: "ACTIVE", Phys: "LinkUp", Rate: 100, Layer: ethernet}},
	})
	h.Facts.Limits.Memlock = h.Facts.System.Memory / 8
}

// inContainer makes a host a container on a machine with NVSwitches.
func inContainer(h *Host) {
	h.Facts.System.Virtual, h.Facts.GPU.Fabric = "docker", facts.Fabric{}
	h.Facts.GPU.Devices, h.Facts.GPU.DevFiles = h.Facts.GPU.Devices[:2], []int{0, 1}
	h.Facts.GPU.Topo, h.Ranks = "", 2
	eachGPU(h, noFabricState)
	disk(&h.Facts, facts.DiskShm).Size, disk(&h.Facts, facts.DiskShm).Free = 2<<30, 2<<30
}

// older makes a host one of another generation.
func older(h *Host) {
	eachGPU(h, func(d *facts.Device) {
		d.Name, d.NVLinks, d.NVActive, d.VBIOS = "NVIDIA A100-SXM4-80GB", 12, 12, "92.00.45.00.03"
	})
	h.Facts.GPU.Topo = ""
	for k := range h.Facts.RDMA.Devices {
		d := &h.Facts.RDMA.Devices[k]
		d.Type, d.Ports[0].Rate, d.Firmware = "MT4123", 200, "20.39.1002"
	}
	h.Facts.System.CPUs, h.Facts.System.Memory, h.Facts.System.Available = 128, 1<<40, 900<<30
}

// ipv6 gives a host an IPv6 address only.
func ipv6(h *Host) {
	own := "fd00::" + h.Name[len(h.Name)-1:]
	iface("eth0", func(i *facts.Interface) { i.Addrs = []string{own + "/64", "fe80::1/64"} })(h)
	h.Facts.Addr, h.Facts.Net.OwnName = own, []string{own}
	h.Facts.Net.Names = []facts.NameAddr{{Name: h.Name, Addrs: []string{own}}}
	h.Facts.Net.Routes = []facts.Route{{Prefix: "::/0", Via: "fe80::99", Interface: "eth0"}, {Prefix: "fd00::/64", Interface: "eth0"}}
}

func unwells() []unwell {
	workstation := func(h *Host) {
		h.Facts.System.Virtual, h.Facts.GPU.Switches, h.Facts.GPU.Fabric, h.Facts.GPU.Topo = "", nil, facts.Fabric{}, ""
		h.Facts.GPU.Devices, h.Facts.GPU.PCI, h.Facts.GPU.DevFiles, h.Ranks = h.Facts.GPU.Devices[:2], h.Facts.GPU.PCI[:2], []int{0, 1}, 2
		h.Facts.RDMA, h.Facts.NCCL = facts.RDMA{}, nil
		eachGPU(h, func(d *facts.Device) {
			noFabricState(d)
			d.Name, d.NVLinks, d.NVActive, d.Persist, d.ECC, d.ECCNext = "NVIDIA RTX A6000", -1, 0, "Disabled", "Disabled", "Disabled"
			d.Width, d.Recovery, d.MIG, d.SRAMOver = 8, "", "N/A", ""
			d.Users = []facts.GPUUser{{PID: 900, Name: "/usr/lib/xorg/Xorg", Type: "G", Memory: 4 << 20}}
		})
	}
	return []unwell{
		{name: "debian-with-bridges", build: factstest.Plain, wreck: all(bridges)},
		{name: "two-debians", build: factstest.Plain, hosts: 2, wreck: all(bridges)},
		{name: "bonds", build: factstest.Plain, wreck: all(bond)},
		{name: "ipv6-only", build: factstest.Plain, wreck: all(ipv6)},
		{name: "efa", wreck: all(efa)},
		{name: "azure", wreck: all(azure)},
		{name: "azure-two", hosts: 2, wreck: all(azure)},
		{name: "azure-one", hosts: 1, wreck: all(azure)},
		{name: "containers", wreck: all(inContainer)},
		{name: "container", hosts: 1, wreck: all(inContainer)},
		{name: "workstation", hosts: 1, wreck: all(workstation)},
		{name: "two-workstations", hosts: 2, wreck: all(workstation)},
		{name: "two-generations", wreck: func(in *Input) { on(2, older)(in); on(3, older)(in) }, warns: []string{"gpu-model", "rdma-rate", "rdma-firmware"}},
		{name: "head-without-gpus", wreck: on(0, func(h *Host) {
			h.Facts, h.Ranks = factstest.Plain("gpu01", 0), 1
		}), warns: []string{"gpu-count", "rdma-used", "library-path"}},
		{name: "head-exports-the-directory", build: factstest.Plain, wreck: func(in *Input) {
			all(func(h *Host) { disk(&h.Facts, facts.DiskWork).ID = "nfs gpu01:/shared/job" })(in)
			disk(&in.Hosts[0].Facts, facts.DiskWork).ID = ""
		}},
		{name: "scheduler", wreck: func(in *Input) {
			for i := range in.Hosts {
				h := &in.Hosts[i]
				value := fmt.Sprint(i)
				h.Facts.GPU.Visible, h.Facts.GPU.Confined, h.Ranks, h.GPUs = &value, true, 1, []int{0}
				h.Facts.GPU.Devices, h.Facts.GPU.DevFiles, h.Facts.GPU.Topo = h.Facts.GPU.Devices[:1], []int{0}, ""
				h.Facts.GPU.Devices[0].Compute = "Exclusive_Process"
			}
		}},
		{name: "root", wreck: all(func(h *Host) {
			h.Facts.System.UID, h.Facts.System.User = 0, "root"
			h.Facts.Limits.Memlock, h.Facts.Limits.LockAny, h.Facts.Limits.Nproc = 8<<20, true, 4096
			h.Facts.Limits.NprocUsed = 0
		})},
		{name: "history", wreck: all(func(h *Host) {
			h.Facts.Kernel.XIDs = []facts.XID{{At: 9, BDF: "0000:61:00", Code: 31}, {At: 800, BDF: "0000:61:00", Code: 13}, {At: 9000, BDF: "0000:61:00", Code: 43}}
			h.Facts.Kernel.Lines = []string{"[77.000000] Out of memory: Killed process 1 (python)", "[12.500000] mce: [Hardware Error]: Machine check events logged"}
			h.Facts.Kernel.SXIDs = []facts.XID{{At: 5, BDF: "0000:06:00.0", Code: 12028, Text: "Non-fatal, Link 30"}}
		})},
		{name: "wheels", wreck: on(1, func(h *Host) { h.Facts.NCCL = nil })},
		{name: "ports-down-on-purpose", wreck: all(storage("DOWN"))},
		{name: "storage-up", wreck: all(storage("ACTIVE"))},
		{name: "many-ranks-without-gpus", build: factstest.Plain, wreck: all(func(h *Host) {
			h.Ranks, h.Facts.Limits.Nproc, h.Facts.System.CgroupMax = 192, 30000, 19660
			disk(&h.Facts, facts.DiskShm).Free = 60 << 30
		})},
		{name: "small-tmp", build: factstest.Plain, wreck: all(func(h *Host) {
			d := disk(&h.Facts, facts.DiskTmp)
			d.Type, d.Size, d.Free = "tmpfs", 512<<20, 500<<20
		})},
	}
}

// TestHealthyClustersMayGo wants a go, and no warning but those that are named.
func TestHealthyClustersMayGo(t *testing.T) {
	for _, row := range unwells() {
		t.Run(row.name, func(t *testing.T) {
			build, n := row.build, row.hosts
			if build == nil {
				build = factstest.H100
			}
			if n == 0 {
				n = 4
			}
			in := cluster(build, n)
			row.wreck(&in)
			may := map[string]bool{}
			for _, id := range row.warns {
				may[id] = true
			}
			r := Judge(in)
			for _, f := range r.Findings {
				if rank(f.Verdict) < rank(Warn) || f.Verdict == Warn && !may[f.Check] {
					t.Errorf("%s: %s: %s %q", f.Check, f.Verdict, f.Title, f.Evidence)
				}
			}
			if d := Decide(r, Shape{}, false); d.Verdict != Go {
				t.Errorf("got %q; want a go", d.Headline())
			}
		})
	}
}
