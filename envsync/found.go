package envsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kinds of places where a host has NCCL settings of its own. A place of an earlier kind
// wins over one of a later: NCCL takes nothing from a file that the environment has.
const (
	FromLogin   = "login shell" // what its profile files set
	FromSession = "ssh session" // what sshd, and files that every shell reads, set
	FromUser    = "user's file" // ~/.nccl.conf, or what NCCL_CONF_FILE names instead
	FromHost    = "host's file" // /etc/nccl.conf
)

// kinds is the order in which places win.
func kinds() []string { return []string{FromLogin, FromSession, FromUser, FromHost} }

// Place is one place of a host's own NCCL settings.
type Place struct {
	Kind    string // one of the kinds
	Name    string // what people call it: a path, or the kind
	Set     []ConfSetting
	Traps   []ConfTrap
	Unknown bool // it could not be read
}

// Found is what one host has of NCCL settings of its own, each kind at most once.
type Found []Place

// Own is what the ranks of a job's hosts get because the hosts have it. The origin of a Var
// names the place and the hosts.
type Own struct {
	Job       []Var   // for all: what must be equal and is
	Hosts     [][]Var // by host: what may differ
	Conflicts []Conflict
	Notes     []Note

	rigor Rigor
}

// Conflict is a variable that must be equal on all hosts, and is not. NCCL compares no
// settings: such a job hangs, or worse.
type Conflict struct {
	Name   string
	Values []HostsValue // ordered by their first host
}

// HostsValue is what some hosts have for a variable.
type HostsValue struct {
	Hosts  []int
	Value  string
	Unset  bool     // they have none
	Places []string // where it is set: "/etc/nccl.conf:3"; each once
}

// own is one host's own value of a variable.
type own struct {
	value string
	kind  string // "": it has none
	place string
}

// Reconcile decides what the ranks get of what their hosts have. decided tells what the
// job has decided for a host's ranks, which wins, and where. name calls hosts by their
// names, for people. A difference is a conflict where a job is sure to suffer; by rigor
// also where it may do no harm, or nowhere. Nothing is changed of what it is given.
func Reconcile(hosts []Found, rigor Rigor, decided func(host int, name string) (origin string, ok bool), name func(hosts []int) string) Own {
	out := Own{Hosts: make([][]Var, len(hosts)), rigor: rigor}
	all, names := valuesOf(hosts)
	for _, n := range names {
		values := make([]own, len(hosts))
		for i := range hosts {
			values[i] = all[i][n]
		}
		out.settle(n, hosts, values, decided, name)
	}
	out.remark(hosts, name)
	return out
}

// HostSetting reports whether ranks get a variable because their host has it: NCCL's own,
// and those of what NCCL's plugins are made of, which a file of NCCL settings may set, too.
// NCCL_CONF_FILE is none, as what it names has been read; neither are names that say where
// NCCL is installed, which modules and images set and NCCL does not read.
func HostSetting(name string) bool {
	switch rest, _ := strings.CutPrefix(name, "NCCL_"); rest {
	case "CONF_FILE", "ROOT", "ROOT_DIR", "HOME", "DIR", "BASE", "PREFIX", "PATH", "INSTALL_PATH", "INC", "INCLUDE", "INCLUDE_DIR", "INCLUDE_DIRS",
		"INCLUDE_PATH", "LIB", "LIB_DIR", "LIBDIR", "LIB_PATH", "LIBRARY", "LIBRARY_PATH", "LIBRARIES", "VERSION", "VER":
		return false
	}
	return hasPrefix(name, "NCCL_", "UCX_", "SHARP_", "OFI_", "FI_") && validName(name)
}

// valuesOf returns each host's own values by name, and all of the names.
func valuesOf(hosts []Found) (values []map[string]own, names []string) {
	all := map[string]bool{}
	for _, f := range hosts {
		v := f.values()
		values = append(values, v)
		for name := range v {
			all[name] = true
		}
	}
	return values, slices.Sorted(maps.Keys(all))
}

// values are the host's own values.
func (f Found) values() map[string]own {
	out := map[string]own{}
	for _, kind := range kinds() {
		for _, p := range f {
			if p.Kind != kind {
				continue
			}
			for _, s := range p.Set {
				if _, ok := out[s.Name]; !ok && HostSetting(s.Name) {
					out[s.Name] = own{s.Value, kind, p.at(s)}
				}
			}
		}
	}
	return out
}

// at says where s is set, for people.
func (p Place) at(s ConfSetting) string {
	if s.Line == 0 {
		return p.Name
	}
	return fmt.Sprintf("%s:%d", shown(p.Name), s.Line)
}

