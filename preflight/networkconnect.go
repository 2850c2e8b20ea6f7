package preflight

import (
	"cmp"
	"fmt"
	"slices"

	"gorun/preflight/probe"
)

const explainConnect = `Ranks connect to each other on ports that the kernel chooses, in both directions. Each host connects to its neighbours in a ring, with --preflight=full to all others, from agent to agent on such a port, and both ends prove that they belong to the job. ` +
	`No answer means that a firewall drops packets or the address leads nowhere; refused, that the host answers but nobody listens; rejected, that a firewall says no; unreachable, that there is no route. ` +
	`Closed, reset, silent or stranger mean that somebody else accepts the connection: a proxy, a side-car, or another host with the same address. ` +
	`A host is blamed if every connection to it, or from it, fails, of two or more (or more than half of four or more). ` +
	`A single pair that fails is named by both its hosts, as nobody knows who is wrong: --exclude leaves out which one you choose; if most connections fail, so are all hosts. ` +
	`Open TCP between the hosts for the range of net.ipv4.ip_local_port_range, in both directions.`

func checkConnect(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	w := v.ways(
		func(l *probe.Link) bool { return l.Failure != probe.Stopped },
		func(l *probe.Link) bool { return l.Failure != "" },
	)
	unknown := v.untried()
	if len(w.all) == 0 {
		return unknown, "", emptySkip(unknown, "no connection was tried")
	}
	if n := len(w.failed); n > 2 && 2*n > len(w.all) && !w.fewGuilty() {
		return append(unknown, w.allFail()), "", ""
	}
	hosts, pairs := w.blame()
	found = unknown
	for _, alike := range alikeBlamed(hosts, func(b blamed) string { return string(commonFailure(b.ways)) }) {
		found = append(found, w.hostsFail(alike))
	}
	return append(found, w.pairsFail(pairs)...), count(len(w.all), "connection") + " between hosts", ""
}

// untried finds hosts that were stopped before they had tried.
func (v *view) untried() []Finding {
	t := v.tally()
	for _, i := range v.reached {
		n := 0
		for _, l := range v.Hosts[i].Links {
			if l.Failure == probe.Stopped {
				n++
			}
		}
		if n > 0 {
			t.add(i, fault{verdict: Unknown, what: "has not tried all connections", which: fmt.Sprintf("%d left when time was over", n)})
		}
	}
	return t.findings()
}

// fewGuilty reports whether less than half of the hosts explain all that failed.
func (w ways) fewGuilty() bool {
	hosts, pairs := w.blame()
	return 2*len(hosts) < len(w.reached) && len(pairs) == 0
}

func (w ways) allFail() Finding {
	title := fmt.Sprintf("most connections between hosts fail: %d of %d", len(w.failed), len(w.all))
	return w.finding(NoCluster, w.reached, title, failureRemedy(w.failed[0].link.Failure, "all hosts", w.ports(w.failed[0].to)), w.evidence(w.failed, linkText))
}

// hostsFail is the finding of hosts to or from which connections fail, for one reason.
func (w ways) hostsFail(alike []blamed) Finding {
	hosts, all := joinBlamed(alike)
	kind := commonFailure(all)
	title := fmt.Sprintf("no host reaches %s: %s", w.fold(hosts), failureWord(kind))
	switch {
	case alike[0].in && alike[0].out:
		title = fmt.Sprintf("connections to and from %s fail: %s", w.fold(hosts), failureWord(kind))
	case alike[0].out:
		title = fmt.Sprintf("%s no other host: %s", w.say(hosts, "reaches"), failureWord(kind))
	}
	return w.finding(NoHost, hosts, title, failureRemedy(kind, "HOST", w.ports(hosts[0])), w.evidence(all, linkText))
}

// pairsFail are the findings of pairs that nobody can be blamed for, one for both
// directions.
func (w ways) pairsFail(pairs []way) []Finding {
	var found []Finding
	const few = 8
	told := map[[2]int]int{} // by both ends, the index in found
	for k, x := range pairs {
		ends := [2]int(ordered(x.from, x.to))
		evidence := w.tell(x, linkText(x.link))
		if at, ok := told[ends]; ok {
			f := w.pairFails(x, "HOST")
			found[at].Remedy = f.Remedy
			found[at].Evidence = append(found[at].Evidence, evidence)
			continue
		}
		if len(found) == few && len(pairs)-k > 1 {
			return append(found, w.manyPairs(pairs[k:]))
		}
		told[ends] = len(found)
		f := w.pairFails(x, w.Hosts[x.to].Name)
		f.Evidence = []string{evidence}
		found = append(found, f)
	}
	return found
}

// pairFails is the finding of x, with what is to be done on who.
func (w ways) pairFails(x way, who string) Finding {
	title := fmt.Sprintf("%s -> %s: %s%s", w.Hosts[x.from].Name, w.Hosts[x.to].Name, failureWord(x.link.Failure), w.reverse(x))
	hosts := ordered(x.from, x.to)
	return w.finding(NoCluster, hosts, title, failureRemedy(x.link.Failure, who, w.ports(x.to))+w.orWithout(hosts), nil)
}

func (w ways) manyPairs(pairs []way) Finding {
	var hosts []int
	for _, x := range pairs {
		hosts = append(hosts, x.from, x.to)
	}
	slices.Sort(hosts)
	return w.finding(NoCluster, slices.Compact(hosts), fmt.Sprintf("%d more connections between hosts fail", len(pairs)), "", w.evidence(pairs, linkText))
}

func ordered(a, b int) []int { return []int{min(a, b), max(a, b)} }

