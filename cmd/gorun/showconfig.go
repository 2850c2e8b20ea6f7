package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"gorun/envsync"
)

// showConfiguration is what --show-config prints: every key with its value and where
// that comes from, as a configuration file. Secrets are hidden.
func (o *options) showConfiguration() string {
	var b strings.Builder
	for _, f := range o.config.files {
		state := "not there"
		if f.read {
			state = "read"
		}
		fmt.Fprintf(&b, "# %s: %s\n", f.name, state)
	}
	if len(o.config.files) == 0 {
		b.WriteString("# no configuration file is read\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range o.rows() {
		if f.key == "" {
			continue
		}
		if values, origin := o.valuesOf(f); values != nil {
			fmt.Fprintf(t, "%s = %s\t# %s\n", f.key, tomlValue(f, values), origin)
		} else {
			fmt.Fprintf(t, "# %s\t# not set\n", f.key)
		}
	}
	o.config.show(t)
	t.Flush()
	return b.String()
}

// tellConfig warns of variables that may be meant for gorun, and says with -v which files
// were read.
func (c *command) tellConfig(o options) {
	for _, text := range o.config.unknown {
		c.console.warn(text)
	}
	for _, f := range o.config.files {
		if f.read {
			logger(o.verbose, &c.console).Info("configuration read", "file", f.name)
		}
	}
}

// valuesOf returns what counts for f, as it may be typed, and its origin; none if
// nothing is set and nothing stands for that.
func (o *options) valuesOf(f flag) (values []string, origin string) {
	for _, u := range o.said[f.name()] {
		values, origin = append(values, u.value), u.origin
	}
	if usual := f.value.String(); values == nil && f.value.Set(usual) == nil {
		return []string{usual}, "default"
	}
	return values, origin
}

// tomlValue writes a flag's values as TOML has it.
func tomlValue(f flag, values []string) string {
	kind, value := f.value.Type(), values[0]
	if kind == listType {
		return tomlList(values)
	}
	if b, err := strconv.ParseBool(value); err == nil && kind == "bool" {
		return strconv.FormatBool(b)
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && kind != "string" {
		return strconv.FormatInt(n, 10)
	}
	return tomlString(value)
}

func tomlList(values []string) string {
	var list []string
	for _, v := range values {
		list = append(list, tomlString(v))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// show writes what no flag stands for.
func (conf *config) show(t *tabwriter.Writer) {
	prefixes, origin := conf.forward.prefixes, conf.forward.origin
	if prefixes == nil {
		prefixes, origin = envsync.DefaultForward(), "default"
	}
	fmt.Fprintf(t, "forward = %s\t# %s\n", tomlList(prefixes), origin)
	conf.showThresholds(t)
	last := map[string]int{}
	for i, s := range conf.env {
		name, _, _ := strings.Cut(s.Text, "=")
		last[name] = i
	}
	for i, s := range conf.env {
		name, value, _ := strings.Cut(s.Text, "=")
		if envsync.Hidden(name) {
			value = "<hidden>"
		}
		if last[name] == i {
			fmt.Fprintf(t, "env.%s = %s\t# %s\n", name, tomlString(value), s.Flag)
		}
	}
	for i, h := range conf.hosts {
		if i == 0 {
			fmt.Fprintln(t, "host = [")
		}
		fmt.Fprintf(t, "  %s,\t# %s\n", h.show(), h.at)
		if i == len(conf.hosts)-1 {
			fmt.Fprintln(t, "]")
		}
	}
}

// tomlString writes s as a TOML string, with whatever disturbs a line escaped.
func tomlString(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}