// unsure reports whether the host may have a value of that kind which is not known.
func (f Found) unsure(kind string) bool {
	return slices.ContainsFunc(f, func(p Place) bool { return p.Kind == kind && p.Unknown })
}

// settle decides about one variable.
func (o *Own) settle(name string, hosts []Found, values []own, decided func(int, string) (string, bool), called func([]int) string) {
	open := make([]bool, len(hosts)) // the job has not decided
	some := false
	for i := range values {
		if _, ok := decided(i, name); !ok {
			open[i], some = true, true
		}
	}
	o.tellOverridden(name, values, open, decided, called)
	switch {
	case !some:
	case ClassOf(name) != ClassJob, misspeltName(name):
		o.keep(name, values, open, called)
	case !o.unite(name, hosts, values, open, called) && !o.ends(name):
		last := len(o.Conflicts) - 1
		c := o.Conflicts[last]
		o.Conflicts = o.Conflicts[:last]
		o.Notes = append(o.Notes, Note{"warn", fmt.Sprintf("%s differs between hosts: %s; -x %s=VALUE sets one for all", name, c.brief(called), name)})
		o.keep(name, values, open, called)
	}
}

// misspeltName reports whether name is not that of a variable, as far as one can tell: Lint
// says so, and a host's difference from others is none.
func misspeltName(name string) bool {
	rest, nccl := strings.CutPrefix(name, "NCCL_")
	_, strange := strangeName(rest)
	return nccl && !isVariable(name) && strange
}

// ends reports whether a difference of a variable ends the job.
func (o *Own) ends(name string) bool {
	return o.rigor == Strict || o.rigor == Usual && Harmful(name)
}

// Harmful reports whether a job is sure to suffer where hosts have different values of a
// variable: if it is one that all of NCCL's ranks must agree on, not only those of a host.
// Of a name that the table lacks nobody knows.
func Harmful(name string) bool {
	v, known := Lookup(name)
	return known && v.Class == ClassJob && !v.SameHost
}

// keep lets each host's ranks have what their host has.
func (o *Own) keep(name string, values []own, open []bool, called func([]int) string) {
	origins := map[own]string{}
	o.tell(values, open, called, func(v own, hosts string) string {
		origins[v] = v.place + " of " + hosts
		return fmt.Sprintf("sent to %s: %s (%s)", hosts, Show(Var{Name: name, Value: v.value}), v.place)
	})
	for i, v := range values {
		if open[i] && v.kind != "" {
			o.Hosts[i] = append(o.Hosts[i], Var{name, v.value, origins[v]})
		}
	}
}

// brief is a conflict in part of a line.
func (c Conflict) brief(called func([]int) string) string {
	var parts []string
	for _, v := range c.Values {
		parts = append(parts, fmt.Sprintf("%s on %s", v.Text(c.Name), called(v.Hosts)))
	}
	return strings.Join(parts, ", ")
}

// Text is the value for people, "not set" if there is none; a secret is hidden.
func (v HostsValue) Text(name string) string {
	switch {
	case v.Unset:
		return "not set"
	case Hidden(name):
		return hidden
	case v.Value == "":
		return "empty"
	}
	return shown(v.Value)
}

