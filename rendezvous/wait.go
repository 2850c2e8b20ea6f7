package rendezvous

import (
	"slices"
	"time"
)

// wait is a request that the Engine cannot answer yet.
type wait struct {
	origin
	name   name
	due    time.Time
	serial uint64 // orders waits that are due together
	index  int    // in the queue

	from          int      // get: who is to write the key, or -1
	meeting       *meeting // barrier
	missing, left []int    // barrier: what the host reported
}

// question is what a get asks.
type question struct {
	name name
	from int
}

func (w *wait) question() question { return question{w.name, w.from} }

// queue is a heap of waits, earliest first.
type queue []*wait

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].serial < q[j].serial
	}
	return q[i].due.Before(q[j].due)
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	w := x.(*wait)
	w.index = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return w
}

// without returns list without its element x, in the same array.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
