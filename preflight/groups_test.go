package preflight

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// kernels returns a view of hosts with these kernels.
func kernels(names ...string) *view {
	in := cluster(factstest.Plain, len(names))
	for i, name := range names {
		in.Hosts[i].Facts.System.Kernel = name
	}
	return newView(in)
}

func TestOdd(t *testing.T) {
	c := contrast{of: func(h *Host) string { return h.Facts.System.Kernel }, what: "kernel", subject: "the kernel", blame: NoHost, differ: NoCluster, remedy: "fix HOST", align: "align HOST"}
	for _, row := range []struct {
		name    string
		kernels string
		want    []string
	}{
		{"all-alike", "5 5 5", nil},
		{"one-host", "5", nil},
		{"one-of-three", "5 6 5", []string{"host: gpu02 has kernel 6, the others have 5 (fix gpu02)"}},
		{"two-of-five", "5 6 5 6 5", []string{"host: gpu[02,04] have kernel 6, the others have 5 (fix gpu[02,04])"}},
		{"two-kinds", "5 6 5 7 5", []string{"host: gpu02 has kernel 6, most have 5 (fix gpu02)", "host: gpu04 has kernel 7, most have 5 (fix gpu04)"}},
		{"two", "5 6", []string{"cluster: hosts differ in the kernel: 5 on gpu01, 6 on gpu02 (align gpu[01-02])"}},
		{"half", "5 6 5 6", []string{"cluster: hosts differ in the kernel: 5 on gpu[01,03], 6 on gpu[02,04] (align gpu[01-04])"}},
		{"three-kinds", "5 6 7", []string{"cluster: hosts differ in the kernel (align gpu[01-03])"}},
		{"many-kinds", "5 5 5 5 5 5 5 5 5 5 5 1 2 3 4 6 7 8 9 10", []string{"host: gpu[12-20] differ from most hosts in the kernel (fix gpu[12-20])"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := kernels(strings.Fields(row.kernels)...)
			var got []string
			for _, f := range v.odd(v.reached, c) {
				got = append(got, fmt.Sprintf("%s: %s (%s)", f.Verdict, f.Title, f.Remedy))
			}
			if fmt.Sprint(got) != fmt.Sprint(row.want) {
				t.Errorf("got %q; want %q", got, row.want)
			}
		})
	}
}

func TestOddGrades(t *testing.T) {
	v := kernels("5", "5", "5", "6", "7")
	found := v.odd(v.reached, contrast{of: func(h *Host) string { return h.Facts.System.Kernel }, blame: NoHost, grade: func(odd, most *Host) Verdict {
		if odd.Facts.System.Kernel == "6" && most.Facts.System.Kernel == "5" {
			return Info
		}
		return ""
	}})
	if len(found) != 1 || found[0].Verdict != Info || found[0].Hosts[0] != "gpu04" {
		t.Errorf("got %+v; want a note on gpu04", found)
	}
}

func TestFold(t *testing.T) {
	in := cluster(factstest.Plain, 99)
	v := newView(in)
	var odd []int
	for i := 0; i < 99; i += 2 {
		odd = append(odd, i)
	}
	for _, c := range []struct {
		hosts []int
		want  string
	}{{nil, ""}, {[]int{4}, "gpu05"}, {[]int{4, 5, 6}, "gpu[05-07]"}, {v.reached, "gpu[01-99]"}, {odd, "gpu01, gpu03 and 48 more hosts"}} {
		if got := v.fold(c.hosts); got != c.want {
			t.Errorf("%v: got %q; want %q", c.hosts, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{-5: "-5 B", 0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64 MiB", 150<<30 + 1: "150 GiB", 1 << 62: "4096 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %q; want %q", n, got, want)
		}
	}
}

func TestLimitsHaveDefaults(t *testing.T) {
	got := Limits{Nofile: 7}.orDefaults()
	want := Defaults()
	want.Nofile = 7
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v; want %v", got, want)
	}
	if l := (Limits{Fatal: []int{}}).orDefaults(); len(l.Fatal) != 0 {
		t.Errorf("got fatal XIDs %v; want none", l.Fatal)
	}
}

// Whatever a host leaves out, or says twice, or says otherwise, is judged without a panic,
// and the same each time.
func TestChangedFactsAreJudged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	healthy := small(factstest.H100("a", 0))
	for round := range 40 {
		in := Input{Mode: Full, Job: Job{GPU: round%2 == 0, SharedDir: true}}
		for i := range 1 + round%4 {
			var tree any
			if err := json.Unmarshal(healthy, &tree); err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(change(random, tree))
			if err != nil {
				t.Fatal(err)
			}
			var h facts.Host
			_ = json.Unmarshal(b, &h) // what fits is taken
			in.Hosts = append(in.Hosts, Host{Name: fmt.Sprint("n", i), Facts: h, Ranks: round % 9})
		}
		one, two := fmt.Sprintf("%+v", Judge(in)), fmt.Sprintf("%+v", Judge(in))
		if one != two {
			t.Fatalf("round %d: got another report the second time", round)
		}
	}
}

// change drops and replaces values of a tree of JSON.
func change(random *rand.Rand, tree any) any {
	if random.IntN(40) == 0 {
		return []any{nil, -1, 1 << 40, "", "N/A", "Enabled", "Yes", true, []any{}, map[string]any{}}[random.IntN(10)]
	}
	switch node := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			node[key] = change(random, node[key])
		}
	case []any:
		for i := range node {
			node[i] = change(random, node[i])
		}
		if len(node) > 0 && random.IntN(10) == 0 {
			node = append(node, node[0])
		}
		return node
	}
	return tree
}
