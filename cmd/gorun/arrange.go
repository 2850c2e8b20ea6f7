package main

import (
	"fmt"
	"slices"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/facts"
	render "gorun/preflight/report"
)

// arrangement is how a job goes on after a preflight.
type arrangement struct {
	ruling  launcher.Ruling
	places  []render.Place // nil: the ranks could not be laid out
	remarks []string       // on the layout, for the report
}

// arrange lays the job out over the hosts of the decision, as the launcher will, and gives its
// ranks their GPUs. The error is a *launcher.SlotsError, *launcher.MeshError or *usageError; the
// report can be shown nevertheless.
func (s *surveyor) arrange(pg page, offers []launcher.Offer) (arrangement, error) {
	a := arrangement{ruling: s.ruling(pg)}
	r := &a.ruling
	known := make([]*facts.Host, len(offers))
	for i := range offers {
		if h := &pg.in.Hosts[i]; h.Unreached == "" {
			known[i] = &h.Facts
		}
	}
	s.order(r, pg.in, offers, known)
	job, chosen := s.job, make([]launcher.Offer, len(r.Use))
	for k, i := range r.Use {
		o := offers[i]
		if k < len(r.Slots) && r.Slots[k] > 0 {
			o.Slots, o.Limit = min(o.Slots, r.Slots[k]), min(o.Limit, r.Slots[k])
		}
		o.Domain = r.Domains[k]
		chosen[k] = o
	}
	if r.NP != nil {
		job.Apps = slices.Clone(job.Apps)
		job.Apps[0].NP = r.NP[0]
	}
	if len(r.Use) == 0 || len(job.Apps) == 0 {
		return a, nil
	}
	layout, err := job.Place(chosen)
	if err != nil {
		a.remarks = append(a.remarks, err.Error())
		return a, err
	}
	a.places = placesOf(layout, chosen)
	facts := make([]*facts.Host, len(r.Use))
	for k, i := range r.Use {
		facts[k] = known[i]
	}
	said, err := s.o.deal(job, layout, chosen, facts)
	if err != nil {
		a.remarks = append(a.remarks, err.Error())
		return a, err
	}
	r.Visible = said.visible
	r.Warnings = append(r.Warnings, said.costs...)
	r.Notes = append(r.Notes, said.notes...)
	if text := s.unused(pg); text != "" {
		r.Warnings = append(r.Warnings, text)
		a.remarks = append(a.remarks, text)
	}
	if layout.Mesh != nil {
		a.remarks = append(a.remarks, "mesh "+layout.Mesh.String())
	}
	a.remarks = slices.Concat(a.remarks, layout.Costs(chosen), said.costs, r.Notes)
	return a, nil
}

// unused says which good hosts a mesh that takes as many ranks as fit has no room for; "" for
// none. Spares are not meant to be used.
func (s *surveyor) unused(pg page) string {
	main := len(pg.in.Hosts) - pg.shape.Spares
	var idle []string
	for i, h := range pg.in.Hosts {
		if i < main && slices.Contains(pg.decision.Idle, h.Name) {
			idle = append(idle, h.Name)
		}
	}
	if len(idle) == 0 || s.job.Mesh == nil || s.job.Apps[0].NP != 0 {
		return ""
	}
	return fmt.Sprintf("not used: %s; --mesh %s takes multiples of %s", shortList(idle), s.job.Mesh, plural(s.job.Mesh.Multiple(), "rank"))
}

// nearRanks is how many ranks that follow each other a mesh wants nearest; 1 without one.
func nearRanks(m launcher.Mesh) int {
	if axis := m.Near(); axis >= 0 {
		return m[axis].Size
	}
	return 1
}

