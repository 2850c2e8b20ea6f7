package cpu

import (
	"encoding/binary"
	"fmt"

	"gorun/backend"
)

// kind is a collective. Its values travel in messages.
type kind uint8

const (
	allReduce kind = iota + 1
	broadcast
	barrier
	split
)

// call is what a rank called. Every message of a collective starts with it, and it
// must be the same on all ranks.
type call struct {
	seq   uint64 // calls of a communicator count from 1
	count uint64
	root  uint32
	kind  kind
	dtype backend.DType
	op    backend.Op
	algo  algorithm
}

// callLen is the length of an encoded call.
const callLen = 24

func (k call) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, k.seq)
	b = binary.BigEndian.AppendUint64(b, k.count)
	b = binary.BigEndian.AppendUint32(b, k.root)
	return append(b, byte(k.kind), byte(k.dtype), byte(k.op), byte(k.algo))
}

// parseCall reads the first callLen bytes of b.
func parseCall(b []byte) call {
	_ = b[callLen-1]
	return call{
		seq:   binary.BigEndian.Uint64(b),
		count: binary.BigEndian.Uint64(b[8:]),
		root:  binary.BigEndian.Uint32(b[16:]),
		kind:  kind(b[20]),
		dtype: backend.DType(b[21]),
		op:    backend.Op(b[22]),
		algo:  algorithm(b[23]),
	}
}

// String names the call as errors show it: "allreduce(1000 float32, sum, ring)".
func (k call) String() string {
	switch k.kind {
	case allReduce:
		return fmt.Sprintf("allreduce(%d %v, %v, %v)", k.count, k.dtype, k.op, k.algo)
	case broadcast:
		return fmt.Sprintf("broadcast(%d %v, root %d)", k.count, k.dtype, k.root)
	case barrier:
		return "barrier()"
	case split:
		return "split()"
	}
	return fmt.Sprintf("collective %d", uint8(k.kind))
}

// mismatch is the error for two ranks' calls that differ.
func (c *comm) mismatch(rank int, a call, other int, b call) error {
	if other < rank {
		rank, a, other, b = other, b, rank, a
	}
	return &backend.MismatchError{
		Comm: c.name, Seq: min(a.seq, b.seq),
		Ranks: [2]int{rank, other}, Calls: [2]string{a.String(), b.String()},
	}
}
