package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
)

// surveyor judges what the hosts of a job have told.
type surveyor struct {
	o     options
	job   launcher.Job
	asked bool // by a flag, or the configuration
	quiet bool // a job that can run is not told of warnings
	now   func() time.Time
}

// verdictError ends a job, or what --preflight-only did, by what preflight has found.
type verdictError struct {
	page    page
	only    bool    // --preflight-only
	trouble []error // with files that were to be written
}

func (e *verdictError) Error() string { return "preflight: " + e.page.decision.Headline() }

// examine has the hosts of job looked at, if o asks for that.
func (o options) examine(job *launcher.Job) error {
	mode := o.preflight.wanted(len(job.Hosts) > 0)
	asked := o.preflight.asked()
	o.preflight.mode = mode
	if mode == preflight.Off {
		return nil
	}
	if err := o.preflight.checkCounts(max(len(job.Hosts), 1)); err != nil {
		return err
	}
	all, some, err := o.orders(*job)
	if err != nil {
		return err
	}
	s := &surveyor{o: o, job: *job, asked: asked, quiet: !asked && !o.verbose, now: time.Now}
	p := o.preflight
	job.Preflight = &launcher.Preflight{
		Full: mode == preflight.Full, Order: all, Orders: some, Only: p.only, Drop: p.drops() || p.spares > 0,
		Rails: s.rails, Judge: s.judge,
	}
	return nil
}

// checkCounts finds flags that n hosts cannot meet, though all be good.
func (p *preflightOptions) checkCounts(n int) error {
	switch {
	case p.minHosts > n:
		return &usageError{fmt.Sprintf("--min-hosts %d: there %s", p.minHosts, areHosts(n)), nil}
	case p.spares >= n:
		return &usageError{fmt.Sprintf("--spares %d: there %s, and no other would be left", p.spares, areHosts(n)), nil}
	case p.minHosts > n-p.spares:
		return &usageError{fmt.Sprintf("--min-hosts %d: there %s, of which --spares %d keeps some in reserve", p.minHosts, areHosts(n), p.spares), nil}
	}
	return nil
}

func areHosts(n int) string {
	if n == 1 {
		return "is 1 host"
	}
	return fmt.Sprintf("are %d hosts", n)
}

// rails is the launcher's Rails.
func (s *surveyor) rails(survey launcher.Survey) [][]launcher.RailOrder {
	in := preflight.Input{Mode: preflight.Full}
	for _, told := range survey.Hosts {
		in.Hosts = append(in.Hosts, toldBy(told))
	}
	var rounds [][]launcher.RailOrder
	for _, round := range preflight.PlanTraffic(in) {
		var orders []launcher.RailOrder
		for _, x := range round {
			if text, err := json.Marshal(x.Rails); err == nil {
				orders = append(orders, launcher.RailOrder{From: x.From, To: x.To, Rails: text})
			}
		}
		rounds = append(rounds, orders)
	}
	return rounds
}

// judge is the launcher's Judge.
func (s *surveyor) judge(_ context.Context, survey launcher.Survey) (launcher.Ruling, error) {
	p := s.o.preflight
	plan, err := s.plan(survey)
	if err != nil {
		return launcher.Ruling{}, err
	}
	in := s.o.input(survey, s.job, plan)
	if !p.only && !p.drops() && p.spares == 0 {
		in.Skip = launchersOwn(s.asked)
	}
	pg := judged(in, plan.shape)
	pg.taken, pg.took, pg.command = s.now(), survey.Took, s.o.typed
	a, err := s.arrange(pg, assumed(survey))
	pg.places, pg.remarks = a.places, a.remarks
	if err != nil && (p.only || is(errors.AsType[*launcher.SlotsError](err))) {
		pg.decision, err = unplaced(pg.decision, err), nil
	}
	if p.only {
		pg.decision = undecided(pg.decision, survey)
	}
	trouble := pg.write(p)
	switch {
	case p.only || !pg.decision.Go:
		return launcher.Ruling{}, &verdictError{page: pg, only: p.only, trouble: trouble}
	case err != nil:
		return launcher.Ruling{}, err
	}
	r := a.ruling
	for _, text := range trouble {
		r.Warnings = append(r.Warnings, text.Error())
	}
	if s.o.verbose {
		r.Notes = slices.Concat(pg.brief(), r.Notes)
	}
	return r, nil
}

