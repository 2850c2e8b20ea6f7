package preflight

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
	"gorun/preflight/probe"
)

// carried adds what hosts find by RDMA where all is well.
func carried(in *Input) {
	for _, round := range PlanTraffic(*in) {
		for _, x := range round {
			for _, r := range x.Rails {
				noise := (x.From*7 + r.Place*3) % 10
				in.Hosts[x.From].Rails = append(in.Hosts[x.From].Rails, probe.RailLink{
					Host: x.To, Place: r.Place, From: r.From.Device, To: r.To.Device,
					BytesPerSecond: 48e9 + 5e7*float64(noise), Latency: 1100 + time.Duration(10*noise),
				})
			}
		}
	}
}

// rails calls f for the rails at a place (-1: all) from one host to the next, and to it
// from the one before, as both says.
func rails(host, place int, both bool, f func(*probe.RailLink)) func(in *Input) {
	return func(in *Input) {
		for i := range in.Hosts {
			for k := range in.Hosts[i].Rails {
				l := &in.Hosts[i].Rails[k]
				if (i == host || both && l.Host == host) && (place < 0 || l.Place == place) {
					f(l)
				}
			}
		}
	}
}

func fails(kind probe.Failure, text string) func(*probe.RailLink) {
	return func(l *probe.RailLink) {
		*l = probe.RailLink{Host: l.Host, Place: l.Place, From: l.From, To: l.To, Failure: kind, Text: text}
	}
}

func weak(part float64, longer time.Duration) func(*probe.RailLink) {
	return func(l *probe.RailLink) { l.BytesPerSecond *= part; l.Latency += longer }
}

func steps(all ...func(in *Input)) func(in *Input) {
	return func(in *Input) {
		for _, f := range all {
			f(in)
		}
	}
}

func noPerftest(h *Host) { h.Facts.RDMA.Perftest = "" }

