package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainLoad = `The load of the last minute counts processes that want a CPU, or wait for a disk. ` +
	`A host with more than one per CPU, and more than twice the median of all hosts, is busy with something else, and ranks there are slower than the others. ` +
	`Where all hosts are as busy it is only mentioned. ` +
	`Look with top for what it is; processes of an earlier job are a typical cause.`

func checkLoad(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	known = slices.DeleteFunc(known, func(i int) bool { return v.Hosts[i].Facts.System.CPUs <= 0 })
	var loads []float64
	for _, i := range known {
		loads = append(loads, perCPU(&v.Hosts[i]))
	}
	if len(loads) == 0 {
		return found, "", when(len(found) == 0, "no host tells its load")
	}
	slices.Sort(loads)
	middle := loads[(len(loads)-1)/2] // the lower one, so that one of two can be told
	t := v.tally()
	for _, i := range known {
		load := perCPU(&v.Hosts[i])
		if load <= v.Limits.Load {
			continue
		}
		s := &v.Hosts[i].Facts.System
		f := fault{verdict: Info, what: "is busy", evidence: []string{fmt.Sprintf("load %.1f on %s", s.Load, count(s.CPUs, "CPU"))}}
		if load > 2*middle {
			f.verdict, f.what, f.remedy = Warn, "is busy with something else", "on HOST: top -b -n 1 | head -20"
		}
		t.add(i, f)
	}
	return append(t.findings(), found...), fmt.Sprintf("load per CPU is at most %.2f", loads[len(loads)-1]), ""
}

func perCPU(h *Host) float64 { return h.Facts.System.Load / float64(h.Facts.System.CPUs) }

const explainStuck = `A process in state D waits inside the kernel for a disk, a network file system or a driver, and cannot be killed meanwhile. ` +
	`Named are those that two looks found so, with what they wait for. ` +
	`It is a warning: a rank that touches the same thing hangs, too. In quick mode the two looks are so near to each other that it is one only for what waits for a file server or a GPU; for a disk it is mentioned. ` +
	`nfs or rpc in the wait channel means a file server that does not answer; nvidia or nv means the GPU driver. ` +
	`If what it waits for does not come back, only a reboot helps.`

func checkStuck(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	t := v.tally()
	for _, i := range known {
		hangs := fault{verdict: Warn, what: "has processes that hang in the kernel", remedy: "on HOST: cat /proc/PID/stack (needs root) tells on what; if that does not come back, reboot (needs root; stops other jobs on HOST)"}
		waits := fault{verdict: Info, what: "has processes that wait in the kernel"}
		for _, p := range v.Hosts[i].Facts.System.Stuck {
			line := fmt.Sprintf("process %d (%s) is in state %s", p.PID, cmp.Or(p.Name, "no name"), cmp.Or(p.State, "D"))
			if p.Wait != "" {
				line += ", in " + p.Wait
			}
			f := &hangs
			if v.Mode != Full && !waitsLong(p.Wait) {
				f = &waits
			}
			f.evidence = append(f.evidence, line)
		}
		for _, f := range []fault{hangs, waits} {
			if len(f.evidence) > 0 {
				t.add(i, f)
			}
		}
	}
	return append(t.findings(), found...), "no process hangs", ""
}

// waitsLong reports whether a process waits for what may never come.
func waitsLong(channel string) bool {
	return slices.ContainsFunc([]string{"nfs", "rpc", "nv", "lustre", "ptlrpc", "cl_", "ceph", "gpfs", "cxi", "mlx"}, func(word string) bool {
		return strings.Contains(strings.ToLower(channel), word)
	})
}

const explainHardware = `The kernel's log has lines that foretell trouble: fatal or uncorrectable errors of PCIe devices and memory, a GPU that could not be initialised, and libraries of another version than the GPU driver that is loaded. ` +
	`One since boot is a warning; errors that the hardware has corrected (machine checks) are only mentioned, and so are tasks that hung for minutes, and other libraries where nvidia-smi works: they were a container's. ` +
	`XIDs, and what HCAs report, are other checks. ` +
	`The log is read as far as the job's user may. ` +
	`Look at it with dmesg -T; if an error comes back after a reboot, have the part replaced.`

