package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gorun/envsync"
)

// A place is where something stands in a configuration file.
type place struct {
	file      string
	line, col int // from 1; 0: the file as a whole
}

// String is the place as an origin.
func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// errorf is the error of what stands there.
func (p place) errorf(format string, args ...any) *usageError {
	where := p.file
	if p.line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.file, p.line, p.col)
	}
	return &usageError{where + ": " + fmt.Sprintf(format, args...), nil}
}

// An entry is one key of a TOML file, or one of its tables.
type entry struct {
	path  []string // of the key, with the tables that it stands in
	value any      // string, bool, int64, float64, time.Time or []any; nil: a table
	at    place
	array int // which of the file's [[tables]] it stands in, from 1; 0: none
}

// readTOML takes a TOML file apart, in its order. Package toml knows the syntax, but
// tells no place of what it has read; so the text is checked as a whole first, and
// then read one key at a time. The error is a *usageError.
func readTOML(file string, data []byte) ([]entry, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	if line := tooDeep(text); line > 0 {
		return nil, place{file, line, 1}.errorf("more than %d brackets in one another, or dots in a key", maxDepth)
	}
	var whole map[string]any
	if _, err := toml.Decode(text, &whole); err != nil {
		return nil, syntaxError(file, text, err)
	}
	r := tomlReader{}
	for _, s := range cutStatements(text) {
		s.at.file = file
		if err := r.read(s); err != nil {
			return nil, s.at.errorf("%v", err)
		}
	}
	return r.entries, nil
}

// syntaxError says where text is no TOML. A line that holds a secret is not repeated.
func syntaxError(file, text string, err error) error {
	e, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return place{file: file}.errorf("%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	at := place{file, e.Position.Line, e.Position.Col}
	lines := strings.Split(text, "\n")
	i := at.line - 1
	if i > 0 && i < len(lines) && strings.Contains(e.Message, `'\n'`) && len(lines[i-1])+1 == at.col && len(lines[i])+1 != at.col {
		i, at.line = i-1, at.line-1 // package toml has counted that newline already
	}
	if i < 0 || i >= len(lines) {
		return at.errorf("%s", e.Message)
	}
	line := strings.TrimSpace(lines[i])
	if envsync.Conceal(line) != line {
		return at.errorf("no TOML; the line is not repeated here, as it holds a secret")
	}
	if len(line) > maxQuoted {
		line = strings.ToValidUTF8(line[:maxQuoted], "") + "..."
	}
	message := strings.TrimRight(e.Message, ".")
	u := at.errorf("%q: %s", line, strings.ToLower(message[:1])+message[1:])
	u.hints = hintList(syntaxHint(e.Message))
	return u
}

// maxQuoted is how much of a line an error repeats, in bytes.
const maxQuoted = 80

// syntaxHint is what helps against a mistake that package toml calls so, or "".
func syntaxHint(message string) string {
	for _, h := range []struct{ part, hint string }{
		{`expected value but found '\n'`, `a value is missing: key = "text", key = 3 or key = true`},
		{"expected value but found", `text is written in quotes: key = "value"`},
		{"strings cannot contain newlines", `text ends with the quote that it began with; text of several lines stands in """`},
		{"to end table name", "a table stands in a line of its own: [name]"},
		{"expected key separator", `a line is a [table], or key = value`},
		{"expected '.' or '='", `a line is a [table], or key = value`},
		{"has already been defined", "a key or a table stands once in a file"},
		{"escape", `text with a \ stands in single quotes: key = 'C:\dir'`},
	} {
		if strings.Contains(message, h.part) {
			return h.hint
		}
	}
	return ""
}

// tomlReader is readTOML's state.
type tomlReader struct {
	entries []entry
	table   []string // the one whose header came last
	arrays  int      // [[tables]] so far
	array   int      // the one that table is part of; 0: none
}

// read adds what a statement says.
func (r *tomlReader) read(s statement) error {
	var m map[string]any
	if _, err := toml.Decode(s.text, &m); err != nil {
		return err
	}
	if !s.header() {
		r.add(r.table, m, s.at)
		return nil
	}
	path, double := headerPath(m)
	switch {
	case double:
		r.arrays++
		r.array = r.arrays
	case r.array > 0 && path[0] != r.table[0]:
		r.array = 0
	}
	r.table = path
	r.entries = append(r.entries, entry{path, nil, s.at, r.array})
	return nil
}

// headerPath is the table that a header alone makes. It is double if it is a [[table]].
func headerPath(m map[string]any) (path []string, double bool) {
	for {
		for name, v := range m { // there is one
			path = append(path, name)
			switch v := v.(type) {
			case map[string]any:
				m = v
			case []map[string]any:
				return path, true
			}
		}
		if len(m) == 0 {
			return path, false
		}
	}
}

// add adds the keys of m, which stand in the table path.
func (r *tomlReader) add(path []string, m map[string]any, at place) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		key := append(slices.Clone(path), name)
		switch v := tables(m[name]).(type) {
		case map[string]any:
			r.entries = append(r.entries, entry{key, nil, at, r.array})
			r.add(key, v, at)
		case []map[string]any:
			for _, element := range v {
				r.arrays++
				outer := r.array
				r.array = r.arrays
				r.entries = append(r.entries, entry{key, nil, at, r.array})
				r.add(key, element, at)
				r.array = outer
			}
		default:
			r.entries = append(r.entries, entry{key, v, at, r.array})
		}
	}
}

