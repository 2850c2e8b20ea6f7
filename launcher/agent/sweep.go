package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sweepLimit  = 7 * time.Second        // for all processes to vanish; the head waits a little longer
	environWait = 500 * time.Millisecond // for the environment of one process that may hang
)

// installDirs are where a fallback install directory can be.
func installDirs() []string {
	dirs := []string{"/tmp", "/var/tmp", "/dev/shm"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	return dirs
}

// Sweep removes what an agent that was killed, or no longer moves, has left on this
// host: that agent, the processes of this user whose environment says that they belong
// to the job, what descends from these, the job's directory, shared-memory files and a fallback install
// directory. It returns how many processes it killed. Processes of another job,
// itself and its ancestors it leaves alone. It blocks for at most about sweepLimit;
// an error says what is left.
func Sweep(ctx context.Context, jobID string) (killed int, err error) {
	if !validID(jobID) {
		return 0, fmt.Errorf("bad job id %q", jobID)
	}
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	s := &sweeper{id: jobID, spared: ancestors(os.Getpid()), envs: map[procKey]owner{}}
	left := s.killAll(ctx)
	errs := []error{}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("not ended: %s", strings.Join(left, ", ")))
	}
	for _, l := range removeShared(readShmList(jobDir(jobID))) {
		errs = append(errs, errors.New(l))
	}
	errs = append(errs, removeOwn(jobDir(jobID)), sweepDepots(os.Getenv("HOME"), jobID))
	for _, dir := range installDirs() {
		errs = append(errs, removeInstall(dir+"/"+installPrefix+jobID))
	}
	return len(s.killed), errors.Join(errs...)
}

// ancestors returns pid and all processes above it.
func ancestors(pid int) map[int]bool {
	out := map[int]bool{}
	for pid > 0 && !out[pid] {
		out[pid] = true
		p, _ := readProc(pid)
		pid = p.ppid
	}
	return out
}

// owner says which job a process belongs to.
type owner int

const (
	ownerUnknown owner = iota // it does not say
	ownerOurs
	ownerOther
)

// sweeper kills one job's processes.
type sweeper struct {
	id     string
	spared map[int]bool
	envs   map[procKey]owner // what was read
	killed map[int]bool
}

// killAll kills until nothing is found, twice after it has killed: a process in the
// middle of an exec has no environment. It returns what is left when ctx ends.
func (s *sweeper) killAll(ctx context.Context) (left []string) {
	s.killed = map[int]bool{}
	calm := true
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		found := s.find()
		if len(found) == 0 && calm {
			return nil
		}
		calm = len(found) == 0
		for _, p := range found {
			p.signal(syscall.SIGKILL)
			s.killed[p.pid] = true
		}
		select {
		case <-ctx.Done():
			for _, p := range found {
				left = append(left, p.String())
			}
			return left
		case <-time.After(wait):
		}
	}
}

// find returns the job's processes that are alive.
func (s *sweeper) find() []proc {
	all := processes()
	roots, except := map[int]bool{}, map[int]bool{}
	for pid := range s.spared {
		except[pid] = true
	}
	var out []proc
	agent := agentOf(s.id)
	for _, p := range all {
		if s.spared[p.pid] {
			continue
		}
		owner := s.owner(p)
		if p.pid == agent {
			owner = ownerOurs
		}
		switch owner {
		case ownerOurs:
			roots[p.pid] = true
			out = append(out, p)
		case ownerOther:
			except[p.pid] = true
		}
	}
	for _, p := range below(all, roots, except) {
		if !roots[p.pid] && ownedByUs(p.pid) {
			out = append(out, p)
		}
	}
	return slices.DeleteFunc(out, func(p proc) bool { return !p.live() })
}

// agentOf returns the process that listens on the store's socket of a job, if it is
// one of ours, or 0. It may be stopped: the kernel says who it is.
func agentOf(jobID string) (pid int) {
	dir := jobDir(jobID)
	if checkOwn(dir) != nil {
		return 0
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: storePath(dir)}) != nil {
		return 0
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || !ownedByUs(int(cred.Pid)) {
		return 0
	}
	return int(cred.Pid)
}

// owner reads whose p is. A process that hangs may hide its environment for ever, so
// each is read by a goroutine that can be left behind.
func (s *sweeper) owner(p proc) owner {
	key := p.key()
	if o := s.envs[key]; o != ownerUnknown {
		return o
	}
	if !ownedByUs(p.pid) {
		return ownerUnknown
	}
	read := make(chan owner, 1)
	go func() {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		read <- whose(b, s.id)
	}()
	select {
	case s.envs[key] = <-read:
	case <-time.After(environWait):
		s.envs[key] = ownerOther // it is not known to be ours
	}
	return s.envs[key]
}

// whose looks for the job's id in an environment: NAME=value strings that end in NUL.
func whose(environ []byte, id string) owner {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if got, ok := bytes.CutPrefix(v, []byte("GORUN_JOB_ID=")); ok {
			if string(got) == id {
				return ownerOurs
			}
			return ownerOther
		}
	}
	return ownerUnknown
}

func ownedByUs(pid int) bool {
	fi, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
