package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gorun/preflight"
)

// TextOptions say how Text writes.
type TextOptions struct {
	Color   bool // with colours of a terminal
	Width   int  // columns of a line; 0: lines are not broken
	Brief   bool // only what was found, and the headline
	Verbose bool // also checks that had nothing to judge, all lines of evidence, the whole layout
}

// How much of a list is shown unless all of it is asked for.
const (
	evidenceLines = 6
	layoutLines   = 12
)

// Text writes p for people: a line for each check that is well, then what was found, the
// worst first, then the decision, whose headline is the last line.
func Text(w io.Writer, p Page, o TextOptions) error {
	p = p.concealed()
	t := &text{TextOptions: o}
	if !o.Brief {
		t.checks(p.Report.Checks)
	}
	for _, f := range p.Report.Findings {
		t.finding(f)
	}
	t.decision(p)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// text is what has been written so far.
type text struct {
	TextOptions
	b strings.Builder
}

// Colours, by SGR.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
	faint  = "2"
)

func colour(v preflight.Verdict) string {
	switch v {
	case preflight.NoCluster, preflight.NoHost:
		return red
	case preflight.Warn, preflight.Unknown:
		return yellow
	case preflight.OK:
		return green
	case preflight.Skipped:
		return faint
	}
	return cyan
}

func (t *text) paint(sgr, s string) string {
	if !t.Color || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}

// line writes body behind head, which takes indent columns, and breaks it between words.
func (t *text) line(head string, indent int, body, sgr string) {
	margin := strings.Repeat(" ", indent)
	for i, part := range wrap(body, t.Width-indent) {
		if i == 0 {
			t.b.WriteString(head + strings.Repeat(" ", max(0, indent-columns(head))))
		} else {
			t.b.WriteString(margin)
		}
		if sgr != "" {
			part = t.paint(sgr, part)
		}
		t.b.WriteString(part + "\n")
	}
}

// columns counts characters but for colours.
func columns(s string) (n int) {
	for s != "" {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			_, s, _ = strings.Cut(rest, "m")
			continue
		}
		_, size := utf8.DecodeRuneInString(s)
		s, n = s[size:], n+1
	}
	return n
}

// wrap breaks s between words into parts of so many characters; a word that is longer
// stays whole.
func wrap(s string, width int) []string {
	if width < 20 || utf8.RuneCountInString(s) <= width {
		return []string{s}
	}
	var parts []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
			line, used = word, n
		case used+1+n > width:
			parts = append(parts, line)
			line, used = word, n
		default:
			line, used = line+" "+word, used+1+n
		}
	}
	return append(parts, line)
}

// checks writes the checks that are well, by area, and counts the others.
func (t *text) checks(all []preflight.Result) {
	skipped, area := 0, ""
	for _, c := range byArea(all) {
		if c.Verdict == preflight.Skipped && !t.Verbose {
			skipped++
			continue
		}
		if c.Verdict != preflight.OK && c.Verdict != preflight.Skipped {
			continue
		}
		head := fmt.Sprintf("%-10s", "")
		if c.Area != area {
			head, area = t.paint(bold, fmt.Sprintf("%-10s", clean(c.Area))), c.Area
		}
		body := clean(c.Title)
		if c.Text != "" {
			body += ": " + clean(c.Text)
		}
		word := fmt.Sprintf("%-9s", label(c.Verdict))
		t.line(head+t.paint(colour(c.Verdict), word), 19, body, "")
	}
	if skipped > 0 {
		t.line("", 10, fmt.Sprintf("%s skipped: there is nothing to judge (-v shows why)", count(skipped, "check")), faint)
	}
}

// byArea brings the checks of an area together, in the order of the areas' first checks.
func byArea(all []preflight.Result) []preflight.Result {
	var areas []string
	for _, c := range all {
		if !slices.Contains(areas, c.Area) {
			areas = append(areas, c.Area)
		}
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b preflight.Result) int {
		return slices.Index(areas, a.Area) - slices.Index(areas, b.Area)
	})
	return all
}

