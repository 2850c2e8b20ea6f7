package launcher

import (
	"time"

	"golang.org/x/sys/unix"

	"syscall"
)

// Result says how a job ended; cmd/gorun makes text and an exit code of it.
type Result struct {
	JobID        string          `json:"job_id"`
	Hosts        []HostResult    `json:"hosts"`
	Excluded     []Excluded      `json:"excluded,omitempty"` // hosts without which the job went on
	Ranks        []RankResult    `json:"ranks"`              // empty, and not nil, if there were to be none
	First        *RankResult     `json:"first_failure,omitempty"`
	Others       int             `json:"other_failures"` // ranks that failed by themselves beside First
	Stopped      int             `json:"stopped"`        // ranks that gorun's own stop, or the user's signal, ended
	Tail         []string        `json:"last_lines,omitempty"`
	Killed       []int           `json:"killed,omitempty"`          // ranks that needed KILL
	NoGrace      bool            `json:"-"`                         // they got it before their grace was over: the user asked twice
	Left         []string        `json:"left,omitempty"`            // what could not be removed, "host: what"
	Kept         []KeptDir       `json:"kept,omitempty"`            // where files stay that ranks have written
	Timeout      bool            `json:"timeout,omitempty"`         // the job's time limit ended it
	Signal       int             `json:"signal,omitempty"`          // the signal by which the user ended it
	Lost         []string        `json:"lost,omitempty"`            // hosts lost, "host: why"; one text for all that were lost with a jump host
	StdoutClosed bool            `json:"stdout_closed,omitempty"`   // stdout or stderr, by its reader
	OutputError  string          `json:"output_error,omitempty"`    // output that could not be written
	Picture      *Picture        `json:"picture,omitempty"`         // what the ranks were doing when they were last looked at
	EnvDigest    string          `json:"env_digest,omitempty"`      // of the NCCL settings that must be equal in the job; "": the programs have different ones
	Environment  *Environment    `json:"environment,omitempty"`     // as it was read back from the ranks' processes
	Differ       []EnvDifference `json:"-"`                         // between environments, for which the job was stopped
	EnvHost      string          `json:"env_host_digest,omitempty"` // of those that must be equal on each host, for hosts without any of their own
	Elapsed      time.Duration   `json:"elapsed_ns"`
	Hurried      bool            `json:"-"` // somebody, or the limit, asked for the end: nothing is to be waited for
	Unfinished   bool            `json:"-"` // standard error was left in the middle of a rank's line
}

// HostResult is one host of a Result.
type HostResult struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"` // -1: not known
	Ranks int    `json:"ranks"`

	EnvHost string `json:"env_host_digest,omitempty"` // as that of the Result, of a host that has settings of its own
}

// KeptDir is a job's directory that is not removed: ranks have written into it.
type KeptDir struct {
	Host string `json:"host"`
	Dir  string `json:"dir"`
}

// States of a rank.
const (
	StateWaiting    = "waiting"     // not ended yet; in a Result: the job ended before it was started
	StateExited     = "exited"      // by itself, with Code
	StateKilled     = "killed"      // by Signal, which gorun did not send
	StateStopped    = "stopped"     // by gorun's stop or after the user's signal
	StateNotStarted = "not started" // Text says why
	StateLost       = "lost"        // with its host; how it ended is not known
)

// RankResult is one rank of a Result.
type RankResult struct {
	Rank   int           `json:"rank"`
	App    int           `json:"program,omitempty"` // index of its App
	Host   string        `json:"host"`
	State  string        `json:"state"`
	Code   int           `json:"code"`
	Signal int           `json:"signal,omitempty"`
	Core   bool          `json:"core,omitempty"`
	Text   string        `json:"text,omitempty"`
	Fault  string        `json:"fault,omitempty"` // what it did, as an MPI process, by which the job ended: "called MPI_Abort(7)"
	At     time.Duration `json:"at_ns"`           // since the ranks were started
	CPUs   string        `json:"cpus,omitempty"`  // that it was bound to, as "2-3,66-67"; "": it was not bound
}

// failed reports whether the rank ended badly by itself.
func (r RankResult) failed() bool {
	switch {
	case r.Fault != "":
		return true
	case r.State == StateExited:
		return r.Code != 0
	case r.State == StateKilled, r.State == StateNotStarted:
		return true
	}
	return false
}

// signalName is "SIGSEGV", or "signal 40" for one without a name.
func signalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return s.String()
}
