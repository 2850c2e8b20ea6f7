package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// grace is how long after a job's end its last traces may take to go; sshdGrace is the
// same for sshd's own processes, which learn of a dead connection only when TCP sends
// again: seconds after a link is mended.
const (
	grace     = 5 * time.Second
	sshdGrace = 40 * time.Second
)

// checkClean fails the test if host keeps a process or a file of a job, then removes it
// so that the next test does not suffer.
func checkClean(t *testing.T, host string) {
	t.Helper()
	var left []string
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left = traces(t, host)
		if len(left) == 0 {
			return
		}
		sshd := !slices.ContainsFunc(left, func(l string) bool { return !strings.Contains(l, ": sshd:") })
		if waited := time.Since(begun); waited > sshdGrace || waited > grace && !sshd {
			break
		}
	}
	t.Errorf("left on %s:\n  %s", host, strings.Join(left, "\n  "))
	for _, p := range processes(t, host) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	for _, dir := range volatile {
		testbed(t, "root", host, "sh", "-c", "rm -rf "+dir+"/* "+dir+"/.[!.]*")
	}
}

// volatile are the places where jobs put files; they are empty on a fresh host.
var volatile = []string{"/tmp", "/var/tmp", "/dev/shm"}

func traces(t *testing.T, host string) []string {
	t.Helper()
	var left []string
	for _, p := range processes(t, host) {
		left = append(left, fmt.Sprintf("process %d: %s", p.pid, p.command))
	}
	for _, dir := range volatile {
		for _, name := range files(t, host, dir) {
			left = append(left, "file "+filepath.Join(dir, name))
		}
	}
	return left
}

// files lists a directory as host sees it.
func files(t *testing.T, host, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(onHost(t, host, dir))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// onHost is a path by which this process sees host's file.
func onHost(t *testing.T, host, path string) string {
	t.Helper()
	return filepath.Join("/proc", strconv.Itoa(keeper(t, host)), "root", path)
}

// keeper is the process outside of host's process table that shares its other namespaces.
func keeper(t *testing.T, host string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, host, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

type process struct {
	pid     int // as this machine counts
	state   string
	command string // arguments separated by blanks, or [name]
	environ string
}

// processes lists what runs on host as one of the testbed's users, sshd's sessions and
// zombies that nobody has waited for included.
func processes(t *testing.T, host string) []process {
	t.Helper()
	var found []process
	for _, pid := range pids(t, host) {
		if p, ok := readProcess(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

// pids lists all processes of host, as this machine counts.
func pids(t *testing.T, host string) []int {
	t.Helper()
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", keeper(t, host)))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && other == space {
			found = append(found, pid)
		}
	}
	return found
}

// readProcess reports a process of a testbed user; one that has just ended is none.
func readProcess(pid int) (process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid}
	var uid int
	for line := range strings.Lines(string(status)) {
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "Name":
			p.command = "[" + strings.TrimSpace(value) + "]"
		case "State":
			p.state = strings.Fields(value)[0]
		case "Uid":
			uid, _ = strconv.Atoi(strings.Fields(value)[0])
		}
	}
	args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	if s := strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " "); s != "" {
		p.command = s
	}
	environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
	p.environ = string(environ)
	return p, uid >= rankID && uid < rankID+100
}
