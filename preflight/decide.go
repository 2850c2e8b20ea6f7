package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/hostfile"
)

// What a Decision's Verdict can be.
const (
	Go         = "go"
	GoWithout  = "go without"            // the hosts in Exclude
	NoGo       = "no-go"                 // the job cannot run here
	NoGoUnless = "no-go unless left out" // it can without the hosts in Exclude, which nobody has allowed
	NotChecked = "could not check"       // no host was reached
)

// Shape is how the job may be made smaller.
type Shape struct {
	Drop     bool  // hosts that findings exclude may be left out (--drop-bad)
	Spares   int   // the last so many hosts are only used in the place of others
	MinHosts int   // fewer good hosts than this are a no-go; 0: one
	Multiple int   // the number of ranks must be a multiple of this; 0: any
	Fixed    int   // the number of ranks that the user named; 0: by slots
	Slots    []int // of each host; 1 of those it does not have
	Ranks    []int // that the job would place on each host; one without any is a spare, too; nil: not known
}

// Decision is what follows from a Report.
type Decision struct {
	Go        bool     `json:"go"`
	Verdict   string   `json:"verdict"`              // one of the constants above
	Reason    string   `json:"reason"`               // a line for people, to be read after the verdict
	Use       []string `json:"use,omitempty"`        // hosts that the job runs on, or would, in its order
	Slots     []int    `json:"slots,omitempty"`      // of each host in Use; a stand-in has no more than the host whose place it takes
	Exclude   []string `json:"excluded,omitempty"`   // hosts that are left out for what they have
	BadSpares []string `json:"bad_spares,omitempty"` // of Exclude, those that the job does not need
	StandIns  []Swap   `json:"stand_ins,omitempty"`  // spares that are used
	Idle      []string `json:"idle,omitempty"`       // good hosts that are not used: spares, or those beyond what the shape divides into
	Ranks     int      `json:"ranks,omitempty"`      // in all
	Planned   int      `json:"planned,omitempty"`    // ranks that there would be if every host were good
	Code      int      `json:"code"`                 // of --preflight-only: 0 go, 2 the shape cannot be had of hosts so few, 3 no-go, 4 no-go unless the excluded are left out, 125 could not check
}

// Swap is a spare that steps in.
type Swap struct {
	Host string `json:"host"` // that is left out; "" the spare only adds slots
	By   string `json:"by"`
}

// Decide says whether the job can run, and on which hosts. With strict, what is unknown
// of a host excludes it. It is a pure function, and takes the report as it is: Settle
// also finds out what remains of it without the hosts that are left out.
func Decide(r Report, s Shape, strict bool) Decision {
	c := newSelection(r, s, strict)
	if reason := c.misfit(); reason != "" {
		return Decision{Verdict: NoGo, Reason: reason, Code: 2}
	}
	c.choose()
	d := c.decision()
	switch cluster := ofVerdict(r.Findings, NoCluster); {
	case len(cluster) > 0:
		d.no(more(cluster))
	case c.reason != "":
		d.no(c.reason)
	case len(d.Exclude) == len(d.BadSpares):
		d.Go, d.Verdict, d.Reason = true, Go, c.size()
	case s.Drop || c.whole():
		d.Go, d.Verdict, d.Reason = true, GoWithout, c.size()
	default:
		d.Verdict, d.Reason, d.Code = NoGoUnless, "then "+c.size()+" (--drop-bad allows that)", 4
	}
	return d
}

// no turns d into a no-go.
func (d *Decision) no(reason string) {
	d.Verdict, d.Reason, d.Code = NoGo, reason, 3
	d.Use, d.Slots, d.StandIns, d.Idle, d.Ranks = nil, nil, nil, nil, 0
}

// Headline is d in one line: "go without gpu07: 15 hosts, 120 ranks instead of 128".
func (d Decision) Headline() string {
	var without []string
	for _, name := range d.Exclude {
		if !slices.Contains(d.BadSpares, name) {
			without = append(without, name)
		}
	}
	switch d.Verdict {
	case GoWithout:
		return "go without " + hostfile.Fold(without) + ": " + d.Reason
	case NoGoUnless:
		are := "is"
		if len(without) > 1 {
			are = "are"
		}
		return fmt.Sprintf("no-go unless %s %s left out: %s", hostfile.Fold(without), are, d.Reason)
	}
	return d.Verdict + ": " + d.Reason
}

// more is the first finding's title, and how many others there are.
func more(found []Finding) string {
	if len(found) == 1 {
		return found[0].Title
	}
	return fmt.Sprintf("%s; and %s", found[0].Title, count(len(found)-1, "more finding"))
}

func ofVerdict(found []Finding, v Verdict) (of []Finding) {
	for _, f := range found {
		if f.Verdict == v {
			of = append(of, f)
		}
	}
	return of
}

// excludes reports whether the hosts that f names are left out for it.
func (f Finding) excludes(strict bool) bool {
	return f.Verdict == NoHost || strict && f.Verdict == Unknown
}

// badHosts are those that findings exclude.
func badHosts(found []Finding, strict bool) map[string]bool {
	bad := map[string]bool{}
	for _, f := range found {
		if f.excludes(strict) {
			for _, name := range f.Hosts {
				bad[name] = true
			}
		}
	}
	return bad
}

// list writes names as "a", "a and b", folded where they can be.
func list(names []string, verb, verbs string) string {
	if len(names) == 1 {
		return names[0] + " " + verb
	}
	return strings.ReplaceAll(hostfile.Fold(names), ",", ", ") + " " + verbs
}
