package preflight

import (
	"slices"
	"testing"
	"time"

	"gorun/preflight/facts/factstest"
)

// slow makes links from i to j take longer and carry less; -1 stands for all.
func slow(in *Input, i, j int, latency time.Duration, part float64) {
	for from := range in.Hosts {
		for k := range in.Hosts[from].Links {
			l := &in.Hosts[from].Links[k]
			if (i < 0 || i == from) && (j < 0 || j == l.Host) {
				l.Latency += latency
				l.BytesPerSecond *= part
			}
		}
	}
}

func speedFirings() []firing {
	full := func(wreck func(in *Input)) func(in *Input) { return func(in *Input) { linked(in); wreck(in) } }
	return []firing{
		{check: "latency", name: "slow-host", wreck: full(func(in *Input) { slow(in, 1, -1, 2*time.Millisecond, 1); slow(in, -1, 1, 2*time.Millisecond, 1) }),
			verdict: Warn, blamed: "gpu02", title: "2.044ms with 3 of 3 partners, both ways"},
		{check: "latency", name: "slow-link", hosts: 6, wreck: full(func(in *Input) { slow(in, 1, 3, 2*time.Millisecond, 1) }), verdict: Warn, blamed: "gpu02 gpu04",
			title: "1 way between hosts", evidence: "gpu02 -> gpu04: 2.04"},
		{check: "latency", name: "noise", wreck: full(func(in *Input) { slow(in, 1, -1, 90*time.Microsecond, 1) })},
		{check: "latency", name: "two-hosts", hosts: 2, wreck: full(func(in *Input) { slow(in, 1, -1, time.Second, 1) })},
		{check: "latency", name: "two-racks", hosts: 8, wreck: full(func(in *Input) {
			for i := range 5 {
				for j := 5; j < 8; j++ {
					slow(in, i, j, time.Millisecond, 1)
					slow(in, j, i, time.Millisecond, 1)
				}
			}
		}), verdict: Warn, blamed: "gpu06 gpu07 gpu08"},
		{check: "bandwidth", name: "slow-host-out", hosts: 5, wreck: full(func(in *Input) { slow(in, 2, -1, 0, 0.1) }),
			verdict: Warn, blamed: "gpu03", title: "gpu03 is slow in the network: 294 MB/s with 4 of 4 partners, on the way out"},
		{check: "bandwidth", name: "slow-link", hosts: 6, wreck: full(func(in *Input) { slow(in, 1, 3, 0, 0.1) }), verdict: Warn, blamed: "gpu02 gpu04", evidence: "MB/s"},
		{check: "bandwidth", name: "limit", hosts: 5, wreck: full(func(in *Input) { slow(in, 2, -1, 0, 0.4); in.Limits.Bandwidth = 0.3 })},
		{check: "bandwidth", name: "slow-network", wreck: full(func(in *Input) { slow(in, -1, -1, 0, 0.001); slow(in, 1, -1, 0, 0.1) })},
	}
}

func TestSpeedChecksFire(t *testing.T) {
	rows := slices.Concat(speedFirings(), rdmaSpeedFirings(), memorySpeedFirings())
	runFirings(t, rows)
	checkTables(t, "speed", rows)
}

func TestSpeedIsNotJudgedByQuick(t *testing.T) {
	in := cluster(factstest.Plain, 4)
	linked(&in)
	in.Mode = Quick
	for _, c := range Judge(in).Checks {
		if c.Area == "speed" || c.ID == "rdma-counters" {
			t.Errorf("%s ran", c.ID)
		}
	}
}
