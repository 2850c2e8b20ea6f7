package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

// systemChecks are those of area "system".
func systemChecks() []Check {
	return []Check{
		{ID: "shm", Area: "system", Title: "/dev/shm has room for the job", Explain: explainShm, run: checkShm},
		{ID: "shm-stale", Area: "system", Title: "/dev/shm has no files of jobs that have ended", Explain: explainShmStale, run: checkShmStale},
		{ID: "tmp", Area: "system", Title: "/tmp can be written and has room", Explain: explainTmp, run: checkTmp},
		{ID: "work-dir", Area: "system", Title: "the working directory is there, and the same on every host", Explain: explainWorkDir, run: checkWorkDir},
		{ID: "disk", Area: "system", Title: "no disk that the job uses is full", Explain: explainDisk, run: checkDisk},
		{ID: "open-files", Area: "system", Title: "ranks may open enough files", Explain: explainOpenFiles, run: checkOpenFiles},
		{ID: "processes", Area: "system", Title: "ranks may start enough processes and threads", Explain: explainProcesses, run: checkProcesses},
		{ID: "stack", Area: "system", Title: "the stack is limited, as NCCL expects", Explain: explainStack, run: checkStack},
		{ID: "memory", Area: "system", Title: "every host has about as much free memory as the others", Explain: explainMemory, run: checkMemory},
		{ID: "cpus", Area: "system", Title: "every host has as many CPUs as the others", Explain: explainCPUs, run: checkCPUs},
		{ID: "numa", Area: "system", Title: "the kernel knows the NUMA nodes", Explain: explainNUMA, run: checkNUMA},
		{ID: "load", Area: "system", Title: "no host is busy with something else", Explain: explainLoad, run: checkLoad},
		{ID: "stuck", Area: "system", Title: "no process hangs in the kernel", Explain: explainStuck, run: checkStuck},
		{ID: "hardware-log", Area: "system", Title: "the kernel's log tells of no fault of the hardware", Explain: explainHardware, run: checkHardware},
		{ID: "oom", Area: "system", Title: "the kernel has ended no process for lack of memory", Explain: explainOOM, run: checkOOM},
	}
}

const explainOpenFiles = `Each connection, each shared-memory segment and each library is an open file: a rank of a large job needs thousands (NCCL's documentation tells of over 32,000 for 144 ranks). ` +
	`The limit is that of the agent, which has raised it as far as it may, so ranks get the same. ` +
	`Under 65,536 (preflight.open-files) it is a warning; NCCL advises 131,072. ` +
	`Raise it in /etc/security/limits.d (* - nofile 131072), and for sshd in its systemd unit (LimitNOFILE).`

func checkOpenFiles(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemLimits)
	t := v.tally()
	least := int64(-1)
	for _, i := range known {
		n := v.Hosts[i].Facts.Limits.Nofile
		if n >= 0 && (least < 0 || n < least) {
			least = n
		}
		if n >= 0 && n < v.Limits.Nofile {
			t.add(i, fault{
				verdict: Warn, what: "allows few open files", which: fmt.Sprintf("%d, wanted are %d", n, v.Limits.Nofile),
				remedy: "on HOST: echo '* - nofile 131072' > /etc/security/limits.d/nofile.conf, and LimitNOFILE=131072 for sshd (needs root)",
			})
		}
	}
	good = fmt.Sprintf("at least %d on every host", least)
	if least < 0 {
		good = "unlimited"
	}
	return append(t.findings(), found...), good, ""
}

const explainProcesses = `A rank with NCCL and data loaders starts hundreds of threads, and each counts as a process: for the user (ulimit -u), and for the container or session (pids.max). ` +
	`What is left of both is compared with the host's ranks times 256 (preflight.threads-per-rank), an eighth of that without GPUs: less is a warning. ` +
	`A host that has not even room for four threads a rank, with which nothing starts, is excluded: ranks then end with "Resource temporarily unavailable". ` +
	`Raise nproc in /etc/security/limits.d, TasksMax in the systemd slice, or --pids-limit of the container.`

func checkProcesses(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemLimits)
	t := v.tally()
	for _, i := range known {
		h := &v.Hosts[i].Facts
		ranks, each := int64(max(v.ranksOn(i), 1)), v.Limits.Threads
		if !v.Job.GPU {
			each /= 8
		}
		add := func(name string, limit, used int64, remedy string) {
			if room := limit - used; room < ranks*each {
				f := fault{verdict: Warn, what: "has room for few processes and threads", remedy: remedy, which: fmt.Sprintf("%s allows %d, %d are there", name, limit, used)}
				if room < ranks*4 {
					f.verdict = NoHost
				}
				t.add(i, f)
			}
		}
		if h.Limits.Nproc > 0 {
			add("nproc", h.Limits.Nproc, h.Limits.NprocUsed, "on HOST: echo '* - nproc unlimited' > /etc/security/limits.d/nproc.conf (needs root)")
		}
		if h.System.CgroupMax > 0 {
			add("pids.max", h.System.CgroupMax, h.System.CgroupNow, "on HOST: raise TasksMax of the session's slice, or --pids-limit of the container (needs root)")
		}
	}
	return append(t.findings(), found...), "there is room on every host", ""
}

