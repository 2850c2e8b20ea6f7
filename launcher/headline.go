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
// for whom, it is the one that does something else than most.
func headline(ranks []RankPicture, wanted []rendezvous.Wanted) string {
	if waiting, roots := blame(ranks, wanted); len(waiting) > 0 {
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
	held := slices.Concat(by[doingStopped], by[doingStuck])
	work, sleep := by[doingWork], by[doingSleep]
	alive := len(held) + len(work) + len(sleep)
	switch {
	case alive == 0:
		return "nothing is known of any rank that should run"
	case len(held) > 0:
		return strings.Replace(which(ranks, slices.Sorted(slices.Values(held))), ", which ", " ", 1) + besides(work, sleep)
	case len(work) == 0:
		return allSleep(ranks, sleep)
	case len(sleep) == 0:
		return allWork(ranks, work)
	case 2*len(work) < alive:
		return odd(ranks, work, "working", "sleeps", len(sleep))
	case 2*len(sleep) < alive:
		return odd(ranks, sleep, "sleeping", "works", len(work))
	}
	return fmt.Sprintf("%s are working, %d sleep", count(len(work), "rank"), len(sleep))
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

// odd names the few that do something else than most.
func odd(ranks []RankPicture, few []int, what, others string, many int) string {
	is, they := "is the odd one out", "it is"
	if len(few) > 1 {
		is, they = "are the odd ones out", "they are"
	}
	rest := fmt.Sprintf("%d others %s", many, strings.TrimSuffix(others, "s"))
	if many == 1 {
		rest = "the other " + others
	}
	return fmt.Sprintf("%s %s: %s %s%s, while %s", who(ranks, few), is, they, what, effort(ranks, few), rest)
}

// allSleep: nobody works. The one that waits in another place than most may be why.
func allSleep(ranks []RankPicture, sleep []int) string {
	places := map[string][]int{}
	for _, n := range sleep {
		p := place(ranks[n])
		places[p] = append(places[p], n)
	}
	text := "all ranks sleep"
	if len(sleep) == 1 {
		return who(ranks, sleep) + " sleeps" + place(ranks[sleep[0]])
	}
	few := sleep
	for _, list := range places {
		if len(list) < len(few) || len(list) == len(few) && list[0] < few[0] {
			few = list
		}
	}
	if 2*len(few) >= len(sleep) {
		return text
	}
	is := "is the odd one out"
	if len(few) > 1 {
		is = "are the odd ones out"
	}
	return fmt.Sprintf("%s; %s %s,%s", text, who(ranks, few), is, place(ranks[few[0]]))
}

func allWork(ranks []RankPicture, work []int) string {
	text := "all ranks are working"
	if len(work) == 1 {
		text = who(ranks, work) + " is working"
	}
	last, ever := latest(ranks, work)
	switch {
	case !ever:
		return text + effort(ranks, work) + ", and have not printed anything: they compute, or spin while they wait"
	case last > longSilence:
		return fmt.Sprintf("%s%s, but the last output came %s ago: they compute, or spin while they wait", text, effort(ranks, work), age(last))
	}
	return text + effort(ranks, work) + ", the last output came " + age(last) + " ago"
}

// longSilence is how long a rank that works is expected not to print.
const longSilence = 30 * time.Second

// besides counts those of whom a headline does not speak.
func besides(work, sleep []int) string {
	text := ""
	if len(work) > 0 {
		text += fmt.Sprintf("; %d working", len(work))
	}
	if len(sleep) > 0 {
		text += fmt.Sprintf("; %d sleeping", len(sleep))
	}
	return text
}

// which names ranks and says what they are doing, worst first: "rank 6 on b, which is
// stopped".
func which(ranks []RankPicture, list []int) string {
	by := map[string][]int{}
	for _, n := range list {
		by[ranks[n].Doing] = append(by[ranks[n].Doing], n)
	}
	var parts []string
	for _, doing := range []string{doingStopped, doingStuck, doingUnknown, doingEnded, doingSleep, doingWork} {
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
			doingSleep:   is + " sleeping" + place(first),
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

// effort is " (98-100 % CPU, last output 2 s ago)".
func effort(ranks []RankPicture, list []int) string {
	low, high := ranks[list[0]].CPU, ranks[list[0]].CPU
	for _, n := range list {
		low, high = min(low, ranks[n].CPU), max(high, ranks[n].CPU)
	}
	return fmt.Sprintf(" (%s %% CPU)", span(low, high))
}

// latest is how long ago one of the ranks printed something; ever is false if none has.
func latest(ranks []RankPicture, list []int) (last time.Duration, ever bool) {
	last = -1
	for _, n := range list {
		if a := ranks[n].OutputAge; a >= 0 && (last < 0 || a < last) {
			last = a
		}
	}
	return last, last >= 0
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
