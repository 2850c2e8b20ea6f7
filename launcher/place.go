package launcher

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
)

// Offer is what a host can take.
type Offer struct {
	Name   string
	Slots  int    // ranks it gets when nothing else is said
	Limit  int    // ranks it may get without --oversubscribe, ≥ Slots
	Max    int    // ranks it may get at all; 0: no limit
	Origin string // where Slots comes from, for people: "hosts:3", "-H", "2 cores"
	Domain string // the NVLink domain that its GPUs are in, with other hosts'; "": not known
}

// Layout says where each rank runs. Programs follow each other: the ranks of the first
// have the lowest numbers.
type Layout struct {
	Ranks []Place // by rank
	Count []int   // ranks on each host, by index of the offers
	Mesh  Mesh    // of the job's ranks, each axis with its size; nil: there is none
}

// Place is one rank's place.
type Place struct {
	Host  int // index of the offer
	Local int // among the ranks of its host
	App   int // index of the job's App
}

// Size is the number of ranks.
func (l Layout) Size() int { return len(l.Ranks) }

// Hosts lists the hosts that have ranks by their node numbers: in the order of their
// lowest ranks, so that rank 0 is on node 0.
func (l Layout) Hosts() []int {
	var hosts []int
	for _, p := range l.Ranks {
		if p.Local == 0 {
			hosts = append(hosts, p.Host)
		}
	}
	return hosts
}

// contiguous reports whether the ranks of each host follow each other.
func (l Layout) contiguous() bool {
	for rank, p := range l.Ranks {
		if p.Local > 0 && l.Ranks[rank-1].Host != p.Host {
			return false
		}
	}
	return true
}

// Order is how ranks follow each other over the hosts.
type Order string

const (
	BySlot Order = "slot" // a host is filled before the next one gets a rank
	ByNode Order = "node" // the hosts get a rank in turn
)

// Place lays the job's ranks out over the offers, one program after the other. A host
// without slots gets none, whatever else is asked for. It returns a *SlotsError when
// they do not fit, a *CountError when it cannot be told how many there are, a *MeshError
// when they cannot be arranged in the job's mesh, and is a pure function.
func (j Job) Place(offers []Offer) (Layout, error) {
	l, err := j.lay(offers)
	if e, ok := errors.AsType[*SlotsError](err); ok {
		e.Ways = j.ways(e, offers)
	}
	return l, err
}

// lay is Place without the ways out of a *SlotsError.
func (j Job) lay(offers []Offer) (Layout, error) {
	l, err := j.layRanks(offers)
	if err != nil || j.Mesh == nil {
		return l, err
	}
	return j.arrange(l, offers)
}

// layRanks is lay without the job's mesh.
func (j Job) layRanks(offers []Offer) (Layout, error) {
	p := placer{job: j, offers: offers, at: map[string]int{}, layout: Layout{Count: make([]int, len(offers))}}
	for h, o := range offers {
		p.at[o.Name] = h
	}
	for i := range j.Apps {
		if err := p.place(i); err != nil {
			return Layout{}, err
		}
	}
	return p.layout, nil
}

// placer is Place's state.
type placer struct {
	job    Job
	offers []Offer
	at     map[string]int // offers by name
	layout Layout
}

// place lays out the ranks of program i on what the ones before it have left.
func (p *placer) place(i int) error {
	app := p.job.Apps[i]
	hosts, own := p.hosts(app)
	room, limit := p.room(hosts, own)
	need := app.NP
	if need == 0 {
		if len(p.job.Apps) > 1 && p.job.PerHost == 0 && len(app.Hosts) == 0 {
			return &CountError{Program: app.Args[0]}
		}
		need = sum(room)
	}
	if need == 0 || need > MaxRanks-p.layout.Size() {
		return p.slotsError(i, need, hosts, limit)
	}
	count, left := p.fill(need, room, limit)
	over := left > 0
	for k, n := range count {
		over = over || n > limit[k]
	}
	if over {
		return p.slotsError(i, need, hosts, limit)
	}
	p.number(i, hosts, count)
	return nil
}

