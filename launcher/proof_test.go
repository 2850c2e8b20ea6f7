package launcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// told is what a host tells of ranks that run program: "rank,rank program NAME=value -NAME ...".
func told(lines ...string) *wire.Proof {
	m := &wire.Proof{}
	for _, line := range lines {
		f := strings.Fields(line)
		var ranks []int
		for r := range strings.SplitSeq(f[0], ",") {
			ranks = append(ranks, number(r))
		}
		if f[1] == "refused" {
			m.Refused = append(m.Refused, ranks...)
			continue
		}
		s := wire.Settled{Ranks: ranks, Program: f[1], Digest: "d.e"}
		for _, c := range f[2:] {
			switch c {
			case "early":
				s.Early = true
				continue
			case "more":
				s.More = 1
				continue
			}
			name, value, set := strings.Cut(c, "=")
			if name == "libnccl" {
				s.Library, s.Build = wire.Bytes("/"+value), value
				continue
			}
			if !set {
				s.Changes = append(s.Changes, wire.Change{Name: strings.TrimPrefix(name, "-")})
				continue
			}
			s.Changes = append(s.Changes, wire.Change{Name: name, Value: wire.Bytes(value), Sum: "sum of " + value})
		}
		m.Settled = append(m.Settled, s)
	}
	return m
}

