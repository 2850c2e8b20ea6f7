package hostfile

import (
	"fmt"
	"net/netip"
	"strings"
)

// set gathers the entries of a list into hosts, each once.
type set struct {
	list     bool // of the command line: a name alone is one slot
	hosts    []*record
	byKey    map[string]*record
	mentions int
}

// record is a host and how its slots were given.
type record struct {
	Host
	style    style
	repeated bool
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
	for _, name := range e.names {
		h := record{Host: Host{Name: name, User: e.user, Port: e.port, Slots: e.slots, MaxSlots: e.max, File: e.file, Line: e.line}, style: e.style}
		key := sameHost(name)
		old := s.byKey[key]
		switch {
		case old != nil:
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
	where := r.place(more)
	wrong := func(format string, args ...any) *mistake {
		return &mistake{0, more.Name, fmt.Sprintf(format, args...), ""}
	}
	switch {
	case r.User != "" && more.User != "" && r.User != more.User:
		return wrong("user %q here, %q in %s", more.User, r.User, where)
	case r.Port != 0 && more.Port != 0 && r.Port != more.Port:
		return wrong("port %d here, %d in %s", more.Port, r.Port, where)
	case r.style == keyed && more.style == keyed:
		return wrong("slots are given here and in %s", where)
	case r.style == keyed || more.style == keyed:
		m := wrong("slots are given in one way here and in another in %s", where)
		m.hint = "a name that stands alone adds one slot each time; use slots= once, or not at all"
		return m
	case r.count()+more.count() > MaxSlots:
		return wrong("more than %d slots, counted from %s on", MaxSlots, where)
	}
	if r.User == "" {
		r.User = more.User
	}
	if r.Port == 0 {
		r.Port = more.Port
	}
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

// place names where r stands, for an error about more.
func (r *record) place(more *record) string {
	switch {
	case r.File == ListName:
		return fmt.Sprintf("item %d", r.Line)
	case r.Line == more.Line:
		return "this same line"
	}
	return fmt.Sprintf("line %d", r.Line)
}

// finish returns the hosts in order of their first mention.
func (s *set) finish() []Host {
	hosts := make([]Host, len(s.hosts))
	for i, r := range s.hosts {
		if s.list && r.style == plain && !r.repeated {
			r.Slots, r.Bare = 1, true
		}
		hosts[i] = r.Host
	}
	return hosts
}
