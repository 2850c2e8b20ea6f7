package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// A forker runs functions on one thread that lives as long as this process does:
// the kernel sends a child its Pdeathsig when the thread that forked it ends, and
// the Go runtime may end any other thread.
type forker struct {
	work chan func()
}

// newForker starts the thread. It ends with close(work).
func newForker() *forker {
	f := &forker{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never undone
		// A child inherits its forking thread's mask, and whoever started us may
		// have blocked signals.
		unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
		for do := range f.work {
			do()
		}
	}()
	return f
}

// start forks all ranks on the calling thread, tells the head and returns.
func (j *job) start(at time.Time, tell func(wire.Started)) {
	j.mu.Lock()
	j.begun = at
	j.mu.Unlock()
	pids := make([]int, len(j.ranks))
	size := pipeSize(len(j.ranks))
	for i, r := range j.ranks {
		pid, err := j.fork(r, size)
		if err != nil {
			j.notStarted(r, err)
		}
		pids[i] = pid
	}
	j.unbindThread()
	j.mu.Lock()
	defer j.mu.Unlock()
	tell(wire.Started{PIDs: pids})
	j.told = true
	for _, x := range j.early {
		j.send(x)
	}
	j.early = nil
}

// errStopped is why a rank was not forked any more.
var errStopped = errors.New("the job was stopped before this rank was started")

// fork starts one rank. Its pid is known to collect before anybody can reap it.
func (j *job) fork(r *rank, pipeSize int) (pid int, err error) {
	if j.isStopping() {
		return 0, errStopped
	}
	io, err := openStdio(r, pipeSize, j.terminal())
	if err != nil {
		return 0, &startError{codeOurs, fmt.Sprintf("standard streams: %v", err)}
	}
	defer io.closeTheirs()
	line, err := j.mpi.pair()
	if err != nil {
		io.closeOurs()
		return 0, &startError{codeOurs, fmt.Sprintf("PMI: %v", err)}
	}
	defer line.closeTheirs()
	j.bindThread(r)
	pid, err = syscall.ForkExec(r.path, r.argv, &syscall.ProcAttr{
		Dir: r.dir, Env: r.env, Files: line.files(io.files()),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		io.closeOurs()
		line.closeOurs()
		return 0, err
	}
	j.mu.Lock()
	r.pid = pid
	j.collectRankLocked(r, time.Since(j.begun)) // its SIGCHLD may have come already
	j.mu.Unlock()
	io.serve(r)
	line.serve(r.n)
	return pid, nil
}

// terminal is the size of the terminal that a rank gets, nil if it gets none.
func (j *job) terminal() *wire.Window {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.plan.Window == nil {
		return nil
	}
	return new(j.window)
}

func (j *job) isStopping() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopping
}

// notStarted reports a rank that could not be forked, and ends its streams.
func (j *job) notStarted(r *rank, err error) {
	j.mu.Lock()
	j.reportLocked(wire.Exited{
		Rank: r.n, Code: execCode(err), Text: execText(r, err),
		At: time.Since(j.begun), ByStop: err == errStopped,
	})
	j.mu.Unlock()
	r.out.skip()
	r.err.skip()
}

// execCode is gorun's exit code for an error of fork or exec.
func execCode(err error) int {
	if se, ok := errors.AsType[*startError](err); ok {
		return se.code
	}
	var errno syscall.Errno
	switch errors.As(err, &errno); errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		return codeNotFound
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.E2BIG, syscall.ETXTBSY, syscall.ELOOP, syscall.EISDIR, syscall.ELIBBAD:
		return codeCannotRun
	}
	return codeOurs
}

func execText(r *rank, err error) string {
	if err == errStopped {
		return err.Error()
	}
	return (&os.PathError{Op: "start", Path: r.path, Err: err}).Error()
}
