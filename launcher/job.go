// Package launcher places ranks, starts agents on the hosts and follows the job to
// its end.
//
// One loop owns the job's state: goroutines per host only move frames between it and
// the agents. What it decides is in a pure machine (see machine.go) that turns events
// into actions, and in pure functions: Place, the environment, the plan per host.
// How a host is reached is launcher/transport's business, what the text on the
// terminal looks like cmd/gorun's.
package launcher

import (
	"cmp"
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

// MaxRanks is the largest job: more are taken for a slip of the pen.
const MaxRanks = 65536

// Values of Stdin besides a rank.
const (
	StdinNone = -1 // every rank reads /dev/null
	StdinAll  = -2 // every rank gets a copy
)

// Job is what the user asked for: plain values, complete before the first connection.
type Job struct {
	Hosts         []hostfile.Host // empty: this machine only
	Apps          []App           // at least one; ranks are numbered through them in order
	PerHost       int             // ranks of each App per host; 0: by slots
	Oversubscribe bool            // more ranks than slots are allowed
	MapBy         Order           // which hosts get the ranks; "": BySlot
	RankBy        Order           // how the ranks of an App are numbered; "": as MapBy
	Mesh          Mesh            // in which the ranks of the only App are arranged, BySlot; nil: in none

	BindTo         string // one of the Bind constants; "": BindNone
	CoresPerRank   int    // cores (or hardware threads) that each rank is bound to; 0: its even share
	ReportBindings bool   // say what each rank is bound to

	Env       envsync.Policy
	HostEnv   map[string][]envsync.Var // what a host's ranks get beside Env and over it, but not over -x and -genv; by the host's name
	Visible   map[string][]string      // CUDA_VISIBLE_DEVICES of a host's ranks, by the host's name: one for all, or by local rank; over whatever else sets it
	Rigor     envsync.Rigor            // what it ends by of what is odd in its environments
	Prefix    string                   // its bin comes first in the PATH of every rank, its lib in LD_LIBRARY_PATH; absolute; "": nothing
	Dir       string                   // working directory of every rank whose App names none, unless it lacks what is sent; absolute
	Backend   string                   // GORUN_BACKEND
	NoGossip  bool                     // the hosts do not watch each other
	PMI       string                   // how MPI programs reach gorun: one of the PMI constants; "": PMIFile
	Interface string                   // network interface whose address ranks use; "": chosen per host

	Bcast   bool     // the programs of Apps are sent to the hosts
	Preload []string // files and directories that are sent, too; as all names here they count from Dir

	Preflight *Preflight // what is found out of the hosts before ranks are placed; nil: nothing

	Stdin     int    // a rank, StdinNone or StdinAll
	Pty       bool   // stdout and stderr of each rank are one pseudo terminal
	Tag       bool   // prefix every line with [rank host]
	Stamp     bool   // prefix every line with the time
	Fold      bool   // join equal lines of several ranks
	OutputDir string // one file per rank and stream instead of stdout and stderr, as output.FileNames reads it; "" for none

	Timeout        time.Duration // of the whole job, from the start of the ranks; 0: none
	Grace          time.Duration // between TERM and KILL; 0: KILL at once
	ConnectTimeout time.Duration // per host: resolve, connect, key exchange, authentication, agent; 0: the default
	LostAfter      time.Duration // silence after which a host is lost; 0: the default
	Fanout         int           // connections being made at once; 0: the default
	KeepGoing      bool          // a failed rank does not stop the others

	AcceptNewHostKeys bool
	SSHPort           int           // of hosts for which nothing but ssh_config names one; 0: ssh_config's
	SSHConfig         []string      // ssh_config files; nil: the usual ones
	RetryHosts        time.Duration // how long to try hosts again that may be coming up
	Rsh               string        // command that reaches hosts instead of ssh in this process, see transport.Options; "": none
	ShowLayout        bool          // say the layout before the ranks start
}

// filled returns the job with defaults for the limits that may not be 0, and without what
// is for ranks only if none are to be started.
func (j Job) filled() Job {
	if j.Preflight != nil && j.Preflight.Only {
		j.Bcast, j.Preload = false, nil
		if len(j.Apps) == 0 {
			j.Apps = []App{{}}
		}
	}
	j.ConnectTimeout = cmp.Or(j.ConnectTimeout, DefaultConnectTimeout)
	j.LostAfter = cmp.Or(j.LostAfter, DefaultLostAfter)
	j.Fanout = cmp.Or(j.Fanout, DefaultFanout)
	return j
}

// App is a program with its arguments, run by NP ranks.
type App struct {
	Args  []string          // Args[0] is looked up in the rank's PATH unless it has a slash
	NP    int               // 0: one rank for each slot
	Dir   string            // working directory of its ranks; absolute, or "" for the Job's
	Set   []envsync.Setting // of its ranks only, behind those of the Job's Env
	Hosts []hostfile.Host   // the Job's hosts that it may use, with the slots it may have there; empty: all
}

// IO connects a Job to the world. Run writes to Stdout and Stderr from goroutines of
// its own and reads Stdin only when a rank wants it.
type IO struct {
	Stdin          *os.File // nil: none
	Stdout, Stderr io.Writer
	StdoutTerminal bool
	StderrTerminal bool
	Color          bool
	Window         func() (rows, cols int) // size of the terminal that the ranks' are to be like; 0: none is known; nil: there is none
	Width          func() int              // columns of the terminal, as output.Options has it; nil: no line may be taken away again
	Status         bool                    // a last line on Stderr says where the job stands; needs Width
	Signals        <-chan os.Signal
	Prompt         func(prompt string) ([]byte, error) // asks for a passphrase on the terminal; nil: never
	Log            func(lines io.Writer) *slog.Logger  // makes a logger of a writer that takes a line at a time; nil: no log
	Events         func(Event)                         // is told what happens, in order, without V, T and Elapsed; it must not block. nil: nobody
	Verbose        bool                                // lines on what each host does (-v)
	Exe            string                              // the gorun binary that is run on every host
	Home, User     string                              // of the user, for ssh's files and login name
	Suspend        func()                              // stops this process as SIGTSTP would; returns when it is continued; nil: TSTP does nothing
}