// launchersOwn are the checks of what a launch finds out by itself before any rank is
// started, and tells with more detail, and an exit code of its own. A launch finds a /tmp
// that cannot be written, but not one with little room, which whoever asked wants to know.
func launchersOwn(asked bool) []string {
	own := []string{"host-identity", "program", "work-dir"}
	if !asked {
		own = append(own, "tmp")
	}
	return own
}

// unplaced is d when its ranks find no place on its hosts for the reason that err is: what
// the hosts have in all says nothing of programs that may use some of them only.
func unplaced(d preflight.Decision, err error) preflight.Decision {
	d.Go, d.Verdict, d.Code = false, preflight.NoGo, noGoCode
	d.Reason = "the ranks cannot be placed: " + err.Error()
	if e, ok := errors.AsType[*launcher.SlotsError](err); ok && len(d.Exclude) > 0 {
		what := "the ranks"
		if e.Program != "" {
			what = shellQuote(envsync.Conceal(e.Program))
		}
		d.Reason = fmt.Sprintf("%s cannot run without %s: %s", what, hostfile.Fold(d.Exclude), err)
	}
	d.Use, d.Slots, d.StandIns, d.Idle, d.Ranks = nil, nil, nil, nil, 0
	return d
}

// undecided is d when a job on its hosts would not start for their NCCL settings, which
// it tells by itself, as it is the launch that compares them.
func undecided(d preflight.Decision, survey launcher.Survey) preflight.Decision {
	if survey.Differ == nil || len(d.Use) == 0 {
		return d
	}
	var use []int
	for i, h := range survey.Hosts {
		if h.Err == nil && slices.Contains(d.Use, h.Name) {
			use = append(use, i)
		}
	}
	err := survey.Differ(use)
	if err == nil {
		return d
	}
	d.Go, d.Verdict, d.Code = false, preflight.NoGo, noGoCode
	d.Reason = err.Error() + ", and must be equal"
	if e, ok := errors.AsType[*launcher.SettingsError](err); ok {
		d.Reason += ": " + settingsByHost(e)
	}
	d.Reason = shorten(d.Reason) + "; -x decides"
	d.Use, d.Slots, d.StandIns, d.Idle, d.Ranks = nil, nil, nil, nil, 0
	return d
}

// settingsByHost says in one line what hosts have: "NCCL_ALGO is Ring on b, not set on a".
func settingsByHost(e *launcher.SettingsError) string {
	var all []string
	for _, d := range e.Differences {
		var values []string
		for _, v := range d.Values {
			values = append(values, v.Text+" on "+v.Hosts)
		}
		all = append(all, d.Name+" is "+strings.Join(values, ", "))
	}
	return strings.Join(all, "; ")
}

// ruling says on which hosts the job goes on.
func (s *surveyor) ruling(pg page) launcher.Ruling {
	var r launcher.Ruling
	d := pg.decision
	for k, name := range d.Use {
		i := slices.IndexFunc(pg.in.Hosts, func(h preflight.Host) bool { return h.Name == name })
		r.Use = append(r.Use, i)
		most := 0 // as it offers
		if k < len(d.Slots) && slices.ContainsFunc(d.StandIns, func(swap preflight.Swap) bool { return swap.By == name }) {
			most = d.Slots[k]
		}
		r.Slots = append(r.Slots, most)
	}
	if len(s.job.Apps) == 1 && s.job.Apps[0].NP > 0 && d.Ranks != s.job.Apps[0].NP {
		r.NP = []int{d.Ranks}
	}
	if d.Verdict == preflight.GoWithout || len(d.BadSpares) > 0 || len(d.StandIns) > 0 {
		r.Warnings = append(r.Warnings, "preflight: "+d.Headline())
		for _, f := range pg.report.Findings {
			if f.Verdict == preflight.NoHost && slices.ContainsFunc(f.Hosts, func(h string) bool { return slices.Contains(d.Exclude, h) }) {
				r.Warnings = append(r.Warnings, "preflight: left out: "+f.Title)
			}
		}
	}
	if !s.quiet && !s.o.verbose { // -v shows all findings
		r.Warnings = append(r.Warnings, warnings(pg.report)...)
	}
	return r
}

