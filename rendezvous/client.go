package rendezvous

import "context"

// Client is a rank's connection to the store. Its methods are safe for concurrent
// use; a rank may have many Clients, in several processes.
//
// A context's deadline is the time a request may wait (DefaultTimeout without one).
// When it passes, the method returns an *Error with CodeDeadline that says who is
// missing; as that answer comes from the head, it may come a moment after the
// deadline, at most 5 seconds. A cancelled context ends a method at once.
// All methods return ErrGone when the agent is gone.
type Client struct{}

// Dial connects to the store that GORUN_STORE names, as rank GORUN_RANK of
// GORUN_SIZE, in epoch 0. It waits until ctx ends, at most 10 seconds. It returns
// ErrNotLaunched when gorun did not start this process, and ErrGone (wrapped) when
// the job has ended.
func Dial(ctx context.Context) (*Client, error) { return nil, ErrGone }

// At returns a Client on the same connection for the keys and barriers of epoch.
// Closing one closes both.
func (c *Client) At(epoch int) *Client { return c }

// Put sets key to value for all ranks and returns when the head has it. The same
// value again is fine; another is an *Error with CodeConflict.
func (c *Client) Put(ctx context.Context, key string, value []byte) error { return ErrGone }

// Get returns the value of key, for which it waits. The result is the caller's.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) { return nil, ErrGone }

// GetFrom is Get of a key that rank is to write; an error at the deadline names
// that rank and its host.
func (c *Client) GetFrom(ctx context.Context, key string, rank int) ([]byte, error) {
	return nil, ErrGone
}

// Try returns the value of key and whether it is there now.
func (c *Client) Try(ctx context.Context, key string) (value []byte, ok bool, err error) {
	return nil, false, ErrGone
}

// Barrier returns when every rank of the job has entered the barrier name. At the
// deadline its error names the missing ranks and their hosts. A name may be used
// again once Barrier has returned; entering it twice at once is CodeTwice.
func (c *Client) Barrier(ctx context.Context, name string) error { return ErrGone }

// Secret returns the job's secret of SecretLen bytes, the same in all ranks. It
// must not be logged or put into an environment.
func (c *Client) Secret() []byte { return nil }

// Rank returns this process's rank.
func (c *Client) Rank() int { return 0 }

// Size returns the number of ranks of the job.
func (c *Client) Size() int { return 0 }

// Close ends the connection; methods that wait return ErrGone. It returns when the
// Client's goroutine has ended.
func (c *Client) Close() error { return nil }
