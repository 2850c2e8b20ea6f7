package launcher

import (
	"math"
	"sync/atomic"

	"gorun/launcher/wire"
)

// creditBook knows how much output each stream may still send, and returns credit to
// the agents as output is written on. Its methods may be called from any goroutine,
// received and ended for one stream from one at a time.
type creditBook struct {
	step  int                             // bytes owed before a grant is sent
	room  []atomic.Int64                  // bytes that may come, by rank and stream
	owed  []atomic.Int64                  // bytes written on and not granted again
	held  atomic.Int64                    // bytes received and not yet written on
	grant func(rank, which int, n uint32) // sends the frame
}

// newCreditBook keeps the books of so many ranks whose streams began with credit bytes.
func newCreditBook(ranks, credit int, grant func(rank, which int, n uint32)) *creditBook {
	c := &creditBook{step: max(credit/4, 1), room: make([]atomic.Int64, 2*ranks), owed: make([]atomic.Int64, 2*ranks), grant: grant}
	for i := range c.room {
		c.room[i].Store(int64(credit))
	}
	return c
}

func index(rank, which int) int { return 2*rank + which - wire.Out }

// received notes n bytes that came from a rank. It returns false if there was no
// credit for them; then they do not count.
func (c *creditBook) received(rank, which, n int) bool {
	if c.room[index(rank, which)].Add(-int64(n)) < 0 {
		return false
	}
	c.held.Add(int64(n))
	return true
}

// ended notes that a stream has ended: no more may come.
func (c *creditBook) ended(rank, which int) { c.room[index(rank, which)].Store(math.MinInt64 / 2) }

// pending is the number of bytes received and not yet written on.
func (c *creditBook) pending() int64 { return c.held.Load() }

// written notes that n bytes of a rank's stream were written on, or dropped for good.
func (c *creditBook) written(rank, which, n int) {
	c.held.Add(-int64(n))
	i := index(rank, which)
	if c.owed[i].Add(int64(n)) < int64(c.step) {
		return
	}
	if n := c.owed[i].Swap(0); n > 0 {
		c.room[i].Add(n)
		c.grant(rank, which, uint32(n))
	}
}
