package main

import (
	"context"
	"errors"
	"syscall"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
)

// code is the exit code for e.
func (e *verdictError) code() int {
	switch code := e.page.decision.Code; {
	case e.only && code == 0 && len(e.trouble) > 0:
		return exitTrouble
	case e.only, code == exitUsage:
		return code
	}
	return exitTrouble
}

// verdictReport says why a job was not started. With --preflight-only all has been printed
// but trouble with files.
func verdictReport(e *verdictError, o options) report {
	var r report
	if !e.only {
		r = noGoReport(e.page, o)
	}
	for _, err := range e.trouble {
		r.linef("%v", err)
	}
	return r
}

// noGoReport says what stands in a job's way, and how it can be started without some hosts.
func noGoReport(p page, o options) report {
	var r report
	d := p.decision
	r.linef("preflight: %s; nothing was started", d.Headline())
	shown, more := 0, 0
	for _, f := range p.report.Findings {
		if f.Verdict != preflight.NoCluster && f.Verdict != preflight.NoHost && !(o.preflight.strict && f.Verdict == preflight.Unknown) {
			continue
		}
		if shown == mostFindings {
			more++
			continue
		}
		shown++
		r.finding(f)
	}
	if more > 0 {
		r.linef("  and %s more", plural(more, "finding"))
	}
	if d.Verdict == preflight.NoGoUnless {
		r.hintf("--drop-bad goes on without %s", hostfile.Fold(d.Exclude))
	}
	if p := o.preflight; !p.drops() && p.spares == 0 && !p.strict {
		r.hintf("--preflight off starts the job all the same")
	}
	if shown > 0 {
		r.hintf("--preflight-only shows all that was found; --explain %s says what that means", p.report.Findings[0].Check)
	}
	return r
}

// noGoCode is the exit code of --preflight-only for a no-go.
const noGoCode = 3

// mostFindings is how many findings a line is given to where a job is not started.
const mostFindings = 10

// finding adds what a check has found.
func (r *report) finding(f preflight.Finding) {
	const most = 6
	r.linef("  %s (%s)", shorten(f.Title), f.Check)
	for i, line := range f.Evidence {
		if i == most && len(f.Evidence) > most+1 {
			r.linef("    and %d more lines", len(f.Evidence)-most)
			break
		}
		r.linef("    %s", shorten(line))
	}
	if f.Remedy != "" {
		r.linef("    remedy: %s", shorten(f.Remedy))
	}
}

// survey runs a job and, with --preflight-only, prints what was found.
func (c *command) survey(ctx context.Context, o options) (*launcher.Result, error) {
	res, err := c.job(ctx, o)
	if e, ok := errors.AsType[*verdictError](err); ok && e.only && (res == nil || res.Signal == 0) {
		switch trouble := c.tell(e.page, o); {
		case errors.Is(trouble, syscall.EPIPE) && res != nil:
			res.StdoutClosed = true
			return res, nil
		case trouble != nil:
			return res, trouble
		}
	}
	return res, err
}

// judgeAgain judges saved facts, and prints what is found.
func (c *command) judgeAgain(o options) error {
	p, err := o.judgeSaved()
	if err != nil {
		return err
	}
	e := &verdictError{page: p, only: true, trouble: p.write(o.preflight)}
	if err := c.tell(p, o); err != nil {
		return err
	}
	return e
}

// tell prints p on the standard output.
func (c *command) tell(p page, o options) error {
	width := 0
	terminal := isTerminal(c.stdout)
	return p.print(c.stdout, o, wantColor(c.env, terminal), width)
}