// maxDepth is how many tables or lists may stand in one another. Package toml takes time
// with the square of that, and worse: minutes for a file of some KiB.
const maxDepth = 100

// tooDeep returns the line of the statement, from 1, in which more than that do; 0: none.
// The text need not be TOML.
func tooDeep(text string) int {
	for line := 1; text != ""; {
		n, deepest := statementLen(text)
		if deepest > maxDepth {
			return line
		}
		line += strings.Count(text[:n], "\n")
		text = text[n:]
	}
	return 0
}

// tables returns a list of inline tables as package toml returns [[tables]], and whatever
// else v is as it is.
func tables(v any) any {
	list, ok := v.([]any)
	var all []map[string]any
	for _, element := range list {
		m, isTable := element.(map[string]any)
		if ok = ok && isTable; ok {
			all = append(all, m)
		}
	}
	if !ok || len(list) == 0 {
		return v
	}
	return all
}

// A statement is a header of a TOML text, or a key with its value.
type statement struct {
	text string
	at   place
}

func (s statement) header() bool { return strings.HasPrefix(strings.TrimLeft(s.text, " \t"), "[") }

// cutStatements takes a text apart that is known to be TOML.
func cutStatements(text string) []statement {
	var all []statement
	for line := 1; text != ""; {
		n, _ := statementLen(text)
		s := text[:n]
		if first := strings.TrimLeft(s, " \t"); strings.Trim(first, "\r\n") != "" && first[0] != '#' {
			all = append(all, statement{s, place{line: line, col: 1 + len(s) - len(first)}})
		}
		line += strings.Count(s, "\n")
		text = text[n:]
	}
	return all
}

// statementLen is the length of the statement that text begins with, and its newline.
// Brackets and strings may hold newlines. Its deepest place has so many brackets around
// it, or dots before it in its key.
func statementLen(text string) (n, deepest int) {
	depth, dots := 0, 0
	for i := 0; i < len(text); {
		switch text[i] {
		case '\n':
			if depth == 0 {
				return i + 1, deepest
			}
			dots = 0
			i++
		case '#':
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return len(text), deepest
			}
			i += n
		case '"', '\'':
			i += stringLen(text[i:])
		case '[', '{':
			depth++
			i++
		case ']', '}':
			depth--
			i++
		case '.':
			dots++
			i++
		case ',', '=':
			dots = 0
			i++
		default:
			i++
		}
		deepest = max(deepest, depth+dots)
	}
	return len(text), deepest
}

// stringLen is the length of the TOML string that s begins with, quotes counted.
func stringLen(s string) int {
	quote, n := s[:1], 1
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote, n = triple, 3
	}
	for n < len(s) && !strings.HasPrefix(s[n:], quote) {
		if s[n] == '\\' && quote[0] == '"' {
			n++
		}
		n++
	}
	n += len(quote)
	for range 2 { // """a""""" ends in two quotes that belong to it
		if len(quote) == 3 && n < len(s) && s[n] == quote[0] {
			n++
		}
	}
	return min(n, len(s))
}
