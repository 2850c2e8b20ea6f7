package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
)

// configReader adds the entries of one file to a config.
type configReader struct {
	*config
	file  configFile
	home  string
	flags []flag
}

// entry adds e.
func (r *configReader) entry(e entry) error {
	switch {
	case e.path[0] == "env":
		return r.variable(e)
	case e.path[0] == "host":
		return r.host(e)
	case e.key() == "forward":
		return r.prefixes(e)
	}
	if is, err := r.threshold(e); is {
		return err
	}
	i := slices.IndexFunc(r.flags, func(f flag) bool { return f.key == e.key() })
	switch {
	case i >= 0 && e.value != nil:
		return r.flag(r.flags[i], e)
	case i >= 0:
		err := e.at.errorf("%s is a table here, and takes one value", e.key())
		if e.key() == "hosts" {
			err.hints = []string{"did you mean [[host]]?"}
		}
		return err
	case e.value == nil && e.array == 0 && slices.ContainsFunc(r.flags, func(f flag) bool { return strings.HasPrefix(f.key, e.key()+".") }):
		return nil // a section
	}
	return r.unknownKey(e)
}

// key is the path as one word.
func (e entry) key() string { return strings.Join(e.path, ".") }

// kind says what a TOML value is.
func (e entry) kind() string {
	switch v := e.value.(type) {
	case nil:
		return "a table"
	case string:
		return "text"
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "a date"
}

// unknownKey is the error for a key that stands for nothing.
func (r *configReader) unknownKey(e entry) error {
	what := "key"
	if e.value == nil {
		what = "table"
	}
	err := e.at.errorf("unknown %s %q", what, e.key())
	word := strings.ReplaceAll(e.path[len(e.path)-1], "_", "-")
	whole := map[string]string{"env": "env", "forward": "forward", "host": "[[host]]"} // by what may be meant
	for _, t := range thresholds() {
		whole["preflight."+t.key] = "preflight." + t.key
	}
	for _, f := range r.flags {
		section, last, sectioned := strings.Cut(f.key, ".")
		whole[f.key] = f.key
		if sectioned {
			whole[section], whole[last] = "["+section+"]", f.key
		}
		for _, w := range spellingsOf(f) {
			whole[w] = f.key
		}
	}
	near := nearest(e.key(), slices.Sorted(maps.Keys(whole)))
	if near == "" {
		near = nearest(word, slices.Sorted(maps.Keys(whole)))
	}
	err.hints = []string{"gorun --show-config lists the keys"}
	if near != "" {
		err.hints = []string{fmt.Sprintf("did you mean %s?", whole[near])}
	}
	return err
}

// spellingsOf returns a flag's spellings without dashes.
func spellingsOf(f flag) []string {
	var words []string
	for _, w := range f.spelled() {
		words = append(words, bare(w))
	}
	return words
}

// variable adds a variable of [env].
func (r *configReader) variable(e entry) error {
	switch {
	case len(e.path) == 1 && e.value == nil && e.array == 0:
		return nil
	case len(e.path) != 2:
		return e.at.errorf("env is a table of variables: [env], and NAME = \"value\" in it")
	}
	v, err := e.variable()
	if err == nil {
		r.env = append(r.env, envsync.Setting{Flag: v.Origin, Text: v.Name + "=" + v.Value})
	}
	return err
}

// variable is the variable that an entry sets; its name is the last word of the key.
func (e entry) variable() (envsync.Var, error) {
	value, err := e.text()
	if err, ok := errors.AsType[*usageError](err); ok {
		if b, ok := e.value.(bool); ok {
			digit := map[bool]int{true: 1}[b]
			err.hints = []string{fmt.Sprintf(`write %d; or "%v", where a program wants that word`, digit, b)}
		}
		return envsync.Var{}, err
	}
	v := envsync.Var{Name: e.path[len(e.path)-1], Value: value, Origin: e.at.String()}
	_, _, err = envsync.Policy{Set: []envsync.Setting{{Text: v.Name + "=" + value}}}.Build()
	if bad, ok := errors.AsType[*envsync.SettingError](err); ok {
		return v, e.at.errorf("variable %q: %s", envsync.Conceal(v.Name), bad.Msg)
	}
	if strings.Contains(v.Name, "=") {
		return v, e.at.errorf("variable %q: a name cannot have a = in it", envsync.Conceal(v.Name))
	}
	return v, nil
}

// text is the value of an entry that is text; a whole number is as good.
func (e entry) text() (string, error) {
	switch v := e.value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", e.wrong(`text: "..."`)
}

// wrong is the error of a value of the wrong type.
func (e entry) wrong(want string) *usageError {
	return e.at.errorf("%s is %s, and must be %s", envsync.Conceal(e.key()), e.kind(), want)
}

// prefixes reads the key forward.
func (r *configReader) prefixes(e entry) error {
	list, ok := e.value.([]any)
	if !ok {
		return e.wrong(`a list of prefixes of names: ["NCCL_", "UCX_"]`)
	}
	prefixes := []string{}
	for _, v := range list {
		s, ok := v.(string)
		if !ok || !isVariable(s) {
			return e.at.errorf("forward: %v is not the beginning of a variable's name", shownItem(v))
		}
		prefixes = append(prefixes, s)
	}
	r.forward = forwarded{prefixes, e.at.String()}
	return nil
}

func shownItem(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// flag adds a key that stands for the flag f.
func (r *configReader) flag(f flag, e entry) error {
	if f.guarded && r.file.local {
		err := e.at.errorf("%s is not taken from a %s in the current directory", e.key(), localConfig)
		err.hints = []string{"write it into ~/.config/gorun/config.toml, or name this file: --config " + localConfig}
		return err
	}
	values := []any{e.value}
	if list, ok := e.value.([]any); ok && f.value.Type() == listType {
		values = list
	}
	for _, v := range values {
		one := entry{e.path, v, e.at, e.array}
		value, err := one.flagValue(f)
		if err != nil {
			return err
		}
		if f.complete == aFile || f.complete == aDirectory {
			value = f.seenFrom(filepath.Dir(r.file.name), r.home, value)
		}
		last := &r.layers[len(r.layers)-1]
		*last = append(*last, use{name: f.name(), value: value, typed: e.at.errorf("%s", e.key()).msg, origin: e.at.String()})
	}
	return nil
}

// flagValue writes the value as it would be typed for the flag f.
func (e entry) flagValue(f flag) (string, error) {
	kind := f.value.Type()
	switch v := e.value.(type) {
	case bool:
		if kind == "bool" {
			return strconv.FormatBool(v), nil
		}
	case string:
		if kind != "bool" {
			return v, nil
		}
	case int64:
		if kind != "bool" && kind != "string" {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if kind != "bool" && kind != "string" {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	switch kind {
	case "bool":
		return "", e.wrong("true or false, without quotes")
	case "string", listType:
		return "", e.wrong(`text: "..."`)
	case "time.Duration":
		return "", e.wrong(`a time: 60, 1.5, "500ms", "2m"`)
	}
	return "", e.wrong("a number, or text in quotes")
}

// seenFrom is a path of a configuration file as seen from the current directory: it is
// relative to the file's own directory, and ~ is the home directory.
func (f flag) seenFrom(dir, home, path string) string {
	escape := func(s string) string { return s }
	if f.name() == "output-dir" { // a pattern
		escape = func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	}
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		return escape(home) + path[1:]
	case path == "" || dir == "." || filepath.IsAbs(path), f.name() == "ssh-config" && path == "none":
		return path
	}
	return escape(dir) + "/" + path
}
