package transport

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// Backoff between connections to one host.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// backoff returns how long to wait before try n, counted from 1: twice as long each
// time, give or take half, so that many hosts, or many jobs, do not come back together.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n-1, 10), lastBackoff)
	return d/2 + rand.N(d)
}

// patience is what part of ConnectTimeout is spent on trying err again, 0 for none. A
// port that refuses is tried for less time than a server that drops some connections:
// a host that is coming up is likely, a wrong port as much.
func patience(err error, s stage, total time.Duration) time.Duration {
	var many addrErrors
	if errors.As(err, &many) {
		var longest time.Duration
		for _, err := range many {
			longest = max(longest, patience(err, s, total))
		}
		return longest
	}
	if _, ok := errors.AsType[*JumpError](err); ok {
		return 0 // it has been tried again, for all hosts behind it
	}
	if e, ok := errors.AsType[*ForwardError](err); ok && e.passing() {
		return total / 2
	}
	if e, ok := errors.AsType[*ProxyError](err); ok && e.passing() {
		return total / 2
	}
	var dropped *DroppedError
	var dns *net.DNSError
	switch {
	case s > atKeys:
		return 0
	case errors.As(err, &dropped) && !dropped.NotSSH():
		return total
	case errors.Is(err, syscall.ECONNREFUSED):
		return total / 2
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return total
	case errors.As(err, &dns):
		if dns.IsTemporary && !dns.IsNotFound {
			return total
		}
	}
	return 0
}
