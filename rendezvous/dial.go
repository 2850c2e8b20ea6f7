package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds Dial, and the pauses between its attempts.
const (
	dialTimeout  = 10 * time.Second
	dialPause    = 5 * time.Millisecond
	maxDialPause = 200 * time.Millisecond
)

// Dial connects to the store that GORUN_STORE names, as rank GORUN_RANK of
// GORUN_SIZE, in epoch 0. It waits until ctx ends, at most 10 seconds. It returns
// ErrNotLaunched when gorun did not start this process, and ErrGone (wrapped) when
// the job has ended.
func Dial(ctx context.Context) (*Client, error) {
	store := os.Getenv("GORUN_STORE")
	if store == "" {
		return nil, ErrNotLaunched
	}
	path, ok := strings.CutPrefix(store, "unix:")
	if !ok || path == "" {
		return nil, fmt.Errorf("GORUN_STORE is %q; want unix:PATH", store)
	}
	size, err := number("GORUN_SIZE", 1)
	if err != nil {
		return nil, err
	}
	rank, err := number("GORUN_RANK", 0)
	if err != nil {
		return nil, err
	}
	if rank >= size {
		return nil, fmt.Errorf("GORUN_RANK is %d, but GORUN_SIZE is %d", rank, size)
	}
	l, err := dial(ctx, path, rank, size)
	if err != nil {
		return nil, err
	}
	return &Client{link: l}, nil
}

// number reads a variable that gorun sets.
func number(variable string, least int) (int, error) {
	text := os.Getenv(variable)
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s is %q; want a number from %d", variable, text, least)
	}
	return n, nil
}

// dial tries until it is connected or a retry cannot help. Many ranks may come at
// once, to more than the agent's queue of connections takes.
func dial(ctx context.Context, path string, rank, size int) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for pause := dialPause; ; pause = min(2*pause, maxDialPause) {
		l, err := dialOnce(ctx, path, rank, size)
		if err == nil || !busy(err) {
			return l, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s: %w (last attempt: %v)", path, context.Cause(ctx), err)
		}
	}
}

func dialOnce(ctx context.Context, path string, rank, size int) (*link, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w (or this is a container that the directory is not mounted in)", path, ErrGone)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w", path, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	// A cancelled context ends the wait for the answer to hello.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	l, err := newLink(quicken(conn), rank, size)
	if stop() && err == nil {
		return l, nil
	}
	conn.Close()
	if err == nil {
		l.close()
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the deadline of both is the same
		err = &silentError{path, context.Cause(ctx)}
	}
	return nil, err
}

// silentError is the end of a wait for the agent, in words; why is the context's.
type silentError struct {
	path string
	why  error
}

func (e *silentError) Error() string {
	if e.why == context.DeadlineExceeded {
		return e.path + ": the agent did not answer in time"
	}
	return fmt.Sprintf("%s: the agent has not answered: %v", e.path, e.why)
}

func (e *silentError) Unwrap() error { return e.why }

// busy reports whether a retry may help: the queue of connections is full, or the
// agent had too many that did not say hello and closed this one with them.
func busy(err error) bool {
	if _, refused := errors.AsType[*Error](err); refused || errors.Is(err, ErrGone) {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || endOfStream(err)
}
