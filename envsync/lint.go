package envsync

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is a variable that is a mistake, or may be one.
type Finding struct {
	Var   Var
	Wrong bool   // NCCL is known to take it for something else, or to refuse it; else it works, but may not be meant
	Msg   string // what is the matter
	Hint  string // what to do; ""
}

// String is the finding in one line, with the origin of the variable, and without
// control characters, secrets and long values.
func (f Finding) String() string {
	return fmt.Sprintf("%s (%s): %s", cutShort(Show(f.Var)), shown(f.Var.Origin), f.Msg)
}

// Line is the finding and its hint in one line.
func (f Finding) Line() string { return f.withHint(f.String()) }

// Remedy is what is the matter and the hint in one line, without the variable.
func (f Finding) Remedy() string { return f.withHint(f.Msg) }

func (f Finding) withHint(text string) string {
	if f.Hint == "" {
		return text
	}
	return text + "; " + f.Hint
}

// cutShort leaves of a long text its beginning.
func cutShort(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Lint looks for mistakes in what vars, a rank's variables, say to NCCL; of a repeated
// name the last counts. A finding is Wrong only where NCCL 2.30.7 is known to read
// something else than what is written, or to refuse it. What changes only what is
// logged is never Wrong, nor is a name or setting of which the table knows nothing: NCCL
// may be newer.
func Lint(vars []Var) []Finding {
	l := linter{values: make(map[string]Var, len(vars))}
	var names []string
	for _, v := range vars {
		if _, ok := l.values[v.Name]; !ok {
			names = append(names, v.Name)
		}
		l.values[v.Name] = v
	}
	for _, name := range names {
		l.variable(l.values[name])
	}
	l.contradictions()
	return l.found
}

// linter is Lint's state.
type linter struct {
	values map[string]Var // by name
	found  []Finding
}

// wrong adds a finding that is Wrong, unless v is about logs only.
func (l *linter) wrong(v Var, hint, format string, args ...any) {
	l.found = append(l.found, Finding{v, ClassOf(v.Name) != ClassDebug, fmt.Sprintf(format, args...), hint})
}

// warn adds a finding that is not Wrong.
func (l *linter) warn(v Var, hint, format string, args ...any) {
	l.found = append(l.found, Finding{v, false, fmt.Sprintf(format, args...), hint})
}

// variable looks at v alone.
func (l *linter) variable(v Var) {
	def, known := Lookup(v.Name)
	switch other := otherInValue(v.Value); {
	case other != "":
		l.found = append(l.found, Finding{v, known && ClassOf(v.Name) != ClassDebug, other + " is part of the value", "set each variable by itself, as with one -x for each"})
		return
	case !known:
		l.torch(v)
		l.name(v)
		return
	case l.marks(v, def.Kind):
		return
	}
	l.oldName(v)
	switch def.Kind {
	case Integer, Switch, Size, Boolean:
		l.number(v, def.Kind)
	case Words:
		l.words(v)
	case Grammar:
		l.grammar(v)
	case Interfaces, Devices:
		l.interfaces(v, def.Kind)
	case Path:
		l.path(v)
	case Address:
		l.address(v)
	case Text:
		l.text(v)
	}
}

// otherInValue is the name of a variable that stands with its value behind a comma, as in
// INFO,NCCL_IB_DISABLE=1; "" if there is none, or if all of the value is such a list.
func otherInValue(value string) string {
	first, rest, _ := strings.Cut(value, ",")
	if strings.Contains(first, "=") {
		return ""
	}
	for part := range strings.SplitSeq(rest, ",") {
		if name, _, ok := strings.Cut(part, "="); ok && validName(name) && (isVariable(name) || hasPrefix(name, DefaultForward()...)) {
			return name
		}
	}
	return ""
}

// marks finds quotes, blanks and carriage returns around a value: nothing takes them
// off. It reports whether that says all there is to say.
func (l *linter) marks(v Var, kind Kind) bool {
	bare, n := strings.TrimSpace(v.Value), len(v.Value)
	hint := cutShort("write " + v.Name + "=" + shown(bare))
	if bare == "" {
		hint = "leave it unset"
	}
	switch {
	case kind == Text && v.Name != "NCCL_NET":
		return false
	case n > 1 && (v.Value[0] == '"' || v.Value[0] == '\'') && v.Value[n-1] == v.Value[0]:
		l.wrong(v, cutShort("write "+v.Name+"="+shown(v.Value[1:n-1])), "the quotes are part of the value")
		return true
	case bare == v.Value:
		return false
	case numeric(kind) && strings.HasSuffix(v.Value, "\r"):
		l.warn(v, hint, "it ends with a carriage return, as lines of a file from Windows do")
	case numeric(kind):
	case strings.HasSuffix(v.Value, "\r"):
		l.wrong(v, hint, "it ends with a carriage return, as lines of a file from Windows do")
	default:
		l.wrong(v, hint, "a blank before or behind it is part of the value")
	}
	return !numeric(kind)
}

func numeric(kind Kind) bool {
	return kind == Integer || kind == Switch || kind == Size || kind == Boolean
}

// contradictions finds settings that exclude each other.
func (l *linter) contradictions() {
	for _, what := range []string{"NCHANNELS", "NRINGS", "CTAS", "P2P_NCHANNELS"} {
		low, high := l.values["NCCL_MIN_"+what], l.values["NCCL_MAX_"+what]
		least, most := readNumber(low.Value), readNumber(high.Value)
		if least.digits != "" && most.digits != "" && least.value > most.value && most.value > 0 {
			l.warn(low, "", "more than %s (%s)", cutShort(Show(high)), shown(high.Origin))
		}
	}
	if off, level := l.values["NCCL_P2P_DISABLE"], l.values["NCCL_P2P_LEVEL"]; readNumber(off.Value).value == 1 && level.Value != "" {
		l.warn(level, "", "has no effect beside NCCL_P2P_DISABLE=1 (%s)", shown(off.Origin))
	}
	if off, net := l.values["NCCL_IB_DISABLE"], l.values["NCCL_NET"]; strings.EqualFold(net.Value, "IB") && readNumber(off.Value).value != 0 {
		l.warn(net, "", "NCCL_IB_DISABLE=%s (%s) switches that network off", shown(off.Value), shown(off.Origin))
	}
}

// LintError is findings that end a job.
type LintError struct{ Findings []Finding }

func (e *LintError) Error() string {
	var lines []string
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// Rigor says what a job ends by of what is odd in its settings.
type Rigor string

const (
	Usual  Rigor = ""       // by what NCCL is known to take for something else, and by differences of which it would hang
	Strict Rigor = "strict" // by all that is odd
	Lax    Rigor = "lax"    // by nothing: whoever wrote the settings knows better, as of a newer NCCL
)

// Judge returns what is to be said of findings: warnings, and a *LintError of those that
// end a job.
func Judge(findings []Finding, rigor Rigor) (notes []Note, err error) {
	var fatal []Finding
	for _, f := range findings {
		if rigor == Strict || f.Wrong && rigor != Lax {
			fatal = append(fatal, f)
			continue
		}
		notes = append(notes, Note{"warn", f.Line()})
	}
	if fatal != nil {
		err = &LintError{fatal}
	}
	return notes, err
}

// nearestOf is the word with the fewest edits to text, in any case, or "" if that needs
// more than limit or than a third of its letters.
func nearestOf(text string, words []string, limit int) string {
	best := ""
	limit = min(limit, len(text)/3)
	if len(text) > 64 {
		return ""
	}
	for _, w := range words {
		if d := Edits(strings.ToUpper(text), strings.ToUpper(w)); d <= limit {
			best, limit = w, d-1
		}
	}
	return best
}

// isOneOf reports whether word is among words, in any case.
func isOneOf(word string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}
