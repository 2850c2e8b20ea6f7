package agent

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorun/launcher/wire"
)

var here = netip.MustParseAddr("127.0.0.1")

// watchAt has an agent listen for the gossip of others.
func (h *head) watchAt(addr netip.Addr) *wire.Watching {
	h.t.Helper()
	h.tell(wire.Message{Watch: &wire.Watch{Addr: addr}})
	return message(h, "Watching", func(m wire.Message) *wire.Watching { return m.Watching })
}

// Two agents watch each other: the one that is left says that the other has ended.
func TestWatch(t *testing.T) {
	t.Parallel()
	var heads []*head
	var ports []uint16
	id := newPlan(t, []string{"true"}).JobID
	for node := range 2 {
		p := newPlan(t, []string{"sleep", "100"})
		p.Nodes, p.Node, p.Secret = 2, node, make([]byte, 32)
		p.JobID = strings.Repeat(strconv.Itoa(node), 4) + id[4:] // two on one machine
		h := startAgent(t, launch{})
		h.run(p)
		w := h.watchAt(here)
		if w.Port == 0 || w.Failure != "" {
			t.Fatalf("got %+v; want a port", w)
		}
		heads, ports = append(heads, h), append(ports, w.Port)
	}
	heads[0].tell(wire.Message{Watch: &wire.Watch{Peers: []netip.AddrPort{netip.AddrPortFrom(here, ports[1])}}})
	joined := func(m wire.Message) *wire.Watching {
		if m.Watching != nil && m.Watching.Port == 0 {
			return m.Watching
		}
		return nil
	}
	if w := message(heads[0], "Watching with Joined", joined); !w.Joined {
		t.Fatalf("got %+v; want that it has joined", w)
	}
	begun := time.Now()
	heads[1].stop(0)
	if took := time.Since(begun); took > testLimit/2 {
		t.Errorf("the end took %v", took)
	}
	w := message(heads[0], "Word", func(m wire.Message) *wire.Word { return m.Word })
	if len(w.Dead) != 1 || w.Dead[0] != 1 || len(w.Alive) != 0 {
		t.Errorf("got %+v; want node 1 dead", w)
	}
	heads[0].stop(0)
	if c, err := net.Dial("tcp", netip.AddrPortFrom(here, ports[0]).String()); err == nil {
		c.Close()
		t.Error("the port is open when the agent has ended")
	}
}

func TestWatchFails(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, []string{"sleep", "100"}))
	if w := h.watchAt(netip.MustParseAddr("192.0.2.1")); w.Port != 0 || !strings.Contains(w.Failure, "cannot assign requested address") {
		t.Errorf("got %+v; want that the address is not there", w)
	}
	h.stop(0)
}

// What no head sends ends the link.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]wire.Watch{
		"everywhere":     {Addr: netip.IPv4Unspecified()},
		"peers-at-first": {Peers: []netip.AddrPort{netip.AddrPortFrom(here, 1)}},
		"nothing":        {},
	} {
		t.Run(name, func(t *testing.T) {
			h := startAgent(t, launch{})
			h.run(newPlan(t, []string{"sleep", "100"}))
			h.tell(wire.Message{Watch: &w})
			if code := h.code(); code != exitLost {
				t.Errorf("exit code %d; want %d", code, exitLost)
			}
		})
	}
}
