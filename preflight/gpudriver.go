package preflight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainGPUDriver = `GPUs are on the PCI bus, so the driver must be loaded and nvidia-smi must answer within its limit. ` +
	`nvidia-smi's exit code tells what is wrong (9: the driver is not loaded, 14: infoROM corrupt, 15: a GPU fell off the bus, over 128: ended by a signal); the codes are those of its manual page. ` +
	`A corrupt infoROM alone is a warning, as the GPU works. ` +
	`If it hangs, the process that stands in the kernel's way (state D) is named: it cannot be killed, and only a reboot helps. ` +
	`Where nvidia-smi is not installed or did not answer, every other check of GPUs is unknown for that host. ` +
	`So it is with a single GPU of which nvidia-smi says that it is lost, or has unknown errors. ` +
	`A host whose driver does not work cannot run a rank with a GPU; where no host has a driver, cards for the screen are only mentioned.`

// smiInfoROM is the exit code of nvidia-smi for an infoROM that is corrupt. The GPU
// computes all the same.
const smiInfoROM = 14

// smiTroubles are the exit codes of nvidia-smi, with what to do.
var smiTroubles = map[int][2]string{
	2:          {"an argument is not supported", "install the nvidia-smi that belongs to the driver on HOST"},
	4:          {"no permission", "let the job's user open /dev/nvidiactl on HOST (needs root)"},
	6:          {"a GPU was not found", "reboot HOST (needs root; stops other jobs on HOST)"},
	8:          {"a GPU's external power cable is not attached", "attach the GPU's power cable on HOST"},
	9:          {"the driver is not loaded", "on HOST: modprobe nvidia; dmesg | grep -i nvrm (needs root)"},
	10:         {"the driver has trouble with interrupts of a GPU", "reboot HOST (needs root; stops other jobs on HOST)"},
	12:         {"the NVML library is not found", "install libnvidia-ml of the driver's version on HOST (needs root)"},
	13:         {"the NVML library is too old", "install libnvidia-ml of the driver's version on HOST (needs root)"},
	smiInfoROM: {"an infoROM is corrupt", "have the GPU replaced on HOST; nvidia-smi names it"},
	15:         {"a GPU fell off the bus", "reboot HOST; if it falls off again, have it replaced (needs root; stops other jobs on HOST)"},
	18:         {"driver and NVML library are of different versions", "reboot HOST, so that the driver that is installed is the one that is loaded (needs root; stops other jobs on HOST)"},
}

func checkGPUDriver(v *view) (found []Finding, good, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, "", noGPU
	}
	t := v.tally()
	for _, i := range hosts {
		if f, ok := v.driverFault(&v.Hosts[i].Facts); ok {
			t.add(i, f)
		}
		v.addGPUs(t, i, gpuFault{fault{
			verdict: v.exclude(), what: "has a GPU that does not answer", remedy: "reboot HOST; if the GPU stays so, have it replaced (needs root; stops other jobs on HOST)",
		}, func(d *facts.Device) string { return when(d.Trouble != "", "nvidia-smi says: "+d.Trouble) }})
	}
	if h := v.Hosts[hosts[0]].Facts.GPU; h.Driver != "" {
		good = phrase("driver", h.Driver, "answers on", count(len(hosts), "host"))
	}
	return t.findings(), good, ""
}

func (v *view) driverFault(h *facts.Host) (f fault, ok bool) {
	g := &h.GPU
	reason, unknown := h.Unknown[facts.ItemGPU]
	switch {
	case len(g.Hung) > 0:
		return v.hungFault(g), true
	case g.SMIExit != 0:
		return v.smiFault(g), true
	case g.Driver == "" && !unknown && len(g.Devices) == 0:
		verdict := v.exclude()
		if !v.Job.GPU && forScreens(h) {
			verdict = Info
		}
		return fault{
			verdict: verdict, what: "has GPUs, but no GPU driver is loaded",
			evidence: []string{count(len(g.PCI), "GPU") + " on the PCI bus"}, remedy: smiTroubles[9][1],
		}, true
	case unknown:
		return unknownFault(facts.ItemGPU, reason), true
	case g.SMI == "" && len(g.Devices) == 0:
		return unknownFault(facts.ItemGPU, noSMI), true
	}
	return fault{}, false
}

