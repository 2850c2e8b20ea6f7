package probe

// pair is two hosts of a job, by index.
type pair struct{ From, To int }

// schedule returns rounds in which every two of n hosts meet once, and no host meets two
// others in one round: n-1 rounds of n/2 pairs, or n rounds if n is odd, in each of which
// one host rests. It is the circle method: one host stays, the others move on by one
// place a round. A pair's two hosts are in no particular order.
func schedule(n int) [][]pair {
	if n < 2 {
		return nil
	}
	places := n + n%2 // with an empty place, whose partner rests
	rounds := make([][]pair, 0, places-1)
	at := func(round, place int) int {
		if place == 0 {
			return 0
		}
		return 1 + (place-1+round)%(places-1)
	}
	for round := range places - 1 {
		pairs := make([]pair, 0, n/2)
		for i := range places / 2 {
			p := pair{at(round, i), at(round, places-1-i)}
			if p.From >= n || p.To >= n {
				continue
			}
			pairs = append(pairs, p)
		}
		rounds = append(rounds, pairs)
	}
	return rounds
}

// ring returns who tries whom so that each of n hosts tries the next one and the one
// before: every host is tried in both directions, over two different links if n > 2.
func ring(n int) []pair {
	if n < 2 {
		return nil
	}
	pairs := make([]pair, 0, 2*n)
	for i := range n {
		pairs = append(pairs, pair{i, (i + 1) % n})
		if n > 2 {
			pairs = append(pairs, pair{i, (i + n - 1) % n})
		}
	}
	return pairs
}
