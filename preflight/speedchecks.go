package preflight

import (
	"fmt"
	"time"

	"gorun/preflight/probe"
)

// speedChecks are those of area "speed".
func speedChecks() []Check {
	return []Check{
		{ID: "latency", Area: "speed", Title: "no host and no link answers slower than most", Explain: explainLatency, run: checkLatency, Full: true},
		{ID: "bandwidth", Area: "speed", Title: "no host and no link carries less than most", Explain: explainBandwidth, run: checkBandwidth, Full: true},
		{ID: "rdma-speed", Area: "speed", Title: "no rail is slower by RDMA than most", Explain: explainRDMASpeed, run: checkRDMASpeed, Full: true},
		{ID: "memory-speed", Area: "speed", Title: "no host copies memory slower than most", Explain: explainMemorySpeed, run: checkMemorySpeed, Full: true},
	}
}

const explainLatency = `Each host times round trips to every other over TCP, in rounds in which no host has two partners; the shortest of a pair counts. ` +
	`The typical round trip is the median of all hosts' medians. A way is slow if it takes more than three times that (preflight.slow-latency), and at least 100 µs more, so that noise is not judged. ` +
	`A host is slow if it is so with two partners at least and with more than half of them; ways that no slow host explains are told as slow links. ` +
	`At least three hosts are needed, and only a minority is named. ` +
	`Look for load, power saving and a wrong path on a slow host, and at the switch between the hosts of a slow link.`

func checkLatency(v *view) (found []Finding, good, skip string) {
	m := v.measured()
	m.BytesPerSecond = nil
	s, _ := probe.Slow(m, v.slowLimits())
	if s.Typical == 0 {
		return nil, "", "fewer than three hosts have timed round trips"
	}
	tell := func(value float64) string { return time.Duration(value).Round(time.Microsecond).String() }
	found = v.slowness(s, slowWords{"answers slowly", "round trips", tell, "look for load, power saving (cpupower frequency-info) and the network path of HOST"})
	return found, fmt.Sprintf("round trips of %s", tell(s.Typical)), ""
}

const explainBandwidth = `Each host streams to every other over one TCP connection, in rounds in which no host has two partners. ` +
	`The typical bandwidth is the median of all hosts' medians. A way is slow if it carries less than half of that (preflight.slow-bandwidth), and at least 20 MB/s less. ` +
	`A host is slow if it is so with two partners at least and with more than half of them; ways that no slow host explains are told as slow links. ` +
	`At least three hosts are needed, and only a minority is named. ` +
	`It says nothing of RDMA, which rdma-speed is about. ` +
	`Look at the speed of the interface (ethtool DEVICE), at its error counters, and at the switch's port.`

func checkBandwidth(v *view) (found []Finding, good, skip string) {
	m := v.measured()
	m.Latency = nil
	_, s := probe.Slow(m, v.slowLimits())
	if s.Typical == 0 {
		return nil, "", "fewer than three hosts have measured bandwidth"
	}
	tell := func(value float64) string { return fmt.Sprintf("%.0f MB/s", value/1e6) }
	found = v.slowness(s, slowWords{"is slow in the network", "streams", tell, "look at the interface of HOST (ethtool DEVICE, ip -s link) and its switch's port"})
	return found, fmt.Sprintf("%s typical of one connection", tell(s.Typical)), ""
}

// measured is what all hosts have measured.
func (v *view) measured() probe.Matrix {
	var results []probe.Result
	for _, i := range v.reached {
		results = append(results, probe.Result{From: i, Links: v.Hosts[i].Links})
	}
	return probe.Gather(len(v.Hosts), results)
}

func (v *view) slowLimits() probe.Limits {
	l := probe.DefaultLimits()
	l.LatencyFactor = v.Limits.Slow
	if v.Limits.Bandwidth > 0 {
		l.BandwidthFactor = 1 / v.Limits.Bandwidth
	}
	return l
}

// slowWords are how slowness is told.
type slowWords struct {
	what, of string
	tell     func(float64) string
	remedy   string
}

// slowness makes findings of slow hosts, of slow links, and of a job without a majority.
func (v *view) slowness(s probe.Slowness, words slowWords) []Finding {
	typical := words.tell(s.Typical)
	t := v.tally()
	for _, h := range s.Hosts {
		way := "both ways"
		switch {
		case h.Incoming == 0:
			way = "on the way out"
		case h.Outgoing == 0:
			way = "on the way in"
		}
		t.add(h.Host, fault{
			verdict: Warn, what: words.what, which: fmt.Sprintf("%s with %d of %d partners, %s, typical %s", words.tell(h.Median), h.Slow, h.Partners, way, typical),
			remedy: words.remedy,
		})
	}
	found := t.findings()
	if len(s.Links) == 0 {
		return found
	}
	verdict, title := Warn, fmt.Sprintf("%s between hosts that are slow by themselves: %s typical", count(len(s.Links), "way"), typical)
	if s.Divided {
		title = "hosts are in parts between which " + words.of + " are slow"
	}
	hosts, lines := v.slowLinks(s.Links, words.tell)
	return append(found, v.finding(verdict, hosts, title, "look at the switches between these hosts", lines))
}

// slowLinks lists the hosts at both ends, and a line for each link.
func (v *view) slowLinks(links []probe.SlowLink, tell func(float64) string) (hosts []int, lines []string) {
	at := make([]bool, len(v.Hosts))
	for k, l := range links {
		at[l.From], at[l.To] = true, true
		if k < mostWays {
			lines = append(lines, fmt.Sprintf("%s -> %s: %s", v.Hosts[l.From].Name, v.Hosts[l.To].Name, tell(l.Value)))
		} else if k == mostWays {
			lines = append(lines, fmt.Sprintf("and %d more", len(links)-k))
		}
	}
	for i, is := range at {
		if is {
			hosts = append(hosts, i)
		}
	}
	return hosts, lines
}
