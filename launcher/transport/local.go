package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// localExit is how long Dialer.Close waits for local agents: they stop their ranks
// when their stream ends.
const localExit = 5 * time.Second

// localLink is a Link to an agent on this machine.
type localLink struct {
	io.Reader // what was read behind the hail, then out
	in, out   *os.File
	stderr    *tail
	self      string
	phases    []Phase
	ended     chan struct{} // closed when the agent has been reaped; exit may be read then
	exit      error
	closed    sync.Once
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// localAgent starts an agent here and reads its hail.
func (a *attempt) localAgent() (Link, error) {
	a.s = nil // messages must not speak of ssh
	if err := a.enter(); err != nil {
		return nil, err
	}
	a.stage.Store(int32(atAgent))
	a.trail.mark("agent")
	nonce := newNonce()
	l, err := startLocal(a.d, nonce)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(a.ctx, func() { l.Close() })
	sc := newScanner(l.out, nonce)
	line, err := sc.next()
	if err == nil {
		err = checkHail(line, nonce)
	}
	if !stop() {
		err = context.Cause(a.ctx)
	}
	if err != nil {
		l.Close()
		return nil, a.localFailure(l, sc, err)
	}
	a.trail.mark("ready")
	l.Reader, l.phases = io.MultiReader(strings.NewReader(string(sc.rest())), l.out), a.trail.all()
	return l, nil
}

func (a *attempt) localFailure(l *localLink, sc *scanner, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	exit := errNoExit
	select {
	case <-l.ended:
		exit = l.exit
	case <-time.After(time.Second):
	}
	return &ShellError{Local: true, Exit: exit, Output: sc.noise(), Stderr: l.Stderr()}
}

// startLocal starts the agent in a session of its own, as sshd does on other hosts:
// Ctrl-C at the terminal reaches gorun only, and ranks have no terminal to ask, or to be
// stopped by, in the background.
func startLocal(d *Dialer, nonce string) (*localLink, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	l := &localLink{in: in, out: out, stderr: &tail{limit: stderrKept}, self: d.opts.Self, ended: make(chan struct{})}
	cmd := exec.Command(d.opts.Self, "agent", nonce)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, l.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second // a stray child may hold stderr open
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	d.agents.Go(func() {
		l.exit = exitOf(cmd.Wait(), cmd.ProcessState)
		close(l.ended)
	})
	return l, nil
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

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGABRT: "ABRT", syscall.SIGBUS: "BUS", syscall.SIGFPE: "FPE", syscall.SIGHUP: "HUP", syscall.SIGILL: "ILL",
		syscall.SIGINT: "INT", syscall.SIGKILL: "KILL", syscall.SIGPIPE: "PIPE", syscall.SIGQUIT: "QUIT",
		syscall.SIGSEGV: "SEGV", syscall.SIGTERM: "TERM",
	}
	if n := names[s]; n != "" {
		return n
	}
	return fmt.Sprintf("-%d", int(s))
}

func (l *localLink) Write(p []byte) (int, error) { return l.in.Write(p) }

// Close ends the agent's stream; the Dialer reaps the agent.
func (l *localLink) Close() error {
	l.closed.Do(func() {
		l.in.Close()
		l.out.Close()
	})
	return nil
}

func (l *localLink) Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, lasting(l.self), args...)
	out := &tail{limit: runOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return out.buf, context.Cause(ctx)
	}
	if cmd.ProcessState != nil {
		err = exitOf(err, cmd.ProcessState)
	}
	return out.buf, err
}

// lasting names this process's own binary so that it can be run also when its file has
// been replaced or removed since.
func lasting(self string) string {
	if exe, err := os.Executable(); err == nil && exe == self {
		return "/proc/self/exe"
	}
	return self
}

func (l *localLink) Stderr() string { return l.stderr.String() }

func (l *localLink) Timeline() []Phase { return l.phases }

func (l *localLink) Wait(ctx context.Context) error {
	select {
	case <-l.ended:
		return l.exit
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cleanLocal removes cached binaries of this machine.
func cleanLocal(home string) error {
	dir := filepath.Join(home, ".cache", "gorun")
	var errs []error
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "gorun-") || strings.HasPrefix(name, "tmp.") {
			errs = append(errs, os.Remove(filepath.Join(dir, name)))
		}
	}
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
