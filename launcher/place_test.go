package launcher

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gorun/hostfile"
)

// show writes a layout as "a a b b": the host of each rank.
func show(l Layout, offers []Offer) string {
	var s []string
	for _, p := range l.Ranks {
		s = append(s, offers[p.Host].Name)
	}
	return strings.Join(s, " ")
}

// offersOf makes offers a, b, … with so many slots each, which are their limits too.
func offersOf(slots ...int) []Offer {
	var out []Offer
	for i, n := range slots {
		out = append(out, Offer{Name: string(rune('a' + i)), Slots: n, Limit: n})
	}
	return out
}

func TestPlace(t *testing.T) {
	tests := []struct {
		name     string
		slots    []int
		np, ppn  int
		by       Order
		over     bool
		max      int // of the first host
		want     string
		wantHave int // of a SlotsError
	}{
		// Here mpirun 4.1.4, which shares averages out, gives b three ranks and c one.
		{name: "in-turn", slots: []int{1, 3, 2}, np: 5, by: ByNode, want: "a b c b c"},
		{name: "in-turn-up-to-max", slots: []int{2, 2}, np: 5, by: ByNode, over: true, max: 2, want: "a b a b b"},
		{name: "in-turn-beyond-all", slots: []int{2, 2}, np: 5, by: ByNode, wantHave: 4},
		{name: "in-turn-ppn", slots: []int{3, 3}, np: 4, ppn: 2, by: ByNode, want: "a b a b"},
		{name: "in-turn-ppn-too-many", slots: []int{3, 3}, np: 5, ppn: 2, by: ByNode, over: true, wantHave: 4},
		{name: "host-by-host", slots: []int{2, 2}, np: 4, want: "a a b b"},
		{name: "all-slots", slots: []int{1, 3}, want: "a b b b"},
		{name: "first-host-only", slots: []int{4, 4}, np: 3, want: "a a a"},
		{name: "too-many", slots: []int{2, 2}, np: 5, wantHave: 4},
		{name: "oversubscribed-evenly", slots: []int{2, 2}, np: 5, over: true, want: "a a a b b"},
		{name: "oversubscribed-up-to-max", slots: []int{2, 2}, np: 7, over: true, max: 2, want: "a a b b b b b"},
		{name: "oversubscribed-beyond-all", slots: []int{1}, np: 3, over: true, max: 2, wantHave: 2},
		{name: "ppn-spreads", slots: []int{4, 4}, np: 4, ppn: 2, want: "a a b b"},
		{name: "ppn-without-np", slots: []int{4, 4}, ppn: 1, want: "a b"},
		{name: "ppn-not-full", slots: []int{4, 4}, np: 3, ppn: 2, want: "a a b"},
		{name: "ppn-above-slots", slots: []int{2, 2}, np: 6, ppn: 3, wantHave: 4},
		{name: "ppn-above-slots-oversubscribed", slots: []int{2, 2}, np: 6, ppn: 3, over: true, want: "a a a b b b"},
		{name: "ppn-hosts-too-few", slots: []int{4, 4}, np: 5, ppn: 2, wantHave: 4},
		{name: "ppn-hosts-too-few-oversubscribed", slots: []int{4, 4}, np: 5, ppn: 2, over: true, wantHave: 4},
		{name: "host-without-slots", slots: []int{0, 2}, np: 2, want: "b b"},
		{name: "host-without-slots-ppn", slots: []int{0, 2}, ppn: 1, want: "b"},
		{name: "host-without-slots-oversubscribed", slots: []int{0, 2}, np: 3, over: true, want: "b b b"},
		{name: "no-slots-at-all", slots: []int{0, 0}, wantHave: 0},
		{name: "no-slots-oversubscribed", slots: []int{0, 0}, np: 2, over: true, wantHave: 0},
		{name: "absurd-slots", slots: []int{math.MaxInt, math.MaxInt}, wantHave: MaxRanks},
		{name: "absurd-slots-for-few", slots: []int{math.MaxInt, math.MaxInt}, np: 2, want: "a a"},
		{name: "absurd-ppn", slots: []int{2, 2}, np: 2, ppn: math.MaxInt, over: true, want: "a a"},
		{name: "quite-absurd", slots: []int{2, 2}, np: math.MaxInt, over: true, wantHave: MaxRanks},
		{name: "absurd", slots: []int{2, 2}, np: 99999, over: true, wantHave: MaxRanks},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			offers := offersOf(tt.slots...)
			offers[0].Max = tt.max
			j := Job{Apps: []App{{Args: []string{"x"}, NP: tt.np}}, PerHost: tt.ppn, MapBy: tt.by, Oversubscribe: tt.over}
			l, err := j.Place(offers)
			if tt.want == "" {
				e, ok := errors.AsType[*SlotsError](err)
				if !ok || e.Have != tt.wantHave {
					t.Fatalf("got %v (%+v); want a SlotsError with %d slots", err, e, tt.wantHave)
				}
				return
			}
			if got := show(l, offers); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// Where Open MPI's mpirun 4.1.4 puts ranks, as its --display-map shows them: the host
// of each rank and the number of its program.
func TestPlaceAsMpirun(t *testing.T) {
	tests := []struct {
		args  string // mpirun's
		slots []int
		job   Job
		want  string
	}{
		{"-np 4", []int{2, 2}, jobOf(4), "a0 a0 b0 b0"},
		{"-np 4 --map-by node", []int{2, 2}, Job{Apps: appsOf(4), MapBy: ByNode}, "a0 b0 a0 b0"},
		{"--map-by node", []int{2, 2}, Job{Apps: appsOf(0), MapBy: ByNode}, "a0 b0 a0 b0"},
		{"-np 3 --map-by node", []int{2, 2}, Job{Apps: appsOf(3), MapBy: ByNode}, "a0 b0 a0"},
		{"-np 4 --map-by slot --rank-by node", []int{2, 2}, Job{Apps: appsOf(4), MapBy: BySlot, RankBy: ByNode}, "a0 b0 a0 b0"},
		{"-np 4 --map-by node --rank-by slot", []int{2, 2}, Job{Apps: appsOf(4), MapBy: ByNode, RankBy: BySlot}, "a0 a0 b0 b0"},
		{"-np 4 --map-by node", []int{3, 1}, Job{Apps: appsOf(4), MapBy: ByNode}, "a0 b0 a0 a0"},
		{"-np 4 --rank-by node", []int{3, 1}, Job{Apps: appsOf(4), RankBy: ByNode}, "a0 b0 a0 a0"},
		{"-np 4 --map-by node --rank-by slot", []int{3, 1}, Job{Apps: appsOf(4), MapBy: ByNode, RankBy: BySlot}, "a0 a0 a0 b0"},
		{"-np 6 --map-by node", []int{1, 3, 2}, Job{Apps: appsOf(6), MapBy: ByNode}, "a0 b0 c0 b0 c0 b0"},
		{"-np 5 --map-by node --oversubscribe", []int{2, 2}, Job{Apps: appsOf(5), MapBy: ByNode, Oversubscribe: true}, "a0 b0 a0 b0 a0"},
		{"-np 6 --map-by node --oversubscribe", []int{3, 1}, Job{Apps: appsOf(6), MapBy: ByNode, Oversubscribe: true}, "a0 b0 a0 b0 a0 b0"},
		{"-np 7 --map-by node --oversubscribe", []int{3, 1, 1}, Job{Apps: appsOf(7), MapBy: ByNode, Oversubscribe: true}, "a0 b0 c0 a0 b0 c0 a0"},
		{"-np 6 --oversubscribe", []int{3, 1}, Job{Apps: appsOf(6), Oversubscribe: true}, "a0 a0 a0 a0 b0 b0"},
		{"-np 7 --oversubscribe", []int{3, 1}, Job{Apps: appsOf(7), Oversubscribe: true}, "a0 a0 a0 a0 a0 b0 b0"},
		{"-np 7 --oversubscribe", []int{3, 1, 1}, Job{Apps: appsOf(7), Oversubscribe: true}, "a0 a0 a0 a0 b0 b0 c0"},
		{"--map-by ppr:1:node", []int{2, 2}, Job{Apps: appsOf(0), PerHost: 1}, "a0 b0"},
		{"-np 1 --map-by ppr:1:node", []int{2, 2}, Job{Apps: appsOf(1), PerHost: 1}, "a0"},
		{"-np 3 --map-by ppr:2:node", []int{2, 2}, Job{Apps: appsOf(3), PerHost: 2}, "a0 a0 b0"},
		{"-np 4 --map-by ppr:2:node --rank-by node", []int{2, 2}, Job{Apps: appsOf(4), PerHost: 2, RankBy: ByNode}, "a0 b0 a0 b0"},
		{"-np 6 --map-by ppr:3:node --oversubscribe", []int{2, 2}, Job{Apps: appsOf(6), PerHost: 3, Oversubscribe: true}, "a0 a0 a0 b0 b0 b0"},
		{"--map-by ppr:2:node", []int{4, 4}, Job{Apps: appsOf(0), PerHost: 2}, "a0 a0 b0 b0"},
		{"-np 1 x : -np 3 y", []int{2, 2}, jobOf(1, 3), "a0 a1 b1 b1"},
		{"--map-by node -np 1 x : -np 3 y", []int{2, 2}, Job{Apps: appsOf(1, 3), MapBy: ByNode}, "a0 a1 b1 b1"},
		{"--map-by node -np 2 x : -np 2 y", []int{2, 2}, Job{Apps: appsOf(2, 2), MapBy: ByNode}, "a0 b0 a1 b1"},
		{"--map-by node -np 3 x : -np 1 y", []int{2, 2}, Job{Apps: appsOf(3, 1), MapBy: ByNode}, "a0 b0 a0 b1"},
		{"--map-by node -np 1 x : -np 1 y : -np 2 z", []int{2, 2}, Job{Apps: appsOf(1, 1, 2), MapBy: ByNode}, "a0 a1 b2 b2"},
		{"--map-by ppr:1:node -np 2 x : -np 2 y", []int{2, 2}, Job{Apps: appsOf(2, 2), PerHost: 1}, "a0 b0 a1 b1"},
		{"--map-by ppr:1:node x : y", []int{2, 2}, Job{Apps: appsOf(0, 0), PerHost: 1}, "a0 b0 a1 b1"},
		{"--oversubscribe -np 3 x : -np 3 y", []int{2, 2}, Job{Apps: appsOf(3, 3), Oversubscribe: true}, "a0 a0 b0 a1 b1 b1"},
		{"-H a:2 -np 2 x : -H b:2 -np 2 y", []int{2, 2}, Job{Apps: []App{appOn(2, "a:2"), appOn(2, "b:2")}}, "a0 a0 b1 b1"},
		{"-H a:2 x : -H b:2 y", []int{2, 2}, Job{Apps: []App{appOn(0, "a:2"), appOn(0, "b:2")}}, "a0 a0 b1 b1"},
		{"-H a:2 -np 1 x : -H b:2,a:2 -np 2 y", []int{2, 2}, Job{Apps: []App{appOn(1, "a:2"), appOn(2, "a:2,b:2")}}, "a0 a1 b1"},
		{"-H a:2 -np 2 x : -H b:2,a:2 -np 2 y", []int{2, 2}, Job{Apps: []App{appOn(2, "a:2"), appOn(2, "a:2,b:2")}}, "a0 a0 b1 b1"},
		{"-H a:2,b:2 -np 1 x : -np 3 y", []int{2, 2}, Job{Apps: []App{appOn(1, "a:2,b:2"), {Args: []string{"y"}, NP: 3}}}, "a0 a1 b1 b1"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			offers := offersOf(tt.slots...)
			l, err := tt.job.Place(offers)
			var got []string
			for _, p := range l.Ranks {
				got = append(got, fmt.Sprint(offers[p.Host].Name, p.App))
			}
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, %v; want %q", strings.Join(got, " "), err, tt.want)
			}
		})
	}
}

