package transport

import (
	"fmt"
	"strings"

	"gorun/hostfile"
)

// verdict says whether a block of ssh_config applies to a host.
type verdict int

const (
	applies verdict = iota
	unknown         // only running a command, or more than gorun does yet, would tell
	ignored
)

// evaluation finds the directives that apply to one host: the first of each kind,
// and all of IdentityFile.
type evaluation struct {
	c         *sshConfig
	h         hostfile.Host
	final     string // second pass, for `Match final`: the host to which the first one led
	wantFinal bool   // the files have such a block

	values     map[string]*directive
	identities []*directive
	unused     []string
	specific   bool         // a value that says where to go stands in a block that is not for all hosts
	problem    *ConfigError // first directive that cannot be ignored
}

// block is where the walk stands: what applies, and what the block's head says.
type block struct {
	verdict verdict
	general bool // the block is for all hosts
	head    *directive
}

func (e *evaluation) pass() {
	for _, file := range e.c.files {
		e.walk(file, block{applies, true, nil})
	}
}

// walk takes the directives of one file. A block in an included file applies only
// where the Include does.
func (e *evaluation) walk(ds []directive, outer block) {
	b := outer
	for i := range ds {
		d := &ds[i]
		switch d.key {
		case "host", "match":
			b = e.enter(d, outer)
		case "include":
			for _, file := range d.included {
				if b.verdict != ignored {
					e.walk(file, b)
				}
			}
		default:
			if b.verdict != ignored {
				e.take(d, b)
			}
		}
	}
}

func (e *evaluation) enter(d *directive, outer block) block {
	if outer.verdict == ignored {
		return outer
	}
	b := block{head: d}
	if d.key == "host" {
		b.verdict = ignored
		name := e.h.Name
		if e.final != "" {
			name = e.final
		}
		if matchPatterns(d.args, name) {
			b.verdict = applies
		}
		b.general = strings.Trim(strings.Join(d.args, ""), "*") == ""
	} else {
		b.verdict, b.general = e.match(d)
	}
	if outer.verdict == unknown && b.verdict == applies {
		return outer
	}
	b.general = b.general && outer.general
	return b
}

// take notes a directive of a block that applies, or may apply.
func (e *evaluation) take(d *directive, b block) {
	name, not := unsupported[d.key]
	spare, dropped := unusedNames[d.key]
	slot := d.key
	if slot == "proxycommand" || slot == "proxyjump" {
		slot = "proxy" // the first of the two wins
	}
	if !not && !dropped && !used[d.key] || e.values[slot] != nil && slot != "identityfile" || e.final != "" && slot == "hostname" {
		return
	}
	if len(d.args) == 0 || d.args[0] == "" {
		e.object(d.errorf("%s has no value", d.key))
		return
	}
	off := strings.EqualFold(d.args[0], "none") || strings.EqualFold(d.args[0], "no")
	switch {
	case b.verdict == unknown && !dropped:
		e.object(b.head.errorf("cannot tell yet whether Match %s applies; %s (line %d) depends on it",
			strings.Join(b.head.args, " "), d.key, d.line))
	case not && !off:
		e.object(d.errorf("%s is not supported yet", name))
	case dropped && b.verdict == applies && !strings.EqualFold(d.args[0], "yes") && !strings.EqualFold(d.args[0], "any"):
		e.unused = append(e.unused, fmt.Sprintf("%s (%s:%d)", spare, d.file, d.line))
	}
	e.keep(slot, d, b)
}

func (e *evaluation) keep(slot string, d *directive, b block) {
	if slot == "identityfile" {
		e.addIdentity(d)
		return
	}
	e.values[slot] = d
	switch slot {
	case "hostname", "user", "port", "proxy":
		e.specific = e.specific || !b.general
	}
}

// addIdentity adds a file once: the second pass sees every line again.
func (e *evaluation) addIdentity(d *directive) {
	for _, have := range e.identities {
		if have == d || have.args[0] == d.args[0] {
			return
		}
	}
	e.identities = append(e.identities, d)
}

func (e *evaluation) object(err *ConfigError) {
	if e.problem == nil {
		e.problem = err
	}
}

func (e *evaluation) value(key string) string {
	if d := e.values[key]; d != nil {
		return d.args[0]
	}
	return ""
}

// match evaluates the criteria of a Match line. What needs a command to be run, or is
// unknown to gorun, leaves the verdict open unless another criterion fails.
func (e *evaluation) match(d *directive) (v verdict, general bool) {
	general = true
	for i := 0; i < len(d.args); i++ {
		name, negated := strings.CutPrefix(strings.ToLower(d.args[i]), "!")
		name, value, joined := strings.Cut(name, "=")
		if takesValue(name) {
			if joined {
				_, value, _ = strings.Cut(d.args[i], "=")
			} else if i++; i < len(d.args) {
				value = d.args[i]
			}
		}
		general = general && name != "host" && name != "originalhost"
		v = max(v, e.criterion(name, value, negated))
	}
	if len(d.args) == 0 {
		return ignored, true
	}
	return v, general
}

func takesValue(criterion string) bool {
	return criterion != "all" && criterion != "canonical" && criterion != "final"
}

func (e *evaluation) criterion(name, value string, negated bool) verdict {
	var met bool
	switch name {
	case "all":
		met = true
	case "canonical": // so ssh calls every second pass
		met = e.final != ""
	case "final":
		met, e.wantFinal = e.final != "", true
	case "host":
		met = matchHost(value, e.hostname())
	case "originalhost":
		met = matchHost(value, e.h.Name)
	case "user":
		user := e.c.user
		if u := e.value("user"); u != "" {
			user = u
		}
		if e.h.User != "" {
			user = e.h.User
		}
		met = matchPatterns(strings.Split(value, ","), user)
	case "localuser":
		met = matchPatterns(strings.Split(value, ","), e.c.user)
	default:
		return unknown
	}
	if met == negated {
		return ignored
	}
	return applies
}

// matchHost is for names of hosts in a Match line: unlike in a Host line, case does not matter.
func matchHost(list, name string) bool {
	return matchPatterns(strings.Split(strings.ToLower(list), ","), strings.ToLower(name))
}

func (e *evaluation) hostname() string {
	if e.final != "" {
		return e.final
	}
	if name := e.value("hostname"); name != "" {
		if name, err := percent(name, map[byte]string{'h': e.h.Name}); err == nil {
			return name
		}
	}
	return e.h.Name
}