// warnings are what a job that goes on should know, as lines.
func warnings(r preflight.Report) []string {
	const most = 5
	var lines []string
	for _, f := range r.Findings {
		if f.Verdict == preflight.Warn {
			lines = append(lines, "preflight: "+f.Title)
		}
	}
	if more := len(lines) - most; more > 1 {
		lines = append(lines[:most:most], fmt.Sprintf("preflight: and %d more warnings, which --preflight-only shows", more))
	}
	return lines
}

// plan is what the job would do if all hosts were good.
type plan struct {
	ranks []int // on each host of the survey
	near  int   // so many ranks that follow each other should be nearest
	shape preflight.Shape
}

// plan lays the job out over the hosts without the spares. The error is that the job does
// not fit on the hosts that there are. If none was reached, nothing is known of that.
func (s *surveyor) plan(survey launcher.Survey) (plan, error) {
	p := s.o.preflight
	n := len(survey.Hosts)
	out := plan{ranks: make([]int, n), near: 1}
	out.shape = preflight.Shape{
		Drop: p.drops(), Spares: p.spares, MinHosts: p.minHosts, Slots: make([]int, n), Ranks: out.ranks,
	}
	if s.o.ranks() > 0 {
		out.shape.Fixed = s.o.ranks()
	}
	if len(s.job.Apps) > 1 { // how to make several programs smaller nobody has said
		out.shape.Multiple = out.shape.Fixed
	}
	if s.job.Mesh != nil {
		out.shape.Multiple = s.job.Mesh.Multiple()
	}
	offers := assumed(survey)
	for i, o := range offers {
		out.shape.Slots[i] = s.slots(o)
	}
	if !slices.ContainsFunc(survey.Hosts, func(h launcher.Surveyed) bool { return h.Err == nil }) {
		return out, nil
	}
	if len(s.job.Apps) == 0 || len(s.job.Apps[0].Args) == 0 && s.o.np == 0 && s.job.Mesh == nil {
		for i := range n - p.spares {
			out.ranks[i] = out.shape.Slots[i]
		}
		return out, nil
	}
	layout, err := s.job.Place(offers[:n-min(p.spares, n-1)])
	if err != nil {
		return out, err
	}
	copy(out.ranks, layout.Count)
	out.near = nearRanks(layout.Mesh)
	return out, nil
}

// assumed are the hosts' offers; one that was not reached is taken to offer what its list
// says or, if that is nothing, as much as the first that was and offers anything.
func assumed(survey launcher.Survey) []launcher.Offer {
	var offers []launcher.Offer
	like := slices.IndexFunc(survey.Hosts, func(h launcher.Surveyed) bool { return h.Err == nil && h.Offer.Slots > 0 })
	for _, h := range survey.Hosts {
		o := h.Offer
		if o.Slots < 0 { // the host alone knows
			o.Slots, o.Limit = 0, 0
			if like >= 0 {
				o.Slots, o.Limit = survey.Hosts[like].Offer.Slots, survey.Hosts[like].Offer.Limit
			}
			if o.Max > 0 {
				o.Slots, o.Limit = min(o.Slots, o.Max), min(o.Limit, o.Max)
			}
		}
		offers = append(offers, o)
	}
	return offers
}

// slots is how many ranks may be placed on a host that offers o, as the launcher does it.
func (s *surveyor) slots(o launcher.Offer) int {
	limit := o.Limit
	if s.job.Oversubscribe {
		limit = cmp.Or(o.Max, launcher.MaxRanks)
	}
	named := s.o.ranks()
	switch {
	case o.Slots <= 0:
		return 0
	case s.job.PerHost > 0:
		return min(s.job.PerHost*max(len(s.job.Apps), 1), limit)
	case named > 0 && s.job.Oversubscribe:
		return min(named, limit)
	case named > 0:
		return limit
	}
	return o.Slots
}
