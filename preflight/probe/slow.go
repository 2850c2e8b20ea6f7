package probe

import (
	"slices"
	"time"
)

// Limits say what is slow, compared with what is typical for the job. Both the factor and
// the floor must be passed: the factor alone would judge noise, the floor alone big jobs.
type Limits struct {
	LatencyFactor   float64       // slow: so many times the typical round trip
	LatencyFloor    time.Duration // and longer by so much
	BandwidthFactor float64       // slow: the typical bandwidth is so many times it
	BandwidthFloor  float64       // and higher by so many bytes per second
}

// DefaultLimits returns limits that the way through more switches keeps on a sound
// network: three times the typical round trip and 100 µs more, half the typical
// bandwidth and 20 MB/s less.
func DefaultLimits() Limits {
	return Limits{LatencyFactor: 3, LatencyFloor: 100 * time.Microsecond, BandwidthFactor: 2, BandwidthFloor: 20e6}
}

// Slowness is what Slow finds for latency or for bandwidth. All values are nanoseconds,
// or bytes per second.
type Slowness struct {
	Typical float64 // the median of all hosts' medians; 0 if too little is known
	Hosts   []SlowHost
	Links   []SlowLink // those that are not explained by a slow host
	// Divided: so many hosts are slow that there is no majority to compare with. Then no
	// host is blamed, and Links has all slow links.
	Divided bool
}

// SlowHost is a host that is slow with at least two others and with more than half of
// those that it was measured with.
type SlowHost struct {
	Host     int
	Partners int     // how many others it was measured with
	Slow     int     // how many of them it is slow with
	Outgoing int     // of those, how many are slow in the direction from it
	Incoming int     // and how many in the direction to it
	Median   float64 // over its slow directions
}

// SlowLink is one slow direction of one link.
type SlowLink struct {
	From, To int
	Value    float64
}

// Slow tells slow hosts from slow links, by latency and by bandwidth. It needs at least
// three hosts, as of two nobody knows which one it is, and then blames only a minority:
// where most measurements are slow, that is what is typical.
func Slow(m Matrix, limits Limits) (latency, bandwidth Slowness) {
	slow := func(value, typical float64) bool {
		return value > typical*limits.LatencyFactor && value > typical+float64(limits.LatencyFloor)
	}
	latency = judge(len(m.Latency), collect(m.Latency), true, slow)
	slow = func(value, typical float64) bool {
		return value*limits.BandwidthFactor < typical && value < typical-limits.BandwidthFloor
	}
	return latency, judge(len(m.BytesPerSecond), collect(m.BytesPerSecond), false, slow)
}

// collect returns the values that are known.
func collect[T time.Duration | float64](rows [][]T) []SlowLink {
	var links []SlowLink
	for i, row := range rows {
		for j, v := range row {
			if v > 0 && i != j && j < len(rows) {
				links = append(links, SlowLink{i, j, float64(v)})
			}
		}
	}
	return links
}

// judge finds what is slow among n hosts' links. low: the lower values are the better ones.
func judge(n int, links []SlowLink, low bool, slow func(value, typical float64) bool) Slowness {
	t, hosts := typical(n, links, low)
	if hosts < 3 {
		return Slowness{}
	}
	s := Slowness{Typical: t}
	var bad []SlowLink
	for _, l := range links {
		if slow(l.Value, t) {
			bad = append(bad, l)
		}
	}
	measured, slowWith := partnersOf(n, links), partnersOf(n, bad)
	guilty := blame(measured, slowWith)
	if s.Divided = 2*len(guilty) >= hosts; s.Divided {
		guilty = nil
	}
	for _, host := range guilty {
		s.Hosts = append(s.Hosts, describe(host, len(measured[host]), len(slowWith[host]), bad))
	}
	for _, l := range bad {
		if !slices.Contains(guilty, l.From) && !slices.Contains(guilty, l.To) {
			s.Links = append(s.Links, l)
		}
	}
	return s
}

// typical returns the median, over all hosts, of each host's median, and how many hosts
// have any link. Of two medians it takes the better one: with three or four hosts half
// of all links are slow if one host is, but most hosts have a good half still.
func typical(n int, links []SlowLink, low bool) (value float64, hosts int) {
	of := make([][]float64, n)
	for _, l := range links {
		of[l.From] = append(of[l.From], l.Value)
		of[l.To] = append(of[l.To], l.Value)
	}
	var medians []float64
	for _, values := range of {
		if len(values) > 0 {
			medians = append(medians, betterMedian(values, low))
		}
	}
	if len(medians) == 0 {
		return 0, 0
	}
	return betterMedian(medians, low), len(medians)
}

// betterMedian sorts values and returns the median, the better one if there are two.
func betterMedian(values []float64, low bool) float64 {
	slices.Sort(values)
	if low {
		return values[(len(values)-1)/2]
	}
	return values[len(values)/2]
}

// partnersOf returns the others that each of n hosts has a link with, either way.
func partnersOf(n int, links []SlowLink) [][]int {
	partners, seen := make([][]int, n), make([]bool, n*n)
	for _, l := range links {
		if seen[l.From*n+l.To] {
			continue
		}
		seen[l.From*n+l.To], seen[l.To*n+l.From] = true, true
		partners[l.From] = append(partners[l.From], l.To)
		partners[l.To] = append(partners[l.To], l.From)
	}
	return partners
}

// blame returns the hosts that are slow, in order: again and again the one that is slow
// with the largest part of those that are not blamed yet, so that a host is not blamed
// for being slow with slow ones.
func blame(measured, slow [][]int) (guilty []int) {
	// How many partners of each host are not blamed.
	of, n := make([]int, len(measured)), make([]int, len(slow))
	for host := range of {
		of[host], n[host] = len(measured[host]), len(slow[host])
	}
	for {
		worst := -1
		for host := range n {
			if n[host] < 2 || 2*n[host] <= of[host] || slices.Contains(guilty, host) {
				continue
			}
			if worst < 0 || isWorse(n[host], of[host], n[worst], of[worst]) {
				worst = host
			}
		}
		if worst < 0 {
			slices.Sort(guilty)
			return guilty
		}
		guilty = append(guilty, worst)
		for _, partner := range measured[worst] {
			of[partner]--
		}
		for _, partner := range slow[worst] {
			n[partner]--
		}
	}
}

// isWorse reports whether n of all is a larger part than m of whole, or the same of more.
func isWorse(n, all, m, whole int) bool {
	if n*whole != m*all {
		return n*whole > m*all
	}
	return n > m
}

// describe counts a slow host's slow links.
func describe(host, partners, slow int, bad []SlowLink) SlowHost {
	h := SlowHost{Host: host, Partners: partners, Slow: slow}
	var values []float64
	for _, l := range bad {
		switch host {
		case l.From:
			h.Outgoing++
		case l.To:
			h.Incoming++
		default:
			continue
		}
		values = append(values, l.Value)
	}
	h.Median = betterMedian(values, true)
	return h
}
