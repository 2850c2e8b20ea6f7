// Package backendtest is the conformance suite that every backend runs.
//
// The ranks of a test are goroutines of one process, each with a communicator of its
// own, so a run takes seconds. What only separate processes can show, such as a rank
// that is killed, is the backend's own test to write.
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorun/backend"
)

// Backend is what the suite must know of a backend.
type Backend struct {
	// Open returns the communicators, by rank, of a new world of size ranks that does
	// AllReduce by algo.
	Open func(ctx context.Context, size int, algo string) ([]backend.Comm, error)

	// Algos are the algorithms of AllReduce to test. "" is the backend's own choice.
	Algos []string

	// Kill ends a rank as the death of its process would: nothing is said to the
	// other ranks. If nil, death is not tested.
	Kill func(backend.Comm)
}

const (
	patience = 30 * time.Second // of every test's context: passes only if something hangs
	soon     = 5 * time.Second  // in which every rank must know of an error, on a busy machine too
)

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	for name, test := range map[string]func(*testing.T, Backend){
		"allreduce":   testAllReduce,
		"bits":        testBits,
		"nan":         testNaN,
		"broadcast":   testBroadcast,
		"barrier":     testBarrier,
		"order":       testOrder,
		"split":       testSplit,
		"split-error": testSplitError,
		"mismatch":    testMismatch,
		"arguments":   testArguments,
		"death":       testDeath,
		"deadline":    testDeadline,
		"abort":       testAbort,
		"close":       testClose,
		"closed":      testClosed,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// world is the communicators of one test, by rank.
type world struct {
	t     *testing.T
	ctx   context.Context
	comms []backend.Comm
}

// open makes a world that is closed when the test ends.
func (b Backend) open(t *testing.T, size int, algo string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	comms, err := b.Open(ctx, size, algo)
	if err != nil {
		t.Fatalf("open %d ranks: %v", size, err)
	}
	w := &world{t, ctx, comms}
	t.Cleanup(func() {
		ctx, cancelClose := context.WithTimeout(context.Background(), patience)
		defer cancelClose()
		w.each(func(c backend.Comm) error { return c.Close(ctx) })
		cancel()
	})
	return w
}

// each calls f for all ranks at once and returns their errors, by rank.
func (w *world) each(f func(c backend.Comm) error) []error {
	errs := make([]error, len(w.comms))
	var wg sync.WaitGroup
	for rank, c := range w.comms {
		wg.Go(func() { errs[rank] = f(c) })
	}
	wg.Wait()
	return errs
}

// run is each, where no rank may fail.
func (w *world) run(f func(c backend.Comm) error) {
	w.t.Helper()
	for rank, err := range w.each(f) {
		if err != nil {
			w.t.Errorf("rank %d of %d: %v", rank, len(w.comms), err)
		}
	}
}

// fails checks that every rank but those in except gets an error of type E, within
// soon, and that its next call fails at once with the same. It returns the errors.
func fails[E error](w *world, except int, call func(c backend.Comm) backend.Handle) []E {
	w.t.Helper()
	found := make([]E, len(w.comms))
	errs := w.each(func(c backend.Comm) error {
		if c.Rank() == except {
			return nil
		}
		h, start := call(c), time.Now()
		err := h.Wait(w.ctx)
		if took := time.Since(start); took > soon {
			return fmt.Errorf("error after %v: %w", took, err)
		}
		e, ok := errors.AsType[E](err)
		if !ok {
			return fmt.Errorf("got error %v; want a %T", err, e)
		}
		found[c.Rank()] = e
		if again := c.Barrier().Wait(w.ctx); again == nil || again.Error() != err.Error() {
			return fmt.Errorf("next call: got %v; want %v", again, err)
		}
		return nil
	})
	for rank, err := range errs {
		if err != nil {
			w.t.Fatalf("rank %d of %d: %v", rank, len(w.comms), err)
		}
	}
	return found
}

// forAlgos runs test for every algorithm.
func (b Backend) forAlgos(t *testing.T, test func(t *testing.T, algo string)) {
	for _, algo := range b.Algos {
		t.Run("algo-"+strings.ReplaceAll(algo, ":", "-"), func(t *testing.T) { test(t, algo) })
	}
}
