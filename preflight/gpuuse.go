package preflight

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainGPUFree = `A process that already uses a GPU of the job takes memory and time from it, and mostly is a leftover of a job that ended badly. ` +
	`Only the GPUs that the job will use are judged, and processes of the job's own user count like any other's; what only draws on the screen does not. ` +
	`Nor does the server of MPS, through which ranks share GPUs. ` +
	`Memory of more than 512 MiB (preflight.gpu-memory-used) that no visible process holds belongs to a process of another container, to one that is dying, or to the driver. ` +
	`The host is excluded; for memory of nobody only if that is more than an eighth of the GPU, and most hosts have none. ` +
	`End the process if it is yours, or ask its owner: ps -fp PID.`

func checkGPUFree(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	t, few := v.tally(), 0
	for _, i := range hosts {
		if slices.ContainsFunc(v.used(i), v.orphaned) {
			few++
		}
	}
	verdict := func(i int) Verdict {
		much := slices.ContainsFunc(v.used(i), func(d *facts.Device) bool { return v.orphaned(d) && d.MemUsed > d.MemTotal/8 })
		if much && (len(hosts) < 3 || 2*few < len(hosts)) {
			return v.exclude()
		}
		return Warn
	}
	for _, i := range hosts {
		busy := v.addBusy(t, i)
		v.addGPUs(t, i, gpuFault{fault{
			verdict: verdict(i), what: "has GPU memory in use by no process that can be seen",
			remedy: "on HOST: fuser -v /dev/nvidia* (needs root) tells who holds it; ask its owner",
		}, func(d *facts.Device) string { return when(v.orphaned(d) && !busy[d.Index], size(d.MemUsed)+" in use") }})
	}
	return append(t.findings(), found...), "no other process uses them", ""
}

// orphaned reports whether a GPU has memory in use, and no process.
func (v *view) orphaned(d *facts.Device) bool {
	return len(d.Users) == 0 && d.MIG != "Enabled" && d.MemUsed > v.Limits.GPUMemory
}

// harmless reports whether a process on a GPU is not in a job's way: it draws on the
// screen, or is the server of MPS.
func harmless(u facts.GPUUser) bool {
	return u.Type == "G" || strings.HasPrefix(path.Base(u.Name), "nvidia-cuda-mps")
}

// addBusy adds the fault of a host's GPUs that processes use, and returns which those are.
func (v *view) addBusy(t *tally, host int) map[int]bool {
	h := &v.Hosts[host].Facts
	type holder struct {
		facts.GPUUser
		gpus []int
	}
	var holders []*holder
	by := map[int]*holder{}
	var busy []int
	busyOn := map[int]bool{}
	for _, d := range v.used(host) {
		for _, u := range d.Users {
			if harmless(u) {
				continue
			}
			p := by[u.PID]
			if p == nil {
				p = &holder{GPUUser: u}
				by[u.PID] = p
				holders = append(holders, p)
			} else {
				p.Memory = max(p.Memory, 0) + max(u.Memory, 0)
			}
			if !slices.Contains(p.gpus, d.Index) {
				p.gpus = append(p.gpus, d.Index)
			}
			if !busyOn[d.Index] {
				busyOn[d.Index] = true
				busy = append(busy, d.Index)
			}
		}
	}
	if len(holders) == 0 {
		return busyOn
	}
	f := fault{verdict: v.exclude(), what: "has GPUs that are in use", which: gpuNames(busy), remedy: "on HOST: ps -fp PID of each that is named; end it, or ask its owner (stops other jobs on HOST)"}
	for _, p := range holders {
		owner := cmp.Or(p.User, "a user that is not known")
		if p.User != "" && p.User == h.System.User {
			owner += ", the job's own user"
		}
		line := fmt.Sprintf("%s: process %d (%s) of %s", gpuNames(p.gpus), p.PID, cmp.Or(p.Name, "no name"), owner)
		if p.Memory > 0 {
			line += ", " + size(p.Memory)
		}
		f.evidence = append(f.evidence, line)
	}
	t.add(host, f)
	return busyOn
}

