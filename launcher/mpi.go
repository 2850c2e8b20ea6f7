package launcher

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorun/envsync"
	"gorun/launcher/wire"
	"gorun/rendezvous/pmi"
)

// Ways in which ranks that are MPI processes reach gorun.
const (
	PMIFile = "fd"   // by an inherited descriptor
	PMIPort = "port" // by a TCP port of the loopback interface
	PMINone = "none" // not at all
)

// pmiPlan is what every host is told about MPI, nil for nothing.
func (p *planner) pmiPlan() *wire.PMI {
	if p.job.PMI == PMINone {
		return nil
	}
	return &wire.PMI{Port: p.job.PMI == PMIPort, Mapping: p.mapping}
}

// mappingOf says which ranks share a host, as MPI wants to know it.
func (p *planner) mappingOf(l Layout) string {
	nodes := make([]int, l.Size())
	for rank, place := range l.Ranks {
		nodes[rank] = p.node[place.Host]
	}
	return pmi.Mapping(nodes)
}

// pmiVars are a rank's own names for MPI. The port its agent alone knows.
func (j Job) pmiVars(rank, size int) []envsync.Var {
	var vars []envsync.Var
	add := func(name string, n int) {
		vars = append(vars, envsync.Var{Name: name, Value: strconv.Itoa(n), Origin: envsync.FromGorun})
	}
	switch j.PMI {
	case PMINone:
		return nil
	case PMIPort:
		add("PMI_ID", rank)
	default:
		add("PMI_FD", wire.PMIFile)
	}
	add("PMI_RANK", rank)
	add("PMI_SIZE", size)
	return vars
}

// breach is what a rank did, as an MPI process, by which the job ends.
type breach struct {
	rank, code int
	fault      string
	at         time.Duration
	late       bool // it counts also if the rank has ended before
}

// aborted is the breach of a rank that asked for the end.
func aborted(a *wire.Abort) *breach {
	b := &breach{rank: a.Rank, code: a.Code & 0xff, at: a.At, fault: fmt.Sprintf("called MPI_Abort(%d)", a.Code), late: true}
	if a.Text != "" {
		b.fault, b.late = "cannot go on with MPI: "+a.Text, false
	}
	if b.code == 0 {
		b.code = 1 // it was no success
	}
	return b
}

// rankBroke ends the job, also if failed ranks are not to stop the others: they would
// wait for this one.
func (m *machine) rankBroke(b *breach) []action {
	if !m.begun || m.signal != 0 || m.ending() {
		return nil
	}
	r := &m.ranks[b.rank]
	switch {
	case r.Fault != "":
		return nil
	case r.State == StateWaiting && !m.stopping:
		r.Code, r.At = b.code, b.at
	case r.State == StateExited && b.late:
	default:
		return nil
	}
	r.Fault = b.fault
	m.emit(Event{Event: "rank_fault", Rank: new(b.rank), Host: r.Host, Code: new(r.Code), Text: b.fault, At: new(r.At)})
	return m.stop()
}

// noteParted notes that ranks have left MPI.
func (r *run) noteParted(list []wire.Parted) {
	if r.parted == nil {
		r.parted = map[int]wire.Parted{}
	}
	for _, p := range list {
		r.parted[p.Rank] = p
	}
	for _, p := range list {
		r.mpiEnded(p.Rank)
	}
}

// barrierWarning is how long ranks wait in a barrier of MPI's before a line says for whom.
const barrierWarning = time.Minute

// mpiMeeting notes that a host has ranks in a barrier of MPI's.
func (r *run) mpiMeeting(name string) {
	r.usesMPI = true
	if r.meeting != name {
		r.meeting = name
		r.lateness.set(barrierWarning)
	}
	r.checkMPI()
}

// mpiLate says who keeps the others waiting. They may have good reason to.
func (r *run) mpiLate() {
	for _, w := range r.engine.Wanted() {
		if w.Op == "barrier" && w.Name == strconv.Quote(r.meeting) {
			r.note("warn", fmt.Sprintf("MPI ranks have waited for %v: %s; in MPI_Finalize MPICH before 4.2 can hang so, see MPI PROGRAMS in gorun(1)", barrierWarning, w.Text))
		}
	}
}

// checkMPI ends the job when ranks wait in a barrier of MPI's for one that will not come.
func (r *run) checkMPI() {
	if !r.usesMPI || len(r.parted) == 0 && r.job.PMI != PMIPort || r.m.stopping {
		return
	}
	for _, w := range r.engine.Wanted() {
		if w.Op != "barrier" || !strings.HasPrefix(w.Name, strconv.Quote(pmi.Prefix)[:len(pmi.Prefix)+1]) {
			continue
		}
		var first *breach
		for _, rank := range w.From {
			if b := r.missing(rank); b != nil && (first == nil || b.at < first.at) {
				first = b
			}
		}
		if first != nil {
			r.step(event{broke: first})
			return
		}
	}
}

// missing is the breach of a rank that others wait for; nil if it may still come.
func (r *run) missing(rank int) *breach {
	p, left := r.parted[rank]
	b := &breach{rank: rank, code: 1, at: p.At, late: true}
	const wait = "while others wait for it"
	res := r.m.ranks[rank]
	switch {
	case p.How == pmi.Finalized:
		b.fault = "called MPI_Finalize " + wait
	case res.State != StateExited: // its end says more
		return nil
	case p.How == pmi.Gone:
		b.fault = "ended without MPI_Finalize " + wait
	case p.How == pmi.Absent, !left && r.job.PMI == PMIPort:
		b.fault, b.at = "ended without MPI_Init "+wait, res.At
	default:
		return nil
	}
	return b
}

// mpiEnded looks at a rank that has just ended, or left MPI.
func (r *run) mpiEnded(rank int) {
	r.checkMPI()
	res := r.m.ranks[rank]
	r.mpiAgain(res)
	if p := r.parted[rank]; p.How != pmi.Gone || res.State != StateExited || res.Code != 0 || res.Fault != "" || r.m.stopping || r.m.ended == len(r.m.ranks) || r.toldGone {
		return
	}
	r.toldGone = true
	r.note("warn", fmt.Sprintf("rank %d on %s ended with code 0, but without MPI_Finalize", rank, res.Host))
}

// mpiAgain says why a second MPI program in a rank ends: the first has closed the descriptor
// that it inherits.
func (r *run) mpiAgain(res RankResult) {
	pipe := int(syscall.SIGPIPE)
	if res.Signal != pipe && res.Code != 128+pipe || r.parted[res.Rank].How != pmi.Finalized || r.job.PMI == PMIPort || r.toldAgain {
		return
	}
	r.toldAgain = true
	r.note("warn", fmt.Sprintf("rank %d on %s was ended by SIGPIPE after MPI_Finalize, as a second MPI program in a rank is: it may be one once in its life", res.Rank, res.Host))
}
