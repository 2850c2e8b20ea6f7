package launcher

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gorun/launcher/wire"
)

// This file carries out what the machine wants of the hosts' watch on each other.

// lateLook is how late a look may come. When this process was stopped for a while, frames
// of hosts that seem silent wait to be read.
const lateLook = 500 * time.Millisecond

// lookAround tells the machine when each host was last heard of.
func (r *run) lookAround() {
	if time.Since(r.around.end) > lateLook {
		r.around.set(lateLook)
		return
	}
	r.around.off()
	a := &around{now: r.now(), heard: make([]time.Duration, len(r.hosts))}
	for i, h := range r.hosts {
		a.heard[i] = time.Duration(h.heard.Load())
	}
	r.step(event{around: a})
}

// fresh counts the hosts of the watch that were heard of lately.
func (r *run) fresh() (n int) {
	now := r.now()
	for _, h := range r.hosts {
		if r.m.watches(h.index) && now-time.Duration(h.heard.Load()) < r.m.waits.quiet {
			n++
		}
	}
	return n
}

// listen has h's agent listen at the address that its ranks use.
func (r *run) listen(h *host) {
	addr, err := netip.ParseAddr(r.planner.site.addrs[h.index])
	if err != nil {
		r.step(event{host: h.index, watching: &wire.Watching{Failure: err.Error()}})
		return
	}
	r.send(h, wire.Message{Watch: &wire.Watch{Addr: addr}})
}

// meet has h's agent get to know those of others.
func (r *run) meet(h *host, others []int) {
	w := &wire.Watch{}
	for _, o := range others {
		w.Peers = append(w.Peers, r.hosts[o].gossip)
	}
	r.send(h, wire.Message{Watch: w})
}

// checkWatch refuses what no agent can know.
func (r *run) checkWatch(h *host, m wire.Message) error {
	p := r.placed.Load()
	if at := p.at(h); at < 0 || p.layout.Count[at] == 0 {
		return errors.New("it watches others without a plan")
	}
	if m.Watching != nil {
		if len(m.Watching.Failure) > maxLog {
			return fmt.Errorf("it says in %d bytes why it does not watch", len(m.Watching.Failure))
		}
		return nil
	}
	for _, nodes := range [][]int{m.Word.Dead, m.Word.Alive} {
		if len(nodes) > wire.MaxWord {
			return fmt.Errorf("it tells of %d nodes at a time", len(nodes))
		}
		for _, n := range nodes {
			if n < 0 || n >= len(p.hosts) {
				return fmt.Errorf("it tells of node %d", n)
			}
		}
	}
	return nil
}

// watched hands the machine what an agent says of the watch.
func (r *run) watched(h *host, m wire.Message) {
	if m.Watching != nil {
		if port := m.Watching.Port; port != 0 && !h.gossip.IsValid() {
			addr, _ := netip.ParseAddr(r.planner.site.addrs[h.index])
			h.gossip = netip.AddrPortFrom(addr, port)
		}
		r.step(event{host: h.index, watching: m.Watching})
		return
	}
	hosts := r.placed.Load().hosts
	w := &word{}
	for _, n := range m.Word.Dead {
		w.dead = append(w.dead, hosts[n])
	}
	for _, n := range m.Word.Alive {
		w.alive = append(w.alive, hosts[n])
	}
	r.step(event{host: h.index, word: w})
}
