package hostfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// set gathers the entries of a list into hosts, each once.
type set struct {
	list     bool // of the command line: a name alone is one slot
	nodefile bool // a name alone is one slot in a file, too
	hosts    []*record
	byKey    map[string]*record
	without  []exclusion
	mentions int
	repeats  bool // a name came more than once
	more     bool // an entry says more than a name
}

// exclusion is "^host": hosts that are left out.
type exclusion struct {
	names []string
	at    SyntaxError // where it stands
}

// parseExclusion reads "^host", where host may have bracket ranges.
func parseExclusion(word string) (exclusion, *mistake) {
	var e entry
	m := e.parseNames(word[1:])
	if m != nil && strings.Contains(word, "::") {
		m = e.parseBareIPv6(word[1:])
	}
	return exclusion{names: e.names}, m.shift(1)
}

// record is a host and how its slots were given.
type record struct {
	Host
	style    style
	repeated bool
	later    map[string]int // by what is said of it: the line, if that is not the first
}

func newSet(list bool) *set { return &set{list: list, byKey: map[string]*record{}} }

// sameHost is what two spellings of one host have in common: letters without case,
// an IP address by value.
func sameHost(name string) string {
	if strings.Contains(name, ":") {
		if addr, err := netip.ParseAddr(name); err == nil {
			return addr.String()
		}
	}
	return strings.ToLower(name)
}

// add puts e's hosts into s. Offsets of its mistake count from the entry's start.
func (s *set) add(e entry) *mistake {
	s.mentions += len(e.names)
	if s.mentions > maxMentions {
		return &mistake{0, e.names[0], fmt.Sprintf("more than %d names in the list", maxMentions), ""}
	}
	s.more = s.more || !e.nameOnly()
	for _, name := range e.names {
		h := record{Host: e.Host, style: e.style}
		h.Name = name
		key := sameHost(name)
		old := s.byKey[key]
		switch {
		case old != nil:
			s.repeats = true
			if m := old.merge(&h); m != nil {
				return m
			}
		case len(s.hosts) == MaxHosts:
			return &mistake{0, name, fmt.Sprintf("more than %d hosts in the list", MaxHosts), ""}
		default:
			kept := h
			s.byKey[key] = &kept
			s.hosts = append(s.hosts, &kept)
		}
	}
	return nil
}

// merge adds another mention of the same host to r.
func (r *record) merge(more *record) *mistake {
	where := r.seenFrom(more, "")
	wrong := func(format string, args ...any) *mistake {
		return &mistake{0, more.Name, fmt.Sprintf(format, args...), ""}
	}
	for _, w := range []struct{ what, here, there string }{
		{"user", more.User, r.User}, {"public_addr", more.Addr, r.Addr}, {"rack", more.Rack, r.Rack}, {"switch", more.Switch, r.Switch}, {"domain", more.Domain, r.Domain},
	} {
		if w.here != "" && w.there != "" && w.here != w.there {
			return wrong("%s %q here, %q in %s", w.what, w.here, w.there, r.seenFrom(more, w.what))
		}
		if w.here != "" && w.there == "" {
			r.says(w.what, more.Line)
		}
	}
	if r.Port == 0 && more.Port != 0 {
		r.says("port", more.Line)
	}
	switch {
	case r.Port != 0 && more.Port != 0 && r.Port != more.Port:
		return wrong("port %d here, %d in %s", more.Port, r.Port, r.seenFrom(more, "port"))
	case r.style == keyed && more.style == keyed:
		return wrong("slots are given here and in %s", where)
	case r.style == keyed || more.style == keyed:
		m := wrong("slots are given in one way here and in another in %s", where)
		m.hint = "a name that stands alone adds one slot each time; use slots= once, or not at all"
		return m
	case r.count()+more.count() > MaxSlots:
		return wrong("more than %d slots, counted from %s on", MaxSlots, where)
	}
	r.User, r.Port, r.Addr = cmp.Or(r.User, more.User), cmp.Or(r.Port, more.Port), cmp.Or(r.Addr, more.Addr)
	r.Rack, r.Switch, r.Domain = cmp.Or(r.Rack, more.Rack), cmp.Or(r.Switch, more.Switch), cmp.Or(r.Domain, more.Domain)
	r.Slots = r.count() + more.count()
	r.repeated = true
	return nil
}

// count is what r adds to the slots of its host.
func (r *record) count() int {
	if r.Slots < 0 {
		return 1
	}
	return r.Slots
}

// says notes the line, which is not the first about r, that says what.
func (r *record) says(what string, line int) {
	if r.later == nil {
		r.later = map[string]int{}
	}
	r.later[what] = line
}

// seenFrom names where it stands what r has, for an error about more, which may spell the
// name differently.
func (r *record) seenFrom(more *record, what string) string {
	at := r.Host
	at.Line = cmp.Or(r.later[what], r.Line)
	where := at.Place()
	switch {
	case at.File == ListName:
		where = fmt.Sprintf("item %d", at.Line)
	case at.Line == more.Line:
		where = "this same line"
	}
	if r.Name != more.Name && at.Line == r.Line {
		where += fmt.Sprintf(" as %q", clip(r.Name))
	}
	return where
}

// finish returns the hosts in order of their first mention. A file of names alone, some
// of them repeated, is a nodefile: each line is a slot, also that of a name that comes
// once.
func (s *set) finish() []Host {
	each := s.list || s.nodefile || s.repeats && !s.more
	hosts := make([]Host, len(s.hosts))
	for i, r := range s.hosts {
		if each && r.style == plain && !r.repeated {
			r.Slots, r.Bare = 1, s.list
		}
		hosts[i] = r.Host
	}
	return hosts
}

// exclude returns hosts without those of without. Of a name that is not in known it
// says so, as it may be a slip, and the host that was meant would be used.
func exclude(hosts, known []Host, without []exclusion) ([]Host, error) {
	if len(without) == 0 {
		return hosts, nil
	}
	names := index(known)
	out := map[string]bool{}
	for _, x := range without {
		for _, name := range x.names {
			if _, ok := names[sameHost(name)]; !ok {
				return nil, notAmong(known, name, x.at)
			}
			out[sameHost(name)] = true
		}
	}
	var left []Host
	for _, h := range hosts {
		if !out[sameHost(h.Name)] {
			left = append(left, h)
		}
	}
	if len(left) == 0 {
		e := without[len(without)-1].at
		e.Msg = "every host is left out"
		return nil, &e
	}
	return left, nil
}

// index says where each host is in hosts.
func index(hosts []Host) map[string]int {
	at := make(map[string]int, len(hosts))
	for i, h := range hosts {
		at[sameHost(h.Name)] = i
	}
	return at
}
