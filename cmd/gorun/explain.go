package main

import (
	"fmt"
	"strings"

	"gorun/preflight"
)

// explanation says what a check means, or lists all.
func explanation(id string) (string, error) {
	checks := preflight.Checks()
	var b strings.Builder
	if id == "list" {
		area := ""
		for _, c := range checks {
			if c.Area != area {
				area = c.Area
				fmt.Fprintf(&b, "%s\n", area)
			}
			fmt.Fprintf(&b, "  %-24s %s\n", c.ID, c.Title)
		}
		return b.String(), nil
	}
	var ids []string
	for _, c := range checks {
		if c.ID != id {
			ids = append(ids, c.ID)
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", c.ID, c.Title)
		if c.Full {
			b.WriteString("(only with --preflight full)\n")
		}
		for paragraph := range strings.SplitSeq(c.Explain, "\n\n") {
			fmt.Fprintf(&b, "\n%s\n", wrap(paragraph, 78))
		}
		return b.String(), nil
	}
	e := &usageError{fmt.Sprintf("--explain: there is no check %q", id), []string{"gorun --explain list lists the checks"}}
	if near := nearest(id, ids); near != "" {
		e.hints = []string{"did you mean " + near + "?"}
	}
	return "", e
}

// wrap breaks text into lines of at most width columns, where words let it.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}

// explain prints what --explain asks for.
func (c *command) explain(o options) int {
	text, err := explanation(o.preflight.explain)
	if err != nil {
		return c.fail(err, o)
	}
	return c.show(text)
}
