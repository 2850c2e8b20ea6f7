package launcher

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"gorun/launcher/wire"
)

// link is a rank's connection as its other end is known.
type link struct {
	ranks  []int  // at the other end; empty: none is known
	other  string // what is known instead
	state  string // as a wire.Conn's
	waited bool   // the rank waits in it
	unsent bool   // it holds data that the other end does not take
	unread bool   // it holds data that the rank does not read
	meets  bool   // it leads to the place where ranks meet
}

// blocks reports whether the rank may wait for the other end: to answer, to send or to
// take data.
func (l link) blocks() bool { return l.waited || l.unsent || l.state == wire.ConnOpening }

// network knows who is at which end of the ranks' connections.
type network struct {
	hosts     []sceneHost
	ranks     []sceneRank
	hostOf    map[netip.Addr]int  // -1: several hosts have that address
	ends      map[[2]endpoint]int // rank by its own end and the other
	listeners map[listener]int    // rank + 1; 0: none
	meet      uint16              // as a scene's
	unseen    [][]int             // by host: its ranks, if none of them has been seen
}

// endpoint is one end of a connection. A loopback address is another on each host.
type endpoint struct {
	host int // -1: the address is enough
	addr netip.AddrPort
}

type listener struct {
	host int
	port uint16
}

func at(host int, a netip.AddrPort) endpoint {
	if a.Addr().IsLoopback() {
		return endpoint{host, a}
	}
	return endpoint{-1, a}
}

func newNetwork(sc *scene) *network {
	n := &network{hosts: sc.hosts, ranks: sc.ranks, hostOf: map[netip.Addr]int{}, ends: map[[2]endpoint]int{}, listeners: map[listener]int{}, meet: sc.meet}
	for i, h := range sc.hosts {
		for _, a := range h.addrs {
			if old, ok := n.hostOf[a]; ok && old != i {
				n.hostOf[a] = -1
			} else {
				n.hostOf[a] = i
			}
		}
	}
	seen := make([]bool, len(sc.hosts))
	n.unseen = make([][]int, len(sc.hosts))
	for rank, r := range sc.ranks {
		if r.sight == nil {
			n.unseen[r.host] = append(n.unseen[r.host], rank)
			continue
		}
		seen[r.host] = true
		for _, c := range r.sight.Conns {
			n.ends[[2]endpoint{at(r.host, c.Local), at(r.host, c.Remote)}] = rank
		}
		for _, l := range r.sight.Listens {
			if key := (listener{r.host, l.Port()}); n.listeners[key] == 0 {
				n.listeners[key] = rank + 1
			}
		}
	}
	for i := range n.unseen {
		if seen[i] {
			n.unseen[i] = nil
		}
	}
	return n
}

// links lists the connections of a rank to others.
func (n *network) links(rank int, s *wire.Sight) []link {
	var out []link
	host := n.ranks[rank].host
	for _, c := range s.Conns {
		l := link{state: c.State, waited: c.Waited, unsent: c.Unsent > 0, unread: c.Unread > 0}
		l.ranks, l.other = n.peer(host, c)
		if len(l.ranks) == 1 && l.ranks[0] == rank {
			continue // it speaks to itself
		}
		l.meets = n.meet != 0 && c.Remote.Port() == n.meet && slices.Equal(l.ranks, []int{0})
		out = append(out, l)
	}
	return out
}

// peer says who is at the other end of a connection: the rank that has it open; else the
// one that listens there, and has not accepted it; else a host, and all of its ranks if
// nothing is known of them.
func (n *network) peer(host int, c wire.Conn) (ranks []int, other string) {
	if r, ok := n.ends[[2]endpoint{at(host, c.Remote), at(host, c.Local)}]; ok {
		return []int{r}, ""
	}
	h := n.host(host, c.Remote.Addr())
	if h < 0 {
		return nil, c.Remote.String()
	}
	if r := n.listeners[listener{h, c.Remote.Port()}]; r > 0 {
		return []int{r - 1}, ""
	}
	if unseen := n.unseen[h]; len(unseen) > 0 {
		return unseen, ""
	}
	return nil, fmt.Sprintf("port %d of %s", c.Remote.Port(), n.hosts[h].name)
}

// host returns the host that has the address a as host from sees it, or -1.
func (n *network) host(from int, a netip.Addr) int {
	if a.IsLoopback() || slices.Contains(n.hosts[from].addrs, a) {
		return from
	}
	if h, ok := n.hostOf[a]; ok {
		return h
	}
	return -1
}

// listenText writes where a rank listens, with the address if that is not all.
func listenText(a netip.AddrPort) string {
	if a.Addr().IsUnspecified() {
		return "port " + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}
