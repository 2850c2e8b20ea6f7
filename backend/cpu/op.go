package cpu

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"gorun/backend"
)

// op is a call with its memory, and the caller's handle.
type op struct {
	call
	comm     *comm
	dst, src []byte
	invalid  error         // the arguments cannot be right
	header   [callLen]byte // the encoded call
	done     chan struct{} // closed with err set
	err      error
}

// AllReduce implements backend.Comm.
func (c *comm) AllReduce(dst, src backend.Buffer, how backend.Op) backend.Handle {
	bytes := len(src.Bytes())
	k := call{
		kind: allReduce, count: uint64(src.Count()), dtype: src.DType(), op: how,
		algo: c.session.algo.forAllReduce(bytes),
	}
	err := checkBuffers(dst, src)
	if err == nil && !how.Valid() {
		err = errors.New(how.String())
	}
	return c.submit(&op{call: k, dst: dst.Bytes(), src: src.Bytes(), invalid: err})
}

// Broadcast implements backend.Comm.
func (c *comm) Broadcast(dst, src backend.Buffer, root int) backend.Handle {
	if c.rank != root {
		src = dst
	}
	err := checkBuffers(dst, src)
	if err == nil && (root < 0 || root >= c.size) {
		err = fmt.Errorf("root %d of %d ranks", root, c.size)
	}
	k := call{kind: broadcast, count: uint64(dst.Count()), dtype: dst.DType(), root: uint32(root), algo: tree}
	return c.submit(&op{call: k, dst: dst.Bytes(), src: src.Bytes(), invalid: err})
}

// Barrier implements backend.Comm.
func (c *comm) Barrier() backend.Handle {
	return c.submit(&op{call: call{kind: barrier, algo: dissemination}})
}

// checkBuffers returns why dst and src cannot go together.
func checkBuffers(dst, src backend.Buffer) error {
	switch {
	case dst.DType() != src.DType():
		return fmt.Errorf("dst is %v, src is %v", dst.DType(), src.DType())
	case dst.Count() != src.Count():
		return fmt.Errorf("dst has %d elements, src has %d", dst.Count(), src.Count())
	case dst.DType().Size() == 0:
		return errors.New("a buffer without a type")
	case overlap(dst.Bytes(), src.Bytes()):
		return errors.New("dst and src overlap, and are not the same")
	}
	return nil
}

// overlap reports whether a and b, of one length, share some of their memory only.
func overlap(a, b []byte) bool {
	if len(a) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x != y && max(x, y)-min(x, y) < uintptr(len(a))
}

// submit queues o, or ends it at once on a dead or closed communicator.
func (c *comm) submit(o *op) *op {
	o.comm, o.done = c, make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		o.finish(c.err)
	case c.closing:
		o.finish(fmt.Errorf("%s: %w", c.name, backend.ErrClosed))
	default:
		c.seq++
		o.seq = c.seq
		o.call.append(o.header[:0])
		c.queue = append(c.queue, o)
		c.wake.Broadcast()
	}
	return o
}

func (o *op) finish(err error) {
	o.err = err
	close(o.done)
}

// Wait implements backend.Handle.
func (o *op) Wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.result()
	default:
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		o.comm.giveUp(o, ctx.Err())
		<-o.done // soon, now that the communicator is dead
	}
	return o.result()
}

// result returns o's error when the other ranks know of it: then the process may end.
func (o *op) result() error {
	if o.err != nil {
		select {
		case <-o.comm.dead:
			<-o.comm.told
		default: // it was closed, not killed
		}
	}
	return o.err
}

// giveUp kills the communicator because the caller no longer waits for o.
func (c *comm) giveUp(o *op, err error) {
	if r := c.waiting.Load(); r >= 0 {
		err = fmt.Errorf("call %d, %v, waited for rank %d: %w", o.seq, o.call, r, err)
	} else {
		err = fmt.Errorf("call %d, %v: %w", o.seq, o.call, err)
	}
	c.fail(&backend.AbortError{Comm: c.name, Rank: c.rank, Err: err})
}

// progress does the collectives, until the communicator is closed or dead.
func (c *comm) progress() {
	defer close(c.finished)
	for {
		o := c.next()
		if o == nil {
			return
		}
		o.finish(c.perform(o))
	}
}

// next returns the next call to do, or nil if there will be none.
func (c *comm) next() *op {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 {
		if c.closing || c.err != nil {
			return nil
		}
		c.wake.Wait()
	}
	o := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return o
}

// perform does o and returns when its memory is no longer touched.
func (c *comm) perform(o *op) error {
	err := c.begin(o)
	if err == nil {
		err = c.run(o)
	}
	if err == nil && c.tx.flush() {
		c.end()
		return nil
	}
	defer c.end()
	if broken, ok := errors.AsType[*brokenError](err); ok {
		c.broken(broken.rank, broken.err)
	} else if err != nil {
		c.fail(err)
	}
	<-c.told
	c.tx.flush()
	return c.failure()
}

func (c *comm) begin(o *op) error {
	c.waiting.Store(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case o.invalid != nil:
		return &backend.AbortError{Comm: c.name, Rank: c.rank, Err: fmt.Errorf("call %d, %v: %w", o.seq, o.call, o.invalid)}
	case c.size == 1:
		return nil
	}
	c.current = o.call
	c.stall.Reset(stallAfter)
	return c.leftLocked()
}

func (c *comm) end() {
	c.waiting.Store(-1)
	c.stall.Stop()
	c.mu.Lock()
	c.current = call{}
	c.mu.Unlock()
}

// run does o by the algorithm it names.
func (c *comm) run(o *op) error {
	switch {
	case c.size == 1:
		copy(o.dst, o.src)
		return nil
	case o.kind == barrier || o.count == 0:
		return c.disseminate(o)
	case o.kind == broadcast:
		return c.tree(o)
	case o.algo == ring:
		return c.ring(o)
	default:
		return c.star(o)
	}
}
