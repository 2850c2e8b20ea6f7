package preflight

import (
	"fmt"
	"slices"

	"gorun/preflight/facts"
)

const explainMemorySpeed = `When all else is collected, each host copies memory for a tenth of a second with one core, and then with all cores that ranks may use, from and to buffers that its caches do not hold. ` +
	`A host is slow if it copies less than half of what most hosts do (preflight.slow-bandwidth times the median), with one core or with all. ` +
	`At least three hosts with as many CPUs are needed; one that has not measured in two seconds, as it is busy, is left out. ` +
	`Host staging, data loaders and transfers without GPUDirect wait for memory, and one slow host makes all wait. ` +
	`Look for memory channels without a module (dmidecode -t memory), for a lower memory clock, for other load, and for power saving. ` +
	`What GPUs and NVLinks carry inside a host is not measured.`

func checkMemorySpeed(v *view) (found []Finding, good, skip string) {
	kinds := []struct {
		of   func(*facts.System) float64
		what string
	}{
		{func(y *facts.System) float64 { return y.CopyOne }, "with one core"},
		{func(y *facts.System) float64 { return y.CopyAll }, "with all cores"},
	}
	t := v.tally()
	for _, k := range kinds {
		// A host with other processors, as a login host, is not slow but another machine.
		for _, alike := range v.groups(v.reached, func(h *Host) string { return fmt.Sprint(h.Facts.System.Arch, h.Facts.System.CPUs) }) {
			typical := v.slowCopies(t, alike.hosts, k.of, k.what)
			if typical > 0 && good != "" {
				good += ", "
			}
			if typical > 0 {
				good += gigabytes(typical) + " " + k.what
			}
		}
	}
	if good == "" {
		return nil, "", "fewer than three hosts have measured it in time"
	}
	return t.findings(), good, ""
}

// slowCopies adds the hosts to t that are slower than most of hosts, which are alike, and
// returns what is typical of them; 0 if they are fewer than three.
func (v *view) slowCopies(t *tally, hosts []int, of func(*facts.System) float64, what string) (typical float64) {
	var rates []float64
	for _, i := range hosts {
		if r := of(&v.Hosts[i].Facts.System); r > 0 {
			rates = append(rates, r)
		}
	}
	if len(rates) < 3 {
		return 0
	}
	slices.Sort(rates)
	typical = rates[len(rates)/2]
	for _, i := range hosts {
		if r := of(&v.Hosts[i].Facts.System); r > 0 && r < v.Limits.Bandwidth*typical {
			t.add(i, fault{
				verdict: Warn, what: "copies memory slower than most hosts " + what, which: fmt.Sprintf("%s, typical %s", gigabytes(r), gigabytes(typical)),
				remedy: "on HOST: dmidecode -t memory, top, cpupower frequency-info (the first needs root)",
			})
		}
	}
	return typical
}

func gigabytes(bytesPerSecond float64) string { return fmt.Sprintf("%.3g GB/s", bytesPerSecond/1e9) }
