package probe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSchedule(t *testing.T) {
	for n := range 34 {
		rounds := schedule(n)
		if want := n - 1 + n%2; n >= 2 && len(rounds) != want || n < 2 && len(rounds) != 0 {
			t.Errorf("%d hosts: got %d rounds; want %d", n, len(rounds), want)
		}
		met := map[pair]bool{}
		for _, pairs := range rounds {
			busy := map[int]bool{}
			if len(pairs) != n/2 {
				t.Errorf("%d hosts: got %d pairs in a round; want %d", n, len(pairs), n/2)
			}
			for _, p := range pairs {
				if p.From == p.To || p.From < 0 || p.To < 0 || p.From >= n || p.To >= n || busy[p.From] || busy[p.To] {
					t.Errorf("%d hosts: got pair %v in %v", n, p, pairs)
				}
				busy[p.From], busy[p.To] = true, true
				met[pair{min(p.From, p.To), max(p.From, p.To)}] = true
			}
		}
		if len(met) != n*(n-1)/2*min(n, 1) {
			t.Errorf("%d hosts: %d pairs met; want %d", n, len(met), n*(n-1)/2)
		}
	}
}

func TestRing(t *testing.T) {
	tests := []struct {
		n    int
		want []pair
	}{
		{0, nil}, {1, nil},
		{2, []pair{{0, 1}, {1, 0}}},
		{3, []pair{{0, 1}, {0, 2}, {1, 2}, {1, 0}, {2, 0}, {2, 1}}},
		{4, []pair{{0, 1}, {0, 3}, {1, 2}, {1, 0}, {2, 3}, {2, 1}, {3, 0}, {3, 2}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, ring(tt.n)); diff != "" {
			t.Errorf("%d hosts (-want +got):\n%s", tt.n, diff)
		}
	}
}

// network makes the results of n hosts that measured all ways, with up to a fifth of noise.
func network(n int, slow func(from, to int) bool) []Result {
	noise := rand.New(rand.NewPCG(uint64(n), 1))
	results := make([]Result, n)
	for i := range results {
		results[i].From = i
		for j := range n {
			if i == j {
				continue
			}
			factor := 1 + noise.Float64()/5
			link := Link{Host: j, Latency: time.Duration(50e3 * factor), BytesPerSecond: 1e9 / factor}
			if slow(i, j) {
				link.Latency, link.BytesPerSecond = link.Latency*10, link.BytesPerSecond/10
			}
			results[i].Links = append(results[i].Links, link)
		}
	}
	return results
}

func of(hosts ...int) func(from, to int) bool {
	return func(from, to int) bool { return slices.Contains(hosts, from) || slices.Contains(hosts, to) }
}

func TestSlow(t *testing.T) {
	tests := []struct {
		name    string
		n       int
		slow    func(from, to int) bool
		hosts   []int
		links   []pair
		divided bool
	}{
		{"nothing", 8, of(), nil, nil, false},
		{"one-of-two", 2, of(1), nil, nil, false},
		{"one-of-three", 3, of(1), []int{1}, nil, false},
		{"one-of-four", 4, of(3), []int{3}, nil, false},
		{"one-of-sixteen", 16, of(7), []int{7}, nil, false},
		{"two-of-five", 5, of(1, 3), []int{1, 3}, nil, false},
		{"two-of-four", 4, of(1, 3), nil, nil, false},
		{"seven-of-sixteen", 16, of(0, 2, 4, 6, 8, 10, 12), []int{0, 2, 4, 6, 8, 10, 12}, nil, false},
		{"all", 6, func(int, int) bool { return true }, nil, nil, false},
		{"link", 8, func(i, j int) bool { return i == 2 && j == 5 }, nil, []pair{{2, 5}}, false},
		{"link-of-three", 3, func(i, j int) bool { return i+j == 1 }, nil, []pair{{0, 1}, {1, 0}}, false},
		{"outgoing", 8, func(i, _ int) bool { return i == 6 }, []int{6}, nil, false},
		{"incoming", 8, func(_, j int) bool { return j == 6 }, []int{6}, nil, false},
		{"host-and-link", 8, func(i, j int) bool { return i == 6 || j == 6 || i == 1 && j == 2 }, []int{6}, []pair{{1, 2}}, false},
		{"half-its-links", 9, func(i, j int) bool { return i == 0 && j < 5 }, nil, []pair{{0, 1}, {0, 2}, {0, 3}, {0, 4}}, false},
	}
	for _, tt := range tests {
		latency, bandwidth := Slow(Gather(tt.n, network(tt.n, tt.slow)), DefaultLimits())
		for what, got := range map[string]Slowness{"latency": latency, "bandwidth": bandwidth} {
			var hosts []int
			for _, h := range got.Hosts {
				hosts = append(hosts, h.Host)
			}
			var links []pair
			for _, l := range got.Links {
				links = append(links, pair{l.From, l.To})
			}
			if diff := cmp.Diff(tt.hosts, hosts); diff != "" {
				t.Errorf("%s, %s: hosts (-want +got):\n%s", tt.name, what, diff)
			}
			if diff := cmp.Diff(tt.links, links); diff != "" {
				t.Errorf("%s, %s: links (-want +got):\n%s", tt.name, what, diff)
			}
			if got.Divided != tt.divided {
				t.Errorf("%s, %s: got divided %v; want %v", tt.name, what, got.Divided, tt.divided)
			}
		}
	}
}

func TestSlowNumbers(t *testing.T) {
	latency, bandwidth := Slow(Gather(8, network(8, func(i, _ int) bool { return i == 6 })), DefaultLimits())
	for what, got := range map[string]Slowness{"latency": latency, "bandwidth": bandwidth} {
		h := got.Hosts[0]
		h.Median = 0
		if want := (SlowHost{Host: 6, Partners: 7, Slow: 7, Outgoing: 7}); h != want {
			t.Errorf("%s: got %+v; want %+v", what, h, want)
		}
	}
	if m, typical := latency.Hosts[0].Median, latency.Typical; m < 500e3 || m > 600e3 || typical < 50e3 || typical > 60e3 {
		t.Errorf("got latency %.0f, typical %.0f", m, typical)
	}
	if m, typical := bandwidth.Hosts[0].Median, bandwidth.Typical; m < 80e6 || m > 100e6 || typical < 0.8e9 || typical > 1e9 {
		t.Errorf("got bandwidth %.0f, typical %.0f", m, typical)
	}
}

// Ring neighbours alone tell a slow host, if both of its links are slow.
func TestSlowOnRing(t *testing.T) {
	const n = 6
	all := network(n, of(2))
	var results []Result
	for _, p := range ring(n) {
		for _, link := range all[p.From].Links {
			if link.Host == p.To {
				results = append(results, Result{From: p.From, Links: []Link{link}})
			}
		}
	}
	latency, _ := Slow(Gather(n, results), DefaultLimits())
	if len(latency.Hosts) != 1 || latency.Hosts[0].Host != 2 || len(latency.Links) != 0 {
		t.Errorf("got %+v; want host 2", latency)
	}
}

// When as many hosts are slow as are not, none is blamed, and every slow link is told.
func TestSlowDivided(t *testing.T) {
	var results []Result
	for _, r := range network(8, func(_, j int) bool { return j >= 4 }) {
		r.Links = slices.DeleteFunc(r.Links, func(l Link) bool {
			return r.From >= 4 || l.Host >= 4 && l.Host%2 != r.From/2
		})
		results = append(results, r)
	}
	latency, bandwidth := Slow(Gather(8, results), DefaultLimits())
	for what, got := range map[string]Slowness{"latency": latency, "bandwidth": bandwidth} {
		if !got.Divided || len(got.Hosts) != 0 || len(got.Links) != 8 {
			t.Errorf("%s: got %+v; want 8 links of divided hosts", what, got)
		}
	}
}

// What is many times slower, but not by much, is noise.
func TestSlowFloors(t *testing.T) {
	results := network(6, of(2))
	for _, r := range results {
		for i := range r.Links {
			r.Links[i].Latency /= 10
			r.Links[i].BytesPerSecond /= 100
		}
	}
	latency, bandwidth := Slow(Gather(6, results), DefaultLimits())
	if len(latency.Hosts)+len(latency.Links)+len(bandwidth.Hosts)+len(bandwidth.Links) > 0 {
		t.Errorf("got %+v and %+v; want nothing", latency, bandwidth)
	}
}

func TestGatherStrayResults(t *testing.T) {
	good := Link{Host: 1, Latency: 5, BytesPerSecond: 7}
	m := Gather(2, []Result{
		{From: 0, Links: []Link{{Host: 1, Latency: 9, BytesPerSecond: 3}, good, {Host: 0, Latency: 1}, {Host: 2, Latency: 1}, {Host: -1, Latency: 1}, {Host: 1, Latency: -4}}},
		{From: 7, Links: []Link{good}}, {From: -1, Links: []Link{good}},
	})
	want := Matrix{[][]time.Duration{{0, 5}, {0, 0}}, [][]float64{{0, 7}, {0, 0}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, n := range []int{-1, 0, 1} {
		Slow(Gather(n, []Result{{Links: []Link{good}}}), DefaultLimits())
	}
	Slow(Matrix{Latency: [][]time.Duration{{0, 1, 2}, {1}, nil}}, Limits{})
}

func BenchmarkSlow(b *testing.B) {
	for _, n := range []int{64, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := Gather(n, network(n, of(1, 5)))
			for b.Loop() {
				Slow(m, DefaultLimits())
			}
		})
	}
}
