package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

const (
	killLimit  = 5 * time.Second // for processes to vanish that were sent KILL
	drainLimit = 2 * time.Second // for pipes whose writers are not ours to kill
	pollFirst  = 2 * time.Millisecond
	pollMost   = 100 * time.Millisecond
	maxLeft    = 64 // what is left behind and named
)

// cleanUp ends every process of the job, removes every file of it and sends the
// output that is on its way. run is nil if no rank was started. It returns what the
// head is to be told.
//
// The processes get TERM, the time that is left of the grace, then KILL. For those
// that are in a rank's group or descend from one in any way it is certain that they
// are gone when this returns, or named in Left; one that hangs in the kernel cannot
// be killed.
func (a *agent) cleanUp(run *running) wire.Done {
	var done wire.Done
	if run != nil {
		done = a.stopRanks(run)
	} else {
		a.endExamination()
		a.clearTools()
	}
	if j := a.job.Load(); j != nil {
		j.mpi.close()
	}
	if s := a.store.Swap(nil); s != nil {
		s.Close()
	}
	if run != nil {
		close(run.quit)
		joined(run.looked, nil, joinLimit)
		done.Left = append(done.Left, removeShared(run.shm.files())...)
	}
	kept, err := a.removeFiles()
	done.Kept = cut(clean(kept))
	for _, err := range []error{err, a.claim.release(), removeInstall(a.cfg.Remove)} {
		if err != nil {
			done.Left = append(done.Left, clean(err.Error()))
		}
	}
	if n := len(done.Left) - maxLeft; n > 0 {
		done.Left = append(done.Left[:maxLeft], fmt.Sprintf("and %d more", n))
	}
	a.port.drop()
	if run != nil {
		a.drain(run.job)
	}
	return done
}

func (a *agent) stopRanks(run *running) (done wire.Done) {
	j := run.job
	j.beginStop()
	joined(run.forked, nil, joinLimit) // no rank may be born between TERM and KILL
	if !j.quiet() {
		run.shm.lookBriefly()
		if a.end.left() > 0 {
			j.signalAll(syscall.SIGTERM, syscall.SIGCONT) // a stopped process cannot end
			a.await(j)
		}
	}
	ranks, outside, left := a.kill(j)
	done.Killed = slices.Sorted(maps.Keys(ranks))
	for _, p := range left {
		done.Left = append(done.Left, p.String())
	}
	a.sayOutside(outside)
	for _, r := range j.ranks {
		if r.in != nil {
			r.in.close()
		}
	}
	return done
}

// await waits until no process of the job is left or the grace is over.
func (a *agent) await(j *job) {
	for wait := pollFirst; !j.quiet(); wait = min(2*wait, pollMost) {
		left := a.end.left()
		if left <= 0 {
			return
		}
		a.nap(j, min(wait, left))
	}
}

// nap returns when a process has ended, the grace has become shorter, or d is over.
func (a *agent) nap(j *job, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-j.ended:
	case <-a.end.moved:
	case <-t.C:
	}
}

// kill sends KILL until no process of the job is left, or some have survived it for
// killLimit. It returns the ranks that needed it, the other processes that did, and
// the survivors.
func (a *agent) kill(j *job) (ranks map[int]bool, outside map[int]proc, left []proc) {
	ranks, outside = map[int]bool{}, map[int]proc{}
	deadline := time.Now().Add(killLimit)
	for wait := pollFirst; !j.quiet() || !j.reapAll(); wait = min(2*wait, pollMost) {
		if time.Now().After(deadline) {
			return ranks, outside, j.descendants()
		}
		hit, others := j.signalAll(syscall.SIGKILL)
		maps.Copy(ranks, hit)
		for _, p := range others {
			outside[p.pid] = p
		}
		a.nap(j, wait)
	}
	return ranks, outside, nil
}

// sayOutside tells who had left its rank's process group and did not end by itself.
func (a *agent) sayOutside(killed map[int]proc) {
	if len(killed) == 0 {
		return
	}
	const most = 8
	var names []string
	for _, pid := range slices.Sorted(maps.Keys(killed)) {
		names = append(names, fmt.Sprintf("%d (%s)", pid, clean(killed[pid].comm)))
	}
	if n := len(names) - most; n > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", n))
	}
	text := "killed processes outside of the ranks' process groups: " + strings.Join(names, ", ")
	a.out.SendMessage(wire.Message{Log: &wire.Log{Level: "info", Text: text}})
}

// drain waits until the output of the dead ranks has been sent. A pipe may be held
// open by a process that is not ours; it is given up after drainLimit. Credit is
// waited for as long as the head lives and does not ask again for the end.
func (a *agent) drain(j *job) {
	a.end.drain()
	deadline := time.Now().Add(drainLimit)
	streams := j.streams()
	for _, s := range streams {
		s.finish(deadline)
	}
	for _, s := range streams {
		if s.open() && !joinedOr(s.done, a.end.hurry) {
			break
		}
	}
	if !isClosed(a.end.hurry) {
		return
	}
	for _, s := range streams {
		s.drop()
	}
	late := time.After(time.Until(deadline) + joinLimit)
	for _, s := range streams {
		if !s.open() {
			continue
		}
		select {
		case <-s.done:
		case <-late: // it hangs in a link that could not be closed
			return
		}
	}
}

// joinedOr waits until c or cut is closed, and reports whether it was c.
func joinedOr(c, cut <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-cut:
		return false
	}
}
