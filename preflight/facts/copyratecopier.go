package facts

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	copyWindow  = 2 * time.Millisecond   // in which copies count
	copyWindows = 3                      // of all cores at least, of which the best counts
	copyFewest  = 16                     // pieces that count at least
	copyLongest = 100 * time.Millisecond // for one core, where other processes disturb it
)

// copier copies memory, and says what time it is.
type copier struct {
	now  func() time.Duration
	copy func(to, from []byte)
}

// span is when a piece was copied.
type span struct{ began, ended time.Duration }

// alone is how many bytes per second one thread copies while it has a core. It takes the
// pieces that are quicker than three quarters, as the others may have taken longer because
// another process had the core for some time. If those vary much, too, it goes on; the
// quickest do not matter, as what has just been touched is still in the cache.
func (c copier) alone(ctx context.Context, memory []byte) float64 {
	touch(memory)
	var took []time.Duration
	for start, enough := c.now(), false; !enough && ctx.Err() == nil; {
		for window := c.now(); ctx.Err() == nil && (len(took) < copyFewest || c.now()-window < copyWindow); {
			p := c.piece(memory, len(took))
			took = append(took, max(p.ended-p.began, 1))
		}
		slices.Sort(took)
		enough = len(took) > 0 && took[len(took)/4] <= 3*took[len(took)/8]/2 || c.now()-start >= copyLongest
	}
	if len(took) == 0 {
		return 0
	}
	return copyPiece / took[len(took)/4].Seconds()
}

// together is how many bytes per second so many threads copy in all, each within its part
// of memory. All copy until a common end. What they copy within the same time counts, so
// that threads which wait for a core count as such.
func (c copier) together(ctx context.Context, threads int, memory []byte) float64 {
	spans := make([][]span, threads)
	start := make(chan struct{})
	var begin time.Duration
	var pieces atomic.Int64
	var ready, done sync.WaitGroup
	ready.Add(threads)
	part := len(memory) / threads
	for k := range threads {
		mine := memory[k*part : (k+1)*part]
		done.Go(func() {
			touch(mine)
			ready.Done()
			<-start
			for i, enough := 0, false; !enough && ctx.Err() == nil; i++ {
				p := c.piece(mine, i)
				spans[k] = append(spans[k], p)
				enough = pieces.Add(1) >= copyFewest && p.ended-begin >= copyWindows*copyWindow
			}
		})
	}
	ready.Wait()
	begin = c.now()
	close(start)
	done.Wait()
	return bestWindow(spans, begin, copyWindow)
}

// bestWindow is how many bytes per second all threads have copied together in the best of
// the windows that follow each other from begin to when the first thread ended. In others
// other processes may have had cores.
func bestWindow(spans [][]span, begin, window time.Duration) float64 {
	var best float64
	end := firstEnd(spans)
	for ; begin+window <= end; begin += window {
		pieces := 0.0
		for _, p := range slices.Concat(spans...) {
			within := min(p.ended, begin+window) - max(p.began, begin)
			pieces += float64(max(within, 0)) / float64(max(p.ended-p.began, 1))
		}
		best = max(best, pieces)
	}
	return best * copyPiece / window.Seconds()
}

// firstEnd is when the first of the threads has ended; 0 if one has not begun.
func firstEnd(spans [][]span) time.Duration {
	var ends []time.Duration
	for _, s := range spans {
		if len(s) == 0 {
			return 0
		}
		ends = append(ends, s[len(s)-1].ended)
	}
	return slices.Min(ends)
}

// piece copies the piece of that index on the way from one half of memory to the other, and
// back.
func (c copier) piece(memory []byte, index int) span {
	half := len(memory) / 2
	from, to := memory[:half], memory[half:]
	if index*copyPiece/half%2 == 1 {
		from, to = to, from
	}
	at := index * copyPiece % half
	began := c.now()
	c.copy(to[at:at+copyPiece], from[at:at+copyPiece])
	return span{began, c.now()}
}

// touch writes to each page: until then all are one page of zeros.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = byte(i >> 12)
	}
}
