package preflight

import (
	"strconv"
	"strings"
)

// fault is what a check finds of one host by itself.
type fault struct {
	verdict  Verdict
	what     string   // "has a GPU that must be reset"; begins with the verb
	which    string   // of what on the host: "GPU 3"; "" the host
	remedy   string   // HOST and WHICH stand for the hosts and for which, NUMBERS for those of the GPUs in which
	evidence []string // without the host
}

// tally gathers faults, and makes one finding of those that are alike.
type tally struct {
	v    *view
	kept []*alike
	by   map[[3]string]*alike
}

// alike is hosts whose faults differ at most in which, and in evidence.
type alike struct {
	fault
	hosts   []int
	various bool // which is not the same on all hosts
	notes   notes
	bare    []bare // hosts without evidence
}

// bare is what a host without evidence has: which of its fault.
type bare struct {
	host  int
	which string
}

func (v *view) tally() *tally { return &tally{v: v, by: map[[3]string]*alike{}} }

// add adds a fault of a host. A host's faults are best added in a row.
func (t *tally) add(host int, f fault) {
	key := [3]string{string(f.verdict), f.what, f.remedy}
	a, ok := t.by[key]
	if !ok {
		a = &alike{fault: f}
		t.by[key] = a
		t.kept = append(t.kept, a)
	}
	a.various = a.various || a.which != f.which
	if n := len(a.hosts); n == 0 || a.hosts[n-1] != host {
		a.hosts = append(a.hosts, host)
	}
	for _, line := range f.evidence {
		a.notes.add(host, line)
	}
	if len(f.evidence) == 0 && f.which != "" {
		a.bare = append(a.bare, bare{host, f.which})
	}
}

// findings are those of all faults, in the order in which they were first added.
func (t *tally) findings() []Finding {
	var found []Finding
	for _, a := range t.kept {
		title, remedy, which := t.v.say(a.hosts, a.what), a.remedy, a.which
		switch {
		case a.various:
			which = "those that are named"
			for _, b := range a.bare {
				a.notes.add(b.host, b.which)
			}
		case which != "":
			title += ": " + which
		}
		remedy = strings.ReplaceAll(strings.ReplaceAll(remedy, "WHICH", which), "NUMBERS", numbersIn(which))
		found = append(found, t.v.finding(a.verdict, a.hosts, title, remedy, a.notes.lines(t.v)))
	}
	return found
}

// numbersIn lists the GPUs that gpuNames has named as programs of NVIDIA want them:
// "0,1,2,6".
func numbersIn(which string) string {
	_, list, ok := strings.Cut(which, " ")
	if !ok || !strings.HasPrefix(which, "GPU") {
		return "N, for each N that is named"
	}
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		for n := leadingNumber(first); n <= leadingNumber(last); n++ {
			all = append(all, strconv.Itoa(n))
		}
	}
	return strings.Join(all, ",")
}
