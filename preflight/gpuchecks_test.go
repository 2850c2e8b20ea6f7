package preflight

import (
	"fmt"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// gpu returns a wreck of a GPU of the host that has the index.
func gpu(host, device int, wreck func(d *facts.Device)) func(in *Input) {
	return on(host, func(h *Host) { wreck(&h.Facts.GPU.Devices[device]) })
}

// gpus returns a wreck of all GPUs of a host.
func gpus(host int, wreck func(d *facts.Device)) func(in *Input) {
	return on(host, func(h *Host) { eachGPU(h, wreck) })
}

func eachGPU(h *Host, wreck func(d *facts.Device)) {
	for k := range h.Facts.GPU.Devices {
		wreck(&h.Facts.GPU.Devices[k])
	}
}

func loseGPU(h *Host, device int) {
	d := &h.Facts.GPU
	d.Devices = append(d.Devices[:device:device], d.Devices[device+1:]...)
	d.Topo = ""
}

const used = "0000:5e:00.0"

func xid(codes ...int) func(h *Host) {
	return func(h *Host) {
		for k, code := range codes {
			h.Facts.Kernel.XIDs = append(h.Facts.Kernel.XIDs, facts.XID{At: 800000 + float64(k), BDF: "0000:61:00", Code: code})
		}
	}
}

func gpuFirings() []firing {
	noSMIOn := func(exit int, text string) func(in *Input) {
		return on(2, func(h *Host) {
			h.Facts.GPU.SMIExit, h.Facts.GPU.SMIText, h.Facts.GPU.Devices, h.Facts.GPU.Topo = exit, text, nil, ""
		})
	}
	visible := func(value string) func(h *Host) { return func(h *Host) { h.Facts.GPU.Visible = &value } }
	user := facts.GPUUser{PID: 4711, Name: "python", User: "bob", Type: "C", Memory: 1 << 30}
	return []firing{
		{check: "gpu-driver", name: "not-loaded", wreck: on(2, func(h *Host) {
			h.Facts.GPU = facts.GPU{PCI: h.Facts.GPU.PCI, SMI: "/usr/bin/nvidia-smi", Switches: nil}
		}),
			verdict: NoHost, blamed: "gpu03", title: "no GPU driver is loaded", evidence: "8 GPUs on the PCI bus", remedy: "modprobe nvidia"},
		{check: "gpu-driver", name: "exit-15", wreck: noSMIOn(15, "Unable to determine the device handle"),
			verdict: NoHost, blamed: "gpu03", title: "exit code 15: a GPU fell off the bus", evidence: "nvidia-smi says: Unable", remedy: "reboot gpu03"},
		{check: "gpu-driver", name: "exit-14", wreck: on(2, func(h *Host) { h.Facts.GPU.SMIExit = 14 }), verdict: Warn, blamed: "gpu03", title: "infoROM"},
		{check: "gpu-driver", name: "killed", wreck: noSMIOn(139, ""), verdict: NoHost, blamed: "gpu03", title: "ended by signal 11"},
		{check: "gpu-driver", name: "other-exit", wreck: noSMIOn(77, ""), verdict: NoHost, blamed: "gpu03", title: "exit code 77"},
		{check: "gpu-driver", name: "hangs", wreck: on(2, func(h *Host) {
			h.Facts.Unknown = map[string]string{facts.ItemGPU: "nvidia-smi did not answer in 5s"}
			h.Facts.GPU.Devices = nil
			h.Facts.GPU.Hung = []facts.Process{{PID: 99, Name: "nvidia-smi", User: "root", State: "D", Wait: "nv_open"}}
		}), verdict: NoHost, blamed: "gpu03", title: "gpu03 has a GPU driver that hangs", evidence: "process 99 (nvidia-smi, of root) is in state D, in nv_open", remedy: "reboot gpu03"},
		{check: "gpu-driver", name: "no-answer", wreck: unknownOn(2, facts.ItemGPU), verdict: Unknown, blamed: "gpu03", title: "it did not answer in 5s"},
		{check: "gpu-driver", name: "no-nvidia-smi", wreck: on(2, func(h *Host) { h.Facts.GPU.SMI, h.Facts.GPU.Devices = "", nil }), verdict: Unknown, blamed: "gpu03", title: "nvidia-smi is not installed"},
		{check: "gpu-driver", name: "job-without-gpus", wreck: func(in *Input) { in.Job.GPU = false; noSMIOn(15, "")(in) }, verdict: Warn, blamed: "gpu03"},
		{check: "gpu-driver", name: "one-gpu-lost", wreck: gpu(2, 5, func(d *facts.Device) { d.Trouble = "GPU is lost" }), verdict: NoHost, blamed: "gpu03", title: "does not answer: GPU 5", evidence: "GPU is lost"},
		{check: "gpu-count", name: "fell-off", wreck: on(2, func(h *Host) { xid(79)(h); loseGPU(h, 3) }),
			verdict: NoHost, blamed: "gpu03", title: "gpu03 has 7 of 8 GPUs: 0000:61:00.0 missing", evidence: "last XID 79", remedy: "reboot gpu03"},
		{check: "gpu-count", name: "fewer", wreck: on(2, func(h *Host) {
			loseGPU(h, 3)
			h.Facts.GPU.PCI = h.Facts.GPU.PCI[:7:7]
			h.Facts.GPU.PCI[3] = "0000:c9:00.0"
		}),
			verdict: NoHost, blamed: "gpu03", title: "gpu03 has 7 of 8 GPUs: 0000:61:00.0 missing", evidence: "0000:61:00.0 is not on the PCI bus"},
		{check: "gpu-count", name: "fewer-in-other-slots", wreck: on(2, func(h *Host) {
			loseGPU(h, 3)
			h.Facts.GPU.PCI = []string{"0000:a1:00.0"}
			h.Facts.GPU.Devices = h.Facts.GPU.Devices[:1]
			h.Facts.GPU.Devices[0].BDF = "0000:a1:00.0"
		}), verdict: NoHost, blamed: "gpu03", title: "gpu03 has 1 GPU, the others have 8 GPUs"},
		{check: "gpu-count", name: "smaller-machine", wreck: on(2, func(h *Host) {
			h.Facts.GPU.Devices, h.Facts.GPU.PCI, h.Ranks = h.Facts.GPU.Devices[:4], h.Facts.GPU.PCI[:4], 4
		}), verdict: Warn, blamed: "gpu03", title: "gpu03 has 4 GPUs, the others have 8 GPUs"},
		{check: "gpu-count", name: "card-for-the-screen", hosts: 1, wreck: on(0, func(h *Host) {
			h.Facts.GPU.PCI = append(h.Facts.GPU.PCI, "0000:f9:00.0")
			h.Facts.PCI.Devices = append(h.Facts.PCI.Devices, facts.PCIDevice{BDF: "0000:f9:00.0", Class: 0x030000, Vendor: 0x10de, Device: 0x128b})
		})},
		{check: "gpu-count", name: "none-with-a-driver", wreck: on(2, func(h *Host) { h.Facts.GPU, h.Facts.PCI = facts.GPU{Driver: "550.54.15"}, facts.PCI{} }),
			verdict: NoHost, blamed: "gpu03", title: "gpu03 has no GPU, the others have 8 GPUs"},
		{check: "gpu-count", name: "none", wreck: on(2, func(h *Host) { h.Facts.GPU, h.Facts.PCI = facts.GPU{}, facts.PCI{} }),
			verdict: Warn, blamed: "gpu03", title: "gpu03 has no GPU, the others have 8 GPUs"},
		{check: "gpu-count", name: "two", hosts: 2, wreck: on(1, func(h *Host) {
			h.Facts.GPU.Devices, h.Facts.GPU.PCI, h.Ranks = h.Facts.GPU.Devices[:4], h.Facts.GPU.PCI[:4], 4
		}),
			verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in the number of their GPUs: 8 GPUs on gpu01, 4 GPUs on gpu02"},
		{check: "gpu-count", name: "more", wreck: func(in *Input) {
			for i := range 3 {
				h := &in.Hosts[i]
				h.Facts.GPU.Devices, h.Facts.GPU.PCI, h.Ranks = h.Facts.GPU.Devices[:4], h.Facts.GPU.PCI[:4], 4
			}
		}},
		{check: "gpu-count", name: "hidden-by-a-scheduler", hosts: 1, wreck: all(func(h *Host) {
			h.Facts.GPU.Confined, h.Ranks = true, 2
			h.Facts.GPU.Devices = h.Facts.GPU.Devices[:2]
		})},
		{check: "gpu-count", name: "lost-in-a-job", hosts: 1, wreck: all(func(h *Host) { xid(79)(h); h.Facts.GPU.Confined = true; loseGPU(h, 3) }),
			verdict: NoHost, blamed: "gpu01"},
		{check: "gpu-count", name: "hidden-in-container", hosts: 1, wreck: all(func(h *Host) {
			h.Facts.System.Virtual, h.Ranks = "docker", 2
			h.Facts.GPU.Devices = h.Facts.GPU.Devices[:2]
		})},
		{check: "gpu-count", name: "fewer-than-ranks", wreck: on(1, func(h *Host) { h.Ranks = 16 }), verdict: Warn, blamed: "gpu02", title: "8 GPUs, 16 ranks"},
		{check: "gpu-model", name: "other", wreck: gpus(1, func(d *facts.Device) { d.Name = "NVIDIA H200"; d.MemTotal = 141 << 30 }),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has NVIDIA H200 (141 GiB), the others have NVIDIA H100 80GB HBM3"},
		{check: "gpu-model", name: "two", hosts: 2, wreck: gpus(1, func(d *facts.Device) { d.Name = "NVIDIA H200" }), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "gpu-vbios", name: "one", wreck: gpu(1, 2, func(d *facts.Device) { d.VBIOS = "96.00.30.00.01" }), verdict: Warn, blamed: "gpu02", title: "gpu02 has VBIOS 96.00.30.00.01 + 96.00.89.00.01"},
		{check: "gpu-open", name: "denied", wreck: on(1, func(h *Host) { h.Facts.GPU.Denied = []string{"/dev/nvidiactl"} }), verdict: NoHost, blamed: "gpu02", evidence: "/dev/nvidiactl"},
		{check: "gpu-open", name: "absent", wreck: on(1, func(h *Host) { h.Facts.GPU.DevFiles = []int{0, 1, 2, 4, 5, 6, 7} }), verdict: NoHost, blamed: "gpu02", evidence: "/dev/nvidia3 is missing"},
		{check: "gpu-open", name: "of-a-gpu-that-is-not-used", wreck: on(1, func(h *Host) {
			h.GPUs, h.Ranks, h.Facts.GPU.Denied = []int{0}, 1, []string{"/dev/nvidia3"}
		})},
		{check: "gpu-visible", name: "one", wreck: on(1, visible("0,1,2,3,4,5,6,7")), verdict: Info, blamed: "gpu02", title: "gpu02 has CUDA_VISIBLE_DEVICES"},
		{check: "gpu-visible", name: "hides", wreck: on(1, visible("0,1,-1,3")), verdict: NoHost, blamed: "gpu02", evidence: "leaves 2 GPUs for 8 ranks"},
		{check: "gpu-visible", name: "empty", wreck: on(1, visible("")), verdict: NoHost, blamed: "gpu02", evidence: "leaves 0 GPUs"},
		{check: "gpu-visible", name: "everywhere-empty", wreck: all(visible("")), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-visible", name: "set-by-the-job", wreck: on(1, func(h *Host) { visible("0")(h); h.GPUs = []int{0, 1, 2, 3, 4, 5, 6, 7} })},
		{check: "gpu-visible", name: "by-a-scheduler", wreck: func(in *Input) {
			for i := range in.Hosts {
				in.Hosts[i].Ranks = 2
				visible(fmt.Sprintf("%d,%d", i, i+4))(&in.Hosts[i])
			}
		}},
		{check: "gpu-visible", name: "all-alike", wreck: all(visible("0,1,2,3,4,5,6,7"))},
		{check: "gpu-free", name: "busy", wreck: gpu(1, 2, func(d *facts.Device) { d.Users = []facts.GPUUser{user}; d.MemUsed = 2 << 30 }),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has GPUs that are in use: GPU 2", evidence: "GPU 2: process 4711 (python) of bob, 1 GiB"},
		{check: "gpu-free", name: "own", wreck: gpus(1, func(d *facts.Device) { u := user; u.User = "alice"; d.Users = []facts.GPUUser{u} }),
			verdict: NoHost, blamed: "gpu02", title: "GPUs 0-7", evidence: "of alice, the job's own user, 8 GiB"},
		{check: "gpu-free", name: "nobody", wreck: gpu(1, 2, func(d *facts.Device) { d.MemUsed = 20 << 30 }), verdict: NoHost, blamed: "gpu02", title: "no process that can be seen", evidence: "20 GiB in use"},
		{check: "gpu-free", name: "a-little-of-nobody", wreck: gpu(1, 2, func(d *facts.Device) { d.MemUsed = 2 << 30 }), verdict: Warn, blamed: "gpu02", evidence: "2 GiB in use"},
		{check: "gpu-free", name: "of-the-driver", wreck: all(func(h *Host) { eachGPU(h, func(d *facts.Device) { d.MemUsed = 20 << 30 }) }), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-free", name: "mps", wreck: gpus(1, func(d *facts.Device) {
			d.Users = []facts.GPUUser{{PID: 7, Name: "/usr/bin/nvidia-cuda-mps-server", User: "root", Type: "C", Memory: 30 << 20}}
		})},
		{check: "gpu-free", name: "not-used-by-job", wreck: func(in *Input) {
			in.Hosts[1].GPUs, in.Hosts[1].Ranks = []int{0, 1}, 2
			gpu(1, 2, func(d *facts.Device) { d.Users = []facts.GPUUser{user}; d.MemUsed = 2 << 30 })(in)
		}},
		{check: "gpu-free", name: "screen", wreck: gpu(1, 2, func(d *facts.Device) { d.Users = []facts.GPUUser{{PID: 7, Name: "Xorg", Type: "G"}} })},
		{check: "gpu-mode", name: "mig", wreck: gpu(1, 0, func(d *facts.Device) { d.MIG = "Enabled" }), verdict: NoHost, blamed: "gpu02", title: "MIG"},
		{check: "gpu-mode", name: "mig-everywhere", wreck: all(func(h *Host) { eachGPU(h, func(d *facts.Device) { d.MIG = "Enabled" }) }), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpu-mode", name: "prohibited", wreck: gpu(1, 0, func(d *facts.Device) { d.Compute = "Prohibited" }), verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-mode", name: "exclusive", wreck: gpu(1, 0, func(d *facts.Device) { d.Compute = "Exclusive_Process" }), verdict: Info, blamed: "gpu02"},
		{check: "gpu-mode", name: "exclusive-and-shared", wreck: func(in *Input) {
			gpu(1, 0, func(d *facts.Device) { d.Compute = "Exclusive_Process" })(in)
			in.Hosts[1].Ranks = 16
		}, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-mode", name: "mig-for-one-rank", wreck: func(in *Input) {
			all(func(h *Host) { h.Ranks = 1 })(in)
			gpu(1, 0, func(d *facts.Device) { d.MIG = "Enabled" })(in)
		}, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-xid", name: "fatal-with-consequences", wreck: on(1, xid(79, 45, 45, 154)), verdict: NoHost, blamed: "gpu02",
			title: "gpu02 has had XID 79 (the GPU fell off the bus): GPU 3", evidence: "3 XIDs followed from it"},
		{check: "gpu-xid", name: "days-ago", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.XIDs = []facts.XID{{At: 9, BDF: "0000:61:00", Code: 94}}
		}), verdict: Warn, blamed: "gpu02"},
		{check: "gpu-xid", name: "days-ago-with-an-old-driver", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.XIDs = []facts.XID{{At: 9, BDF: "0000:61:00", Code: 94}}
			h.Facts.GPU.Devices[3].Recovery = ""
		}), verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-xid", name: "two-causes", wreck: on(1, func(h *Host) {
			xid(48, 63)(h)
			h.Facts.Kernel.XIDs = append(h.Facts.Kernel.XIDs, facts.XID{At: 860000, BDF: used, Code: 79})
		}),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has had XID 79, 48: "},
		{check: "gpu-xid", name: "remapped", wreck: on(1, xid(63))},
		{check: "gpu-xid", name: "remap-waits", wreck: func(in *Input) { on(1, xid(63))(in); gpu(1, 3, func(d *facts.Device) { d.RemapWait = true })(in) }, verdict: NoHost, blamed: "gpu02", title: "XID 63"},
		{check: "gpu-xid", name: "by-program", wreck: on(1, xid(31, 43))},
		{check: "gpu-xid", name: "other", wreck: on(1, xid(61)), verdict: Warn, blamed: "gpu02", title: "XID 61"},
		{check: "gpu-xid", name: "not-used-by-job", wreck: func(in *Input) { on(1, xid(79))(in); in.Hosts[1].GPUs, in.Hosts[1].Ranks = []int{0}, 1 }, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-xid", name: "own-set", wreck: func(in *Input) { on(1, xid(79))(in); in.Limits.Fatal = []int{61} }, verdict: Warn, blamed: "gpu02"},
		{check: "gpu-xid", name: "unreadable", wreck: unknownOn(1, facts.ItemKernel), verdict: Unknown, blamed: "gpu02", title: "kernel log"},
		{check: "gpu-xid", name: "unreadable-without-gpus", build: factstest.Plain, wreck: unknownOn(1, facts.ItemKernel)},
		{check: "gpu-sxid", name: "fatal", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.SXIDs = []facts.XID{{At: 5, BDF: "0000:06:00.0", Code: 20034, Text: "Fatal, Link 30 LTSSM Fault Up"}}
		}),
			verdict: NoHost, blamed: "gpu02", evidence: "SXID 20034"},
		{check: "gpu-sxid", name: "not-fatal", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.SXIDs = []facts.XID{{At: 863000, BDF: "0000:06:00.0", Code: 12028, Text: "Non-fatal, Link 30"}}
		}), verdict: Warn, blamed: "gpu02"},
		{check: "gpu-sxid", name: "days-ago", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.SXIDs = []facts.XID{{At: 5, BDF: "0000:06:00.0", Code: 12028, Text: "Non-fatal, Link 30"}}
		})},
		{check: "gpu-driver", name: "cards-for-the-screen", build: factstest.Plain, wreck: all(func(h *Host) {
			h.Facts.GPU.PCI = []string{"0000:01:00.0"}
			h.Facts.PCI.Devices = append(h.Facts.PCI.Devices, facts.PCIDevice{BDF: "0000:01:00.0", Class: 0x030000, Vendor: 0x10de})
		})},
		{check: "gpu-ecc", name: "uncorrected", wreck: gpu(1, 4, func(d *facts.Device) { d.Uncorrected = 2 }), verdict: NoHost, blamed: "gpu02", title: "GPU 4", remedy: "on gpu02: nvidia-smi -r -i 4;"},
		{check: "gpu-ecc", name: "sram", wreck: gpu(1, 4, func(d *facts.Device) { d.SRAMOver = "Yes" }), verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-ecc", name: "corrected", wreck: gpu(1, 4, func(d *facts.Device) { d.Corrected = 20_000_000 }), verdict: Warn, blamed: "gpu02"},
		{check: "gpu-ecc", name: "off", wreck: gpu(1, 4, func(d *facts.Device) { d.ECC = "Disabled" }), verdict: Warn, blamed: "gpu02"},
		{check: "gpu-ecc", name: "off-everywhere", wreck: all(func(h *Host) { eachGPU(h, func(d *facts.Device) { d.ECC, d.ECCNext = "Disabled", "Disabled" }) })},
		{check: "gpu-ecc", name: "not-told", wreck: gpu(1, 4, func(d *facts.Device) { d.Uncorrected, d.Corrected, d.ECC, d.ECCNext = -1, -1, "", "" })},
		{check: "gpu-ecc", name: "unknown", wreck: unknownOn(1, facts.ItemGPU), verdict: Unknown, blamed: "gpu02"},
		{check: "gpu-remap", name: "pending", wreck: gpu(1, 4, func(d *facts.Device) { d.RemapWait = true }), verdict: NoHost, blamed: "gpu02", title: "row remap pending"},
		{check: "gpu-remap", name: "failed", wreck: gpu(1, 4, func(d *facts.Device) { d.RemapFailed = true }), verdict: NoHost, blamed: "gpu02", remedy: "replaced on gpu02: GPU 4"},
		{check: "gpu-remap", name: "many", wreck: gpu(1, 4, func(d *facts.Device) { d.RemapBad = 513 }), verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-remap", name: "page", wreck: gpu(1, 4, func(d *facts.Device) { d.RetireWait = true }), verdict: NoHost, blamed: "gpu02"},
		{check: "gpu-recovery", name: "reset", wreck: gpu(1, 4, func(d *facts.Device) { d.Recovery = "Reset" }), verdict: NoHost, blamed: "gpu02", remedy: "nvidia-smi -r -i 4"},
		{check: "gpu-recovery", name: "reboot", wreck: gpu(1, 4, func(d *facts.Device) { d.Recovery = "Reboot" }), verdict: NoHost, blamed: "gpu02", remedy: "reboot gpu02"},
		{check: "gpu-recovery", name: "drain", wreck: gpu(1, 4, func(d *facts.Device) { d.Recovery = "Drain and Reset" }), verdict: NoHost, blamed: "gpu02", remedy: "end what runs on gpu02"},
		{check: "gpu-persistence", name: "off", wreck: gpus(1, func(d *facts.Device) { d.Persist = "Disabled" }), verdict: Info, blamed: "gpu02", remedy: "nvidia-smi -pm 1"},
		{check: "gpu-throttle", name: "hot", wreck: gpu(1, 4, func(d *facts.Device) { d.Throttle, d.Temp = []string{"hw_thermal_slowdown", "sw_power_cap"}, 91 }), verdict: Warn, blamed: "gpu02", evidence: "hw_thermal_slowdown, at 91 °C"},
		{check: "gpu-throttle", name: "power-cap", wreck: gpu(1, 4, func(d *facts.Device) { d.Throttle = []string{"sw_power_cap", "applications_clocks_setting"} })},
		{check: "gpu-pcie", name: "narrow", wreck: gpu(1, 4, func(d *facts.Device) { d.Width = 8 }), verdict: Warn, blamed: "gpu02", evidence: "PCIe x8 of x16"},
		{check: "gpu-pcie", name: "narrow-everywhere", wreck: all(func(h *Host) { eachGPU(h, func(d *facts.Device) { d.Width = 8 }) })},
		{check: "gpu-acs", name: "on", wreck: on(1, func(h *Host) { setACS(h, "on") }), verdict: Warn, blamed: "gpu02", title: "ACS", remedy: "ECAP_ACS+0x6.w=0000"},
		{check: "gpu-acs", name: "virtual-machine", wreck: all(func(h *Host) { setACS(h, "on"); h.Facts.System.Virtual = "kvm" })},
		{check: "gpu-acs", name: "iommu", wreck: on(1, func(h *Host) { h.Facts.PCI.IOMMU = "on" }), verdict: Warn, blamed: "gpu02", title: "IOMMU"},
		{check: "gpu-acs", name: "unreadable", wreck: all(func(h *Host) { setACS(h, "") })},
	}
}

func setACS(h *Host, acs string) {
	for k := range h.Facts.PCI.Devices {
		if d := &h.Facts.PCI.Devices[k]; d.Class == 0x060400 {
			d.ACS = acs
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		in   []int
		want string
	}{{nil, ""}, {[]int{3}, "3"}, {[]int{0, 1, 2, 6}, "0-2,6"}, {[]int{9, 10, 11}, "9-11"}} {
		if got := numbers(c.in); got != c.want {
			t.Errorf("%v: got %q; want %q", c.in, got, c.want)
		}
	}
}

func TestNumbersIn(t *testing.T) {
	for which, want := range map[string]string{
		"GPU 4": "4", "GPUs 0-2,6": "0,1,2,6", "GPUs 10-11": "10,11", "those that are named": "N, for each N that is named",
	} {
		if got := numbersIn(which); got != want {
			t.Errorf("%q: got %q; want %q", which, got, want)
		}
	}
}
