package rendezvous

import "context"

// UniqueID gives all ranks the same 128 bytes, such as an ncclUniqueId: rank 0
// calls create and puts the result under the key "uid/<comm>/<epoch>" of epoch; the
// others wait for it until ctx ends. Every rank of the job must call it. If create
// fails, all ranks get an error with its text at once.
//
// An ID is used for one communicator only: rank 0 may not call UniqueID twice with
// the same comm and epoch unless create gives the same bytes again. One creator
// serves jobs of any size in this version; more creators would put further keys
// below the same name.
//
// The process that made a real NCCL ID runs the bootstrap's root, so it must live
// until every rank has joined the communicator: call CheckIn after that.
func UniqueID(ctx context.Context, c *Client, comm string, epoch int, create func() ([128]byte, error)) ([128]byte, error) {
	return [128]byte{}, ErrGone
}

// CheckIn returns when every rank has called it with the same comm and epoch. A rank
// calls it when it no longer needs the process that created the unique ID (for
// NCCL: when ncclCommInitRank has returned, or ended in success if not blocking).
// At ctx's deadline the error names the ranks that have not joined.
func CheckIn(ctx context.Context, c *Client, comm string, epoch int) error { return ErrGone }