const explainGPUMode = `MIG cuts a GPU into parts that have neither NVLink nor PCIe peer access: ranks do not see the whole GPU, and NCCL between the parts of a host does not work. ` +
	`A host that has it on while the majority has it off is excluded if it has several ranks, which then see one part only; else it is a warning, for it may be meant so. ` +
	`Compute mode "Prohibited" lets no process in and excludes the host; "Exclusive_Process" lets one in, as schedulers set it: it is a warning where there are more ranks than GPUs, and else a note. ` +
	`The values are those of nvidia-smi -q. ` +
	`Switch MIG off with nvidia-smi -mig 0, and the mode back with nvidia-smi -c 0.`

func checkGPUMode(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	migs := 0
	isMIG := func(d *facts.Device) bool { return d.MIG == "Enabled" }
	for _, i := range hosts {
		if slices.ContainsFunc(v.used(i), isMIG) {
			migs++
		}
	}
	t := v.tally()
	for _, i := range hosts {
		verdict, exclusive := Warn, Info
		if len(hosts) >= 3 && 2*migs < len(hosts) && v.ranksOn(i) > 1 {
			verdict = v.exclude()
		}
		if v.Hosts[i].Ranks > len(v.used(i)) {
			exclusive = Warn
		}
		v.addGPUs(t, i, gpuFault{fault{verdict: verdict, what: "has GPUs in MIG mode", remedy: "on HOST: nvidia-smi -i NUMBERS -mig 0 (needs root; stops other jobs on HOST)"}, func(d *facts.Device) string {
			return when(isMIG(d), "MIG is on")
		}})
		v.addGPUs(t, i, gpuFault{fault{verdict: v.exclude(), what: "has GPUs that no process may use", remedy: "on HOST: nvidia-smi -i NUMBERS -c 0 (needs root)"}, func(d *facts.Device) string {
			return when(strings.EqualFold(d.Compute, "Prohibited"), "compute mode: Prohibited")
		}})
		v.addGPUs(t, i, gpuFault{fault{verdict: exclusive, what: "has GPUs that one process only may use", remedy: "on HOST: nvidia-smi -i NUMBERS -c 0 (needs root)"}, func(d *facts.Device) string {
			return when(strings.HasPrefix(strings.ToLower(d.Compute), "exclusive"), "compute mode: "+d.Compute)
		}})
	}
	return append(t.findings(), found...), "MIG is off", ""
}

const explainPCIe = `A GPU that got fewer PCIe lanes than it and its slot have, and fewer than most GPUs of its model in the job, copies to and from the host, and to the NICs, at a fraction of the speed. ` +
	`Width is judged only, for an idle GPU lowers its link's speed to save power. ` +
	`Where most GPUs have the same width, it is the way the machines are built, and not named; where all of a few have, it is mentioned. ` +
	`Else it is a warning: reseat the card or its riser, and look in the kernel's log for PCIe errors.`

func checkPCIe(v *view) (found []Finding, good, skip string) {
	usual, same := v.usualWidths()
	narrow := func(known bool) func(d *facts.Device) string {
		return func(d *facts.Device) string {
			low := d.Width > 0 && d.Width < d.MaxWidth && (usual[d.Name] == 0 || d.Width < usual[d.Name])
			return when(low && same[d.Name] != known, fmt.Sprintf("PCIe x%d of x%d", d.Width, d.MaxWidth))
		}
	}
	found, skip = v.perGPU([]string{facts.ItemGPU},
		gpuFault{fault{verdict: Warn, what: "has GPUs with fewer PCIe lanes than their slots have", remedy: "reseat the cards or their risers on HOST: WHICH"}, narrow(true)},
		gpuFault{fault{verdict: Info, what: "has GPUs in narrow PCIe slots, or with fewer lanes than those have"}, narrow(false)},
	)
	return found, "no PCIe link is narrow", skip
}

