package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"gorun/preflight"
)

//go:embed style.css
var style string

// HTML writes p as one file that needs nothing else: no script, no other file. It is
// well-formed XML, too, and in memory as a whole before it is written.
func HTML(w io.Writer, p Page) error {
	p = p.concealed()
	h := &markup{}
	h.f(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="generator" content="gorun"/><title>preflight: %s</title>
<style>%s</style></head><body><main>
`, cut(p.headline(), 200), raw(style))
	h.summary(p)
	h.findings(p)
	h.grid(p)
	h.machines(p)
	h.heat("latency", "Latency", "There and back, of the row's host to the column's.", p.Report.Hosts, p.Latency, scale{unit: seconds})
	h.heat("bandwidth", "Bandwidth", "From the row's host to the column's.", p.Report.Hosts, p.Bandwidth, scale{unit: rate, more: true})
	h.layout(p)
	h.checks(p)
	h.f("</main></body></html>\n")
	_, err := io.WriteString(w, h.b.String())
	return err
}

// markup is HTML that has been written so far.
type markup struct{ b strings.Builder }

// raw is text that is HTML already.
type raw string

// f writes a format. Its arguments that are strings are cleaned and escaped, so that no
// text can be more than text; those of type raw are not.
func (h *markup) f(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = html.EscapeString(clean(a))
		case preflight.Verdict:
			args[i] = html.EscapeString(clean(string(a)))
		}
	}
	fmt.Fprintf(&h.b, format, args...)
}

func cut(s string, most int) string { return cleanTo(s, most) }

// class is the CSS class of a verdict.
func class(v preflight.Verdict) raw {
	switch v {
	case preflight.NoCluster, preflight.NoHost:
		return "bad"
	case preflight.Warn:
		return "warn"
	case preflight.Unknown:
		return "unknown"
	case preflight.Info:
		return "info"
	case preflight.OK:
		return "ok"
	}
	return "skip"
}

// sign is a character for a verdict: colours alone are not for everybody.
func sign(v preflight.Verdict) string {
	switch class(v) {
	case "bad":
		return "✕"
	case "warn":
		return "!"
	case "unknown":
		return "?"
	case "info":
		return "i"
	case "ok":
		return "✓"
	}
	return "·"
}

func (h *markup) summary(p Page) {
	d, tone := p.Decision, "bad"
	if d.Go {
		tone = "ok"
	}
	if d.Verdict == preflight.GoWithout {
		tone = "warn"
	}
	h.f(`<header class="verdict %s"><p class="what">preflight%s</p><h1>%s</h1>`, raw(tone), mode(p), cut(p.headline(), 600))
	h.f(`<dl>`)
	h.names("Left out", d.Exclude)
	for _, s := range d.StandIns {
		if s.Host != "" {
			h.f(`<dt>Stands in</dt><dd>%s for %s</dd>`, cut(s.By, 200), cut(s.Host, 200))
		}
	}
	h.names("Idle", d.Idle)
	h.f(`<dt>Hosts</dt><dd>%s: %s</dd>`, count(len(p.Report.Hosts), "host"), folded(p.Report.Hosts))
	if len(p.Command) > 0 {
		h.f(`<dt>Command</dt><dd><code>%s</code></dd>`, strings.Join(p.Command, " "))
	}
	when := ""
	if !p.Generated.IsZero() {
		when = p.Generated.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if p.Took > 0 {
		when += ", took " + seconds(p.Took.Seconds())
	}
	if p.Version != "" {
		when += ", gorun " + p.Version
	}
	if when = strings.TrimPrefix(when, ", "); when != "" {
		h.f(`<dt>When</dt><dd>%s</dd>`, when)
	}
	h.f("</dl></header>\n")
	h.tally(p)
}

func mode(p Page) string {
	if p.Report.Mode == "" {
		return ""
	}
	return ", " + string(p.Report.Mode)
}

func (h *markup) names(what string, names []string) {
	if len(names) > 0 {
		h.f(`<dt>%s</dt><dd>%s</dd>`, what, folded(names))
	}
}

// verdicts are all of them, the worst first.
var verdicts = [...]preflight.Verdict{preflight.NoCluster, preflight.NoHost, preflight.Warn, preflight.Unknown, preflight.Info, preflight.OK, preflight.Skipped}

// tally counts checks by how they came out, and leads to the parts of the page.
func (h *markup) tally(p Page) {
	counts := map[preflight.Verdict]int{}
	for _, c := range p.Report.Checks {
		counts[c.Verdict]++
	}
	h.f(`<p class="tally">`)
	for _, v := range verdicts {
		if counts[v] > 0 {
			h.f(`<span class="badge %s">%s %s: %s</span> `, class(v), sign(v), label(v), count(counts[v], "check"))
		}
	}
	h.f("</p>\n")
}

func (h *markup) findings(p Page) {
	if len(p.Report.Findings) == 0 {
		return
	}
	h.f("<section id=\"findings\"><h2>Findings</h2>\n")
	for _, f := range p.Report.Findings {
		h.f(`<article class="finding %s"><h3><span class="badge %s">%s %s</span> %s <small>%s</small></h3>`,
			class(f.Verdict), class(f.Verdict), sign(f.Verdict), label(f.Verdict), f.Title, cut(f.Check, 100))
		if len(f.Hosts) > 1 || len(f.Hosts) == 1 && !strings.Contains(f.Title, f.Hosts[0]) {
			h.f(`<p class="on">on %s</p>`, folded(f.Hosts))
		}
		h.evidence(f.Evidence)
		if f.Remedy != "" {
			h.f(`<p class="remedy"><b>Remedy</b> %s</p>`, f.Remedy)
		}
		h.f("</article>\n")
	}
	h.f("</section>\n")
}

// evidence writes lines, the many behind something to click.
func (h *markup) evidence(lines []string) {
	const open = 12
	if len(lines) == 0 {
		return
	}
	if len(lines) > open {
		h.f(`<details><summary>%s of evidence</summary>`, count(len(lines), "line"))
		defer h.f(`</details>`)
	}
	h.f(`<pre>`)
	for _, line := range lines {
		h.f("%s\n", line)
	}
	h.f(`</pre>`)
}

func (h *markup) layout(p Page) {
	if len(p.Layout) == 0 && len(p.Remarks) == 0 {
		return
	}
	h.f("<section id=\"layout\"><h2>Layout</h2>\n")
	for _, line := range p.Remarks {
		h.f(`<p>%s</p>`, line)
	}
	h.f(`<ul class="layout">`)
	for _, place := range p.Layout {
		h.f(`<li><b>%s</b> <span>%s</span></li>`, cut(place.Host, 80), ranks(place.Ranks))
	}
	h.f("</ul></section>\n")
}

// checks lists all checks with what they have to say.
func (h *markup) checks(p Page) {
	if len(p.Report.Checks) == 0 {
		return
	}
	h.f("<section id=\"checks\"><h2>Checks</h2>\n<div class=\"wide\"><table class=\"checks\"><thead><tr><th>Area</th><th>Check</th><th></th><th>What is asked</th><th>Answer</th></tr></thead><tbody>\n")
	area, said := "", map[string]string{}
	for _, f := range p.Report.Findings {
		if said[f.Check] == "" {
			said[f.Check] = f.Title
		}
	}
	for _, c := range byArea(p.Report.Checks) {
		name := ""
		if c.Area != area {
			name, area = c.Area, c.Area
		}
		answer := c.Text
		if answer == "" && c.Verdict != preflight.OK {
			answer = cmp.Or(said[c.ID], label(c.Verdict))
		}
		h.f(`<tr><td>%s</td><td><code>%s</code></td><td class="cell %s" title="%s">%s</td><td>%s</td><td>%s</td></tr>`+"\n",
			cut(name, 20), cut(c.ID, 40), class(c.Verdict), label(c.Verdict), sign(c.Verdict), cut(c.Title, 300), cut(answer, 300))
	}
	h.f("</tbody></table></div></section>\n")
}
