// Package factstest builds facts of hosts on which all is well, for tests: each test
// then breaks what it is about. Facts of one kind are equal on all hosts but for what
// must be unique, such as addresses, boot IDs and serial numbers, which follow from the
// number that a host is given.
package factstest

import (
	"fmt"
	"time"

	"gorun/preflight/facts"
)

const (
	gib = 1 << 30
	tib = 1 << 40
)

// Plain returns the facts of a host with CPUs and 25-gigabit Ethernet only. i must be
// less than 60,000 and different on each host of a test.
func Plain(name string, i int) facts.Host {
	return facts.Host{
		Version: facts.Version, Name: name, Addr: addr(10, 0, i),
		System: system(name, i, 64, 256*gib),
		Limits: facts.Limits{
			Memlock: -1, MemlockHard: -1, Nofile: 131072, NofileHard: 1048576,
			Nproc: 1030000, NprocUsed: 400, Stack: 8 << 20, Core: 0,
		},
		Disks: disks(128 * gib),
		Net:   network(name, i),
		PCI: facts.PCI{IOMMU: "off", Devices: []facts.PCIDevice{{
			BDF: "0000:05:00.0", Path: "pci0000:00/0000:00:04.0/0000:05:00.0", Class: 0x020000, Vendor: 0x15b3, Device: 0x1015,
			Width: 8, MaxWidth: 8, Speed: "8.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", ACS: "off",
		}}},
		GPU:      facts.GPU{},
		Programs: []facts.Program{program()},
		Took:     9 * time.Millisecond,
		Items:    []facts.ItemDuration{{Item: facts.ItemSystem, Took: 4 * time.Millisecond}},
	}
}

// H100 returns the facts of a host with eight H100 GPUs behind NVSwitches and eight
// InfiniBand HCAs of 400 Gb/s, each GPU below one PCI switch with one HCA.
func H100(name string, i int) facts.Host {
	h := gpuHost(name, i)
	for k := range rails {
		h.RDMA.Devices = append(h.RDMA.Devices, infiniband(i, k))
		h.Net.Interfaces = append(h.Net.Interfaces, facts.Interface{
			Name: fmt.Sprintf("ib%d", k), Kind: "infiniband", Type: 32, Up: true, Running: true, MTU: 4092,
			MAC: fmt.Sprintf("00:00:10:49:fe:80:00:00:00:00:00:00:%s", colons(guid(i, k))), Speed: 400000, Driver: "mlx5_core", BDF: nicBDF(k),
		})
	}
	return h
}

// RoCE returns the facts of a host as H100's, but with Ethernet of 400 Gb/s on each of
// eight rails, which are the networks 10.100.0.0/16 to 10.107.0.0/16.
func RoCE(name string, i int) facts.Host {
	h := gpuHost(name, i)
	for k := range rails {
		h.RDMA.Devices = append(h.RDMA.Devices, ethernet(i, k))
		h.Net.Interfaces = append(h.Net.Interfaces, facts.Interface{
			Name: railName(k), Kind: "physical", Type: 1, Up: true, Running: true, MTU: 9000,
			MAC: mac(i, k+1), Speed: 400000, Driver: "mlx5_core", BDF: nicBDF(k), Addrs: []string{addr(10, 100+k, i) + "/16"},
		})
		h.Net.Routes = append(h.Net.Routes, facts.Route{Prefix: fmt.Sprintf("10.%d.0.0/16", 100+k), Interface: railName(k)})
	}
	return h
}

