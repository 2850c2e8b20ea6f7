package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/rendezvous"
)

// headline says in one sentence where the job hangs, or that it does not. Who is waited
// for by others and waits for nobody is the one to look at; where nothing tells who waits
// for whom, it is the one that does something else than most. That ranks wait for rank 0
// where PyTorch's meet tells only that some have not come there: it waits for those itself.
func headline(ranks []RankPicture, wanted []rendezvous.Wanted) string {
	waiting, roots := blame(ranks, wanted)
	if len(waiting) == 0 || slices.Equal(roots, []int{0}) {
		if here, late := meeting(ranks); len(late) > 0 {
			return fmt.Sprintf("%s wait for %s; MASTER_ADDR, where they meet, has no connection from there", who(ranks, here), which(ranks, late))
		}
	}
	if len(waiting) > 0 {
		if len(roots) == 0 {
			return fmt.Sprintf("stuck: %s wait for each other", who(ranks, waiting))
		}
		verb := "wait"
		if len(waiting) == 1 {
			verb = "waits"
		}
		return fmt.Sprintf("%s %s for %s", who(ranks, waiting), verb, which(ranks, roots))
	}
	by := map[string][]int{}
	for _, r := range ranks {
		by[r.Doing] = append(by[r.Doing], r.Rank)
	}
	held := slices.Sorted(slices.Values(slices.Concat(by[doingStopped], by[doingStuck], by[doingStarved])))
	work, sleep := by[doingWork], by[doingSleep]
	alive := len(held) + len(work) + len(sleep)
	rest := others(len(by[doingEnded]), "ended") + others(len(by[doingUnknown]), "out of sight")
	switch {
	case alive == 0:
		return "nothing is known of any rank that should run" + rest
	case len(held) > 0:
		return strings.ReplaceAll(which(ranks, held), ", which ", " ") + others(len(work), "working") + others(len(sleep), "sleeping") + rest
	case len(work) == 0:
		return allSleep(ranks, sleep) + rest
	case len(sleep) == 0:
		return allWork(ranks, work) + rest
	case !apart(ranks, work, sleep):
		both := slices.Sorted(slices.Values(slices.Concat(work, sleep)))
		return fmt.Sprintf("no rank stands out: %s use%s", allOf(ranks, both), " "+strings.Trim(effort(ranks, both), " ()")) + rest
	case 2*len(work) < alive:
		return odd(ranks, work, "working", "sleep", len(sleep)) + rest
	case 2*len(sleep) < alive:
		return odd(ranks, sleep, "sleeping", "work", len(work)) + rest
	}
	return fmt.Sprintf("%s are working (%s), %s are sleeping", who(ranks, work), cpuText(ranks, work), who(ranks, sleep)) + rest
}

// others counts those of whom a headline does not speak.
func others(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d %s", n, what)
}

// blame returns the ranks that wait for others, as far as is known, and those who are
// waited for and do not wait themselves.
func blame(ranks []RankPicture, wanted []rendezvous.Wanted) (waiting, roots []int) {
	used := make([]bool, len(wanted))
	target, waits := make([]bool, len(ranks)), make([]bool, len(ranks))
	for i, r := range ranks {
		if r.Doing != doingSleep {
			continue
		}
		for _, w := range r.wanted {
			used[w] = true
			waits[i] = waits[i] || len(wanted[w].From) > 0
		}
		for _, l := range r.links {
			for _, peer := range l.ranks {
				if l.blocks() {
					waits[i], target[peer] = true, true
				}
			}
		}
	}
	for i, w := range wanted {
		for _, rank := range w.From {
			target[rank] = target[rank] || used[i]
		}
	}
	for i := range ranks {
		if waits[i] {
			waiting = append(waiting, i)
		} else if target[i] {
			roots = append(roots, i)
		}
	}
	return waiting, roots
}

