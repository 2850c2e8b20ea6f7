package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	*process
	io.Reader // what was read behind the hail, then the rest
	self      string
	phases    []Phase
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
	sc := newScanner(l.process, nonce)
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
	l.Reader, l.phases = io.MultiReader(strings.NewReader(string(sc.rest())), l.process), a.trail.all()
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

// startLocal starts the agent.
func startLocal(d *Dialer, nonce string) (*localLink, error) {
	p, err := startProcess(exec.Command(d.opts.Self, "agent", nonce), func(start func() error) error { return start() })
	if err != nil {
		return nil, err
	}
	d.children.Go(p.reap)
	return &localLink{process: p, Reader: p, self: d.opts.Self}, nil
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

func (l *localLink) Read(p []byte) (int, error) { return l.Reader.Read(p) }

// Close ends the agent's stream; the Dialer reaps the agent.
func (l *localLink) Close() error {
	l.closed.Do(func() { l.process.Close() })
	return nil
}

func (l *localLink) Run(ctx context.Context, args ...string) ([]byte, error) {
	return runHere(ctx, exec.CommandContext(ctx, lasting(l.self), args...))
}

// runHere runs a command on this machine, as runOn does elsewhere.
func runHere(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
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

func (l *localLink) Wait(ctx context.Context) error { return l.wait(ctx) }
