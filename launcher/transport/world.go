package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// world is what ssh_config may ask of this machine.
type world struct {
	hostname string
	uid      int
	getenv   func(name string) (string, bool)
	exec     func(ctx context.Context, command string) (bool, error)                  // of Match exec: does the command end well?
	canon    func(ctx context.Context, name, family string) (cname string, err error) // the name that a name service calls a host by; "" if there is no such host
	networks func() []netip.Addr                                                      // addresses of interfaces that are up
	version  func(ctx context.Context) (string, error)                                // of the ssh client, for Match version
	close    func()
}

// atOnce bounds the programs that run for ssh_config at a time.
const atOnce = 8

func newWorld(opts Options) world {
	r := newRunner(opts.ConnectTimeout/2, opts.getenv)
	w := world{uid: os.Getuid(), getenv: opts.getenv, exec: r.test, canon: r.canonical, networks: upAddrs, version: r.version, close: r.close}
	w.hostname, _ = os.Hostname()
	return w
}

func upAddrs() []netip.Addr {
	var addrs []netip.Addr
	ifaces, _ := net.Interfaces()
	for _, i := range ifaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		own, _ := i.Addrs()
		for _, a := range own {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				addrs = append(addrs, p.Addr().Unmap())
			}
		}
	}
	return addrs
}

// runner runs the programs that ssh_config asks for: each command line once for all
// hosts, some at a time, none for longer than limit.
type runner struct {
	limit time.Duration
	shell string // of the user's, as ssh takes it
	turn  chan struct{}
	ctx   context.Context // ends with the Dialer
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*programRun // guarded by mu, by command line
}

// programRun is one run of a program, and what came of it.
type programRun struct {
	done chan struct{} // closed when the rest is set
	out  string
	err  error
}

func newRunner(limit time.Duration, getenv func(string) (string, bool)) *runner {
	r := &runner{limit: limit, turn: make(chan struct{}, atOnce), runs: map[string]*programRun{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.shell = userShell(getenv)
	return r
}

// userShell is the shell to which ssh_config's commands are given.
func userShell(getenv func(string) (string, bool)) string {
	shell, _ := getenv("SHELL")
	return cmp.Or(shell, "/bin/sh")
}

// close ends what still runs, and waits for it.
func (r *runner) close() {
	r.stop()
	r.wg.Wait()
}

// run runs a program, unless it has been run before, and returns what it wrote to its
// standard output.
func (r *runner) run(ctx context.Context, args ...string) (string, error) {
	key := strings.Join(args, "\x00")
	r.mu.Lock()
	p := r.runs[key]
	if p == nil {
		p = &programRun{done: make(chan struct{})}
		r.runs[key] = p
		r.wg.Go(func() {
			defer close(p.done)
			p.out, p.err = r.start(args)
		})
	}
	r.mu.Unlock()
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// start waits for a turn and runs a program.
func (r *runner) start(args []string) (string, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-r.ctx.Done():
		return "", context.Cause(r.ctx)
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.limit, fmt.Errorf("it did not end in %v", r.limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	ownGroup(cmd)
	out := tail{limit: stderrKept}
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}

// ownGroup puts a program into a process group of its own, for Ctrl-C is gorun's to
// handle, and has the whole group killed at the end of the command's context.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a process that left the group may keep its output open
}

// test reports whether a command line for the user's shell ends with status 0.
func (r *runner) test(ctx context.Context, command string) (bool, error) {
	_, err := r.run(ctx, r.shell, "-c", command)
	exit, ended := errors.AsType[*exec.ExitError](err)
	if ended && exit.Exited() {
		return false, nil
	}
	return err == nil, err
}

// canonical asks the C library's name service, as ssh does, what a host is called.
func (r *runner) canonical(ctx context.Context, name, family string) (string, error) {
	if strings.HasPrefix(name, "-") {
		return "", nil
	}
	out, err := r.run(ctx, "getent", "ahosts"+strings.TrimPrefix(family, "any"), name)
	if errors.Is(err, exec.ErrNotFound) {
		return lookupCNAME(ctx, name, r.limit)
	}
	if err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); ended {
			return "", nil // it does not know the name
		}
		return "", err
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 {
			return f[2], nil
		}
	}
	return name, nil
}

// lookupCNAME is for systems without getent.
func lookupCNAME(ctx context.Context, name string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	cname, err := net.DefaultResolver.LookupCNAME(ctx, name)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return "", nil
	}
	return cname, err
}

// version is what the installed ssh client calls itself, as Match version has it.
func (r *runner) version(ctx context.Context) (string, error) {
	out, err := r.run(ctx, "/bin/sh", "-c", "ssh -V 2>&1")
	if err != nil {
		return "", errors.New("there is no ssh client here to tell its version")
	}
	version, _, _ := strings.Cut(out, ",")
	version, _, _ = strings.Cut(version, " ") // Debian adds its own
	return version, nil
}
