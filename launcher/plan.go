package launcher

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

// localSlots is how many ranks this machine may get when no host was named: a user
// trying a program on a laptop is not asked for --oversubscribe. With GPUs the number
// of GPUs is the limit.
const localSlots = 64

// jobCredit bounds the output that may be under way in a whole job, in bytes.
const jobCredit = 64 << 20

// streamCredit is the first credit of each of a job's output streams, in bytes.
func streamCredit(ranks int) int {
	return min(max(jobCredit/(2*max(ranks, 1)), 512), 1<<20)
}

// offer says what a host can take; hello is nil before it has come, and then ok is
// false for a host that alone knows its slots.
func offer(h hostfile.Host, hello *wire.Hello) (o Offer, ok bool) {
	o = Offer{Name: h.Name, Slots: h.Slots, Limit: h.Slots, Max: h.MaxSlots, Origin: h.Place(), Domain: h.Domain}
	if h.Slots >= 0 {
		return o, true
	}
	if hello == nil {
		return o, false
	}
	o.Slots, o.Origin = hello.Cores, count(hello.Cores, "core")
	if hello.GPUs > 0 {
		o.Slots, o.Origin = hello.GPUs, count(hello.GPUs, "GPU")
	}
	if o.Max > 0 {
		o.Slots = min(o.Slots, o.Max)
	}
	o.Limit = o.Slots
	if h.File == thisMachine && hello.GPUs == 0 && o.Slots < localSlots {
		o.Limit = localSlots
		o.Origin += fmt.Sprintf(", shared by up to %d ranks", localSlots)
	}
	return o, true
}

// offer is what h can take.
func (h *host) offer() Offer {
	o, _ := offer(h.spec, h.hello)
	if h.most > 0 {
		o.Slots, o.Limit = min(o.Slots, h.most), min(o.Limit, h.most)
	}
	return o
}

// thisMachine is the File of the host that stands for "no host was named".
const thisMachine = "this machine"

// neededHosts are the hosts to connect to: those that get ranks if the list tells
// every host's slots, else all; also all if it is for a preflight to say which get ranks.
// No host means this machine.
func (j Job) neededHosts() ([]hostfile.Host, error) {
	if len(j.Hosts) == 0 {
		return []hostfile.Host{{Name: "localhost", Slots: -1, File: thisMachine}}, nil
	}
	if p := j.Preflight; p != nil && (p.Only || p.Drop) {
		return j.Hosts, nil
	}
	var offers []Offer
	for _, h := range j.Hosts {
		o, ok := offer(h, nil)
		if !ok {
			return j.Hosts, nil
		}
		offers = append(offers, o)
	}
	layout, err := j.Place(offers)
	if err == nil {
		err = j.checkStdin(layout)
	}
	if err != nil {
		return nil, err
	}
	var needed []hostfile.Host
	for i, h := range j.Hosts {
		if layout.Count[i] > 0 {
			needed = append(needed, h)
		}
	}
	return needed, nil
}

// site is what the plans need of the hosts beside their names.
type site struct {
	addrs  []string // by host
	ifaces []string // that have these addresses; "": loopback
	ports  []int
	notes  []string // warnings of addresses by which hosts are not reached
}

// peer is one host as the choice of addresses sees it.
type peer struct {
	name   string
	hello  *wire.Hello
	local  bool   // it is this machine, and SSH_CONNECTION there is of another connection
	ifname string // its own NCCL_SOCKET_IFNAME; "": that of all
}

// survey chooses every host's address. All hosts without a fitting one are named. One by
// which other hosts do not reach it is taken for want of a better one only, whatever asks
// for it.
func survey(peers []peer, layout Layout, iface, spec string) (site, error) {
	s := site{addrs: make([]string, len(peers)), ifaces: make([]string, len(peers)), ports: make([]int, len(peers))}
	alone := len(layout.Hosts()) == 1
	hellos, known := connections(peers, layout)
	holders := holdersOf(hellos)
	var bad []HostFailure
	var lost misleading
	for i, p := range peers {
		if layout.Count[i] == 0 {
			continue
		}
		s.ports[i] = p.hello.Port
		if alone && iface == "" {
			s.addrs[i] = loopback
			continue
		}
		hello, own := hellos[i], cmp.Or(p.ifname, spec)
		addr, err := hostAddr(hello, iface, own, known)
		if err != nil {
			bad = append(bad, HostFailure{Host: p.name, Err: err})
		} else if !alone && !holders.reach(addr) {
			better, asked := holders.better(hello, iface, known)
			if told := iface == "" && p.ifname == "" && namesLoopback(spec); !told && !asked {
				lost.take(p.name, iface, own, addr, better != "")
			}
			addr = cmp.Or(better, addr)
		}
		s.addrs[i], s.ifaces[i] = addr, interfaceOf(hello.Interfaces, addr)
	}
	s.notes = lost.notes()
	if bad != nil {
		return s, &HostsError{Hosts: bad, Good: len(peers) - len(bad)}
	}
	return s, nil
}

// connections are the hosts' hellos, as far as what they tell of connections is to be
// believed, and the addresses that these tell.
func connections(peers []peer, layout Layout) (hellos []wire.Hello, known []netip.Addr) {
	hellos = make([]wire.Hello, len(peers))
	for i, p := range peers {
		if layout.Count[i] == 0 {
			continue
		}
		hellos[i] = *p.hello
		if p.local {
			hellos[i].SSHServer, hellos[i].RouteAddr = "", routeTo(peers, i)
		}
		if a, err := netip.ParseAddr(connected(hellos[i])); err == nil {
			known = append(known, a)
		}
	}
	return hellos, known
}