const apiMismatch = "API mismatch"

// hardwareLines are what lines of the kernel's log mean, by what they contain.
var hardwareLines = []struct {
	text string
	fault
}{
	{"(Fatal) error", fault{verdict: Warn, what: "has had fatal errors of PCIe devices", remedy: "on HOST: dmesg -T | grep AER (needs root); reseat the card, or have it replaced"}},
	{" UE ", fault{verdict: Warn, what: "has had uncorrectable errors of its memory", remedy: "on HOST: dmesg -T | grep EDAC (needs root); have the memory module replaced"}},
	{"blocked for more than", fault{verdict: Info, what: "has had tasks that hung for minutes"}},
	{"RmInitAdapter failed", fault{verdict: Warn, what: "has had a GPU that could not be initialised", remedy: "reboot HOST; if it comes back, have the GPU replaced (needs root; stops other jobs on HOST)"}},
	{apiMismatch, fault{verdict: Warn, what: "has GPU libraries of another version than the driver that is loaded", remedy: "reboot HOST, so that the driver that is installed is loaded (needs root; stops other jobs on HOST)"}},
	{"Machine check events", fault{verdict: Info, what: "has had machine checks"}},
}

func checkHardware(v *view) (found []Finding, good, skip string) {
	known := v.withKernelLog()
	if len(known) == 0 {
		return nil, "", noKernelLog
	}
	t := v.tally()
	for _, i := range known {
		for _, kind := range hardwareLines {
			f := kind.fault
			if g := &v.Hosts[i].Facts.GPU; kind.text == apiMismatch && g.SMIExit == 0 && len(g.Devices) > 0 {
				f.verdict, f.remedy = Info, ""
			}
			for _, line := range v.Hosts[i].Facts.Kernel.Lines {
				if strings.Contains(line, kind.text) {
					f.evidence = append(f.evidence, line)
				}
			}
			if len(f.evidence) > 0 {
				t.add(i, f)
			}
		}
	}
	return t.findings(), "nothing on " + count(len(known), "host"), ""
}

const noKernelLog = "the kernel's log cannot be read by the job's user"

// withKernelLog lists the hosts whose kernel's log could be read. Users often may not, so
// that it could not is told once, by the check of XIDs where there are GPUs.
func (v *view) withKernelLog() (hosts []int) {
	for _, i := range v.reached {
		if !v.lacks(i, facts.ItemKernel) {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

const explainOOM = `When memory runs out, the kernel ends a process, and the log tells which. ` +
	`One since boot means that a program needed more than the host has: if it was a rank, the same job will end the same way; if it was a service, that may be missing now. ` +
	`It is a warning for a day, and mentioned later. A process that only its own container's limit has ended is mentioned, no more. ` +
	`Look with dmesg -T for the time, and use fewer data loaders or ranks per host.`

func checkOOM(v *view) (found []Finding, good, skip string) {
	known := v.withKernelLog()
	if len(known) == 0 {
		return nil, "", noKernelLog
	}
	t := v.tally()
	for _, i := range known {
		all := fault{verdict: Warn, what: "has had processes ended for lack of memory", remedy: "on HOST: dmesg -T | grep -i 'out of memory' (needs root)"}
		old := fault{verdict: Info, what: "has had processes ended for lack of memory, days ago"}
		own := fault{verdict: Info, what: "has had processes ended by the memory limit of their container"}
		for _, line := range v.Hosts[i].Facts.Kernel.Lines {
			lower := strings.ToLower(line)
			switch {
			case !strings.Contains(lower, "out of memory") && !strings.Contains(lower, "oom-kill") && !strings.Contains(lower, "oom_reaper"):
			case strings.Contains(lower, "memory cgroup") || strings.Contains(lower, "constraint_memcg"):
				own.evidence = append(own.evidence, line)
			case v.lineIsOver(i, line):
				old.evidence = append(old.evidence, line)
			default:
				all.evidence = append(all.evidence, line)
			}
		}
		for _, f := range []fault{all, old, own} {
			if len(f.evidence) > 0 {
				t.add(i, f)
			}
		}
	}
	return t.findings(), "none was ended on " + count(len(known), "host"), ""
}
