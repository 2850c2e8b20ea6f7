package preflight

import (
	"strings"

	"gorun/preflight/probe"
)

// Traffic is rails that one host is to try to another. Both are indexes of Input.Hosts.
type Traffic struct {
	From, To int
	Rails    []probe.Rail
}

// PlanTraffic says between which of in's hosts RDMA is to be tried, once their facts are
// known, in rounds, of which each host is in one pair at most: from each host to the next
// one, the last one's being the first, on all rails that NCCL would use. So every HCA
// sends once and receives once, with two different partners if there are three hosts.
// Hosts without perftest, or with another number of rails than most, are left out.
func PlanTraffic(in Input) [][]Traffic {
	v := newView(in)
	f, skip := v.fabric()
	if skip != "" {
		return nil
	}
	var hosts []int
	for _, i := range f.complete() {
		if in.Hosts[i].Facts.RDMA.Perftest != "" {
			hosts = append(hosts, i)
		}
	}
	n := len(hosts)
	if n < 2 {
		return nil
	}
	rounds := make([][]Traffic, 2+n%2)
	for k, i := range hosts {
		round, next := k%2, hosts[(k+1)%n]
		if k == n-1 && n%2 == 1 {
			round = 2
		}
		rounds[round] = append(rounds[round], Traffic{From: i, To: next, Rails: f.railsBetween(i, next)})
	}
	return rounds
}

// railsBetween pairs the rails of two hosts by their places.
func (f fabric) railsBetween(from, to int) []probe.Rail {
	var rails []probe.Rail
	a, b := f.rails(from), f.rails(to)
	for p := range min(len(a), len(b)) {
		rails = append(rails, probe.Rail{Place: p, From: railPort(&f.Hosts[from], a[p]), To: railPort(&f.Hosts[to], b[p])})
	}
	return rails
}

// railPort is how NCCL would use a port.
func railPort(h *Host, r rail) probe.RailPort {
	p := probe.RailPort{Device: r.hca.Name, Port: r.port.Num, GID: -1}
	if r.port.Layer == ethernet {
		p.GID = gidSettings(h.Settings).choose(r.port)
	}
	p.SL = max(0, intSetting(h.Settings, "NCCL_IB_SL", 0))
	p.TClass = max(0, intSetting(h.Settings, "NCCL_IB_TC", 0))
	return p
}

// withoutPerftest names the hosts of the fabric that cannot try RDMA: "perftest is not
// installed on gpu01"; "" if there is none.
func (f fabric) withoutPerftest() string {
	var lack []int
	for _, i := range f.complete() {
		missing := f.Hosts[i].Facts.RDMA.Perftest == ""
		for _, l := range f.Hosts[i].Rails {
			missing = missing || l.Failure == probe.NoProgram && !l.There
		}
		if missing {
			lack = append(lack, i)
		}
	}
	if len(lack) == 0 {
		return ""
	}
	return "perftest is not installed on " + f.fold(lack)
}

// railWay is a rail between two hosts that was tried.
type railWay struct {
	from, to int
	link     *probe.RailLink
}

// railWays lists what was tried between hosts of the fabric.
func (f fabric) railWays() []railWay {
	in := make([]bool, len(f.Hosts))
	for _, i := range f.hosts {
		in[i] = true
	}
	var all []railWay
	for _, i := range f.hosts {
		for k := range f.Hosts[i].Rails {
			l := &f.Hosts[i].Rails[k]
			if l.Host >= 0 && l.Host < len(in) && l.Host != i && in[l.Host] && l.Failure != probe.NoProgram {
				all = append(all, railWay{i, l.Host, l})
			}
		}
	}
	return all
}

// byPlace groups ways by rail, in the order of places.
func byPlace(all []railWay) [][]railWay {
	var places [][]railWay
	at := map[int]int{}
	for _, w := range all {
		k, ok := at[w.link.Place]
		if !ok {
			k = len(places)
			at[w.link.Place] = k
			places = append(places, nil)
		}
		places[k] = append(places[k], w)
	}
	return places
}

// device is what a way's end is called on a host.
func (w railWay) device(host int) string {
	if host == w.from {
		return w.link.From
	}
	return w.link.To
}

// tell writes a way for people: "gpu01 mlx5_3 -> gpu02 mlx5_3: …".
func (f fabric) tellRail(w railWay, what string) string {
	names := []string{f.Hosts[w.from].Name, w.link.From, "->", f.Hosts[w.to].Name, w.link.To}
	return strings.Join(names, " ") + ": " + what
}

// railBlame is who explains bad ways of one rail.
type railBlame struct {
	hosts []int // each with the ways that it explains
	ways  [][]railWay
	rest  []railWay // that nobody explains
	most  bool      // more are bad than a minority of hosts explains: all is in rest
}

// blameRails explains the bad ways of one rail by hosts. A host may be blamed if it is bad
// with two partners or more, and good with none. It is if that explains a way whose other
// end may not be blamed. Less than half of the hosts are.
func blameRails(all []railWay, bad func(railWay) bool) (b railBlame) {
	partners, failed := map[int]map[int]bool{}, map[int]map[int]bool{}
	good, n := map[int]bool{}, 0
	for _, w := range all {
		n = max(n, w.from+1, w.to+1)
		note(partners, w)
		if bad(w) {
			note(failed, w)
			b.rest = append(b.rest, w)
			continue
		}
		good[w.from], good[w.to] = true, true
	}
	may := func(i int) bool { return len(failed[i]) >= 2 && !good[i] }
	guilty := map[int]bool{}
	for _, w := range b.rest {
		if may(w.from) != may(w.to) {
			guilty[w.from], guilty[w.to] = guilty[w.from] || may(w.from), guilty[w.to] || may(w.to)
		}
	}
	for i := range n {
		if guilty[i] {
			b.hosts = append(b.hosts, i)
		}
	}
	left := make([]railWay, 0, len(b.rest))
	b.ways = make([][]railWay, len(b.hosts))
	for _, w := range b.rest {
		explained := false
		for k, i := range b.hosts {
			if w.from == i || w.to == i {
				b.ways[k], explained = append(b.ways[k], w), true
			}
		}
		if !explained {
			left = append(left, w)
		}
	}
	few := 2*len(b.hosts) < len(partners)
	b.most = len(b.rest) > 2 && 2*len(b.rest) > len(all) && (!few || len(left) > 0)
	if b.most || !few {
		b.hosts, b.ways = nil, nil
		return b
	}
	b.rest = left
	return b
}

func note(partners map[int]map[int]bool, w railWay) {
	for _, x := range [2][2]int{{w.from, w.to}, {w.to, w.from}} {
		if partners[x[0]] == nil {
			partners[x[0]] = map[int]bool{}
		}
		partners[x[0]][x[1]] = true
	}
}
