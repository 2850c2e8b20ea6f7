package main

import (
	"cmp"
	"fmt"
	"io"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/agent"
	"gorun/preflight"
	"gorun/preflight/facts"
)

// dryRun prints what a job would be, by what the command line and --facts tell of its hosts.
func (c *command) dryRun(o options) int {
	cores, gpus := agent.Capacity()
	return c.print(o, func(w io.Writer, job launcher.Job) error {
		var lines []string
		switch {
		case o.preflight.facts != "":
			var err error
			if lines, err = o.applyFacts(&job); err != nil {
				return err
			}
		case o.gpuBind == bindOne:
			lines = []string{"warning: which GPU each rank gets is decided at launch; --facts FILE tells it of what --save-facts has written"}
		}
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		return launcher.DryRun(w, job, cores, gpus)
	})
}

// applyFacts completes job by the facts of a file: its hosts, their slots, their order and the
// GPUs of their ranks. It returns what is to be said of that.
func (o *options) applyFacts(job *launcher.Job) (lines []string, err error) {
	saved, err := loadFacts(o.preflight.facts)
	if err != nil {
		return nil, err
	}
	if len(job.Hosts) == 0 {
		for _, h := range saved.Input.Hosts {
			job.Hosts = append(job.Hosts, hostfile.Host{Name: h.Name, Slots: -1, File: o.preflight.facts})
		}
	}
	var strangers []string
	for i := range job.Hosts {
		h := &job.Hosts[i]
		f := factsOf(saved.Input, h.Name)
		if f == nil {
			strangers = append(strangers, h.Name)
			continue
		}
		h.Domain = cmp.Or(domainOf(f), h.Domain)
		if h.Slots < 0 {
			h.Slots = slotsBy(f)
			if h.MaxSlots > 0 {
				h.Slots = min(h.Slots, h.MaxSlots)
			}
			h.File, h.Line = o.preflight.facts, 0
		}
	}
	if len(strangers) > 0 {
		lines = append(lines, fmt.Sprintf("warning: %s tells nothing of %s", o.preflight.facts, shortList(strangers)))
	}
	if o.reorders() {
		job.Hosts, _ = o.ordered(job.Hosts)
	}
	more, err := o.dealSaved(job, saved.Input)
	return append(lines, more...), err
}

// slotsBy is how many ranks a host gets when nothing is said: one for each GPU, else core.
func slotsBy(f *facts.Host) int {
	return cmp.Or(max(len(f.GPU.Devices), len(f.GPU.DevFiles)), f.System.Cores)
}

// dealSaved gives the ranks of job their GPUs. That they have no place others tell.
func (o *options) dealSaved(job *launcher.Job, in preflight.Input) (lines []string, err error) {
	var offers []launcher.Offer
	var known []*facts.Host
	for _, h := range job.Hosts {
		slots := h.Slots
		if slots < 0 {
			slots = job.PerHost
		}
		offers = append(offers, launcher.Offer{Name: h.Name, Slots: slots, Limit: slots, Max: h.MaxSlots, Domain: h.Domain})
		known = append(known, factsOf(in, h.Name))
	}
	layout, err := job.Place(offers)
	if err != nil {
		return nil, nil
	}
	d, err := o.deal(*job, layout, offers, known)
	if err != nil {
		return nil, err
	}
	job.Visible = map[string][]string{}
	for h, visible := range d.visible {
		job.Visible[offers[h].Name] = visible
	}
	for _, text := range d.costs {
		lines = append(lines, "warning: "+text)
	}
	return append(lines, d.notes...), nil
}