func rdmaTrafficFirings() []firing {
	lost := fails(probe.Lost, "ib_write_bw: Completion with error at client")
	there := func(l *probe.RailLink) {
		fails(probe.Device, "ib_write_bw: Couldn't allocate MR")(l)
		l.There = true
	}
	return []firing{
		{check: "rdma-traffic", name: "well", wreck: carried},
		{check: "rdma-traffic", name: "port-dead", wreck: steps(carried, rails(1, 3, true, lost)), verdict: NoHost, blamed: "gpu02",
			title: "gpu02 has HCA ports that no RDMA comes through: mlx5_3", evidence: "gpu01 mlx5_3 -> gpu02 mlx5_3: ib_write_bw: Completion", remedy: "ib_write_bw -d DEVICE"},
		{check: "rdma-traffic", name: "host-dead", wreck: steps(carried, rails(1, -1, true, lost)), verdict: NoHost, blamed: "gpu02", title: "gpu02 has HCA ports that no RDMA comes through"},
		{check: "rdma-traffic", name: "two-ports-of-three", hosts: 6, wreck: steps(carried, rails(1, 0, true, lost), rails(3, 0, true, lost)), verdict: NoHost, blamed: "gpu02 gpu04"},
		{check: "rdma-traffic", name: "neighbours", hosts: 7, wreck: steps(carried, rails(1, 0, true, lost), rails(2, 0, true, lost)), verdict: NoHost, blamed: "gpu02 gpu03"},
		{check: "rdma-traffic", name: "three-hosts", hosts: 3, wreck: steps(carried, rails(2, 5, true, lost)), verdict: NoHost, blamed: "gpu03"},
		{check: "rdma-traffic", name: "one-way", wreck: steps(carried, rails(1, 3, false, lost)), verdict: NoCluster, blamed: "gpu02 gpu03",
			title: "RDMA does not come through on 1 rail between hosts: gpu[02-03]", remedy: "--exclude gpu02, or --exclude gpu03"},
		{check: "rdma-traffic", name: "two-hosts", hosts: 2, wreck: steps(carried, rails(1, 3, true, lost)), verdict: NoCluster, blamed: "gpu01 gpu02", title: "on 2 rails between hosts"},
		{check: "rdma-traffic", name: "nothing", wreck: steps(carried, rails(0, -1, true, lost), rails(2, -1, true, lost)), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04",
			title: "RDMA does not come through on most rails between hosts: 32 of 32"},
		{check: "rdma-traffic", name: "no-gpus", wreck: steps(carried, rails(1, 3, true, lost), func(in *Input) { in.Job.GPU = false }), verdict: Warn, blamed: "gpu02"},
		{check: "rdma-traffic", name: "device-there", wreck: steps(carried, rails(0, -1, false, there)), verdict: NoHost, blamed: "gpu02",
			title: "gpu02 has HCAs that a program cannot use", evidence: "mlx5_0: ib_write_bw: Couldn't allocate MR", remedy: "on gpu02"},
		{check: "rdma-traffic", name: "device-here", wreck: steps(carried, rails(0, 2, false, fails(probe.Device, "ib_write_bw: Couldn't allocate MR"))), verdict: NoHost, blamed: "gpu01", title: "mlx5_2"},
		{check: "rdma-traffic", name: "not-tried", wreck: steps(carried, rails(0, 2, false, fails(probe.Other, "ib_write_bw: Couldn't connect to 10.0.0.2:4711"))),
			verdict: Unknown, blamed: "gpu01", title: "gpu01 could not try RDMA on all rails", evidence: "10.0.0.2:4711"},
		{check: "rdma-traffic", name: "one-without-perftest", wreck: steps(on(1, noPerftest), carried)},
		{check: "rdma-traffic", name: "no-program-after-all", wreck: steps(carried, rails(0, -1, false, fails(probe.NoProgram, "ib_write_bw is not installed")))},
		{check: "rdma-traffic", name: "roce", build: factstest.RoCE, wreck: steps(carried, rails(1, 3, true, lost)), verdict: NoHost, blamed: "gpu02"},
		{check: "rdma-traffic", name: "nonsense", wreck: steps(carried, on(1, func(h *Host) {
			h.Rails = append(h.Rails, probe.RailLink{Host: 99}, probe.RailLink{Host: -1, Failure: probe.Lost}, probe.RailLink{Host: 1, Failure: probe.Lost})
		}))},
	}
}

func rdmaSpeedFirings() []firing {
	return []firing{
		{check: "rdma-speed", name: "well", wreck: carried},
		{check: "rdma-speed", name: "slow-port", wreck: steps(carried, rails(1, 3, true, weak(0.3, 0))), verdict: Warn, blamed: "gpu02",
			title: "gpu02 has HCA ports that carry less than most by RDMA: mlx5_3", evidence: "Gb/s, typical 38", remedy: "lspci -vv"},
		{check: "rdma-speed", name: "slow-rail", wreck: steps(carried, rails(1, 3, false, weak(0.3, 0))), verdict: Warn, blamed: "gpu02 gpu03", title: "1 rail between hosts: slow by RDMA"},
		{check: "rdma-speed", name: "late-port", wreck: steps(carried, rails(1, 3, true, weak(1, 20*time.Microsecond))), verdict: Warn, blamed: "gpu02", title: "answer slower", evidence: "typical 1.1"},
		{check: "rdma-speed", name: "noise", wreck: steps(carried, rails(1, 3, true, weak(0.7, 4*time.Microsecond)))},
		{check: "rdma-speed", name: "limit", wreck: steps(carried, rails(1, 3, true, weak(0.3, 0)), func(in *Input) { in.Limits.Bandwidth = 0.2 })},
		{check: "rdma-speed", name: "mixed-rates", wreck: steps(all(port(7, func(p *facts.Port) { p.Rate = 100 })), carried, rails(0, 7, true, weak(0.25, 0)), rails(2, 7, true, weak(0.25, 0)))},
	}
}