// meeting returns the ranks that may wait where PyTorch's meet, which are rank 0 and those
// with a connection to it there, and the ranks that have not come; none if some of the former
// do something else, or none has come but rank 0.
func meeting(ranks []RankPicture) (here, late []int) {
	for i, r := range ranks {
		switch {
		case r.unmet && i > 0:
			late = append(late, i)
		case i > 0 && !r.met:
		case r.Doing == doingSleep || r.Doing == doingStarved: // between two looks at whether all have come
			here = append(here, i)
		default:
			return nil, nil
		}
	}
	if len(here) < 2 {
		return nil, nil
	}
	return here, late
}

// How much more CPU time ranks use that surely do something else than others.
const (
	clearTimes = 3  // as much
	clearShare = 30 // percent of a CPU more
)

// apart reports whether it is sure that those at work do something else than those who
// sleep, and are not alike and met at different moments: they use clearly more CPU time,
// or print while the others have not for long.
func apart(ranks []RankPicture, work, sleep []int) bool {
	least, most := ranks[work[0]].CPU, 0
	talk, mute := true, true
	for _, n := range work {
		least = min(least, ranks[n].CPU)
		talk = talk && ranks[n].OutputAge >= 0 && ranks[n].OutputAge < 2*lookLimit
	}
	for _, n := range sleep {
		most = max(most, ranks[n].CPU)
		mute = mute && ranks[n].OutputAge >= longSilence
	}
	return least >= clearTimes*most && least >= most+clearShare || talk && mute
}

// odd names the few that do something else than most.
func odd(ranks []RankPicture, few []int, what, most string, many int) string {
	is, they := "is the odd one out", "it is"
	if len(few) > 1 {
		is, they = "are the odd ones out", "they are"
	}
	if what == "sleeping" {
		what += spot(ranks[few[0]])
	} else {
		what += effort(ranks, few)
	}
	return fmt.Sprintf("%s %s: %s %s, while %d others %s", who(ranks, few), is, they, what, many, most)
}

// allSleep: nobody works. The few that wait in another place than most may be why, unless
// they run now and then: then the place is of the moment only.
func allSleep(ranks []RankPicture, sleep []int) string {
	if len(sleep) == 1 {
		return who(ranks, sleep) + " sleeps" + spot(ranks[sleep[0]])
	}
	spots := map[string][]int{}
	for _, n := range sleep {
		spots[spot(ranks[n])] = append(spots[spot(ranks[n])], n)
	}
	few, many := sleep, sleep[:0]
	for _, list := range spots {
		if len(list) < len(few) || len(list) == len(few) && list[0] < few[0] {
			few = list
		}
		if len(list) > len(many) {
			many = list
		}
	}
	text := allOf(ranks, sleep) + " sleep"
	switch {
	case len(spots) == 1:
		return text + spot(ranks[sleep[0]])
	case 2*len(many) <= len(sleep) || len(few)+len(many) < len(sleep):
		return text
	case slices.ContainsFunc(few, func(n int) bool { return ranks[n].CPU > quietCPU }):
		return fmt.Sprintf("%s most of the time (%s)", text, cpuText(ranks, sleep))
	case len(few) == 1:
		return fmt.Sprintf("%s; %s is the odd one out:%s", text, who(ranks, few), spot(ranks[few[0]]))
	}
	return fmt.Sprintf("%s; %s are the odd ones out:%s", text, who(ranks, few), spot(ranks[few[0]]))
}

// allOf is "all 4 ranks", or "all 3 ranks that run" if there are others.
func allOf(ranks []RankPicture, list []int) string {
	if len(list) == len(ranks) {
		return fmt.Sprintf("all %d ranks", len(list))
	}
	return fmt.Sprintf("all %d ranks that run", len(list))
}

