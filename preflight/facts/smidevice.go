package facts

import (
	"maps"
	"slices"
	"strings"
)

// newDevice is a GPU of which nothing is known.
func newDevice() Device {
	return Device{
		Minor: -1, NUMA: -1, MemTotal: -1, MemUsed: -1, Uncorrected: -1, Corrected: -1, RemapBad: -1,
		NVLinks: -1, NVActive: -1, Width: -1, MaxWidth: -1, Gen: -1, MaxGen: -1, Temp: -1,
	}
}

// device is the GPU with these values.
func device(of leaves) Device {
	d := newDevice()
	d.UUID, d.BDF = told(of["uuid"]), parseBDF(of["pci/pci_bus_id"])
	d.Name, d.VBIOS, d.Serial = told(of["product_name"]), told(of["vbios_version"]), told(of["serial"])
	d.Minor = int(amount(of["minor_number"]))
	d.MemTotal, d.MemUsed = size(of["fb_memory_usage/total"]), size(of["fb_memory_usage/used"])
	d.MIG = orNA(of["mig_mode/current_mig"])
	d.Compute, d.Persist = told(of["compute_mode"]), told(of["persistence_mode"])
	d.Width, d.MaxWidth = of.int("pci/pci_gpu_link_info/link_widths/current_link_width"), of.int("pci/pci_gpu_link_info/link_widths/max_link_width")
	d.Gen, d.MaxGen = of.int("pci/pci_gpu_link_info/pcie_gen/current_link_gen"), of.int("pci/pci_gpu_link_info/pcie_gen/max_link_gen")
	d.Temp = of.int("temperature/gpu_temp")
	of.memory(&d)
	of.fabric(&d)
	d.Recovery = of.recovery()
	d.Throttle = of.throttle()
	d.Trouble = of.trouble()
	return d
}

func (of leaves) int(name string) int { return int(min(amount(of[name]), 1<<31-1)) }

// orNA is a value, "N/A" if the GPU has no such thing, or "" if that is not known.
func orNA(value string) string {
	if strings.Trim(value, "[]") == "N/A" {
		return "N/A"
	}
	return told(value)
}

// memory sets what is known of errors in the GPU's memory.
func (of leaves) memory(d *Device) {
	d.ECC, d.ECCNext = told(of["ecc_mode/current_ecc"]), told(of["ecc_mode/pending_ecc"])
	// Driver 550 split the errors of SRAM; GPUs before Ampere count bits.
	d.Uncorrected = of.sum("ecc_errors/volatile/", "sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable", "double_bit/total")
	d.Corrected = of.sum("ecc_errors/volatile/", "sram_correctable", "dram_correctable", "single_bit/total")
	d.SRAMOver = told(of["ecc_errors/aggregate/sram_threshold_exceeded"])
	d.RemapWait, d.RemapFailed = of.yes("remapped_rows/remapped_row_pending"), of.yes("remapped_rows/remapped_row_failure")
	d.RemapBad = amount(of["remapped_rows/remapped_row_unc"])
	d.RetireWait = of.yes("retired_pages/pending_retirement") || of.yes("retired_pages/pending_blacklist")
}

func (of leaves) yes(name string) bool { return strings.EqualFold(of[name], "Yes") }

// sum adds the numbers that there are; -1 if there is none.
func (of leaves) sum(dir string, names ...string) int64 {
	total := int64(-1)
	for _, name := range names {
		if n := amount(of[dir+name]); n >= 0 {
			total = max(0, total) + min(n, 1<<50)
		}
	}
	return total
}

func (of leaves) fabric(d *Device) {
	d.FabricState, d.FabricStatus = orNA(of["fabric/state"]), told(of["fabric/status"])
	d.FabricCluster, d.FabricClique = told(of["fabric/clusterUuid"]), told(of["fabric/cliqueId"])
	// Later versions may write it like the rest of the report.
	if d.FabricCluster == "" {
		d.FabricCluster = told(of["fabric/cluster_uuid"])
	}
	if d.FabricClique == "" {
		d.FabricClique = told(of["fabric/clique_id"])
	}
}

// recovery is what the GPU needs. Drivers before 565 say it in two flags.
func (of leaves) recovery() string {
	switch action := told(of["gpu_recovery_action"]); {
	case action != "":
		return action
	case of.yes("gpu_reset_status/drain_and_reset_recommended"):
		return "Drain and Reset"
	case of.yes("gpu_reset_status/reset_required"), of.trouble() == "GPU requires reset":
		return "Reset"
	}
	return ""
}

// throttle names the reasons for low clocks that are active: "sw_power_cap".
func (of leaves) throttle() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for _, prefix := range []string{"clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_"} {
			if reason, ok := strings.CutPrefix(name, prefix); ok && of[name] == "Active" {
				out = append(out, reason)
			}
		}
	}
	return out
}

// trouble is the worst that stands in place of values. A single value that could not be
// read is no trouble of the GPU.
func (of leaves) trouble() string {
	count := map[string]int{}
	for _, value := range of {
		if words := trouble(value); words != "" {
			count[words]++
		}
	}
	for _, words := range []string{"GPU is lost", "GPU requires reset"} {
		if count[words] > 0 {
			return words
		}
	}
	for _, words := range []string{"Unknown Error", "ERR!"} {
		if count[words] > 2 {
			return words
		}
	}
	return ""
}
