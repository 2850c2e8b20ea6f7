package output

import (
	"math/rand/v2"
	"testing"
)

// TestOrder: whatever the number of records, each stream gets out what it put in.
func TestOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var o order
	streams := make([]stream, 5)
	var in, out [5]int
	for i := range streams {
		streams[i].rank = i
	}
	take := func() {
		r := o.first()
		n := 1 + rnd.IntN(r.n)
		r.stream.taken += n
		out[r.stream.rank] += n
	}
	for round := range 4 {
		o.add(&streams[3], 2, 0) // whose newest record is old when the queue is full
		in[3] += 2
		for o.first() != nil && o.tail-o.head < 100 && round > 0 {
			take()
		}
		for i := range maxRecords + 1000 {
			n := 1 + rnd.IntN(3)
			o.add(&streams[i%3], n, int64(i/7))
			in[i%3] += n
		}
		if n := o.tail - o.head; n > maxRecords+4 {
			t.Errorf("round %d: got %d records; want at most %d", round, n, maxRecords+4)
		}
		for i := 3; i < 5; i++ {
			o.add(&streams[i], 1, 0)
			in[i]++
		}
		for o.first() != nil && (round%2 == 0 || o.tail-o.head > 1) {
			take()
		}
	}
	for o.first() != nil {
		take()
	}
	if in != out {
		t.Errorf("got %v bytes out; want %v", out, in)
	}
}
