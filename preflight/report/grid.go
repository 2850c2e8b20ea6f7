package report

import (
	"cmp"
	"slices"
	"strings"

	"gorun/preflight"
)

// row is hosts for which all checks came out the same.
type row struct {
	hosts []string
	cells []preflight.Verdict // of each check
}

// worst is the index in verdicts of the row's worst cell.
func (r row) worst() int {
	worst := len(verdicts)
	for _, v := range r.cells {
		if i := slices.Index(verdicts[:], v); i >= 0 {
			worst = min(worst, i)
		}
	}
	return worst
}

// rows folds hosts, the worst first.
func rows(r preflight.Report) []row {
	var all []row
	at := map[string]int{}
	for _, host := range r.Hosts {
		cells := make([]preflight.Verdict, len(r.Checks))
		var key strings.Builder
		for i, c := range r.Checks {
			cells[i] = cell(c, host)
			key.WriteString(string(cells[i]) + "\x00")
		}
		k, ok := at[key.String()]
		if !ok {
			k = len(all)
			at[key.String()] = k
			all = append(all, row{cells: cells})
		}
		all[k].hosts = append(all[k].hosts, host)
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Compare(a.worst(), b.worst()) })
	return all
}

// cell is how a check came out for one host: what it found of others is no fault of its.
func cell(c preflight.Result, host string) preflight.Verdict {
	if v, ok := c.Hosts[host]; ok {
		return v
	}
	if c.Verdict == preflight.Skipped || len(c.Hosts) == 0 {
		return c.Verdict
	}
	return preflight.OK
}

// wide is how many checks have a column each: of more, those that are well on all hosts
// share one by area, so that the others are not beyond the window's edge.
const wide = 32

// column is a check, or several of one area that are well on all hosts.
type column struct {
	area, name, title string
	checks            []int
}

func columnsOf(checks []preflight.Result) []column {
	var all []column
	good := map[string]int{} // by area: the column that those share that are well
	for i, c := range checks {
		well := len(c.Hosts) == 0 && (c.Verdict == preflight.OK || c.Verdict == preflight.Skipped)
		if len(checks) <= wide || !well {
			all = append(all, column{c.Area, c.ID, c.Title, []int{i}})
			continue
		}
		k, ok := good[c.Area]
		if !ok {
			k = len(all)
			good[c.Area] = k
			all = append(all, column{area: c.Area})
		}
		all[k].checks = append(all[k].checks, i)
	}
	for k, c := range all {
		if len(c.checks) == 1 {
			all[k].name, all[k].title = checks[c.checks[0]].ID, checks[c.checks[0]].Title
		} else {
			all[k].name = c.area + ", " + count(len(c.checks), "check")
			all[k].title = "well on all hosts, or nothing to judge"
		}
	}
	return all
}

// of is how a host's checks in c came out: that of the worst.
func (c column) of(r row) preflight.Verdict {
	for _, v := range verdicts {
		for _, i := range c.checks {
			if r.cells[i] == v {
				return v
			}
		}
	}
	return preflight.Skipped
}

// firstOf is a class for a column that begins an area.
func firstOf(all []column, k int) raw {
	if k > 0 && all[k-1].area != all[k].area {
		return " first"
	}
	return ""
}

func (h *markup) grid(p Page) {
	checks := byArea(p.Report.Checks)
	if len(checks) == 0 || len(p.Report.Hosts) == 0 {
		return
	}
	all, columns := rows(preflight.Report{Hosts: p.Report.Hosts, Checks: checks}), columnsOf(checks)
	h.f("<section id=\"grid\"><h2>Hosts and checks</h2>\n")
	if len(all) < len(p.Report.Hosts) {
		h.f("<p class=\"hint\">Hosts for which every check came out the same share a row.")
		if len(columns) < len(checks) {
			h.f(" Checks of an area that are well on all hosts share a column.")
		}
		h.f("</p>\n")
	}
	h.f(`<div class="grid"><table><thead><tr><th class="corner">%s</th>`, count(len(p.Report.Hosts), "host"))
	for k, c := range columns {
		h.f(`<th class="head%s" title="%s"><span>%s</span></th>`, firstOf(columns, k), cut(c.area+": "+c.title, 200), cut(c.name, 40))
	}
	h.f("</tr></thead><tbody>\n")
	for _, r := range all {
		h.row(r, columns)
	}
	h.f("</tbody></table></div></section>\n")
}

func (h *markup) row(r row, columns []column) {
	h.f(`<tr><th><div>%s`, cut(folded(r.hosts), 300))
	if len(r.hosts) > 1 {
		h.f(` <small>%s</small>`, count(len(r.hosts), "host"))
	}
	h.f(`</div></th>`)
	for k, c := range columns {
		v := c.of(r)
		h.f(`<td class="cell %s%s" title="%s: %s">%s</td>`, class(v), firstOf(columns, k), cut(c.name, 40), label(v), sign(v))
	}
	h.f("</tr>\n")
}