// forScreens reports whether all GPUs of a host are cards that can draw on a screen.
func forScreens(h *facts.Host) bool {
	for _, d := range h.PCI.Devices {
		if slices.Contains(h.GPU.PCI, d.BDF) && d.Class>>8 != 0x0300 {
			return false
		}
	}
	return len(h.PCI.Devices) > 0
}

func (v *view) hungFault(g *facts.GPU) fault {
	f := fault{
		verdict: v.exclude(), what: "has a GPU driver that hangs",
		remedy: "reboot HOST: a process in state D cannot be killed (needs root; stops other jobs on HOST)",
	}
	for _, p := range g.Hung {
		line := fmt.Sprintf("process %d (%s", p.PID, cmp.Or(p.Name, "no name"))
		if p.User != "" {
			line += ", of " + p.User
		}
		line += ") is in state " + cmp.Or(p.State, "D")
		if p.Wait != "" {
			line += ", in " + p.Wait
		}
		f.evidence = append(f.evidence, line)
	}
	return f
}

func (v *view) smiFault(g *facts.GPU) fault {
	trouble, ok := smiTroubles[g.SMIExit]
	switch {
	case ok:
	case g.SMIExit > 128 && g.SMIExit <= 128+64: // the last signal; others a program gives itself
		trouble = [2]string{fmt.Sprintf("it was ended by signal %d", g.SMIExit-128), "reboot HOST (needs root; stops other jobs on HOST)"}
	default:
		trouble = [2]string{"it fails", "on HOST: nvidia-smi -q; dmesg | grep -i nvrm"}
	}
	verdict := v.exclude()
	if g.SMIExit == smiInfoROM && len(g.Devices) > 0 {
		verdict = Warn
	}
	f := fault{verdict: verdict, what: fmt.Sprintf("has an nvidia-smi that ends with exit code %d: %s", g.SMIExit, trouble[0]), remedy: trouble[1]}
	if text := strings.TrimSpace(g.SMIText); text != "" {
		first, _, _ := strings.Cut(text, "\n")
		f.evidence = []string{"nvidia-smi says: " + first}
	}
	return f
}

const explainGPUOpen = `Ranks open /dev/nvidia0, /dev/nvidia1, …, /dev/nvidiactl and /dev/nvidia-uvm as the job's user. ` +
	`The files are tried with that user's rights, as the agent has them. ` +
	`A file that is there and may not be opened makes CUDA say "no CUDA-capable device", or see fewer GPUs. ` +
	`In a container the device is not passed in; on a host a udev rule or a group (video, render) is missing. ` +
	`Load nvidia-uvm and set the mode: nvidia-modprobe -u -c=0, or chmod 0666 /dev/nvidia*.`

func checkGPUOpen(v *view) (found []Finding, good, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, "", noGPU
	}
	known, found := v.split(hosts, facts.ItemGPU)
	t := v.tally()
	for _, i := range known {
		h := &v.Hosts[i].Facts
		f := fault{verdict: v.exclude(), what: "has GPU files that the job's user cannot open", remedy: "on HOST: chmod 0666 /dev/nvidia*, or pass the devices into the container (needs root)"}
		for _, path := range h.GPU.Denied {
			if !v.spares(i, path) {
				f.evidence = append(f.evidence, path+": permission denied")
			}
		}
		for _, d := range v.used(i) {
			path := fmt.Sprintf("/dev/nvidia%d", d.Minor)
			if d.Minor >= 0 && len(h.GPU.DevFiles) > 0 && !slices.Contains(h.GPU.DevFiles, d.Minor) && !slices.Contains(h.GPU.Denied, path) {
				f.evidence = append(f.evidence, fmt.Sprintf("%s: %s is missing, or cannot be opened", device(d), path))
			}
		}
		if len(f.evidence) > 0 {
			t.add(i, f)
		}
	}
	return append(t.findings(), found...), "all files of GPUs can be opened", ""
}

