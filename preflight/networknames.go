package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainNames = `The names of the job's hosts are looked up on each host; of many, 64 that stand for the rest, and 16 in a quick preflight. gorun itself uses addresses and needs no names, but many programs do: MPI, gloo, job scripts, NFS mounts. ` +
	`If a name means one address on most hosts and another on one, that host's /etc/hosts or DNS is out of date, and it will talk to the wrong machine. ` +
	`Addresses of one host are one meaning. What a host makes of its own name, if that is itself, is the matter of own-name. ` +
	`A name that most hosts know and one does not is a warning. ` +
	`One that few hosts or none can look up is an alias of your ssh configuration, or an address; it is mentioned if some know it. ` +
	`Names to which a name server has given no answer in time are not judged.`

func checkNames(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	hosts, unknown := v.split(v.reached, facts.ItemNames)
	said, order := v.namesSaid(hosts)
	if len(order) == 0 {
		return unknown, "", emptySkip(unknown, "no name was looked up")
	}
	odd, lost := v.tally(), v.tally()
	var differ []Finding
	for _, name := range order {
		all := said[name].groups
		v.nameLost(lost, name, all)
		if f, split := v.nameOdd(odd, name, all); split {
			differ = append(differ, f)
		}
	}
	const few = 5
	if len(differ) > few {
		differ = append(differ[:few:few], v.finding(Warn, hosts, fmt.Sprintf("hosts differ in what %d more names mean", len(differ)-few), "correct /etc/hosts or DNS on all hosts", nil))
	}
	found = slices.Concat(unknown, odd.findings(), lost.findings(), differ)
	return found, fmt.Sprintf("%s, looked up on %s", count(len(order), "name"), count(len(hosts), "host")), ""
}

// nameLost adds the hosts that do not know a name which others know.
func (v *view) nameLost(t *tally, name string, all []*group) {
	know, lack := 0, []int(nil)
	for _, g := range all {
		if g.value == "" {
			lack = g.hosts
		} else {
			know += len(g.hosts)
		}
	}
	if know == 0 {
		return
	}
	verdict := Info
	if know+len(lack) >= 3 && know > len(lack) {
		verdict = Warn
	}
	for _, i := range lack {
		t.add(i, fault{verdict: verdict, what: "does not know names that other hosts know", which: name, remedy: "on HOST, add WHICH to /etc/hosts or look at /etc/resolv.conf (needs root)"})
	}
}

// nameOdd adds the hosts to which a name means something else than to most. If there is
// no majority, the finding is that hosts differ.
func (v *view) nameOdd(t *tally, name string, all []*group) (f Finding, split bool) {
	var by []group
	for _, g := range all {
		if g.value != "" {
			by = append(by, *g)
		}
	}
	if len(by) < 2 {
		return f, false
	}
	sortGroups(by)
	if !majority(by) {
		return v.nameDiffers(name, by), true
	}
	for _, g := range by[1:] {
		for _, i := range g.hosts {
			t.add(i, fault{verdict: Warn, what: "knows names by other addresses than most hosts", which: fmt.Sprintf("%s is %s, elsewhere %s", name, g.value, by[0].value), remedy: "on HOST, correct /etc/hosts or DNS (needs root)"})
		}
	}
	return f, false
}

// emptySkip is the reason to skip a check, unless there is something unknown to tell.
func emptySkip(unknown []Finding, reason string) string {
	if len(unknown) > 0 {
		return ""
	}
	return reason
}

// namesSaid has, of each name, what hosts say that it means; "" of hosts that do not
// know it. A host says nothing of its own name if that means itself.
func (v *view) namesSaid(hosts []int) (said map[string]*meanings, order []string) {
	said = map[string]*meanings{}
	all := map[string]named{}
	for _, i := range v.reached {
		all[v.Hosts[i].Name] = namedHost(&v.Hosts[i])
	}
	for _, i := range hosts {
		h := &v.Hosts[i]
		self := namedHost(h)
		for _, n := range h.Facts.Net.Names {
			own := n.Name == h.Name || n.Name == h.Facts.System.Hostname
			if own && slices.ContainsFunc(n.Addrs, func(a string) bool { return self.has(a) || isLoopback(a) }) || n.Trouble != "" && n.Trouble != noSuchHost {
				continue
			}
			if said[n.Name] == nil {
				said[n.Name] = &meanings{by: map[string]*group{}}
				order = append(order, n.Name)
			}
			said[n.Name].add(all[n.Name].meaning(n.Addrs), i)
		}
	}
	return said, order
}

