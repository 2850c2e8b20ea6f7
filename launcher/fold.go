package launcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorun/launcher/wire"
)

// maxGroups bounds the lines of a picture's text.
const maxGroups = 24

// lines writes a picture: its headline, one line for all ranks that do the same, and
// what the store and silent hosts add.
func (p *Picture) lines(limit time.Duration) []string {
	out := []string{fmt.Sprintf("%s, %s after the start: %s", p.When, age(p.At), p.Headline)}
	groups := fold(p.Ranks)
	for i, g := range groups {
		if i == maxGroups && len(groups) > maxGroups+1 {
			out = append(out, fmt.Sprintf("  and %d more groups of ranks; --result FILE keeps all", len(groups)-i))
			break
		}
		out = append(out, "  "+g.text(p.Ranks))
	}
	for _, s := range p.Store {
		out = append(out, "  "+s)
	}
	if len(p.Silent) > 0 {
		out = append(out, fmt.Sprintf("  no answer within %s: %s", age(limit), someOf(p.Silent)))
	}
	return out
}

// group is ranks that do the same; the first is an example.
type group []int

// fold groups ranks that are equal in all but numbers and peers, ordered by their first.
func fold(ranks []RankPicture) []group {
	by := map[string]group{}
	for i, r := range ranks {
		key := r.alike()
		by[key] = append(by[key], i)
	}
	return slices.SortedFunc(maps.Values(by), func(a, b group) int { return cmp.Compare(a[0], b[0]) })
}

// alike is the same for ranks that are told of in one line.
func (r RankPicture) alike() string {
	parts := append([]string{r.Doing, r.Text, r.Program}, storeNames(r)...)
	if r.Doing != doingWork && len(r.Store) == 0 { // else where it is seen is chance
		parts = append(parts, r.State, r.Call, r.File, r.Channel)
	}
	for _, k := range linkKinds() {
		if k.rare && slices.ContainsFunc(r.links, k.is) {
			parts = append(parts, k.text)
		}
	}
	return strings.Join(parts, "|")
}

// storeNames are what the rank waits for in the store, without for how long.
func storeNames(r RankPicture) []string {
	var out []string
	for _, s := range r.Store {
		if i := strings.LastIndex(s, " for "); i >= 0 {
			out = append(out, s[:i])
		}
	}
	return out
}

// text is the line of a group.
func (g group) text(ranks []RankPicture) string {
	first := ranks[g[0]]
	parts := []string{g.state(ranks)}
	if first.Doing != doingEnded && first.Doing != doingUnknown {
		parts = append(parts, g.size(ranks)...)
		parts = append(parts, g.store(ranks)...)
		parts = append(parts, g.net(ranks)...)
	}
	parts = append(parts, g.output(ranks)...)
	return who(ranks, g) + ": " + strings.Join(parts, "; ")
}

func (g group) state(ranks []RankPicture) string {
	first := ranks[g[0]]
	channel := ""
	if first.Channel != "" && first.Call != "" {
		channel = " [" + first.Channel + "]"
	}
	used := cpuText(ranks, g)
	switch first.Doing {
	case doingEnded, doingUnknown:
		return first.Text
	case doingStopped:
		by := "a signal"
		if first.State == "t" {
			by = "a debugger"
		}
		return fmt.Sprintf("stopped by %s (state %s)", by, first.State)
	case doingStuck:
		return "stuck in the kernel (state D)" + place(first) + channel + ", " + used
	case doingStarved:
		return "ready to run, but without CPU time, " + used
	case doingWork:
		return "working, " + used
	}
	where := place(first)
	if slices.ContainsFunc(g, func(n int) bool { return place(ranks[n]) != where || ranks[n].Channel != first.Channel }) {
		return "sleeping, " + used
	}
	if peers := g.peers(ranks, func(l link) bool { return l.waited }); peers != "" {
		where = strings.Replace(where, " of a socket", " of a connection to "+peers, 1)
	}
	return "sleeping" + where + channel + ", " + used
}

// size is "3 processes" and "8-12 threads", if there is more than one.
func (g group) size(ranks []RankPicture) []string {
	var out []string
	for _, x := range []struct {
		noun string
		n    func(RankPicture) int
	}{{"processes", func(r RankPicture) int { return r.Processes }}, {"threads", func(r RankPicture) int { return r.Threads }}} {
		low, high := x.n(ranks[g[0]]), 0
		for _, n := range g {
			low, high = min(low, x.n(ranks[n])), max(high, x.n(ranks[n]))
		}
		if high > 1 {
			out = append(out, span(low, high)+" "+x.noun)
		}
	}
	if len(out) == 2 {
		return []string{out[0] + ", " + out[1]}
	}
	return out
}

