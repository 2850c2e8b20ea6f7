package backend

import (
	"errors"
	"fmt"
)

// ErrClosed is the error of a call on a communicator that this rank has closed.
var ErrClosed = errors.New("communicator is closed")

// MismatchError says that two ranks made different calls where all must make the
// same. Every rank gets one; when more than two differ, it names two of them.
type MismatchError struct {
	Comm  string    // name of the communicator; "world" is that of all ranks
	Seq   uint64    // which call it was, counted from 1
	Ranks [2]int    // in Comm; the smaller first
	Calls [2]string // what they called, with type, count, operation or root, and algorithm
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: call %d differs: rank %d called %s, rank %d called %s",
		e.Comm, e.Seq, e.Ranks[0], e.Calls[0], e.Ranks[1], e.Calls[1])
}

// PeerError says that a rank has left: its process ended, its host is cut off, or it
// closed the communicator while others still call. Calling again does not help.
type PeerError struct {
	Comm string
	Rank int   // in Comm
	Err  error // how it was noticed
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("%s: rank %d is gone: %v", e.Comm, e.Rank, e.Err)
}

func (e *PeerError) Unwrap() error { return e.Err }

// AbortError says that a rank gave the communicator up: by Abort, by a Wait whose
// context ended, or by a call with arguments that cannot be right.
type AbortError struct {
	Comm string
	Rank int   // in Comm
	Err  error // the reason; on other ranks than Rank only its text
}

func (e *AbortError) Error() string {
	return fmt.Sprintf("%s: rank %d gave up: %v", e.Comm, e.Rank, e.Err)
}

func (e *AbortError) Unwrap() error { return e.Err }
