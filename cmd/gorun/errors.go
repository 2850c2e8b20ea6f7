package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/output"
	"gorun/launcher/transport"
)

// hostfileError makes a usage error of one that names no line: a file that cannot be
// read at all is a mistake on the command line.
func hostfileError(err error) error {
	if _, ok := errors.AsType[*hostfile.SyntaxError](err); ok {
		return err
	}
	return &usageError{err.Error(), nil}
}

// errorReport says why a job did not run. o is what was asked for.
func errorReport(err error, o options) report {
	r := fullReport(err, o)
	r.hints = append(r.hints, o.configuredHints(r)...)
	if isUsage(err) { // it quotes what the user wrote, however long that is
		shortenAll(r.lines)
		shortenAll(r.hints)
	}
	return r
}

// configuredHints say where the flags come from that r names and nobody has typed.
func (o *options) configuredHints(r report) []string {
	var hints []string
	words := spellings()
	for _, w := range strings.Fields(strings.Join(append(slices.Clone(r.lines), r.hints...), " ")) {
		w, _, _ = strings.Cut(strings.Trim(w, ",:;()\"'"), "=")
		uses := o.said[words[bare(w)]]
		if len(uses) == 0 || !strings.HasPrefix(w, "-") || strings.HasPrefix(uses[0].origin, "-") {
			continue
		}
		if hint := fmt.Sprintf("%s is set by %s", w, uses[0].origin); !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	return hints
}

func shortenAll(lines []string) {
	for i, l := range lines {
		lines[i] = shorten(l)
	}
}

// shorten leaves out the middle of a long line.
func shorten(line string) string {
	const first, last = 300, 150
	if len(line) <= first+last {
		return line
	}
	return strings.ToValidUTF8(line[:first], "") + " ... " + strings.ToValidUTF8(line[len(line)-last:], "")
}

// fullReport is errorReport with whatever is quoted at full length.
func fullReport(err error, o options) report {
	var r report
	if e, ok := errors.AsType[*usageError](err); ok {
		return report{[]string{e.msg}, e.hints}
	}
	if e, ok := errors.AsType[*verdictError](err); ok {
		return verdictReport(e, o)
	}
	if e, ok := errors.AsType[*launcher.HostsError](err); ok {
		r := hostsReport(e, "nothing was started")
		if hint := o.waitHint(e.Hosts); hint != "" {
			r.hintf("%s", hint)
		}
		return r
	}
	if e, ok := errors.AsType[*launcher.PrepareError](err); ok {
		return prepareReport(e, o)
	}
	if e, ok := errors.AsType[*launcher.SlotsError](err); ok {
		return slotsReport(e, o)
	}
	if e, ok := errors.AsType[*launcher.MeshError](err); ok {
		return meshReport(e)
	}
	if e, ok := errors.AsType[*launcher.SettingsError](err); ok {
		return settingsReport(e, o)
	}
	if e, ok := errors.AsType[*launcher.FoundError](err); ok {
		return foundReport(e, o)
	}
	if e, ok := errors.AsType[*launcher.LibrariesError](err); ok {
		r.linef("NCCL's libraries differ between hosts or are missing, and --env-strict is given; nothing was started")
		for _, l := range e.Lines {
			r.linef("  %s", shorten(l))
		}
		return r
	}
	if e, ok := errors.AsType[*envsync.LintError](err); ok {
		return lintReport(e, o)
	}
	if e, ok := errors.AsType[*output.PatternError](err); ok {
		return report{[]string{"--output-dir " + e.Text}, []string{e.Hint}}
	}
	if e, ok := errors.AsType[*hostfile.SyntaxErrors](err); ok {
		return mistakesReport(e)
	}
	r.linef("%v", err)
	if errors.Is(err, errNoDir) {
		r.hintf("cd to a directory that is there, or name one for the ranks by -wdir /DIR")
	}
	if e, ok := errors.AsType[*launcher.FileError](err); ok && e.Program {
		r.hints = o.programHints(e)
	}
	if e, ok := errors.AsType[*transport.FilesError](err); ok {
		r.hintf("ulimit -n %d allows that, if the hard limit (ulimit -H -n) does; hosts behind a ProxyJump need none", 2*e.Need)
	}
	if e, ok := errors.AsType[*hostfile.SyntaxError](err); ok && e.Hint != "" {
		r.hintf("%s", e.Hint)
	}
	if e, ok := errors.AsType[*envsync.SettingError](err); ok && e.Hint != "" {
		r.hintf("%s", e.Hint)
	}
	if _, ok := errors.AsType[*launcher.UnknownSlotsError](err); ok {
		r.hintf(`write their slots in the hostfile ("gpu1 slots=8") or the list (gpu1:8), or add -ppn N; --dry-run asks no host`)
	}
	return r
}

// mistakesReport lists the mistakes in a hostfile, and each hint once.
func mistakesReport(e *hostfile.SyntaxErrors) report {
	var r report
	for _, m := range e.First {
		r.linef("%v", m)
		if m.Hint != "" && !slices.Contains(r.hints, m.Hint) {
			r.hintf("%s", m.Hint)
		}
	}
	if e.More > 0 {
		r.linef("and %s with mistakes", plural(e.More, "more line"))
	}
	return r
}

// maxDifferences bounds the variables of which a report tells the values.
const maxDifferences = 16

// lintReport lists settings that NCCL would take for something else. Each hint names its
// variable where there are several.
func lintReport(e *envsync.LintError, o options) report {
	var r report
	for i, f := range e.Findings {
		if i == maxDifferences {
			r.linef("and %d more", len(e.Findings)-i)
			break
		}
		r.linef("%v", f)
		switch {
		case f.Hint == "":
		case len(e.Findings) == 1:
			r.hintf("%s", f.Hint)
		default:
			r.hintf("%s: %s", strings.TrimSuffix(envsync.Show(envsync.Var{Name: f.Var.Name}), "="), f.Hint)
		}
	}
	switch {
	case !o.envStrict:
		r.hintf("with --env-lax gorun only warns")
	case !slices.ContainsFunc(e.Findings, func(f envsync.Finding) bool { return f.Wrong }):
		r.hintf("without --env-strict gorun only warns")
	}
	return r
}

// foundReport lists what is odd in the settings that hosts have of their own.
func foundReport(e *launcher.FoundError, o options) report {
	var r report
	r.linef("hosts have NCCL settings that may not do what they say; nothing was started")
	for i, line := range e.Lines {
		if i == maxDifferences {
			r.linef("  and %d more", len(e.Lines)-i)
			break
		}
		r.linef("  %s", shorten(line))
	}
	if o.envStrict {
		r.hintf("without --env-strict gorun warns of most of them")
	} else {
		r.hintf("-x NAME=VALUE decides for all hosts, a [[host]] of a configuration for some; with --env-lax gorun only warns")
	}
	return r
}

// settingsReport lists what hosts do not agree on.
func settingsReport(e *launcher.SettingsError, o options) report {
	var r report
	harmful := slices.ContainsFunc(e.Differences, func(d launcher.Difference) bool { return d.Harmful })
	if harmful {
		r.linef("%v, and NCCL, which compares nothing, would hang; nothing was started", e)
	} else {
		r.linef("%v, and --env-strict is given; nothing was started", e)
	}
	for i, d := range e.Differences {
		if i == maxDifferences {
			r.linef("  and %d more", len(e.Differences)-i)
			break
		}
		for _, v := range d.Values {
			line := fmt.Sprintf("  %s on %s: %s", d.Name, v.Hosts, v.Text)
			if len(v.Places) > 0 {
				line += " (" + strings.Join(v.Places, ", ") + ")"
			}
			if v.Odd != "" {
				line += ": " + v.Odd
			}
			r.linef("%s", shorten(line))
		}
	}
	r.hintf("%s", decideHint(e.Differences))
	switch {
	case !harmful:
		r.hintf("without --env-strict gorun only warns")
	case !o.envStrict: // which contradicts the other
		r.hintf("with --env-lax gorun only warns")
	}
	return r
}

// decideHint says what to type to have one value on all hosts.
func decideHint(differences []launcher.Difference) string {
	var decide []string
	leave := ""
	for _, d := range differences[:min(len(differences), maxDifferences)] {
		example := d.Name + "=VALUE"
		if i := slices.IndexFunc(d.Values, func(v launcher.HostsValue) bool { return v.Example != "" }); i >= 0 {
			example = shorten(d.Values[i].Example)
		}
		decide = append(decide, "-x "+example)
		if leave == "" && d.Name != "NCCL_COMM_ID" && d.Name != "NCCL_NET" { // an empty one is an error there
			leave = fmt.Sprintf("; -x %s= leaves it to NCCL", d.Name)
		}
	}
	verb := "decides"
	if len(decide) > 1 {
		verb = "decide"
	}
	return fmt.Sprintf("%s %s for all hosts%s", strings.Join(decide, " "), verb, leave)
}

// causes groups hosts by what is wrong with them, in order of appearance.
type causes struct {
	texts []string
	hosts map[string][]string // by text
}

func (c *causes) add(text, host string) {
	if c.hosts == nil {
		c.hosts = map[string][]string{}
	}
	if _, ok := c.hosts[text]; !ok {
		c.texts = append(c.texts, text)
	}
	if !slices.Contains(c.hosts[text], host) {
		c.hosts[text] = append(c.hosts[text], host)
	}
}

// causeHosts names the hosts of one cause: each by itself while they are few, then in
// brackets as -H and --exclude take them, and of too many for that the first ones.
func causeHosts(hosts []string) (text string, cut bool) {
	const few, most, bytes = 8, 32, 1000
	if len(hosts) <= few {
		return strings.Join(hosts, ", "), false
	}
	if folded := hostfile.Fold(hosts); len(folded) <= bytes {
		return folded, false
	}
	return fewHosts(hosts, most), true
}

// list adds a headline and a line for each cause to r, or one line for a single cause.
func (c *causes) list(r *report, headline, consequence string) {
	if len(c.texts) == 1 && len(c.hosts[c.texts[0]]) == 1 {
		r.linef("%s: %s; %s", c.hosts[c.texts[0]][0], c.texts[0], consequence)
		return
	}
	r.linef("%s; %s", headline, consequence)
	cut := false
	for _, text := range c.texts {
		hosts, some := causeHosts(c.hosts[text])
		r.linef("  %s: %s", hosts, text)
		cut = cut || some
	}
	if cut {
		r.hintf("--result FILE writes down what was wrong with each host")
	}
}

// hostsReport lists the hosts that could not be used; equal causes share a line, and so do
// all hosts behind a jump host that was not reached.
func hostsReport(e *launcher.HostsError, consequence string) report {
	var r report
	var general, shown causes
	failures, labels := foldJumps(e.Hosts)
	for i, h := range failures {
		general.add(generalize(h.Err.Error(), h.Host), labels[i])
	}
	for i, h := range failures {
		text := h.Err.Error()
		if g := generalize(text, h.Host); len(general.hosts[g]) > 1 {
			text = g
		}
		shown.add(text, labels[i])
	}
	shown.list(&r, fmt.Sprintf("%d of %d hosts cannot be used", len(e.Hosts), len(e.Hosts)+e.Good), consequence)
	r.hints = append(r.hints, hostHints(failures)...)
	return r
}

// foldJumps replaces what failed because of the same jump host by that one's own failure.
// The labels say what to call each, for people.
func foldJumps(all []launcher.HostFailure) (folded []launcher.HostFailure, labels []string) {
	place := map[*transport.JumpError]int{} // in folded
	behind := map[int]int{}
	for _, f := range all {
		e := jumpFailure(f.Err)
		if e == nil {
			folded, labels = append(folded, f), append(labels, f.Host)
			continue
		}
		i, ok := place[e]
		if !ok {
			i = len(folded)
			place[e] = i
			folded = append(folded, launcher.HostFailure{Host: e.Host, Err: e.Err})
			labels = append(labels, fmt.Sprintf("%s, behind jump host %s", f.Host, e.Host))
		}
		if behind[i]++; behind[i] == 1 {
			continue
		}
		labels[i] = fmt.Sprintf("jump host %s, with %s behind it", e.Host, plural(behind[i], "host"))
	}
	return folded, labels
}

// jumpFailure returns the failure of the first jump host on the way, nil if it was none.
func jumpFailure(err error) (first *transport.JumpError) {
	for {
		e, ok := errors.AsType[*transport.JumpError](err)
		if !ok {
			return first
		}
		first, err = e, e.Err
	}
}

// generalize takes out of text what is different for every host: its name and
// addresses.
func generalize(text, host string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		core := strings.Trim(w, ",;:()")
		_, err1 := netip.ParseAddrPort(core)
		_, err2 := netip.ParseAddr(strings.Trim(core, "[]"))
		if err1 == nil || err2 == nil {
			words[i] = strings.Replace(w, core, "ADDRESS", 1)
		} else if user, rest, ok := strings.Cut(w, "@"); ok && strings.Contains(rest, host) {
			words[i] = user + "@" + strings.Replace(rest, host, "HOST", 1)
		} else if name, port, err := net.SplitHostPort(core); err == nil && name == host {
			words[i] = strings.Replace(w, core, "HOST:"+port, 1)
		} else if core == host || core == `"`+host+`"` {
			words[i] = strings.Replace(w, host, "HOST", 1)
		}
	}
	return strings.Join(words, " ")
}