const explainStack = `With an unlimited stack, the C library gives each thread 2 MiB instead of the usual 8 MiB, which older versions of NCCL overrun: they crash. ` +
	`NCCL's documentation asks for ulimit -s 8192. ` +
	`The limit is that of the agent, which leaves it as the login sets it. ` +
	`It is a warning where the job uses GPUs, and else a note: remove "stack unlimited" from /etc/security/limits.d and from dot files, or start ranks by a script that sets ulimit -s 8192.`

func checkStack(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemLimits)
	verdict := Info
	if v.Job.GPU {
		verdict = Warn
	}
	t := v.tally()
	for _, i := range known {
		if n := v.Hosts[i].Facts.Limits.Stack; n < 0 {
			t.add(i, fault{verdict: verdict, what: "has an unlimited stack, which gives threads a small one", remedy: "on HOST: set ulimit -s 8192 in the login's dot files, or remove stack from /etc/security/limits.d"})
		}
	}
	if len(known) > 0 {
		good = "stack " + size(v.Hosts[known[0]].Facts.Limits.Stack)
	}
	return append(t.findings(), found...), good, ""
}

const explainMemory = `A host with much less available memory than the others is the first to swap, or to end ranks for lack of memory. ` +
	`Available memory of /proc/meminfo is compared with the median of all hosts; less than half of it is a warning. ` +
	`The cause is a leftover process, a RAM disk (/dev/shm counts), or a memory module that failed. ` +
	`A host most of whose own memory is free is another machine and only mentioned, as are two hosts that differ.`

func checkMemory(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	known = slices.DeleteFunc(known, func(i int) bool { return v.Hosts[i].Facts.System.Available <= 0 })
	if len(known) == 0 {
		return found, "", when(len(found) == 0, "no host tells its memory")
	}
	values := make([]int64, len(known))
	for k, i := range known {
		values[k] = v.Hosts[i].Facts.System.Available
	}
	slices.Sort(values)
	middle := values[len(values)/2]
	var low []int
	for _, i := range known {
		if float64(v.Hosts[i].Facts.System.Available) < v.Limits.Memory*float64(middle) {
			low = append(low, i)
		}
	}
	const remedy = "on HOST: free -h; ps aux --sort=-rss | head; ls -l /dev/shm"
	switch {
	case len(low) > 0 && len(known) < 3:
		var n notes
		for _, i := range known {
			n.add(i, size(v.Hosts[i].Facts.System.Available)+" available")
		}
		found = append(found, v.finding(Info, known, "hosts differ in available memory", remedy, n.lines(v)))
	case len(low) > 0:
		t := v.tally()
		for _, i := range low {
			s, verdict := &v.Hosts[i].Facts.System, Warn
			if 2*s.Available > s.Memory {
				verdict = Info // little is in use: it is another machine
			}
			t.add(i, fault{
				verdict: verdict, what: "has far less memory available than the others", which: fmt.Sprintf("%s, the median is %s", size(s.Available), size(middle)), remedy: remedy,
				evidence: []string{fmt.Sprintf("%s available of %s; the median is %s", size(s.Available), size(s.Memory), size(middle))},
			})
		}
		found = append(t.findings(), found...)
	}
	return found, "at least " + size(values[0]) + " available", ""
}

const explainCPUs = `The number of logical CPUs is compared with the majority of hosts that have the same GPUs. ` +
	`A host with another number is of another type, has CPUs or hyper-threading switched off, or is a container with fewer: layouts and data loaders that suit the others do not suit it. ` +
	`It is a warning; without a majority it is only mentioned. ` +
	`Look at lscpu, and at the BIOS settings.`

func checkCPUs(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	of := func(h *Host) string { return count(h.Facts.System.CPUs, "CPU") }
	for _, same := range v.groups(known, func(h *Host) string { return gpusOf(&h.Facts) }) {
		found = append(found, v.odd(same.hosts, contrast{of: of, subject: "the number of CPUs", blame: Warn, differ: Info, remedy: "on HOST: lscpu, and compare with another host"})...)
	}
	if len(known) > 0 {
		good = of(&v.Hosts[known[0]]) + " on each host"
	}
	return found, good, ""
}

const explainNUMA = `With numa=off on its command line the kernel takes all memory and devices for one NUMA node: ranks cannot be placed near their GPU, and NCCL takes distances between GPUs and NICs for shorter than they are. ` +
	`It is read from /proc/cmdline. ` +
	`It is a warning: remove numa=off from the boot loader's configuration and reboot.`

func checkNUMA(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	t := v.tally()
	for _, i := range known {
		s := &v.Hosts[i].Facts.System
		if slices.Contains(strings.Fields(s.Cmdline), "numa=off") {
			t.add(i, fault{verdict: Warn, what: "was booted with numa=off", remedy: "remove numa=off from the kernel's command line on HOST and reboot (needs root; stops other jobs on HOST)"})
		}
	}
	if len(known) > 0 {
		good = count(len(v.Hosts[known[0]].Facts.System.NUMA), "NUMA node")
	}
	return append(t.findings(), found...), good, ""
}
