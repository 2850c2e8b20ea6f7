package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainECC = `Uncorrected errors of GPU memory since the driver was loaded mean that a program has read wrong data, or was ended for it; the host is excluded until the GPU is reset. ` +
	`So is one whose GPU says that the threshold of its SRAM is exceeded. ` +
	`Very many corrected errors (10,000,000; preflight.ecc-corrected) are a warning, as is ECC that is off, or will be after the next reset, while it is on on most hosts; else that is mentioned. ` +
	`The numbers are the volatile counters of nvidia-smi -q. ` +
	`Reset the GPU (nvidia-smi -r -i N); if errors come back, have it replaced.`

func checkECC(v *view) (found []Finding, good, skip string) {
	const reset = "on HOST: nvidia-smi -r -i NUMBERS; if errors come back, have it replaced (needs root; stops other jobs on HOST)"
	found, skip = v.perGPU([]string{facts.ItemGPU},
		gpuFault{fault{verdict: v.exclude(), what: "has uncorrected errors of GPU memory", remedy: reset}, func(d *facts.Device) string {
			return nonzero(d.Uncorrected, "%d uncorrected ECC errors since the driver was loaded")
		}},
		gpuFault{fault{verdict: v.exclude(), what: "has a GPU whose SRAM has too many errors", remedy: "have it replaced on HOST: WHICH"}, func(d *facts.Device) string {
			return when(strings.EqualFold(d.SRAMOver, "yes"), "its SRAM error threshold is exceeded")
		}},
		gpuFault{fault{verdict: Warn, what: "has very many corrected errors of GPU memory", remedy: reset}, func(d *facts.Device) string {
			return when(d.Corrected > v.Limits.Corrected, fmt.Sprintf("%d corrected ECC errors since the driver was loaded; the limit is %d", d.Corrected, v.Limits.Corrected))
		}},
		gpuFault{fault{verdict: v.withoutECC(), what: "has GPU memory without ECC", remedy: "on HOST: nvidia-smi -i NUMBERS -e 1; then reboot (needs root; stops other jobs on HOST)"}, func(d *facts.Device) string {
			return when(lacksECC(d), fmt.Sprintf("ECC is %s, and %s after a reset", strings.ToLower(d.ECC), strings.ToLower(d.ECCNext)))
		}},
	)
	return found, "no uncorrected ECC error", skip
}

func lacksECC(d *facts.Device) bool { return d.ECC == "Disabled" || d.ECCNext == "Disabled" }

// withoutECC is the verdict on GPUs without ECC: it is off on purpose unless most hosts
// have it on.
func (v *view) withoutECC() Verdict {
	hosts := v.gpuHosts()
	off := 0
	for _, i := range hosts {
		if slices.ContainsFunc(v.used(i), lacksECC) {
			off++
		}
	}
	if len(hosts) >= 3 && 2*off < len(hosts) {
		return Warn
	}
	return Info
}

// nonzero formats n if it is above zero; "" else.
func nonzero(n int64, format string) string {
	return when(n > 0, fmt.Sprintf(format, n))
}

// when is text if is is true, and "" else.
func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

const explainRemap = `A row of GPU memory that had an uncorrectable error is replaced by a spare one at the next reset; until then it "waits", and the error may strike again. ` +
	`A row that could not be replaced means that spares are used up: the GPU must be replaced. ` +
	`More than 512 rows that were uncorrectable (preflight.remapped-rows, after the Azure health checks) mean the same. ` +
	`Older GPUs (V100) retire pages instead, which works alike. ` +
	`The numbers are those of nvidia-smi -q; the host is excluded.`

func checkRemap(v *view) (found []Finding, good, skip string) {
	const reset = "on HOST: nvidia-smi -r -i NUMBERS, or reboot (needs root; stops other jobs on HOST)"
	const replace = "have it replaced on HOST: WHICH"
	found, skip = v.perGPU([]string{facts.ItemGPU},
		gpuFault{fault{verdict: v.exclude(), what: "has GPU memory that could not be repaired (row remapping failed)", remedy: replace}, func(d *facts.Device) string {
			return when(d.RemapFailed, "row remapping failed: no spare rows are left")
		}},
		gpuFault{fault{verdict: v.exclude(), what: "has GPU memory that waits for a repair (row remap pending)", remedy: reset}, func(d *facts.Device) string {
			return when(d.RemapWait, "row remap pending: done at the next reset of the GPU")
		}},
		gpuFault{fault{verdict: v.exclude(), what: "has a GPU with too many rows that were remapped", remedy: replace}, func(d *facts.Device) string {
			return when(d.RemapBad > v.Limits.RemapRows, fmt.Sprintf("%d rows were uncorrectable; the limit is %d", d.RemapBad, v.Limits.RemapRows))
		}},
		gpuFault{fault{verdict: v.exclude(), what: "has GPU memory that waits for a repair (page retirement pending)", remedy: reset}, func(d *facts.Device) string {
			return when(d.RetireWait, "page retirement pending: done when the driver is loaded next")
		}},
	)
	return found, "no row or page waits", skip
}