// Two hosts with two ranks each tell something, the hosts in turn.
func TestProof(t *testing.T) {
	tests := []struct {
		name   string
		tell   []string // by hosts 0 and 1 in turn; of several lines with "; " between
		want   string   // differences: NAME[!]: ranks / ranks
		proven int
	}{
		{"as-planned", []string{"0,1 p", "2,3 p"}, "", 4},
		{"unset-on-one", []string{"0,1 p", "2 p; 3 p -NCCL_ALGO"}, "NCCL_ALGO!: 3/0-2", 3},
		{"changed-on-one", []string{"0,1 p", "2 p; 3 p NCCL_ALGO=Tree"}, "NCCL_ALGO!: 3/0-2", 3},
		{"changed-alike", []string{"0,1 p NCCL_ALGO=Tree", "2,3 p NCCL_ALGO=Tree"}, "", 4},
		{"changed-differently", []string{"0,1 p NCCL_ALGO=Tree", "2,3 p NCCL_ALGO=Ring"}, "NCCL_ALGO!: 2-3/0-1", 0},
		{"one-host-only-so-far", []string{"0,1 p NCCL_ALGO=Tree"}, "", 2},
		{"at-different-stages", []string{"0 sleep; 1 p NCCL_ALGO=Tree", "2,3 p NCCL_ALGO=Tree"}, "", 4},
		{"a-stage-later", []string{"0 sleep; 1 p NCCL_ALGO=Tree", "2,3 p NCCL_ALGO=Tree", "0 p NCCL_ALGO=Tree"}, "", 4},
		{"may-start-itself-anew", []string{"0 p NCCL_ALGO=Tree; 1 p early", "2,3 p early"}, "", 4},
		{"starts-itself-anew-later", []string{"0 p NCCL_ALGO=Tree; 1 p early", "2,3 p early", "1 p NCCL_ALGO=Tree", "2,3 p NCCL_ALGO=Tree"}, "", 4},
		{"does-not-start-itself-anew", []string{"0 p NCCL_ALGO=Tree; 1 p early", "2,3 p early", "1 p"}, "NCCL_ALGO!: 0/1", 3},
		{"not-all-is-told", []string{"0,1 p NCCL_ALGO=Tree NCCL_PROTO=LL", "2,3 p NCCL_ALGO=Tree more"}, "", 4},
		{"what-is-told-differs", []string{"0,1 p NCCL_ALGO=Tree", "2 p NCCL_ALGO=Tree; 3 p NCCL_ALGO=Ring more"}, "NCCL_ALGO!: 3/0-2", 0},
		{"changed-after-all", []string{"0,1 p", "2,3 p", "1 p -NCCL_ALGO"}, "NCCL_ALGO!: 1/0,2-3", 3},
		{"told-once", []string{"0 p; 1 p -NCCL_ALGO", "2 p; 3 p -NCCL_ALGO"}, "NCCL_ALGO!: 1/0", 3},
		{"host-name-per-host", []string{"0,1 p NCCL_IB_HCA=a", "2,3 p NCCL_IB_HCA=b"}, "", 4},
		{"host-name-within-host", []string{"0,1 p", "2 p NCCL_IB_HCA=a; 3 p NCCL_IB_HCA=b"}, "NCCL_IB_HCA!: 3/2", 2},
		{"within-host-only", []string{"0,1 p NCCL_P2P_DISABLE=1", "2,3 p"}, "", 4},
		{"within-host", []string{"0 p NCCL_P2P_DISABLE=1; 1 p", "2,3 p"}, "NCCL_P2P_DISABLE!: 0/1", 3},
		{"unknown-to-nccl", []string{"0 p NCCL_MINE=1; 1 p NCCL_MINE=2", "2,3 p"}, "NCCL_MINE: 1/0", 4},
		{"not-of-nccl", []string{"0,1 p LD_LIBRARY_PATH=/x", "2,3 p"}, "LD_LIBRARY_PATH: 0-1/2-3", 4},
		{"several", []string{"0,1 p", "2 p; 3 p -NCCL_ALGO NCCL_PROTO=LL"}, "NCCL_ALGO!: 3/0-2, NCCL_PROTO!: 3/0-2", 3},
		{"same-libnccl", []string{"0,1 p libnccl=a", "2,3 p libnccl=a"}, "", 4},
		{"other-libnccl", []string{"0,1 p libnccl=a", "2 p libnccl=a; 3 p libnccl=b"}, "libnccl: 3/0-2", 4},
		{"libnccl-not-loaded-yet", []string{"0,1 p libnccl=a", "2 p; 3 p libnccl=b"}, "libnccl: 3/0-1", 4},
		{"libnccl-of-other-programs", []string{"0,1 p libnccl=a", "2,3 q libnccl=b"}, "", 4},
		{"libnccl-loaded-later", []string{"0,1 p libnccl=a", "2,3 p", "2,3 p libnccl=b"}, "libnccl: 2-3/0-1", 4},
		{"unreadable", []string{"0,1 p", "2 p; 3 refused"}, "", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newProof(evenly(2, 2), envsync.Usual)
			var got []string
			for i, text := range tt.tell {
				for _, d := range p.take(i%2, told(strings.Split(text, "; ")...)) {
					got = append(got, differenceText(d))
				}
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q; want %q", s, tt.want)
			}
			if e := p.environment(); e.Proven != tt.proven || e.Proven+e.NotProven != 4 {
				t.Errorf("proven in %d, not in %d; want %d of 4", e.Proven, e.NotProven, tt.proven)
			}
		})
	}
}

func differenceText(d EnvDifference) string {
	mark := ""
	if d.Fatal {
		mark = "!"
	}
	var parts []string
	for _, v := range d.Values {
		parts = append(parts, spans(v.Ranks))
	}
	return fmt.Sprintf("%s%s: %s", d.Name, mark, strings.Join(parts, "/"))
}

func TestProofStrict(t *testing.T) {
	p := newProof(evenly(2), envsync.Strict)
	d := p.take(0, told("0 p LD_LIBRARY_PATH=/x", "1 p"))
	if len(d) != 1 || !d[0].Fatal {
		t.Errorf("got %+v; want an error", d)
	}
	p = newProof(evenly(2), envsync.Lax)
	d = p.take(0, told("0 p NCCL_ALGO=Ring", "1 p"))
	if len(d) != 1 || d[0].Fatal {
		t.Errorf("got %+v; want a warning", d)
	}
}

