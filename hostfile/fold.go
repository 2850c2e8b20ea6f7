package hostfile

import (
	"fmt"
	"strconv"
	"strings"
)

// Fold writes names as Expand reads them, the runs of numbers at their ends in brackets:
// "gpu[01-03,07],login". The names keep their order but for what is joined with one before.
func Fold(names []string) string {
	var groups []*run
	by := map[run]*run{} // by prefix and width
	for _, name := range names {
		digits := len(name) - len(strings.TrimRight(name, "0123456789"))
		prefix, number := name[:len(name)-digits], name[len(name)-digits:]
		n, err := strconv.Atoi(number)
		if err != nil || strings.ContainsAny(prefix, "[]") || digits > 9 {
			groups = append(groups, &run{prefix: name})
			continue
		}
		width := digits
		if number[0] != '0' {
			width = 0 // "9" and "10" are one run, "09" and "10" another
		}
		key := run{prefix: prefix, width: width}
		g, ok := by[key]
		if !ok && width == 0 {
			padded := run{prefix: prefix, width: digits} // of "08" and "09" before it
			g, ok = by[padded]
		}
		if !ok {
			g = &run{prefix: prefix, width: width}
			by[key] = g
			groups = append(groups, g)
		}
		g.add(n)
	}
	parts := make([]string, len(groups))
	for i, g := range groups {
		parts[i] = g.text()
	}
	return strings.Join(parts, ",")
}

// run is names that differ in the number at their end.
type run struct {
	prefix string
	width  int // digits of each number, with zeros before; 0: as many as it has
	spans  *[][2]int
}

func (g *run) add(n int) {
	if g.spans == nil {
		g.spans = new([][2]int)
	}
	spans := *g.spans
	if last := len(spans) - 1; last >= 0 && spans[last][1]+1 == n {
		spans[last][1] = n
		return
	}
	*g.spans = append(spans, [2]int{n, n})
}

func (g *run) text() string {
	if g.spans == nil {
		return g.prefix
	}
	var parts []string
	for _, s := range *g.spans {
		part := fmt.Sprintf("%0*d", g.width, s[0])
		if s[1] > s[0] {
			part += fmt.Sprintf("-%0*d", g.width, s[1])
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 && !strings.Contains(parts[0], "-") {
		return g.prefix + parts[0]
	}
	return g.prefix + "[" + strings.Join(parts, ",") + "]"
}
