// Package report renders what preflight found, and what follows from it, as text, as JSON
// or as one HTML file.
//
// All three are made from a Page. What comes from hosts is data: text and HTML show it
// cleaned of control characters, HTML escapes it, and values of variables whose names are
// those of secrets are hidden everywhere. Nothing here judges, and nothing is measured.
package report

import (
	"slices"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/preflight"
	"gorun/preflight/facts"
)

// Page is all that a report shows. Fields but the first two may be empty: what they have
// is then not shown.
type Page struct {
	Report    preflight.Report
	Decision  preflight.Decision
	Hosts     []facts.Host // for drawings; each is named as in Report.Hosts
	Layout    []Place      // hosts that get ranks
	Remarks   []string     // lines about the layout
	Latency   [][]float64  // seconds between Report.Hosts, there and back: of row's host to column's; 0 or NaN: not measured
	Bandwidth [][]float64  // bytes per second, likewise
	Took      time.Duration
	Generated time.Time
	Command   []string // as it was typed; secrets in it are hidden
	Version   string   // of gorun
}

// Place is where ranks run.
type Place struct {
	Host  string `json:"host"`
	Ranks []int  `json:"ranks"`
}

// concealed is p with secrets hidden. It shares with p what has none.
func (p Page) concealed() Page {
	p.Command = envsync.HideArgs(p.Command)
	p.Report, p.Decision = Conceal(p.Report, p.Decision)
	return p
}

// Conceal returns r and d with the values of secrets hidden, for whoever shows them without
// a Page. It changes nothing of what it is given.
func Conceal(r preflight.Report, d preflight.Decision) (preflight.Report, preflight.Decision) {
	r.Findings = slices.Clone(r.Findings)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Title, f.Remedy = conceal(f.Title), conceal(f.Remedy)
		f.Evidence = slices.Clone(f.Evidence)
		for k, line := range f.Evidence {
			f.Evidence[k] = conceal(line)
		}
	}
	r.Checks = slices.Clone(r.Checks)
	for i := range r.Checks {
		r.Checks[i].Text = conceal(r.Checks[i].Text)
	}
	d.Reason = conceal(d.Reason)
	return r, d
}

// conceal hides the values of settings in a line that are secrets by their name.
func conceal(line string) string {
	if !strings.Contains(line, "=") {
		return line
	}
	for _, word := range strings.Fields(line) {
		word = strings.Trim(word, "\"'`(),;:")
		if hidden := envsync.HideArgs([]string{word})[0]; hidden != word {
			line = strings.ReplaceAll(line, word, hidden)
		}
	}
	return line
}

// label is what a verdict is called where people read it.
func label(v preflight.Verdict) string {
	switch v {
	case preflight.NoCluster:
		return "no-go"
	case preflight.NoHost:
		return "bad host"
	}
	return string(v)
}

// headline is what the decision says in a line.
func (p Page) headline() string { return clean(p.Decision.Headline()) }
