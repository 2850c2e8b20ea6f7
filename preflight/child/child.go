// Package child runs programs of a host for those that want to know what it is like.
//
// Such a program may hang, in the kernel, too, and leave others behind. So each is the
// leader of a process group that ends with it, all of it ends with this process, and
// nobody ever waits for one without a limit. What a program has printed others judge.
package child

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that was started. Its methods may be called at any time, by several
// goroutines.
type Process struct {
	done   chan struct{} // closed when it has ended
	linger time.Duration

	mu     sync.Mutex
	pid    int   // guarded by mu; 0: not yet started, or ended
	begun  bool  // guarded by mu
	killed bool  // guarded by mu
	err    error // guarded by mu: why it could not be started, or how it ended
}

// Start starts cmd, without input, and does not wait for that: it may hang, too, on a file
// system that does not answer. Its environment is this process's, with messages in English.
// After it has been killed it has so long to be gone.
func Start(cmd *exec.Cmd, linger time.Duration) *Process {
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = linger / 2 // a child of the program may hold its output open
	p := &Process{done: make(chan struct{}), linger: linger}
	go p.follow(cmd)
	return p
}

// follow starts the program and waits for its end.
func (p *Process) follow(cmd *exec.Cmd) {
	defer close(p.done)
	// The program is killed when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
		return
	}
	p.mu.Lock()
	p.pid, p.begun = cmd.Process.Pid, true
	late := p.killed
	p.mu.Unlock()
	if late {
		p.Kill()
	}
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	// Whatever it has left behind in its group ends with it. The group's number cannot be
	// another's while the program has not been waited for.
	p.Kill()
	p.mu.Lock()
	p.pid = 0
	p.mu.Unlock()
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Kill ends the process group, also one that is yet to be started.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.pid > 0 {
		// An error means that it is gone.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// Done is closed when the program has ended, or could not be started.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait reports whether that is so before ctx ends.
func (p *Process) Wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// End kills what is left of the program, and reports whether it is gone, for which it has
// a moment. If not it waits in the kernel, and a goroutine for it.
func (p *Process) End() bool {
	p.Kill()
	left := time.NewTimer(p.linger)
	defer left.Stop()
	select {
	case <-p.done:
		return true
	case <-left.C:
		return false
	}
}

// Failure is why the program could not be started; nil: it could, or is about to.
func (p *Process) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return nil
	}
	return p.err
}

// Err is Failure, or how a program ended that is gone, as an *exec.ExitError; nil: well. So
// it is, too, if whoever reaps orphans in this process was faster: the output is complete.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.err, exec.ErrWaitDelay) || errors.Is(p.err, syscall.ECHILD) {
		return nil
	}
	return p.err
}

// Output keeps the first bytes that are written to it, and takes the others.
type Output struct {
	Most int // bytes that it keeps

	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b[:min(len(b), o.Most-o.buf.Len())])
	return len(b), nil
}

// Bytes is a copy of what is there by now.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}
