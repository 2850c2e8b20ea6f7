package launcher

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
)

// Defaults of a Job's limits.
const (
	DefaultGrace          = 5 * time.Second
	DefaultConnectTimeout = 20 * time.Second
	DefaultLostAfter      = 30 * time.Second
	DefaultFanout         = 64
)

// Values of Stdin besides a rank.
const (
	StdinNone = -1 // every rank reads /dev/null
	StdinAll  = -2 // every rank gets a copy
)

// Job is what the user asked for: plain values, complete before the first connection.
type Job struct {
	Hosts         []hostfile.Host // empty: this machine only
	Apps          []App           // at least one; ranks are numbered through them in order
	PerHost       int             // ranks per host; 0: by slots
	Oversubscribe bool            // more ranks than slots are allowed

	Env       envsync.Policy
	Dir       string // working directory of every rank; absolute
	Backend   string // GORUN_BACKEND
	Interface string // network interface whose address ranks use; "": chosen per host

	Stdin     int    // a rank, StdinNone or StdinAll
	Tag       bool   // prefix every line with [rank host]
	OutputDir string // one file per rank and stream instead of stdout and stderr; "" for none

	Timeout        time.Duration // of the whole job, from the start of the ranks; 0: none
	Grace          time.Duration // between TERM and KILL
	ConnectTimeout time.Duration // per host: resolve, connect, key exchange, authentication, agent
	LostAfter      time.Duration // silence after which a host is lost
	Fanout         int           // connections being made at once
	KeepGoing      bool          // a failed rank does not stop the others

	AcceptNewHostKeys bool
}

// App is a program with its arguments, run by NP ranks.
type App struct {
	Args []string // Args[0] is looked up in the rank's PATH unless it has a slash
	NP   int      // 0: one rank for each slot
}

// IO connects a Job to the world. Run writes to Stdout and Stderr from goroutines of
// its own and reads Stdin only when a rank wants it.
type IO struct {
	Stdin          *os.File // nil: none
	Stdout, Stderr io.Writer
	StdoutTerminal bool
	Color          bool
	Signals        <-chan os.Signal
	Prompt         func(prompt string) ([]byte, error) // asks for a passphrase on the terminal; nil: never
	Log            *slog.Logger
	Verbose        bool   // lines on what each host does (-v)
	Exe            string // the gorun binary that is run on every host
	Suspend        func() // stops this process as SIGTSTP would; returns when it is continued
}

// Result says how a job ended; cmd/gorun makes text and an exit code of it.
type Result struct {
	JobID       string        `json:"job_id"`
	Hosts       []HostResult  `json:"hosts"`
	Ranks       []RankResult  `json:"ranks"`
	First       *RankResult   `json:"first_failure,omitempty"`
	Others      int           `json:"other_failures"` // ranks that failed by themselves after First
	Stopped     int           `json:"stopped"`        // ranks that gorun's own stop ended
	Tail        []string      `json:"last_lines,omitempty"`
	Killed      []int         `json:"killed,omitempty"` // ranks that needed KILL
	Left        []string      `json:"left,omitempty"`   // what could not be removed, by host
	Timeout     bool          `json:"timeout,omitempty"`
	Signal      int           `json:"signal,omitempty"` // the signal by which the user ended the job
	Lost        []string      `json:"lost,omitempty"`   // hosts lost, with the reason
	OutputError string        `json:"output_error,omitempty"`
	EnvDigest   string        `json:"env_digest,omitempty"`
	Elapsed     time.Duration `json:"elapsed_ns"`
}

// HostResult is one host of a Result.
type HostResult struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"`
	Ranks int    `json:"ranks"`
}

// RankResult is one rank of a Result.
type RankResult struct {
	Rank   int           `json:"rank"`
	Host   string        `json:"host"`
	State  string        `json:"state"` // "exited", "killed", "not started", "lost", "stopped"
	Code   int           `json:"code"`
	Signal int           `json:"signal,omitempty"`
	Core   bool          `json:"core,omitempty"`
	Text   string        `json:"text,omitempty"` // why it could not be started
	At     time.Duration `json:"at_ns"`          // since the start of the job
}

// HostsError says which hosts could not be used; nothing was started on the others.
type HostsError struct {
	Hosts []HostFailure
	Good  int // hosts that were reached
}

// HostFailure is one host of a HostsError. Err is a *transport.HostError when the
// host could not be reached.
type HostFailure struct {
	Host string
	Err  error
}

func (e *HostsError) Error() string {
	if len(e.Hosts) == 1 {
		return fmt.Sprintf("%s: %v", e.Hosts[0].Host, e.Hosts[0].Err)
	}
	return fmt.Sprintf("%d hosts cannot be used", len(e.Hosts))
}

// SlotsError: more ranks than slots.
type SlotsError struct {
	Need, Have int
	Hosts      []HostSlots
}

// HostSlots is one host's offer and where the number comes from.
type HostSlots struct {
	Name   string
	Slots  int
	Origin string // "hosts:3", "-H", "8 GPUs", "4 cores"
}

func (e *SlotsError) Error() string {
	return fmt.Sprintf("need %d slots, hosts offer %d", e.Need, e.Have)
}

// PrepareError: ranks or hosts that were found unable to start before any rank ran.
type PrepareError struct {
	Failures []PrepareFailure
}

// PrepareFailure is one host's (Rank -1) or rank's reason. Code is 125, 126 or 127.
type PrepareFailure struct {
	Host string
	Rank int
	Code int
	Text string
}

func (e *PrepareError) Error() string {
	f := e.Failures[0]
	return fmt.Sprintf("%s: %s", f.Host, f.Text)
}
