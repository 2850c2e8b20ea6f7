package preflight

import (
	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// diskOn returns a wreck of a directory of the host that has the index.
func diskOn(host int, use string, wreck func(d *facts.Disk)) func(in *Input) {
	return on(host, func(h *Host) { wreck(disk(&h.Facts, use)) })
}

func systemFirings() []firing {
	plain := factstest.Plain
	return []firing{
		{check: "shm", name: "small", wreck: diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Size, d.Free = 64<<20, 60<<20 }),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has too little of /dev/shm free: 60 MiB of 64 MiB, its 8 ranks need 1 GiB", remedy: "docker run --shm-size=1g"},
		{check: "shm", name: "small-for-one-rank", build: plain, wreck: func(in *Input) {
			all(func(h *Host) { h.Ranks = 1 })(in)
			diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Size, d.Free = 64<<20, 60<<20 })(in)
		}, verdict: Warn, blamed: "gpu02"},
		{check: "shm", name: "spare", build: plain, wreck: func(in *Input) {
			in.Hosts[1].Ranks = 0
			diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Size, d.Free = 64<<20, 7<<20 })(in)
		}, verdict: NoHost, blamed: "gpu02", title: "8 ranks need 80 MiB"},
		{check: "shm", name: "container-without-gpus", build: plain, wreck: diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Size, d.Free = 64<<20, 64<<20 }),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has too little of /dev/shm free: 64 MiB of 64 MiB, its 8 ranks need 80 MiB"},
		{check: "shm", name: "many-ranks-without-gpus", build: plain, wreck: all(func(h *Host) { h.Ranks = 192 })},
		{check: "shm", name: "not-writable", wreck: diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Writable = false }), verdict: NoHost, blamed: "gpu02", title: "cannot be written"},
		{check: "shm", name: "missing", wreck: diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Missing = true }), verdict: NoHost, blamed: "gpu02"},
		{check: "shm", name: "unknown", wreck: unknownOn(1, facts.ItemDisks), verdict: Unknown, blamed: "gpu02"},
		{check: "shm-stale", name: "files", wreck: diskOn(1, facts.DiskShm, func(d *facts.Disk) { d.Stale, d.StaleUse = []string{"nccl-Ab12", "nccl-Cd34"}, 20<<20 }),
			verdict: Warn, blamed: "gpu02", title: "2 files, 20 MiB", evidence: "nccl-Ab12 nccl-Cd34"},
		{check: "tmp", name: "full", wreck: diskOn(1, facts.DiskTmp, func(d *facts.Disk) { d.Free = 1 << 20 }), verdict: NoHost, blamed: "gpu02", title: "gpu02 has a full /tmp: 1 MiB free of 2 TiB"},
		{check: "tmp", name: "no-inodes", wreck: diskOn(1, facts.DiskTmp, func(d *facts.Disk) { d.InodesOK = 0 }), verdict: NoHost, blamed: "gpu02"},
		{check: "tmp", name: "read-only", wreck: diskOn(1, facts.DiskTmp, func(d *facts.Disk) { d.ReadOnly = true }), verdict: NoHost, blamed: "gpu02"},
		{check: "disk", name: "home-full", wreck: diskOn(1, facts.DiskHome, func(d *facts.Disk) { d.Free = d.Size / 100 }), verdict: Warn, blamed: "gpu02", title: "nearly full at /home/alice"},
		{check: "disk", name: "shared-full", wreck: all(func(h *Host) { disk(&h.Facts, facts.DiskWork).Free = 1 << 30 }), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "disk", name: "huge", wreck: all(func(h *Host) { disk(&h.Facts, facts.DiskWork).Free = 3 << 40 })},
		{check: "work-dir", name: "missing", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.Missing = true }), verdict: NoHost, blamed: "gpu02", title: "does not have the working directory: /shared/job"},
		{check: "work-dir", name: "missing-but-not-needed", wreck: func(in *Input) {
			in.Job.SharedDir = false
			diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.Missing = true })(in)
		}},
		{check: "work-dir", name: "not-mounted", wreck: on(1, func(h *Host) { disk(&h.Facts, facts.DiskWork).ID = ""; h.Facts.Programs = nil }), verdict: NoHost, blamed: "gpu02", title: "gpu02 has the working directory on its own disk, the others have it on nfs nas:/export/job", remedy: "mount the shared file system on gpu02"},
		{check: "work-dir", name: "copied", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ID = "" }), verdict: Warn, blamed: "gpu02"},
		{check: "work-dir", name: "file-server", wreck: func(in *Input) {
			all(func(h *Host) {
				h.Facts.Programs = nil
				disk(&h.Facts, facts.DiskWork).ID = "nfs gpu02.cluster:/export/job"
			})(in)
			diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ID = "" })(in)
		}, verdict: Info, blamed: "gpu02"},
		{check: "work-dir", name: "file-server-of-two", hosts: 2, wreck: func(in *Input) {
			disk(&in.Hosts[0].Facts, facts.DiskWork).ID = ""
			disk(&in.Hosts[1].Facts, facts.DiskWork).ID = "nfs 10.0.0.1:/home/alice"
		}, verdict: Info, blamed: "gpu01 gpu02"},
		{check: "work-dir", name: "server-by-another-name", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ID = "nfs 10.9.9.9:/export/job" }), verdict: Info, blamed: "gpu02"},
		{check: "work-dir", name: "other", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ID = "nfs4 old:/export /job" }), verdict: Warn, blamed: "gpu02"},
		{check: "work-dir", name: "two", hosts: 2, wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ID = "" }), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "work-dir", name: "hangs", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.Trouble = "it did not answer in 5s" }), verdict: NoHost, blamed: "gpu02", evidence: "it did not answer"},
		{check: "work-dir", name: "read-only", wreck: diskOn(1, facts.DiskWork, func(d *facts.Disk) { d.ReadOnly = true }), verdict: Warn, blamed: "gpu02"},
		{check: "work-dir", name: "all-local", wreck: all(func(h *Host) { disk(&h.Facts, facts.DiskWork).ID = "" })},
		{check: "open-files", name: "few", wreck: on(1, func(h *Host) { h.Facts.Limits.Nofile = 1024 }), verdict: Warn, blamed: "gpu02", title: "gpu02 allows few open files: 1024, wanted are 65536"},
		{check: "open-files", name: "unlimited", wreck: on(1, func(h *Host) { h.Facts.Limits.Nofile = -1 })},
		{check: "open-files", name: "unknown", wreck: unknownOn(1, facts.ItemLimits), verdict: Unknown, blamed: "gpu02"},
		{check: "processes", name: "nproc", wreck: on(1, func(h *Host) { h.Facts.Limits.Nproc = 1024 }), verdict: Warn, blamed: "gpu02", title: "nproc allows 1024, 400 are there"},
		{check: "processes", name: "pids-max", wreck: on(1, func(h *Host) { h.Facts.System.CgroupMax, h.Facts.System.CgroupNow = 100, 90 }), verdict: NoHost, blamed: "gpu02", title: "pids.max allows 100"},
		{check: "stack", name: "unlimited", wreck: on(1, func(h *Host) { h.Facts.Limits.Stack = -1 }), verdict: Warn, blamed: "gpu02"},
		{check: "memory", name: "low", wreck: on(1, func(h *Host) { h.Facts.System.Available = 64 << 30 }), verdict: Warn, blamed: "gpu02", title: "far less memory available"},
		{check: "memory", name: "two", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.System.Available = 64 << 30 }), verdict: Info, blamed: "gpu01 gpu02", title: "hosts differ"},
		{check: "memory", name: "smaller-machine", wreck: on(1, func(h *Host) { h.Facts.System.Memory, h.Facts.System.Available = 96<<30, 90<<30 }), verdict: Info, blamed: "gpu02"},
		{check: "cpus", name: "two", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.System.CPUs = 96 }), verdict: Info, blamed: "gpu01 gpu02"},
		{check: "cpus", name: "fewer", wreck: on(1, func(h *Host) { h.Facts.System.CPUs = 96 }), verdict: Warn, blamed: "gpu02", title: "gpu02 has 96 CPUs, the others have 192 CPUs"},
		{check: "numa", name: "off", wreck: on(1, func(h *Host) { h.Facts.System.Cmdline += " numa=off" }), verdict: Warn, blamed: "gpu02", title: "gpu02 was booted with numa=off"},
		{check: "load", name: "busy", wreck: on(1, func(h *Host) { h.Facts.System.Load = 300 }), verdict: Warn, blamed: "gpu02", evidence: "load 300.0 on 192 CPUs"},
		{check: "load", name: "busy-of-two", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.System.Load = 300 }), verdict: Warn, blamed: "gpu02"},
		{check: "load", name: "all-busy", wreck: all(func(h *Host) { h.Facts.System.Load = 300 })},
		{check: "stuck", name: "nfs", wreck: on(1, func(h *Host) {
			h.Facts.System.Stuck = []facts.Process{{PID: 12, Name: "ls", State: "D", Wait: "rpc_wait_bit_killable"}}
		}), verdict: Warn, blamed: "gpu02", evidence: "process 12 (ls) is in state D, in rpc_wait_bit_killable"},
		{check: "stuck", name: "a-disk-in-quick-mode", wreck: func(in *Input) {
			in.Mode = Quick
			in.Hosts[1].Facts.System.Stuck = []facts.Process{{PID: 12, Name: "dd", State: "D", Wait: "balance_dirty_pages"}}
		}},
		{check: "hardware-log", name: "pcie", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.5] pcieport 0000:10:01.0: AER: Uncorrected (Fatal) error received"}
		}), verdict: Warn, blamed: "gpu02", evidence: "AER: Uncorrected (Fatal)"},
		{check: "hardware-log", name: "pcie-of-linux-6.7", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.5] pcieport 0000:10:01.0: AER: Uncorrectable (Fatal) error message received from 0000:13:00.0"}
		}), verdict: Warn, blamed: "gpu02"},
		{check: "hardware-log", name: "memory", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.5] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0"}
		}), verdict: Warn, blamed: "gpu02"},
		{check: "hardware-log", name: "libraries-of-a-container", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.5] NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has 535.104"}
		})},
		{check: "hardware-log", name: "driver", wreck: on(1, func(h *Host) {
			h.Facts.GPU.SMIExit, h.Facts.GPU.Devices = 18, nil
			h.Facts.Kernel.Lines = []string{"[12.5] NVRM: API mismatch: the client has the version 550.54.15, but this kernel module has 535.104"}
		}), verdict: Warn, blamed: "gpu02", remedy: "reboot gpu02"},
		{check: "hardware-log", name: "corrected", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.5] mce: [Hardware Error]: Machine check events logged"}
		})},
		{check: "hardware-log", name: "unreadable", wreck: unknownOn(1, facts.ItemKernel)},
		{check: "oom", name: "global", wreck: on(1, func(h *Host) { h.Facts.Kernel.Lines = []string{"Out of memory: Killed process 1 (python)"} }), verdict: Warn, blamed: "gpu02", evidence: "Killed process 1"},
		{check: "oom", name: "days-ago", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"[12.500000] Out of memory: Killed process 1 (python)"}
		})},
		{check: "oom", name: "container", wreck: on(1, func(h *Host) {
			h.Facts.Kernel.Lines = []string{"Memory cgroup out of memory: Killed process 1 (python)"}
		})},
	}
}
