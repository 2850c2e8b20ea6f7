package preflight

import (
	"fmt"
	"strings"

	"gorun/hostfile"
	"gorun/preflight/facts"
)

// gpuChecks are those of area "gpu".
func gpuChecks() []Check {
	return []Check{
		{ID: "gpu-driver", Area: "gpu", Title: "the GPU driver and nvidia-smi answer on every host with GPUs", Explain: explainGPUDriver, run: checkGPUDriver},
		{ID: "gpu-count", Area: "gpu", Title: "every host has all of its GPUs, and as many as the others", Explain: explainGPUCount, run: checkGPUCount},
		{ID: "gpu-model", Area: "gpu", Title: "every host has the same GPUs", Explain: explainGPUModel, run: checkGPUModel},
		{ID: "gpu-vbios", Area: "gpu", Title: "GPUs have the same VBIOS on every host", Explain: explainGPUVBIOS, run: checkGPUVBIOS},
		{ID: "gpu-open", Area: "gpu", Title: "the job's user can open the GPUs", Explain: explainGPUOpen, run: checkGPUOpen},
		{ID: "gpu-visible", Area: "gpu", Title: "no CUDA_VISIBLE_DEVICES is inherited from the login", Explain: explainGPUVisible, run: checkGPUVisible},
		{ID: "gpu-free", Area: "gpu", Title: "the GPUs that the job uses are free", Explain: explainGPUFree, run: checkGPUFree},
		{ID: "gpu-mode", Area: "gpu", Title: "MIG is off, and GPUs may be used by any process", Explain: explainGPUMode, run: checkGPUMode},
		{ID: "gpu-xid", Area: "gpu", Title: "the kernel's log has no error of a GPU (XID) since boot", Explain: explainXID, run: checkXID},
		{ID: "gpu-sxid", Area: "gpu", Title: "the kernel's log has no error of an NVSwitch (SXID) since boot", Explain: explainSXID, run: checkSXID},
		{ID: "gpu-ecc", Area: "gpu", Title: "GPU memory is protected by ECC and has no uncorrected error", Explain: explainECC, run: checkECC},
		{ID: "gpu-remap", Area: "gpu", Title: "no row or page of GPU memory waits to be replaced", Explain: explainRemap, run: checkRemap},
		{ID: "gpu-recovery", Area: "gpu", Title: "no GPU asks for a reset or a reboot", Explain: explainRecovery, run: checkRecovery},
		{ID: "gpu-nvlink", Area: "gpu", Title: "all NVLinks are up", Explain: explainNVLink, run: checkNVLink},
		{ID: "gpu-p2p", Area: "gpu", Title: "GPUs reach each other by NVLink where they should", Explain: explainP2P, run: checkP2P},
		{ID: "gpu-fabric", Area: "gpu", Title: "the NVLink fabric is set up", Explain: explainFabric, run: checkFabric},
		{ID: "gpu-domain", Area: "gpu", Title: "hosts of a multi-host NVLink domain are in the same one", Explain: explainDomain, run: checkDomain},
		{ID: "gpu-topology", Area: "gpu", Title: "GPUs, NICs and NUMA nodes are connected alike on every host", Explain: explainTopology, run: checkTopology},
		{ID: "gpu-pcie", Area: "gpu", Title: "GPUs have all lanes of their PCIe slots", Explain: explainPCIe, run: checkPCIe},
		{ID: "gpu-acs", Area: "gpu", Title: "neither ACS nor the IOMMU is in the way between GPUs and NICs", Explain: explainACS, run: checkACS},
		{ID: "gpu-persistence", Area: "gpu", Title: "the GPU driver stays loaded (persistence mode)", Explain: explainPersistence, run: checkPersistence},
		{ID: "gpu-throttle", Area: "gpu", Title: "no GPU is slowed down by heat or power", Explain: explainThrottle, run: checkThrottle},
	}
}

// noGPU is why GPU checks are skipped.
const noGPU = "no host has a GPU"

// gpuHosts lists the reached hosts that have GPUs, or that cannot tell where others have.
func (v *view) gpuHosts() []int {
	var hosts []int
	some := false
	for _, i := range v.reached {
		has := hasGPU(&v.Hosts[i].Facts)
		some = some || has
		if has || v.lacks(i, facts.ItemGPU) {
			hosts = append(hosts, i)
		}
	}
	if !some {
		return nil
	}
	return hosts
}

