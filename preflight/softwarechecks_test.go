package preflight

import (
	"gorun/preflight/facts"
)

func softwareFirings() []firing {
	sum := func(text string) func(h *Host) { return func(h *Host) { h.Facts.Programs[0].SHA256 = text } }
	conf := func(h *Host) {
		h.Facts.Conf = []facts.ConfFile{{Path: "/etc/nccl.conf", Set: []string{"NCCL_DEBUG=INFO"}}}
	}
	system := func(wreck func(s *facts.System)) func(in *Input) {
		return on(1, func(h *Host) { wreck(&h.Facts.System) })
	}
	loads := func(h *Host) { h.Facts.Programs[0].NCCL = true }
	older := func(h *Host) { h.Facts.NCCL[0].Version = "2.19.3" }
	return []firing{
		{check: "program", name: "missing", wreck: on(1, func(h *Host) { h.Facts.Programs[0].Path = "" }), verdict: NoHost, blamed: "gpu02", title: "gpu02 lacks the program ./train"},
		{check: "program", name: "missing-everywhere", wreck: all(func(h *Host) { h.Facts.Programs[0].Path = "" }), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", title: "no host has"},
		{check: "program", name: "unknown", wreck: unknownOn(1, facts.ItemPrograms), verdict: Unknown, blamed: "gpu02"},
		{check: "program-same", name: "odd", wreck: on(1, sum("ffff")), verdict: NoHost, blamed: "gpu02", title: "gpu02 has ./train with sha256 ffff (4194304 bytes), the others have it with sha256 9f86", remedy: "--bcast"},
		{check: "program-same", name: "two", hosts: 2, wreck: on(1, sum("ffff")), verdict: NoCluster, blamed: "gpu01 gpu02", title: "hosts differ in the content of ./train"},
		{check: "program-same", name: "large", wreck: func(in *Input) {
			all(sum(""))(in)
			on(1, func(h *Host) { h.Facts.Programs[0].Size = 7 })(in)
		}, verdict: NoHost, blamed: "gpu02", title: "7 bytes"},
		{check: "program-same", name: "of-the-system", wreck: func(in *Input) {
			all(func(h *Host) { h.Facts.Programs[0].Arg, h.Facts.Programs[0].Path = "python3", "/usr/bin/python3" })(in)
			on(1, sum("ffff"))(in)
		}, verdict: Warn, blamed: "gpu02"},
		{check: "program-same", name: "interpreter", wreck: func(in *Input) {
			all(func(h *Host) { h.Facts.Programs[0].Arg = "./venv/bin/python3.11" })(in)
			on(1, sum("ffff"))(in)
		}, verdict: Warn, blamed: "gpu02"},
		{check: "program-same", name: "path-of-the-system", hosts: 2, wreck: func(in *Input) {
			all(func(h *Host) { h.Facts.Programs[0].Arg = "/usr/bin/hostname" })(in)
			on(1, sum("ffff"))(in)
		}, verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "program-same", name: "two-architectures", hosts: 2, wreck: on(1, func(h *Host) { sum("ffff")(h); h.Facts.System.Arch = "arm64" }), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "libnccl", name: "of-a-program-with-its-own", hosts: 2, wreck: on(1, older), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "libnccl", name: "none-but-not-needed", wreck: on(1, func(h *Host) { h.Facts.NCCL = nil })},
		{check: "libnccl", name: "odd", wreck: func(in *Input) { all(loads)(in); on(1, older)(in) }, verdict: NoHost, blamed: "gpu02", title: "gpu02 has libnccl 2.19.3, the others have 2.21.5"},
		{check: "libnccl", name: "two", hosts: 2, wreck: func(in *Input) { all(loads)(in); on(1, older)(in) }, verdict: NoCluster, blamed: "gpu01 gpu02"},
		{check: "libnccl", name: "build", wreck: on(1, func(h *Host) { h.Facts.NCCL[0].Build = "ffff" }), verdict: Warn, blamed: "gpu02", title: "build"},
		{check: "libnccl", name: "none", wreck: func(in *Input) { all(loads)(in); in.Hosts[1].Facts.NCCL = nil }, verdict: Warn, blamed: "gpu02", title: "gpu02 has no libnccl"},
		{check: "nccl-conf", name: "one", wreck: on(1, conf), verdict: Warn, blamed: "gpu02", title: "gpu02 has NCCL settings NCCL_DEBUG=INFO in /etc/nccl.conf, the others have none"},
		{check: "nccl-conf", name: "session", wreck: on(1, func(h *Host) { h.Facts.Session = append(h.Facts.Session, "NCCL_ALGO=Ring") }), verdict: Warn, blamed: "gpu02", title: "NCCL_ALGO=Ring from the login"},
		{check: "nccl-conf", name: "all-alike", wreck: all(conf)},
		{check: "nccl-conf", name: "two", hosts: 2, wreck: on(1, conf), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "nccl-conf", name: "unknown", wreck: unknownOn(1, facts.ItemConf), verdict: Unknown, blamed: "gpu02"},
		{check: "library-path", name: "one", wreck: on(1, func(h *Host) { h.Facts.Session = nil }), verdict: Warn, blamed: "gpu02", title: "gpu02 has no LD_LIBRARY_PATH, the others have LD_LIBRARY_PATH=/usr/local/cuda/lib64"},
		{check: "driver", name: "odd", wreck: on(1, func(h *Host) { h.Facts.GPU.Driver, h.Facts.GPU.Fabric.Version = "535.104", "535.104" }),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has GPU driver 535.104 (CUDA 12.4) open, the others have 550.54.15 (CUDA 12.4) open"},
		{check: "driver", name: "two", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.GPU.Open = false }), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "kernel", name: "odd", wreck: system(func(s *facts.System) { s.Kernel = "6.8.0" }), verdict: Warn, blamed: "gpu02", title: "gpu02 has kernel 6.8.0, the others have 5.15.0-1053"},
		{check: "kernel", name: "patched", wreck: system(func(s *facts.System) { s.Kernel = "5.15.0-1060" }), verdict: Info, blamed: "gpu02"},
		{check: "os", name: "point-release", hosts: 2, wreck: system(func(s *facts.System) { s.OS = "Ubuntu 22.04.5 LTS" }), verdict: Info, blamed: "gpu01 gpu02"},
		{check: "kernel", name: "three-kinds", hosts: 5, wreck: func(in *Input) {
			in.Hosts[1].Facts.System.Kernel, in.Hosts[2].Facts.System.Kernel = "6.8.0", "6.8.0"
			in.Hosts[0].Facts.System.Kernel, in.Hosts[3].Facts.System.Kernel = "6.9.0", "6.9.0"
		}, verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04 gpu05", title: "hosts differ in the kernel"},
		{check: "os", name: "odd", wreck: system(func(s *facts.System) { s.OS = "Debian 12" }), verdict: Warn, blamed: "gpu02"},
		{check: "arch", name: "odd", wreck: system(func(s *facts.System) { s.Arch = "arm64" }), verdict: Warn, blamed: "gpu02"},
		{check: "libc", name: "odd", wreck: system(func(s *facts.System) { s.Libc = "musl 1.2.4" }), verdict: Warn, blamed: "gpu02"},
		{check: "ofed", name: "odd", wreck: system(func(s *facts.System) { s.OFED = "5.8-1" }), verdict: Warn, blamed: "gpu02", title: "OFED 5.8-1"},
		{check: "ofed", name: "unknown", wreck: unknownOn(1, facts.ItemSystem), verdict: Unknown, blamed: "gpu02"},
	}
}