// Programs of one job need not be alike.
func TestProofOfSeveralPrograms(t *testing.T) {
	l := evenly(2, 2)
	l.Ranks[2].App, l.Ranks[3].App = 1, 1
	p := newProof(l, envsync.Usual)
	if d := append(p.take(0, told("0,1 p NCCL_ALGO=Ring")), p.take(1, told("2,3 p"))...); d != nil {
		t.Errorf("got %+v; want no difference between ranks of different programs", d)
	}
}

func TestProofComplete(t *testing.T) {
	p := newProof(evenly(1, 1), envsync.Usual)
	p.take(0, told("0 p"))
	if p.complete() {
		t.Error("complete with a host that has told nothing")
	}
	p.take(1, &wire.Proof{Last: true})
	if p.complete() {
		t.Error("complete with a host that may tell more")
	}
	p.take(0, &wire.Proof{Last: true})
	if !p.complete() || p.complete() {
		t.Error("not complete once when nothing more can come")
	}
	if e := p.environment(); e.Digest != "d" || e.Proven != 1 {
		t.Errorf("got %+v; want digest d, proven in 1", e)
	}
}

func TestDifferenceText(t *testing.T) {
	d := EnvDifference{Name: "NCCL_ALGO", Fatal: true, Values: []EnvValue{
		{Ranks: []int{3}, Hosts: []string{"b"}},
		{Value: "\x1bTree", Set: true, Ranks: []int{4}, Hosts: []string{"b"}},
		{Value: "Ring", Set: true, Planned: true, Ranks: []int{0, 1, 2}, Hosts: []string{"a", "b"}},
	}}
	if got, want := d.Headline(), "NCCL_ALGO differs between ranks: not set in rank 3 on b, Ring in ranks 0-2 on a, b, and 1 other value"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	path := EnvDifference{Name: "LD_LIBRARY_PATH", Values: []EnvValue{
		{Value: "/x", Set: true, Ranks: []int{1}, Hosts: []string{"a"}}, {Planned: true, Ranks: []int{0}, Hosts: []string{"a"}},
	}}
	if got, want := path.Lines(), []string{"rank 1 on a: LD_LIBRARY_PATH=/x", "rank 0 on a: LD_LIBRARY_PATH as the host has it"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	want := []string{"rank 3 on b: NCCL_ALGO not set", `rank 4 on b: NCCL_ALGO="\x1bTree"`, "ranks 0-2 on a, b: NCCL_ALGO=Ring (as gorun gave it)"}
	if got := d.Lines(); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestCheckProof(t *testing.T) {
	p := &placement{layout: evenly(2, 1)}
	long := strings.Repeat("x", wire.MaxName+1)
	for name, m := range map[string]*wire.Proof{
		"another host's rank": told("2 p"),
		"no such rank":        told("7 p"),
		"twice":               told("0 p", "0 q"),
		"twice refused":       told("0 p", "0 refused"),
		"long name":           told("0 p " + long + "=1"),
		"odd name":            told("0 p A\x1b=1"),
		"long value":          told("0 p A=" + strings.Repeat("x", wire.MaxValue+1)),
		"nobody":              {Settled: []wire.Settled{{}}},
		"many":                {Settled: []wire.Settled{{Ranks: []int{0}, Changes: make([]wire.Change, wire.MaxChanges+1)}}},
	} {
		if checkProof(p, 0, m) == nil {
			t.Errorf("%s: taken; want it refused", name)
		}
	}
	if err := checkProof(p, 0, told("0,1 p NCCL_ALGO=Ring -B")); err != nil {
		t.Errorf("got %v; want it taken", err)
	}
}

// A host's message costs what it says, not what the job is.
func BenchmarkProof(b *testing.B) {
	counts := make([]int, 10000)
	for i := range counts {
		counts[i] = 8
	}
	l := evenly(counts...)
	for b.Loop() {
		p := newProof(l, envsync.Usual)
		for h := range counts {
			p.take(h, &wire.Proof{Settled: []wire.Settled{{Ranks: []int{8 * h, 8*h + 1, 8*h + 2, 8*h + 3, 8*h + 4, 8*h + 5, 8*h + 6, 8*h + 7}, Program: "p"}}})
		}
	}
}
