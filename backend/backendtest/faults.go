package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorun/backend"
)

// calls that differ, with words that their errors must have.
var mismatches = []struct {
	name             string
	usual, odd       func(c backend.Comm) backend.Handle
	usualHas, oddHas string
}{
	{"count", sumOf(1000), sumOf(1001), "1000 float32", "1001 float32"},
	{"count-none", sumOf(1), sumOf(0), "1 float32", "0 float32"},
	{"count-long", sumOf(50000), sumOf(90000), "50000 float32", "90000 float32"},
	{"count-short-and-long", sumOf(300000), sumOf(10), "300000 float32", "10 float32"},
	{"type", sumOf(1000), reduceOf[int32](1000, backend.Sum), "1000 float32", "1000 int32"},
	{"operation", sumOf(1000), reduceOf[float32](1000, backend.Max), "sum", "max"},
	{"collective", sumOf(1000), broadcastOf(1000, 0), "allreduce", "broadcast"},
	{"collective-long", sumOf(50000), broadcastOf(50000, 1), "allreduce", "broadcast"},
	{"collective-and-barrier", broadcastOf(1000, 1), barrierOf, "broadcast", "barrier"},
	{"barrier-and-collective", barrierOf, sumOf(1), "barrier", "allreduce"},
	{"root", broadcastOf(1000, 0), broadcastOf(1000, 1), "root 0", "root 1"},
	{"root-long", broadcastOf(50000, 1), broadcastOf(50000, 0), "root 1", "root 0"},
	{"broadcast-count", broadcastOf(1000, 1), broadcastOf(999, 1), "1000 int64", "999 int64"},
}

func sumOf(count int) func(backend.Comm) backend.Handle {
	return reduceOf[float32](count, backend.Sum)
}

func reduceOf[T backend.Element](count int, op backend.Op) func(backend.Comm) backend.Handle {
	return func(c backend.Comm) backend.Handle {
		s := backend.Of(numbers[T](c.Rank(), count))
		return c.AllReduce(s, s, op)
	}
}

func broadcastOf(count, root int) func(backend.Comm) backend.Handle {
	return func(c backend.Comm) backend.Handle {
		s := backend.Of(numbers[int64](c.Rank(), count))
		return c.Broadcast(s, s, root)
	}
}

func barrierOf(c backend.Comm) backend.Handle { return c.Barrier() }

// testMismatch lets one rank, in turn, make another call than the others.
func testMismatch(t *testing.T, b Backend) {
	b.forAlgos(t, func(t *testing.T, algo string) {
		for _, tt := range mismatches {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				for _, size := range []int{2, 4} {
					for odd := range size {
						mismatch(t, b.open(t, size, algo), odd, tt.usual, tt.odd, tt.usualHas, tt.oddHas)
					}
				}
			})
		}
	})
}

func mismatch(t *testing.T, w *world, odd int, usual, other func(backend.Comm) backend.Handle, usualHas, oddHas string) {
	errs := fails[*backend.MismatchError](w, -1, func(c backend.Comm) backend.Handle {
		if c.Rank() == odd {
			return other(c)
		}
		return usual(c)
	})
	for rank, e := range errs {
		has := [2]string{usualHas, usualHas}
		switch odd {
		case e.Ranks[0]:
			has[0] = oddHas
		case e.Ranks[1]:
			has[1] = oddHas
		default:
			t.Errorf("rank %d: got ranks %v; want rank %d among them", rank, e.Ranks, odd)
		}
		if !strings.Contains(e.Calls[0], has[0]) || !strings.Contains(e.Calls[1], has[1]) || e.Ranks[0] >= e.Ranks[1] {
			t.Errorf("rank %d: got %q of ranks %v; want %q", rank, e.Calls, e.Ranks, has)
		}
	}
}

// testArguments has one rank make a call that cannot be right.
func testArguments(t *testing.T, b Backend) {
	s := make([]int32, 10)
	for name, call := range map[string]func(c backend.Comm) backend.Handle{
		"counts": func(c backend.Comm) backend.Handle {
			return c.AllReduce(backend.Of(s[:4]), backend.Of(s[5:8]), backend.Sum)
		},
		"types": func(c backend.Comm) backend.Handle {
			return c.AllReduce(backend.Of(s[:4]), backend.Of(make([]uint32, 4)), backend.Sum)
		},
		"overlap": func(c backend.Comm) backend.Handle {
			return c.AllReduce(backend.Of(s[:4]), backend.Of(s[1:5]), backend.Sum)
		},
		"operation": func(c backend.Comm) backend.Handle { return c.AllReduce(backend.Of(s), backend.Of(s), 99) },
		"no-type": func(c backend.Comm) backend.Handle {
			return c.AllReduce(backend.Buffer{}, backend.Buffer{}, backend.Sum)
		},
		"root":      func(c backend.Comm) backend.Handle { return c.Broadcast(backend.Of(s), backend.Of(s), 3) },
		"root-less": func(c backend.Comm) backend.Handle { return c.Broadcast(backend.Of(s), backend.Of(s), -1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := b.open(t, 3, b.Algos[0])
			errs := fails[*backend.AbortError](w, -1, func(c backend.Comm) backend.Handle {
				if c.Rank() == 1 {
					return call(c)
				}
				return reduceOf[int32](4, backend.Sum)(c)
			})
			for rank, e := range errs {
				if e.Rank != 1 {
					t.Errorf("rank %d: got %v; want rank 1 named", rank, e)
				}
			}
		})
	}
}

