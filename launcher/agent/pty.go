package agent

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// openPty makes a pseudo terminal: what a rank writes to theirs is read from ours, as it
// is. It is nobody's controlling terminal, so that nothing which happens to it is a
// signal to anybody: the head alone sends those.
func openPty(size wire.Window) (theirs int, ours *os.File, err error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	theirs, err = openSlave(master)
	if err == nil {
		err = setUp(theirs, size)
	}
	if err != nil {
		if theirs >= 0 {
			unix.Close(theirs)
		}
		unix.Close(master)
		return -1, nil, os.NewSyscallError("pseudo terminal", err)
	}
	return theirs, os.NewFile(uintptr(master), "pty"), nil
}

// openSlave opens the other end of a pseudo terminal.
func openSlave(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN) // Linux before 4.13
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

// setUp gives a terminal its size, and has it pass output on unchanged.
func setUp(fd int, size wire.Window) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return err
	}
	return setWindow(fd, size)
}

func setWindow(fd int, size wire.Window) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// checkPty reports why ranks cannot have the pseudo terminals that the plan asks for.
func checkPty(p *wire.Plan) error {
	if p.Window == nil {
		return nil
	}
	theirs, ours, err := openPty(*p.Window)
	if err != nil {
		return fmt.Errorf("no pseudo terminal: %w", err)
	}
	unix.Close(theirs)
	return ours.Close()
}

// resize gives the ranks' terminals, also those to come, another size.
func (j *job) resize(size wire.Window) {
	j.mu.Lock()
	terminals := j.plan.Window != nil
	j.window = size
	j.mu.Unlock()
	if !terminals {
		return
	}
	for _, r := range j.ranks {
		r.out.control(func(fd uintptr) { setWindow(int(fd), size) })
	}
	j.signal(syscall.SIGWINCH) // the kernel sends it to a terminal's session, and there is none
}
