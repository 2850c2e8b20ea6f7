package transport

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gorun/hostfile"
)

// By Options.Rsh a host is reached by another command, as ssh or kubectl exec, and not by
// gorun's own ssh. It runs once for the agent and once more for each Link.Run; what is
// sent is the same. It is killed with all of its process group when it is not needed any
// more. If gorun itself is killed, the command is, too; what it may have started then sees
// the end of its input.

// commandConn is a host that is reached by a command.
type commandConn struct {
	workers
	d    *Dialer
	host hostfile.Host
	over chan struct{} // closed by cut

	once   sync.Once
	runsMu sync.Mutex
	runs   []*process // guarded by runsMu; started by this
}

// lastBreath is how long a command that was killed may take to be gone. One that runs as
// another user, as sudo's, cannot be killed: it ends as its input has.
const lastBreath = time.Second

func (c *commandConn) start(command string) (*session, error) {
	argv, err := c.d.rsh.argv(c.host, command)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p, err := startProcess(cmd, c.d.fork.run)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err // without the name
	}
	if err != nil {
		return nil, err
	}
	c.d.children.Go(p.reap)
	if !c.adopt(p) {
		return nil, net.ErrClosed
	}
	s := &session{channel: p.channel, stderr: p.stderr, ended: make(chan struct{}), exit: errNoExit}
	if !c.spawn(func() { c.watch(s, p) }) {
		return nil, net.ErrClosed
	}
	return s, nil
}

// adopt has cut kill p, or kills it if that has been.
func (c *commandConn) adopt(p *process) bool {
	c.runsMu.Lock()
	defer c.runsMu.Unlock()
	select {
	case <-c.over:
		p.Close()
		p.kill()
		return false
	default:
		c.runs = append(c.runs, p)
		return true
	}
}

// watch tells s when p has ended, or is not waited for any more.
func (c *commandConn) watch(s *session, p *process) {
	defer close(s.ended)
	select {
	case <-p.ended:
	case <-c.over:
		select {
		case <-p.ended:
		case <-time.After(lastBreath):
			return
		}
	}
	s.exit = p.exit
}

func (c *commandConn) cut() {
	c.once.Do(func() {
		c.runsMu.Lock()
		defer c.runsMu.Unlock()
		close(c.over)
		for _, p := range c.runs {
			p.Close()
			p.kill()
		}
	})
}

func (c *commandConn) close() { c.end(c.cut) }

// open connects to the host by Options.Rsh or, without it, by ssh. It says so if the name
// turns out to be this machine's.
func (a *attempt) open() (c conn, local bool, err error) {
	if a.d.rsh != nil {
		c, err = a.command()
		return c, false, err
	}
	ssh, local, err := a.reach()
	if err != nil || local {
		return nil, local, err
	}
	return ssh, false, nil
}

// command is a connection by Options.Rsh. Nothing is started yet.
func (a *attempt) command() (conn, error) {
	argv, err := a.d.rsh.argv(a.host, "cat")
	if err != nil {
		return nil, err
	}
	if err := a.enter(); err != nil {
		return nil, err
	}
	a.rsh, a.tries = argv, 1
	a.stage.Store(int32(atAgent))
	a.trail.mark("connect")
	a.d.log.Info("reaching by --rsh", "host", a.host.Name, "example", strings.Join(argv, " "))
	return &commandConn{d: a.d, host: a.host, over: make(chan struct{})}, nil
}

// rshName is what a command line is called in messages, "" if there is none.
func rshName(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return cleanLine(filepath.Base(argv[0]), 100)
}
