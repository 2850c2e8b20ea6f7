package preflight

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
	"gorun/preflight/probe"
)

// judgement is a Judge that knows why hosts are bad, and what else is wrong between which.
type judgement struct {
	bad   map[string][]string // host: those that must be there to see it
	pairs map[[2]string]Verdict
	calls int
}

func (j *judgement) judge(in Input) Report {
	j.calls++
	r := Report{Mode: in.Mode, Checks: []Result{{ID: "gpu-count", Verdict: OK}, {ID: "pair", Verdict: OK}}}
	for _, h := range in.Hosts {
		r.Hosts = append(r.Hosts, h.Name)
	}
	for _, h := range in.Hosts {
		needs, isBad := j.bad[h.Name]
		if isBad && !slices.ContainsFunc(needs, func(n string) bool { return slices.Contains(r.Hosts, n) }) {
			r.add(bad(h.Name))
		}
	}
	for pair, v := range j.pairs {
		if slices.Contains(r.Hosts, pair[0]) && slices.Contains(r.Hosts, pair[1]) {
			r.add(Finding{Check: "pair", Title: pair[0] + " and " + pair[1] + " differ", Verdict: v, Hosts: pair[:]})
		}
	}
	sortFindings(r.Findings)
	return r
}

func input(n int) Input {
	in := Input{Mode: Full}
	for i, name := range names(n) {
		h := Host{Name: name, Ranks: 8, Facts: facts.Host{Name: name}}
		for k := range n {
			if k != i {
				h.Links = append(h.Links, probe.Link{Host: k})
			}
		}
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

func TestSettle(t *testing.T) {
	type pairs = map[[2]string]Verdict
	tests := []struct {
		name  string
		j     judgement
		shape Shape
		want  string
		found []string // verdict and title
		calls int
	}{
		{"healthy", judgement{}, Shape{}, "go: 4 hosts, 32 ranks", nil, 1},
		{"one-bad", judgement{bad: map[string][]string{"gpu02": nil}}, Shape{Drop: true},
			"go without gpu02: 3 hosts, 24 ranks instead of 32", []string{"host a GPU is gone"}, 2},
		{"cluster-by-the-bad", judgement{bad: map[string][]string{"gpu02": nil}, pairs: pairs{{"gpu01", "gpu02"}: NoCluster}}, Shape{Drop: true},
			"go without gpu02: 3 hosts, 24 ranks instead of 32", []string{"host a GPU is gone", "info gpu01 and gpu02 differ"}, 2},
		{"cluster-not-allowed", judgement{bad: map[string][]string{"gpu02": nil}, pairs: pairs{{"gpu01", "gpu02"}: NoCluster}}, Shape{},
			"no-go unless gpu02 is left out: then 3 hosts, 24 ranks instead of 32 (--drop-bad allows that)", []string{"host a GPU is gone", "info gpu01 and gpu02 differ"}, 2},
		{"cluster-stays", judgement{bad: map[string][]string{"gpu02": nil}, pairs: pairs{{"gpu01", "gpu03"}: NoCluster}}, Shape{Drop: true},
			"no-go: gpu01 and gpu03 differ", []string{"cluster gpu01 and gpu03 differ", "host a GPU is gone"}, 2},
		{"warning-goes", judgement{bad: map[string][]string{"gpu02": nil}, pairs: pairs{{"gpu01", "gpu02"}: Warn, {"gpu00", "gpu01"}: Warn}}, Shape{Drop: true},
			"go without gpu02: 3 hosts, 24 ranks instead of 32", []string{"host a GPU is gone", "warning gpu00 and gpu01 differ"}, 2},
		{"second-becomes-seen", judgement{bad: map[string][]string{"gpu02": nil, "gpu01": {"gpu02"}}}, Shape{Drop: true},
			"go without gpu[01-02]: 2 hosts, 16 ranks instead of 32", []string{"host a GPU is gone", "host a GPU is gone"}, 3},
		{"all-bad", judgement{bad: map[string][]string{"gpu00": nil, "gpu01": nil, "gpu02": nil, "gpu03": nil}}, Shape{Drop: true},
			"no-go: no host is left that could be used", slices.Repeat([]string{"host a GPU is gone"}, 4), 1},
		{"spare-steps-in", judgement{bad: map[string][]string{"gpu01": nil}}, Shape{Spares: 1},
			"go without gpu01: 3 hosts, 24 ranks, gpu03 stands in", []string{"host a GPU is gone"}, 2},
		{"idle-spare-differs", judgement{pairs: pairs{{"gpu01", "gpu03"}: NoCluster}}, Shape{Spares: 1},
			"go: 3 hosts, 24 ranks", []string{"info gpu01 and gpu03 differ"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.shape.Slots = eights(4)
			r, d := settle(input(4), tt.shape, tt.j.judge)
			var found []string
			for _, f := range r.Findings {
				found = append(found, string(f.Verdict)+" "+f.Title)
			}
			if d.Headline() != tt.want || !slices.Equal(found, tt.found) || tt.j.calls != tt.calls {
				t.Errorf("got %q, %q, %d calls; want %q, %q, %d calls", d.Headline(), found, tt.j.calls, tt.want, tt.found, tt.calls)
			}
			if len(r.Hosts) != 4 || !reflect.DeepEqual(d, Decide(r, tt.shape, false)) {
				t.Errorf("got hosts %v and %+v; want all hosts, and what Decide says of the report", r.Hosts, d)
			}
		})
	}
}

func TestSettleUnreached(t *testing.T) {
	in := input(2)
	in.Hosts[0].Unreached, in.Hosts[1].Unreached = "ssh: no", "ssh: no"
	if _, d := Settle(in, Shape{}); d.Code != 125 || d.Go || !strings.Contains(d.Headline(), "no host could be reached") {
		t.Errorf("got %+v; want code 125", d)
	}
	if _, d := Settle(Input{}, Shape{}); d.Code != 125 {
		t.Errorf("got %+v; want code 125", d)
	}
}

func TestWithout(t *testing.T) {
	rest := without(input(4), func(name string) bool { return name == "gpu01" })
	var got []string
	for _, h := range rest.Hosts {
		for _, l := range h.Links {
			got = append(got, h.Name+">"+rest.Hosts[l.Host].Name)
		}
	}
	if want := "gpu00>gpu02 gpu00>gpu03 gpu02>gpu00 gpu02>gpu03 gpu03>gpu00 gpu03>gpu02"; strings.Join(got, " ") != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A host that must stand in is judged with the ranks that it gets.
func TestStandInIsJudged(t *testing.T) {
	in := input(3)
	in.Hosts[2].Ranks = 0
	small := func(in Input) Report {
		r := Report{}
		for _, h := range in.Hosts {
			if r.Hosts = append(r.Hosts, h.Name); h.Name == "gpu00" || h.Name == "gpu02" && h.Ranks == 8 {
				r.add(bad(h.Name))
			}
		}
		return r
	}
	_, d := settle(in, Shape{Slots: eights(3), Drop: true, Spares: 1}, small)
	if got, want := d.Headline(), "go without gpu00: 1 host, 8 ranks instead of 16, gpu02 is no use as a spare"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// With the real checks, what is decided is what Decide says of the report, and nothing
// is left to be left out.
func TestSettleRealHosts(t *testing.T) {
	lost := func(h *facts.Host) { h.GPU.Devices = h.GPU.Devices[:7] }
	other := func(h *facts.Host) { h.Programs[0].SHA256 = "ffff" }
	full := func(h *facts.Host) { h.Disks[0].Free = 1 << 20 }
	tests := []struct {
		name  string
		shape Shape
		harm  map[int]func(*facts.Host)
		want  string
	}{
		{"healthy", Shape{}, nil, "go: 6 hosts, 48 ranks"},
		{"lost-gpu", Shape{}, map[int]func(*facts.Host){2: lost}, "no-go unless gpu02 is left out: then 5 hosts, 40 ranks instead of 48 (--drop-bad allows that)"},
		{"lost-gpu-dropped", Shape{Drop: true}, map[int]func(*facts.Host){2: lost}, "go without gpu02: 5 hosts, 40 ranks instead of 48"},
		{"two-faults", Shape{Drop: true, Multiple: 16}, map[int]func(*facts.Host){1: lost, 4: other}, "go without gpu[01,04]: 4 hosts, 32 ranks instead of 48"},
		{"spare", Shape{Spares: 1}, map[int]func(*facts.Host){0: full}, "go without gpu00: 5 hosts, 40 ranks, gpu05 stands in"},
		{"spares-lost", Shape{Spares: 2, Drop: true}, map[int]func(*facts.Host){0: lost, 4: full, 5: other}, "go without gpu00: 3 hosts, 24 ranks instead of 32, gpu[04-05] are no use as spares"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input(6)
			in.Mode, in.Limits, in.Job = Quick, Defaults(), Job{Ranks: 48, GPU: true}
			for i := range in.Hosts {
				h := factstest.H100(in.Hosts[i].Name, i)
				if harm := tt.harm[i]; harm != nil {
					harm(&h)
				}
				in.Hosts[i].Facts, in.Hosts[i].Links = h, nil
				in.Hosts[i].Skew = Skew{Known: true}
			}
			tt.shape.Slots = eights(6)
			r, d := Settle(in, tt.shape)
			if got := d.Headline(); got != tt.want {
				t.Errorf("got %q; want %q: %+v", got, tt.want, r.Findings)
			}
			if !reflect.DeepEqual(d, Decide(r, tt.shape, false)) || len(r.Hosts) != 6 {
				t.Errorf("got %+v; want what Decide says of the report", d)
			}
		})
	}
}

func BenchmarkSettle(b *testing.B) {
	in := input(512)
	for b.Loop() {
		j := judgement{bad: map[string][]string{"gpu99": nil}}
		settle(in, Shape{Slots: eights(512), Drop: true, Multiple: 16}, j.judge)
	}
}

// TestNobodyAnswers has no check say that all is well on no host.
func TestNobodyAnswers(t *testing.T) {
	in := cluster(factstest.H100, 3)
	for i := range in.Hosts {
		in.Hosts[i] = Host{Name: in.Hosts[i].Name, Unreached: "timed out"}
	}
	for _, c := range Judge(in).Checks {
		if c.ID != "host-reached" && c.Verdict != Skipped {
			t.Errorf("%s: got %s, %q; want it skipped", c.ID, c.Verdict, c.Text)
		}
	}
}
