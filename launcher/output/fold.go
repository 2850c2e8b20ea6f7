package output

import (
	"slices"
	"sort"
	"time"
)

const (
	foldFor   = time.Second // how long a line waits for other ranks to say the same
	maxFolded = 1 << 20     // bytes of lines that wait
	maxGroups = 4 << 10     // of them
)

// folder joins equal lines of one stream of many ranks. It does no I/O and reads no
// clock.
//
// Lines wait in groups. A rank's line joins the first group of the same text behind the
// rank's newest group, so that every rank's lines keep their order, or it begins a new
// group. Groups leave in order: the oldest when no living rank can join it any more, as
// each is in it or further, or has ended; or when it has waited for foldFor; or when too
// much waits. So a rank that lags holds nothing up for longer than that.
//
// Ranks print in bursts, of which some lines are their own ("rank 3 is on cuda:3") and
// others common. For the common ones to be joined, a new group must not go behind those
// that its rank will join next. Where that is its step tells: the number of the rank's
// line, made equal again whenever ranks say the same. A new group goes behind its rank's
// newest, and behind what follows there of an earlier step, or of a lower rank's same one.
type folder struct {
	ranks  int
	newest []*group // by rank: the last group that it joined; nil: none
	step   []int    // by rank: that of its last line
	ended  []bool   // by rank

	groups []*group // that wait, the next to leave first
	left   int      // how many have left
	byText map[string][]*group
	behind int // living ranks that may still join the first
	bytes  int // of lines that wait
}

// group is a line and the ranks that gave it.
type group struct {
	text  string
	ranks rankSet
	place int // among all groups that ever were
	step  int
	first int       // the rank that began it
	since time.Time // not later than that of groups behind it
	at    int64     // when its first line came, as in a record
	heads int       // living ranks whose newest group this is
}

func newFolder(ranks int) *folder {
	return &folder{
		ranks: ranks, newest: make([]*group, ranks), step: make([]int, ranks), ended: make([]bool, ranks),
		byText: map[string][]*group{}, behind: ranks,
	}
}

// next returns the place behind the newest group of rank that waits.
func (f *folder) next(rank int) int {
	if g := f.newest[rank]; g != nil && g.place >= f.left {
		return g.place + 1
	}
	return f.left
}

// add takes a line of a rank, without its '\n'.
func (f *folder) add(rank int, line []byte, at int64, now time.Time) {
	next := f.next(rank)
	same := f.byText[string(line)]
	i := sort.Search(len(same), func(i int) bool { return same[i].place >= next })
	var g *group
	if i < len(same) {
		g = same[i]
	} else {
		g = &group{text: string(line), step: f.step[rank] + 1, first: rank, since: now, at: at}
		f.insert(g, next)
	}
	f.leave(rank)
	g.ranks.add(rank, f.ranks)
	f.newest[rank], f.step[rank] = g, g.step
	if !f.ended[rank] {
		g.heads++
	}
}

// before reports whether g should leave before other, if nothing else is known.
func (g *group) before(other *group) bool {
	return g.step < other.step || g.step == other.step && g.first < other.first
}

// insert puts g at the place next, or behind groups there that should leave before it.
func (f *folder) insert(g *group, next int) {
	i := next - f.left
	for i < len(f.groups) && f.groups[i].before(g) {
		i++
	}
	if i < len(f.groups) {
		g.since = f.groups[i].since
	}
	f.groups = slices.Insert(f.groups, i, g)
	for ; i < len(f.groups); i++ {
		f.groups[i].place = f.left + i
	}
	same := f.byText[g.text] // all of them are before next
	f.byText[g.text] = append(same, g)
	f.bytes += len(g.text)
}

// leave takes a living rank out of the count that it is in.
func (f *folder) leave(rank int) {
	g := f.newest[rank]
	switch {
	case f.ended[rank]:
	case g != nil && g.place >= f.left:
		g.heads--
	default:
		f.behind--
	}
}

// end says that nothing more comes of a rank.
func (f *folder) end(rank int) {
	f.leave(rank)
	f.ended[rank] = true
}

// take takes the first group out if it is to leave, or if all are; nil if not.
func (f *folder) take(now time.Time, all bool) *group {
	if len(f.groups) == 0 {
		return nil
	}
	g := f.groups[0]
	full := f.bytes > maxFolded || len(f.groups) > maxGroups
	if !all && !full && f.behind > 0 && now.Before(g.since.Add(foldFor)) {
		return nil
	}
	if same := f.byText[g.text]; len(same) > 1 {
		f.byText[g.text] = same[1:]
	} else {
		delete(f.byText, g.text)
	}
	f.groups[0] = nil
	f.groups = f.groups[1:]
	f.left++
	f.behind += g.heads
	f.bytes -= len(g.text)
	return g
}

// look returns when the first group has waited long enough; zero: there is none.
func (f *folder) look() time.Time {
	if len(f.groups) == 0 {
		return time.Time{}
	}
	return f.groups[0].since.Add(foldFor)
}
