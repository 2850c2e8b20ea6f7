package rendezvous

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// answerGrace is how much longer than a request's timeout a Client waits for the
// answer, which says who is missing.
const answerGrace = 5 * time.Second

// Client is a rank's connection to the store. Its methods are safe for concurrent
// use; a rank may have many Clients, in several processes.
//
// A context's deadline is the time a request may wait (DefaultTimeout without one).
// When it passes, the method returns an *Error with CodeDeadline that says who is
// missing; as that answer comes from the head, it may come a moment after the
// deadline, at most 5 seconds (in which this process is not stopped). If who is missing
// has ended for good, it returns one with CodeGone without waiting for that. A cancelled
// context ends a method at once. All methods return ErrGone when the agent is gone.
type Client struct {
	link  *link
	epoch int
}

// At returns a Client on the same connection for the keys and barriers of epoch.
// Closing one closes both.
func (c *Client) At(epoch int) *Client { return &Client{c.link, epoch} }

// Put sets key to value for all ranks and returns when the head has it. The same
// value again is fine; another is an *Error with CodeConflict.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	_, err := c.do(ctx, Request{Op: opPut, Key: key, Value: value})
	return err
}

// Get returns the value of key, for which it waits. The result is the caller's.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	return c.do(ctx, Request{Op: opGet, Key: key})
}

// GetFrom is Get of a key that rank is to write; an error at the deadline names
// that rank and its host.
func (c *Client) GetFrom(ctx context.Context, key string, rank int) ([]byte, error) {
	if rank < 0 || rank >= c.Size() {
		return nil, invalid("get %q: no rank %d in a job of %d", key, rank, c.Size())
	}
	return c.do(ctx, Request{Op: opGet, Key: key, From: &rank})
}

// Try returns the value of key and whether it is there now.
func (c *Client) Try(ctx context.Context, key string) (value []byte, ok bool, err error) {
	value, err = c.do(ctx, Request{Op: opTry, Key: key})
	if e, isError := err.(*Error); isError && e.Code == codeAbsent {
		return nil, false, nil
	}
	return value, err == nil, err
}

// Barrier returns when every rank of the job has entered the barrier name. At the
// deadline its error names the missing ranks and their hosts. A name may be used
// again once Barrier has returned; entering it twice at once is CodeTwice.
func (c *Client) Barrier(ctx context.Context, name string) error {
	_, err := c.do(ctx, Request{Op: opBarrier, Key: name})
	return err
}

// Secret returns the job's secret of SecretLen bytes, the same in all ranks. It
// must not be logged or put into an environment.
func (c *Client) Secret() []byte { return bytes.Clone(c.link.secret) }

// Rank returns this process's rank.
func (c *Client) Rank() int { return c.link.rank }

// Size returns the number of ranks of the job.
func (c *Client) Size() int { return c.link.size }

// Close ends the connection; methods that wait return ErrGone. It returns when the
// Client's goroutine has ended.
func (c *Client) Close() error {
	c.link.close()
	return nil
}

// do asks the agent for r and returns the answer's value.
func (c *Client) do(ctx context.Context, r Request) ([]byte, error) {
	r.Epoch = c.epoch
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	r.Timeout = DefaultTimeout
	if at, ok := ctx.Deadline(); ok {
		r.Timeout = max(time.Until(at), time.Millisecond)
	}
	id, answer := c.link.register()
	defer c.link.forget(id)
	r.ID = id
	if err := c.link.write(r, r.Timeout+answerGrace); err != nil {
		return nil, err
	}
	reply, err := c.link.await(ctx, answer, r.Timeout+answerGrace)
	if err == errNoAnswer {
		err = &Error{Code: CodeDeadline, Text: fmt.Sprintf("%s %v: the agent does not answer", r.Op, name{r.Epoch, r.Key})}
	}
	if err != nil {
		c.link.write(Request{ID: id, Op: opCancel}, answerGrace)
		return nil, err
	}
	return reply.Value, reply.failure(r.Timeout)
}

// failure returns the error that r reports, or nil.
func (r *Reply) failure(timeout time.Duration) error {
	if r.Code == "" {
		return nil
	}
	e := &Error{Code: r.Code, Text: r.Err}
	if r.Code == CodeDeadline {
		e.Waited = timeout
	}
	return e
}
