package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

const (
	pipeBudget = 16 << 20 // bytes of all enlarged pipes; Linux gives a user 64 MiB, and then only tiny pipes
	maxPipe    = 1 << 20  // Linux's default limit for one
	minPipe    = 64 << 10 // what a pipe has anyway
)

// pipeSize is how large the stdout pipes of so many ranks are made: with much room
// a rank seldom waits for us.
func pipeSize(ranks int) int { return min(pipeBudget/max(ranks, 1), maxPipe) }

// stdio is what a rank's first three descriptors are connected to. All descriptors
// are close-on-exec; our ends do not block.
type stdio struct {
	theirs [3]int
	in     *os.File // nil: the rank reads /dev/null
	out    *os.File
	err    *os.File // nil: out carries it, too, being a terminal
}

// openStdio makes the pipes of r, with window a terminal instead of the last two, or
// fails without leaving any.
func openStdio(r *rank, size int, window *wire.Window) (s *stdio, err error) {
	s = &stdio{theirs: [3]int{-1, -1, -1}}
	defer func() {
		if err != nil {
			s.closeTheirs()
			s.closeOurs()
		}
	}()
	if r.in == nil {
		s.theirs[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	} else {
		s.theirs[0], s.in, err = pipe(false)
	}
	if err != nil {
		return s, os.NewSyscallError("stdin", err)
	}
	if window != nil {
		return s, s.openTerminal(*window)
	}
	if s.theirs[1], s.out, err = pipe(true); err != nil {
		return s, os.NewSyscallError("pipe", err)
	}
	if s.theirs[2], s.err, err = pipe(true); err != nil {
		return s, os.NewSyscallError("pipe", err)
	}
	if size > minPipe {
		unix.FcntlInt(uintptr(s.theirs[1]), unix.F_SETPIPE_SZ, size) // refused: it stays as it is
	}
	return s, nil
}

// openTerminal makes a terminal that stdout and stderr share.
func (s *stdio) openTerminal(window wire.Window) (err error) {
	if s.theirs[1], s.out, err = openPty(window); err == nil {
		s.theirs[2], err = unix.FcntlInt(uintptr(s.theirs[1]), unix.F_DUPFD_CLOEXEC, 0)
	}
	return err
}

// pipe makes a pipe of which we read, or write, one end, and a rank has the other.
func pipe(weRead bool) (theirs int, ours *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	mine, other := fds[0], fds[1]
	if !weRead {
		mine, other = other, mine
	}
	unix.SetNonblock(mine, true) // the two ends do not share this flag
	return other, os.NewFile(uintptr(mine), "pipe"), nil
}

func (s *stdio) files() []uintptr {
	return []uintptr{uintptr(s.theirs[0]), uintptr(s.theirs[1]), uintptr(s.theirs[2])}
}

func (s *stdio) closeTheirs() {
	for _, fd := range s.theirs {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (s *stdio) closeOurs() {
	for _, f := range []*os.File{s.in, s.out, s.err} {
		f.Close() // of a nil File too
	}
}

// serve hands our ends to the rank's streams, which close them.
func (s *stdio) serve(r *rank) {
	r.out.start(s.out)
	if s.err != nil {
		r.err.start(s.err)
	} else {
		r.err.skip()
	}
	if r.in != nil {
		r.in.start(s.in)
	}
}
