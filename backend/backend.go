// Package backend defines a communicator: a group of ranks that compute together.
//
// A program opens the communicator of all ranks once, calls collectives on it and
// waits for their handles. Which memory the numbers live in and how they travel is
// a backend's affair; cpu works on Go slices, over TCP. A program that names its
// backends links only those:
//
//	comm, err := backend.Open(ctx, map[string]backend.Opener{"cpu": cpu.Open})
//
// The package holds no transport and no arithmetic.
package backend

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Comm is one rank's end of a communicator. Its methods may be called from several
// goroutines, but all ranks must call its collectives (AllReduce, Broadcast, Barrier,
// Split) in the same order.
//
// A collective returns at once; the work goes on without the caller, in the order of
// the calls. Until the handle's Wait has returned, the buffers belong to the
// communicator. A rank's call succeeds only if every rank has made the same call:
// ranks that differ in collective, count, type, operation or root all get a
// *MismatchError. Results are the same bit for bit on all ranks.
//
// After the first error the communicator is dead on all ranks: this and every later
// call fails with that error, at once. See PeerError, AbortError, MismatchError.
type Comm interface {
	// Rank is this process's place in the communicator, 0 to Size-1.
	Rank() int

	// Size is the number of ranks.
	Size() int

	// AllReduce combines the src of all ranks element by element and gives every
	// rank the result in dst. dst and src have one type and count; they are the same
	// memory (in place) or do not overlap. src is left as it was, unless in place.
	AllReduce(dst, src Buffer, op Op) Handle

	// Broadcast gives every rank root's src in dst. At the root, dst and src are as
	// for AllReduce; elsewhere src is not used and may be Buffer{}.
	Broadcast(dst, src Buffer, root int) Handle

	// Barrier completes when every rank has called it.
	Barrier() Handle

	// Split makes a communicator of those ranks that give the same color, ordered by
	// key, then by rank here. It waits for all ranks. A rank with a negative color
	// takes part, but gets nil and no error. An error kills this communicator, too.
	Split(ctx context.Context, color, key int) (Comm, error)

	// Explain says, for people, by which algorithm an AllReduce of so many bytes
	// would be done, and why.
	Explain(bytes int) string

	// Abort kills the communicator on all ranks; they get an *AbortError with err.
	// It returns when the other ranks have been told, after a second at most.
	Abort(err error)

	// Close waits for the calls made so far, tells the others that this rank makes
	// no more, and frees everything. It does not wait for other ranks to close. When
	// ctx ends first, the communicator is aborted. On a dead communicator it frees
	// everything and returns the error that killed it. A process that ends without
	// Close is dead to the others, also to those still in its last call.
	Close(ctx context.Context) error
}

// Handle is a collective under way.
type Handle interface {
	// Wait returns when the collective is done, or the communicator is dead and its
	// buffers are no longer touched. If ctx ends first, this rank gives up: the
	// communicator is aborted on all ranks, and the error wraps ctx's.
	// Wait may be called by several goroutines, more than once, or never.
	Wait(ctx context.Context) error
}

// Opener opens the communicator of all ranks of the job this process belongs to; it
// waits for the other ranks.
type Opener func(ctx context.Context) (Comm, error)

// Open calls the opener that GORUN_BACKEND names, "cpu" if it is empty or unset.
func Open(ctx context.Context, openers map[string]Opener) (Comm, error) {
	name := os.Getenv("GORUN_BACKEND")
	if name == "" {
		name = "cpu"
	}
	open, ok := openers[name]
	if !ok {
		known := slices.Sorted(maps.Keys(openers))
		return nil, fmt.Errorf("GORUN_BACKEND: this program has no backend %q, only %s", name, strings.Join(known, ", "))
	}
	return open(ctx)
}
