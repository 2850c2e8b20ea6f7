package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/probe"
	render "gorun/preflight/report"
)

// page is what was found out, and what follows from it.
type page struct {
	in       preflight.Input
	shape    preflight.Shape
	report   preflight.Report
	decision preflight.Decision
	places   []render.Place // where ranks run; nil: not laid out
	remarks  []string       // on that
	taken    time.Time
	took     time.Duration
	command  []string
}

func judged(in preflight.Input, shape preflight.Shape) page {
	p := page{in: in, shape: shape}
	p.report, p.decision = render.Conceal(preflight.Settle(in, shape))
	return p
}

// rendered is p for package report.
func (p page) rendered() render.Page {
	r := render.Page{
		Report: p.report, Decision: p.decision, Took: p.took,
		Remarks: p.remarks, Generated: p.taken, Command: p.command, Version: ownVersion(),
	}
	const most = 2048 // hosts: a matrix of more nobody reads, and it would fill the memory
	results := make([]probe.Result, len(p.in.Hosts))
	for i, h := range p.in.Hosts {
		results[i] = probe.Result{From: i, Links: h.Links}
		if h.Unreached == "" {
			h.Facts.Name = h.Name
			r.Hosts = append(r.Hosts, h.Facts)
		}
	}
	if p.in.Mode == preflight.Full && len(results) <= most {
		m := probe.Gather(len(results), results)
		r.Bandwidth = m.BytesPerSecond
		for _, row := range m.Latency {
			seconds := make([]float64, len(row))
			for j, d := range row {
				seconds[j] = d.Seconds()
			}
			r.Latency = append(r.Latency, seconds)
		}
	}
	if r.Layout = p.places; r.Layout == nil {
		r.Layout = p.layout()
	}
	return r
}

// layout is which ranks the hosts get that the decision names, as far as that can be told
// without the job.
func (p page) layout() []render.Place {
	if p.decision.Ranks > launcher.MaxRanks { // no job has so many
		return nil
	}
	var places []render.Place
	next := 0
	for i, host := range p.decision.Use {
		if i >= len(p.decision.Slots) {
			break
		}
		n := min(p.decision.Slots[i], p.decision.Ranks-next)
		place := render.Place{Host: host}
		for range n {
			place.Ranks = append(place.Ranks, next)
			next++
		}
		if n > 0 {
			places = append(places, place)
		}
	}
	return places
}

// write writes the files that o asks for.
func (p page) write(o preflightOptions) (errs []error) {
	if o.save != "" {
		if err := saveFacts(o.save, p); err != nil {
			errs = append(errs, fmt.Errorf("the facts could not be written: %w", err))
		}
	}
	if o.html != "" {
		var text bytes.Buffer
		err := render.HTML(&text, p.rendered())
		if err == nil {
			err = writeFile(o.html, text.Bytes())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the page could not be written: %w", err))
		}
	}
	return errs
}

// brief is p in some lines, for a job that goes on.
func (p page) brief() (lines []string) {
	var b strings.Builder
	render.Text(&b, p.rendered(), render.TextOptions{Brief: true}) // a Builder takes all
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimRight(line, "\n "); line != "" {
			lines = append(lines, "preflight: "+line)
		}
	}
	return lines
}

// print prints p for people, or as JSON.
func (p page) print(w io.Writer, o options, color bool, width int) error {
	if o.preflight.json {
		return render.JSON(w, p.rendered())
	}
	return render.Text(w, p.rendered(), render.TextOptions{Color: color, Width: width, Verbose: o.verbose})
}

// writeFile writes data to name so that a reader sees the old file or the whole new one;
// into pipes and devices as into any stream.
func writeFile(name string, data []byte) error {
	if isStream(name) {
		return writeInto(name, data)
	}
	path, err := target(name)
	if err != nil {
		return err
	}
	return replace(path, data)
}
