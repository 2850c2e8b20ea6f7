package agent

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// childInfo is siginfo_t as waitid fills it.
type childInfo struct {
	Signo, Errno, Code int32
	_                  [unsafe.Sizeof(uintptr(0))/4 - 1]int32 // alignment of the union behind
	PID                int32
	UID                uint32
	Status             int32
	_                  [25]int32
}

// Codes of a child's end (CLD_…).
const (
	childKilled = 2
	childDumped = 3
)

// waitChild asks how the child pid ended. ended is false while it runs, and when
// there is no such child. With WNOWAIT in options the child stays as it is.
func waitChild(pid, options int) (info childInfo, ended bool) {
	for {
		err := unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|options, nil)
		if err != unix.EINTR {
			return info, err == nil && info.PID == int32(pid)
		}
	}
}

// collect reports the ranks that have ended since it was last called. All it finds
// in one go get the same time: which of them was first is not known.
func (j *job) collect() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.collectLocked()
}

func (j *job) collectLocked() {
	at := time.Since(j.begun)
	for _, r := range j.ranks {
		j.collectRankLocked(r, at)
	}
}

func (j *job) collectRankLocked(r *rank, at time.Duration) {
	if r.pid == 0 || r.over {
		return
	}
	info, ended := waitChild(r.pid, unix.WNOWAIT)
	if !ended {
		return
	}
	r.over = true
	x := wire.Exited{Rank: r.n, At: at, ByStop: j.stopping}
	switch info.Code {
	case childKilled, childDumped:
		x.Signal, x.Core = int(info.Status), info.Code == childDumped
	default:
		x.Code = int(info.Status)
	}
	j.reportLocked(x)
}

// reportLocked sends x, but never before Started.
func (j *job) reportLocked(x wire.Exited) {
	if !j.told {
		j.early = append(j.early, x)
		return
	}
	j.send(x)
}

// reapOrphans frees the adopted processes that have ended. Ranks' first processes
// are kept: see signal. Before all ranks have been forked a child that is unknown
// may be one of them, so nothing is freed then.
func (j *job) reapOrphans() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.told {
		return
	}
	leaders := map[int]bool{}
	for _, r := range j.ranks {
		leaders[r.pid] = true
	}
	for _, pid := range children() {
		if !leaders[pid] {
			waitChild(pid, 0)
		}
	}
}

// quiet reports whether nothing of the job runs any more. Every process of it has
// this one as its ancestor, so it is enough to look at our own children.
func (j *job) quiet() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.collectLocked()
	for _, r := range j.ranks {
		if r.pid != 0 && !r.over {
			return false
		}
	}
	for _, pid := range children() {
		if p, ok := readProc(pid); ok && p.live() && !j.alien[p.key()] {
			return false
		}
	}
	return true
}

// reapAll frees all children that have ended, the ranks' first processes too: it is
// called when nothing is left to be signalled. It reports whether no child is left,
// but for those that are none of ours.
func (j *job) reapAll() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.ranks {
		r.freed = r.freed || r.over
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR || pid > 0:
		case err != nil:
			return true // ECHILD
		default: // at least one runs
			return len(j.alien) > 0 && len(j.descendants()) == 0
		}
	}
}

// poke tells whoever waits on ended to look again.
func (j *job) poke() {
	select {
	case j.ended <- struct{}{}:
	default:
	}
}

// beginStop marks every end that is seen from now on as caused by us.
func (j *job) beginStop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.collectLocked()
	j.stopping = true
}
