package launcher

import (
	"sync/atomic"

	"gorun/launcher/wire"
)

// creditBook returns credit to the agents as output is written on. Its methods may
// be called from any goroutine.
type creditBook struct {
	step  int                             // bytes owed before a grant is sent
	owed  []atomic.Int64                  // by rank and stream
	held  atomic.Int64                    // bytes received and not yet written on
	grant func(rank, which int, n uint32) // sends the frame
}

// newCreditBook keeps the books of so many ranks whose streams began with credit bytes.
func newCreditBook(ranks, credit int, grant func(rank, which int, n uint32)) *creditBook {
	return &creditBook{step: max(credit/4, 1), owed: make([]atomic.Int64, 2*ranks), grant: grant}
}

// received notes n bytes that came from a rank.
func (c *creditBook) received(n int) { c.held.Add(int64(n)) }

// pending is the number of bytes received and not yet written on.
func (c *creditBook) pending() int64 { return c.held.Load() }

// written notes that n bytes of a rank's stream were written on, or dropped for good.
func (c *creditBook) written(rank, which, n int) {
	c.held.Add(-int64(n))
	owed := &c.owed[2*rank+which-wire.Out]
	if owed.Add(int64(n)) < int64(c.step) {
		return
	}
	if n := owed.Swap(0); n > 0 {
		c.grant(rank, which, uint32(n))
	}
}
