package preflight

import (
	"fmt"
	"slices"
)

// selection is the work of Decide. Hosts are indexes.
type selection struct {
	Shape
	hosts []string
	spare []bool
	bad   []bool

	planned int // ranks if all were good
	use     []place
	idle    []int
	ranks   int
	full    bool   // spares fill the places of all that are bad
	reason  string // why what remains is not enough; "" it is
}

// place is a host that is used.
type place struct {
	host, slots int
	instead     int // the host whose place it takes; itself; -1 nobody's
}

func newSelection(r Report, s Shape, strict bool) *selection {
	c := &selection{Shape: s, hosts: r.Hosts, spare: make([]bool, len(r.Hosts)), bad: make([]bool, len(r.Hosts))}
	bad := badHosts(r.Findings, strict)
	used := slices.ContainsFunc(s.Ranks, func(n int) bool { return n > 0 })
	for i, name := range c.hosts {
		c.bad[i] = bad[name]
		c.spare[i] = i >= len(c.hosts)-s.Spares || used && (i >= len(s.Ranks) || s.Ranks[i] == 0)
	}
	return c
}

func (c *selection) slots(i int) int {
	if i < len(c.Slots) {
		return c.Slots[i]
	}
	return 1
}

// misfit says what is wrong with the shape even if every host is good.
func (c *selection) misfit() string {
	listed := count(len(c.hosts), "host")
	switch main := len(c.hosts) - c.Spares; {
	case len(c.hosts) == 0:
		return "there is no host"
	case main <= 0:
		return fmt.Sprintf("--spares %d leaves no host to run on: %s listed", c.Spares, listed)
	case c.MinHosts > main && c.Spares > 0:
		return fmt.Sprintf("--min-hosts %d cannot be met: %s listed, %d of them as spares", c.MinHosts, listed, c.Spares)
	case c.MinHosts > main:
		return fmt.Sprintf("--min-hosts %d cannot be met: %s listed", c.MinHosts, listed)
	}
	return ""
}

// choose finds the hosts to use and the number of ranks, or the reason why there are none.
func (c *selection) choose() {
	var all []place
	for i := range c.hosts {
		if !c.spare[i] {
			all = append(all, place{i, c.slots(i), i})
		}
	}
	c.planned = c.fit(total(all), total(all))
	c.fill(all)
	good, offered := len(c.use), total(c.use)
	c.ranks = c.fit(offered, total(all))
	if c.Fixed == 0 && c.Multiple > 1 {
		c.shrink()
	}
	for i := range c.hosts {
		if !c.bad[i] && !slices.ContainsFunc(c.use, func(p place) bool { return p.host == i }) {
			c.idle = append(c.idle, i)
		}
	}
	switch {
	case good == 0:
		c.reason = "no host is left that could be used"
	case c.ranks <= 0 && c.Multiple > 1 && c.Multiple == c.Fixed:
		c.reason = fmt.Sprintf("the job has %s, and the good hosts offer %s", count(c.Fixed, "rank"), count(offered, "slot"))
	case c.ranks <= 0 && c.Multiple > 1:
		c.reason = fmt.Sprintf("ranks must be a multiple of %d, and the good hosts offer %s", c.Multiple, count(offered, "slot"))
	case c.ranks <= 0:
		c.reason = "the good hosts offer no slots"
	case len(c.use) < c.MinHosts:
		c.reason = fmt.Sprintf("%s would be used, and --min-hosts asks for %d", count(len(c.use), "good host"), c.MinHosts)
	}
}

// fit is how many ranks so many slots hold, of planned slots at first. A job that asked
// for more ranks than slots at first does not mind.
func (c *selection) fit(slots, planned int) int {
	if c.Fixed > 0 && (slots >= c.Fixed || c.Fixed > planned && slots > 0) {
		return c.Fixed
	}
	if c.Multiple > 1 {
		return slots - slots%c.Multiple
	}
	return slots
}

// fill puts the good hosts of all into use, spares in the place of the others, and more
// spares while slots lack.
func (c *selection) fill(all []place) {
	var free []int
	for i := range c.hosts {
		if c.spare[i] && !c.bad[i] {
			free = append(free, i)
		}
	}
	for _, p := range all {
		if c.bad[p.host] {
			best := c.standIn(free, p.slots)
			if best < 0 {
				continue
			}
			spare := free[best]
			free = slices.Delete(free, best, best+1)
			p = place{spare, min(p.slots, c.slots(spare)), p.host}
		}
		c.use = append(c.use, p)
	}
	c.full = len(c.use) == len(all)
	for c.lacks(all) && len(free) > 0 {
		c.use = append(c.use, place{free[0], min(c.slots(free[0]), total(all)-total(c.use)), -1})
		free = free[1:]
		c.full = c.full || total(c.use) >= total(all)
	}
}

