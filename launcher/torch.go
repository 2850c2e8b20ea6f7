package launcher

import (
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
)

// This file is about what PyTorch's programs need beside rank and size: where to meet, on
// which interface, and how many threads a rank may have.

const (
	glooInterface = "GLOO_SOCKET_IFNAME"
	ompThreads    = "OMP_NUM_THREADS"
	unbuffered    = "PYTHONUNBUFFERED" // which every agent adds
)

// meeting is what the ranks at place are told of where rank 0 waits for the others: "" and
// 0 for what the user has said.
func (p *planner) meeting(place Place) (addr string, port int) {
	first := p.layout.Ranks[0].Host
	given := slices.Concat(p.env.job, p.env.apps[place.App])
	if lookup(given, "MASTER_ADDR") == "" {
		addr = p.site.addrs[first]
	}
	if lookup(given, "MASTER_PORT") == "" {
		port = p.site.ports[first]
	}
	return addr, port
}

// meetingPort is the port of rank 0's host at which ranks meet, chosen by gorun or given;
// 0 if that is no number.
func (p *planner) meetingPort() uint16 {
	first := p.layout.Ranks[0]
	_, port := p.meeting(first)
	if port == 0 {
		port, _ = strconv.Atoi(lookup(slices.Concat(p.env.job, p.env.apps[first.App]), "MASTER_PORT"))
	}
	return uint16(max(port, 0))
}

// ownPort reports whether the ranks of some program are to get the port that rank 0's host
// has found.
func (p *planner) ownPort() bool {
	return slices.ContainsFunc(p.env.apps, func(app []envsync.Var) bool {
		return lookup(slices.Concat(p.env.job, app), "MASTER_PORT") == ""
	})
}

// meetElsewhere warns of a MASTER_ADDR that is another host's than rank 0's: rank 0 waits
// for the others on its own.
func (e environment) meetElsewhere(peers []peer, first int) string {
	addr := e.lookup("MASTER_ADDR")
	has := func(p peer) bool {
		return p.hello != nil && (p.name == addr || onInterface(p.hello.Interfaces, addr) != "")
	}
	i := slices.IndexFunc(peers, has)
	if addr == "" || i < 0 || has(peers[first]) {
		return ""
	}
	return fmt.Sprintf("MASTER_ADDR=%s means %s, and rank 0 is on %s: where PyTorch's ranks meet there, they hang", quoteArg(addr), peers[i].name, peers[first].name)
}

// tried is where a host is to look whether its ranks can meet rank 0, if gorun has chosen
// that, and "" where rank 0 is. A host with rank 0's address is the same machine, or survey
// has warned of it.
func (p *planner) tried(host int) string {
	first := p.layout.Ranks[0]
	addr, port := p.meeting(first)
	if host == first.Host || addr == "" || port == 0 || p.site.addrs[host] == addr {
		return ""
	}
	return net.JoinHostPort(addr, strconv.Itoa(port))
}

// lack is what a rank gets if nobody sets it, its host neither. Gloo looks for its interface
// by the host's own name, which on many systems stands for 127.0.1.1, where no other host
// finds it. Several ranks that each start as many threads as their host has cores are in
// each other's way; torchrun allows each one. A rank that is bound has as many as it has
// cores, without being told.
func (p *planner) lack(rank int) []envsync.Var {
	place := p.layout.Ranks[rank]
	var vars []envsync.Var
	add := func(name, value string) { vars = append(vars, p.unlessSet(rank, name, value)...) }
	if iface := p.site.ifaces[place.Host]; len(p.nodes) > 1 && iface != "" {
		add(glooInterface, iface)
	}
	if p.layout.Count[place.Host] > 1 && !p.job.binds() && p.job.Apps[place.App].python() {
		add(ompThreads, "1")
	}
	return vars
}

// unlessSet is NAME=value for a rank, or nothing if the user sets the name.
func (p *planner) unlessSet(rank int, name, value string) []envsync.Var {
	place := p.layout.Ranks[rank]
	given := slices.Concat(p.env.job, p.env.hosts[p.hosts[place.Host]], p.env.apps[place.App])
	if slices.ContainsFunc(given, func(v envsync.Var) bool { return v.Name == name }) {
		return nil
	}
	return []envsync.Var{{Name: name, Value: value, Origin: envsync.FromGorun + ", unless the host sets it"}}
}

// python reports whether the program is one of Python's, as far as its arguments tell: it
// may be behind a wrapper, as in "apptainer exec image python3 train.py".
func (a App) python() bool {
	for i, arg := range a.Args {
		base := path.Base(arg)
		version, ok := strings.CutPrefix(base, "python")
		if ok && strings.Trim(version, "0123456789.") == "" || i == 0 && strings.HasSuffix(base, ".py") {
			return true
		}
	}
	return false
}

// lacked is which hosts' ranks got what nobody had set: hosts by name of the variable.
type lacked map[string][]int

// maxLacked bounds the names that a host tells.
const maxLacked = 16

// checkLacked refuses what no host was told.
func checkLacked(names []string) error {
	for _, name := range names {
		if len(names) > maxLacked || name != glooInterface && name != ompThreads {
			return fmt.Errorf("its ranks lack %d variables", len(names))
		}
	}
	return nil
}

func (l lacked) take(host int, names []string) {
	for _, name := range names {
		l[name] = append(l[name], host)
	}
}

// tellLacked says once what ranks got that nobody has asked for.
func (r *run) tellLacked() {
	var list []string
	for _, h := range slices.Sorted(slices.Values(r.lacked[ompThreads])) {
		list = append(list, r.hosts[h].spec.Name)
	}
	if len(list) > 0 {
		where := ""
		if len(list) < len(r.planner.nodes) {
			where = " on " + hostfile.Fold(list)
		}
		r.say("OMP_NUM_THREADS=1 for each rank" + where + ", as torchrun does where several share a host; -x OMP_NUM_THREADS=N sets another number")
	}
	names := map[string][]string{} // of hosts, by interface
	for _, h := range slices.Sorted(slices.Values(r.lacked[glooInterface])) {
		iface := r.planner.site.ifaces[h]
		names[iface] = append(names[iface], r.hosts[h].spec.Name)
	}
	for _, iface := range slices.Sorted(maps.Keys(names)) {
		r.note("info", fmt.Sprintf("%s=%s on %s", glooInterface, iface, hostfile.Fold(names[iface])))
	}
}

// unmet is which hosts cannot reach the place where ranks meet: hosts by why.
type unmet map[string][]int

// maxUnmet bounds the text of why.
const maxUnmet = 200

func (u unmet) take(host int, why string) {
	if why != "" {
		u[why] = append(u[why], host)
	}
}

// tellUnmet warns once of each reason. It ends no job: not all programs meet there.
func (r *run) tellUnmet() {
	for _, why := range slices.Sorted(maps.Keys(r.unmet)) {
		var names []string
		for _, h := range slices.Sorted(slices.Values(r.unmet[why])) {
			names = append(names, r.hosts[h].spec.Name)
		}
		first := r.m.layout.Ranks[0]
		addr, port := r.planner.meeting(first)
		r.note("warn", fmt.Sprintf("%s: no way to %s, port %d, of %s, where PyTorch's ranks meet (MASTER_ADDR, MASTER_PORT): %s; is there a firewall between hosts? --interface chooses another network",
			hostfile.Fold(names), addr, port, r.hosts[first.Host].spec.Name, why))
	}
}
