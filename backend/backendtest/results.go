package backendtest

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorun/backend"
)

var allOps = []backend.Op{backend.Sum, backend.Prod, backend.Min, backend.Max, backend.Avg}

// testAllReduce compares results with a sum made in one place. The numbers are small
// integers, so that they are exact in any order.
func testAllReduce(t *testing.T, b Backend) {
	b.forAlgos(t, func(t *testing.T, algo string) {
		for _, size := range []int{1, 2, 3, 4, 5, 7, 13} {
			t.Run(fmt.Sprintf("ranks-%d", size), func(t *testing.T) {
				w := b.open(t, size, algo)
				for i, count := range []int{0, 1, 2, size - 1, size, size + 1, 63, 64, 65, 1000} {
					w.allReduceAll(count, i)
				}
				allReduce[float32](w, 10007, backend.Sum)
			})
		}
		t.Run("long", func(t *testing.T) {
			allReduce[float32](b.open(t, 2, algo), 1<<17+3, backend.Sum)
			w := b.open(t, 3, algo)
			allReduce[float64](w, 1<<17+3, backend.Avg)
			allReduce[uint8](w, 1<<17+3, backend.Max)
		})
	})
}

// allReduceAll tests every type, each with one of the operations: another for each i.
func (w *world) allReduceAll(count, i int) {
	w.t.Helper()
	for j, test := range []func(*world, int, backend.Op){
		allReduce[int8], allReduce[int16], allReduce[int32], allReduce[int64],
		allReduce[uint8], allReduce[uint16], allReduce[uint32], allReduce[uint64],
		allReduce[float32], allReduce[float64],
	} {
		test(w, count, allOps[(i+j)%len(allOps)])
	}
}

// allReduce tests one AllReduce from another buffer, and one in place.
func allReduce[T backend.Element](w *world, count int, op backend.Op) {
	w.t.Helper()
	want := combined[T](len(w.comms), count, op)
	w.run(func(c backend.Comm) error {
		src, dst := numbers[T](c.Rank(), count), make([]T, count)
		if err := c.AllReduce(backend.Of(dst), backend.Of(src), op).Wait(w.ctx); err != nil {
			return err
		}
		if err := equal(dst, want); err != nil {
			return fmt.Errorf("%v of %d %T: %w", op, count, T(0), err)
		}
		if err := equal(src, numbers[T](c.Rank(), count)); err != nil {
			return fmt.Errorf("%v of %d %T: src was written: %w", op, count, T(0), err)
		}
		if err := c.AllReduce(backend.Of(src), backend.Of(src), op).Wait(w.ctx); err != nil {
			return err
		}
		if err := equal(src, want); err != nil {
			return fmt.Errorf("%v of %d %T in place: %w", op, count, T(0), err)
		}
		return nil
	})
}

// numbers are the numbers that rank contributes: ±1 and ±2.
func numbers[T backend.Element](rank, count int) []T {
	s := make([]T, count)
	for i := range s {
		n := int64(1 + (3*rank+i)%2)
		if (rank+i)%5 == 0 {
			n = -n
		}
		s[i] = T(n)
	}
	return s
}

// combined is the result for numbers of size ranks.
func combined[T backend.Element](size, count int, op backend.Op) []T {
	s := numbers[T](0, count)
	for rank := 1; rank < size; rank++ {
		for i, x := range numbers[T](rank, count) {
			switch op {
			case backend.Sum, backend.Avg:
				s[i] += x
			case backend.Prod:
				s[i] *= x
			case backend.Min:
				s[i] = min(s[i], x)
			case backend.Max:
				s[i] = max(s[i], x)
			}
		}
	}
	if op == backend.Avg {
		for i := range s {
			s[i] /= T(size)
		}
	}
	return s
}

func equal[T backend.Element](got, want []T) error {
	if slices.Equal(got, want) {
		return nil
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("element %d: got %v; want %v", i, got[i], want[i])
		}
	}
	return fmt.Errorf("got %d elements; want %d", len(got), len(want))
}

// testBits checks that all ranks get the same bits, also for numbers whose sum
// depends on the order, and that a second run gives them again.
func testBits(t *testing.T, b Backend) {
	b.forAlgos(t, func(t *testing.T, algo string) {
		for _, size := range []int{2, 3, 6} {
			first := bitsOf(t, b, size, algo)
			if second := bitsOf(t, b, size, algo); first != second {
				t.Errorf("%d ranks: the second run gave other bits", size)
			}
		}
	})
}