// storeText is "in barrier x" or "waiting for key x".
func storeText(name string) string {
	if key, ok := strings.CutPrefix(name, "get "); ok {
		return "waiting for key " + key
	}
	return "in " + name
}

func (g group) store(ranks []RankPicture) []string {
	var out []string
	for i, name := range storeNames(ranks[g[0]]) {
		text := storeText(name)
		if len(g) == 1 {
			text += strings.TrimPrefix(ranks[g[0]].Store[i], name)
		}
		out = append(out, text)
	}
	return out
}

// net says where the ranks listen, and how their connections are.
func (g group) net(ranks []RankPicture) []string {
	var out []string
	if l := ranks[g[0]].Listens; len(g) == 1 && len(l) > 0 {
		out = append(out, "listening on "+someOf(l))
	}
	return append(out, g.connections(ranks)...)
}

// linkKind is something that a connection can be.
type linkKind struct {
	text string
	is   func(link) bool
	rare bool // it tells its rank apart from others
}

func linkKinds() []linkKind {
	return []linkKind{
		{"connected to", func(l link) bool { return l.state == "" }, false},
		{"not yet connected to", func(l link) bool { return l.state == wire.ConnOpening }, true},
		{"connection closed by", func(l link) bool { return l.state == wire.ConnClosed }, true},
		{"data not taken by", func(l link) bool { return l.unsent }, true},
		{"data not read from", func(l link) bool { return l.unread }, true},
	}
}

// connections says how the ranks' connections are, and to whom.
func (g group) connections(ranks []RankPicture) []string {
	var out []string
	if !slices.ContainsFunc(g, func(n int) bool { return len(ranks[n].links)+ranks[n].more > 0 }) {
		return nil
	}
	for _, k := range linkKinds() {
		if peers := g.peers(ranks, k.is); peers != "" {
			out = append(out, k.text+" "+peers)
		}
	}
	more := 0
	for _, n := range g {
		more += ranks[n].more
	}
	if more > 0 {
		out = append(out, count(more, "more connection"))
	}
	return out
}

// peers names who is at the other end of those of the group's connections that is picks.
func (g group) peers(ranks []RankPicture, is func(link) bool) string {
	known, others := map[int]bool{}, map[string]bool{}
	for _, n := range g {
		for _, l := range ranks[n].links {
			if !is(l) {
				continue
			}
			for _, r := range l.ranks {
				known[r] = true
			}
			if l.other != "" {
				others[l.other] = true
			}
		}
	}
	var parts []string
	switch list := slices.Sorted(maps.Keys(known)); {
	case len(list) == 1:
		parts = append(parts, who(ranks, list))
	case len(list) > 0:
		parts = append(parts, "ranks "+spans(list))
	}
	if len(others) > 0 {
		parts = append(parts, someOf(slices.Sorted(maps.Keys(others))))
	}
	return strings.Join(parts, " and ")
}

// output says when the ranks last printed, and what.
func (g group) output(ranks []RankPicture) []string {
	var low, high time.Duration = -1, -1
	silent, same := 0, true
	example := ranks[g[0]]
	for _, n := range g {
		r := ranks[n]
		if r.OutputAge < 0 {
			silent++
			continue
		}
		if low < 0 || r.OutputAge < low {
			low = r.OutputAge
		}
		if high < r.OutputAge {
			high = r.OutputAge
		}
		same = same && r.LastLine == example.LastLine
		if example.OutputAge < 0 {
			example, same = r, n == g[0]
		}
	}
	if silent == len(g) {
		return []string{"no output"}
	}
	text := "last output " + age(high) + " ago"
	if a, b := age(low), age(high); a != b {
		text = fmt.Sprintf("last output %s to %s ago", a, b)
	}
	if silent > 0 {
		text += fmt.Sprintf(" (%d have printed nothing)", silent)
		same = false
	}
	switch {
	case example.LastLine == "":
	case same:
		text += fmt.Sprintf(": %q", example.LastLine)
	default:
		text += fmt.Sprintf(", of rank %d: %q", example.Rank, example.LastLine)
	}
	return []string{text}
}