// prepareReport lists the hosts that cannot run the program.
func prepareReport(e *launcher.PrepareError, o options) report {
	var r report
	var c causes
	missing, noDir := false, false
	for _, f := range e.Failures {
		c.add(o.concealIn(f.Text), f.Host)
		missing = missing || f.Code == 127
		noDir = noDir || strings.HasPrefix(f.Text, "working directory ")
	}
	headline := "the program cannot be started on every host"
	if e.Failures[0].Files {
		headline = "files cannot be brought to every host"
	}
	c.list(&r, headline, "nothing was started")
	switch {
	case o.script(e) != "":
		r.hintf("%s", o.script(e))
	case missing && o.valueAsProgram(e) != "":
		r.hintf("%s", o.valueAsProgram(e))
	case o.slip(e) != "":
		r.hintf("%s", o.slip(e))
	case missing && o.onlyHere(e) != "":
		r.hintf("%s is on this machine; --bcast brings it to the hosts", shellQuote(envsync.Conceal(o.onlyHere(e))))
	case missing && o.nearby(e) != "":
		r.hintf("did you mean ./%s?", o.nearby(e))
	case missing:
		r.hintf("programs are looked up in the PATH of the host; a path with a slash is taken from the working directory")
	case strings.Contains(e.Failures[0].Text, ", of Open MPI or PMIx, "):
		r.hintf("build it with MPICH, or start it by Open MPI's mpirun; --pmi none starts it all the same")
	case noDir && !slices.ContainsFunc(o.programs(), func(p options) bool { return cmp.Or(p.wdir, o.wdir) != "" }):
		r.hintf("%s", o.dirHint())
	case noDir:
		r.hintf("the directory of -wdir must exist on every host; gorun makes none")
	}
	return r
}

// concealIn hides in text, which may quote a program's name, a secret that was taken
// for one.
func (o *options) concealIn(text string) string {
	quoted := func(s string) string { return strings.Trim(strconv.Quote(s), `"`) }
	for _, p := range o.programs() {
		text = strings.ReplaceAll(text, quoted(p.program[0]), quoted(envsync.Conceal(p.program[0])))
	}
	return text
}

// either joins ways as "a, b, or c".
func either(ways []string) string {
	if len(ways) < 2 {
		return strings.Join(ways, "")
	}
	last := len(ways) - 1
	comma := ","
	if last == 1 {
		comma = ""
	}
	return strings.Join(ways[:last], ", ") + comma + " or " + ways[last]
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