func jobOf(nps ...int) Job { return Job{Apps: appsOf(nps...)} }

// appsOf makes programs x, y, z of so many ranks.
func appsOf(nps ...int) []App {
	var apps []App
	for i, np := range nps {
		apps = append(apps, App{Args: []string{string(rune('x' + i))}, NP: np})
	}
	return apps
}

// appOn is a program with a list of hosts of its own.
func appOn(np int, list string) App {
	hosts, err := hostfile.ParseList(list)
	if err != nil {
		panic(err) // a test is wrong
	}
	return App{Args: []string{list}, NP: np, Hosts: hosts}
}

// Programs that do not fit are refused, with what is left for them.
func TestPlaceRefusesPrograms(t *testing.T) {
	tests := []struct {
		name string
		job  Job
		want string // program, need and have of a SlotsError
	}{
		{"second", jobOf(3, 2), "y needs 2, has 1"},
		{"own-list-is-full", Job{Apps: []App{appOn(2, "a:2"), appOn(1, "a:2")}}, "a:2 needs 1, has 0"},
		{"own-list-is-small", Job{Apps: []App{appOn(2, "a:1"), appOn(1, "b:2")}}, "a:1 needs 2, has 1"},
		{"own-list-of-nobody", Job{Apps: []App{appOn(2, "a:1"), appOn(1, "c:2")}, Oversubscribe: true}, "c:2 needs 1, has 0"},
		{"per-host", Job{Apps: appsOf(2, 0), PerHost: 2}, "y needs 4, has 2"},
		{"nothing-left", Job{Apps: []App{{Args: []string{"x"}, NP: 4}, appOn(0, "a:2,b:2")}}, "a:2,b:2 needs 0, has 0"},
		{"together-too-many", Job{Apps: appsOf(MaxRanks, 1), Oversubscribe: true}, "y needs 1, has 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.job.Place(offersOf(2, 2))
			e, ok := errors.AsType[*SlotsError](err)
			if !ok {
				t.Fatalf("got %v, %v; want a SlotsError", l, err)
			}
			if got := fmt.Sprintf("%s needs %d, has %d", e.Program, e.Need, e.Have); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// With several programs nobody could say which of them takes the rest.
func TestPlaceNeedsCountsOfSeveralPrograms(t *testing.T) {
	_, err := jobOf(1, 0).Place(offersOf(2, 2))
	if e, ok := errors.AsType[*CountError](err); !ok || e.Program != "y" {
		t.Errorf("got %v; want a CountError of y", err)
	}
}

func TestPlaceNumbersLocalRanks(t *testing.T) {
	l, err := Job{Apps: appsOf(3, 2), MapBy: ByNode}.Place(offersOf(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l.Ranks), "[{0 0 0} {1 0 0} {0 1 0} {1 1 1} {1 2 1}]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// Node 0 is where rank 0 is, wherever that host stands in the list.
func TestHostsByNode(t *testing.T) {
	l, err := Job{Apps: []App{appOn(1, "c:1"), appOn(1, "a:1")}}.Place(offersOf(1, 1, 1))
	if err != nil || fmt.Sprint(l.Hosts()) != "[2 0]" {
		t.Errorf("got %v, %v; want [2 0]", l.Hosts(), err)
	}
}

// Whatever is asked for: no host gets more than its limit, all ranks are placed, local
// ranks are numbered in the order of ranks, and leaving out the hosts without
// ranks changes nothing, as only the others are connected to.
func TestPlaceHoldsItsPromises(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	placed := 0
	for range 20000 {
		job, offers := randomJob(rng)
		l, err := job.Place(offers)
		if err != nil {
			continue
		}
		placed++
		checkLayout(t, job, offers, l)
		var used []Offer
		for h, o := range offers {
			if l.Count[h] > 0 {
				used = append(used, o)
			}
		}
		again, err := job.Place(used)
		if err != nil || show(again, used) != show(l, offers) {
			t.Fatalf("%+v on %+v: got %q, and %q, %v without the unused hosts", job, offers, show(l, offers), show(again, used), err)
		}
	}
	if placed < 5000 {
		t.Errorf("only %d jobs were placed: the test tests little", placed)
	}
}

func randomJob(rng *rand.Rand) (Job, []Offer) {
	orders := []Order{"", BySlot, ByNode}
	job := Job{MapBy: orders[rng.IntN(3)], RankBy: orders[rng.IntN(3)], Oversubscribe: rng.IntN(3) == 0, PerHost: max(rng.IntN(6)-2, 0)}
	var offers []Offer
	for h := range 1 + rng.IntN(4) {
		o := Offer{Name: string(rune('a' + h)), Slots: rng.IntN(5)}
		o.Limit = o.Slots
		if rng.IntN(3) == 0 {
			o.Max = o.Slots + rng.IntN(3)
		}
		offers = append(offers, o)
	}
	for range 1 + rng.IntN(3) {
		app := App{Args: []string{"x"}, NP: rng.IntN(6)}
		if rng.IntN(4) == 0 {
			app.Hosts = []hostfile.Host{{Name: "a", Slots: rng.IntN(3)}, {Name: "b", Slots: rng.IntN(4) - 1}}
		}
		job.Apps = append(job.Apps, app)
	}
	return job, offers
}

func checkLayout(t *testing.T, job Job, offers []Offer, l Layout) {
	t.Helper()
	local, ofApp := make([]int, len(offers)), make([]int, len(job.Apps))
	app := 0
	for rank, p := range l.Ranks {
		if p.Local != local[p.Host] || p.App < app {
			t.Fatalf("%+v on %+v: rank %d is at %+v, after %d ranks there", job, offers, rank, p, local[p.Host])
		}
		local[p.Host]++
		ofApp[p.App]++
		app = p.App
	}
	for i, a := range job.Apps {
		if a.NP > 0 && ofApp[i] != a.NP {
			t.Fatalf("%+v on %+v: program %d has %d ranks", job, offers, i, ofApp[i])
		}
	}
	for h, o := range offers {
		if l.Count[h] != local[h] || l.Count[h] > job.limit(o) {
			t.Fatalf("%+v on %+v: host %d has %d ranks, counted as %d", job, offers, h, local[h], l.Count[h])
		}
	}
}

func TestContiguous(t *testing.T) {
	tests := []struct {
		job  Job
		want bool
	}{
		{jobOf(4), true},
		{Job{Apps: appsOf(2), MapBy: ByNode}, true},
		{Job{Apps: appsOf(3), MapBy: ByNode}, false},
		{Job{Apps: appsOf(4), MapBy: ByNode, RankBy: BySlot}, true},
		{Job{Apps: appsOf(3, 3), Oversubscribe: true}, false},
	}
	for _, tt := range tests {
		l, err := tt.job.Place(offersOf(2, 2))
		if got := l.contiguous(); err != nil || got != tt.want {
			t.Errorf("%+v: got %v, %v; want %v", l, got, err, tt.want)
		}
	}
}
