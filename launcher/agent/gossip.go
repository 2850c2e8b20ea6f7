package agent

import (
	"context"
	"fmt"
	"net/netip"

	"gorun/launcher/wire"
	"gorun/rendezvous/gossip"
)

// takeWatch carries out what the head wants of this host's part in the hosts' watch on each
// other. It does not wait for it.
func (a *agent) takeWatch(j *job, w *wire.Watch) error {
	switch {
	case isClosed(a.end.begun):
		return nil
	case w.Addr.IsValid() && a.peers == nil && !w.Addr.IsUnspecified():
		a.peers = make(chan []netip.AddrPort, 1)
		peers := a.peers
		a.gossips.Go(func() { a.openGossip(j.plan, w.Addr, peers) })
		return nil
	case !w.Addr.IsValid() && a.peers != nil:
		select {
		case a.peers <- w.Peers:
			return nil
		default:
		}
	}
	return fmt.Errorf("%w: a watch at %v with %d peers", errFrame, w.Addr, len(w.Peers))
}

// openGossip takes part until the order to stop: from then on nobody needs to know who
// is there.
func (a *agent) openGossip(p *wire.Plan, addr netip.Addr, peers <-chan []netip.AddrPort) {
	w, err := gossip.Listen(gossip.Config{
		Node: p.Node, Nodes: p.Nodes, Addr: addr, Key: gossip.Key(p.Secret), Most: wire.MaxWord,
		Changed: func(dead, alive []int) {
			a.out.SendMessage(wire.Message{Word: &wire.Word{Dead: dead, Alive: alive}})
		},
	})
	if err != nil {
		a.sayWatching(wire.Watching{Failure: cut(clean(err.Error()))})
		return
	}
	defer w.Close()
	a.sayWatching(wire.Watching{Port: w.Port()})
	for {
		select {
		case p := <-peers:
			a.gossips.Go(func() { a.join(w, p) })
		case <-a.end.begun:
			return
		}
	}
}

// join ends soon when w is closed.
func (a *agent) join(w *gossip.Watch, peers []netip.AddrPort) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), wire.JoinLimit, fmt.Errorf("nobody answered within %v", wire.JoinLimit))
	defer cancel()
	if err := w.Join(ctx, peers); err != nil {
		a.sayWatching(wire.Watching{Failure: cut(clean(err.Error()))})
		return
	}
	a.sayWatching(wire.Watching{Joined: true})
}

func (a *agent) sayWatching(w wire.Watching) {
	if !isClosed(a.end.begun) {
		a.out.SendMessage(wire.Message{Watching: &w})
	}
}
