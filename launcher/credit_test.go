package launcher

import (
	"sync"
	"testing"

	"gorun/launcher/wire"
)

// TestCreditBook: no credit is lost or made up, whatever order writes come in.
func TestCreditBook(t *testing.T) {
	var mu sync.Mutex
	granted := map[[2]int]int{}
	book := newCreditBook(3, 64, func(rank, which int, n uint32) {
		mu.Lock()
		defer mu.Unlock()
		granted[[2]int{rank, which}] += int(n)
	})
	var wg sync.WaitGroup
	for rank := range 3 {
		for _, which := range []int{wire.Out, wire.Err} {
			wg.Go(func() {
				for range 1000 {
					if !book.received(rank, which, 7) {
						t.Error("credit was lost")
					}
					book.written(rank, which, 7)
				}
			})
		}
	}
	wg.Wait()
	if got := book.pending(); got != 0 {
		t.Errorf("pending: got %d; want 0", got)
	}
	for rank := range 3 {
		for _, which := range []int{wire.Out, wire.Err} {
			owed := int(book.owed[2*rank+which-wire.Out].Load())
			if got := granted[[2]int{rank, which}]; got+owed != 7000 || owed >= book.step {
				t.Errorf("rank %d stream %d: granted %d, still owed %d; want 7000 in all, less than %d owed", rank, which, got, owed, book.step)
			}
		}
	}
}

// TestStreamCredit: the credit of a job stays within its bound.
func TestStreamCredit(t *testing.T) {
	for _, ranks := range []int{1, 2, 16, 128, 4096, 32768} {
		c := streamCredit(ranks)
		if c < 512 || c > 1<<20 || c*2*ranks > jobCredit {
			t.Errorf("%d ranks: got %d bytes a stream, %d in all; want at most %d", ranks, c, c*2*ranks, jobCredit)
		}
	}
}
