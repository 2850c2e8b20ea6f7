package preflight

import (
	"fmt"
	"slices"

	"gorun/preflight/facts"
)

const explainMemorySpeed = `When all else is collected, each host copies memory for a tenth of a second with one core, and then with all cores that ranks may use, from and to buffers that its caches do not hold. ` +
	`A host is slow if it copies less than half of what most hosts do (Limits.Bandwidth times the median), with one core or with all. ` +
	`At least three hosts are needed. ` +
	`Host staging, data loaders and transfers without GPUDirect wait for memory, and one slow host makes all wait. ` +
	`Look for memory channels without a module (dmidecode -t memory), for a lower memory clock, for other load, and for power saving. ` +
	`What GPUs and NVLinks carry inside a host is not measured.`

func checkMemorySpeed(v *view) (found []Finding, good, skip string) {
	known, unknown := v.split(v.reached, facts.ItemCopyRate)
	kinds := []struct {
		of   func(*facts.System) float64
		what string
	}{
		{func(y *facts.System) float64 { return y.CopyOne }, "with one core"},
		{func(y *facts.System) float64 { return y.CopyAll }, "with all cores"},
	}
	t := v.tally()
	for _, k := range kinds {
		var rates []float64
		for _, i := range known {
			if r := k.of(&v.Hosts[i].Facts.System); r > 0 {
				rates = append(rates, r)
			}
		}
		if len(rates) < 3 {
			continue
		}
		slices.Sort(rates)
		typical := rates[len(rates)/2]
		if good != "" {
			good += ", "
		}
		good += gigabytes(typical) + " " + k.what
		for _, i := range known {
			if r := k.of(&v.Hosts[i].Facts.System); r > 0 && r < v.Limits.Bandwidth*typical {
				t.add(i, fault{
					verdict: Warn, what: "copies memory slower than most hosts " + k.what, which: fmt.Sprintf("%s, typical %s", gigabytes(r), gigabytes(typical)),
					remedy: "on HOST: dmidecode -t memory, top, cpupower frequency-info (the first needs root)",
				})
			}
		}
	}
	if good == "" {
		return unknown, "", emptySkip(unknown, "fewer than three hosts have measured it")
	}
	return append(unknown, t.findings()...), good, ""
}

func gigabytes(bytesPerSecond float64) string { return fmt.Sprintf("%.3g GB/s", bytesPerSecond/1e9) }