// testDeath kills one rank, in turn: while the others wait for it, and while they do
// nothing.
func testDeath(t *testing.T, b Backend) {
	if b.Kill == nil {
		t.Skip("the backend has no Kill")
	}
	b.forAlgos(t, func(t *testing.T, algo string) {
		for dead := range 4 {
			for name, delay := range map[string]time.Duration{"waiting": 50 * time.Millisecond, "idle": -50 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s-rank-%d", name, dead), func(t *testing.T) {
					t.Parallel()
					w := b.open(t, 4, algo)
					time.AfterFunc(max(delay, 0), func() { b.Kill(w.comms[dead]) })
					<-time.After(max(-delay, 0))
					for rank, e := range fails[*backend.PeerError](w, dead, sumOf(50000)) {
						if rank != dead && e.Rank != dead {
							t.Errorf("rank %d: got %v; want rank %d named", rank, e, dead)
						}
					}
				})
			}
		}
	})
}

// testDeadline has one rank give up waiting for another that does not come.
func testDeadline(t *testing.T, b Backend) {
	const late, hasty, limit = 2, 1, 200 * time.Millisecond
	b.forAlgos(t, func(t *testing.T, algo string) {
		w := b.open(t, 4, algo)
		gaveUp := make(chan struct{})
		errs := w.each(func(c backend.Comm) error {
			ctx, start := w.ctx, time.Now()
			switch c.Rank() {
			case late:
				<-gaveUp
			case hasty:
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
				defer close(gaveUp)
			}
			err := sumOf(50000)(c).Wait(ctx)
			if took := time.Since(start); took > limit+soon || c.Rank() == hasty && took < limit {
				t.Errorf("rank %d: error after %v; want one after %v", c.Rank(), took, limit)
			}
			return err
		})
		for rank, err := range errs {
			e, ok := errors.AsType[*backend.AbortError](err)
			if !ok || e.Rank != hasty || !strings.Contains(err.Error(), "deadline") {
				t.Errorf("rank %d: got %v; want that rank %d gave up", rank, err, hasty)
			}
			if errors.Is(err, context.DeadlineExceeded) != (rank == hasty) {
				t.Errorf("rank %d: got %v; want context.DeadlineExceeded on rank %d only", rank, err, hasty)
			}
		}
	})
}

func testAbort(t *testing.T, b Backend) {
	cause := errors.New("out of coffee")
	w := b.open(t, 4, b.Algos[0])
	time.AfterFunc(20*time.Millisecond, func() { w.comms[3].Abort(cause) })
	for rank, e := range fails[*backend.AbortError](w, 3, sumOf(50000)) {
		if rank != 3 && (e.Rank != 3 || e.Err.Error() != cause.Error()) {
			t.Errorf("rank %d: got %v; want rank 3's reason", rank, e)
		}
	}
	if err := w.comms[3].Barrier().Wait(w.ctx); !errors.Is(err, cause) {
		t.Errorf("rank 3: got %v; want its own reason", err)
	}
	if err := w.comms[3].Close(w.ctx); !errors.Is(err, cause) {
		t.Errorf("close: got %v; want the reason", err)
	}
}

// testClose has one rank close as soon as its calls are made; what it sent arrives.
func testClose(t *testing.T, b Backend) {
	const count = 1 << 18
	w := b.open(t, 3, b.Algos[0])
	want := numbers[float32](0, count)
	w.run(func(c backend.Comm) error {
		s := numbers[float32](c.Rank(), count)
		h := c.Broadcast(backend.Of(s), backend.Of(s), 0)
		if c.Rank() == 0 {
			return c.Close(w.ctx) // waits for the call
		}
		if err := h.Wait(w.ctx); err != nil {
			return err
		}
		return equal(s, want)
	})
	for rank, e := range fails[*backend.PeerError](w, 0, sumOf(1)) {
		if rank != 0 && (e.Rank != 0 || !strings.Contains(e.Error(), "closed")) {
			t.Errorf("rank %d: got %v; want that rank 0 closed", rank, e)
		}
	}
}

func testClosed(t *testing.T, b Backend) {
	w := b.open(t, 2, b.Algos[0])
	w.run(func(c backend.Comm) error { return c.Close(w.ctx) })
	w.run(func(c backend.Comm) error { return c.Close(w.ctx) })
	for rank, err := range w.each(func(c backend.Comm) error { return c.Barrier().Wait(w.ctx) }) {
		if !errors.Is(err, backend.ErrClosed) {
			t.Errorf("rank %d: got %v; want %v", rank, err, backend.ErrClosed)
		}
	}
	for rank, err := range w.each(func(c backend.Comm) error { _, err := c.Split(w.ctx, 0, 0); return err }) {
		if !errors.Is(err, backend.ErrClosed) {
			t.Errorf("rank %d: split: got %v; want %v", rank, err, backend.ErrClosed)
		}
	}
}
