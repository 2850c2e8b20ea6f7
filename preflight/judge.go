package preflight

import (
	"slices"
	"strings"
)

// Report is what was found.
type Report struct {
	Mode     Mode      `json:"mode"`
	Hosts    []string  `json:"hosts"`
	Checks   []Result  `json:"checks"`   // in the order of Checks
	Findings []Finding `json:"findings"` // the worst first
}

// Result is how one check came out.
type Result struct {
	ID      string             `json:"id"`
	Area    string             `json:"area"`
	Title   string             `json:"title"`
	Verdict Verdict            `json:"verdict"`         // the worst of its findings; OK or Skipped without one
	Text    string             `json:"text,omitempty"`  // what it has to say if it is OK, or why it was skipped
	Hosts   map[string]Verdict `json:"hosts,omitempty"` // the worst of each host that a finding names
}

// Checks lists all checks, in the order in which they are reported.
func Checks() []Check {
	return slices.Concat(hostChecks(), networkChecks(), rdmaChecks(), gpuChecks(), systemChecks(), softwareChecks(), speedChecks())
}

// Judge runs all checks of in.Mode. It is a pure function.
func Judge(in Input) Report {
	v := newView(in)
	r := Report{Mode: in.Mode, Hosts: v.names()}
	for _, c := range Checks() {
		if c.Full && in.Mode != Full || slices.Contains(in.Skip, c.ID) {
			continue
		}
		found, good, skip := c.run(v)
		if len(v.reached) == 0 && len(found) == 0 {
			good, skip = "", "no host answers"
		}
		for i := range found {
			tidy(&found[i], c)
		}
		r.Checks = append(r.Checks, result(c, found, clean(good), clean(skip)))
		r.Findings = append(r.Findings, found...)
	}
	r.Findings = joinUnknown(r.Findings)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.Verdict) - rank(b.Verdict) })
	return r
}

// tidy completes a finding of c, and cleans what comes from hosts.
func tidy(f *Finding, c Check) {
	f.Check, f.Title, f.Remedy = c.ID, clean(f.Title), cleanUpTo(f.Remedy, maxRemedy)
	for i, line := range f.Evidence {
		f.Evidence[i] = clean(line)
	}
	if f.Verdict == Unknown {
		f.Evidence = append(f.Evidence, "unknown: whether "+c.Title)
	}
}

// joinUnknown joins what several checks could not find out for one reason. Each check's
// Result has it by itself.
func joinUnknown(all []Finding) []Finding {
	var kept []Finding
	at := map[string]int{}
	for _, f := range all {
		key := f.Title + "\x00" + strings.Join(f.Hosts, ",")
		if k, ok := at[key]; ok && f.Verdict == Unknown {
			for _, line := range f.Evidence {
				if !slices.Contains(kept[k].Evidence, line) {
					kept[k].Evidence = append(kept[k].Evidence, line)
				}
			}
			continue
		}
		if f.Verdict == Unknown {
			at[key] = len(kept)
		}
		kept = append(kept, f)
	}
	return kept
}

func result(c Check, found []Finding, good, skip string) Result {
	r := Result{ID: c.ID, Area: c.Area, Title: c.Title, Verdict: OK, Text: good}
	if skip != "" {
		r.Verdict, r.Text = Skipped, skip
	}
	for i, f := range found {
		if i == 0 {
			r.Verdict, r.Text, r.Hosts = f.Verdict, "", map[string]Verdict{}
		}
		r.Verdict = worse(r.Verdict, f.Verdict)
		for _, host := range f.Hosts {
			r.Hosts[host] = worse(r.Hosts[host], f.Verdict)
		}
	}
	return r
}

// order has the verdicts, the worst first.
var order = [...]Verdict{NoCluster, NoHost, Warn, Unknown, Info, OK, Skipped}

func rank(v Verdict) int {
	if i := slices.Index(order[:], v); i >= 0 {
		return i
	}
	return len(order)
}

func worse(a, b Verdict) Verdict {
	if rank(b) < rank(a) {
		return b
	}
	return a
}