// allWork: that they wait for each other can only be guessed.
func allWork(ranks []RankPicture, work []int) string {
	text := fmt.Sprintf("%s are working (%s)", allOf(ranks, work), cpuText(ranks, work))
	if len(work) == 1 {
		text = fmt.Sprintf("%s is working (%s)", who(ranks, work), cpuText(ranks, work))
	}
	switch last := latest(ranks, work); {
	case last < 0:
		return text + ", and have never printed: they compute, or spin while they wait"
	case last >= longSilence:
		return fmt.Sprintf("%s, and last printed %s ago: they compute, or spin while they wait", text, age(last))
	default:
		return fmt.Sprintf("%s, and last printed %s ago", text, age(last))
	}
}

// longSilence is how long a rank that works is expected not to print.
const longSilence = 30 * time.Second

// which names ranks and says what they are doing, worst first: "rank 6 on b, which is
// stopped".
func which(ranks []RankPicture, list []int) string {
	by := map[string][]int{}
	for _, n := range list {
		by[ranks[n].Doing] = append(by[ranks[n].Doing], n)
	}
	var parts []string
	for _, doing := range []string{doingStopped, doingStuck, doingUnknown, doingEnded, doingSleep, doingStarved, doingWork} {
		some := by[doing]
		if len(some) == 0 {
			continue
		}
		is, has := "is", "has"
		if len(some) > 1 {
			is, has = "are", "have"
		}
		first := ranks[some[0]]
		what := map[string]string{
			doingStopped: is + " stopped (state " + first.State + ")",
			doingStuck:   is + " stuck in the kernel (state D)" + place(first),
			doingUnknown: is + " out of sight: " + first.Text,
			doingEnded:   has + " ended: " + first.Text,
			doingSleep:   is + " sleeping" + spot(first),
			doingStarved: is + " ready to run, but without CPU time",
			doingWork:    is + " late, but working" + effort(ranks, some),
		}[doing]
		parts = append(parts, who(ranks, some)+", which "+what)
	}
	return strings.Join(parts, ", and ")
}

// place is " in read of its standard input", "" if that is not known.
func place(r RankPicture) string {
	text := ""
	where := cmp.Or(r.Call, r.Channel)
	if where != "" {
		text = " in " + where
	}
	if r.File != "" && where != "" {
		text += " of " + r.File
	}
	return text
}

// spot is where a rank sleeps: in the store, or as place says.
func spot(r RankPicture) string {
	if names := storeNames(r); len(names) > 0 {
		return " " + storeText(names[0])
	}
	return place(r)
}

// effort is " (98-100 % CPU, last printed 2.0 s ago)".
func effort(ranks []RankPicture, list []int) string {
	text := cpuText(ranks, list)
	if last := latest(ranks, list); last >= 0 {
		text += ", last printed " + age(last) + " ago"
	}
	return " (" + text + ")"
}

// cpuText is "98-100 % CPU".
func cpuText(ranks []RankPicture, list []int) string {
	low, high := ranks[list[0]].CPU, ranks[list[0]].CPU
	for _, n := range list {
		low, high = min(low, ranks[n].CPU), max(high, ranks[n].CPU)
	}
	return span(low, high) + " % CPU"
}

// latest is how long ago one of the ranks last printed something; -1 if none ever has.
func latest(ranks []RankPicture, list []int) time.Duration {
	last := time.Duration(-1)
	for _, n := range list {
		if a := ranks[n].OutputAge; a >= 0 && (last < 0 || a < last) {
			last = a
		}
	}
	return last
}

// who is "rank 6 on b" or "ranks 0-5,7", with the host if all are on one.
func who(ranks []RankPicture, list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d on %s", list[0], ranks[list[0]].Host)
	}
	text := "ranks " + spans(list)
	host := ranks[list[0]].Host
	if slices.ContainsFunc(list, func(n int) bool { return ranks[n].Host != host }) {
		return text
	}
	return text + " on " + host
}

// maxSpans bounds how many ranges of ranks are written.
const maxSpans = 16

// spans writes ascending numbers as "0-3,7".
func spans(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if len(parts) == maxSpans {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, span(list[i], list[j]))
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// span is "3" or "3-5".
func span(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// age writes a time as people say it: "120 ms", "4.2 s", "1m40s".
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
