package preflight

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("gpu%02d", i))
	}
	return all
}

func eights(n int) []int { return slices.Repeat([]int{8}, n) }

// bad is a finding that excludes hosts.
func bad(hosts ...string) Finding {
	return Finding{Check: "gpu-count", Title: "a GPU is gone", Verdict: NoHost, Hosts: hosts}
}

func TestDecide(t *testing.T) {
	cluster := Finding{Check: "names", Title: "two hosts have the same address", Verdict: NoCluster}
	unknown := Finding{Check: "xid", Title: "the kernel log cannot be read", Verdict: Unknown, Hosts: []string{"gpu02"}}
	tests := []struct {
		name   string
		hosts  int
		shape  Shape
		found  []Finding
		strict bool
		want   string
		code   int
	}{
		{"healthy", 4, Shape{Slots: eights(4)}, nil, false, "go: 4 hosts, 32 ranks", 0},
		{"one-host", 1, Shape{}, nil, false, "go: 1 host, 1 rank", 0},
		{"warning", 4, Shape{Slots: eights(4)}, []Finding{{Verdict: Warn, Hosts: []string{"gpu01"}}}, false, "go: 4 hosts, 32 ranks", 0},
		{"cluster", 4, Shape{Slots: eights(4), Drop: true}, []Finding{cluster}, false, "no-go: two hosts have the same address", 3},
		{"cluster-and-more", 4, Shape{Slots: eights(4)}, []Finding{cluster, cluster, bad("gpu01")}, false, "no-go: two hosts have the same address; and 1 more finding", 3},
		{"not-allowed", 4, Shape{Slots: eights(4)}, []Finding{bad("gpu02")}, false, "no-go unless gpu02 is left out: then 3 hosts, 24 ranks instead of 32 (--drop-bad allows that)", 4},
		{"not-allowed-two", 4, Shape{Slots: eights(4)}, []Finding{bad("gpu01", "gpu02")}, false, "no-go unless gpu[01-02] are left out: then 2 hosts, 16 ranks instead of 32 (--drop-bad allows that)", 4},
		{"allowed", 4, Shape{Slots: eights(4), Drop: true}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 24 ranks instead of 32", 0},
		{"unknown", 4, Shape{Slots: eights(4)}, []Finding{unknown}, false, "go: 4 hosts, 32 ranks", 0},
		{"unknown-strict", 4, Shape{Slots: eights(4), Drop: true}, []Finding{unknown}, true, "go without gpu02: 3 hosts, 24 ranks instead of 32", 0},
		{"all-bad", 2, Shape{Slots: eights(2), Drop: true}, []Finding{bad("gpu00", "gpu01")}, false, "no-go: no host is left that could be used", 3},
		{"no-slots", 2, Shape{Slots: []int{0, 8}, Drop: true}, []Finding{bad("gpu01")}, false, "no-go: the good hosts offer no slots", 3},

		{"multiple", 4, Shape{Slots: eights(4), Drop: true, Multiple: 16}, []Finding{bad("gpu02")}, false, "go without gpu02: 2 hosts, 16 ranks instead of 32, gpu03 stays idle since ranks must be a multiple of 16", 0},
		{"multiple-at-first", 3, Shape{Slots: eights(3), Multiple: 16}, nil, false, "go: 2 hosts, 16 ranks, gpu02 stays idle since ranks must be a multiple of 16", 0},
		{"multiple-too-many", 4, Shape{Slots: eights(4), Drop: true, Multiple: 32}, []Finding{bad("gpu02")}, false, "no-go: ranks must be a multiple of 32, and the good hosts offer 24 slots", 3},
		{"multiple-whole-hosts", 5, Shape{Slots: []int{8, 8, 4, 8, 8}, Drop: true, Multiple: 8}, []Finding{bad("gpu04")}, false, "go without gpu04: 3 hosts, 24 ranks instead of 32, gpu02 stays idle since ranks must be a multiple of 8", 0},
		{"multiple-half-a-host", 2, Shape{Slots: []int{8, 6}, Multiple: 4}, nil, false, "go: 2 hosts, 12 ranks", 0},

		{"fixed-kept", 4, Shape{Slots: eights(4), Drop: true, Fixed: 20}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 20 ranks", 0},
		{"fixed-kept-not-allowed", 4, Shape{Slots: eights(4), Fixed: 20}, []Finding{bad("gpu02")}, false, "no-go unless gpu02 is left out: then 3 hosts, 20 ranks (--drop-bad allows that)", 4},
		{"fixed-lost", 4, Shape{Slots: eights(4), Drop: true, Fixed: 30}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 24 ranks instead of 30", 0},
		{"fixed-lost-multiple", 4, Shape{Slots: eights(4), Drop: true, Fixed: 32, Multiple: 16}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 16 ranks instead of 32", 0},
		{"fixed-oversubscribed", 4, Shape{Slots: eights(4), Drop: true, Fixed: 64}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 64 ranks", 0},
		{"fixed-unneeded-host", 3, Shape{Slots: eights(3), Fixed: 16, Ranks: []int{8, 8, 0}}, []Finding{bad("gpu02")}, false, "go: 2 hosts, 16 ranks, gpu02 is no use as a spare", 0},
		{"fixed-unneeded-host-steps-in", 3, Shape{Slots: eights(3), Fixed: 16, Ranks: []int{8, 8, 0}}, []Finding{bad("gpu00")}, false, "go without gpu00: 2 hosts, 16 ranks, gpu02 stands in", 0},

		{"min-hosts-met", 4, Shape{Slots: eights(4), Drop: true, MinHosts: 3}, []Finding{bad("gpu02")}, false, "go without gpu02: 3 hosts, 24 ranks instead of 32", 0},
		{"min-hosts-missed", 4, Shape{Slots: eights(4), Drop: true, MinHosts: 4}, []Finding{bad("gpu02")}, false, "no-go: 3 good hosts would be used, and --min-hosts asks for 4", 3},
		{"min-hosts-too-many", 4, Shape{MinHosts: 5}, nil, false, "no-go: --min-hosts 5 cannot be met: 4 hosts listed", 2},
		{"min-hosts-too-many-by-spares", 4, Shape{MinHosts: 4, Spares: 1}, nil, false, "no-go: --min-hosts 4 cannot be met: 4 hosts listed, 1 of them as spares", 2},

		{"spare-idle", 4, Shape{Slots: eights(4), Spares: 1}, nil, false, "go: 3 hosts, 24 ranks", 0},
		{"spare", 4, Shape{Slots: eights(4), Spares: 1}, []Finding{bad("gpu01")}, false, "go without gpu01: 3 hosts, 24 ranks, gpu03 stands in", 0},
		{"spare-larger", 4, Shape{Slots: []int{8, 8, 8, 16}, Spares: 1}, []Finding{bad("gpu01")}, false, "go without gpu01: 3 hosts, 24 ranks, gpu03 stands in", 0},
		{"spare-smaller", 4, Shape{Slots: []int{8, 8, 8, 4}, Spares: 1}, []Finding{bad("gpu01")}, false, "no-go unless gpu01 is left out: then 3 hosts, 20 ranks instead of 24, gpu03 stands in (--drop-bad allows that)", 4},
		{"spares-smaller", 5, Shape{Slots: []int{8, 8, 8, 4, 4}, Spares: 2}, []Finding{bad("gpu01")}, false, "go without gpu01: 4 hosts, 24 ranks, gpu[03-04] stand in", 0},
		{"spare-bad", 4, Shape{Slots: eights(4), Spares: 1}, []Finding{bad("gpu03")}, false, "go: 3 hosts, 24 ranks, gpu03 is no use as a spare", 0},
		{"spares-one-bad", 5, Shape{Slots: eights(5), Spares: 2}, []Finding{bad("gpu00", "gpu03")}, false, "go without gpu00: 3 hosts, 24 ranks, gpu04 stands in, gpu03 is no use as a spare", 0},
		{"spares-too-few", 4, Shape{Slots: eights(4), Spares: 1, Drop: true}, []Finding{bad("gpu00", "gpu01")}, false, "go without gpu[00-01]: 2 hosts, 16 ranks instead of 24, gpu03 stands in", 0},
		{"spares-only", 2, Shape{Spares: 2}, nil, false, "no-go: --spares 2 leaves no host to run on: 2 hosts listed", 2},
		{"no-hosts", 0, Shape{}, nil, false, "no-go: there is no host", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(Report{Hosts: names(tt.hosts), Findings: tt.found}, tt.shape, tt.strict)
			if got := d.Headline(); got != tt.want || d.Code != tt.code || d.Go != (tt.code == 0) {
				t.Errorf("got %q, code %d, go %v; want %q, code %d", got, d.Code, d.Go, tt.want, tt.code)
			}
		})
	}
}

func TestStandInTakesThePlace(t *testing.T) {
	d := Decide(Report{Hosts: names(4), Findings: []Finding{bad("gpu01")}}, Shape{Slots: []int{8, 4, 8, 8}, Spares: 1}, false)
	want := Decision{Go: true, Verdict: GoWithout, Reason: "3 hosts, 20 ranks, gpu03 stands in",
		Use: []string{"gpu00", "gpu03", "gpu02"}, Slots: []int{8, 4, 8}, Exclude: []string{"gpu01"},
		StandIns: []Swap{{"gpu01", "gpu03"}}, Ranks: 20, Planned: 20}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v; want %+v", d, want)
	}
}

// What is used holds the ranks and is good, whatever the shape.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{8, 8, 8, 8}, uint16(2), 1, 0, 16, 0, true)
	f.Add([]byte{8, 4, 0, 16}, uint16(1), 2, 3, 3, 9, false)
	f.Fuzz(func(t *testing.T, slots []byte, badOnes uint16, spares, minHosts, multiple, fixed int, drop bool) {
		slots = slots[:min(len(slots), 16)]
		s := Shape{Drop: drop, Spares: spares, MinHosts: minHosts, Multiple: multiple, Fixed: fixed}
		hosts := names(len(slots))
		var out []string
		for i, n := range slots {
			s.Slots = append(s.Slots, int(n)-2)
			if badOnes>>i&1 != 0 {
				out = append(out, hosts[i])
			}
		}
		d := Decide(Report{Hosts: hosts, Findings: []Finding{bad(out...)}}, s, false)
		if d.Headline() == "" || len(d.Use) != len(d.Slots) || d.Go != (d.Code == 0) {
			t.Fatalf("got %+v", d)
		}
		if d.Go && (d.Ranks <= 0 || len(d.Use) < minHosts || fixed <= 0 && multiple > 1 && d.Ranks%multiple != 0) {
			t.Errorf("got %+v; want ranks that the shape divides into", d)
		}
		sum := 0
		for i, name := range d.Use {
			if sum += max(0, d.Slots[i]); slices.Contains(out, name) || slices.Index(d.Use, name) != i {
				t.Errorf("got %+v; want good hosts, each once", d)
			}
		}
		if fixed <= 0 && d.Ranks > sum {
			t.Errorf("got %+v; want no more ranks than slots", d)
		}
	})
}