// bitsOf returns the digest of some results, which must be the same on all ranks.
func bitsOf(t *testing.T, b Backend, size int, algo string) [sha256.Size]byte {
	w := b.open(t, size, algo)
	digests := make([][sha256.Size]byte, size)
	w.run(func(c backend.Comm) error {
		sum := sha256.New()
		for _, op := range allOps {
			for _, count := range []int{1, 100, 3001} {
				s := wild(c.Rank(), count)
				if err := c.AllReduce(backend.Of(s), backend.Of(s), op).Wait(w.ctx); err != nil {
					return err
				}
				sum.Write(backend.Of(s).Bytes())
			}
		}
		sum.Sum(digests[c.Rank()][:0])
		return nil
	})
	for rank, d := range digests {
		if d != digests[0] {
			t.Errorf("%d ranks: rank %d has other bits than rank 0", size, rank)
		}
	}
	return digests[0]
}

// wild returns numbers of all magnitudes, with denormals, infinities, zeros of both
// signs and NaNs of different bits.
func wild(rank, count int) []float32 {
	random := rand.New(rand.NewPCG(uint64(rank), uint64(count)))
	s := make([]float32, count)
	for i := range s {
		switch random.IntN(8) {
		case 0:
			s[i] = math.Float32frombits(random.Uint32())
		case 1:
			s[i] = math.Float32frombits(random.Uint32() & 0x807fffff)
		default:
			s[i] = float32(random.NormFloat64())
		}
	}
	return s
}

// testNaN checks what one rank's NaN, and infinities, do to all.
func testNaN(t *testing.T, b Backend) {
	b.forAlgos(t, func(t *testing.T, algo string) {
		w := b.open(t, 3, algo)
		notNumbers[float32](w)
		notNumbers[float64](w)
	})
}

func notNumbers[T float32 | float64](w *world) {
	w.t.Helper()
	nan, inf := T(math.NaN()), T(math.Inf(1))
	given := [][]T{{nan, 1, 1, 1, -inf, nan}, {1, nan, 1, 2, inf, inf}, {1, 1, nan, 3, 1, -inf}} // by rank
	for op, want := range map[backend.Op][]T{
		backend.Sum:  {nan, nan, nan, 6, nan, nan},
		backend.Prod: {nan, nan, nan, 6, -inf, nan},
		backend.Min:  {nan, nan, nan, 1, -inf, nan},
		backend.Max:  {nan, nan, nan, 3, inf, nan},
		backend.Avg:  {nan, nan, nan, 2, nan, nan},
	} {
		w.run(func(c backend.Comm) error {
			s := slices.Clone(given[c.Rank()])
			if err := c.AllReduce(backend.Of(s), backend.Of(s), op).Wait(w.ctx); err != nil {
				return err
			}
			same := func(x, y T) bool { return x == y || x != x && y != y }
			if !slices.EqualFunc(s, want, same) {
				return fmt.Errorf("%v of %T: got %v; want %v", op, s[0], s, want)
			}
			return nil
		})
	}
}

func testBroadcast(t *testing.T, b Backend) {
	for _, size := range []int{1, 2, 3, 4, 7, 8} {
		t.Run(fmt.Sprintf("ranks-%d", size), func(t *testing.T) {
			w := b.open(t, size, b.Algos[0])
			w.run(func(c backend.Comm) error {
				for root := range size {
					for _, count := range []int{0, 1, 3001} {
						if err := broadcastFrom(w, c, root, count); err != nil {
							return err
						}
					}
				}
				return broadcastFrom(w, c, size/2, 1<<17+1)
			})
		})
	}
}

func broadcastFrom(w *world, c backend.Comm, root, count int) error {
	want := numbers[int32](root+1, count)
	src, dst := backend.Buffer{}, make([]int32, count)
	if c.Rank() == root {
		src = backend.Of(slices.Clone(want))
	}
	if err := c.Broadcast(backend.Of(dst), src, root).Wait(w.ctx); err != nil {
		return fmt.Errorf("root %d: %w", root, err)
	}
	if err := equal(dst, want); err != nil {
		return fmt.Errorf("root %d, count %d: %w", root, count, err)
	}
	if c.Rank() != root {
		clear(dst)
	}
	if err := c.Broadcast(backend.Of(dst), backend.Of(dst), root).Wait(w.ctx); err != nil {
		return fmt.Errorf("root %d in place: %w", root, err)
	}
	return equal(dst, want)
}