// usualWidths is the PCIe width of most GPUs of each model; 0 if there is no majority of
// three or more. same says of which models all have one width.
func (v *view) usualWidths() (usual map[string]int, same map[string]bool) {
	counts := map[string]map[int]int{}
	for _, i := range v.reached {
		for _, d := range v.Hosts[i].Facts.GPU.Devices {
			if d.Width > 0 {
				bump(counts, d.Name, d.Width)
			}
		}
	}
	usual, same = map[string]int{}, map[string]bool{}
	for name, widths := range counts {
		usual[name], _ = most(widths)
		same[name] = len(widths) == 1
	}
	return usual, same
}

const explainACS = `ACS on PCIe bridges, and an IOMMU that translates, send what GPUs and NICs write to each other up to the CPU and back: GPUDirect then is slow, or gives wrong data or hangs. ` +
	`ACS is read from the bridges above the GPUs, which the kernel shows to root only; the IOMMU from sysfs and the kernel's command line. ` +
	`Virtual machines need ACS, and are not judged; nor are hosts with one GPU and no HCA, nor the IOMMU of ARM machines, which GPUs there work with. ` +
	`It is a warning: switch ACS off in the BIOS, or at each boot (setpci -s BDF ECAP_ACS+0x6.w=0000), and boot with iommu=pt.`

func checkACS(v *view) (found []Finding, good, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, "", noGPU
	}
	known, found := v.split(hosts, facts.ItemPCI)
	t := v.tally()
	readable, virtual := 0, 0
	for _, i := range known {
		h := &v.Hosts[i].Facts
		if virtualMachine(h.System.Virtual) {
			virtual++
			continue
		}
		if len(h.GPU.PCI) < 2 && len(h.RDMA.Devices) == 0 {
			continue
		}
		bridges, read := acsBridges(h)
		if read {
			readable++
		}
		if len(bridges) > 0 {
			t.add(i, fault{
				verdict: Warn, what: "has ACS on at bridges above its GPUs", evidence: []string{"bridges " + strings.Join(bridges[:min(len(bridges), 8)], " ") + when(len(bridges) > 8, " …")},
				remedy: "on HOST, for each bridge: setpci -s BDF ECAP_ACS+0x6.w=0000 (needs root), or switch ACS off in the BIOS",
			})
		}
		if h.PCI.IOMMU == "on" && h.System.Arch != "arm64" {
			t.add(i, fault{verdict: Warn, what: "has an IOMMU that translates what GPUs and NICs write to each other", remedy: "boot HOST with iommu=pt, or switch the IOMMU off in the BIOS (needs root; stops other jobs on HOST)"})
		}
	}
	found = append(t.findings(), found...)
	switch {
	case virtual == len(known) && len(found) == 0:
		return nil, "", "the hosts are virtual machines"
	case readable == 0:
		return found, "the IOMMU is not in the way; ACS can be read by root only", ""
	}
	return found, "ACS is off on the bridges above GPUs of " + count(readable, "host"), ""
}

// acsBridges lists the bridges above a host's GPUs that have ACS on. read tells that some
// could be read.
func acsBridges(h *facts.Host) (on []string, read bool) {
	above := map[string]bool{}
	for _, d := range h.PCI.Devices {
		if d.Class>>8 != 0x0302 && d.Class>>8 != 0x0300 || d.Vendor != 0x10de {
			continue
		}
		for part := range strings.SplitSeq(d.Path, "/") {
			above[strings.ToLower(part)] = true
		}
	}
	for _, d := range h.PCI.Devices {
		if d.Class>>8 != 0x0604 || !above[strings.ToLower(d.BDF)] {
			continue
		}
		read = read || d.ACS != ""
		if d.ACS == "on" {
			on = append(on, d.BDF)
		}
	}
	return on, read
}
