package launcher

import (
	"fmt"
	"slices"
	"sort"

	"gorun/hostfile"
)

// Ways says what, each by itself, would have ranks fit that do not. The zero value of one
// is that it would not help.
type Ways struct {
	PerHost   int  // so many ranks per host instead
	NoPerHost bool // no number of ranks per host
	Ranks     int  // the most ranks that the program can have
	Hosts     int  // so many more hosts with slots enough
	Over      bool // more ranks than slots
}

// ways finds what would have the job fit on offers, on which it does not, as e says.
func (j Job) ways(e *SlotsError, offers []Offer) Ways {
	if e.Need > MaxRanks {
		return Ways{}
	}
	fits := func(change func(*Job), more ...Offer) bool {
		trial := j
		trial.Apps = slices.Clone(j.Apps)
		change(&trial)
		_, err := trial.layRanks(append(slices.Clone(offers), more...))
		return err == nil
	}
	np := j.Apps[e.App].NP
	w := Ways{
		Ranks: sort.Search(max(np-1, 0), func(n int) bool { return !fits(func(j *Job) { j.Apps[e.App].NP = n + 1 }) }),
		Over:  !j.Oversubscribe && fits(func(j *Job) { j.Oversubscribe = true }),
	}
	if j.PerHost > 0 {
		w.NoPerHost = fits(func(j *Job) { j.PerHost = 0 })
		for _, n := range j.perHostTrials(e.Need, offers) {
			if w.PerHost == 0 && fits(func(j *Job) { j.PerHost = n }) {
				w.PerHost = n
			}
		}
	}
	if more := j.lacking(e.Need, offers); np > 0 && fits(func(j *Job) { j.Apps[e.App].admit(more) }, more...) {
		w.Hosts = len(more)
	}
	return w
}

// perHostTrials are the numbers of ranks per host that may do for need ranks of a program:
// as few as the hosts can share evenly, or what some host has slots for.
func (j Job) perHostTrials(need int, offers []Offer) []int {
	const most = 32
	var slots []int
	for _, o := range offers {
		if o.Slots > 0 {
			slots = append(slots, max(min(max(o.Slots, o.Limit), MaxRanks)/len(j.Apps), 1))
		}
	}
	if len(slots) == 0 {
		return nil
	}
	even := (need + len(slots) - 1) / len(slots)
	slices.Sort(slots)
	slots = slices.Compact(slots)
	return append([]int{even}, slots[:min(len(slots), most)]...)
}

// lacking are as many hosts, with more slots than they may need, as would be enough for
// need ranks beside the offers.
func (j Job) lacking(need int, offers []Offer) []Offer {
	n := 1
	if j.PerHost > 0 {
		n = (need + j.PerHost - 1) / j.PerHost
		for _, o := range offers {
			n -= min(o.Slots, 1)
		}
	}
	var more []Offer
	for i := range max(n, 1) {
		more = append(more, Offer{Name: fmt.Sprintf("+%d", i), Slots: MaxRanks, Limit: MaxRanks}) // no host's name begins so
	}
	return more
}

// admit adds hosts to the list of those that a may use, if it has one.
func (a *App) admit(more []Offer) {
	if len(a.Hosts) == 0 {
		return
	}
	a.Hosts = slices.Clone(a.Hosts)
	for _, o := range more {
		a.Hosts = append(a.Hosts, hostfile.Host{Name: o.Name, Slots: -1})
	}
}
