package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// world is a whole job without sockets or clocks: an Engine, a hub per host, and
// links between them that can be held up.
type world struct {
	now    time.Time
	engine *Engine
	hosts  []string
	hubs   []*hub
	hostOf map[int]int
	up     [][]Request // by host, on the way to the head
	down   [][]Reply   // by host, on the way from the head
	held   map[string]bool
	seats  map[string]*session // by client: "r0", "r0/second"
	nextID map[string]uint64
	quiet  bool // messages between hosts and head are not printed

	released func() // called when the head has released a barrier
	lines    []string
}

func newWorld(hosts []string, ranks [][]int, hostOf map[int]int) *world {
	w := &world{
		now: epochZero, hosts: hosts, hostOf: hostOf, held: map[string]bool{},
		up: make([][]Request, len(hosts)), down: make([][]Reply, len(hosts)),
		seats: map[string]*session{}, nextID: map[string]uint64{},
	}
	w.engine = NewEngine(len(hostOf), hosts, func(rank int) int { return hostOf[rank] }, allHere)
	for i := range hosts {
		w.hubs = append(w.hubs, newHub(make([]byte, SecretLen), ranks[i], func(r Request) {
			w.print("%s > %s", hosts[i], showRequest(r))
			w.up[i] = append(w.up[i], r)
		}))
	}
	return w
}

func (w *world) print(format string, args ...any) {
	if !w.quiet {
		w.lines = append(w.lines, fmt.Sprintf(format, args...))
	}
}

// do plays one line of a script; see TestJobScripts.
func (w *world) do(words []string) []string {
	w.lines = nil
	switch words[0] {
	case "at":
		w.advance(epochZero.Add(mustDuration(words[1])))
	case "hold", "flow": // hold up node1
		w.held[words[1]+" "+words[2]] = words[0] == "hold"
		w.flow()
	case "state":
		w.state()
	case "waiting":
		for i, h := range w.hubs {
			for _, x := range h.waiting(w.now) {
				w.print("%s: rank %d %s %s for %v", w.hosts[i], x.Rank, x.Op, x.Name, x.For)
			}
		}
	default:
		w.client(words[0], words[1:])
		w.flow()
	}
	return w.lines
}

// client plays a request, close or cancel of a rank's client.
func (w *world) client(who string, words []string) {
	rank := mustAtoi(strings.TrimPrefix(strings.Split(who, "/")[0], "r"))
	h := w.hubs[w.hostOf[rank]]
	s := w.seats[who]
	if s == nil {
		s = &session{answer: func(r Reply) { w.lines = append(w.lines, who+" "+showReply(r)) }}
		quiet := *s
		quiet.answer = func(Reply) {}
		h.handle(w.now, &quiet, Request{Op: opHello, Rank: rank})
		*s = session{answer: s.answer, member: quiet.member, rank: rank}
		w.seats[who] = s
	}
	if words[0] == "close" {
		h.leave(w.now, s)
		delete(w.seats, who)
		return
	}
	r := parseTestRequest(words)
	if r.ID == 0 {
		w.nextID[who]++
		r.ID = w.nextID[who]
	}
	if !h.handle(w.now, s, r) {
		w.lines = append(w.lines, who+" is closed")
	}
}

// advance lets time pass, with everything that becomes due meanwhile.
func (w *world) advance(to time.Time) {
	for {
		next := w.engine.Next()
		for _, h := range w.hubs {
			if at := h.next(); next.IsZero() || (!at.IsZero() && at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() || next.After(to) {
			break
		}
		w.now = next
		before := len(w.lines)
		for _, h := range w.hubs {
			h.tick(w.now)
		}
		w.route(w.engine.Tick(w.now))
		w.flow()
		if len(w.lines) > before {
			w.lines = slices.Insert(w.lines, before, fmt.Sprintf("-- %v", w.now.Sub(epochZero)))
		}
	}
	w.now = to
}

func (w *world) route(list []Routed) {
	for _, r := range list {
		w.down[r.Host] = append(w.down[r.Host], r.Reply)
	}
}

// flow moves messages on all links that are not held up, until none moves.
func (w *world) flow() {
	for moved := true; moved; {
		moved = false
		for i, host := range w.hosts {
			for len(w.up[i]) > 0 && !w.held["up "+host] {
				w.moveUp(i)
				moved = true
			}
			for len(w.down[i]) > 0 && !w.held["down "+host] {
				w.moveDown(i)
				moved = true
			}
		}
	}
}

func (w *world) moveUp(i int) {
	r := w.up[i][0]
	w.up[i] = w.up[i][1:]
	out := w.engine.Handle(w.now, i, r)
	if w.released != nil && r.Op == opBarrier && len(out) > 0 && out[0].Reply.Code == "" {
		w.released()
	}
	w.route(out)
}

func (w *world) moveDown(i int) {
	r := w.down[i][0]
	w.down[i] = w.down[i][1:]
	w.print("%s < %s", w.hosts[i], showReply(r))
	w.hubs[i].deliver(w.now, r)
}

// state prints what waits, which at the end of a script should be nothing.
func (w *world) state() {
	e := w.engine
	w.print("head: %d waits, %d queued, %d gets, %d barriers", len(e.waits), len(e.queue), len(e.gets), len(e.meetings))
	for i, h := range w.hubs {
		calls, puts := 0, 0
		for _, m := range h.members {
			calls += m.calls
			puts += m.puts
		}
		w.print("%s: %d calls, %d bytes under way, %d gets, %d barriers, %d at the head", w.hosts[i], calls, puts, len(h.fetches), len(h.gatherings), len(h.pending))
	}
}
