package preflight

import (
	"maps"
	"slices"

	"gorun/preflight/probe"
)

// rounds is how often Settle judges at most. Two are enough unless leaving a host out
// brings up what excludes another.
const rounds = 5

// Settle judges in, leaves out the hosts that this excludes, judges the others again, and
// so on until nothing changes. The report then says of the hosts left out why, and of the
// others what holds among them; what was only wrong between both is told as Info. The
// decision is Decide's of that report. Shape.Ranks are taken from in where they are nil.
func Settle(in Input, s Shape) (Report, Decision) { return settle(in, s, Judge) }

func settle(in Input, s Shape, judge func(Input) Report) (Report, Decision) {
	if s.Ranks == nil {
		s.Ranks = make([]int, len(in.Hosts))
		for i, h := range in.Hosts {
			s.Ranks[i] = h.Ranks
		}
	}
	report := judge(in)
	if !slices.ContainsFunc(in.Hosts, func(h Host) bool { return h.Unreached == "" }) {
		return report, unreached(in)
	}
	decision := Decide(report, s, in.Strict)
	for range rounds {
		rest := remains(in, report, decision)
		if rest == nil {
			break
		}
		merged := merge(report, judge(*rest), in.Strict)
		next := Decide(merged, s, in.Strict)
		settled := slices.Equal(next.Exclude, decision.Exclude) && slices.Equal(next.StandIns, decision.StandIns)
		report, decision = merged, next
		if settled {
			break
		}
	}
	return aside(in, report, s, decision, judge)
}

func unreached(in Input) Decision {
	d := Decision{Verdict: NotChecked, Reason: "no host could be reached", Code: 125}
	for _, h := range in.Hosts {
		d.Exclude = append(d.Exclude, h.Name)
	}
	if len(in.Hosts) == 0 {
		d.Reason = "there is no host"
	}
	return d
}

// remains is in without the hosts that d excludes; nil if that is nothing new.
func remains(in Input, r Report, d Decision) *Input {
	bad := badHosts(r.Findings, in.Strict)
	if len(bad) == 0 {
		return nil
	}
	rest := without(in, func(name string) bool { return bad[name] })
	if len(rest.Hosts) == 0 {
		return nil
	}
	for i := range rest.Hosts {
		h := &rest.Hosts[i]
		for _, swap := range d.StandIns {
			if k := slices.Index(d.Use, h.Name); swap.By == h.Name && k >= 0 {
				h.Ranks = d.Slots[k]
			}
		}
	}
	return &rest
}

// without is in without some hosts, whose links go, too.
func without(in Input, out func(name string) bool) Input {
	rest := in
	rest.Hosts = nil
	now := make([]int, len(in.Hosts)) // index in rest
	for i, h := range in.Hosts {
		now[i] = -1
		if !out(h.Name) {
			now[i] = len(rest.Hosts)
			rest.Hosts = append(rest.Hosts, h)
		}
	}
	for i := range rest.Hosts {
		h := &rest.Hosts[i]
		links := h.Links
		h.Links = nil
		for _, l := range links {
			if l.Host >= 0 && l.Host < len(now) && now[l.Host] >= 0 {
				l.Host = now[l.Host]
				h.Links = append(h.Links, l)
			}
		}
		h.Rails = renumbered(h.Rails, now)
	}
	return rest
}

// renumbered is rails to hosts that have now[…] as their index; -1: they are out.
func renumbered(rails []probe.RailLink, now []int) (rest []probe.RailLink) {
	for _, l := range rails {
		if l.Host >= 0 && l.Host < len(now) && now[l.Host] >= 0 {
			l.Host = now[l.Host]
			rest = append(rest, l)
		}
	}
	return rest
}

// merge is what holds of the hosts in rest, and what before says of the others.
func merge(before, rest Report, strict bool) Report {
	stays := map[string]bool{}
	for _, name := range rest.Hosts {
		stays[name] = true
	}
	again := map[[2]string]bool{}
	for _, f := range rest.Findings {
		again[[2]string{f.Check, f.Title}] = true
	}
	r := rest
	r.Hosts, r.Checks = before.Hosts, slices.Clone(rest.Checks)
	for _, f := range before.Findings {
		repeated := again[[2]string{f.Check, f.Title}]
		among := slices.ContainsFunc(f.Hosts, func(name string) bool { return stays[name] })
		switch {
		case f.excludes(strict):
		case repeated, f.Verdict != NoCluster && (among || len(f.Hosts) == 0):
			continue // it is said again, or holds no more
		case f.Verdict == NoCluster:
			f = eased(f, "it does not hold among the hosts that are not left out")
		}
		r.add(f)
	}
	for _, c := range before.Checks {
		for name, v := range c.Hosts {
			if !stays[name] {
				r.note(c.ID, name, v)
			}
		}
	}
	sortFindings(r.Findings)
	return r
}

// eased is f as Info, with the reason.
func eased(f Finding, why string) Finding {
	f.Verdict = Info
	f.Evidence = append(slices.Clone(f.Evidence), why)
	return f
}

// add adds a finding to r, and to the result of its check.
func (r *Report) add(f Finding) {
	r.Findings = append(slices.Clip(r.Findings), f)
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.ID != f.Check {
			continue
		}
		if c.Verdict = worse(c.Verdict, f.Verdict); c.Verdict == f.Verdict {
			c.Text = ""
		}
		for _, name := range f.Hosts {
			r.note(c.ID, name, f.Verdict)
		}
	}
}

// note adds what a check found of a host that was left out. What is wrong only between
// it and others is no longer a no-go.
func (r *Report) note(check, host string, v Verdict) {
	if v == NoCluster {
		v = Info
	}
	for i := range r.Checks {
		if c := &r.Checks[i]; c.ID == check {
			hosts := maps.Clone(c.Hosts)
			if hosts == nil {
				hosts = map[string]Verdict{}
			}
			hosts[host] = v
			if before, ok := c.Hosts[host]; ok {
				hosts[host] = worse(before, v)
			}
			c.Hosts = hosts
		}
	}
}

func sortFindings(found []Finding) {
	slices.SortStableFunc(found, func(a, b Finding) int { return rank(a.Verdict) - rank(b.Verdict) })
}

// aside looks whether a no-go of all good hosts is one of those, too, that the job would
// use: spares must not stand in its way.
func aside(in Input, r Report, s Shape, d Decision, judge func(Input) Report) (Report, Decision) {
	cluster := ofVerdict(r.Findings, NoCluster)
	if len(cluster) == 0 {
		return r, d
	}
	open := r
	open.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Verdict == NoCluster })
	used := Decide(open, s, in.Strict)
	if len(used.Idle) == 0 {
		return r, d
	}
	rest := without(in, func(name string) bool { return !slices.Contains(used.Use, name) })
	again := judge(rest)
	if len(ofVerdict(again.Findings, NoCluster)) > 0 || len(badHosts(again.Findings, in.Strict)) > 0 {
		return r, d
	}
	merged := merge(r, again, in.Strict)
	return merged, Decide(merged, s, in.Strict)
}
