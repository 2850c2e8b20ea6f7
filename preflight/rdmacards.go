package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainRDMAFirmware = `HCAs of one model should run one firmware: old versions have known faults, and different ones negotiate different features. ` +
	`Models (hca_type, board ID) and firmware versions of the ports in use are compared with those of most hosts. ` +
	`It is a warning only: most differences do no harm, but it is the first thing to look at when one host is slow. ` +
	`mlxfwmanager, or flint -d DEVICE q, shows and updates firmware; a restart of the host is needed then.`

func checkRDMAFirmware(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	var hosts []int
	for _, i := range f.hosts {
		if len(f.rails(i)) > 0 {
			hosts = append(hosts, i)
		}
	}
	models := func(h *Host) string { return hcaModels(onLayer(inUse(h), f.layer)) }
	found = append(f.unknown, v.odd(hosts, contrast{
		of: models, what: "HCAs", subject: "model or firmware of HCAs", blame: Warn, differ: Warn,
		remedy: "bring HCAs of HOST to the same firmware: mlxfwmanager (needs root; stops other jobs on HOST)",
	})...)
	if len(hosts) > 0 {
		good = models(&v.Hosts[hosts[0]])
	}
	return found, good, ""
}

// hcaModels lists the different models of rails with their firmware.
func hcaModels(all []rail) string {
	var models []string
	for _, r := range all {
		models = append(models, phrase(r.hca.Type, r.hca.Board, r.hca.Firmware))
	}
	return strings.Join(unique(models), ", ")
}

const explainRDMAPCIe = `An HCA that has trained fewer PCIe lanes than it can use, or a slower generation, cannot feed its network port. ` +
	`The current width of each HCA in use is compared with its maximum and with the HCAs of the same model in the whole job: it is named if it is below both, so that slots which are narrow everywhere by design are not. ` +
	`The speed is compared with that of most HCAs of the model. ` +
	`Reseat the card, and look at the kernel log for "available PCIe bandwidth, limited by".`

func checkRDMAPCIe(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	widths, speeds := map[string]map[int]int{}, map[string]map[string]int{}
	f.eachRail(func(_ int, r rail) {
		if r.hca.Width > 0 {
			bump(widths, r.hca.Type, r.hca.Width)
			bump(speeds, r.hca.Type, r.hca.Speed)
		}
	})
	t, seen := v.tally(), 0
	f.eachRail(func(i int, r rail) {
		if r.hca.Width <= 0 {
			return
		}
		seen++
		if wide, ok := most(widths[r.hca.Type]); ok && r.hca.Width < wide && r.hca.Width < r.hca.MaxWidth {
			t.add(i, pcieFault(fmt.Sprintf("%s PCIe x%d of x%d, others x%d", r.hca.Name, r.hca.Width, r.hca.MaxWidth, wide)))
		}
		if usual, ok := most(speeds[r.hca.Type]); ok && slower(r.hca.Speed, usual) {
			t.add(i, pcieFault(fmt.Sprintf("%s %s, others %s", r.hca.Name, r.hca.Speed, usual)))
		}
	})
	if seen == 0 && len(f.unknown) == 0 {
		return nil, "", "no HCA tells its PCIe width"
	}
	return append(f.unknown, t.findings()...), count(seen, "HCA port") + " at full PCIe width", ""
}

func pcieFault(which string) fault {
	return fault{verdict: Warn, what: "has HCAs with a degraded PCIe link", which: which, remedy: "reseat the card on HOST, then power it off and on (needs root; stops other jobs on HOST)"}
}

func bump[T comparable](counts map[string]map[T]int, key string, value T) {
	if counts[key] == nil {
		counts[key] = map[T]int{}
	}
	counts[key][value]++
}

// slower compares speeds as sysfs writes them: "16.0 GT/s PCIe".
func slower(a, b string) bool {
	var x, y float64
	if _, err := fmt.Sscanf(a, "%g GT/s", &x); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(b, "%g GT/s", &y); err != nil {
		return false
	}
	return x < y
}

const explainRDMAKernel = `The drivers of HCAs write some faults only into the kernel's log: a slot that gives too little power, a transceiver that is too hot, a PCIe link with less bandwidth than the card could use; so does nvidia_peermem. ` +
	`Lines since the last start of the host are looked at. ` +
	`Limited PCIe bandwidth is told only where most hosts do not have it, as some slots are narrow by design; of one or two hosts it is mentioned. ` +
	`Too little power and overheating slow or stop a port without any other sign: look at fans, cables and the slot.`

