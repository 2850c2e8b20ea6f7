package agent

// overTicks is how often in a row nothing of a rank may be seen to run until it is over.
// While processes come and go the kernel's list of them may lack one.
const overTicks = 3

// toldOver is the calm of a rank of which the store knows that it is over.
const toldOver = overTicks + 1

// sayOver tells the store, at every tick, which ranks are over: their ends have been seen,
// and nothing that they had started still runs, as it may go on for them. Whose an adopted
// process is cannot be known for sure, so while there is one no rank is over.
func (a *agent) sayOver() {
	j, store := a.job.Load(), a.store.Load()
	if j == nil || store == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ended := j.endedLocked()
	if len(ended) == 0 {
		return
	}
	adopted := j.adoptedLocked()
	for _, r := range ended {
		if adopted {
			r.calm = 0
			continue
		}
		if r.calm = min(r.calm+1, overTicks); r.calm == overTicks && store.Over(r.n) {
			r.calm = toldOver
		}
	}
}

// endedLocked lists the ranks that have ended, and of which the store has not been told
// that they are over.
func (j *job) endedLocked() (ended []*rank) {
	for _, r := range j.ranks {
		if j.told && r.over && r.calm < toldOver {
			ended = append(ended, r)
		}
	}
	return ended
}

// adoptedLocked reports whether a process lives that lost its parent and became ours.
func (j *job) adoptedLocked() bool {
	leaders := map[int]bool{}
	for _, r := range j.ranks {
		leaders[r.pid] = true
	}
	for _, pid := range children() {
		if leaders[pid] {
			continue
		}
		if p, ok := readProc(pid); ok && p.live() && !j.alien[p.key()] {
			return true
		}
	}
	return false
}
