package launcher

import (
	"errors"
	"time"

	"gorun/envsync"
)

// EventVersion is the version of what Event looks like in JSON. Names are only ever
// added to a version.
const EventVersion = 1

// Event is one thing that happened in a job, as --events writes it. docs/events.md has
// the names that Event can have, and says which of the fields each comes with.
type Event struct {
	V       int           `json:"v"`
	T       time.Time     `json:"t"`
	Elapsed time.Duration `json:"elapsed_ns"` // since gorun was started
	Event   string        `json:"event"`

	JobID    string     `json:"job_id,omitempty"`
	Gorun    string     `json:"gorun,omitempty"`
	Hosts    []string   `json:"hosts,omitempty"`
	Excluded []string   `json:"excluded,omitempty"`
	Apps     []EventApp `json:"apps,omitempty"`

	Phase  string        `json:"phase,omitempty"`
	Host   string        `json:"host,omitempty"`
	Steps  []EventStep   `json:"steps,omitempty"`
	Cores  int           `json:"cores,omitempty"`
	GPUs   *int          `json:"gpus,omitempty"`
	Silent time.Duration `json:"silent_ns,omitempty"`

	Rank      *int           `json:"rank,omitempty"`
	LocalRank *int           `json:"local_rank,omitempty"`
	PID       int            `json:"pid,omitempty"`
	State     string         `json:"state,omitempty"`
	Code      *int           `json:"code,omitempty"`
	Signal    int            `json:"signal,omitempty"`
	Core      bool           `json:"core,omitempty"`
	At        *time.Duration `json:"at_ns,omitempty"` // since the ranks were started

	Proven    *int   `json:"proven,omitempty"`
	NotProven *int   `json:"not_proven,omitempty"`
	Digest    string `json:"digest,omitempty"`

	Reason  string   `json:"reason,omitempty"`
	Text    string   `json:"text,omitempty"`
	Killed  []int    `json:"killed,omitempty"`
	Kept    string   `json:"kept,omitempty"`
	Left    []string `json:"left,omitempty"`
	Exit    *int     `json:"exit_code,omitempty"`
	Message []string `json:"message,omitempty"`
}

// EventApp is a program of the job. Secrets among its arguments are hidden.
type EventApp struct {
	NP      int      `json:"np,omitempty"` // 0: a rank for each slot
	Command []string `json:"command"`
}

// EventStep is a step of connecting to a host.
type EventStep struct {
	Step string        `json:"step"`
	Took time.Duration `json:"took_ns"`
}

// Why a job is stopped.
const (
	reasonEnded     = "all ranks ended"
	reasonRank      = "rank failed"
	reasonTimeout   = "timeout"
	reasonSignal    = "signal"
	reasonOutput    = "output closed"
	reasonLost      = "host lost"
	reasonSettings  = "settings differ"
	reasonDiffer    = "environments differ"
	reasonHosts     = "hosts not usable"
	reasonPlacement = "cannot be placed"
	reasonPrepare   = "cannot be prepared"
	reasonPreflight = "preflight"
)

// record hands events to whoever wants them.
func (r *run) record(events ...Event) {
	if r.io.Events == nil {
		return
	}
	for _, e := range events {
		r.io.Events(e)
	}
}

// recordStart tells what is going to be done.
func (r *run) recordStart() {
	e := Event{Event: "start", JobID: r.id}
	for _, h := range r.hosts {
		e.Hosts = append(e.Hosts, h.spec.Name)
	}
	for _, a := range r.job.Apps {
		if len(a.Args) == 0 {
			continue // there are to be no ranks
		}
		e.Apps = append(e.Apps, EventApp{NP: a.NP, Command: envsync.HideArgs(a.Args)})
	}
	r.record(e)
	r.m.announce()
	r.record(r.m.journal()...)
}

// steps is what the phases of a connection took.
func steps(h *host) []EventStep {
	phases := h.link.Timeline()
	var out []EventStep
	for i, p := range phases[:max(len(phases)-1, 0)] {
		out = append(out, EventStep{p.Name, phases[i+1].At - p.At})
	}
	return out
}

// The machine tells what happens in its own words: events without time.

// emit notes an event if somebody wants to know.
func (m *machine) emit(e Event) {
	if m.listened {
		m.events = append(m.events, e)
	}
}

func (m *machine) emitHost(name string, i int, e Event) {
	e.Event, e.Host = name, m.hosts[i].name
	m.emit(e)
}

// journal returns the events since the last call.
func (m *machine) journal() []Event {
	events := m.events
	m.events = nil
	return events
}

// announce emits where a machine begins.
func (m *machine) announce() {
	m.emit(Event{Event: "phase", Phase: string(m.phase)})
	for i := range m.hosts {
		m.emitHost("host_connecting", i, Event{})
	}
}

// emitStarted tells of every rank of host i; pids are in their order.
func (m *machine) emitStarted(i int, pids []int) {
	if !m.listened {
		return
	}
	for n, rank := range m.byHost[i] {
		e := Event{Rank: new(rank), LocalRank: new(m.layout.Ranks[rank].Local)}
		if n < len(pids) {
			e.PID = pids[n]
		}
		m.emitHost("rank_started", i, e)
	}
}

// emitUnable tells why a host, or a rank of it, cannot be started.
func (m *machine) emitUnable(f PrepareFailure) {
	e := Event{Event: "prepare_failed", Host: f.Host, Code: new(f.Code), Text: f.Text}
	if f.Rank >= 0 {
		e.Rank = new(f.Rank)
	}
	m.emit(e)
}

// emitEnded tells how a rank has ended.
func (m *machine) emitEnded(r RankResult) {
	e := Event{Event: "rank_ended", Rank: new(r.Rank), Host: r.Host, State: r.State, Text: r.Text}
	if r.State != StateLost {
		e.Code, e.Signal, e.Core, e.At = new(r.Code), r.Signal, r.Core, new(r.At)
	}
	m.emit(e)
}

// emitStop tells why everything is stopped.
func (m *machine) emitStop() {
	e := Event{Event: "stop"}
	first := m.first()
	switch {
	case m.begun && m.ended == len(m.ranks) && (m.keepGoing || m.well()):
		e.Reason = reasonEnded
	case m.timeout:
		e.Reason = reasonTimeout
	case m.signal != 0:
		e.Reason, e.Signal = reasonSignal, int(m.signal)
	case m.differ != nil:
		e.Reason = reasonDiffer
	case m.stdoutClosed:
		e.Reason = reasonOutput
	case m.phase == phaseSurveying && m.planErr != nil:
		e.Reason, e.Text = reasonPreflight, m.planErr.Error()
	case m.phase == phaseSurveying && len(m.hostFailures) == 0:
		e.Reason = reasonPreflight
	case is(errors.AsType[*SettingsError](m.planErr)), is(errors.AsType[*FoundError](m.planErr)), is(errors.AsType[*LibrariesError](m.planErr)):
		e.Reason, e.Text = reasonSettings, m.planErr.Error()
	case m.planErr != nil:
		e.Reason, e.Text = reasonPlacement, m.planErr.Error()
	case len(m.hostFailures) > 0:
		e.Reason = reasonHosts
	case len(m.prepare) > 0:
		e.Reason = reasonPrepare
	case len(m.lostHosts) > 0:
		e.Reason, e.Host = reasonLost, m.hosts[m.lostHosts[0].host].name
	case first != nil:
		e.Reason, e.Rank, e.Host = reasonRank, new(first.Rank), first.Host
	}
	m.emit(e)
}

// is drops what errors.AsType has found.
func is(_ any, ok bool) bool { return ok }
