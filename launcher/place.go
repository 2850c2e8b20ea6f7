package launcher

import "fmt"

// Offer is what a host can take.
type Offer struct {
	Name   string
	Slots  int    // ranks it gets when nothing else is said
	Limit  int    // ranks it may get without --oversubscribe, ≥ Slots
	Max    int    // ranks it may get at all; 0: no limit
	Origin string // where Slots comes from, for people: "hosts:3", "-H", "2 cores"
}

// Layout says where each rank runs. Ranks are numbered host by host.
type Layout struct {
	Ranks []Place // by rank
	Count []int   // ranks on each host, by index of the offers
}

// Place is one rank's place.
type Place struct {
	Host  int // index of the offer
	Local int // among the ranks of its host
	App   int // index of the job's App
}

// Size is the number of ranks.
func (l Layout) Size() int { return len(l.Ranks) }

// Place lays the job's ranks out over the offers, host by host in their order. A host
// without slots gets none, whatever else is asked for. It returns a *SlotsError when
// they do not fit, and is a pure function.
func (j Job) Place(offers []Offer) (Layout, error) {
	capacity := make([]int, len(offers))
	for i, o := range offers {
		capacity[i] = min(o.Slots, MaxRanks+1)
		if j.PerHost > 0 && o.Slots > 0 {
			capacity[i] = min(j.PerHost, MaxRanks+1)
		}
	}
	need, err := j.ranksWanted(capacity)
	if err != nil {
		return Layout{}, err
	}
	if need > MaxRanks {
		return Layout{}, j.slotsError(need, offers)
	}
	count, left := fill(need, capacity)
	if left > 0 && j.PerHost == 0 {
		left = j.spread(count, left, offers)
	}
	if left > 0 || !j.allowed(count, offers) {
		return Layout{}, j.slotsError(need, offers)
	}
	return j.lay(count), nil
}

// ranksWanted is the job's size. One App without a count takes what the others leave.
func (j Job) ranksWanted(capacity []int) (int, error) {
	total, open := 0, 0
	for _, a := range j.Apps {
		total += a.NP
		if a.NP == 0 {
			open++
		}
	}
	if open == 0 {
		return total, nil
	}
	if open > 1 || len(j.Apps) > 1 {
		return 0, fmt.Errorf("with several programs each needs its own -np")
	}
	sum := 0
	for _, c := range capacity {
		sum += c
	}
	return sum, nil
}

// fill gives each host up to its capacity, in order.
func fill(need int, capacity []int) (count []int, left int) {
	count = make([]int, len(capacity))
	for i, c := range capacity {
		count[i] = min(c, need)
		need -= count[i]
	}
	return count, need
}

// spread adds ranks beyond the slots one by one to the hosts in turn, as far as
// their limits go, and returns how many found no place.
func (j Job) spread(count []int, left int, offers []Offer) int {
	for placed := true; left > 0 && placed; {
		placed = false
		for i, o := range offers {
			if left > 0 && count[i] < j.limit(o) {
				count[i]++
				left--
				placed = true
			}
		}
	}
	return left
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

func (j Job) allowed(count []int, offers []Offer) bool {
	total := 0
	for i, o := range offers {
		if count[i] > j.limit(o) {
			return false
		}
		total += count[i]
	}
	return total > 0 && total <= MaxRanks
}

// lay numbers the ranks host by host and hands out the programs in order.
func (j Job) lay(count []int) Layout {
	l := Layout{Count: count}
	app, ofApp := 0, 0
	for h, n := range count {
		for local := range n {
			for app < len(j.Apps)-1 && ofApp == j.Apps[app].NP {
				app, ofApp = app+1, 0
			}
			l.Ranks = append(l.Ranks, Place{Host: h, Local: local, App: app})
			ofApp++
		}
	}
	return l
}

func (j Job) slotsError(need int, offers []Offer) error {
	e := &SlotsError{Need: need, PerHost: j.PerHost}
	for _, o := range offers {
		offer := j.limit(o)
		if j.PerHost > 0 && j.PerHost <= offer {
			offer = j.PerHost
		}
		e.Have = min(e.Have+min(offer, MaxRanks), MaxRanks)
		e.Hosts = append(e.Hosts, HostSlots{Name: o.Name, Slots: max(o.Slots, o.Limit), Origin: o.Origin})
	}
	return e
}