const explainRecovery = `Newer drivers say in one field what a GPU needs before it can be used again: nothing, a reset, a reboot, or that jobs which use its NVLinks are drained first. ` +
	`Anything but "None" excludes the host; a driver that does not have the field says nothing. ` +
	`The field is "GPU Recovery Action" of nvidia-smi -q. ` +
	`Do what it says: that is the remedy.`

func checkRecovery(v *view) (found []Finding, good, skip string) {
	asks := func(action string) bool {
		a := strings.ToLower(strings.TrimSpace(action))
		return a != "" && a != "none" && a != "n/a" && a != "unknown error"
	}
	var kinds []gpuFault
	seen := map[string]bool{}
	for _, i := range v.gpuHosts() {
		for _, d := range v.used(i) {
			if action := d.Recovery; asks(action) && !seen[action] && len(kinds) < maxOdd {
				seen[action] = true
				kinds = append(kinds, gpuFault{fault{verdict: v.exclude(), what: fmt.Sprintf("has a GPU that asks for recovery (%s)", action), remedy: recoveryRemedy(action)}, func(d *facts.Device) string {
					return when(d.Recovery == action, "recovery action: "+action)
				}})
			}
		}
	}
	found, skip = v.perGPU([]string{facts.ItemGPU}, kinds...)
	return found, "no GPU asks for recovery", skip
}

func recoveryRemedy(action string) string {
	const stops = " (needs root; stops other jobs on HOST)"
	switch a := strings.ToLower(action); {
	case strings.Contains(a, "drain") && strings.Contains(a, "reset"):
		return "end what runs on HOST, then: nvidia-smi -r -i NUMBERS" + stops
	case strings.Contains(a, "drain"):
		return "end what uses the NVLinks of HOST, then restart it" + stops
	case strings.Contains(a, "reset"):
		return "on HOST: nvidia-smi -r -i NUMBERS" + stops
	}
	return "reboot HOST" + stops
}

const explainPersistence = `Without persistence mode the driver unloads a GPU's state when its last user leaves: the next start takes seconds per GPU, and counters of errors are lost. ` +
	`The mode is that of nvidia-smi -q, on the GPUs that the job uses. ` +
	`It is a note: the job runs. ` +
	`Switch it on: systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1.`

func checkPersistence(v *view) (found []Finding, good, skip string) {
	found, skip = v.perGPU([]string{facts.ItemGPU}, gpuFault{
		fault{verdict: Info, what: "has GPUs without persistence mode", remedy: "on HOST: nvidia-smi -pm 1 (needs root)"},
		func(d *facts.Device) string { return when(d.Persist == "Disabled", "persistence mode is off") },
	})
	return found, "persistence mode is on", skip
}

const explainThrottle = `A GPU lowers its clocks when it, or its power supply, is too hot or overloaded; all GPUs of a job then wait for it. ` +
	`The reasons that are active now are those of nvidia-smi -q (clocks event reasons). ` +
	`Being idle, the software power cap, and clocks that were set by hand are no fault and are not named; hardware slowdown, thermal slowdown and power brake are. ` +
	`It is a warning: look at fans, air flow and power supplies of the host.`

// slowdowns are words of the reasons that are a fault.
var slowdowns = []string{"hw_slowdown", "hw_thermal", "thermal_slowdown", "power_brake"}

func checkThrottle(v *view) (found []Finding, good, skip string) {
	found, skip = v.perGPU([]string{facts.ItemGPU}, gpuFault{
		fault{verdict: Warn, what: "has GPUs that are slowed down", remedy: "look at fans, air flow and power supplies of HOST"},
		func(d *facts.Device) string {
			var bad []string
			for _, reason := range d.Throttle {
				if isSlowdown(reason) {
					bad = append(bad, reason)
				}
			}
			return when(len(bad) > 0, fmt.Sprintf("%s, at %d °C", strings.Join(bad, ", "), d.Temp))
		},
	})
	return found, "no GPU is slowed down", skip
}

func isSlowdown(reason string) bool {
	reason = strings.ReplaceAll(strings.ToLower(reason), " ", "_")
	for _, word := range slowdowns {
		if strings.Contains(reason, word) {
			return true
		}
	}
	return false
}
