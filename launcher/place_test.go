package launcher

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
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
		over     bool
		max      int // of the first host
		want     string
		wantHave int // of a SlotsError
	}{
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
			j := Job{Apps: []App{{Args: []string{"x"}, NP: tt.np}}, PerHost: tt.ppn, Oversubscribe: tt.over}
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

func TestPlaceNumbersLocalRanks(t *testing.T) {
	l, err := Job{Apps: []App{{NP: 5}}}.Place(offersOf(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l.Ranks), "[{0 0 0} {0 1 0} {1 0 0} {1 1 0} {1 2 0}]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestPlaceHandsOutPrograms(t *testing.T) {
	l, err := Job{Apps: []App{{NP: 1}, {NP: 2}}}.Place(offersOf(2, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l.Ranks), "[{0 0 0} {0 1 1} {1 0 1}]"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// With several programs nobody could say which of them takes the rest.
func TestPlaceNeedsCountsOfSeveralPrograms(t *testing.T) {
	if l, err := (Job{Apps: []App{{NP: 1}, {}}}).Place(offersOf(2, 2)); err == nil {
		t.Errorf("got %+v; want an error", l)
	}
}