// routeTo is the source address of this machine on its way to another host: the
// local host has no ssh connection that would tell. A UDP connect sends nothing.
func routeTo(peers []peer, self int) string {
	for i, p := range peers {
		if i == self || p.hello == nil {
			continue
		}
		to, err := netip.ParseAddr(p.hello.SSHServer)
		if err != nil || to.IsLoopback() {
			continue
		}
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			continue
		}
		defer c.Close()
		return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("").String()
	}
	return ""
}

// planner makes the plan of each host; its fields are complete before the first. Of
// nodes it counts the hosts that have ranks.
type planner struct {
	hosts   []string // their names
	offers  []Offer
	job     Job
	id      string
	secret  []byte
	layout  Layout
	site    site
	env     environment
	cargo   *cargo       // nil: no files are brought to the hosts
	nodes   []int        // hosts by node number
	node    []int        // node numbers by host
	ranks   [][]int      // by host
	window  *wire.Window // nil without Job.Pty
	mapping string       // which ranks share a host, for MPI

	digests map[digestKey]envsync.Digest // that were needed so far
}

// digestKey names ranks with the same settings: an App's on a host that has an
// environment of its own, or, with "", on all others.
type digestKey struct {
	app  int
	host string
}

// lay completes p with the layout.
func (p *planner) lay(l Layout) {
	p.layout, p.nodes, p.node, p.ranks = l, l.Hosts(), make([]int, len(l.Count)), make([][]int, len(l.Count))
	for n, h := range p.nodes {
		p.node[h] = n
	}
	for rank, place := range l.Ranks {
		p.ranks[place.Host] = append(p.ranks[place.Host], rank)
	}
	p.mapping = p.mappingOf(l)
}

// plan is what host h is told.
func (p *planner) plan(h int) *wire.Plan {
	plan := &wire.Plan{
		JobID: p.id, Secret: p.secret, Size: p.layout.Size(), Nodes: len(p.nodes), Node: p.node[h],
		Dir: wire.Bytes(p.job.Dir), Env: pairs(slices.Concat(p.env.job, p.env.hosts[p.hosts[h]])), Window: p.window, Credit: streamCredit(p.layout.Size()),
		PMI: p.pmiPlan(), Prepend: bytesOf(prepended(p.job.Prefix)), HoldPort: p.node[h] == 0 && p.ownPort(), Meet: p.tried(h), LostAfter: p.job.LostAfter, Grace: p.job.Grace,
	}
	for _, rank := range p.ranks[h] {
		i := p.layout.Ranks[rank].App
		app := p.job.Apps[i]
		rp := wire.RankPlan{
			Rank: rank, App: i, Args: bytesOf(app.Args), Dir: wire.Bytes(app.Dir), Env: append(pairs(p.env.apps[i]), pairs(p.rankEnv(rank))...), Lack: pairs(p.lack(rank)),
			Stdin: p.job.Stdin == rank || p.job.Stdin == StdinAll,
		}
		if p.cargo != nil {
			rp.Shipped = wire.Bytes(p.cargo.programs[i])
		}
		plan.Ranks = append(plan.Ranks, rp)
	}
	return plan
}

// prepended says what --prefix puts before the values of variables: NAME=directory.
func prepended(prefix string) []string {
	if prefix == "" {
		return nil
	}
	return []string{"PATH=" + path.Join(prefix, "bin"), "LD_LIBRARY_PATH=" + path.Join(prefix, "lib")}
}

// rankEnv is the rank's own names.
func (p *planner) rankEnv(rank int) []envsync.Var {
	place := p.layout.Ranks[rank]
	addr, port := p.meeting(place)
	vars := envsync.RankVars(envsync.RankInfo{
		JobID: p.id, Rank: rank, Size: p.layout.Size(), Local: place.Local, LocalSize: p.layout.Count[place.Host],
		Node: p.node[place.Host], Nodes: len(p.nodes), MasterAddr: addr, MasterPort: port,
		Backend: p.job.Backend, EnvDigest: p.digest(place), Dir: "/tmp/gorun-" + p.id,
	})
	vars = append(vars, p.job.pmiVars(rank, p.layout.Size())...)
	vars = append(vars, p.layout.Mesh.vars(rank)...)
	vars = append(vars, p.devices(place)...)
	return append(vars, envsync.Var{Name: "GORUN_HOST_ADDR", Value: p.site.addrs[place.Host], Origin: "gorun"})
}

// digest is that of the environment of a rank at place.
func (p *planner) digest(place Place) envsync.Digest {
	key := digestKey{app: place.App}
	if host := p.hosts[place.Host]; len(p.env.hosts[host]) > 0 {
		key.host = host
	}
	d, ok := p.digests[key]
	if !ok {
		d = p.env.digestOf(key.app, key.host)
		if p.digests == nil {
			p.digests = map[digestKey]envsync.Digest{}
		}
		p.digests[key] = d
	}
	return d
}

// texts writes vars as NAME=value.
func texts(vars []envsync.Var) []string {
	out := make([]string, len(vars))
	for i, v := range vars {
		out[i] = v.Name + "=" + v.Value
	}
	return out
}

func pairs(vars []envsync.Var) []wire.Bytes { return bytesOf(texts(vars)) }

func bytesOf(ss []string) []wire.Bytes {
	out := make([]wire.Bytes, len(ss))
	for i, s := range ss {
		out[i] = wire.Bytes(s)
	}
	return out
}

// lookup returns the value that a later entry of vars gives name, "" if none does.
func lookup(vars []envsync.Var, name string) string {
	for i := len(vars) - 1; i >= 0; i-- {
		if vars[i].Name == name {
			return vars[i].Value
		}
	}
	return ""
}
