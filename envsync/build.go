package envsync

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Policy says which variables go to every rank of a job.
type Policy struct {
	Environ []string  // the launch environment, NAME=value; of a repeated name the first counts
	Config  []Setting // of configuration files, in order; what is forwarded wins over them
	Set     []Setting // -x and -genv, in order
	All     bool      // -genvall: all of Environ but what is bound to this host or to a process
	Forward []string  // prefixes of names forwarded from Environ; nil: the defaults
}

// Setting is one -x or -genv, or a line of a configuration file; then Flag is its place.
// Text is "NAME=value", "NAME" (its value here) or a glob ("NCCL_*": all such names that
// are set here).
type Setting struct{ Flag, Text string }

// SettingError is a Setting that makes no sense.
type SettingError struct {
	Setting
	Msg  string // what is wrong
	Hint string // what to do
}

func (e *SettingError) Error() string { return fmt.Sprintf("%s %q: %s", e.Flag, e.shown(), e.Msg) }

// shown is the setting's text with a secret hidden, and a long value cut.
func (s Setting) shown() string {
	const most = 80
	text := Conceal(s.Text)
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// Note is a line of the account of what was decided. Level is "warn", for a line
// always shown, or "info", for -v. Secrets are hidden in Text.
type Note struct{ Level, Text string }

// Build returns the job map, each name once, in the order of Config, Environ and Set, and
// the account of it. Set wins over what is forwarded, and that over Config; a later
// Setting wins over an earlier one. The error is a *SettingError.
func (p Policy) Build() (job []Var, notes []Note, err error) {
	b := builder{index: map[string]int{}, asked: map[string]bool{}, environ: readEnviron(p.Environ)}
	for _, s := range p.Config {
		if err := b.set(s); err != nil {
			return nil, nil, err
		}
		clear(b.asked) // that a file overrides another is nothing to speak of
	}
	b.forward(p)
	for _, s := range p.Set {
		if err := b.set(s); err != nil {
			return nil, nil, err
		}
	}
	b.account()
	return b.vars, b.notes, nil
}

// builder gathers the job map.
type builder struct {
	environ []Var // the launch environment, each name once
	vars    []Var
	index   map[string]int  // of a name in vars
	asked   map[string]bool // names that a Setting has given
	kept    []string        // bound names of environ that -genvall leaves out
	notes   []Note
}

// readEnviron cuts entries into variables. As getenv does, it takes the first of a
// repeated name.
func readEnviron(entries []string) []Var {
	seen := make(map[string]bool, len(entries))
	var vars []Var
	for _, entry := range entries {
		if name, value, ok := split(entry); ok && !seen[name] {
			seen[name] = true
			vars = append(vars, Var{name, value, FromEnvironment})
		}
	}
	return vars
}

func (b *builder) note(level, format string, args ...any) {
	b.notes = append(b.notes, Note{level, fmt.Sprintf(format, args...)})
}

// put adds v, or gives its name a new value.
func (b *builder) put(v Var) {
	if i, ok := b.index[v.Name]; ok {
		b.vars[i] = v
		return
	}
	b.index[v.Name] = len(b.vars)
	b.vars = append(b.vars, v)
}

// forward adds what goes without -x.
func (b *builder) forward(p Policy) {
	prefixes := p.Forward
	if prefixes == nil {
		prefixes = DefaultForward()
	}
	for _, v := range b.environ {
		asked := hasPrefix(v.Name, prefixes...)
		switch {
		case RankName(v.Name):
		case (asked || p.All) && !bound(v.Name):
			b.put(v)
		case asked && !p.named(v.Name):
			b.note("warn", "%s is set here and not sent: %s; -x %s sends it", shown(v.Name), boundText, shown(v.Name))
		case p.All:
			b.kept = append(b.kept, v.Name)
		}
	}
}

const boundText = "it belongs to this host or to one process"

// named reports whether a Setting names name by itself.
func (p Policy) named(name string) bool {
	return slices.ContainsFunc(p.Set, func(s Setting) bool { n, _, _ := strings.Cut(s.Text, "="); return n == name })
}

// set adds what one -x or -genv asks for.
func (b *builder) set(s Setting) error {
	name, value, given := strings.Cut(s.Text, "=")
	if err := s.check(name, given); err != nil {
		return err
	}
	switch {
	case !given && isGlob(name):
		b.setGlob(s)
		return nil
	case RankName(name) && !meeting(name):
		b.note("warn", "%s %s: gorun sets %s for each rank; the value given is not used", s.Flag, name, name)
		return nil
	case !given:
		i := slices.IndexFunc(b.environ, func(v Var) bool { return v.Name == name })
		if i < 0 {
			b.note("warn", "%s %s: not set here, so not sent", s.Flag, name)
			return nil
		}
		value = b.environ[i].Value
	}
	b.putSet(Var{name, value, s.Flag})
	return nil
}

// putSet puts what a Setting gives, and notes when an earlier one gave something else.
func (b *builder) putSet(v Var) {
	if i, ok := b.index[v.Name]; ok && b.asked[v.Name] && b.vars[i].Value != v.Value {
		b.note("warn", "%s: set twice, to different values; the later one counts, of %s", v.Name, v.Origin)
	}
	b.asked[v.Name] = true
	b.put(v)
}

// setGlob adds every variable of the launch environment that s, which has been
// checked, matches and that is not bound.
func (b *builder) setGlob(s Setting) {
	matched := false
	var kept []string
	for _, v := range b.environ {
		// A "/" in a name would stop path.Match's "*"; no such name is sent by a pattern.
		if ok, _ := path.Match(s.Text, v.Name); !ok {
			continue
		}
		matched = true
		switch {
		case RankName(v.Name):
		case bound(v.Name):
			kept = append(kept, shown(v.Name))
		default:
			b.putSet(Var{v.Name, v.Value, s.Flag})
		}
	}
	level := "warn"
	if strings.Trim(s.Text, "*") == "" { // all, as -genvall; nobody asked for these names
		level = "info"
	}
	switch {
	case !matched:
		b.note("warn", "%s %q: no variable set here matches, nothing sent", s.Flag, s.Text)
	case len(kept) > 0:
		b.note(level, "%s %q: not sent, because each belongs to this host or to one process and must be named by itself: %s",
			s.Flag, s.Text, strings.Join(kept, ", "))
	}
}

func isGlob(name string) bool { return strings.ContainsAny(name, "*?[") }

// check says what is wrong with s, whose text starts with name.
func (s Setting) check(name string, given bool) error {
	wrong := func(msg, hint string) error { return &SettingError{s, msg, hint} }
	switch {
	case name == "":
		return wrong("no name", fmt.Sprintf("write %s NAME=VALUE, or %s NAME to send the value it has here", s.Flag, s.Flag))
	case strings.Contains(s.Text, "\x00"):
		return wrong("a value cannot have a zero byte", "")
	case isGlob(name) && given:
		return wrong("a pattern cannot be given a value", fmt.Sprintf("write %s %q to send what is set here", s.Flag, Conceal(name)))
	case isGlob(name):
		if _, err := path.Match(name, ""); err != nil {
			return wrong("bad pattern", "* is any text, ? one character, [a-z] one of these")
		}
		return nil
	case validName(name):
		return nil
	case strings.ContainsAny(name, " \t"):
		return wrong("a blank in the name", fmt.Sprintf("write NAME=VALUE without blanks around =, and one variable for each %s", s.Flag))
	case !given && validNames(name):
		return wrong("several names", fmt.Sprintf("write %s %s", s.Flag, strings.ReplaceAll(name, ",", " "+s.Flag+" ")))
	case strings.ContainsAny(name, ",;:"):
		return wrong("not a name", fmt.Sprintf("write one variable for each %s", s.Flag))
	case strings.HasPrefix(name, "$"):
		return wrong("not a name", "write the name without $")
	case strings.HasPrefix(name, "-"):
		return wrong("not a name", fmt.Sprintf("%s needs NAME or NAME=VALUE after it", s.Flag))
	case name[0] >= '0' && name[0] <= '9':
		return wrong("a name cannot start with a digit", "names are letters, digits and _")
	}
	return wrong("not a name", "names are letters, digits and _")
}

// account adds the notes for -v: what is sent, and what was set here and is not.
func (b *builder) account() {
	for _, v := range b.vars {
		b.note("info", "sent: %s (%s)", Show(v), v.Origin)
	}
	var unsent []string
	for _, v := range b.environ {
		if _, sent := b.index[v.Name]; !sent && missed(v.Name) && !slices.Contains(b.kept, v.Name) {
			unsent = append(unsent, shown(v.Name))
		}
	}
	if len(unsent) > 0 {
		b.note("info", "set here and not sent (-x NAME sends it): %s", strings.Join(unsent, ", "))
	}
	var kept []string
	for _, name := range b.kept {
		if _, sent := b.index[name]; !sent {
			kept = append(kept, shown(name))
		}
	}
	if len(kept) > 0 {
		b.note("info", "set here and not sent, because each belongs to this host or to one process: %s", strings.Join(kept, ", "))
	}
}
