package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endSignals are the signals by which a user ends gorun. A HUP that gorun's parent
// ignores (nohup) stays ignored.
func endSignals() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

func ends(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// exitBy has signals end the process, until release is called, with code, or with
// 128+signal if code is 0. Go's own way to end by QUIT is to print every goroutine.
func exitBy(code int, signals ...os.Signal) (release func()) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		s, ok := <-came
		if !ok {
			return
		}
		if code == 0 {
			code = 128 + int(s.(syscall.Signal))
		}
		os.Exit(code)
	}()
	return func() {
		signal.Stop(came)
		close(came)
	}
}

// watchSignals returns the signals that the job is told of, from now to the end of the
// process.
func watchSignals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, append(endSignals(), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH)...)
	if !onTerminal() || !orphaned() {
		signal.Notify(c, syscall.SIGTSTP) // else ^Z does nothing, as to other programs
	}
	return c
}

// onTerminal reports whether there is a terminal at which ^Z may be typed: without one it
// is a batch system that suspends and continues jobs.
func onTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// orphaned reports whether no shell would continue this process when it is stopped: whether
// its process group is orphaned, as POSIX has it, judged by its ancestors alone. It is where
// gorun is what ssh -t, a container or a terminal runs. Where the ancestors cannot be seen
// from this PID namespace it reports false.
func orphaned() bool {
	group, session := unix.Getpgrp(), sessionOf(0)
	if group == 0 || session == 0 {
		return false
	}
	for pid := os.Getpid(); ; {
		parent := parentOf(pid)
		switch {
		case parent < 0:
			return false
		case parent == 0 || sessionOf(parent) != session:
			return true
		}
		if g, err := unix.Getpgid(parent); err != nil || g != group {
			return false
		}
		pid = parent
	}
}

func sessionOf(pid int) int {
	session, _ := unix.Getsid(pid)
	return session
}

// parentOf returns the parent of pid: 0 if it is in no PID namespace that this process
// sees, and -1 if it cannot be read.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) < 2 {
		return -1
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return -1
	}
	return parent
}

// catchPipe makes a write to a closed standard output an error, EPIPE, instead of the
// end of the process. The signal is caught, not ignored, as programs that gorun starts
// would inherit that.
func catchPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// suspend stops this process as ^Z does. It returns when the process is continued.
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// Another thread may have to stop the process; this one ran on for a moment.
	<-continued
}
