package rendezvous

import (
	"bytes"
	"container/heap"
	"fmt"
	"time"
)

// keyCost is counted against MaxTotal for each key, besides its bytes and its value's.
const keyCost = 64

// Engine holds the keys and barriers of one job. It does no I/O, has no clock and
// no goroutine: requests and the time go in, replies come out, and the same input
// gives the same output. It is not safe for concurrent use.
//
// The time may be any clock that never goes back; one that stands still while the
// job is suspended keeps deadlines from passing meanwhile.
type Engine struct {
	hosts  []string
	hostOf []int   // by rank
	ranks  [][]int // by host, ascending
	busy   int     // hosts that have ranks
	gone   func(rank int) bool
	over   []bool // by rank: nobody will write or enter for it any more
	ended  bool   // some rank is over

	keys  map[name]entry
	bytes int // of all keys, as MaxTotal counts them
	limit int // of bytes

	gets     map[name][]*wait
	meetings map[name]*meeting
	waits    map[origin]*wait
	waiting  []int // number of waits by host
	queue    queue // of all waits
	serial   uint64
}

// Routed is a reply for one host's agent. Reply.Value must not be changed.
type Routed struct {
	Host  int
	Reply Reply
}

type entry struct {
	value []byte
	rank  int // that put it
}

// origin is a request as the head knows it.
type origin struct {
	host int
	id   uint64
}

// NewEngine returns the Engine of a job of size ranks. hosts are the hosts' names,
// for error texts; hostOf gives the index in hosts of a rank's host. gone reports
// whether a rank has ended or is lost by now. It is asked for error texts only: a
// rank's other processes may still write and enter for it, until its host's Server has
// been told that it is over.
func NewEngine(size int, hosts []string, hostOf func(rank int) int, gone func(rank int) bool) *Engine {
	e := &Engine{
		limit: MaxTotal, hosts: hosts, hostOf: make([]int, size), over: make([]bool, size), ranks: make([][]int, len(hosts)), gone: gone,
		keys: map[name]entry{}, gets: map[name][]*wait{}, meetings: map[name]*meeting{}, waits: map[origin]*wait{},
		waiting: make([]int, len(hosts)),
	}
	for rank := range size {
		host := hostOf(rank)
		e.hostOf[rank] = host
		if len(e.ranks[host]) == 0 {
			e.busy++
		}
		e.ranks[host] = append(e.ranks[host], rank)
	}
	return e
}

// Handle takes a request of a host's agent and returns the replies that are now
// due, also to requests of other hosts. Requests of one host must be handled in
// the order in which its agent sent them. It keeps no memory of r but a copy.
func (e *Engine) Handle(now time.Time, host int, r Request) []Routed {
	var err *Error
	if r.Op != opOver {
		err = r.check()
	}
	if err == nil {
		err = e.checkRanks(host, &r)
	}
	if err == nil {
		err = e.admit(host, &r)
	}
	if err != nil {
		return []Routed{{host, refusal(r.ID, err)}}
	}
	n := name{r.Epoch, r.Key}
	switch r.Op {
	case opPut:
		return e.put(host, n, &r)
	case opTry:
		return []Routed{{host, e.try(n, r.ID)}}
	case opGet:
		return e.get(now, host, n, &r)
	case opBarrier:
		return e.report(now, host, n, &r)
	case opOver:
		return e.end(r.Missing)
	}
	return e.cancel(origin{host, r.ID})
}

// checkRanks returns what is wrong with the ranks that r reports, or nil.
func (e *Engine) checkRanks(host int, r *Request) *Error {
	if n := len(r.Missing) + len(r.Left); n > len(e.ranks[host]) {
		return invalid("%d ranks reported; %s has %d", n, e.hosts[host], len(e.ranks[host]))
	}
	for _, list := range [][]int{r.Missing, r.Left} {
		for _, rank := range list {
			if rank < 0 || rank >= len(e.hostOf) || e.hostOf[rank] != host {
				return invalid("rank %d is not on %s", rank, e.hosts[host])
			}
		}
	}
	return nil
}

// admit returns an error if a host waits for more than its ranks may. No agent of ours
// lets them; the one more is a report that is about to replace another.
func (e *Engine) admit(host int, r *Request) *Error {
	n := e.waiting[host]
	if r.Op != opGet && r.Op != opBarrier || n <= maxCalls*len(e.ranks[host]) {
		return nil
	}
	return &Error{Code: CodeLimit, Text: fmt.Sprintf("%s has %d requests waiting already", e.hosts[host], n)}
}

