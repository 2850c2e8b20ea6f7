package agent

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFiles is the most open files that a rank's soft limit is raised to. Programs
// that close every possible descriptor before an exec take seconds with the
// billions that some hosts allow.
const maxFiles = 131072

// raiseLimits raises this process's soft limits on locked memory, processes and
// open files, which the ranks inherit, as far as the hard limits let it. Stack and
// core stay as the session has them: programs size their threads by the one, and
// users choose the other.
func raiseLimits() {
	for _, which := range []int{unix.RLIMIT_MEMLOCK, unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if unix.Getrlimit(which, &l) == nil && l.Cur != l.Max {
			l.Cur = l.Max
			unix.Setrlimit(which, &l) // a lower limit is no reason not to try the job
		}
	}
	// The Go runtime has raised this one already, and gives a child the old value
	// back unless the process sets it itself through package syscall.
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		l.Cur = min(l.Max, maxFiles)
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
}
