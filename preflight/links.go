package preflight

import (
	"fmt"
	"slices"

	"gorun/preflight/probe"
)

// way is a direction between two hosts that was tried.
type way struct {
	from, to int
	link     *probe.Link
}

// ways is what was tried between hosts, and which of it failed.
type ways struct {
	*view
	all    []way
	failed []way
	bad    map[*probe.Link]bool
}

// ways collects the links between hosts that are reached, as far as tried says that they
// tell something, and those of them that bad says are bad.
func (v *view) ways(tried, bad func(*probe.Link) bool) ways {
	w := ways{view: v, bad: map[*probe.Link]bool{}}
	reached := make([]bool, len(v.Hosts))
	for _, i := range v.reached {
		reached[i] = true
	}
	for _, i := range v.reached {
		for k := range v.Hosts[i].Links {
			link := &v.Hosts[i].Links[k]
			to := link.Host
			if to < 0 || to >= len(v.Hosts) || to == i || !reached[to] || !tried(link) {
				continue
			}
			x := way{i, to, link}
			w.all = append(w.all, x)
			if bad(link) {
				w.failed = append(w.failed, x)
				w.bad[link] = true
			}
		}
	}
	return w
}

// end is one end of ways: a host as that from which they lead, or to which.
type end struct {
	host int
	in   bool
}

func (x way) ends() [2]end { return [2]end{{x.from, false}, {x.to, true}} }

// blamed are the failed ways that one host explains.
type blamed struct {
	host int
	in   bool // ways to it failed
	out  bool // ways from it failed
	ways []way
}

// blame explains failed ways by hosts: again and again by the end at which most ways
// fail that are not explained yet, as long as all that were tried there do, or more than
// half of four or more, from two hosts at least. The others are pairs of which nobody
// knows who is wrong.
func (w ways) blame() (hosts []blamed, pairs []way) {
	tried, bad := map[end]int{}, map[end][]int{}
	for _, x := range w.all {
		for _, e := range x.ends() {
			tried[e]++
		}
	}
	for k, x := range w.failed {
		for _, e := range x.ends() {
			bad[e] = append(bad[e], k)
		}
	}
	explained := make([]bool, len(w.failed))
	left := map[end]int{}
	for e, ks := range bad {
		left[e] = len(ks)
	}
	for {
		worst, ok := worstEnd(left, tried)
		if !ok {
			break
		}
		var mine []way
		for _, k := range bad[worst] {
			if explained[k] {
				continue
			}
			explained[k] = true
			mine = append(mine, w.failed[k])
			for _, e := range w.failed[k].ends() {
				left[e]--
				tried[e]--
			}
		}
		hosts = addBlamed(hosts, worst, mine)
	}
	for k, x := range w.failed {
		if !explained[k] {
			pairs = append(pairs, x)
		}
	}
	slices.SortFunc(hosts, func(a, b blamed) int { return a.host - b.host })
	return hosts, pairs
}

// worstEnd returns the end with the most failed ways of those that may be blamed.
func worstEnd(left, tried map[end]int) (worst end, ok bool) {
	for e, n := range left {
		all := tried[e]
		if n < 2 || n < all && (all < 4 || 2*n <= all) {
			continue
		}
		if !ok || n > left[worst] || n == left[worst] && (e.host < worst.host || e.host == worst.host && e.in && !worst.in) {
			worst, ok = e, true
		}
	}
	return worst, ok
}

func addBlamed(hosts []blamed, e end, mine []way) []blamed {
	k := slices.IndexFunc(hosts, func(b blamed) bool { return b.host == e.host })
	if k < 0 {
		k = len(hosts)
		hosts = append(hosts, blamed{host: e.host})
	}
	b := &hosts[k]
	b.in, b.out, b.ways = b.in || e.in, b.out || !e.in, append(b.ways, mine...)
	return hosts
}

// alikeBlamed puts hosts together that are blamed for the same directions and reason.
func alikeBlamed(hosts []blamed, reason func(blamed) string) [][]blamed {
	var all [][]blamed
	at := map[string]int{}
	for _, b := range hosts {
		key := fmt.Sprint(b.in, b.out, reason(b))
		k, ok := at[key]
		if !ok {
			k = len(all)
			at[key] = k
			all = append(all, nil)
		}
		all[k] = append(all[k], b)
	}
	return all
}

func joinBlamed(alike []blamed) (hosts []int, all []way) {
	for _, b := range alike {
		hosts, all = append(hosts, b.host), append(all, b.ways...)
	}
	return hosts, all
}

// tell writes a way for people: "n02 -> n07: no answer within 3s (reverse ok)".
func (w ways) tell(x way, what string) string {
	return fmt.Sprintf("%s -> %s: %s%s", w.Hosts[x.from].Name, w.Hosts[x.to].Name, what, w.reverse(x))
}

// reverse says how the other direction is, if it was tried.
func (w ways) reverse(x way) string {
	for k := range w.Hosts[x.to].Links {
		link := &w.Hosts[x.to].Links[k]
		switch {
		case link.Host != x.from:
		case w.bad[link]:
			return " (reverse too)"
		case link.Failure == "":
			return " (reverse ok)"
		}
	}
	return ""
}

// mostWays is how many ways a finding tells by name.
const mostWays = 12

// evidence tells ways, each by what of says.
func (w ways) evidence(all []way, of func(*probe.Link) string) []string {
	var lines []string
	for k, x := range all {
		if k == mostWays && len(all) > mostWays+1 {
			return append(lines, fmt.Sprintf("and %d more", len(all)-k))
		}
		lines = append(lines, w.tell(x, of(x.link)))
	}
	return lines
}
