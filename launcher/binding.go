package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/launcher/wire"
)

// What the ranks of a Job are bound to: each to its share of its host's cores or hardware
// threads, or to a whole NUMA node or socket.
const (
	BindNone   = wire.BindNone
	BindThread = wire.BindThread
	BindCore   = wire.BindCore
	BindNUMA   = wire.BindNUMA
	BindSocket = wire.BindSocket
)

// binds reports whether ranks are to be bound to anything.
func (j Job) binds() bool { return j.BindTo != "" && j.BindTo != BindNone }

// bind is what a host with so many ranks and slots is told of binding, nil if nothing;
// why is the reason if its ranks are not bound although that was asked for.
func (j Job) bind(ranks, slots int) (b *wire.Bind, why string) {
	if !j.binds() && !j.ReportBindings {
		return nil, ""
	}
	b = &wire.Bind{By: wire.BindNone}
	switch {
	case !j.binds():
	case ranks > slots:
		why = fmt.Sprintf("%s on %s", count(ranks, "rank"), count(slots, "slot"))
	default:
		b.By, b.Each = j.BindTo, j.CoresPerRank
	}
	return b, why
}

// bindOn is what host h is told of binding.
func (r *run) bindOn(h *host) *wire.Bind {
	o := h.offer()
	b, why := r.job.bind(r.planner.layout.Count[h.index], o.Slots)
	r.bindings.unbound(h.spec.Name, why)
	return b
}

// bindings is what is known of how the ranks are bound.
type bindings struct {
	ranks   []wire.Binding      // by rank; without CPUs: nothing is known
	reasons []string            // why ranks are not bound as they should be, in order of appearance
	hosts   map[string][]string // by reason
}

func (b *bindings) unbound(host, why string) {
	if why == "" {
		return
	}
	if b.hosts == nil {
		b.hosts = map[string][]string{}
	}
	if b.hosts[why] == nil {
		b.reasons = append(b.reasons, why)
	}
	b.hosts[why] = append(b.hosts[why], host)
}

// take takes over what a host says of its ranks.
func (b *bindings) take(host string, p *wire.Prepared, size int) {
	b.unbound(host, p.Unbound)
	if b.ranks == nil && len(p.Bindings) > 0 {
		b.ranks = make([]wire.Binding, size)
	}
	for _, x := range p.Bindings {
		for _, rank := range x.Ranks {
			b.ranks[rank] = x
		}
	}
}

// cpus is the list of CPUs that the rank is bound to, "" if it is not bound.
func (b *bindings) cpus(rank int) string {
	if b.ranks == nil || b.ranks[rank].Cores == "" {
		return ""
	}
	return b.ranks[rank].CPUs
}

// warnings say which hosts' ranks are not bound as they should be.
func (b *bindings) warnings() []string {
	var lines []string
	for _, why := range b.reasons {
		hosts := slices.Sorted(slices.Values(b.hosts[why]))
		lines = append(lines, fmt.Sprintf("ranks on %s are not bound: %s", someOf(hosts), why))
	}
	return lines
}

// report says of every rank what it may run on; ranks that are not bound share a line
// where they follow each other on a host.
func (b *bindings) report(l Layout, host func(int) string) []string {
	if b.ranks == nil {
		return nil
	}
	var lines []string
	for rank := 0; rank < len(b.ranks); rank++ {
		x, place := b.ranks[rank], l.Ranks[rank]
		last := rank
		for x.Cores == "" && last+1 < len(b.ranks) && l.Ranks[last+1].Host == place.Host {
			last++
		}
		switch {
		case last > rank:
			lines = append(lines, fmt.Sprintf("ranks %d-%d on %s (local %d-%d): %s", rank, last, host(place.Host), place.Local, l.Ranks[last].Local, boundText(x)))
		default:
			lines = append(lines, fmt.Sprintf("rank %d on %s (local %d): %s", rank, host(place.Host), place.Local, boundText(x)))
		}
		rank = last
	}
	return lines
}

// boundText is "cores 2-3 (NUMA 0)", or with hardware threads "core 2, CPUs 2,66 (NUMA 0)".
func boundText(x wire.Binding) string {
	if x.Cores == "" {
		return "not bound (" + numbered("CPU", x.CPUs) + ")"
	}
	text := numbered("core", x.Cores)
	if x.CPUs != x.Cores {
		text += ", " + numbered("CPU", x.CPUs)
	}
	if x.NUMA != "" {
		text += " (NUMA " + x.NUMA + ")"
	}
	return text
}

// numbered is "core 2" or "cores 2-3".
func numbered(noun, list string) string {
	if strings.ContainsAny(list, ",-") {
		noun += "s"
	}
	return noun + " " + list
}

// maxCPUs bounds a list of CPUs in an agent's message, in bytes.
const maxCPUs = 64 << 10

// checkBindings refuses what no agent may say of its ranks' bindings.
func (p *placement) checkBindings(host int, m *wire.Prepared) error {
	if p == nil && m.Bindings != nil {
		return errors.New("it binds ranks that it has not")
	}
	seen := map[int]bool{}
	for _, b := range m.Bindings {
		for _, list := range []string{b.CPUs, b.Cores, b.NUMA} {
			if len(list) > maxCPUs || strings.Trim(list, "0123456789,-") != "" {
				return fmt.Errorf("%d bytes that are no list of CPUs", len(list))
			}
		}
		for _, rank := range b.Ranks {
			if !p.has(host, rank) || seen[rank] {
				return fmt.Errorf("it binds rank %d", rank)
			}
			seen[rank] = true
		}
	}
	if len(m.Unbound) > maxLog {
		return fmt.Errorf("a reason of %d bytes", len(m.Unbound))
	}
	return nil
}

// tellBindings says how the ranks are bound, once all hosts have told it.
func (r *run) tellBindings() {
	for _, w := range r.bindings.warnings() {
		r.note("warn", w)
	}
	if !r.job.ReportBindings && !(r.io.Verbose && r.job.binds()) {
		return
	}
	for _, l := range r.bindings.report(r.m.layout, func(h int) string { return r.hosts[h].spec.Name }) {
		r.say(l)
	}
}
