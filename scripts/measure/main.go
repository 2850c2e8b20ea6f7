// Measure runs a command and writes what it cost to file descriptor 3: wall time and
// CPU time in milliseconds, peak memory in KiB, and the exit code, on one line.
//
//	measure COMMAND [ARG…] 3>REPORT
//
// CPU time counts every descendant, also one whose parent has gone. Memory is the
// resident size of all of them together, sampled, and at least the peak that the
// kernel noted for the largest.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const interval = 20 * time.Millisecond // between samples of memory

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: measure COMMAND [ARG…] 3>REPORT")
		os.Exit(2)
	}
	report, code, err := measure(os.Args[1:])
	if err == nil {
		_, err = os.NewFile(3, "report").WriteString(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(125)
	}
	os.Exit(code)
}

func measure(args []string) (report string, code int, err error) {
	// Orphans become this process's children, so that their CPU time is counted.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return "", 0, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	ended := make(chan struct{})
	peak := make(chan int)
	go func() { peak <- watch(os.Getpid(), ended) }()
	err = cmd.Wait()
	wall := time.Since(begun)
	close(ended)
	sampled := <-peak
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return "", 0, err
	}
	reap()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return "", 0, err
	}
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	code = cmd.ProcessState.ExitCode()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return fmt.Sprintln(wall.Milliseconds(), cpu.Milliseconds(), max(sampled, int(usage.Maxrss)), code), code, nil
}

// reap collects the orphans that have already ended.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}

// watch returns the largest memory, in KiB, of pid's descendants together.
func watch(pid int, ended <-chan struct{}) int {
	peak := 0
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		peak = max(peak, resident(pid))
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
	}
}

// resident adds up the resident sizes of pid's descendants. A process that ends
// meanwhile counts as nothing.
func resident(pid int) int {
	sum := 0
	for _, child := range children(pid) {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", child))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages, _ := strconv.Atoi(fields[1])
			sum += pages * os.Getpagesize() / 1024
		}
		sum += resident(child)
	}
	return sum
}

func children(pid int) []int {
	var pids []int
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
