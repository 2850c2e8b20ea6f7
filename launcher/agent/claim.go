package agent

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// jobDir is the job's directory on each host; the store's socket is in it.
func jobDir(id string) string { return "/tmp/gorun-" + id }

// storePath is the store's socket in a job's directory.
func storePath(dir string) string { return dir + "/store" }

// claim is what a job holds on this host to be sure that it is here only once.
type claim struct {
	dir   string // "" until made
	names []int  // bound abstract sockets
}

// twinError is the error of the agent that came second to a machine: the number of the
// node that was first, or -1 if it is not known. The head has the names.
type twinError int

func (e twinError) Error() string {
	if e < 0 {
		return "is the same machine as another host of this job"
	}
	return "is the same machine as "
}

// take claims the host for node number node of the job.
//
// Two sockets are bound: @gorun-JOB, which only one can have, and @gorun-JOB.NODE,
// by which the loser finds out whom it met. They vanish with this process.
func (c *claim) take(id string, node int) error {
	name := "@gorun-" + id
	if err := c.bind(name + "." + strconv.Itoa(node)); err != nil {
		return fmt.Errorf("abstract socket: %w", err)
	}
	err := c.bind(name)
	if errors.Is(err, unix.EADDRINUSE) {
		return twin(name, node, boundNames())
	}
	if err != nil {
		return fmt.Errorf("abstract socket: %w", err)
	}
	dir := jobDir(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("job directory: %w", err)
	}
	c.dir = dir
	return os.Chmod(dir, 0o700) // the umask may have taken more away
}

// bind binds an abstract socket; Go and the kernel write its first byte, NUL, as @.
func (c *claim) bind(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(fd)
		return err
	}
	c.names = append(c.names, fd)
	return nil
}

// release gives the host free and removes the job directory.
func (c *claim) release() error {
	var err error
	if c.dir != "" {
		err = os.RemoveAll(c.dir)
	}
	for _, fd := range c.names {
		unix.Close(fd)
	}
	c.names = nil
	return err
}

// twin finds among the bound sockets' names the node that has claimed this machine.
func twin(name string, node int, bound []string) twinError {
	for _, b := range bound {
		other, ok := strings.CutPrefix(b, name+".")
		n, err := strconv.Atoi(other)
		if ok && err == nil && n != node && n >= 0 {
			return twinError(n)
		}
	}
	return -1
}

// boundNames lists the abstract sockets of this network namespace.
func boundNames() []string {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if i := strings.Index(line, " @"); i >= 0 {
			out = append(out, strings.TrimSpace(line[i+1:]))
		}
	}
	return out
}

// removeInstall removes the directory that the transport installed this binary in
// because the usual one did not do. It refuses anything else.
func removeInstall(dir string) error {
	if dir == "" {
		return nil
	}
	base := dir[strings.LastIndexByte(dir, '/')+1:]
	if id, ok := strings.CutPrefix(base, installPrefix); !ok || !validID(id) || dir[0] != '/' {
		return fmt.Errorf("%q is no install directory", dir)
	}
	return removeOwn(dir)
}

// installPrefix begins the name of a fallback install directory; the job's id follows.
const installPrefix = "gorun-agent-"

// removeOwn removes a directory and all in it, if it is one, and ours. One that
// does not exist is fine.
func removeOwn(dir string) error {
	err := checkOwn(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return os.RemoveAll(dir)
}

// checkOwn reports why dir is no directory of ours: anybody can make one in /tmp.
func checkOwn(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !fi.IsDir() || !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: is no directory of ours", dir)
	}
	return nil
}