// unite makes a variable equal in the whole job, or reports false and adds why that cannot
// be. A host is not asked that has the variable from a place behind one which it could not
// tell, if others have it from there: it gets what these have.
func (o *Own) unite(name string, hosts []Found, values []own, open []bool, called func([]int) string) bool {
	known := map[string]bool{} // kinds of places from which hosts have it
	for _, v := range values {
		known[v.kind] = true
	}
	groups := map[own][]int{} // by value and whether there is one
	var order []own
	var unsure []int
	for i, v := range values {
		if !open[i] {
			continue
		}
		if hosts[i].outdone(v, known) {
			unsure = append(unsure, i)
			continue
		}
		key := own{value: Meaning(name, v.value)}
		if v.kind != "" {
			key.kind = "set"
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	if len(order) > 1 {
		c := Conflict{Name: name}
		for _, key := range order {
			c.Values = append(c.Values, HostsValue{Hosts: groups[key], Value: values[groups[key][0]].value, Unset: key.kind == "", Places: placesOf(values, groups[key])})
		}
		o.Conflicts = append(o.Conflicts, c)
		return false
	}
	if len(order) == 0 || order[0].kind == "" {
		return true
	}
	sources := groups[order[0]]
	v := Var{name, values[sources[0]].value, strings.Join(placesOf(values, sources), ", ") + " of " + called(sources)}
	o.Job = append(o.Job, v)
	text := fmt.Sprintf("sent: %s (%s)", Show(v), v.Origin)
	if len(unsure) > 0 {
		text += fmt.Sprintf("; %s cannot tell, and gets it too", called(unsure))
	}
	o.Notes = append(o.Notes, Note{"info", text})
	return true
}

// outdone reports whether this host, whose value is v, may have another from a place
// that it could not tell, and that others have it from.
func (f Found) outdone(v own, known map[string]bool) bool {
	for _, kind := range kinds() {
		if kind == v.kind {
			return false
		}
		if known[kind] && f.unsure(kind) {
			return true
		}
	}
	return false
}

// placesOf lists where those hosts have their values, each place once.
func placesOf(values []own, hosts []int) []string {
	var out []string
	for _, i := range hosts {
		if p := values[i].place; p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// tellOverridden tells, for -v, which settings of hosts do not count, and why.
func (o *Own) tellOverridden(name string, values []own, open []bool, decided func(int, string) (string, bool), called func([]int) string) {
	origin := ""
	closed := make([]bool, len(open))
	for i := range open {
		if closed[i] = !open[i]; closed[i] {
			origin, _ = decided(i, name)
		}
	}
	o.tell(values, closed, called, func(v own, hosts string) string {
		return fmt.Sprintf("%s of %s does not count: %s is set by %s", Show(Var{Name: name, Value: v.value}), fmt.Sprintf("%s (%s)", hosts, v.place), name, origin)
	})
}

// tell adds a note for each value that some of the hosts have.
func (o *Own) tell(values []own, which []bool, called func([]int) string, text func(v own, hosts string) string) {
	by := map[own][]int{}
	var order []own
	for i, v := range values {
		if !which[i] || v.kind == "" {
			continue
		}
		if by[v] == nil {
			order = append(order, v)
		}
		by[v] = append(by[v], i)
	}
	for _, v := range order {
		o.Notes = append(o.Notes, Note{"info", text(v, called(by[v]))})
	}
}

// maxRemarks bounds the warnings of what is odd in hosts' files.
const maxRemarks = 8

// remark tells what in the hosts' files does not do what it seems to say. Equal remarks of
// several hosts are one line.
func (o *Own) remark(hosts []Found, called func([]int) string) {
	by := map[Note][]int{}
	var order []Note
	for i, f := range hosts {
		for _, p := range f {
			for _, n := range p.remarks() {
				if by[n] == nil {
					order = append(order, n)
				}
				if list := by[n]; len(list) == 0 || list[len(list)-1] != i {
					by[n] = append(list, i)
				}
			}
		}
	}
	warned := 0
	for _, n := range order {
		if n.Level == "warn" {
			warned++
		}
		if warned > maxRemarks {
			n.Level = "info"
		}
		o.Notes = append(o.Notes, Note{n.Level, called(by[n]) + ": " + n.Text})
	}
	if warned > maxRemarks {
		o.Notes = append(o.Notes, Note{"warn", fmt.Sprintf("%d more oddities in hosts' files of NCCL settings (-v shows all)", warned-maxRemarks)})
	}
}

// remarks lists what is odd in one file.
func (p Place) remarks() []Note {
	var out []Note
	for _, t := range p.Traps {
		out = append(out, Note{"warn", fmt.Sprintf("%s:%d: %s: %s", shown(p.Name), t.Line, shown(t.Text), t.Msg)})
	}
	for _, s := range p.Set {
		if s.Line == 0 || HostSetting(s.Name) {
			continue
		}
		n := Note{"info", p.at(s) + ": " + s.Name + " is no variable of NCCL's, which sets it for what reads it later in the same process"}
		meant := meantByName(s.Name)
		switch {
		case strings.HasPrefix(s.Name, "NCCL_") && s.Name != "NCCL_CONF_FILE":
		case s.Name == "NCCL_CONF_FILE":
			n = Note{"warn", p.at(s) + ": NCCL_CONF_FILE is without effect in a file"}
		case meant != "":
			n = Note{"warn", p.at(s) + ": " + s.Name + ": " + misspelt + "; write " + meant}
		case p.Kind == FromUser:
			n = Note{"warn", p.at(s) + ": " + s.Name + " is no variable of NCCL's, and ranks do not get it from there; -x " + s.Name + "=VALUE sends it"}
		case strings.HasPrefix(s.Name, "LD_"):
			n.Level = "warn"
		}
		out = append(out, n)
	}
	return out
}