// linkText says why a link is not good: its kind, and what more is known.
func linkText(l *probe.Link) string {
	if l.Text == "" {
		return string(l.Failure)
	}
	return fmt.Sprintf("%s, %s", l.Failure, l.Text)
}

// failureWords say in a title what a failure is.
var failureWords = map[probe.Failure]string{
	probe.Dropped:     "dropped, no answer comes",
	probe.Refused:     "refused, nobody listens there",
	probe.Rejected:    "rejected by a firewall",
	probe.Unreachable: "unreachable, there is no way",
	probe.Closed:      "somebody accepts and closes, as a proxy does",
	probe.Reset:       "somebody accepts and resets, as a proxy does",
	probe.Silent:      "somebody accepts and says nothing",
	probe.Stranger:    "a stranger answers",
	probe.OtherHost:   "another host answers",
	probe.Broken:      "the connection broke",
	probe.Invalid:     "the address cannot be tried",
	probe.Other:       "failed",
}

func failureWord(kind probe.Failure) string { return cmp.Or(failureWords[kind], string(kind)) }

// failureRemedy says what to do about connections to or from who.
func failureRemedy(kind probe.Failure, who, ports string) string {
	switch kind {
	case probe.Dropped, probe.Rejected:
		return fmt.Sprintf("open tcp %s on %s for the other hosts, in the firewall there and in the network's (needs root)", ports, who)
	case probe.Refused:
		return fmt.Sprintf("see whether the address of %s is translated, and whether its agent still runs", who)
	case probe.Unreachable:
		return fmt.Sprintf("look at addresses and routes of %s (ip route get ADDRESS), or name an interface with --interface", who)
	case probe.Closed, probe.Reset, probe.Silent, probe.Stranger:
		return fmt.Sprintf("keep the proxy or side-car of %s from tcp %s, or run without it", who, ports)
	case probe.OtherHost:
		return fmt.Sprintf("give %s an address of its own", who)
	case probe.Invalid:
		return fmt.Sprintf("name an interface of %s with --interface", who)
	}
	return fmt.Sprintf("look at the network of %s", who)
}

// ports is the range in which ranks of a host listen.
func (v *view) ports(i int) string {
	if v.Hosts[i].Facts.Net.PortRange == [2]int{} {
		return "32768-60999"
	}
	return portRange(&v.Hosts[i])
}

// commonFailure is the most frequent one; of equal ones, the first.
func commonFailure(all []way) probe.Failure {
	counts, best := map[probe.Failure]int{}, probe.Failure("")
	for _, x := range all {
		counts[x.link.Failure]++
	}
	for _, x := range all {
		if counts[x.link.Failure] > counts[best] {
			best = x.link.Failure
		}
	}
	return best
}

const explainMTUPath = `A packet as large as the interface allows is sent over each connection that works, and must arrive. ` +
	`If small packets pass and large ones are lost without a word, some interface or switch on the way allows less than the ends believe, and every large message hangs. ` +
	`A host is blamed if that is so for all of its connections, of two or more; a single pair is named by both. ` +
	`Only the direction to the target is tried. ` +
	`Set the same MTU everywhere, on switches a little more; or lower that of the hosts: ip link set DEVICE mtu 1500.`

func checkMTUPath(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	w := v.ways(
		func(l *probe.Link) bool { return l.Failure == "" && (l.MTU > 0 || l.MTUFailed) },
		func(l *probe.Link) bool { return l.MTUFailed },
	)
	if len(w.all) == 0 {
		return nil, "", "no packet of full size was tried"
	}
	const remedy = "set one MTU on all hosts and switches; on HOST: ip link set DEVICE mtu BYTES (needs root)"
	if n := len(w.failed); n > 2 && 2*n > len(w.all) && !w.fewGuilty() {
		title := fmt.Sprintf("packets of full size get lost on most ways between hosts: %d of %d", n, len(w.all))
		return []Finding{w.finding(NoCluster, w.reached, title, remedy, w.evidence(w.failed, mtuText))}, "", ""
	}
	hosts, pairs := w.blame()
	for _, alike := range alikeBlamed(hosts, func(blamed) string { return "" }) {
		guilty, all := joinBlamed(alike)
		title := fmt.Sprintf("packets of full size to %s get lost", v.fold(guilty))
		switch {
		case alike[0].in && alike[0].out:
			title = fmt.Sprintf("packets of full size to and from %s get lost", v.fold(guilty))
		case alike[0].out:
			title = fmt.Sprintf("packets of full size from %s get lost", v.fold(guilty))
		}
		found = append(found, w.finding(NoHost, guilty, title, remedy, w.evidence(all, mtuText)))
	}
	if len(pairs) > 0 {
		var ends []int
		for _, x := range pairs {
			ends = append(ends, x.from, x.to)
		}
		slices.Sort(ends)
		ends = slices.Compact(ends)
		found = append(found, w.finding(NoCluster, ends, fmt.Sprintf("packets of full size get lost on %s between hosts", count(len(pairs), "way")), remedy+w.orWithout(ends), w.evidence(pairs, mtuText)))
	}
	return found, fmt.Sprintf("packets of up to %d bytes arrive", largest(w.all)), ""
}

// mtuText says what the probe has said, or what it would have.
func mtuText(l *probe.Link) string {
	text := "small packets pass, full ones are lost"
	if l.MTU > 0 {
		text = fmt.Sprintf("small packets pass, those of %d bytes are lost", l.MTU)
	}
	return cmp.Or(l.Text, text)
}

func largest(all []way) (mtu int) {
	for _, x := range all {
		mtu = max(mtu, x.link.MTU)
	}
	return mtu
}
