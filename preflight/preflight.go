// Package preflight judges the facts of all hosts of a job, and names what would break
// it: facts first, verdicts second.
//
// A check is a pure function over all hosts. It compares each with the majority rather
// than with a table of models, and blames a host only where three or more were compared
// and more than half of them agree; else it says that hosts differ, and names them all.
// Nothing here connects, reads a file or prints.
package preflight

import (
	"time"

	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

// Verdict says what follows from a finding.
type Verdict string

// Verdicts, the worst first.
const (
	NoCluster Verdict = "cluster" // the job cannot run on these hosts together
	NoHost    Verdict = "host"    // it cannot run on the hosts that are named
	Warn      Verdict = "warning" // it will run, but slower or at a risk
	Unknown   Verdict = "unknown" // it could not be found out
	Info      Verdict = "info"
	OK        Verdict = "ok"      // of a check that found nothing
	Skipped   Verdict = "skipped" // of a check that has nothing to judge here
)

// Mode is how much is looked at.
type Mode string

// Modes.
const (
	Off   Mode = "off"
	Quick Mode = "quick" // facts, and a connection each way to the neighbour
	Full  Mode = "full"  // all pairs, latency and bandwidth, RDMA, memory, growth of counters
)

// Input is all that is judged.
type Input struct {
	Mode   Mode   `json:"mode"`
	Hosts  []Host `json:"hosts"` // in the job's order
	Job    Job    `json:"job"`
	Limits Limits `json:"limits"`
	Strict bool   `json:"strict,omitempty"` // what is unknown of a host excludes it

	// Skip lists the IDs of checks that are not run.
	Skip []string `json:"skip,omitempty"`
}

// Host is one host of an Input.
type Host struct {
	Name      string            `json:"name"`
	Unreached string            `json:"unreached,omitempty"` // why there are no facts; "" there are
	Facts     facts.Host        `json:"facts"`               // as its agent told
	Ranks     int               `json:"ranks"`               // that the job would place here; 0: a spare
	GPUs      []int             `json:"gpus"`                // indexes of those that its ranks will use; null: all
	Settings  map[string]string `json:"settings,omitempty"`  // NCCL_* that its ranks will get
	Links     []probe.Link      `json:"links,omitempty"`     // what it found of others; Link.Host is an index of Input.Hosts
	Rails     []probe.RailLink  `json:"rails,omitempty"`     // what it found by RDMA; RailLink.Host likewise
	Skew      Skew              `json:"skew"`
}

// Skew is by how much a host's clock is ahead of the head's.
type Skew struct {
	Known     bool          `json:"known"`
	Offset    time.Duration `json:"offset_ns"`
	Uncertain time.Duration `json:"uncertain_ns"` // the truth is within this of Offset
}

// Job is what the job asks for.
type Job struct {
	Ranks     int    `json:"ranks"`               // in all
	Interface string `json:"interface,omitempty"` // that the user named; "" none
	GPU       bool   `json:"gpu,omitempty"`       // its ranks use GPUs, as far as can be told
	SharedDir bool   `json:"shared_dir"`          // its working directory must be there
}

// Finding is what a check concludes.
type Finding struct {
	Check    string   `json:"check"` // ID of its Check
	Title    string   `json:"title"` // a statement: "gpu07 has 7 GPUs, the others have 8"
	Verdict  Verdict  `json:"verdict"`
	Hosts    []string `json:"hosts,omitempty"`    // that it is about, in the job's order
	Evidence []string `json:"evidence,omitempty"` // lines, each with its host where that is not clear
	Remedy   string   `json:"remedy,omitempty"`
}

// Check is one check.
type Check struct {
	ID      string // "gpu-count"
	Area    string // "hosts", "network", "rdma", "gpu", "system", "software", "speed"
	Title   string // a statement that is true when all is well: "every host has the same GPUs"
	Explain string // what it means, how it is decided, where the rule comes from; paragraphs
	Full    bool   // only in Mode Full

	// run returns what it finds, and what it has to say if that is nothing: "8 × H100 on
	// each of 16 hosts". skip is why there is nothing to judge; "" there is.
	run func(*view) (found []Finding, good, skip string)
}