func gpuHost(name string, i int) facts.Host {
	h := Plain(name, i)
	h.System = system(name, i, 192, 2*tib)
	h.System.OFED, h.System.RDMACore = "24.10-1.1.4", "2410mlnx54"
	h.Disks = disks(1 * tib)
	h.GPU = gpu(i)
	h.PCI.Devices = append(h.PCI.Devices, tree()...)
	h.RDMA = facts.RDMA{
		Modules:  map[string]string{"mlx5_core": "24.10-1.1.4", "mlx5_ib": "24.10-1.1.4", "ib_uverbs": "24.10-1.1.4", "ib_umad": "24.10-1.1.4", "rdma_cm": "24.10-1.1.4", "nvidia_peermem": "550.54.15"},
		PeerMem:  true,
		DMABuf:   "yes",
		Perftest: "/usr/bin/ib_write_bw",
		ABI:      "5",
	}
	h.NCCL = []facts.Library{{Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2", Version: "2.21.5", Build: "1f9c0ba71f5a2f6f1c0bb5a9f7a0c43f3b1b2a11"}}
	h.Session = []string{"LD_LIBRARY_PATH=/usr/local/cuda/lib64"}
	h.Took = 700 * time.Millisecond
	h.Items = append([]facts.ItemDuration{{Item: facts.ItemGPU, Took: 690 * time.Millisecond}}, h.Items...)
	return h
}

func system(name string, i, cpus int, memory int64) facts.System {
	half := cpus / 4
	return facts.System{
		Hostname: name, BootID: fmt.Sprintf("5d0a7c1e-9f3b-4c57-8e21-%012x", i+1),
		Kernel: "5.15.0-1053", OS: "Ubuntu 22.04.4 LTS", Arch: "amd64", Libc: "glibc 2.35",
		Cmdline: "BOOT_IMAGE=/boot/vmlinuz root=/dev/nvme0n1p2 ro quiet", Uptime: 864000 + float64(i), Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		CPUs: cpus, Cores: cpus / 2, Memory: memory, Available: memory / 10 * 9, Load: 0.2, UID: 1000, User: "alice",
		NUMA: []facts.NUMA{
			{ID: 0, CPUs: fmt.Sprintf("0-%d,%d-%d", half-1, 2*half, 3*half-1)},
			{ID: 1, CPUs: fmt.Sprintf("%d-%d,%d-%d", half, 2*half-1, 3*half, 4*half-1)},
		},
		CgroupMax: 629145, CgroupNow: 300,
		CopyOne: 12e9, CopyAll: 3e9 * float64(cpus/2),
	}
}

func disks(shm int64) []facts.Disk {
	return []facts.Disk{
		{Use: facts.DiskShm, Path: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Size: shm, Free: shm, Inodes: 1 << 25, InodesOK: 1<<25 - 1, Writable: true},
		{Use: facts.DiskTmp, Path: "/tmp", Type: "ext4", Source: "/dev/nvme0n1p2", Size: 2 * tib, Free: 1 * tib, Inodes: 1 << 27, InodesOK: 1 << 26, Writable: true},
		{Use: facts.DiskWork, Path: "/shared/job", Type: "nfs4", Source: "nas:/export", Size: 90 * tib, Free: 40 * tib, Writable: true, ID: "nfs nas:/export/job"},
		{Use: facts.DiskHome, Path: "/home/alice", Type: "nfs4", Source: "nas:/home", Size: 9 * tib, Free: 4 * tib, Writable: true, ID: "nfs nas:/home/alice"},
	}
}

func network(name string, i int) facts.Net {
	own := addr(10, 0, i)
	return facts.Net{
		Interfaces: []facts.Interface{
			{Name: "lo", Kind: "loopback", Type: 772, Up: true, Running: true, MTU: 65536, Addrs: []string{"127.0.0.1/8", "::1/128"}},
			{Name: "eth0", Kind: "physical", Type: 1, Up: true, Running: true, MTU: 1500, MAC: mac(i, 0), Speed: 25000, Driver: "mlx5_core", BDF: "0000:05:00.0", Addrs: []string{own + "/16"}},
			{Name: "docker0", Kind: "bridge", Type: 1, Up: true, MTU: 1500, MAC: "02:42:7c:1e:5a:01", Addrs: []string{"172.17.0.1/16"}},
		},
		PortRange: [2]int{32768, 60999},
		Routes: []facts.Route{
			{Prefix: "0.0.0.0/0", Via: "10.0.255.254", Interface: "eth0"},
			{Prefix: "10.0.0.0/16", Interface: "eth0"},
			{Prefix: "172.17.0.0/16", Interface: "docker0"},
		},
		OwnName: []string{own},
		Names:   []facts.NameAddr{{Name: name, Addrs: []string{own}}},
	}
}

func program() facts.Program {
	return facts.Program{
		Arg: "./train", Path: "/shared/job/train", Size: 4 << 20,
		SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	}
}

// addr is the i-th address of a network a.b.0.0/16.
func addr(a, b, i int) string { return fmt.Sprintf("%d.%d.%d.%d", a, b, i/250, i%250+1) }

func mac(i, k int) string { return fmt.Sprintf("02:00:%02x:%02x:%02x:00", i>>8&0xff, i&0xff, k) }
