package transport

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a session with a command on this machine.
type process struct {
	session
	cmd *exec.Cmd

	mu   sync.Mutex
	over bool // guarded by mu: the command has ended, and its number may soon be another's
}

// pipes lead to a command's standard input and come from its output.
type pipes struct{ in, out *os.File }

func (p pipes) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p pipes) CloseWrite() error           { return p.in.Close() }

func (p pipes) Close() error {
	p.in.Close()
	return p.out.Close()
}

// startProcess starts cmd, by fork, with pipes to its streams and in a session of its
// own, as sshd does on other hosts: Ctrl-C at the terminal reaches gorun only, and the
// command has no terminal to ask, or to be stopped by, in the background. Somebody has to
// call reap.
func startProcess(cmd *exec.Cmd, fork func(start func() error) error) (*process, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	p := &process{cmd: cmd, session: session{
		channel: pipes{in, out}, stderr: &tail{limit: stderrKept}, ended: make(chan struct{}), exit: errNoExit,
	}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, p.stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.WaitDelay = time.Second // a stray child may hold stderr open
	err = fork(cmd.Start)
	stdin.Close()
	stdout.Close()
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// reap blocks until the command has ended, and kills what is left of its process group.
func (p *process) reap() {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.over = true
	p.mu.Unlock()
	p.exit = exitOf(p.cmd.Wait(), p.cmd.ProcessState)
	close(p.ended)
}

// kill ends the command and its process group.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// signal sends a signal to the command and its process group, if it has not ended.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// forker runs functions on one thread that lives until close: the kernel sends a child its
// Pdeathsig when the thread that forked it ends, and the Go runtime may end any other.
type forker struct {
	once sync.Once
	work chan func()
}

// run has f called, and waits for it. It must not be called after close.
func (f *forker) run(start func() error) error {
	f.once.Do(func() {
		f.work = make(chan func())
		go func() {
			runtime.LockOSThread() // never undone: the thread ends with the goroutine
			for do := range f.work {
				do()
			}
		}()
	})
	done := make(chan error, 1)
	f.work <- func() { done <- start() }
	return <-done
}

// close ends the thread, and with it what it has forked that wants to.
func (f *forker) close() {
	f.once.Do(func() {})
	if f.work != nil {
		close(f.work)
	}
}

func exitOf(err error, state *os.ProcessState) error {
	if state == nil || state.Success() {
		return nil
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return &ExitError{Signal: signalName(ws.Signal())}
	}
	if state.Exited() {
		return &ExitError{Status: state.ExitCode()}
	}
	return err
}
