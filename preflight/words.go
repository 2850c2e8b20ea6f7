package preflight

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"gorun/hostfile"
)

// Lengths in characters, and in lines.
const (
	maxFolded   = 60  // of host names in a title
	maxLine     = 240 // of a line of evidence, and of a title
	maxRemedy   = 400 // commands in it are to be whole
	maxEvidence = 20  // lines of a finding
)

// plurals are the verbs that titles begin with, as several hosts have them.
var plurals = map[string]string{
	"has": "have", "is": "are", "does": "do", "was": "were", "lacks": "lack", "runs": "run", "differs": "differ",
	"sees": "see", "uses": "use", "says": "say", "calls": "call", "needs": "need", "allows": "allow", "sets": "set",
	"reaches": "reach", "knows": "know", "finds": "find", "hides": "hide", "mounts": "mount", "answers": "answer",
	"copies": "copy",
}

// plural is what begins with a verb, as several hosts have it.
func plural(what string) string {
	verb, rest, more := strings.Cut(what, " ")
	if p, ok := plurals[verb]; ok {
		verb = p
	}
	if more {
		verb += " " + rest
	}
	return verb
}

// say makes a statement of hosts: "gpu07 has …", "gpu[07-08] have …". What begins with
// its verb in the singular.
func (v *view) say(hosts []int, what string) string {
	if len(hosts) > 1 {
		what = plural(what)
	}
	return v.fold(hosts) + " " + what
}

// fold names hosts for a title: "gpu[01-03,07]". Long lists are counted.
func (v *view) fold(hosts []int) string {
	names := make([]string, len(hosts))
	for k, i := range hosts {
		names[k] = v.Hosts[i].Name
	}
	folded := hostfile.Fold(names)
	if len(names) <= 2 || utf8.RuneCountInString(folded) <= maxFolded {
		return folded
	}
	return fmt.Sprintf("%s, %s and %d more hosts", names[0], names[1], len(names)-2)
}

// hostWord is what stands for hosts' names in remedies, and firstWord for the first one.
var (
	hostWord  = regexp.MustCompile(`\bHOST\b`)
	firstWord = regexp.MustCompile(`\bFIRST\b`)
)

// finding makes a finding of hosts. In remedy, HOST stands for their names, and FIRST for
// the first of them.
func (v *view) finding(verdict Verdict, hosts []int, title, remedy string, evidence []string) Finding {
	f := Finding{Verdict: verdict, Title: title, Evidence: evidence}
	if len(hosts) > 0 {
		f.Remedy = firstWord.ReplaceAllLiteralString(hostWord.ReplaceAllLiteralString(remedy, v.fold(hosts)), v.Hosts[hosts[0]].Name)
	}
	for _, i := range hosts {
		f.Hosts = append(f.Hosts, v.Hosts[i].Name)
	}
	return f
}

// orWithout is the end of a remedy for what is wrong between hosts: if these are two of
// more, the job can go on without either, and nobody but the user knows which.
func (v *view) orWithout(hosts []int) string {
	if len(hosts) != 2 || len(v.Hosts) < 3 {
		return ""
	}
	return fmt.Sprintf("; or go on without one of both, which --drop-bad cannot choose: --exclude %s, or --exclude %s", v.Hosts[hosts[0]].Name, v.Hosts[hosts[1]].Name)
}

// notes are lines of evidence of hosts. Equal lines are one, with all their hosts.
type notes struct {
	texts []string
	hosts map[string][]int
}

func (n *notes) add(host int, text string) {
	if n.hosts == nil {
		n.hosts = map[string][]int{}
	}
	of, ok := n.hosts[text]
	if !ok {
		n.texts = append(n.texts, text)
	}
	if len(of) == 0 || of[len(of)-1] != host {
		n.hosts[text] = append(of, host)
	}
}

func (n *notes) lines(v *view) []string {
	var lines []string
	for k, text := range n.texts {
		if k == maxEvidence && len(n.texts) > maxEvidence+1 {
			return append(lines, fmt.Sprintf("and %d more", len(n.texts)-k))
		}
		lines = append(lines, v.fold(n.hosts[text])+": "+text)
	}
	return lines
}

// clean returns s fit for one line: what comes from hosts is data.
func clean(s string) string { return cleanUpTo(s, maxLine) }

func cleanUpTo(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, !unicode.IsPrint(r) && !unicode.IsSpace(r):
			return '?'
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
	return clip(strings.TrimSpace(s), limit)
}

func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// size writes bytes as people do: "64 MiB".
func size(n int64) string {
	const unit = 1024
	value, names := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	k := 0
	for ; value >= unit && k < len(names)-1; k++ {
		value /= unit
	}
	if k == 0 || value == float64(int64(value)) || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, names[k])
	}
	return fmt.Sprintf("%.1f %s", value, names[k])
}

// count writes a number of things: "1 host", "2 hosts".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