// spares reports whether path is the file of a GPU that the job will not use.
func (v *view) spares(host int, path string) bool {
	return slices.ContainsFunc(v.Hosts[host].Facts.GPU.Devices, func(d facts.Device) bool {
		return path == fmt.Sprintf("/dev/nvidia%d", d.Minor) && !v.uses(host, d.Index)
	})
}

const explainGPUVisible = `CUDA_VISIBLE_DEVICES is set in the environment that a login on the host gives (a dot file, a scheduler, a container image). ` +
	`Ranks inherit it unless the job sets its own, and then see only those GPUs, in that order. ` +
	`It excludes a host if it leaves fewer GPUs than the host has ranks, while it does not on most hosts; where there is no such majority, that is a warning. ` +
	`Else it is a note, also if hosts differ: schedulers give each host its own. ` +
	`Unset it in the host's dot files, or set it for the job: gorun -x CUDA_VISIBLE_DEVICES=… .`

func checkGPUVisible(v *view) (found []Finding, good, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, "", noGPU
	}
	const remedy = "remove CUDA_VISIBLE_DEVICES from the login's environment on HOST, or set it for the job with -x"
	var rest, short []int
	for _, i := range hosts {
		if v.Job.GPU && v.visibleGPUs(i) < v.Hosts[i].Ranks {
			short = append(short, i)
		} else {
			rest = append(rest, i)
		}
	}
	verdict := Warn
	if len(hosts) >= 3 && 2*len(short) < len(hosts) {
		verdict = NoHost
	}
	t := v.tally()
	for _, i := range short {
		set := "CUDA_VISIBLE_DEVICES=" + *v.Hosts[i].Facts.GPU.Visible
		t.add(i, fault{
			verdict: verdict, what: "hides GPUs from ranks", which: set + " in the login's environment", remedy: remedy,
			evidence: []string{fmt.Sprintf("%s leaves %s for %s", set, count(v.visibleGPUs(i), "GPU"), count(v.Hosts[i].Ranks, "rank"))},
		})
	}
	groups := v.groups(rest, visibleText)
	switch {
	case len(groups) > 1:
		found = v.odd(rest, contrast{of: visibleText, verb: "has", what: "CUDA_VISIBLE_DEVICES", subject: "the CUDA_VISIBLE_DEVICES that a login has", blame: Info, differ: Info, remedy: remedy})
	case len(groups) == 1 && groups[0].value != "":
		title := v.say(rest, "has CUDA_VISIBLE_DEVICES="+groups[0].value+" from the login")
		found = []Finding{v.finding(Info, rest, title, remedy, nil)}
	}
	return append(t.findings(), found...), "CUDA_VISIBLE_DEVICES is not inherited", ""
}

// visibleGPUs is how many GPUs the ranks of a host will see, as far as
// CUDA_VISIBLE_DEVICES says: that of the login, or of the job in place of it.
func (v *view) visibleGPUs(host int) int {
	h := &v.Hosts[host]
	if h.Facts.GPU.Visible == nil {
		return math.MaxInt
	}
	return max(visibleCount(*h.Facts.GPU.Visible), len(h.GPUs))
}

func visibleText(h *Host) string {
	if h.Facts.GPU.Visible == nil {
		return ""
	}
	return fmt.Sprintf("%q", *h.Facts.GPU.Visible)
}

// visibleCount is how many GPUs CUDA sees with such a value: it stops at the first -1.
func visibleCount(value string) int {
	n := 0
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		if part == "" || strings.HasPrefix(part, "-") || part == "NoDevFiles" {
			break
		}
		n++
	}
	return n
}