// lacks reports whether slots that are needed are missing.
func (c *selection) lacks(all []place) bool {
	need := total(all)
	if c.Fixed > 0 {
		need = min(need, c.Fixed)
	}
	return total(c.use) < need
}

// standIn is the index in free of the first spare with so many slots, or else of the one
// with most; -1: none is left.
func (c *selection) standIn(free []int, slots int) int {
	best := -1
	for k, i := range free {
		if c.slots(i) >= slots {
			return k
		}
		if best < 0 || c.slots(i) > c.slots(free[best]) {
			best = k
		}
	}
	return best
}

// shrink leaves hosts idle that the ranks do not need: the last ones or, where that
// would leave a host half used, those without which the others have as many slots as
// there are ranks.
func (c *selection) shrink() {
	k, sum := 0, 0
	for ; k < len(c.use) && sum < c.ranks; k++ {
		sum += max(0, c.use[k].slots)
	}
	const most = 1 << 26 // that the search may look at
	if sum > c.ranks && len(c.use)*c.ranks < most {
		if kept, ok := exactly(c.use, c.ranks); ok {
			c.use = kept
			return
		}
	}
	c.use = c.use[:k]
}

// exactly finds places with so many slots in all, the first ones where several do.
func exactly(all []place, ranks int) ([]place, bool) {
	// can[k] holds which sums all[k:] can have.
	can := make([][]bool, len(all)+1)
	can[len(all)] = make([]bool, ranks+1)
	can[len(all)][0] = true
	for k := len(all) - 1; k >= 0; k-- {
		can[k] = slices.Clone(can[k+1])
		for sum := max(0, all[k].slots); sum <= ranks; sum++ {
			can[k][sum] = can[k][sum] || can[k+1][sum-max(0, all[k].slots)]
		}
	}
	if !can[0][ranks] {
		return nil, false
	}
	var kept []place
	for k, p := range all {
		if n := max(0, p.slots); n <= ranks && can[k+1][ranks-n] {
			kept, ranks = append(kept, p), ranks-n
		}
	}
	return kept, true
}

// whole reports whether the job is as it was planned, by spares.
func (c *selection) whole() bool { return c.full && c.ranks >= c.planned }

func total(places []place) (slots int) {
	for _, p := range places {
		slots += max(0, p.slots)
	}
	return slots
}

// decision has the lists of a Decision.
func (c *selection) decision() Decision {
	d := Decision{Ranks: c.ranks, Planned: c.planned}
	for i, name := range c.hosts {
		if c.bad[i] {
			d.Exclude = append(d.Exclude, name)
			if c.spare[i] {
				d.BadSpares = append(d.BadSpares, name)
			}
		}
	}
	for _, p := range c.use {
		d.Use, d.Slots = append(d.Use, c.hosts[p.host]), append(d.Slots, p.slots)
		switch {
		case p.instead < 0:
			d.StandIns = append(d.StandIns, Swap{By: c.hosts[p.host]})
		case p.instead != p.host:
			d.StandIns = append(d.StandIns, Swap{c.hosts[p.instead], c.hosts[p.host]})
		}
	}
	for _, i := range c.idle {
		d.Idle = append(d.Idle, c.hosts[i])
	}
	return d
}

// size says what the job then is: "15 hosts, 120 ranks instead of 128; gpu17 stands in".
func (c *selection) size() string {
	text := count(len(c.use), "host") + ", " + count(c.ranks, "rank")
	if c.ranks != c.planned {
		text += fmt.Sprintf(" instead of %d", c.planned)
	}
	if by := c.names(func(i int) bool { return c.spare[i] && c.uses(i) }); len(by) > 0 {
		text += ", " + list(by, "stands in", "stand in")
	}
	if bad := c.names(func(i int) bool { return c.spare[i] && c.bad[i] }); len(bad) > 0 {
		text += ", " + list(bad, "is no use as a spare", "are no use as spares")
	}
	if over := c.names(func(i int) bool { return !c.spare[i] && slices.Contains(c.idle, i) }); len(over) > 0 {
		text += fmt.Sprintf(", %s idle since ranks must be a multiple of %d", list(over, "stays", "stay"), c.Multiple)
	}
	return text
}

func (c *selection) uses(i int) bool {
	return slices.ContainsFunc(c.use, func(p place) bool { return p.host == i })
}

func (c *selection) names(of func(int) bool) (names []string) {
	for i, name := range c.hosts {
		if of(i) {
			names = append(names, name)
		}
	}
	return names
}
