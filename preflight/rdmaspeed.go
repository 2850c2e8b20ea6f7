package preflight

import (
	"fmt"
	"slices"
	"time"
)

const explainRDMASpeed = `Where perftest is installed, ib_write_bw sends messages of 1 MiB for a second from each HCA port to that of the next host, on all rails of a host at once, and ib_write_lat then times a thousand small ones. ` +
	`Rails between ports of one rate are compared with each other, at least three of them. ` +
	`A rail is slow if it carries less than half of the median (preflight.slow-bandwidth), or takes more than three times the median (preflight.slow-latency) and 5 µs more. ` +
	`A port that is slow with both of its partners is told as its host's; other rails are told by both ends. ` +
	`Nothing is compared with the rate that a port claims. ` +
	`Look at the PCIe width and speed of a slow HCA, at its error counters, its cable, and at other jobs on the network.`

// railFloor is how much longer than typical a slow rail takes at least.
const railFloor = 5 * time.Microsecond

func checkRDMASpeed(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	switch {
	case len(v.Hosts) < 2:
		return nil, "", "the job has one host"
	case skip != "":
		return nil, "", skip
	}
	var kinds []railKind
	for _, w := range f.railWays() {
		if w.link.Failure == "" && w.link.BytesPerSecond > 0 {
			kinds = f.addToKind(kinds, w)
		}
	}
	compared := 0
	for _, k := range kinds {
		if len(k.ways) < 3 {
			continue
		}
		compared += len(k.ways)
		band, lat := k.medians()
		if good == "" {
			good = fmt.Sprintf("%s and %v typical of a rail", gigabits(band), lat)
		}
		found = append(found, f.slowRails(k.ways, "has HCA ports that carry less than most by RDMA", func(w railWay) (string, bool) {
			b := w.link.BytesPerSecond
			return fmt.Sprintf("%s, typical %s", gigabits(b), gigabits(band)), b < v.Limits.Bandwidth*band
		})...)
		found = append(found, f.slowRails(k.ways, "has HCA ports that answer slower than most by RDMA", func(w railWay) (string, bool) {
			d := w.link.Latency
			return fmt.Sprintf("%v, typical %v", d, lat), lat > 0 && d > lat+railFloor && float64(d) > v.Limits.Slow*float64(lat)
		})...)
	}
	if compared == 0 {
		if lack := f.withoutPerftest(); lack != "" {
			return nil, "", lack
		}
		return nil, "", "fewer than three rails have been measured"
	}
	return found, good, ""
}

func gigabits(bytesPerSecond float64) string { return fmt.Sprintf("%.4g Gb/s", bytesPerSecond*8/1e9) }

// railKind is rails between ports of one rate.
type railKind struct {
	rate float64
	ways []railWay
}

func (f fabric) addToKind(kinds []railKind, w railWay) []railKind {
	rate := min(f.rateAt(w.from, w.link.Place), f.rateAt(w.to, w.link.Place))
	k := slices.IndexFunc(kinds, func(k railKind) bool { return k.rate == rate })
	if k < 0 {
		k = len(kinds)
		kinds = append(kinds, railKind{rate: rate})
	}
	kinds[k].ways = append(kinds[k].ways, w)
	return kinds
}

// rateAt is the rate of the rail at a place; 0: it is not known.
func (f fabric) rateAt(host, place int) float64 {
	if all := f.rails(host); place >= 0 && place < len(all) {
		return all[place].port.Rate
	}
	return 0
}

// medians are those of bandwidth, and of latency as far as it is known.
func (k railKind) medians() (bytesPerSecond float64, latency time.Duration) {
	var band []float64
	var lat []time.Duration
	for _, w := range k.ways {
		band = append(band, w.link.BytesPerSecond)
		if w.link.Latency > 0 {
			lat = append(lat, w.link.Latency)
		}
	}
	slices.Sort(band)
	slices.Sort(lat)
	if len(lat) >= 3 {
		latency = lat[(len(lat)-1)/2]
	}
	return band[len(band)/2], latency
}

// slowRails finds ports that are slow, and rails that no port explains.
func (f fabric) slowRails(all []railWay, what string, slow func(railWay) (text string, is bool)) []Finding {
	const remedy = "look at the PCIe link of the HCA (lspci -vv), its counters, its cable and its switch port, and at other traffic"
	is := func(w railWay) bool { _, is := slow(w); return is }
	t := f.tally()
	var rest []railWay
	for _, ways := range byPlace(all) {
		b := blameRails(ways, is)
		for k, i := range b.hosts {
			x := fault{verdict: Warn, what: what, which: b.ways[k][0].device(i), remedy: remedy}
			for _, w := range b.ways[k] {
				text, _ := slow(w)
				x.evidence = append(x.evidence, f.tellRail(w, text))
			}
			t.add(i, x)
		}
		rest = append(rest, b.rest...)
	}
	found := t.findings()
	if len(rest) == 0 {
		return found
	}
	var lines []string
	for _, w := range rest {
		text, _ := slow(w)
		lines = append(lines, f.tellRail(w, text))
	}
	title := fmt.Sprintf("%s between hosts: slow by RDMA", count(len(rest), "rail"))
	return append(found, f.finding(Warn, endsOf(rest), title, remedy, cut(lines)))
}