func (e *Engine) put(host int, n name, r *Request) []Routed {
	if old, ok := e.keys[n]; ok {
		reply := Reply{ID: r.ID}
		if !bytes.Equal(old.value, r.Value) {
			reply.Code = CodeConflict
			reply.Err = fmt.Sprintf("key %v already has another value, put by %s", n, e.rankText(old.rank))
		}
		return []Routed{{host, reply}}
	}
	cost := keyCost + len(n.key) + len(r.Value)
	if e.bytes+cost > e.limit {
		text := fmt.Sprintf("key %v: the store is full: %d keys, limit %d bytes", n, len(e.keys), e.limit)
		return []Routed{{host, Reply{ID: r.ID, Code: CodeLimit, Err: text}}}
	}
	e.bytes += cost
	value := bytes.Clone(r.Value)
	e.keys[n] = entry{value, r.Rank}
	out := []Routed{{host, Reply{ID: r.ID}}}
	for _, w := range e.gets[n] {
		e.remove(w)
		out = append(out, Routed{w.host, Reply{ID: w.id, Value: value}})
	}
	delete(e.gets, n)
	return out
}

func (e *Engine) try(n name, id uint64) Reply {
	if got, ok := e.keys[n]; ok {
		return Reply{ID: id, Value: got.value}
	}
	return Reply{ID: id, Code: codeAbsent, Err: fmt.Sprintf("key %v is not there", n)}
}

func (e *Engine) get(now time.Time, host int, n name, r *Request) []Routed {
	if got, ok := e.keys[n]; ok {
		return []Routed{{host, Reply{ID: r.ID, Value: got.value}}}
	}
	w := e.add(now, host, n, r)
	if r.From != nil {
		w.from = *r.From
	}
	e.gets[n] = append(e.gets[n], w)
	return e.refuseGet(w)
}

// cancel ends the wait of o. The reply tells the agent that it no longer counts; a
// wait that has ended already got its reply then.
func (e *Engine) cancel(o origin) []Routed {
	w, ok := e.waits[o]
	if !ok {
		return nil
	}
	e.drop(w)
	return []Routed{{w.host, Reply{ID: w.id, Code: codeWithdrawn}}}
}

// Tick returns the replies to requests whose deadline is not after now.
func (e *Engine) Tick(now time.Time) []Routed {
	var out []Routed
	gets := map[question]string{} // what is said of a key to one host is said to all
	for len(e.queue) > 0 && !e.queue[0].due.After(now) {
		w := e.queue[0]
		text := gets[w.question()]
		switch {
		case w.meeting != nil:
			text = e.meetingText(w.name, w.meeting)
		case text == "":
			text = e.getText(w)
			gets[w.question()] = text
		}
		e.drop(w)
		out = append(out, Routed{w.host, Reply{ID: w.id, Code: CodeDeadline, Err: text}})
	}
	return out
}

// Next returns when Tick is next needed, or the zero time if nothing waits.
func (e *Engine) Next() time.Time {
	if len(e.queue) == 0 {
		return time.Time{}
	}
	return e.queue[0].due
}

// add queues a wait for r. An agent that uses an ID twice loses the older request.
func (e *Engine) add(now time.Time, host int, n name, r *Request) *wait {
	o := origin{host, r.ID}
	if old, ok := e.waits[o]; ok {
		e.drop(old)
	}
	e.serial++
	w := &wait{origin: o, name: n, due: now.Add(r.wait()), serial: e.serial, from: -1}
	e.waits[o] = w
	e.waiting[host]++
	heap.Push(&e.queue, w)
	return w
}

// remove takes w out of the queue; drop also out of what it waits for.
func (e *Engine) remove(w *wait) {
	heap.Remove(&e.queue, w.index)
	delete(e.waits, w.origin)
	e.waiting[w.host]--
}

func (e *Engine) drop(w *wait) {
	e.remove(w)
	if w.meeting != nil {
		e.leave(w)
		return
	}
	rest := without(e.gets[w.name], w)
	if e.gets[w.name] = rest; len(rest) == 0 {
		delete(e.gets, w.name)
	}
}
