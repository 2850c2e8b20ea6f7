package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"gorun/preflight"
)

// preflightOptions are the flags of the group "Preflight".
type preflightOptions struct {
	mode     preflight.Mode // "": not given
	only     bool
	dropBad  bool
	spares   int
	minHosts int // 0: not given
	strict   bool
	facts    string // file of facts that are judged instead of the hosts'
	save     string // file for the facts
	json     bool
	html     string
	explain  string // ID of a check
	bindGPUs bool   // the GPUs of hosts must be known, for --gpu-bind one
}

func (o *options) preflightFlags() group {
	p := &o.preflight
	return group{"Preflight", slices.Concat(p.judgingFlags(), p.factsFlags()),
		`What is looked at, how it is judged and what follows is told in PREFLIGHT.`}
}

// judgingFlags say what is looked at, and what follows.
func (p *preflightOptions) judgingFlags() []flag {
	return []flag{
		{
			words: "--preflight", arg: "MODE", value: value(&p.mode, preflightMode), complete: "quick full off", key: "preflight.mode",
			text: `Look at all hosts before the job starts, and end it with code 125 if it cannot run
				there. *quick* reads what each host knows of itself and makes a connection each way
				between neighbours; *full* also measures latency and bandwidth between all pairs of
				hosts; *off* looks at nothing. Without this flag a job on other hosts is looked at quickly,
				and only what ends it is told (all of it with -v); one on this machine alone is not.`,
		},
		{
			words: "--preflight-only", value: yes(&p.only),
			text: `Look at the hosts, print what was found, and start nothing. No program is needed. The
				exit code is 0 if the job can run, 3 if it cannot, 4 if it can without the hosts
				that are named, and 125 if that cannot be told.`,
		},
		{
			words: "--drop-bad", value: yes(&p.dropBad), key: "preflight.drop-bad",
			text: `Leave hosts out that preflight finds unfit, or that cannot be reached, and go on with
				the others. Without -np there are fewer ranks then; with -np as many, as long as the
				others have the slots.`,
		},
		{
			words: "--spares", arg: "N", value: value(&p.spares, hinted(count, "give the number of hosts that are kept in reserve")), key: "preflight.spares",
			text: `The last *n* hosts get ranks only in the place of hosts that are left out.`,
		},
		{
			words: "--min-hosts", arg: "N", value: value(&p.minHosts, hinted(count, "give the number of hosts that the job needs at least")), key: "preflight.min-hosts",
			text: `As --drop-bad, but not with fewer hosts than *n*.`,
		},
		{
			words: "--preflight-strict", value: yes(&p.strict), key: "preflight.strict",
			text: `A host of which something cannot be found out is unfit.`,
		},
	}
}

// factsFlags say where facts come from, and where they and what follows from them go.
func (p *preflightOptions) factsFlags() []flag {
	return []flag{
		{
			words: "--facts", arg: "FILE", value: value(&p.facts, text), complete: aFile,
			text: `With --preflight-only, judge what --save-facts has written to *file*, and connect to
				nobody. With --dry-run, take the hosts, their slots and their GPUs from there, as far as
				the command line does not say them.`,
		},
		{
			words: "--save-facts", arg: "FILE", value: value(&p.save, text), complete: aFile, key: "preflight.save-facts", guarded: true,
			text: `Write what hosts have told to *file*, as JSON. Values that look secret are hidden.`,
		},
		{
			words: "--json", value: yes(&p.json),
			text: `With --preflight-only, print what was found as JSON; docs/preflight-json.md has the
				format.`,
		},
		{
			words: "--html", arg: "FILE", value: value(&p.html, text), complete: aFile, key: "preflight.html", guarded: true,
			text: `Write what was found to *file*, as a page for a browser that needs no other file.`,
		},
		{
			words: "--explain", arg: "CHECK", value: value(&p.explain, text),
			text: `Print what a check means, and how it is decided; *list* lists the checks.`,
		},
	}
}

