package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

// quickNames and fullNames are how many hosts' names each host is asked for: all ask all,
// and a name server has to answer.
const (
	quickNames = 16
	fullNames  = 64
)

// orders are what the hosts are asked for, as JSON: each host, or those by name for which
// that is something else.
func (o *options) orders(job launcher.Job) (all []byte, some map[string][]byte, err error) {
	if all, err = json.Marshal(o.order(job, "")); err != nil {
		return nil, nil, err
	}
	if len(job.Apps) < 2 && len(job.HostEnv) == 0 {
		return all, nil, nil
	}
	some = map[string][]byte{}
	for _, h := range job.Hosts {
		own, err := json.Marshal(o.order(job, h.Name))
		if err != nil {
			return nil, nil, err
		}
		if !bytes.Equal(own, all) {
			some[h.Name] = own
		}
	}
	return all, some, nil
}

// namesAmong are the names of hosts that are reached by them: the first, and of many as
// many as asked for, evenly spread.
func namesAmong(hosts []hostfile.Host, most int) []string {
	var names []string
	for _, h := range hosts {
		if h.Addr == "" {
			names = append(names, h.Name)
		}
	}
	if len(names) <= most {
		return names
	}
	some := make([]string, most)
	for i := range some {
		some[i] = names[i*len(names)/most]
	}
	return some
}

// order is what a host is asked for: what the programs need that may run there. "" stands
// for one on which all may.
func (o *options) order(job launcher.Job, host string) facts.Order {
	order := facts.Order{Full: o.preflight.mode == preflight.Full}
	most := quickNames
	if order.Full {
		most = fullNames
	}
	order.Names = namesAmong(job.Hosts, most)
	if job.Prefix != "" {
		order.Prepend = path.Join(job.Prefix, "bin")
	}
	for _, a := range job.Apps {
		if host != "" && len(a.Hosts) > 0 && !slices.ContainsFunc(a.Hosts, func(h hostfile.Host) bool { return h.Name == host }) {
			continue
		}
		dir := cmp.Or(a.Dir, job.Dir)
		order.Dir = cmp.Or(order.Dir, dir)
		if v := variable(job, a, host, "PATH"); v != nil && order.Path == "" {
			order.Path = v.Value
		}
		if len(a.Args) == 0 || job.Bcast {
			continue
		}
		name := a.Args[0]
		if dir != order.Dir && strings.Contains(name, "/") && !path.IsAbs(name) {
			name = path.Join(dir, name) // a host looks from one directory
		}
		if !slices.Contains(order.Programs, name) {
			order.Programs = append(order.Programs, name)
		}
	}
	order.Dir = cmp.Or(order.Dir, job.Dir)
	return order
}

// variable is what a job itself sets a variable to for the ranks of a program on a host; nil:
// nothing.
func variable(job launcher.Job, a launcher.App, host, name string) *envsync.Var {
	policy := job.Env
	policy.Set = slices.Concat(policy.Set, a.Set)
	vars, _, err := policy.Build()
	if err != nil {
		return nil
	}
	for _, v := range slices.Backward(append(vars, job.HostEnv[host]...)) {
		if v.Name == name {
			return &v
		}
	}
	return nil
}

// input is what a survey tells, for the checks.
func (o *options) input(s launcher.Survey, job launcher.Job, planned plan) preflight.Input {
	a := o.arranger(job)
	in := preflight.Input{
		Mode: o.preflight.mode, Limits: o.config.limits(), Strict: o.preflight.strict,
		Job: preflight.Job{Interface: job.Interface, SharedDir: !job.Bcast && len(job.Preload) == 0},
	}
	for i, told := range s.Hosts {
		h := toldBy(told)
		h.Ranks = planned.ranks[i]
		h.GPUs = usedGPUs(h.Facts, h.Ranks, visibleGPUs(job, told.Name))
		if p, err := a.plan(told.Name, &h.Facts, h.Ranks, planned.near); err == nil && h.GPUs != nil && p.visible != nil {
			h.GPUs = p.gpus[:min(h.Ranks, len(p.gpus))]
		}
		in.Job.Ranks += h.Ranks
		in.Job.GPU = in.Job.GPU || len(h.Facts.GPU.Devices) > 0
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

// toldBy is what one host has told. What cannot be read was not told.
func toldBy(told launcher.Surveyed) preflight.Host {
	h := preflight.Host{Name: told.Name, Settings: told.Settings}
	h.Skew = preflight.Skew{Known: told.Uncertain > 0, Offset: told.Offset, Uncertain: told.Uncertain}
	if told.Err != nil {
		h.Unreached = told.Err.Error()
		return h
	}
	if err := json.Unmarshal(told.Facts, &h.Facts); err != nil {
		h.Facts = facts.Host{}
		h.Unreached = fmt.Sprintf("what it told cannot be read: %v", err)
		return h
	}
	if err := measured(told.Links, &h); err != nil {
		h.Unreached = fmt.Sprintf("what it measured cannot be read: %v", err)
	}
	hideInFacts(&h.Facts)
	h.Facts.Name = told.Name
	if told.Addr.IsValid() {
		h.Facts.Addr = told.Addr.String()
	}
	return h
}

// measured reads what a host has measured: an array of what each probe of it has found.
func measured(told []byte, h *preflight.Host) error {
	if len(told) == 0 {
		return nil
	}
	var results []probe.Result
	if err := json.Unmarshal(told, &results); err != nil {
		return err
	}
	for _, r := range results {
		h.Links, h.Rails = append(h.Links, r.Links...), append(h.Rails, r.Rails...)
	}
	return nil
}

// visibleGPUs is the job's own CUDA_VISIBLE_DEVICES on a host; nil: there is none.
func visibleGPUs(job launcher.Job, host string) *string {
	if v := chosenByUser(job, host); v != nil {
		return &v.Value
	}
	return nil
}

// chosenByUser is the CUDA_VISIBLE_DEVICES that the job sets on a host, with its origin; nil:
// there is none.
func chosenByUser(job launcher.Job, host string) *envsync.Var {
	var a launcher.App
	if len(job.Apps) == 1 {
		a = job.Apps[0]
	}
	return variable(job, a, host, cudaDevices)
}

// usedGPUs are the indexes of the GPUs that so many ranks of a host use, as far as can be
// told: those that are visible, of which each rank is taken to use the one of its local
// rank; nil: all.
func usedGPUs(f facts.Host, ranks int, visible *string) []int {
	var all []int
	for _, d := range f.GPU.Devices {
		all = append(all, d.Index)
	}
	if visible = cmp.Or(visible, f.GPU.Visible); visible != nil {
		all = chosenGPUs(f, *visible)
	}
	switch {
	case all == nil, visible == nil && (ranks == 0 || ranks >= len(all)):
		return nil
	case ranks > 0 && ranks < len(all):
		return all[:ranks]
	}
	return all
}

// chosenGPUs reads CUDA_VISIBLE_DEVICES: numbers, or UUIDs that may be cut short, up to
// the first that is no GPU. An empty list is of no GPU, and not nil.
func chosenGPUs(f facts.Host, visible string) []int {
	chosen := []int{}
	for item := range strings.SplitSeq(visible, ",") {
		item = strings.TrimSpace(item)
		i := slices.IndexFunc(f.GPU.Devices, func(d facts.Device) bool {
			n, err := strconv.Atoi(item)
			return err == nil && d.Index == n || strings.HasPrefix(item, "GPU-") && strings.HasPrefix(d.UUID, item)
		})
		if i < 0 {
			break
		}
		chosen = append(chosen, f.GPU.Devices[i].Index)
	}
	return chosen
}