func (t *text) finding(f preflight.Finding) {
	t.gap()
	title := clean(f.Title)
	t.line(t.paint(colour(f.Verdict), fmt.Sprintf("%-10s", label(f.Verdict))), 10, fmt.Sprintf("%s [%s]", title, clean(f.Check)), bold)
	hosts := folded(f.Hosts)
	named := strings.Contains(title, hosts) || strings.Contains(title, strings.ReplaceAll(hosts, ", ", ","))
	if len(f.Hosts) > 0 && !named {
		t.line("", 10, "on "+hosts, "")
	}
	lines := f.Evidence
	if !t.Verbose && len(lines) > evidenceLines+1 {
		lines = lines[:evidenceLines]
	}
	for _, line := range lines {
		t.line("", 12, clean(line), faint)
	}
	if more := len(f.Evidence) - len(lines); more > 0 {
		t.line("", 12, fmt.Sprintf("and %s (-v shows them)", count(more, "more line")), faint)
	}
	if f.Remedy != "" {
		t.line("", 10, "remedy: "+clean(f.Remedy), cyan)
	}
}

// gap writes an empty line if something stands before.
func (t *text) gap() {
	if t.b.Len() > 0 {
		t.b.WriteByte('\n')
	}
}

func (t *text) decision(p Page) {
	t.gap()
	d := p.Decision
	if !t.Brief {
		t.change(p)
	}
	sgr := green
	if !d.Go {
		sgr = red
	}
	t.b.WriteString(t.paint(bold+";"+sgr, p.headline()) + "\n")
}

// change says in what the job differs from the one that was asked for.
func (t *text) change(p Page) {
	d := p.Decision
	if d.Go {
		t.named("left out", d.Exclude)
	}
	for _, s := range d.StandIns {
		if s.Host != "" {
			t.line("stands in", 10, clean(s.By)+" for "+clean(s.Host), "")
		}
	}
	if t.Verbose || d.Verdict != preflight.Go {
		t.named("idle", d.Idle)
	}
	if d.Verdict == preflight.GoWithout || t.Verbose {
		t.layout(p)
	} else {
		t.remarks("layout", p)
	}
	if t.Verbose {
		t.speed("latency", p.Report.Hosts, p.Latency, seconds)
		t.speed("bandwidth", p.Report.Hosts, p.Bandwidth, rate)
	}
}

func (t *text) named(what string, names []string) {
	if len(names) > 0 {
		t.line(what, 10, folded(names), "")
	}
}

func (t *text) layout(p Page) {
	head := "layout"
	for i, place := range p.Layout {
		if left := len(p.Layout) - i; i >= layoutLines && left > 1 && !t.Verbose {
			t.line("", 10, fmt.Sprintf("and %s", count(left, "more host")), "")
			break
		}
		t.line(head, 10, clean(place.Host)+": "+ranks(place.Ranks), "")
		head = ""
	}
	t.remarks(head, p)
}

// remarks writes what is said of the layout, below head if that has not been written.
func (t *text) remarks(head string, p Page) {
	for _, line := range p.Remarks {
		t.line(head, 10, clean(line), "")
		head = ""
	}
}

// ranks writes "rank 3", "ranks 0-7".
func ranks(numbers []int) string {
	switch len(numbers) {
	case 0:
		return "no ranks"
	case 1:
		return "rank " + ranges(numbers)
	}
	return "ranks " + ranges(numbers)
}

func (t *text) speed(what string, hosts []string, m [][]float64, unit func(float64) string) {
	s, ok := spread(m)
	if !ok {
		return
	}
	pair := func(at [2]int) string { return clean(nth(hosts, at[0])) + " to " + clean(nth(hosts, at[1])) }
	t.line(what, 10, fmt.Sprintf("median %s, least %s (%s), most %s (%s)", unit(s.median), unit(s.least), pair(s.leastAt), unit(s.most), pair(s.mostAt)), "")
}
