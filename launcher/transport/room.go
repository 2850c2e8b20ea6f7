package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"gorun/hostfile"
)

// FilesError says that the connections to all hosts need more open files than this
// process may have.
type FilesError struct {
	Hosts, Need, Limit int
}

func (e *FilesError) Error() string {
	return fmt.Sprintf("connections to %s need about %d open files here, and %d is the limit", count(e.Hosts, "host"), e.Need, e.Limit)
}

// Open files, by what they are for.
const (
	filesOwn     = 24 // gorun's own
	filesTry     = 4  // while a host is being connected to
	filesCommand = 4  // for a host that a command leads to, or that is this machine
)

// Room is to be called before the first Dial, with all hosts that will be dialled and
// held. It returns a *FilesError if they need more open files than there may be, and else
// lowers Fanout to what there is room for. (The Go runtime has raised the soft limit to the
// hard one.)
func (d *Dialer) Room(hosts []hostfile.Host) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return nil // then that is no limit
	}
	limit := int(min(l.Cur, 1<<30))
	if limit >= filesOwn+filesCommand*len(hosts)+filesTry*d.opts.Fanout {
		return nil
	}
	need := filesOwn + filesTry + d.files(hosts)
	if need > limit {
		return &FilesError{len(hosts), need, limit}
	}
	d.slots = make(chan struct{}, min(d.opts.Fanout, 1+(limit-need)/filesTry))
	return nil
}

// files counts what the connections to some hosts hold open.
func (d *Dialer) files(hosts []hostfile.Host) (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.ConnectTimeout)
	defer cancel()
	config, err := await(ctx, d.config)
	jumps := map[string]bool{}
	for _, h := range hosts {
		if d.rsh != nil || err != nil || d.machine().is(h) {
			n += filesCommand
			continue
		}
		s, err := config.lookup(ctx, h, lookupOptions{})
		switch {
		case err == nil && len(s.jumps) > 0:
			jumps[jumpName(s.jumps)] = true // the host itself needs none
		case err == nil && s.command == "":
			n++
		default:
			n += filesCommand
		}
	}
	return n + filesCommand*len(jumps)
}

// Passing reports whether an error of Dial may pass by itself, as that of a host that is
// just coming up: nothing answers, or nobody knows its name yet.
func Passing(err error) bool {
	var dropped *DroppedError
	if errors.As(err, &dropped) {
		return !dropped.NotSSH()
	}
	if e, ok := errors.AsType[*ForwardError](err); ok {
		return !e.Prohibited
	}
	if e, ok := errors.AsType[*ProxyError](err); ok {
		return e.passing()
	}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	for _, e := range []error{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ETIMEDOUT, syscall.ECONNRESET, syscall.EPIPE, io.EOF,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
