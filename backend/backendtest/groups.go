package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gorun/backend"
)

// testBarrier checks that nobody leaves a barrier before all have come.
func testBarrier(t *testing.T, b Backend) {
	for _, size := range []int{1, 2, 3, 6, 8} {
		w := b.open(t, size, b.Algos[0])
		var came atomic.Int32
		w.run(func(c backend.Comm) error {
			for round := range 20 {
				came.Add(1)
				if err := c.Barrier().Wait(w.ctx); err != nil {
					return err
				}
				if n := int(came.Load()); n < (round+1)*size {
					return fmt.Errorf("left barrier %d of %d ranks after %d had come", round, size, n-round*size)
				}
			}
			return nil
		})
	}
}

// testOrder has many calls under way at once and waits for them in another order.
func testOrder(t *testing.T, b Backend) {
	const size, calls = 4, 60
	b.forAlgos(t, func(t *testing.T, algo string) {
		w := b.open(t, size, algo)
		w.run(func(c backend.Comm) error {
			random := rand.New(rand.NewPCG(1, 2)) // the same on all ranks
			handles, results := make([]backend.Handle, calls), make([][]int32, calls)
			for i := range calls {
				s := numbers[int32](c.Rank(), random.IntN(9000))
				switch random.IntN(3) {
				case 0:
					handles[i] = c.Broadcast(backend.Of(s), backend.Of(s), i%size)
				default:
					handles[i] = c.AllReduce(backend.Of(s), backend.Of(s), backend.Sum)
				}
				results[i] = s
			}
			random = rand.New(rand.NewPCG(1, 2))
			order := rand.New(rand.NewPCG(uint64(c.Rank()), 0)).Perm(calls)
			for _, i := range order {
				if err := handles[i].Wait(w.ctx); err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
			}
			for i := range calls {
				want := combined[int32](size, random.IntN(9000), backend.Sum)
				if random.IntN(3) == 0 {
					want = numbers[int32](i%size, len(want))
				}
				if err := equal(results[i], want); err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
			}
			return nil
		})
	})
}

func testSplit(t *testing.T, b Backend) {
	const size = 6
	w := b.open(t, size, b.Algos[0])
	w.run(func(c backend.Comm) error {
		color := c.Rank() % 2
		if c.Rank() == 5 {
			color = -1
		}
		child, err := c.Split(w.ctx, color, -c.Rank()) // ranks in reverse
		if err != nil {
			return err
		}
		if color < 0 {
			if child != nil {
				return errors.New("got a communicator for a negative color")
			}
			return c.Barrier().Wait(w.ctx)
		}
		defer child.Close(w.ctx)
		members := [][]int{{4, 2, 0}, {3, 1}}[color]
		if want := slices.Index(members, c.Rank()); child.Size() != len(members) || child.Rank() != want {
			return fmt.Errorf("got rank %d of %d; want %d of %d", child.Rank(), child.Size(), want, len(members))
		}
		return useBoth(w.ctx, c, child, members)
	})
}

// useBoth has calls on a communicator and its child under way at once, and splits
// the child again.
func useBoth(ctx context.Context, c, child backend.Comm, members []int) error {
	outer, sum := c.Barrier(), []int64{int64(c.Rank())}
	if err := child.AllReduce(backend.Of(sum), backend.Of(sum), backend.Sum).Wait(ctx); err != nil {
		return err
	}
	want := int64(0)
	for _, m := range members {
		want += int64(m)
	}
	if err := equal(sum, []int64{want}); err != nil {
		return err
	}
	if err := outer.Wait(ctx); err != nil {
		return err
	}
	single, err := child.Split(ctx, child.Rank(), 0)
	if err != nil {
		return err
	}
	if single.Size() != 1 {
		return fmt.Errorf("second split: got %d ranks; want 1", single.Size())
	}
	return single.Close(ctx)
}

// testSplitError checks that a rank that does not come to a Split, and one that ends
// in it, are noticed by all.
func testSplitError(t *testing.T, b Backend) {
	w := b.open(t, 3, b.Algos[0])
	ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
	defer cancel()
	errs := w.each(func(c backend.Comm) error {
		if c.Rank() == 2 {
			return nil
		}
		_, err := c.Split(ctx, 0, 0)
		return err
	})
	for rank, err := range errs[:2] {
		if _, ok := errors.AsType[*backend.AbortError](err); !ok {
			t.Errorf("rank %d: got %v; want an abort", rank, err)
		}
	}
	if _, err := w.comms[2].Split(w.ctx, 0, 0); err == nil {
		t.Error("rank 2: got no error from a communicator that is dead")
	}
}
