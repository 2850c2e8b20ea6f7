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

// gatherAtOnce is how many keys are asked for at a time: a rank may have maxCalls requests
// waiting, and some of these may be others'.
const gatherAtOnce = maxCalls / 8

// Gather returns, by rank, the value of the key of every rank, which that rank is to
// write. It asks for many at a time, which costs a small part of as many GetFrom.
func (c *Client) Gather(ctx context.Context, key func(rank int) string) ([][]byte, error) {
	values := make([][]byte, 0, c.Size())
	for len(values) < c.Size() {
		requests := make([]Request, min(c.Size()-len(values), gatherAtOnce))
		for i := range requests {
			rank := len(values) + i
			requests[i] = Request{Op: opGet, Key: key(rank), From: &rank}
		}
		some, err := c.ask(ctx, requests)
		if err != nil {
			return nil, err
		}
		values = append(values, some...)
	}
	return values, nil
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
	values, err := c.ask(ctx, []Request{r})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// ask makes all of the requests at once and returns the values of the answers. When one
// fails it takes back the others.
func (c *Client) ask(ctx context.Context, requests []Request) ([][]byte, error) {
	timeout := DefaultTimeout
	if at, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(at), time.Millisecond)
	}
	for i := range requests {
		r := &requests[i]
		r.Epoch, r.Timeout = c.epoch, timeout
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	first, answers := c.link.register(len(requests))
	defer c.link.withdraw(first, len(requests))
	var text []byte
	for i := range requests {
		requests[i].ID = first + uint64(i)
		text = requests[i].Append(text)
	}
	if err := c.link.write(text, timeout+answerGrace); err != nil {
		return nil, err
	}
	values := make([][]byte, len(requests))
	for range requests {
		reply, err := c.link.await(ctx, answers, timeout+answerGrace)
		if err == errNoAnswer {
			r := &requests[0]
			return nil, &Error{Code: CodeDeadline, Text: fmt.Sprintf("%s %v: the agent does not answer", r.Op, name{r.Epoch, r.Key})}
		}
		if err == nil {
			err = reply.failure(timeout)
		}
		if err != nil {
			return nil, err
		}
		values[reply.ID-first] = reply.Value
	}
	return values, nil
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