func preflightMode(s string) (preflight.Mode, error) {
	switch m := preflight.Mode(s); m {
	case preflight.Quick, preflight.Full, preflight.Off:
		return m, nil
	}
	e := &usageError{fmt.Sprintf("%q is none of quick, full and off", s), nil}
	if near := nearest(s, []string{"quick", "full", "off"}); near != "" {
		e.hints = []string{"did you mean " + near + "?"}
	}
	return "", e
}

// wanted is the mode in which the hosts are looked at. Where nobody has said that a job
// looks, one on other hosts does so quickly; one on this machine alone has nothing to
// compare.
func (p *preflightOptions) wanted(otherHosts bool) preflight.Mode {
	switch {
	case p.mode != "":
		return p.mode
	case p.asked() || p.bindGPUs || otherHosts:
		return preflight.Quick
	}
	return preflight.Off
}

// asked reports whether the user wants the hosts to be looked at, and to hear of it.
func (p *preflightOptions) asked() bool {
	return p.mode != "" || p.only || p.drops() || p.spares > 0
}

// drops reports whether hosts may be left out.
func (p *preflightOptions) drops() bool { return p.dropBad || p.minHosts > 0 }

// check finds flags that make no sense together. Those that say what becomes of what is
// found ask for a look.
func (p *preflightOptions) check(o *options) error {
	off := p.mode == preflight.Off
	for _, f := range []struct {
		given bool
		flag  string
	}{
		{p.only, "preflight-only"}, {p.dropBad, "drop-bad"}, {p.spares > 0, "spares"}, {p.minHosts > 0, "min-hosts"},
		{p.strict, "preflight-strict"}, {p.save != "", "save-facts"}, {p.html != "", "html"},
	} {
		if off && f.given && p.saidHere(o, f.flag) {
			e := &usageError{"--preflight off and --" + f.flag + " contradict each other", nil}
			if !p.saidHere(o, "preflight") {
				e.hints = []string{"with --preflight quick, or full, on the command line the hosts are looked at"}
			}
			return e
		}
	}
	switch {
	case p.json && !p.only:
		return &usageError{"--json is for --preflight-only", []string{"--result FILE writes how a job ended as JSON, --events FILE what happens in it"}}
	case p.facts != "" && !p.only && !o.dryRun:
		return &usageError{"--facts is for --preflight-only and --dry-run", nil}
	}
	if p.mode == "" && (p.saidHere(o, "preflight-strict") || p.saidHere(o, "save-facts") || p.saidHere(o, "html")) {
		p.mode = preflight.Quick
	}
	return p.checkPairs(o)
}

// saidHere reports whether the flag stands on the command line.
func (p *preflightOptions) saidHere(o *options, name string) bool {
	uses := o.said[name]
	return len(uses) > 0 && len(uses[len(uses)-1].origin) > 0 && uses[len(uses)-1].origin[0] == '-'
}

// checkPairs finds flags of other groups that contradict those of preflight.
func (p *preflightOptions) checkPairs(o *options) error {
	switch {
	case p.only && (o.dryRun || o.showEnv):
		return &usageError{"--preflight-only excludes --dry-run and --show-env", nil}
	case p.facts != "" && p.save != "":
		return &usageError{"--facts and --save-facts exclude each other", []string{"the facts are in a file already"}}
	case p.html != "" && (oneFile(p.html, p.save) || oneFile(p.html, p.facts)):
		return &usageError{"--html and the facts are the same file", nil}
	}
	return nil
}

// oneFile reports whether two names are of one file, which is no device or pipe.
func oneFile(a, b string) bool {
	if a == b {
		return true
	}
	if b == "" || isStream(a) {
		return false
	}
	a, errA := target(a)
	b, errB := target(b)
	if errA != nil || errB != nil {
		return false // what is wrong with them is said later
	}
	a, errA = filepath.Abs(a)
	b, errB = filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}
