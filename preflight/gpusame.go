package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/preflight/facts"
)

const explainGPUCount = `GPUs on the PCI bus are compared with those that nvidia-smi lists: one that is missing there is named by its PCI address, with its last XID; so is one that most hosts have on the bus. ` +
	`Where hidden GPUs are the same number on all hosts, are of a kind that none of the listed ones is, or the host is a container or gives a scheduler's job some of them, they are taken as hidden on purpose. ` +
	`Then hosts are compared: a host with fewer GPUs than the majority is excluded if it has fewer than ranks, or a number that no machine is built with, such as 7. ` +
	`Else it is a warning, as for a host that has neither GPUs nor their driver; more GPUs are only mentioned. ` +
	`With two hosts, or without a majority, nobody is blamed. ` +
	`A host with fewer GPUs than it has ranks is warned about: NCCL refuses two ranks on one GPU. ` +
	`Reboot a host that lost a GPU; if it stays away, have it reseated or replaced.`

func checkGPUCount(v *view) (found []Finding, good, skip string) {
	known, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	t := v.tally()
	rest := v.withoutGPUs()
	missing := v.groups(known, func(h *Host) string { return strconv.Itoa(len(missingGPUs(&h.Facts))) })
	gone := v.goneGPUs(known)
	for _, i := range known {
		f, ok := v.missingFault(i, len(missing) < 2 && len(known) > 2)
		if !ok && len(gone[i]) > 0 {
			f, ok = v.goneFault(i, gone[i]), true
		}
		if ok {
			t.add(i, f)
			if f.verdict != Info {
				continue
			}
		}
		rest = append(rest, i)
		if n, want := len(v.Hosts[i].Facts.GPU.Devices), v.Hosts[i].Ranks; v.Job.GPU && n > 0 && n < want {
			t.add(i, fault{verdict: Warn, what: "has fewer GPUs than ranks", which: fmt.Sprintf("%d GPUs, %d ranks", n, want), remedy: "give HOST fewer slots in the hostfile"})
		}
	}
	slices.Sort(rest)
	found = append(found, v.odd(rest, contrast{
		of: func(h *Host) string { return countGPUs(&h.Facts) }, subject: "the number of their GPUs", blame: v.exclude(), differ: Warn,
		remedy: "on HOST: nvidia-smi -L; lspci -d 10de: ; if GPUs are missing there, reboot it (needs root; stops other jobs on HOST)",
		align:  "on each host: nvidia-smi -L; lspci -d 10de:",
		grade:  v.gradeCount,
	})...)
	return append(t.findings(), found...), v.allGPUs(known), ""
}

// gradeCount is the verdict on a host with another number of GPUs than most.
func (v *view) gradeCount(odd, most *Host) Verdict {
	n := len(odd.Facts.GPU.Devices)
	switch {
	case n > len(most.Facts.GPU.Devices):
		return Info
	case n == 0 && odd.Facts.GPU.Driver != "", n > 0 && hasLost(odd, n) && modelsOf(odd) == modelsOf(most):
		return v.exclude()
	}
	return Warn
}

// hasLost reports whether a host that has fewer GPUs than most must have had more: it has
// fewer than its ranks need, or as many as no machine is built with.
func hasLost(h *Host, gpus int) bool { return gpus < h.Ranks || gpus&(gpus-1) != 0 }

// goneGPUs lists, of each host, the GPUs that most hosts have on the PCI bus and that it
// has lost from there.
func (v *view) goneGPUs(hosts []int) map[int][]string {
	gone := map[int][]string{}
	all := v.groups(hosts, func(h *Host) string { return strings.Join(h.Facts.GPU.PCI, " ") })
	if len(all) < 2 || !majority(all) {
		return gone
	}
	most := &v.Hosts[all[0].hosts[0]]
	for _, g := range all[1:] {
		for _, i := range g.hosts {
			h := &v.Hosts[i]
			lost := except(most.Facts.GPU.PCI, h.Facts.GPU.PCI)
			if len(lost)+len(h.Facts.GPU.PCI) == len(most.Facts.GPU.PCI) && modelsOf(h) == modelsOf(most) && hasLost(h, len(h.Facts.GPU.PCI)) {
				gone[i] = lost
			}
		}
	}
	return gone
}

// except lists those of all that are not in these.
func except(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}

func (v *view) goneFault(host int, gone []string) fault {
	h := &v.Hosts[host].Facts
	f := lostFault(v.exclude(), len(h.GPU.PCI), len(h.GPU.PCI)+len(gone), gone)
	for _, bdf := range gone {
		f.evidence = append(f.evidence, bdf+" is not on the PCI bus, as it is on most hosts"+lastXID(h, bdf))
	}
	return f
}

func lostFault(verdict Verdict, has, of int, missing []string) fault {
	return fault{
		verdict: verdict, what: fmt.Sprintf("has %d of %d GPUs", has, of), which: strings.Join(missing, ", ") + " missing",
		remedy: "reboot HOST; if the GPU stays away, have it reseated or replaced (needs root; stops other jobs on HOST)",
	}
}

