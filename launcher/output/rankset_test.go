package output

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestRankSet(t *testing.T) {
	for _, tt := range []struct {
		ranks []int
		want  string
	}{
		{nil, ""},
		{[]int{0}, "0"},
		{[]int{0, 1}, "0-1"},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7, 9}, "0-7,9"},
		{[]int{3, 5, 7}, "3,5,7"},
		{[]int{65534, 65535}, "65534-65535"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if got := RankSet(tt.ranks); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// parseRankSet is the inverse of RankSet.
func parseRankSet(text string) (ranks []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		first, err1 := strconv.Atoi(a)
		last, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || last < first || isRange && first == last || len(ranks) > 0 && first <= ranks[len(ranks)-1]+1 {
			return nil, fmt.Errorf("%q is not as RankSet writes it", part)
		}
		for r := first; r <= last; r++ {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// TestRankSetInverse: what is written is read as the same set, whatever the set is.
func TestRankSetInverse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + rnd.IntN(300)
		var set rankSet
		var want []int
		for _, r := range rnd.Perm(size)[:rnd.IntN(size+1)] {
			set.add(r, size)
			want = append(want, r)
		}
		slices.Sort(want)
		if got := set.list(); !slices.Equal(got, want) {
			t.Fatalf("list: got %v; want %v", got, want)
		}
		if got, err := parseRankSet(RankSet(want)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, %v; want %v", RankSet(want), got, err, want)
		}
	}
}
