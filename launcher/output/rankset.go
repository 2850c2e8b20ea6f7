package output

import (
	"math/bits"
	"strconv"
)

// RankSet writes ranks, which are in order and each there once, as "0-7,9".
func RankSet(ranks []int) string {
	var p []byte
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		p = appendRange(p, ranks[i], ranks[j])
		i = j + 1
	}
	return string(p)
}

// appendRange appends the ranks from first to last, after a comma unless p is empty.
func appendRange(p []byte, first, last int) []byte {
	if len(p) > 0 {
		p = append(p, ',')
	}
	p = strconv.AppendInt(p, int64(first), 10)
	if last > first {
		p = append(p, '-')
		p = strconv.AppendInt(p, int64(last), 10)
	}
	return p
}

// rankSet is a set of ranks that takes little memory while it has one. Its zero value
// is empty.
type rankSet struct {
	one  int // the rank, while bits is nil
	n    int
	bits []uint64 // a bit for each rank
}

// add adds a rank of so many that was not in the set.
func (s *rankSet) add(rank, ranks int) {
	s.n++
	if s.n == 1 {
		s.one = rank
		return
	}
	if s.bits == nil {
		s.bits = make([]uint64, (ranks+63)/64)
		s.bits[s.one/64] |= 1 << (s.one % 64)
	}
	s.bits[rank/64] |= 1 << (rank % 64)
}

// list returns the ranks in order.
func (s *rankSet) list() []int {
	if s.bits == nil {
		return []int{s.one}[:s.n]
	}
	ranks := make([]int, 0, s.n)
	for i, word := range s.bits {
		for ; word != 0; word &= word - 1 {
			ranks = append(ranks, 64*i+bits.TrailingZeros64(word))
		}
	}
	return ranks
}