// hosts are those that app may use, in their order, and how many slots of each are for
// it as far as its own list says.
func (p *placer) hosts(app App) (hosts, own []int) {
	slots := map[int]int{}
	for _, x := range app.Hosts {
		if h, ok := p.at[x.Name]; ok {
			slots[h] = x.Slots
		}
	}
	if len(app.Hosts) > 0 {
		hosts = slices.Sorted(maps.Keys(slots))
	} else {
		for h := range p.offers {
			hosts = append(hosts, h)
		}
	}
	for _, h := range hosts {
		n, listed := slots[h]
		if !listed || n < 0 { // the host alone knows them
			n = MaxRanks + 1
		}
		own = append(own, n)
	}
	return hosts, own
}

// room is how many ranks of a program with these hosts each is to get, and how many it
// may get at most.
func (p *placer) room(hosts, own []int) (room, limit []int) {
	room, limit = make([]int, len(hosts)), make([]int, len(hosts))
	for k, h := range hosts {
		o := p.offers[h]
		if own[k] == 0 || o.Slots == 0 {
			continue
		}
		free, most := min(o.Slots, MaxRanks+1)-p.layout.Count[h], p.job.limit(o)-p.layout.Count[h]
		if !p.job.Oversubscribe {
			most = min(most, own[k])
		}
		room[k], limit[k] = max(min(free, own[k]), 0), max(most, 0)
		if p.job.PerHost > 0 {
			room[k] = min(p.job.PerHost, MaxRanks+1)
		}
	}
	return room, limit
}

// limit is the most ranks that o may get in this job.
func (j Job) limit(o Offer) int {
	switch {
	case o.Slots == 0:
		return 0
	case !j.Oversubscribe:
		return o.Limit
	case o.Max > 0:
		return o.Max
	default:
		return MaxRanks
	}
}

// fill shares need ranks out over the hosts, and returns how many found no place.
func (p *placer) fill(need int, room, limit []int) (count []int, left int) {
	count = make([]int, len(room))
	switch {
	case p.job.MapBy != ByNode:
		for h, n := range room {
			count[h] = min(n, need)
			need -= count[h]
		}
		room = limit
	case need > sum(room): // evenly, whatever the slots
		room = limit
	default:
		return count, deal(need, count, room)
	}
	if p.job.PerHost > 0 {
		return count, need
	}
	return count, deal(need, count, room)
}

// deal adds need ranks to count one by one, to the hosts in turn as far as most goes, and
// returns how many found no place.
func deal(need int, count, most []int) (left int) {
	free := make([]int, len(count))
	for h := range free {
		free[h] = most[h] - count[h]
	}
	for h := range inTurn(free) {
		if need == 0 {
			break
		}
		count[h]++
		need--
	}
	return need
}

// inTurn yields the hosts round by round, each as often as times says.
func inTurn(times []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		active := make([]int, len(times))
		for h := range active {
			active[h] = h
		}
		for round := 0; len(active) > 0; round++ {
			active = slices.DeleteFunc(active, func(h int) bool { return times[h] <= round })
			for _, h := range active {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// number gives the ranks of program i, so many on each of these hosts, their numbers.
func (p *placer) number(i int, hosts, count []int) {
	add := func(k int) {
		h := hosts[k]
		p.layout.Ranks = append(p.layout.Ranks, Place{Host: h, Local: p.layout.Count[h], App: i})
		p.layout.Count[h]++
	}
	if cmp.Or(p.job.RankBy, p.job.MapBy) == ByNode {
		for k := range inTurn(count) {
			add(k)
		}
		return
	}
	for k, n := range count {
		for range n {
			add(k)
		}
	}
}

// slotsError is why need ranks of program i find no room on its hosts, which may get no
// more than these limits.
func (p *placer) slotsError(i, need int, hosts, limit []int) error {
	e := &SlotsError{Need: need, App: i, PerHost: p.job.PerHost}
	if len(p.job.Apps) > 1 {
		e.Program = p.job.Apps[i].Args[0]
	}
	for k, h := range hosts {
		o, offer := p.offers[h], limit[k]
		if p.job.PerHost > 0 && p.job.PerHost <= offer {
			offer = p.job.PerHost
		}
		e.Have = min(e.Have+min(offer, MaxRanks), MaxRanks)
		e.Hosts = append(e.Hosts, HostSlots{Name: o.Name, Slots: max(o.Slots, o.Limit), Origin: o.Origin, Taken: p.layout.Count[h]})
	}
	return e
}

func sum(ns []int) int {
	total := 0
	for _, n := range ns {
		total += n
	}
	return total
}