func memorySpeedFirings() []firing {
	one := func(part float64) func(h *Host) { return func(h *Host) { h.Facts.System.CopyOne *= part } }
	every := func(part float64) func(h *Host) { return func(h *Host) { h.Facts.System.CopyAll *= part } }
	return []firing{
		{check: "memory-speed", name: "one-core", wreck: on(1, one(0.3)), verdict: Warn, blamed: "gpu02", title: "gpu02 copies memory slower than most hosts with one core: 3.6 GB/s, typical 12 GB/s"},
		{check: "memory-speed", name: "all-cores", wreck: on(1, every(0.3)), verdict: Warn, blamed: "gpu02", title: "gpu02 copies memory slower than most hosts with all cores: 86.4 GB/s, typical 288 GB/s"},
		{check: "memory-speed", name: "two-of-five", hosts: 5, wreck: steps(on(1, one(0.3)), on(2, one(0.2))), verdict: Warn, blamed: "gpu02 gpu03", title: "gpu[02-03] copy memory slower"},
		{check: "memory-speed", name: "noise", wreck: on(1, one(0.6))},
		{check: "memory-speed", name: "limit", wreck: steps(on(1, one(0.3)), func(in *Input) { in.Limits.Bandwidth = 0.2 })},
		{check: "memory-speed", name: "two-hosts", hosts: 2, wreck: on(1, one(0.01))},
		{check: "memory-speed", name: "unknown", wreck: unknownOn(1, facts.ItemCopyRate)}, // it is slow, or others kept it busy
		{check: "memory-speed", name: "old-facts", wreck: all(both(one(0), every(0)))},
	}
}

func TestRDMATrafficChecksFire(t *testing.T) {
	runFirings(t, rdmaTrafficFirings())
}

func textOf(r Report, id string) string {
	for _, c := range r.Checks {
		if c.ID == id {
			return string(c.Verdict) + ": " + c.Text
		}
	}
	return "no such check"
}

