package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

// This file is about the NCCL settings that hosts have of their own. What they say is
// reconciled when the ranks have places: only hosts that have ranks count.

const confFile = "NCCL_CONF_FILE"

// withoutConfFile keeps every rank from reading a file of settings in its home: what that
// says has been read, and is in the rank's environment. The host's /etc/nccl.conf is read
// all the same, but the environment wins over it.
func withoutConfFile(job []envsync.Var) []envsync.Var {
	if slices.ContainsFunc(job, func(v envsync.Var) bool { return v.Name == confFile }) {
		return job
	}
	return append(job, envsync.Var{Name: confFile, Value: os.DevNull, Origin: envsync.FromGorun})
}

// confFile is what the user has NCCL_CONF_FILE name for the ranks of a host, if anything.
func (e environment) confFile(host string) (name string, given bool) {
	for _, v := range slices.Concat(e.job, e.hosts[host]) {
		if v.Name == confFile && v.Origin != envsync.FromGorun {
			name, given = v.Value, true
		}
	}
	return name, given
}

// settle takes over what a host says of its settings in its hello, and asks it for what
// only this process knows to ask for. It returns how many answers are to come.
func (r *run) settle(h *host) (answers int) {
	h.settings = h.hello.Settings
	if h.hello.More {
		answers++
	}
	if name, given := r.env.confFile(h.spec.Name); given && name != os.DevNull {
		answers++
		h.send.SendMessage(wire.Message{Ask: &wire.Ask{ConfFile: wire.Bytes(name), Dir: wire.Bytes(r.job.Dir)}})
	}
	return answers
}

// found is what a host has of its own, and notes about it. The environment of an agent on
// this machine is the launch environment: what of that is sent has been decided.
func (r *run) found(h *host) (out envsync.Found, notes []envsync.Note) {
	note := func(level, format string, args ...any) {
		notes = append(notes, envsync.Note{Level: level, Text: fmt.Sprintf(format, args...)})
	}
	s := cmp.Or(h.settings, &wire.Settings{})
	if h.settings == nil && h.hello.More {
		s.Trouble = "it gave no answer"
		note("warn", "its own NCCL settings are not known: it gave no answer")
	}
	login := envsync.Place{Kind: envsync.FromLogin, Name: envsync.FromLogin, Unknown: s.Trouble != ""}
	session := envsync.Place{Kind: envsync.FromSession, Name: envsync.FromSession}
	if h.local() {
		login.Unknown, session.Unknown = true, true
	} else {
		login.Set, session.Set = entries(s.Login), entries(s.Session)
		if s.Trouble != "" && h.settings != nil {
			note("info", "not known what NCCL settings a login shell has: %s", s.Trouble)
		}
	}
	out = envsync.Found{login, session}
	name, given := r.env.confFile(h.spec.Name)
	missing := given && name != "" && name != os.DevNull && h.settings != nil
	for _, f := range s.Files {
		if f.User && name == os.DevNull {
			continue
		}
		missing = missing && !f.User
		out = append(out, foundFile(f, note))
	}
	if missing {
		note("warn", "there is no file %s, which NCCL_CONF_FILE names, and NCCL says nothing about that", quoteArg(name))
	}
	return out, notes
}

func foundFile(f wire.ConfFile, note func(level, format string, args ...any)) envsync.Place {
	p := envsync.Place{Kind: envsync.FromHost, Name: string(f.Path)}
	if f.User {
		p.Kind = envsync.FromUser
	}
	if f.Trouble != "" {
		level := "warn"
		if strings.HasSuffix(f.Trouble, os.ErrPermission.Error()) {
			level = "info" // NCCL cannot read it either
		}
		note(level, "NCCL settings of %s are not known: it %s", quoteArg(p.Name), f.Trouble)
		p.Unknown = true
		return p
	}
	p.Set, p.Traps = envsync.ParseConf(f.Text)
	return p
}

// entries reads NAME=value.
func entries(list []wire.Bytes) []envsync.ConfSetting {
	var out []envsync.ConfSetting
	for _, e := range list {
		if name, value, ok := strings.Cut(string(e), "="); ok {
			out = append(out, envsync.ConfSetting{Name: name, Value: value})
		}
	}
	return out
}

