package launcher

import (
	"net/netip"
	"slices"
	"time"

	"gorun/launcher/output"
)

// show tells what the ranks are doing.
func (r *run) show(l *look) {
	sc := r.scene(l)
	r.picture = paint(sc)
	lines := r.picture.lines(sc.limit)
	for _, line := range lines {
		r.say(line)
	}
	r.record(Event{Event: "picture", Text: r.picture.Headline, Message: lines})
}

// scene gathers what is known at the end of a look.
func (r *run) scene(l *look) *scene {
	now := time.Now()
	sc := &scene{when: l.why, at: now.Sub(r.started) - r.paused, limit: r.m.waits.look, wanted: r.engine.Wanted()}
	sc.meet = r.planner.meetingPort()
	if l.broken {
		sc.limit = now.Sub(r.lookedAt)
	}
	for i, h := range r.hosts {
		sc.hosts = append(sc.hosts, sceneHost{name: h.spec.Name, addrs: addrsOf(h), silent: l.waiting[i], begins: r.m.hosts[i].state == hostPrepared})
	}
	for rank, place := range r.m.layout.Ranks {
		s := sceneRank{host: place.Host, end: r.m.ranks[rank], age: -1}
		line, at := r.out.Last(rank)
		if !at.IsZero() {
			s.line, s.age = line, max(now.Sub(at), 0)
			s.fresh = at.After(r.lookedAt)
		}
		sc.ranks = append(sc.ranks, s)
	}
	for _, p := range l.pictures {
		for i := range p.Sights {
			s := &p.Sights[i]
			s.Name, s.File, s.Call, s.Channel = output.Clean(s.Name), output.Clean(s.File), output.Clean(s.Call), output.Clean(s.Channel)
			sc.ranks[s.Rank].sight, sc.ranks[s.Rank].took = s, p.Took
		}
	}
	return sc
}

// addrsOf lists the addresses by which other hosts can reach h.
func addrsOf(h *host) []netip.Addr {
	var out []netip.Addr
	if h.hello == nil {
		return nil
	}
	for _, i := range h.hello.Interfaces {
		for _, text := range i.Addrs {
			if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
				out = append(out, a.Unmap())
			}
		}
	}
	return slices.Compact(out)
}
