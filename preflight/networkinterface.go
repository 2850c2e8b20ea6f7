package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

const explainInterface = `The ranks of a job meet by TCP, even if NCCL moves data by RDMA. NCCL takes the first interface that runs and has an address, but for lo, docker and virbr; that can be one which other hosts cannot reach, and then it hangs. ` +
	`The right interface of each host is one in a network that all hosts are in; if there are several, that with the addresses by which gorun has the hosts; if there is none, the interface that has that address, or the default route. A host without any is excluded, or warned of if others have connected to it all the same. ` +
	`Loopback, container bridges, ends of veth pairs, tunnels and link-local addresses do not count. ` +
	`If NCCL_SOCKET_IFNAME or --interface is given, it is checked on each host: an interface must match, be up, run and have an address. ` +
	`Else NCCL's own choice is compared with the right one. The remedy has a value of NCCL_SOCKET_IFNAME that takes the right interface on every host, if there is one: whole names ("=eth0"), the beginning of all names, a list, or a list of what is not to be taken ("^"). ` +
	`A value differs from host to host only by [[host]] in the configuration.`

func checkInterface(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	if len(v.reached) < 2 { // gorun then chose no address for it, either
		return nil, "", "no two hosts answer"
	}
	hosts, unknown := v.split(v.reached, facts.ItemNet)
	if len(hosts) == 0 {
		return unknown, "", ""
	}
	var given, free []int
	for _, i := range hosts {
		if v.given(i) != "" {
			given = append(given, i)
		} else {
			free = append(free, i)
		}
	}
	m := v.meet(hosts)
	found = v.givenFaults(given)
	if len(free) > 0 {
		found = append(found, v.freeFaults(free, m)...)
	}
	if !v.Job.GPU { // NCCL, which waits for ever, is not likely to be used
		for i := range found {
			if found[i].Verdict == NoHost || found[i].Verdict == NoCluster {
				found[i].Verdict = Warn
			}
		}
	}
	if len(found) == 0 && len(given) > 0 {
		return append(unknown, v.apart(hosts)...), fmt.Sprintf("%s takes %s on %s", v.givenName(given[0]), v.takenNames(given), count(len(given), "host")), ""
	}
	return append(unknown, found...), v.meetingText(hosts, m), ""
}

// given is the value that says which interface host i shall use, in the grammar of
// NCCL_SOCKET_IFNAME; "" if none does. NCCL ignores a single character.
func (v *view) given(i int) string {
	if v.Job.Interface != "" {
		return "=" + v.Job.Interface
	}
	if value := v.Hosts[i].Settings["NCCL_SOCKET_IFNAME"]; len(value) > 1 {
		return value
	}
	return ""
}

// givenName is how the user gave it.
func (v *view) givenName(i int) string {
	if v.Job.Interface != "" {
		return "--interface " + v.Job.Interface
	}
	return setting("NCCL_SOCKET_IFNAME", v.given(i))
}

// taken is the interface that NCCL takes on host i; nil if there is none.
func (v *view) taken(i int) *facts.Interface {
	if value := v.given(i); value != "" {
		return firstOf(&v.Hosts[i], parseNCCLNames(value))
	}
	return byItself(&v.Hosts[i])
}

// takenNames are the names of the interfaces that NCCL takes on hosts.
func (v *view) takenNames(hosts []int) string {
	var names []string
	for _, i := range hosts {
		if iface := v.taken(i); iface != nil {
			names = append(names, iface.Name)
		}
	}
	return strings.Join(unique(names), ", ")
}

// givenFaults finds the hosts on which the value that was given takes no interface, or
// one that leads nowhere.
func (v *view) givenFaults(hosts []int) []Finding {
	t := v.tally()
	bad := map[int]fault{}
	for _, i := range hosts {
		if x, ok := v.givenFault(i); ok {
			bad[i] = x
		}
	}
	for _, i := range hosts {
		x, ok := bad[i]
		if !ok {
			continue
		}
		x.verdict = NoHost
		if len(bad) > 1 && 2*len(bad) > len(v.reached) {
			x.verdict = NoCluster
		}
		t.add(i, x)
	}
	return t.findings()
}

func (v *view) givenFault(i int) (x fault, bad bool) {
	h, name := &v.Hosts[i], v.givenName(i)
	has := []string{"it has " + ifaceNames(h)}
	iface := v.taken(i)
	if iface != nil {
		return fault{
			what: "reaches no other host by " + iface.Name + ", which " + name + " takes", evidence: has,
			remedy: "name an interface that leads to the other hosts, or leave the setting out",
		}, inside(h, iface)
	}
	names := parseNCCLNames(v.given(i))
	x = fault{what: "has no interface that " + name + " matches", evidence: has, remedy: "name an interface that HOST has, or give it a value of its own by [[host]] in the configuration"}
	for k := range h.Facts.Net.Interfaces {
		j := &h.Facts.Net.Interfaces[k]
		if !names.match(j.Name, -1) || names.exclude && inside(h, j) {
			continue
		}
		switch {
		case !j.Up:
			x.what, x.remedy = "has interface "+j.Name+" down, which "+name+" names", "on HOST: ip link set "+j.Name+" up (needs root)"
		case !j.Running:
			x.what, x.remedy = "has no link on interface "+j.Name+", which "+name+" names", "look at the cable and the switch's port of "+j.Name+" on HOST"
		default:
			x.what, x.remedy = "has no address on interface "+j.Name+", which "+name+" names", "on HOST, give "+j.Name+" an address (needs root)"
		}
		break
	}
	return x, true
}

