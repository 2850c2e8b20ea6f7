package facts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxOutput = 16 << 20    // of what a program prints
	killWait  = time.Second // for a killed program to be gone

	lastSignal = 64
)

// exitError says that a program ended otherwise than well.
type exitError struct {
	name string // of the program
	code int    // 128+signal if one ended it
	text string // its words, in one line
}

func (e *exitError) Error() string {
	what := fmt.Sprintf("%s ended with code %d", e.name, e.code)
	if e.code > 128 && e.code <= 128+lastSignal { // others, as 255, a program gives itself
		what = fmt.Sprintf("%s was ended by %v", e.name, syscall.Signal(e.code-128))
	}
	if e.text != "" {
		what += ": " + e.text
	}
	return what
}

// errHung is in the error of a program that was still there after it had been killed: it
// waits in the kernel.
var errHung = errors.New("it cannot be killed")

// runProgram runs a program without input, and returns what it has printed to its
// standard output, also when it fails. Its environment is this process's, with messages
// in English. Its process group is killed when ctx is done; runProgram then returns
// within killWait, with the context's cause, even if the kernel does not let go of the
// program: a goroutine waits for that one.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	p := &process{name: filepath.Base(name), done: make(chan struct{})}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &p.out, &p.words
	cmd.WaitDelay = killWait / 2 // a child of the program may hold its output open
	// Starting may hang, too: on a file system that does not answer.
	go p.follow(cmd)
	select {
	case <-p.done:
		return p.out.bytes(), p.result()
	case <-ctx.Done():
	}
	p.kill()
	left := time.NewTimer(killWait)
	defer left.Stop()
	select {
	case <-p.done:
		return p.out.bytes(), fmt.Errorf("%s: %w", p.name, context.Cause(ctx))
	case <-left.C:
		return p.out.bytes(), fmt.Errorf("%s: %w; %w", p.name, context.Cause(ctx), errHung)
	}
}

// process is a program that runs.
type process struct {
	name       string
	out, words capped
	done       chan struct{} // closed when it has ended and err is set
	err        error

	mu     sync.Mutex
	pid    int  // 0: not yet started, or ended
	killed bool // before it was started
}

// follow starts the program and waits for its end.
func (p *process) follow(cmd *exec.Cmd) {
	defer close(p.done)
	if p.err = cmd.Start(); p.err != nil {
		return
	}
	p.mu.Lock()
	p.pid = cmd.Process.Pid
	late := p.killed
	p.mu.Unlock()
	if late {
		p.kill()
	}
	awaitEnd(cmd.Process.Pid)
	// Whatever it has left behind in its group ends with it. The group's number cannot be
	// another's while the program has not been waited for.
	p.kill()
	p.mu.Lock()
	p.pid = 0
	p.mu.Unlock()
	p.err = cmd.Wait()
}

// awaitEnd returns when the child has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// kill ends the process group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.pid > 0 {
		// An error means that it is gone.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// result is what follows from the program's end.
func (p *process) result() error {
	exit, ended := errors.AsType[*exec.ExitError](p.err)
	switch {
	case p.err == nil, errors.Is(p.err, exec.ErrWaitDelay):
		return nil
	case errors.Is(p.err, syscall.ECHILD):
		// Whoever reaps orphans in this process was faster. The output is complete.
		return nil
	case !ended:
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	words := p.words.bytes()
	if strings.TrimSpace(string(words)) == "" {
		// nvidia-smi prints its errors to the standard output.
		words = p.out.bytes()
		words = words[:min(len(words), 2048)]
	}
	return &exitError{p.name, code, brief(string(words))}
}

// capped keeps the first maxOutput bytes that are written to it.
type capped struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf.Write(b[:min(len(b), maxOutput-c.buf.Len())])
	return len(b), nil
}

// bytes is a copy of what is there by now.
func (c *capped) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf.Bytes())
}