// splitGPU is split for checks of what nvidia-smi says of each GPU: a host of which it
// lists none is unknown.
func (v *view) splitGPU(hosts []int, items ...string) (known []int, unknown []Finding) {
	all, unknown := v.split(hosts, items...)
	t := v.tally()
	for _, i := range all {
		g := &v.Hosts[i].Facts.GPU
		switch {
		case len(g.Devices) > 0:
			known = append(known, i)
		case g.SMIExit != 0:
			t.add(i, unknownFault(facts.ItemGPU, fmt.Sprintf("nvidia-smi ended with exit code %d", g.SMIExit)))
		case g.SMI == "":
			t.add(i, unknownFault(facts.ItemGPU, noSMI))
		default:
			t.add(i, unknownFault(facts.ItemGPU, "nvidia-smi lists none"))
		}
	}
	return known, append(unknown, t.findings()...)
}

const noSMI = "nvidia-smi is not installed"

func hasGPU(h *facts.Host) bool {
	return len(h.GPU.PCI) > 0 || len(h.GPU.Devices) > 0
}

// exclude is the verdict on a host whose GPUs are of no use: without GPUs in the job it
// is only a warning.
func (v *view) exclude() Verdict {
	if v.Job.GPU {
		return NoHost
	}
	return Warn
}

// used lists the GPUs of a host that the job will use.
func (v *view) used(host int) []*facts.Device {
	h := &v.Hosts[host]
	var out []*facts.Device
	for k := range h.Facts.GPU.Devices {
		if d := &h.Facts.GPU.Devices[k]; v.uses(host, d.Index) {
			out = append(out, d)
		}
	}
	return out
}

// uses reports whether the job will use the GPU of that index.
func (v *view) uses(host, index int) bool {
	gpus := v.Hosts[host].GPUs
	if gpus == nil {
		return true
	}
	for _, g := range gpus {
		if g == index {
			return true
		}
	}
	return false
}

// gpuFault is what is wrong with single GPUs.
type gpuFault struct {
	fault
	bad func(*facts.Device) string // what is wrong with it, "" nothing
}

// perGPU looks at each GPU that the job will use, on hosts that know all of items.
func (v *view) perGPU(items []string, kinds ...gpuFault) (found []Finding, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, noGPU
	}
	known, unknown := v.splitGPU(hosts, items...)
	t := v.tally()
	for _, i := range known {
		for _, kind := range kinds {
			v.addGPUs(t, i, kind)
		}
	}
	return append(t.findings(), unknown...), ""
}

// addGPUs adds the fault of a host's GPUs for which kind.bad has something to say.
func (v *view) addGPUs(t *tally, host int, kind gpuFault) {
	f := kind.fault
	var bad []int
	for _, d := range v.used(host) {
		if line := kind.bad(d); line != "" {
			bad = append(bad, d.Index)
			f.evidence = append(f.evidence, fmt.Sprintf("%s: %s", device(d), line))
		}
	}
	if len(bad) > 0 {
		f.which = gpuNames(bad)
		t.add(host, f)
	}
}

// device names a GPU in evidence: "GPU 3 (0000:9b:00.0)".
func device(d *facts.Device) string {
	return fmt.Sprintf("GPU %d (%s)", d.Index, d.BDF)
}

// gpuNames names GPUs of one host: "GPU 3", "GPUs 0-3,6".
func gpuNames(indexes []int) string {
	if len(indexes) == 1 {
		return fmt.Sprintf("GPU %d", indexes[0])
	}
	return "GPUs " + numbers(indexes)
}

// numbers folds numbers: "0-3,6".
func numbers(all []int) string {
	names := make([]string, len(all))
	for k, n := range all {
		names[k] = fmt.Sprint("n", n)
	}
	return strings.Trim(strings.TrimPrefix(hostfile.Fold(names), "n"), "[]")
}

// slot is a BDF without its function, which the kernel's log leaves out.
func slot(bdf string) string {
	bdf, _, _ = strings.Cut(strings.ToLower(bdf), ".")
	return bdf
}

// gpusOf says what GPUs a host has: "8 × NVIDIA H100".
func gpusOf(h *facts.Host) string {
	kinds := map[string]int{}
	var names []string
	for _, d := range h.GPU.Devices {
		if kinds[d.Name] == 0 {
			names = append(names, d.Name)
		}
		kinds[d.Name]++
	}
	for k, name := range names {
		names[k] = fmt.Sprintf("%d × %s", kinds[name], name)
	}
	if len(names) == 0 {
		return "no GPU"
	}
	return strings.Join(names, " + ")
}

// allGPUs says what the hosts have, if all is well: "8 × NVIDIA H100 on each of 16 hosts".
func (v *view) allGPUs(hosts []int) string {
	if len(hosts) == 0 {
		return ""
	}
	what := gpusOf(&v.Hosts[hosts[0]].Facts)
	if len(hosts) == 1 {
		return what + " on " + v.Hosts[hosts[0]].Name
	}
	return fmt.Sprintf("%s on each of %d hosts", what, len(hosts))
}
