package pmi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorun/rendezvous"
)

// errClosed is the end of the Server.
var errClosed = errors.New("closed")

// window is how many requests of the gatherer are under way.
const window = 256

// gather puts together, on node 0, what the hosts have put before each fence.
func (s *Server) gather() {
	g := &gatherer{answers: make(chan rendezvous.Reply, window), done: s.done}
	local, err := s.cfg.Store.Local(s.cfg.Ranks[0].Rank, func(r rendezvous.Reply) { g.answers <- r })
	if err != nil {
		return
	}
	defer local.Close()
	g.ask = local.Ask
	for fence := 0; ; {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		s.mu.Lock()
		released := s.released
		s.mu.Unlock()
		for ; fence < released; fence++ {
			err := g.fence(fence, s.cfg.Nodes)
			if err == errClosed {
				return
			}
			if err != nil {
				s.cfg.Abort(Abort{Rank: s.cfg.Ranks[0].Rank, Text: err.Error()})
				return
			}
		}
	}
}

// gatherer is a client of the store with many requests at a time.
type gatherer struct {
	ask     func(rendezvous.Request)
	answers chan rendezvous.Reply
	done    <-chan struct{}
	last    uint64 // ID
}

// fence gathers the tables of all nodes, and puts the pieces.
func (g *gatherer) fence(fence, nodes int) error {
	requests := make([]rendezvous.Request, nodes)
	for node := range requests {
		requests[node] = rendezvous.Request{Op: "try", Key: lastTable(fence, node)}
	}
	last, err := g.all(requests)
	if err != nil {
		return err
	}
	var lines []string
	requests = requests[:0]
	for node, r := range last {
		if len(r.Value) == 0 { // it has put nothing
			continue
		}
		count, text, _ := strings.Cut(string(r.Value), "\n")
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("the table of node %d begins with %.20q", node, count)
		}
		for i := range n {
			requests = append(requests, rendezvous.Request{Op: "get", Key: tableName(fence, node, i)})
		}
		lines = append(lines, text)
	}
	more, err := g.all(requests)
	if err != nil {
		return err
	}
	for _, r := range more {
		lines = append(lines, string(r.Value))
	}
	_, err = g.all(cut(fence, lines))
	return err
}

// all makes requests, and returns the answers in their order. That a key is not there is
// an answer.
func (g *gatherer) all(requests []rendezvous.Request) ([]rendezvous.Reply, error) {
	out := make([]rendezvous.Reply, len(requests))
	first := g.last + 1
	for asked, got := 0, 0; got < len(requests); {
		if asked < len(requests) && asked-got < window {
			r := requests[asked]
			g.last++
			r.ID = g.last
			g.ask(r)
			asked++
			continue
		}
		select {
		case r := <-g.answers:
			i := int(r.ID - first)
			if r.Code != "" && requests[i].Op != "try" {
				return nil, fmt.Errorf("%s", r.Err)
			}
			out[i] = r
			got++
		case <-g.done:
			return nil, errClosed
		}
	}
	return out, nil
}
