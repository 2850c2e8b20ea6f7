package launcher

import (
	"fmt"
	"strings"
	"testing"

	"gorun/launcher/wire"
)

func TestBind(t *testing.T) {
	tests := []struct {
		name         string
		job          Job
		ranks, slots int
		want         string // what the host is told, and why it is not more
	}{
		{"nothing", Job{}, 2, 2, "nothing "},
		{"none", Job{BindTo: BindNone}, 2, 2, "nothing "},
		{"report-only", Job{ReportBindings: true}, 2, 2, "{none 0} "},
		{"core", Job{BindTo: BindCore, CoresPerRank: 3}, 2, 2, "{core 3} "},
		{"oversubscribed", Job{BindTo: BindCore}, 3, 2, "{none 0} 3 ranks on 2 slots"},
		{"oversubscribed-and-not-bound", Job{ReportBindings: true}, 3, 2, "{none 0} "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, why := tt.job.bind(tt.ranks, tt.slots)
			got := "nothing " + why
			if b != nil {
				got = fmt.Sprintf("%v %s", *b, why)
			}
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestBindingsReport(t *testing.T) {
	var b bindings
	b.take("a", &wire.Prepared{Bindings: []wire.Binding{{Ranks: []int{0}, CPUs: "0-1", Cores: "0-1", NUMA: "0"}, {Ranks: []int{1}, CPUs: "2,66", Cores: "2", NUMA: "0-1"}}}, 7)
	b.take("b", &wire.Prepared{Bindings: []wire.Binding{{Ranks: []int{2, 3}, CPUs: "0"}}, Unbound: "2 ranks for 1 core"}, 7)
	b.take("c", &wire.Prepared{Bindings: []wire.Binding{{Ranks: []int{4, 5}, CPUs: "0-3", Cores: "0-3"}}}, 7)
	b.take("d", &wire.Prepared{Bindings: []wire.Binding{{Ranks: []int{6}, CPUs: "0"}}, Unbound: "2 ranks for 1 core"}, 7)
	b.unbound("e", "4 ranks on 2 slots")
	l := evenly(2, 2, 2, 1)
	want := `rank 0 on a (local 0): cores 0-1 (NUMA 0)
rank 1 on a (local 1): core 2, CPUs 2,66 (NUMA 0-1)
ranks 2-3 on b (local 0-1): not bound (CPU 0)
rank 4 on c (local 0): cores 0-3
rank 5 on c (local 1): cores 0-3
rank 6 on d (local 0): not bound (CPU 0)`
	if got := strings.Join(b.report(l, func(h int) string { return string(rune('a' + h)) }), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = "ranks on b, d are not bound: 2 ranks for 1 core\nranks on e are not bound: 4 ranks on 2 slots"
	if got := strings.Join(b.warnings(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := b.cpus(1) + b.cpus(2); got != "2,66" {
		t.Errorf("got %q; want the CPUs of rank 1, and none of rank 2", got)
	}
	if b = (bindings{}); b.report(l, nil) != nil || b.warnings() != nil || b.cpus(3) != "" {
		t.Error("of nothing something is said")
	}
}

func TestCheckBindings(t *testing.T) {
	p := &placement{layout: evenly(2, 1)}
	tests := []struct {
		name string
		p    *placement
		b    []wire.Binding
		why  string
		ok   bool
	}{
		{"none", nil, nil, "", true},
		{"good", p, []wire.Binding{{Ranks: []int{0}, CPUs: "0-3,8", Cores: "0-3"}, {Ranks: []int{1}}}, "", true},
		{"before-the-plan", nil, []wire.Binding{{CPUs: "0"}}, "", false},
		{"of-another-host", p, []wire.Binding{{Ranks: []int{2}}}, "", false},
		{"negative", p, []wire.Binding{{Ranks: []int{-1}}}, "", false},
		{"twice", p, []wire.Binding{{Ranks: []int{0}}, {Ranks: []int{0}}}, "", false},
		{"no-list", p, []wire.Binding{{Ranks: []int{0}, CPUs: "\x1b[2J"}}, "", false},
		{"no-list-of-nodes", p, []wire.Binding{{Ranks: []int{0}, NUMA: "all"}}, "", false},
		{"endless-list", p, []wire.Binding{{Ranks: []int{0}, Cores: strings.Repeat("1,", maxCPUs)}}, "", false},
		{"endless-reason", p, nil, strings.Repeat("x", maxLog+1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.p.checkBindings(0, &wire.Prepared{Bindings: tt.b, Unbound: tt.why}); (err == nil) != tt.ok {
				t.Errorf("got %v; want accepted %v", err, tt.ok)
			}
		})
	}
}
