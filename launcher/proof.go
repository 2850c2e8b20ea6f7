package launcher

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// proof is what is known of the environments in which the ranks run, as their hosts have
// read them back. It does no I/O.
//
// Ranks are compared that are ranks of one App, whose processes have settled, and run the
// same program with the same arguments, but for numbers: so a rank whose wrapper is not
// as far as the others' is not compared yet. Of these ranks a variable must be as planned
// in all, or changed alike in all. Work is done in proportion to what a host tells, not
// to the job.
type proof struct {
	layout  Layout
	rigor   envsync.Rigor
	ranks   []*wire.Settled // by rank; nil: not settled
	refused []bool          // by rank: it cannot be read
	settled int
	open    map[int]bool // hosts that may tell more
	groups  map[groupKey]*programGroup
	told    map[string]bool // names of which a difference has been told

	differences []EnvDifference
	summed      bool // the summary has been made
	alone       bool // it has been told that ranks may not find each other
}

// groupKey names the ranks that are compared with each other: those of an App that run
// the same program, in the whole job or on one host.
type groupKey struct {
	app     int
	program string
	host    int // wholeJob: all
}

const wholeJob = -1

// programGroup counts what the ranks of a group have instead of what was planned.
type programGroup struct {
	ranks   int
	cut     int                       // those of them that have more changes than were told
	changes map[string]map[string]int // by name, then by what stands for the value
	builds  map[string]int            // of the libnccl that they map, as far as is known
}

// libraryName is the Name of a difference of the libnccl that ranks map. Ranks that run the
// same program with different ones may not understand each other, or behave differently.
const libraryName = "libnccl"

// EnvDifference is a variable that ranks must not have with different values, and have.
type EnvDifference struct {
	Name   string     `json:"name"`
	Fatal  bool       `json:"fatal"` // the job was stopped for it
	Values []EnvValue `json:"values"`
}

// Library reports whether it is no variable that differs, but the libnccl that ranks map.
func (d EnvDifference) Library() bool { return d.Name == libraryName }

// EnvValue is what some ranks have.
type EnvValue struct {
	Value   string   `json:"value"` // its beginning, if it is long; nothing of a secret
	Set     bool     `json:"set"`
	Planned bool     `json:"planned,omitempty"` // it is what gorun has given
	Ranks   []int    `json:"ranks"`
	Hosts   []string `json:"hosts"`
}

func newProof(l Layout, rigor envsync.Rigor) *proof {
	p := &proof{
		layout: l, rigor: rigor, ranks: make([]*wire.Settled, l.Size()), refused: make([]bool, l.Size()),
		open: map[int]bool{}, groups: map[groupKey]*programGroup{}, told: map[string]bool{},
	}
	for _, h := range l.Hosts() {
		p.open[h] = true
	}
	return p
}

// take takes over what a host tells, and returns the differences that this shows first.
func (p *proof) take(host int, m *wire.Proof) []EnvDifference {
	touched := map[groupKey]bool{}
	for i := range m.Settled {
		s := &m.Settled[i]
		for _, rank := range s.Ranks {
			p.count(rank, -1, nil)
			p.ranks[rank], p.refused[rank] = s, false
			p.count(rank, 1, touched)
		}
	}
	for _, rank := range m.Refused {
		p.refused[rank] = p.ranks[rank] == nil
	}
	if m.Last {
		delete(p.open, host)
	}
	var found []EnvDifference
	for _, key := range slices.SortedFunc(maps.Keys(touched), compareKeys) {
		for _, name := range p.groups[key].differing() {
			if !p.told[name] {
				p.told[name] = true
				found = append(found, p.difference(key, name))
			}
		}
	}
	p.differences = append(p.differences, found...)
	return found
}

func compareKeys(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.app, b.app), cmp.Compare(a.program, b.program))
}

// count adds a rank to its groups, or takes it out of them, and notes which they are.
func (p *proof) count(rank, by int, touched map[groupKey]bool) {
	s := p.ranks[rank]
	if s == nil {
		return
	}
	p.settled += by
	if s.Early {
		return // it may yet become what the others are
	}
	for _, host := range []int{wholeJob, p.layout.Ranks[rank].Host} {
		key := groupKey{p.layout.Ranks[rank].App, s.Program, host}
		g := p.groups[key]
		if g == nil {
			g = &programGroup{changes: map[string]map[string]int{}, builds: map[string]int{}}
			p.groups[key] = g
		}
		g.ranks += by
		if s.More > 0 {
			g.cut += by
		}
		for _, c := range s.Changes {
			if compared(c.Name, host) {
				g.add(c, by)
			}
		}
		if s.Build != "" && host == wholeJob {
			if g.builds[s.Build] += by; g.builds[s.Build] == 0 {
				delete(g.builds, s.Build)
			}
		}
		if touched != nil {
			touched[key] = true
		}
	}
}

func (g *programGroup) add(c wire.Change, by int) {
	if g.changes[c.Name] == nil {
		g.changes[c.Name] = map[string]int{}
	}
	if g.changes[c.Name][c.Sum] += by; g.changes[c.Name][c.Sum] == 0 {
		delete(g.changes[c.Name], c.Sum)
	}
}

// differing lists the names that are not alike in all ranks of the group.
func (g *programGroup) differing() []string {
	var names []string
	for name, values := range g.changes {
		changed := 0
		for _, n := range values {
			changed += n
		}
		if changed > 0 && (changed < g.ranks-g.cut || len(values) > 1) {
			names = append(names, name)
		}
	}
	if len(g.builds) > 1 {
		names = append(names, libraryName)
	}
	slices.Sort(names)
	return names
}

