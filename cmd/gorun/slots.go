package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
)

// slotsReport says where the slots are.
func slotsReport(e *launcher.SlotsError, o options) report {
	const most = 8
	var r report
	flag, value := o.perHostFlag(e.PerHost)
	switch {
	case e.Program != "":
		r.linef("%s needs %s, its hosts have %d left", shellQuote(envsync.Conceal(e.Program)), plural(e.Need, "slot"), e.Have)
	case e.Need == 0:
		r.linef("the hosts offer no slots")
	case e.PerHost > 0 && e.Have >= e.Need:
		r.linef("%s %s is more than the slots of a host", flag, value)
	case e.PerHost > 0:
		r.linef("need %s, hosts offer %d with %s %s", plural(e.Need, "slot"), e.Have, flag, value)
	default:
		r.linef("need %s, hosts offer %d", plural(e.Need, "slot"), e.Have)
	}
	for i, h := range e.Hosts {
		if i == most && len(e.Hosts) > most+1 {
			r.linef("  and %d more hosts", len(e.Hosts)-most)
			break
		}
		taken := ""
		if h.Taken > 0 {
			taken = fmt.Sprintf(", %d taken", h.Taken)
		}
		r.linef("  %s: %s%s (%s)", h.Name, plural(h.Slots, "slot"), taken, h.Origin)
	}
	if hint := slotsHint(e, o); hint != "" {
		r.hintf("%s", hint)
	}
	if n := o.preflight.spares; n > 0 {
		r.hintf("--spares %d keeps %s in reserve, whose slots do not count", n, plural(n, "host"))
	}
	if list := o.countedHosts(e); list != "" {
		r.hintf("a name alone in -H is one slot; %d on each: -H %s", perHost(e), shellQuote(list))
	}
	return r
}

// slotsHint says what would have the ranks fit.
func slotsHint(e *launcher.SlotsError, o options) string {
	usable := func(h launcher.HostSlots) bool { return h.Slots > 0 }
	switch {
	case e.Need > launcher.MaxRanks:
		return fmt.Sprintf("a job has at most %d ranks", launcher.MaxRanks)
	case len(e.Hosts) == 0:
		return "--exclude leaves none of its hosts"
	case !slices.ContainsFunc(e.Hosts, usable): // also with --oversubscribe
		return "write slots=N for a host, or host:N in -H"
	}
	var ways []string
	add := func(format string, args ...any) { ways = append(ways, fmt.Sprintf(format, args...)) }
	switch e.Ways.Hosts {
	case 0:
	case 1:
		add("add a host")
	default:
		add("add %d hosts", e.Ways.Hosts)
	}
	flag, value := o.perHostFlag(e.Ways.PerHost)
	switch n := e.Ways.PerHost; {
	case n > e.PerHost:
		add("raise %s to %s", flag, value)
	case n > 0:
		add("lower %s to %s", flag, value)
	case e.Ways.NoPerHost:
		add("leave %s out", flag)
	}
	if e.Ways.Ranks > 0 && o.mesh != "" {
		add("make --mesh %s smaller: %s at most", o.mesh, plural(e.Ways.Ranks, "rank"))
	} else if e.Ways.Ranks > 0 {
		add("lower %s to %d", o.programs()[e.App].typedFlag("np"), e.Ways.Ranks)
	}
	if e.Ways.Over && !o.noOversubscribe && !o.mapBy.never {
		add("pass --oversubscribe")
	}
	return either(ways)
}

// perHostFlag is the flag by which the ranks of each host were counted, as it was typed,
// and its value for n of them.
func (o *options) perHostFlag(n int) (flag, value string) {
	if o.mapBy.perHost == 0 {
		return o.typedFlag("ppn"), fmt.Sprint(n)
	}
	uses := o.said["map-by"]
	return o.typedFlag("map-by"), counted.ReplaceAllString(uses[len(uses)-1].value, fmt.Sprintf("${1}%d", n))
}

// counted is where the number of ranks per host stands in the value of --map-by.
var counted = regexp.MustCompile(`(?i)^(ppr[:,]+)\d+`)

// typedFlag is the flag of that name as it was typed, or as --help has it where it was
// not.
func (o *options) typedFlag(name string) string {
	uses := o.said[name]
	if len(uses) == 0 || !strings.HasPrefix(uses[len(uses)-1].origin, "-") {
		return dashed(name)
	}
	return uses[len(uses)-1].typed
}

// perHost is how many slots each host must have for all ranks, beside those that programs
// before have taken there.
func perHost(e *launcher.SlotsError) int {
	taken := 0
	for _, h := range e.Hosts {
		taken = max(taken, h.Taken)
	}
	return taken + (e.Need+len(e.Hosts)-1)/len(e.Hosts)
}

// countedHosts is the list of -H from which the hosts of e's program are, if it says no
// numbers, with enough slots for all ranks, or "" if it cannot be so.
func (o *options) countedHosts(e *launcher.SlotsError) string {
	const most = 8
	of := o.programs()[e.App].hosts
	if o.appFile != "" && o.hosts != "" {
		if of != "" { // it selects from the other
			return ""
		}
		of = o.hosts
	}
	plain := of != "" && o.hostfile == "" && !strings.ContainsAny(of, ":[^") && e.PerHost == 0
	if !plain || len(e.Hosts) > most || len(e.Hosts) == 0 || e.Need == 0 {
		return ""
	}
	var items []string
	for item := range strings.SplitSeq(of, ",") {
		if item += fmt.Sprintf(":%d", perHost(e)); !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	list := strings.Join(items, ",")
	if _, err := hostfile.ParseList(list); err != nil { // more than it takes for a number of slots
		return ""
	}
	return list
}
