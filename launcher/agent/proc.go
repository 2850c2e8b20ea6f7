package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// proc is what /proc/PID/stat says of a process.
type proc struct {
	pid, ppid, pgrp int
	state           byte
	start           uint64 // clock ticks since boot; with pid it names one process for ever
	ticks           uint64 // of CPU time, of this process and of its children that it has waited for
	own             uint64 // of them, this process's
	threads         int
	comm            string
}

// procKey names one process for ever.
type procKey struct {
	pid   int
	start uint64
}

func (p proc) key() procKey { return procKey{p.pid, p.start} }

// live reports whether the process can still do anything.
func (p proc) live() bool { return p.state != 'Z' && p.state != 'X' && p.state != 'x' }

func (p proc) String() string {
	return fmt.Sprintf("pid %d (%s) in state %c", p.pid, clean(p.comm), p.state)
}

// signal sends sig to the very process that p was read from: a pid that has been
// given to another process since is left alone.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	now, ok := readProc(p.pid)
	if !ok || now.start != p.start {
		return
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	// Linux before 5.3 has no pidfd_open, and some sandboxes refuse it.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		unix.Kill(p.pid, sig)
	}
}

// parseStat reads the line of /proc/PID/stat. The command's name may hold blanks
// and parentheses; it ends at the last one.
func parseStat(b []byte) (p proc, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return proc{}, false
	}
	rest := strings.Fields(string(b[end+1:]))
	if len(rest) < 20 || len(rest[0]) != 1 {
		return proc{}, false
	}
	var errs [4]error
	p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(b[:open])))
	p.ppid, errs[1] = strconv.Atoi(rest[1])
	p.pgrp, errs[2] = strconv.Atoi(rest[2])
	p.start, errs[3] = strconv.ParseUint(rest[19], 10, 64)
	p.state, p.comm = rest[0][0], string(b[open+1:end])
	for i, field := range rest[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseUint(field, 10, 64)
		p.ticks += n
		if i < 2 {
			p.own += n
		}
	}
	p.threads, _ = strconv.Atoi(rest[17])
	return p, errors.Join(errs[:]...) == nil && p.pid > 0
}

// readProc returns what is known of pid; ok is false when there is no such process.
func readProc(pid int) (p proc, ok bool) {
	var buf [1024]byte
	n, err := readInto("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return proc{}, false
	}
	return parseStat(buf[:n])
}

// readInto reads a small file of /proc in one go: a scan of /proc opens thousands.
func readInto(path string, buf []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// pids lists the processes that /proc shows.
func pids() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// processes returns all processes that /proc shows.
func processes() []proc {
	var out []proc
	for _, pid := range pids() {
		if p, ok := readProc(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// below returns the processes of all that descend from one of the roots, but for
// those in except and what descends from these. The roots are not among them.
func below(all []proc, roots, except map[int]bool) []proc {
	children := map[int][]proc{}
	for _, p := range all {
		if !except[p.pid] {
			children[p.ppid] = append(children[p.ppid], p)
		}
	}
	var out, todo []proc
	seen := map[int]bool{}
	for r := range roots {
		todo, seen[r] = append(todo, children[r]...), true
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[p.pid] { // a scan is no snapshot: pids may have moved meanwhile
			continue
		}
		seen[p.pid] = true
		out, todo = append(out, p), append(todo, children[p.pid]...)
	}
	return out
}

// hasChildren reports whether this process has any children.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != unix.ECHILD
}

// children lists the direct children of this process, zombies among them. While
// children come and go it may miss one.
func children() []int {
	if !hasChildren() {
		return nil
	}
	self := os.Getpid()
	if unix.Access(fmt.Sprintf("/proc/self/task/%d/children", self), unix.R_OK) != nil {
		return childrenByScan(self) // a kernel without CONFIG_PROC_CHILDREN
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return childrenByScan(self)
	}
	var out []int
	for _, t := range tasks {
		b, _ := os.ReadFile("/proc/self/task/" + t.Name() + "/children") // a thread may have ended
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

func childrenByScan(self int) []int {
	var out []int
	for _, p := range processes() {
		if p.ppid == self {
			out = append(out, p.pid)
		}
	}
	return out
}

// clean makes text of others fit for a line of gorun's.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}

// catches reports whether the process has a handler for sig.
func catches(pid int, sig syscall.Signal) bool {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return caught(b)>>(sig-1)&1 == 1
}

// caught reads the set of signals with handlers in /proc/PID/status: bit n-1 is signal n.
func caught(status []byte) (set uint64) {
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			set, _ = strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		}
	}
	return set
}