// reconcile adds to the ranks' environment what their hosts have of their own. The error
// is a *SettingsError: what must be equal is not.
func (r *run) reconcile(layout Layout) error {
	hosts := layout.Hosts()
	found := make([]envsync.Found, len(hosts))
	alike := map[envsync.Note][]int{} // hosts with the same note
	var order []envsync.Note
	for i, h := range hosts {
		var notes []envsync.Note
		found[i], notes = r.found(r.hosts[h])
		for _, n := range notes {
			if alike[n] == nil {
				order = append(order, n)
			}
			alike[n] = append(alike[n], i)
		}
	}
	names := func(which []int) string {
		list := make([]string, len(which))
		for i, w := range which {
			list[i] = r.hosts[hosts[w]].spec.Name
		}
		return hostfile.Fold(list)
	}
	for _, n := range order {
		r.remark(envsync.Note{Level: n.Level, Text: names(alike[n]) + ": " + n.Text})
	}
	decided := r.env.decided()
	own := envsync.Reconcile(found, r.job.Rigor, func(i int, name string) (string, bool) { return decided(r.hosts[hosts[i]].spec.Name, name) }, names)
	for _, n := range own.Notes {
		r.remark(n)
	}
	if len(own.Conflicts) > 0 {
		for _, text := range r.oddities {
			r.note("warn", text)
		}
		return settingsError(own.Conflicts, r.job.Rigor, names)
	}
	typed := r.job.lint(r.env)
	r.env.job = slices.Concat(own.Job, r.env.job)
	for i, h := range hosts {
		name := r.hosts[h].spec.Name
		r.env.hosts[name] = slices.Concat(own.Hosts[i], r.env.hosts[name])
	}
	r.lintFound(typed)
	return nil
}

// remark tells a note about hosts' settings. By a warning a strict job ends.
func (r *run) remark(n envsync.Note) {
	if n.Level == "warn" && r.job.Rigor == envsync.Strict {
		r.oddities = append(r.oddities, n.Text)
	} else {
		r.note(n.Level, n.Text)
	}
}

// maxFindings bounds the warnings of what hosts have.
const maxFindings = 8

// lintFound judges what the ranks get because hosts have it, as if it were typed; typed are
// the findings without that.
func (r *run) lintFound(typed []envsync.Finding) {
	known := map[string]bool{}
	for _, f := range typed {
		known[f.String()] = true
	}
	found := slices.DeleteFunc(r.job.lint(r.env), func(f envsync.Finding) bool { return known[f.String()] })
	notes, err := envsync.Judge(found, r.job.Rigor)
	for i, n := range notes {
		if i >= maxFindings {
			n.Level = "info"
		}
		r.note(n.Level, n.Text)
	}
	if more := len(notes) - maxFindings; more > 0 {
		r.note("warn", fmt.Sprintf("%d more oddities in hosts' NCCL settings (-v shows all)", more))
	}
	if e, ok := errors.AsType[*envsync.LintError](err); ok {
		for _, f := range e.Findings {
			r.oddities = append(r.oddities, f.Line())
		}
	}
}

// settingsError is the error for conflicts; called names hosts by their numbers.
func settingsError(conflicts []envsync.Conflict, rigor envsync.Rigor, called func([]int) string) *SettingsError {
	e := &SettingsError{}
	for _, c := range conflicts {
		d := Difference{Name: c.Name, Harmful: envsync.Harmful(c.Name)}
		for _, v := range c.Values {
			d.Values = append(d.Values, hostsValue(c.Name, v, rigor, called))
		}
		e.Differences = append(e.Differences, d)
	}
	return e
}

// hostsValue is what some hosts have for a variable of which others have something else.
func hostsValue(name string, v envsync.HostsValue, rigor envsync.Rigor, called func([]int) string) HostsValue {
	out := HostsValue{Hosts: called(v.Hosts), Text: v.Text(name), Places: v.Places}
	if v.Unset {
		return out
	}
	_, err := envsync.Judge(envsync.Lint([]envsync.Var{{Name: name, Value: v.Value}}), rigor)
	if e, ok := errors.AsType[*envsync.LintError](err); ok {
		out.Odd = e.Findings[0].Remedy()
	} else if !envsync.Hidden(name) {
		out.Example = quoteArg(name + "=" + v.Value)
	}
	return out
}

// decided tells what the job says of a variable for the ranks of a host, and where; hosts'
// own settings do not count then.
func (e environment) decided() func(host, name string) (origin string, ok bool) {
	job := map[string]string{}
	for _, v := range e.job {
		job[v.Name] = v.Origin
	}
	apps := map[string]int{} // of several programs, how many have it
	for _, vars := range e.apps {
		for _, v := range vars {
			if apps[v.Name]++; apps[v.Name] == len(e.apps) {
				job[v.Name] = cmp.Or(job[v.Name], v.Origin)
			}
		}
	}
	return func(host, name string) (string, bool) {
		for _, v := range e.hosts[host] {
			if v.Name == name {
				return v.Origin, true
			}
		}
		origin, ok := job[name]
		return origin, ok
	}
}
