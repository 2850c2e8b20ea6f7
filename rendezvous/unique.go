package rendezvous

import (
	"context"
	"fmt"
)

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
	c = c.At(epoch)
	key := uniqueKey(comm, epoch)
	if c.Rank() == creator {
		id, err := create()
		if err != nil {
			// Tell the others; that the ID could not be made is the better error here.
			c.Put(ctx, key, failedID(err))
			return id, fmt.Errorf("unique ID %q: %w", comm, err)
		}
		return id, c.Put(ctx, key, id[:])
	}
	value, err := c.GetFrom(ctx, key, creator)
	if err != nil {
		return [128]byte{}, err
	}
	if len(value) != 128 {
		return [128]byte{}, fmt.Errorf("unique ID %q: rank %d could not make it: %.200q", comm, creator, value)
	}
	return [128]byte(value), nil
}

// CheckIn returns when every rank has called it with the same comm and epoch. A rank
// calls it when it no longer needs the process that created the unique ID (for
// NCCL: when ncclCommInitRank has returned, or ended in success if not blocking).
// At ctx's deadline the error names the ranks that have not joined.
func CheckIn(ctx context.Context, c *Client, comm string, epoch int) error {
	return c.At(epoch).Barrier(ctx, uniqueKey(comm, epoch))
}

// creator is the rank that makes unique IDs.
const creator = 0

func uniqueKey(comm string, epoch int) string { return fmt.Sprintf("uid/%s/%d", comm, epoch) }

// failedID is what stands in an ID's place when err kept it from being made: the
// error's text, of any length but an ID's.
func failedID(err error) []byte {
	text := err.Error()
	text = text[:min(len(text), 1024)]
	if len(text) == 128 {
		text += " "
	}
	return []byte(text)
}