func TestRDMATrafficTexts(t *testing.T) {
	tests := []struct {
		name  string
		build builder
		hosts int
		wreck func(in *Input)
		id    string
		want  string
	}{
		{"well", factstest.H100, 4, carried, "rdma-traffic", "ok: 32 rails between hosts carried data"},
		{"speed", factstest.H100, 4, carried, "rdma-speed", "ok: 386 Gb/s and 1.14µs typical of a rail"},
		{"one-lacks", factstest.H100, 4, steps(on(1, noPerftest), carried), "rdma-traffic", "ok: 24 rails between hosts carried data; perftest is not installed on gpu02"},
		{"all-lack", factstest.H100, 2, steps(all(noPerftest), carried), "rdma-traffic", "skipped: perftest is not installed on gpu[01-02]"},
		{"all-lack-speed", factstest.H100, 2, steps(all(noPerftest), carried), "rdma-speed", "skipped: perftest is not installed on gpu[01-02]"},
		{"memory", factstest.H100, 4, carried, "memory-speed", "ok: 12 GB/s with one core, 288 GB/s with all cores"},
		{"not-tried", factstest.H100, 2, func(*Input) {}, "rdma-traffic", "skipped: no RDMA traffic was tried"},
		{"one-host", factstest.H100, 1, carried, "rdma-traffic", "skipped: the job has one host"},
		{"no-hca", factstest.Plain, 2, carried, "rdma-traffic", "skipped: no host has an InfiniBand or RoCE device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := cluster(tt.build, tt.hosts)
			tt.wreck(&in)
			if got := textOf(Judge(in), tt.id); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestPlanTraffic(t *testing.T) {
	tests := []struct {
		name  string
		hosts int
		build builder
		wreck func(in *Input)
		want  string
	}{
		{"one", 1, factstest.H100, func(*Input) {}, ""},
		{"two", 2, factstest.H100, func(*Input) {}, "0>1 | 1>0"},
		{"three", 3, factstest.H100, func(*Input) {}, "0>1 | 1>2 | 2>0"},
		{"four", 4, factstest.H100, func(*Input) {}, "0>1 2>3 | 1>2 3>0"},
		{"five", 5, factstest.H100, func(*Input) {}, "0>1 2>3 | 1>2 3>4 | 4>0"},
		{"without-perftest", 4, factstest.H100, on(2, noPerftest), "0>1 | 1>3 | 3>0"},
		{"hca-missing", 4, factstest.H100, on(2, loseHCA(0)), "0>1 | 1>3 | 3>0"},
		{"unreached", 4, factstest.H100, on(0, func(h *Host) { h.Unreached, h.Facts = "gone", facts.Host{} }), "1>2 | 2>3 | 3>1"},
		{"plain", 4, factstest.Plain, func(*Input) {}, ""},
		{"off", 4, factstest.H100, all(set("NCCL_IB_DISABLE", "1")), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := cluster(tt.build, tt.hosts)
			tt.wreck(&in)
			var rounds []string
			for _, round := range PlanTraffic(in) {
				var pairs []string
				for _, x := range round {
					pairs = append(pairs, fmt.Sprintf("%d>%d", x.From, x.To))
					if len(x.Rails) != 8 {
						t.Errorf("%d>%d: got %d rails; want 8", x.From, x.To, len(x.Rails))
					}
				}
				rounds = append(rounds, strings.Join(pairs, " "))
			}
			if got := strings.Join(rounds, " | "); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestPlanTrafficUsesWhatNCCLWould(t *testing.T) {
	in := cluster(factstest.RoCE, 2)
	all(func(h *Host) {
		h.Settings = map[string]string{"NCCL_IB_HCA": "=mlx5_3", "NCCL_IB_SL": "3", "NCCL_IB_TC": "106"}
	})(&in)
	in.Hosts[1].Settings["NCCL_IB_GID_INDEX"] = "5"
	got := PlanTraffic(in)[0][0].Rails
	want := probe.Rail{
		From: probe.RailPort{Device: "mlx5_3", Port: 1, GID: 3, SL: 3, TClass: 106},
		To:   probe.RailPort{Device: "mlx5_3", Port: 1, GID: 5, SL: 3, TClass: 106},
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	in = cluster(factstest.H100, 2)
	if got := PlanTraffic(in)[0][0].Rails[0].From.GID; got != -1 {
		t.Errorf("InfiniBand: got GID index %d; want none", got)
	}
}

// Rails go on to name the same hosts when others are left out.
func TestRailsOfRemainingHosts(t *testing.T) {
	in := cluster(factstest.H100, 5)
	carried(&in)
	rails(1, 3, true, fails(probe.Lost, "x"))(&in)
	r, d := Settle(in, Shape{Drop: true, Slots: []int{8, 8, 8, 8, 8}})
	if len(d.Exclude) != 1 || d.Exclude[0] != "gpu02" {
		t.Errorf("got %v left out; want gpu02: %+v", d.Exclude, r.Findings)
	}
}

// FuzzRails has hosts find anything by RDMA: four bytes a rail, of five hosts.
func FuzzRails(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 1, 2, 0, 8, 2, 3, 0, 8, 3, 4, 0, 8, 4, 0, 0, 0})
	f.Add([]byte{0, 1, 200, 1, 1, 0, 200, 9, 2, 9, 3, 2, 3, 3, 3, 8})
	kinds := []probe.Failure{"", probe.Lost, probe.Device, probe.Other, probe.NoProgram, probe.Stopped, "new"}
	in := cluster(factstest.H100, 5)
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := range in.Hosts {
			in.Hosts[i].Rails = nil
		}
		for ; len(b) >= 4; b = b[4:] {
			h := &in.Hosts[b[0]%5]
			h.Rails = append(h.Rails, probe.RailLink{
				Host: int(int8(b[1])), Place: int(int8(b[2])), From: "mlx5_0", To: "mlx5_1", There: b[0] > 99,
				Failure: kinds[int(b[3]/8)%len(kinds)], BytesPerSecond: float64(b[3]) * 1e8, Latency: time.Duration(b[3]) * time.Microsecond,
			})
		}
		for _, x := range Judge(in).Findings {
			if strings.HasPrefix(x.Check, "rdma-") && (x.Title == "" || len(x.Hosts) == 0) {
				t.Errorf("got %+v; want a title and hosts", x)
			}
		}
	})
}
