package preflight

import (
	"cmp"
	"fmt"
	"slices"
)

// group is the hosts that say the same.
type group struct {
	value string
	hosts []int // in the job's order
}

// groups collects hosts by what of says of each, the largest group first, of equal ones
// that with the first host.
func (v *view) groups(hosts []int, of func(*Host) string) []group {
	var all []group
	at := map[string]int{}
	for _, i := range hosts {
		value := of(&v.Hosts[i])
		k, ok := at[value]
		if !ok {
			k = len(all)
			at[value] = k
			all = append(all, group{value: value})
		}
		all[k].hosts = append(all[k].hosts, i)
	}
	sortGroups(all)
	return all
}

func sortGroups(all []group) {
	slices.SortStableFunc(all, func(a, b group) int { return len(b.hosts) - len(a.hosts) })
}

// majority reports whether the first group may be called right and the others wrong:
// three or more hosts were compared, and more than half of them are in it.
func majority(all []group) bool {
	total := 0
	for _, g := range all {
		total += len(g.hosts)
	}
	return total >= 3 && 2*len(all[0].hosts) > total
}

// contrast says how hosts are compared in one thing.
type contrast struct {
	of    func(*Host) string // what is compared, as titles show it: "550.54.15"; "" shows as "none"
	verb  string             // "has" if it is ""
	again string             // stands for what behind the others' verb: "it", in "have it on …"
	what  string             // "GPU driver": "gpu07 has GPU driver 535, the others have 550"
	// subject is in what hosts differ: "the GPU driver"; "" is what.
	subject string
	blame   Verdict // of hosts in the minority, where a majority may be called right
	differ  Verdict // of all hosts, where it may not
	remedy  string  // HOST stands for the hosts of the finding
	align   string  // remedy where hosts differ and nobody is blamed; "" is remedy

	// grade, if any, replaces blame for hosts that are like odd, where most are like most;
	// "" is no finding.
	grade func(odd, most *Host) Verdict
}

// maxOdd is how many findings odd makes of one comparison before it joins them.
const maxOdd = 8

// odd compares hosts. It finds each group that differs from a majority, or, where no
// majority may be called right, that hosts differ: all of them are named then, and
// nobody is blamed.
func (v *view) odd(hosts []int, c contrast) []Finding {
	all := v.groups(hosts, c.of)
	if len(all) < 2 {
		return nil
	}
	if c.subject == "" {
		c.subject = c.what
	}
	if !majority(all) {
		return []Finding{v.differ(all, c)}
	}
	var found []Finding
	by := map[Verdict][]group{}
	for _, g := range all[1:] {
		verdict := c.blame
		if c.grade != nil {
			verdict = c.grade(&v.Hosts[g.hosts[0]], &v.Hosts[all[0].hosts[0]])
		}
		if verdict != "" {
			by[verdict] = append(by[verdict], g)
		}
	}
	for _, verdict := range order {
		if len(by[verdict]) > maxOdd {
			found = append(found, v.oddMany(all[0], by[verdict], verdict, c))
			continue
		}
		for _, g := range by[verdict] {
			found = append(found, v.oddOne(all, g, verdict, c))
		}
	}
	return found
}

// oddOne is the finding of one group that differs from the majority, all[0].
func (v *view) oddOne(all []group, g group, verdict Verdict, c contrast) Finding {
	others := "the others"
	if len(all) > 2 {
		others = "most"
	}
	verb := c.verb
	if verb == "" {
		verb = "has"
	}
	title := fmt.Sprintf("%s, %s %s", v.say(g.hosts, phrase(verb, c.what, shown(g.value))), others, phrase(plural(verb), c.again, shown(all[0].value)))
	return v.finding(verdict, g.hosts, title, c.remedy, v.compared([]group{g, all[0]}))
}

// oddMany is the finding of many groups that all differ from the majority.
func (v *view) oddMany(most group, odd []group, verdict Verdict, c contrast) Finding {
	var hosts []int
	for _, g := range odd {
		hosts = append(hosts, g.hosts...)
	}
	slices.Sort(hosts)
	title := fmt.Sprintf("%s from most hosts in %s", v.say(hosts, "differs"), c.subject)
	return v.finding(verdict, hosts, title, c.remedy, v.compared(append([]group{most}, odd...)))
}

// differ is the finding that hosts differ, and nobody knows who is right.
func (v *view) differ(all []group, c contrast) Finding {
	var hosts []int
	for _, g := range all {
		hosts = append(hosts, g.hosts...)
	}
	slices.Sort(hosts)
	title := "hosts differ in " + c.subject
	if len(all) == 2 {
		title += fmt.Sprintf(": %s on %s, %s on %s", shown(all[0].value), v.fold(all[0].hosts), shown(all[1].value), v.fold(all[1].hosts))
	}
	return v.finding(c.differ, hosts, title, cmp.Or(c.align, c.remedy), v.compared(all))
}

// compared has a line for each group.
func (v *view) compared(all []group) []string {
	var n notes
	for _, g := range all {
		for _, i := range g.hosts {
			n.add(i, shown(g.value))
		}
	}
	return n.lines(v)
}

func shown(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

func phrase(words ...string) string {
	out := ""
	for _, w := range words {
		if w != "" && out != "" {
			out += " "
		}
		out += w
	}
	return out
}
