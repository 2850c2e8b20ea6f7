package envsync

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Merge returns a rank's environment: session without leftovers, then the NAME=value
// lists in order, a later value taking the place of an earlier one. Each name comes
// once, in the order of its first mention; of a name repeated in session the first
// counts, as for getenv. PYTHONUNBUFFERED=1 is added unless the name is there, even
// empty. Entries without a name or without "=" are dropped. The arguments are kept
// as they are.
func Merge(session []string, vars ...[]string) []string {
	m := merger{index: make(map[string]int, len(session)+64), env: make([]string, 0, len(session)+64)}
	for _, entry := range session {
		if name, _, ok := split(entry); ok && !Leftover(name) {
			m.add(name, entry)
		}
	}
	for _, list := range vars {
		for _, entry := range list {
			if name, _, ok := split(entry); ok {
				m.put(name, entry)
			}
		}
	}
	m.add("PYTHONUNBUFFERED", "PYTHONUNBUFFERED=1")
	return m.env
}

// merger is an environment in the making.
type merger struct {
	env   []string
	index map[string]int // of a name in env
}

// add appends entry unless name is there.
func (m *merger) add(name, entry string) {
	if _, ok := m.index[name]; !ok {
		m.index[name] = len(m.env)
		m.env = append(m.env, entry)
	}
}

// put appends entry or puts it in the place of name's.
func (m *merger) put(name, entry string) {
	if i, ok := m.index[name]; ok {
		m.env[i] = entry
		return
	}
	m.add(name, entry)
}

// Complete returns env with those of more whose names it lacks, and these names. A name
// that is set counts as there even if it is empty. Env may be changed.
func Complete(env, more []string) (complete, added []string) {
	for _, entry := range more {
		name, _, _ := split(entry)
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env, added = append(env, entry), append(added, name)
		}
	}
	return env, added
}

// Prepend returns env with more put before the values of variables: of NAME=directory
// it makes NAME=directory:value, or NAME=directory where NAME is not set or empty. Each
// name stands in env once. Env is changed.
func Prepend(env, more []string) []string {
	for _, entry := range more {
		name, _, _ := split(entry)
		i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		switch {
		case i < 0:
			env = append(env, entry)
		case env[i] == name+"=":
			env[i] = entry
		default:
			env[i] = entry + ":" + env[i][len(name)+1:]
		}
	}
	return env
}

// Show returns v as NAME=value for people: a secret's value is <hidden>, and a value
// with control characters or bytes that are no UTF-8 is quoted as in Go.
func Show(v Var) string {
	if Hidden(v.Name) {
		return shown(v.Name) + "=" + hidden
	}
	return shown(v.Name) + "=" + shown(v.Value)
}

// Explain returns v as Show does, and behind it where its value comes from and among
// which processes it must be equal, as far as that is known.
func Explain(v Var) string {
	notes := shown(v.Origin)
	if class := ClassOf(v.Name); class != ClassUnknown {
		notes += "; " + string(class)
	}
	return fmt.Sprintf("%s  (%s)", Show(v), notes)
}

// shown quotes s if it could disturb a terminal or a line.
func shown(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// MaxString is the largest argument or NAME=value, in bytes, that Linux hands to a program.
const MaxString = 131071

// SizeError is an argument or variable that is longer than MaxString.
type SizeError struct {
	Arg  int    // number of the argument, 0 for the program; -1 when it is a variable
	Name string // of the variable; "" when it is an argument
	Size int    // in bytes; of a variable with its name and "="
}

func (e *SizeError) Error() string {
	what := fmt.Sprintf("argument %d", e.Arg)
	if e.Arg < 0 {
		what = "variable " + shown(e.Name)
	}
	return fmt.Sprintf("%s has %d bytes; Linux passes at most %d to a program", what, e.Size, MaxString)
}

// CheckSize returns a *SizeError for the first of args, or else of env's NAME=value,
// that no program can be given.
func CheckSize(args []string, env []string) error {
	for i, arg := range args {
		if len(arg) > MaxString {
			return &SizeError{Arg: i, Size: len(arg)}
		}
	}
	for _, entry := range env {
		if len(entry) > MaxString {
			name, _, _ := strings.Cut(entry, "=")
			return &SizeError{Arg: -1, Name: name, Size: len(entry)}
		}
	}
	return nil
}
