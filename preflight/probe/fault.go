package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// fault is an error with the word for it.
type fault struct {
	kind     Failure
	text     string
	answered int
	boot     string
	there    bool
}

func (f *fault) Error() string { return f.text }

func faultf(kind Failure, format string, args ...any) error {
	return &fault{kind: kind, text: fmt.Sprintf(format, args...)}
}

func asFault(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	return &fault{kind: Other, text: err.Error()}
}

// connectFault tells why a connect to addr has failed, after said has come by ICMP, if
// that is not nil.
func connectFault(err error, said *icmp, addr netip.Addr, timeout time.Duration) error {
	var number syscall.Errno
	errors.As(err, &number)
	timedOut := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		timedOut = true
	}
	switch {
	case timedOut, number == syscall.ETIMEDOUT:
		return faultf(Dropped, "no answer within %v", timeout)
	case said != nil:
		return said.fault(addr)
	}
	switch number {
	case syscall.ECONNREFUSED:
		return faultf(Refused, "the host answers that nobody listens there")
	case syscall.ECONNRESET:
		return faultf(Reset, "the connection was reset")
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN:
		return faultf(Unreachable, "this host has no way there: %v", number)
	case syscall.EACCES, syscall.EPERM:
		return faultf(Rejected, "a firewall or a route of this host forbids it: %v", number)
	case 0:
		return faultf(Other, "%v", err)
	}
	return faultf(Other, "connect: %v", number)
}