// withoutGPUs lists the reached hosts that are known to have no GPU.
func (v *view) withoutGPUs() (hosts []int) {
	for _, i := range v.reached {
		if !hasGPU(&v.Hosts[i].Facts) && !v.lacks(i, facts.ItemGPU, facts.ItemPCI) {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

func countGPUs(h *facts.Host) string {
	if n := len(h.GPU.Devices); n > 0 {
		return count(n, "GPU")
	}
	return "no GPU"
}

// missingFault is that of a host with GPUs on the bus that nvidia-smi does not list.
// alike tells that as many are missing on all hosts.
func (v *view) missingFault(host int, alike bool) (f fault, ok bool) {
	h := &v.Hosts[host].Facts
	missing := missingGPUs(h)
	if len(missing) == 0 {
		return fault{}, false
	}
	f = lostFault(v.exclude(), len(h.GPU.PCI)-len(missing), len(h.GPU.PCI), missing)
	for _, bdf := range missing {
		f.evidence = append(f.evidence, bdf+" is on the PCI bus, but nvidia-smi does not list it"+lastXID(h, bdf))
	}
	seen := slices.ContainsFunc(missing, func(bdf string) bool { return lastXID(h, bdf) != "" })
	if alike || container(h.System.Virtual) || h.GPU.Confined && !seen || unlike(h, missing) {
		f.verdict, f.remedy, f.what = Info, "", fmt.Sprintf("hides %d of %d GPUs", len(missing), len(h.GPU.PCI))
	}
	return f, true
}

// missingGPUs lists the BDFs on the bus that nvidia-smi does not list.
func missingGPUs(h *facts.Host) (missing []string) {
	listed := map[string]bool{}
	for _, d := range h.GPU.Devices {
		listed[slot(d.BDF)] = true
	}
	for _, bdf := range h.GPU.PCI {
		if !listed[slot(bdf)] {
			missing = append(missing, bdf)
		}
	}
	return missing
}

// unlike reports whether missing GPUs are of kinds that none of the listed ones is, as a
// card for the screen that the driver does not know.
func unlike(h *facts.Host, missing []string) bool {
	kinds := map[string]uint16{}
	for _, d := range h.PCI.Devices {
		kinds[slot(d.BDF)] = d.Device
	}
	listed := map[uint16]bool{}
	for _, d := range h.GPU.Devices {
		listed[kinds[slot(d.BDF)]] = true
	}
	return !slices.ContainsFunc(missing, func(bdf string) bool {
		kind := kinds[slot(bdf)]
		return kind == 0 || listed[kind] || lastXID(h, bdf) != ""
	})
}

func lastXID(h *facts.Host, bdf string) string {
	for _, x := range slices.Backward(h.Kernel.XIDs) {
		if slot(x.BDF) == slot(bdf) {
			return fmt.Sprintf("; last XID %d", x.Code)
		}
	}
	return ""
}

// container reports whether what a host says of virtualisation means a container.
func container(virtual string) bool {
	return slices.ContainsFunc([]string{"container", "docker", "podman", "lxc", "kube", "apptainer", "singularity", "enroot", "nspawn", "containerd"}, func(word string) bool {
		return strings.Contains(strings.ToLower(virtual), word)
	})
}

// virtualMachine reports whether what a host says of virtualisation means a virtual
// machine, with or without a container in it.
func virtualMachine(virtual string) bool {
	return virtual != "" && (!container(virtual) || strings.Contains(strings.ToLower(virtual), "virtual machine"))
}

const explainGPUModel = `The job is as fast as its slowest GPU, and programs size their work by the memory of the first. ` +
	`Name and memory of all GPUs of a host are compared with the majority of hosts; numbers of GPUs are another check's. ` +
	`GPUs of different models can run one job, so this is a warning. ` +
	`Leave the odd hosts out, or size the job by the smaller GPU.`

func checkGPUModel(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	found = append(found, v.odd(hosts, contrast{of: modelsOf, blame: Warn, differ: Warn, subject: "the model of their GPUs", remedy: "leave HOST out of the job, or size it by the smaller GPU", align: "size the job by the smaller GPU, or leave some of HOST out"})...)
	if len(hosts) > 0 {
		good = modelsOf(&v.Hosts[hosts[0]])
	}
	return found, good, ""
}

// withGPUs lists the hosts that list GPUs, and finds those unknown that do not say.
func (v *view) withGPUs(items ...string) (hosts []int, found []Finding, skip string) {
	all := v.gpuHosts()
	if len(all) == 0 {
		return nil, nil, noGPU
	}
	hosts, found = v.splitGPU(all, append(items, facts.ItemGPU)...)
	return hosts, found, ""
}

// modelsOf names the kinds of GPUs of a host: "NVIDIA H100 80GB HBM3 (79.6 GiB)".
func modelsOf(h *Host) string {
	return kindsOf(h, func(d *facts.Device) string {
		if d.MemTotal <= 0 {
			return d.Name
		}
		return fmt.Sprintf("%s (%s)", d.Name, size(d.MemTotal))
	})
}

// kindsOf joins what of says of a host's GPUs, each once, sorted.
func kindsOf(h *Host, of func(*facts.Device) string) string {
	var kinds []string
	for k := range h.Facts.GPU.Devices {
		if kind := of(&h.Facts.GPU.Devices[k]); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " + ")
}

const explainGPUVBIOS = `GPUs of one model should run the same VBIOS: versions differ in power limits, clocks and fixes. ` +
	`The versions of a host's GPUs are compared with the majority of hosts. ` +
	`A difference is a warning; it shows up as one slow host, or as errors that only some hosts have. ` +
	`Update with the tools of the host's vendor.`

func checkGPUVBIOS(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	of := func(h *Host) string { return kindsOf(h, func(d *facts.Device) string { return d.VBIOS }) }
	// Other models have other versions; that models differ is said once.
	for _, g := range v.groups(hosts, modelsOf) {
		found = append(found, v.odd(g.hosts, contrast{of: of, what: "VBIOS", subject: "the VBIOS of their GPUs", blame: Warn, differ: Warn, remedy: "update the VBIOS on HOST with the vendor's tools (needs root; stops other jobs on HOST)"})...)
		if good == "" {
			good = "VBIOS " + of(&v.Hosts[g.hosts[0]])
		}
	}
	return found, good, ""
}
