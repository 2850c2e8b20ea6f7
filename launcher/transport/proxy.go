package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// proxied is a connection that a ProxyCommand makes, over its standard input and output.
type proxied struct {
	*process
	command string
}

// Close ends the command: a hangup first, as ssh does, for it may have to say goodbye.
func (p *proxied) Close() error {
	p.signal(syscall.SIGHUP)
	time.AfterFunc(lastBreath, p.kill)
	return p.process.Close()
}

func (p *proxied) LocalAddr() net.Addr  { return p }
func (p *proxied) RemoteAddr() net.Addr { return p }

// Network and String make it its own net.Addr.
func (p *proxied) Network() string { return "ssh" }
func (p *proxied) String() string  { return proxyName(p.command) }

// Who uses the connection closes it when its time is over.
func (p *proxied) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *proxied) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p *proxied) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func proxyName(command string) string { return fmt.Sprintf("ProxyCommand %q", cleanLine(command, 200)) }

// throughCommand connects to the host by the command that ssh_config has for it. The
// user's shell replaces itself by it, as with ssh.
func (a *attempt) throughCommand() (*bannerConn, error) {
	a.trail.mark("connect")
	a.peer = proxyName(a.s.command)
	cmd := exec.Command(userShell(a.d.opts.getenv), "-c", "exec "+a.s.command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p, err := startProcess(cmd, a.d.fork.run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.peer, err)
	}
	a.d.children.Go(p.reap)
	a.said = p.stderr
	conn, err := a.patiently(func() (*bannerConn, error) { return greeted(a.ctx, &proxied{p, a.s.command}) })
	if err != nil && a.ctx.Err() == nil {
		return nil, a.proxyFailure(p, err)
	}
	return conn, err
}

// proxyFailure says what became of a command that made no connection. It has been asked
// to end, and is given time to.
func (a *attempt) proxyFailure(p *process, err error) error {
	e := &ProxyError{Command: cleanLine(a.s.command, 200)}
	if dropped, ok := errors.AsType[*DroppedError](err); ok {
		e.Text = dropped.Text
	}
	select {
	case <-p.ended:
		e.Exit = p.exit
	case <-time.After(lastBreath):
	}
	e.Stderr = cleanEnd(p.stderr.String(), 300)
	return e
}

// ProxyError says that a ProxyCommand made no connection to an ssh server.
type ProxyError struct {
	Command string // cleaned
	Exit    error  // an *ExitError, or nil if it ended with status 0 or had to be ended
	Text    string // what it wrote instead of an ssh banner; cleaned
	Stderr  string // the end of what it said; cleaned
}

func (e *ProxyError) Error() string {
	s := fmt.Sprintf("ProxyCommand %q", e.Command)
	switch {
	case e.Text != "":
		s += fmt.Sprintf(" led to no ssh server: it wrote %q", e.Text)
	case e.Exit != nil:
		s += fmt.Sprintf(" ended (%v) before an ssh banner came", e.Exit)
	default:
		s += " ended before an ssh banner came"
	}
	if e.Stderr != "" {
		s += fmt.Sprintf("; it said %q", e.Stderr)
	}
	return s
}

// passing reports whether trying again may help: not if there is no such command, or if
// something else than ssh answers.
func (e *ProxyError) passing() bool {
	exit, ok := e.Exit.(*ExitError)
	return e.Text == "" && (!ok || exit.Status != 126 && exit.Status != 127)
}

// noShell are characters that ssh accepts in no name that it puts into a command line.
const noShell = "'`\"$\\;&<>|(){}"

// plainNames reports an error if the host's name or user, which come from a hostfile or a
// list, could mean something to the shell that a command is given to.
func (e *evaluation) plainNames() error {
	for _, name := range []string{e.h.Name, e.h.User} {
		bad := strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(noShell, r) })
		if bad || strings.HasPrefix(name, "-") {
			return fmt.Errorf("%q cannot be part of a command", name)
		}
	}
	return nil
}

// command expands a command line.
func (e *evaluation) command(line string) (string, error) {
	if strings.Contains(line, "%") {
		if err := e.plainNames(); err != nil {
			return "", err
		}
	}
	return e.percent(line)
}