// order puts the hosts of a ruling into the order of their NVLink domains, if hosts are taken
// by their topology, and has it name the domains. Where nothing tells of any topology,
// latency does, if it was measured.
func (s *surveyor) order(r *launcher.Ruling, in preflight.Input, offers []launcher.Offer, known []*facts.Host) {
	hosts := make([]hostfile.Host, len(r.Use))
	for k, i := range r.Use {
		hosts[k] = hostfile.Host{Name: offers[i].Name, Domain: offers[i].Domain}
		if at := slices.IndexFunc(s.job.Hosts, func(h hostfile.Host) bool { return h.Name == offers[i].Name }); at >= 0 {
			hosts[k] = s.job.Hosts[at]
		}
		if known[i] != nil {
			if d := domainOf(known[i]); d != "" {
				hosts[k].Domain = d
			}
		}
	}
	order := make([]int, len(hosts))
	for k := range order {
		order[k] = k
	}
	by := "NVLink domains"
	if s.o.reorders() {
		if labelByLatency(hosts, r.Use, in) {
			by = "latencies"
		}
		order = hostfile.Order(hosts)
	}
	use, slots, named := slices.Clone(r.Use), slices.Clone(r.Slots), make([]hostfile.Host, len(hosts))
	r.Domains = make([]string, len(hosts))
	for k, from := range order {
		named[k] = hosts[from]
		r.Use[k], r.Domains[k] = use[from], hosts[from].Domain
		if from < len(slots) {
			r.Slots[k] = slots[from]
		}
	}
	if !slices.IsSorted(order) {
		r.Notes = append(r.Notes, fmt.Sprintf("hosts are taken by their %s: %s", by, namesOf(named)))
	}
}

// dealt is which GPUs ranks get, and what is said of it.
type dealt struct {
	visible [][]string // as launcher.Ruling has it
	costs   []string
	notes   []string
}

// deal gives the ranks of a layout over hosts their GPUs; of a host of which nothing is known
// the facts are nil.
func (o *options) deal(job launcher.Job, layout launcher.Layout, hosts []launcher.Offer, known []*facts.Host) (dealt, error) {
	var d dealt
	a := o.arranger(job)
	plans, names := make([]gpuPlan, len(hosts)), make([]string, len(hosts))
	about := map[string]string{}
	for h, host := range hosts {
		names[h] = host.Name
		if known[h] == nil {
			continue
		}
		var err error
		if plans[h], err = a.plan(host.Name, known[h], layout.Count[h], nearRanks(layout.Mesh)); err != nil {
			return d, err
		}
		about[host.Name] = plans[h].note
	}
	for _, p := range plans {
		d.visible = append(d.visible, p.visible)
	}
	for _, text := range meshCosts(layout, names, plans) {
		d.costs = append(d.costs, fmt.Sprintf("--mesh %s: %s", layout.Mesh, text))
	}
	d.notes = folded(about, names)
	return d, nil
}

// placesOf lists which ranks each host has.
func placesOf(layout launcher.Layout, hosts []launcher.Offer) []render.Place {
	places := make([]render.Place, len(hosts))
	for rank, at := range layout.Ranks {
		places[at.Host].Host = hosts[at.Host].Name
		places[at.Host].Ranks = append(places[at.Host].Ranks, rank)
	}
	return slices.DeleteFunc(places, func(p render.Place) bool { return p.Host == "" })
}

// factsOf are the facts of a host in an input, by name; nil: there are none.
func factsOf(in preflight.Input, name string) *facts.Host {
	i := slices.IndexFunc(in.Hosts, func(h preflight.Host) bool { return h.Name == name })
	if i < 0 || in.Hosts[i].Unreached != "" {
		return nil
	}
	return &in.Hosts[i].Facts
}

// arrangeSaved lays ranks out over the hosts of a decision on saved facts, for a mesh; else
// the page does that by itself.
func (o *options) arrangeSaved(pg page) ([]render.Place, []string) {
	if o.mesh == "" || len(pg.decision.Use) == 0 {
		return nil, nil
	}
	job := launcher.Job{Apps: []launcher.App{{NP: o.np}}, PerHost: o.ppn, Oversubscribe: o.oversubscribe, Mesh: meshOf(o.mesh)}
	if !job.Mesh.Open() {
		job.Apps[0].NP = pg.decision.Ranks
	}
	var hosts []launcher.Offer
	var known []*facts.Host
	for k, name := range pg.decision.Use {
		f := factsOf(pg.in, name)
		if f == nil || k >= len(pg.decision.Slots) {
			return nil, nil
		}
		n := pg.decision.Slots[k]
		hosts = append(hosts, launcher.Offer{Name: name, Slots: n, Limit: n, Domain: domainOf(f)})
		known = append(known, f)
	}
	layout, err := job.Place(hosts)
	if err != nil {
		return nil, []string{err.Error()}
	}
	d, err := o.deal(job, layout, hosts, known)
	if err != nil {
		return placesOf(layout, hosts), []string{err.Error()}
	}
	return placesOf(layout, hosts), slices.Concat([]string{"mesh " + layout.Mesh.String()}, layout.Costs(hosts), d.costs, d.notes)
}
