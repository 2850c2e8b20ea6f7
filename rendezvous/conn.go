package rendezvous

import (
	"errors"
	"io"
	"net"
	"syscall"
	"unsafe"
)

// quickConn is a unix socket on which short messages go to and fro. It reads and writes
// without a word to Go's scheduler, as the system call does not block: otherwise each
// call wakes the thread that looks after calls which do, and that looks for a while, many
// times a second. What has to wait waits as ever, and ends with a deadline or Close.
type quickConn struct {
	*net.UnixConn
	raw syscall.RawConn
}

// quicken returns conn, made quick if it is a unix socket.
func quicken(conn net.Conn) net.Conn {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return conn
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return conn
	}
	return &quickConn{u, raw}
}

func (c *quickConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	var failure error
	err = c.raw.Read(func(fd uintptr) bool {
		n, failure = unblocked(syscall.SYS_READ, fd, b)
		return failure != syscall.EAGAIN
	})
	if err == nil {
		err = failure
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, c.named("read", err)
}

func (c *quickConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var some int
		var failure error
		err = c.raw.Write(func(fd uintptr) bool {
			some, failure = unblocked(syscall.SYS_WRITE, fd, b[n:])
			return failure != syscall.EAGAIN
		})
		n += some
		if err == nil {
			err = failure
		}
	}
	return n, c.named("write", err)
}

// named gives an error of the system the form that package net would.
func (c *quickConn) named(op string, err error) error {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return &net.OpError{Op: op, Net: "unix", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: no}
	}
	return err
}

// unblocked reads or writes what it can, of at least one byte. fd must not block.
func unblocked(call, fd uintptr, b []byte) (int, error) {
	for {
		n, _, no := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch no {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, no
		}
	}
}