// freeFaults finds the hosts on which NCCL, left to itself, would take an interface that
// the others cannot reach.
func (v *view) freeFaults(hosts []int, m meeting) []Finding {
	t, wrong := v.tally(), v.tally()
	stray := v.strays(hosts, m)
	for _, i := range hosts {
		h := &v.Hosts[i]
		if m.on[i] == nil {
			verdict := NoHost
			if v.isReached(i) {
				verdict = Warn
			}
			t.add(i, fault{verdict: verdict, what: "has no interface that leads to the other hosts", evidence: []string{"it has " + ifaceNames(h)}, remedy: "on HOST, bring up an interface with an address in the other hosts' network"})
		}
	}
	if found := t.findings(); len(found) > 0 {
		return found
	}
	remedy := "set NCCL_SOCKET_IFNAME to the right interface of each host, by [[host]] in the configuration"
	if value := v.ifnameValue(hosts, m); value != "" {
		remedy = "-x " + meant("NCCL_SOCKET_IFNAME", value)
	}
	for _, i := range stray {
		name := "none"
		if iface := byItself(&v.Hosts[i]); iface != nil {
			name = strings.TrimSpace(iface.Name + " " + strings.Join(iface.Addrs, " "))
		}
		wrong.add(i, fault{verdict: Warn, what: "has an interface that NCCL would take first, but that other hosts cannot reach", which: name, remedy: remedy, evidence: []string{"NCCL takes " + name + "; right is " + m.on[i].Name}})
	}
	return wrong.findings()
}

// isReached reports whether another host has connected to host i.
func (v *view) isReached(i int) bool {
	return slices.ContainsFunc(v.reached, func(from int) bool {
		return from != i && slices.ContainsFunc(v.Hosts[from].Links, func(l probe.Link) bool { return l.Host == i && l.Failure == "" })
	})
}

// strays lists the hosts whose first choice is not one by which all can meet.
func (v *view) strays(hosts []int, m meeting) []int {
	common, everywhere := map[netip.Prefix]int{}, v.everywhere(hosts)
	for _, i := range hosts {
		seen, first := map[netip.Prefix]bool{}, byItself(&v.Hosts[i])
		v.eachNetwork(i, everywhere, func(p netip.Prefix, iface *facts.Interface) {
			if iface == first {
				seen[p] = true
			}
		})
		for p := range seen {
			common[p]++
		}
	}
	for _, n := range common {
		if n == len(hosts) {
			return nil
		}
	}
	var stray []int
	for _, i := range hosts {
		h := &v.Hosts[i]
		iface := byItself(h)
		if iface == m.on[i] {
			continue
		}
		if iface != nil && !m.prefix.IsValid() && !inside(h, iface) {
			if _, ok := defaultRoute(h, iface.Name); ok {
				continue
			}
		}
		stray = append(stray, i)
	}
	return stray
}

// ifnameValue is a value of NCCL_SOCKET_IFNAME that holds on all hosts; "" if there is
// none.
func (v *view) ifnameValue(hosts []int, m meeting) string {
	var all []choice
	for _, i := range hosts {
		c := choice{}
		for k := range v.Hosts[i].Facts.Net.Interfaces {
			iface := &v.Hosts[i].Facts.Net.Interfaces[k]
			switch {
			case iface == m.on[i]:
				c.want = append(c.want, iface.Name)
			case iface.Up && len(iface.Addrs) > 0 || inside(&v.Hosts[i], iface):
				c.others = append(c.others, iface.Name)
			}
		}
		all = append(all, c)
	}
	return oneValue(all)
}

// meetingText says where hosts meet, and by which setting.
func (v *view) meetingText(hosts []int, m meeting) string {
	var names []string
	for _, i := range hosts {
		if m.on[i] != nil {
			names = append(names, m.on[i].Name)
		}
	}
	text := strings.Join(unique(names), ", ")
	if m.prefix.IsValid() {
		text += " in " + m.prefix.String()
	} else {
		text += ", by routes"
	}
	if value := v.ifnameValue(hosts, m); value != "" {
		text += "; " + meant("NCCL_SOCKET_IFNAME", value) + " holds on all hosts"
	}
	return text
}

// apart warns of hosts whose interfaces, as given, are in different networks without a
// route between them.
func (v *view) apart(hosts []int) []Finding {
	nets := map[string]int{}
	of := map[int]netip.Prefix{}
	for _, i := range hosts {
		if iface := v.taken(i); iface != nil {
			if all := globalAddrs(iface); len(all) > 0 {
				of[i] = all[0].Masked()
				nets[of[i].String()]++
			}
		}
	}
	if len(nets) < 2 {
		return nil
	}
	usual, ok := most(nets)
	to, _ := netip.ParsePrefix(usual)
	var lost []int
	var n notes
	for _, i := range hosts {
		iface := v.taken(i)
		if iface == nil || ok && of[i] == to {
			continue
		}
		n.add(i, fmt.Sprintf("%s in %s", iface.Name, of[i]))
		if !v.leadsOut(i, iface.Name, to) {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []Finding{v.finding(Warn, lost, v.say(lost, "has the interface in another network than other hosts, without a route"), "name interfaces of one network, or join the networks by routes", n.lines(v))}
}

// leadsOut reports whether host i has a route to a network through an interface, or, if
// to is not known, through any router.
func (v *view) leadsOut(i int, iface string, to netip.Prefix) bool {
	return slices.ContainsFunc(v.Hosts[i].Facts.Net.Routes, func(r facts.Route) bool {
		if !to.IsValid() {
			return r.Interface == iface && r.Via != ""
		}
		return leads(r, iface, to.Addr())
	})
}