// noSuchHost is the trouble of a name that is known not to be there.
const noSuchHost = "no such host"

// named is a host that a name may mean; zero none.
type named struct {
	addr  string   // that ranks use, or another one
	addrs []string // by which other hosts reach it
}

func namedHost(h *Host) named {
	n := named{h.Facts.Addr, addrsOut(h)}
	if n.addr == "" && len(n.addrs) > 0 {
		n.addr = n.addrs[0]
	}
	return n
}

func (n named) has(addr string) bool { return slices.Contains(n.addrs, addr) }

// meaning is what addresses of a host's name say: that it is meant, by the address that
// ranks use or by any other; or the addresses themselves.
func (n named) meaning(addrs []string) string {
	switch {
	case slices.ContainsFunc(addrs, n.has):
		return n.addr
	case len(addrs) == 1:
		return addrs[0]
	}
	return strings.Join(addrs, " ")
}

// isOf reports whether an address is one by which other hosts reach h.
func isOf(h *Host, addr string) bool { return slices.Contains(addrsOut(h), addr) }

// meanings are what hosts say that a name means.
type meanings struct {
	groups []*group
	by     map[string]*group
}

func (m *meanings) add(value string, host int) {
	g := m.by[value]
	if g == nil {
		g = &group{value: value}
		m.by[value] = g
		m.groups = append(m.groups, g)
	}
	g.hosts = append(g.hosts, host)
}

func isLoopback(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return err == nil && a.Unmap().IsLoopback()
}

func (v *view) nameDiffers(name string, all []group) Finding {
	var hosts []int
	for _, g := range all {
		hosts = append(hosts, g.hosts...)
	}
	slices.Sort(hosts)
	return v.finding(Warn, hosts, fmt.Sprintf("hosts differ in what %q means", name), "correct /etc/hosts or DNS on all hosts", v.compared(all))
}

const explainOwnName = `Programs that tell others where they listen often look up their own host name: gloo (PyTorch's CPU backend) does, and so do many MPI libraries. ` +
	`If that gives 127.0.0.1 or 127.0.1.1, as Debian and Ubuntu write it into /etc/hosts, the others connect to themselves, and the job hangs or fails. ` +
	`gorun and NCCL do not look names up, and gorun gives GLOO_SOCKET_IFNAME to ranks, so that this is a warning only where most hosts have it otherwise, and else a note. ` +
	`Put the address that other hosts use in front of the name in /etc/hosts; a GLOO_SOCKET_IFNAME of your own helps gloo, too. ` +
	`A host that does not know its own name at all is only told.`

func checkOwnName(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	hosts, unknown := v.split(v.reached, facts.ItemNames)
	t, verdict := v.tally(), Info
	loops := func(i int) bool {
		own := v.Hosts[i].Facts.Net.OwnName
		return len(own) > 0 && !slices.ContainsFunc(own, func(a string) bool { return !isLoopback(a) })
	}
	few := slices.DeleteFunc(slices.Clone(hosts), func(i int) bool { return !loops(i) })
	if len(hosts) >= 3 && 2*len(few) < len(hosts) {
		verdict = Warn
	}
	for _, i := range hosts {
		h := &v.Hosts[i]
		own := h.Facts.Net.OwnName
		switch {
		case len(own) == 0:
			t.add(i, fault{verdict: Info, what: "does not know the own host name", which: h.Facts.System.Hostname, remedy: "on HOST, add its address and name to /etc/hosts (needs root)"})
		case loops(i):
			remedy := "on HOST, let the name in /etc/hosts mean the address that others use, not 127.x (needs root); for gloo set GLOO_SOCKET_IFNAME"
			t.add(i, fault{verdict: verdict, what: "finds a loopback address under the own host name", which: phrase(h.Facts.System.Hostname, "is", strings.Join(own, " ")), remedy: remedy})
		}
	}
	return append(unknown, t.findings()...), "host names mean addresses that others reach", ""
}