func checkRDMAKernel(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	known := slices.DeleteFunc(slices.Clone(f.hosts), func(i int) bool { return v.lacks(i, facts.ItemKernel) })
	if len(known) == 0 {
		return f.unknown, "", emptySkip(f.unknown, noKernelLog)
	}
	limited := 0
	for _, i := range known {
		if len(f.kernelLines(i, pcieLimited)) > 0 {
			limited++
		}
	}
	t, narrow := v.tally(), Warn
	if len(known) < 3 {
		narrow = Info
	}
	for _, i := range known {
		t.addLines(i, linesWith(v.Hosts[i].Facts.Kernel.Lines, "detected invalid context"), fault{verdict: Warn, what: "has had errors of nvidia_peermem", remedy: "use a GPU driver and nvidia_peermem of one version on HOST, or DMA-BUF"})
		t.addLines(i, f.kernelLines(i, "insufficient power"), fault{verdict: Warn, what: "has HCAs whose slot gives too little power", remedy: "look at the power cables of the card and at the slot on HOST"})
		t.addLines(i, f.kernelLines(i, "high temperature"), fault{verdict: Warn, what: "has HCA ports that are too hot", remedy: "look at the fans and transceivers of HOST"})
		if 2*limited <= len(known) || len(known) < 3 {
			t.addLines(i, f.kernelLines(i, pcieLimited), fault{verdict: narrow, what: "has HCAs with limited PCIe bandwidth", remedy: "reseat the card on HOST, then power it off and on (needs root; stops other jobs on HOST)"})
		}
	}
	return append(f.unknown, t.findings()...), "no complaints since the last start", ""
}

const pcieLimited = "limited by"

// kernelLines lists the lines of host i's kernel log that say what of an
// HCA in use.
func (f fabric) kernelLines(i int, what string) []string {
	var lines []string
	for _, line := range linesWith(f.Hosts[i].Facts.Kernel.Lines, what) {
		for _, r := range f.rails(i) {
			if r.hca.BDF != "" && strings.Contains(line, r.hca.BDF) {
				lines = append(lines, line)
				break
			}
		}
	}
	return lines
}

// linesWith are the lines that have what in them, which is in lower case.
func linesWith(lines []string, what string) []string {
	var with []string
	for _, line := range lines {
		if strings.Contains(strings.ToLower(line), what) {
			with = append(with, line)
		}
	}
	return with
}

// addLines adds a fault with lines as its evidence, if there are any.
func (t *tally) addLines(host int, lines []string, x fault) {
	if len(lines) > 0 {
		x.evidence = lines
		t.add(host, x)
	}
}

const explainRDMACounters = `Error counters of HCA ports are read twice, some seconds apart, while gorun measures the network. ` +
	`Only growth means something: the old counters stop at 255, and count since the host was started. ` +
	`A link that went down in that time (link_downed) excludes the host; bit errors (symbol_error, port_rcv_errors), recoveries and retransmissions are a warning, as a few come with congestion. ` +
	`Clean or replace the cable or transceiver of that port, or look at congestion control if only retransmissions grow. ` +
	`Counters that gave an error once are not read again, because that fills the kernel's log on some HCAs.`

// errorCounters are the counters whose growth is told.
var errorCounters = []string{
	"link_downed", "link_error_recovery", "symbol_error", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
	"port_rcv_errors", "port_rcv_remote_physical_errors", "port_xmit_discards", "out_of_sequence", "packet_seq_err",
	"implied_nak_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "retry_exceeded_err", "roce_slow_restart", "roce_adp_retrans_to",
}

func checkRDMACounters(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	t := v.tally()
	f.eachRail(func(i int, r rail) {
		var grown []string
		verdict := Warn
		for _, name := range errorCounters {
			if n := r.port.Delta[name]; n > 0 {
				grown = append(grown, fmt.Sprintf("%s +%d", name, n))
			}
		}
		if r.port.Delta["link_downed"] > 0 {
			verdict = v.rdmaVerdict(NoHost)
		}
		if len(grown) > 0 {
			t.add(i, fault{verdict: verdict, what: "has HCA ports with errors while gorun looked", which: r.name() + ": " + strings.Join(grown, ", "), remedy: "clean or replace the cable of that port on HOST"})
		}
	})
	return append(f.unknown, t.findings()...), "no error counter grew", ""
}
