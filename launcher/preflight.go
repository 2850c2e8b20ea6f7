package launcher

import (
	"context"
	"net/netip"
	"time"
)

// DefaultExamineLimit is how long a host may take to collect its facts.
const DefaultExamineLimit = 15 * time.Second

// Preflight is what is found out of the hosts before ranks are placed, and who judges it.
// What hosts tell is not understood here: it is JSON, for Judge.
type Preflight struct {
	Full  bool   // all pairs of hosts, with latency and bandwidth; else a connection each way between neighbours
	Order []byte // JSON: what each host is to collect

	// Orders is what some hosts, by name, are to collect in the place of Order.
	Orders map[string][]byte

	Only  bool          // end after Judge: no rank is placed or started; a Job without Apps will do
	Drop  bool          // hosts that cannot be reached are for Judge to rule on, and do not end the job by themselves
	Limit time.Duration // for a host to tell its facts, from when all have been reached; 0: DefaultExamineLimit

	// Rails, in a Full preflight, says between which hosts RDMA is tried when all have told
	// their facts: rounds, one after another, in each of which a host is From once at most,
	// and To once. It is called once, on a goroutine of the job. nil: RDMA is not tried.
	Rails func(s Survey) [][]RailOrder

	// Judge is called once, on a goroutine of the job, when all hosts have answered or
	// their limits are over. An error ends the job, and is Run's. When ctx ends, the job
	// has been stopped, and what Judge returns changes nothing; Run does not return before
	// Judge has.
	Judge func(ctx context.Context, s Survey) (Ruling, error)
}

// RailOrder has one host of a Survey try its RDMA rails to another.
type RailOrder struct {
	From, To int
	Rails    []byte // JSON: which, for the agent of From
}

// Survey is what the hosts have told.
type Survey struct {
	Hosts []Surveyed    // in the job's order; with Only or Drop all of the Job's, else those that ranks need
	Took  time.Duration // since all hosts had been reached, or given up

	// Differ says why a job on hosts that were reached, by their indexes, would not start
	// for their NCCL settings: a *SettingsError, or nil. It may be called while Judge runs;
	// nil: nothing is known of that.
	Differ func(hosts []int) error
}

// Surveyed is what one host has told.
type Surveyed struct {
	Name  string
	Err   error      // why it could not be reached, was lost, or has not answered; what it had not told by then is missing
	Addr  netip.Addr // that the others were to reach it by; invalid: it has none
	Facts []byte     // JSON that it answers Order with
	Links []byte     // JSON: an array of what it has measured of others, which are numbered by this Survey
	Offer Offer      // what it can take, as far as that is known

	// Its clock is ahead of this machine's by Offset, give or take Uncertain; if that is
	// 0, it is not known.
	Offset, Uncertain time.Duration

	Settings map[string]string // NCCL_* variables that its ranks would get
}

// Ruling is what follows from a Survey.
type Ruling struct {
	Use      []int      // indexes of the Survey's hosts that the job goes on with, in this order; nil: all. The others are let go
	Slots    []int      // ranks that each of Use may get at most; nil, or 0: as it offers
	NP       []int      // by App, its number of ranks in the place of App.NP; nil: as it was
	Visible  [][]string // CUDA_VISIBLE_DEVICES on each of Use, as Job.Visible has it; nil: none
	Domains  []string   // the NVLink domain of each of Use, "" if it is not known; nil: as the Job's Hosts have it
	Warnings []string   // for people, shown before the ranks start
	Notes    []string   // likewise, with IO.Verbose only
}

// Excluded is a host that the job has gone on without.
type Excluded struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // why it was of no use, if it could not be reached or did not answer
}
