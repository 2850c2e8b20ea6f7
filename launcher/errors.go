package launcher

import (
	"fmt"
	"strings"
)

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
	App        int         // the program whose ranks do not fit any more
	Program    string      // its name; "" if there is but one
	PerHost    int         // the ranks per host that were asked for; 0: none were
	Hosts      []HostSlots // those that the program may use
	Ways       Ways
}

// HostSlots is one host's offer and where the number comes from.
type HostSlots struct {
	Name   string
	Slots  int
	Taken  int    // by the programs before
	Origin string // "hosts:3", "-H", "8 GPUs", "4 cores"
}

func (e *SlotsError) Error() string {
	return fmt.Sprintf("need %d slots, hosts offer %d", e.Need, e.Have)
}

// CountError: of several programs, one has no number of ranks.
type CountError struct{ Program string }

func (e *CountError) Error() string {
	return fmt.Sprintf("with several programs each needs its own -np; %q has none", e.Program)
}

// PrepareError: ranks or hosts that were found unable to start before any rank ran.
type PrepareError struct {
	Failures []PrepareFailure
}

// Codes of a PrepareFailure.
const (
	codeOurs     = 125 // gorun's own trouble
	codeNotFound = 127
)

// PrepareFailure is one host's (Rank -1) or rank's reason. Code is 125, 126 or 127.
type PrepareFailure struct {
	Host string
	Rank int
	Code int
	Text string

	Files bool // it is about files that were to be brought there
}

func (e *PrepareError) Error() string {
	f := e.Failures[0]
	return fmt.Sprintf("%s: %s", f.Host, f.Text)
}

// SettingsError: NCCL settings that must be equal in a job are not equal on its hosts,
// and the job has not decided about them.
type SettingsError struct{ Differences []Difference }

// Difference is one such variable.
type Difference struct {
	Name    string
	Harmful bool // NCCL would hang; else it ends a job that is to be strict
	Values  []HostsValue
}

// HostsValue is what some hosts have.
type HostsValue struct {
	Hosts   string   // as in a list of hosts
	Text    string   // the value for people
	Example string   // NAME=value as a shell takes it; "" for none, or if gorun would refuse it
	Odd     string   // why it would, and what to do; ""
	Places  []string // where it is set on the hosts
}

func (e *SettingsError) Error() string {
	if len(e.Differences) == 1 {
		return e.Differences[0].Name + " differs between hosts"
	}
	return fmt.Sprintf("%d NCCL settings differ between hosts", len(e.Differences))
}

// FoundError: hosts have NCCL settings that end the job by what they say, or by what is odd
// about them.
type FoundError struct{ Lines []string }

func (e *FoundError) Error() string { return strings.Join(e.Lines, "; ") }

// LibrariesError: hosts have different libraries of NCCL, in a job that is to be strict.
type LibrariesError struct{ Lines []string }

func (e *LibrariesError) Error() string { return strings.Join(e.Lines, "; ") }

// StdinError: --stdin names a rank that the job has not.
type StdinError struct{ Rank, Size int }

func (e *StdinError) Error() string {
	return fmt.Sprintf("--stdin %d: the job has ranks 0 to %d", e.Rank, e.Size-1)
}

// UnknownSlotsError: a dry run cannot lay ranks out on hosts that alone know their slots.
type UnknownSlotsError struct{ Hosts []string }

func (e *UnknownSlotsError) Error() string {
	return fmt.Sprintf("slots of %s are known to the hosts only", someOf(e.Hosts))
}