// compared reports whether ranks of the whole job, or only those of one host, are
// compared by name.
func compared(name string, host int) bool {
	v, _ := envsync.Lookup(name)
	within := v.SameHost || envsync.ClassOf(name) == envsync.ClassHost
	return within == (host != wholeJob)
}

// fatal reports whether ranks cannot work together that have different values for name.
// What NCCL does not know may be anything.
func (p *proof) fatal(name string) bool {
	_, known := envsync.Lookup(name)
	return p.rigor != envsync.Lax && (known || p.rigor == envsync.Strict)
}

// difference tells who has what for name. The values of the fewest ranks come first, and
// what is not as planned.
func (p *proof) difference(key groupKey, name string) EnvDifference {
	by := map[string]*EnvValue{}
	for rank, s := range p.ranks {
		place := p.layout.Ranks[rank]
		if s == nil || s.Early || s.Program != key.program || place.App != key.app || key.host != wholeJob && key.host != place.Host {
			continue
		}
		id, v := valueOf(s, name)
		if v.Planned && s.More > 0 || name == libraryName && s.Build == "" {
			continue // it is not known
		}
		if by[id] == nil {
			by[id] = &v
		}
		by[id].Ranks = append(by[id].Ranks, rank)
	}
	d := EnvDifference{Name: name, Fatal: p.fatal(name)}
	for _, v := range by {
		d.Values = append(d.Values, *v)
	}
	slices.SortFunc(d.Values, func(a, b EnvValue) int {
		return cmp.Or(cmp.Compare(len(a.Ranks), len(b.Ranks)), compareBool(a.Planned, b.Planned), cmp.Compare(b.Ranks[0], a.Ranks[0]))
	})
	return d
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// valueOf is what a rank has for name, and what stands for it.
func valueOf(s *wire.Settled, name string) (id string, v EnvValue) {
	if name == libraryName {
		return s.Build, EnvValue{Set: true, Value: libraryOf(s).text()}
	}
	i := slices.IndexFunc(s.Changes, func(c wire.Change) bool { return c.Name == name })
	if i < 0 {
		return "planned", EnvValue{Planned: true}
	}
	c := s.Changes[i]
	return "is " + c.Sum, EnvValue{Set: c.Sum != "", Value: string(c.Value)}
}

// Environment is what was read back from the processes of a job's ranks.
type Environment struct {
	Proven      int             `json:"proven"`               // ranks of which it is known, and not different from that of others
	NotProven   int             `json:"not_proven"`           // ranks that ended too soon, did not settle, cannot be read, or differ
	Unreadable  int             `json:"unreadable,omitempty"` // of them, those that cannot be read
	Digest      string          `json:"digest,omitempty"`     // of the settings that must be equal in the job, as read; "": several
	Changed     []string        `json:"changed,omitempty"`    // names that what starts the programs has changed, alike in all ranks
	Differences []EnvDifference `json:"differences,omitempty"`
	Libraries   []Library       `json:"libnccl,omitempty"`
}

// Library is a libnccl that ranks have loaded.
type Library struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	Build   string `json:"build,omitempty"` // its build ID, or what stands for its content
	Ranks   []int  `json:"ranks"`
}

func libraryOf(s *wire.Settled) Library {
	return Library{Path: string(s.Library), Version: s.Version, Build: s.Build}
}

// text is the library in words.
func (l Library) text() string {
	text := l.Path
	if l.Version != "" {
		text += ", version " + l.Version
	}
	if l.Build != "" {
		text += ", build " + l.Build[:min(len(l.Build), 15)]
	}
	return text
}

// environment sums up what is known.
func (p *proof) environment() *Environment {
	e := &Environment{Proven: p.settled, NotProven: len(p.ranks) - p.settled, Differences: p.differences}
	odd := map[int]bool{}
	for _, d := range p.differences {
		for _, v := range d.Values {
			for _, rank := range v.Ranks {
				if d.Fatal && !v.Planned && d.Name != libraryName {
					odd[rank] = true
				}
			}
		}
	}
	e.Proven, e.NotProven = e.Proven-len(odd), e.NotProven+len(odd)
	jobs, names, libraries := map[string]bool{}, map[string]int{}, map[string]Library{}
	for rank, s := range p.ranks {
		if s == nil {
			if p.refused[rank] {
				e.Unreadable++
			}
			continue
		}
		job, _, _ := strings.Cut(s.Digest, ".")
		jobs[job] = true
		for _, c := range s.Changes {
			names[c.Name]++
		}
		if len(s.Library) > 0 {
			l, ok := libraries[libraryOf(s).text()]
			if !ok {
				l = libraryOf(s)
			}
			l.Ranks = append(l.Ranks, rank)
			libraries[l.text()] = l
		}
	}
	if len(jobs) == 1 {
		e.Digest = slices.Collect(maps.Keys(jobs))[0]
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] == p.settled && !p.told[name] {
			e.Changed = append(e.Changed, name)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(libraries)) {
		e.Libraries = append(e.Libraries, libraries[text])
	}
	return e
}

// complete reports, once, that all is known that will be.
func (p *proof) complete() bool {
	if p.summed || p.settled < len(p.ranks) && len(p.open) > 0 {
		return false
	}
	p.summed = true
	return true
}
