package rendezvous

import (
	"fmt"
	"slices"
	"time"
)

// Limits of one rank, over all its connections.
const (
	maxSessions = 64
	maxCalls    = 1024          // requests not yet answered
	maxPuts     = 16 * MaxValue // bytes of values on their way to the head
)

// maxCache bounds the values that a host keeps; those beyond are fetched each time.
const maxCache = 16 << 20

// batch is how far apart deadlines may lie that one message to the head covers. Ranks
// that agree on a moment say it in whole milliseconds from when they ask.
const batch = 50 * time.Millisecond

// hub is one host's half of the store: it stands between the sessions of the ranks
// and the Engine, joins what ranks wait for, and caches values. Like the Engine it
// does no I/O and has no clock. Deadlines pass only at the Engine, which knows who
// is missing; the hub tells it how long to wait.
type hub struct {
	secret  []byte
	ranks   []int // of this host, ascending
	members map[int]*member
	send    func(Request) // to the head, in order

	cache      map[name][]byte
	cached     int // bytes in cache
	fetches    map[name]*fetch
	gatherings map[name]*gathering
	pending    map[uint64]pending // what the head has to answer, by ID
	last       uint64             // ID
}

// member is what a rank uses.
type member struct {
	sessions, calls, puts int
}

// pending is what the hub has asked of the head.
type pending interface {
	reply(h *hub, now time.Time, r Reply)
}

// session is a rank's connection.
type session struct {
	answer func(Reply) // must not call the hub
	member *member     // nil before hello
	rank   int
	epoch  int
	calls  []*call
}

// call is a request of a session that has not been answered.
type call struct {
	session *session
	id      uint64
	op      string
	name    name
	value   []byte
	from    *int
	due     time.Time
	timeout time.Duration
	gone    bool // nobody wants the answer
}

func newHub(secret []byte, ranks []int, send func(Request)) *hub {
	h := &hub{
		secret: secret, ranks: slices.Compact(slices.Sorted(slices.Values(ranks))), members: map[int]*member{}, send: send,
		cache: map[name][]byte{}, fetches: map[name]*fetch{}, gatherings: map[name]*gathering{}, pending: map[uint64]pending{},
	}
	for _, rank := range ranks {
		h.members[rank] = &member{}
	}
	return h
}

// handle takes a session's request. It reports false when the session must end;
// the reason has then been answered.
func (h *hub) handle(now time.Time, s *session, r Request) bool {
	if s.member == nil {
		return h.hello(s, &r)
	}
	if r.Op == opCancel {
		h.cancel(now, s, r.ID)
		return true
	}
	err := r.check()
	if err == nil {
		err = h.admit(s, &r)
	}
	if err != nil {
		s.answer(refusal(r.ID, err))
		return true
	}
	h.start(now, s, &r)
	return true
}

func (h *hub) hello(s *session, r *Request) bool {
	m := h.members[r.Rank]
	var err *Error
	switch {
	case r.Op != opHello:
		err = invalid("op %q before hello", r.Op)
	case len(r.Value) > 0:
		err = invalid("hello with a value")
	case r.Epoch < 0:
		err = invalid("epoch %d is negative", r.Epoch)
	case m == nil:
		err = invalid("rank %d is not on this host", r.Rank)
	case m.sessions == maxSessions:
		err = &Error{Code: CodeLimit, Text: fmt.Sprintf("rank %d has %d connections already", r.Rank, maxSessions)}
	}
	if err != nil {
		s.answer(refusal(r.ID, err))
		return false
	}
	m.sessions++
	s.member, s.rank, s.epoch = m, r.Rank, r.Epoch
	s.answer(Reply{ID: r.ID, Value: h.secret})
	return true
}

// admit returns an error if r's rank asks for more than is its share.
func (h *hub) admit(s *session, r *Request) *Error {
	switch m := s.member; {
	case m.calls >= maxCalls:
		return &Error{Code: CodeLimit, Text: fmt.Sprintf("rank %d has %d requests waiting already", s.rank, m.calls)}
	case m.puts+len(r.Value) > maxPuts:
		return &Error{Code: CodeLimit, Text: fmt.Sprintf("rank %d has %d bytes on their way already", s.rank, m.puts)}
	}
	return nil
}

func (h *hub) start(now time.Time, s *session, r *Request) {
	c := &call{
		session: s, id: r.ID, op: r.Op, name: name{r.Epoch, r.Key}, value: r.Value, from: r.From,
		due: now.Add(r.wait()), timeout: r.wait(),
	}
	s.calls = append(s.calls, c)
	s.member.calls++
	s.member.puts += len(c.value)
	value, cached := h.cache[c.name]
	switch {
	case c.op == opBarrier:
		h.enter(now, c)
	case cached && c.op != opPut:
		h.finish(c, Reply{Value: value})
	case c.op == opGet:
		h.get(now, c)
	default:
		h.ask(c, Request{Op: c.op, Key: c.name.key, Epoch: c.name.epoch, Rank: s.rank, Timeout: c.timeout, Value: c.value})
	}
}

// ask sends r, to whose answer p is entitled, and returns its ID.
func (h *hub) ask(p pending, r Request) uint64 {
	h.last++
	r.ID = h.last
	h.pending[r.ID] = p
	h.send(r)
	return r.ID
}

// deliver takes a reply of the head.
func (h *hub) deliver(now time.Time, r Reply) {
	if p, ok := h.pending[r.ID]; ok {
		delete(h.pending, r.ID)
		p.reply(h, now, r)
	}
}

// reply ends a put or a try.
func (c *call) reply(h *hub, now time.Time, r Reply) {
	if r.Code == "" {
		value := c.value
		if c.op == opTry {
			value = r.Value
		}
		h.keep(c.name, value)
	}
	h.finish(c, r)
}

// keep caches a value that the head has.
func (h *hub) keep(n name, value []byte) {
	cost := keyCost + len(n.key) + len(value)
	if _, ok := h.cache[n]; ok || h.cached+cost > maxCache {
		return
	}
	h.cache[n] = value
	h.cached += cost
}

// finish ends c with r.
func (h *hub) finish(c *call, r Reply) {
	m := c.session.member
	m.calls--
	m.puts -= len(c.value)
	c.session.calls = without(c.session.calls, c)
	if !c.gone {
		r.ID = c.id
		c.session.answer(r)
	}
}

// leave ends a session: everything it waits for is taken back.
func (h *hub) leave(now time.Time, s *session) {
	if s.member == nil {
		return
	}
	for _, c := range slices.Clone(s.calls) {
		h.abandon(now, c)
	}
	s.member.sessions--
}

func (h *hub) cancel(now time.Time, s *session, id uint64) {
	for _, c := range slices.Clone(s.calls) {
		if c.id == id {
			h.abandon(now, c)
		}
	}
}

// abandon takes c back. A put or a try stays on its rank's account until the head
// has answered, and so does what takes a get or a barrier back: else a rank could
// send any amount by closing each time.
func (h *hub) abandon(now time.Time, c *call) {
	if c.gone {
		return
	}
	c.gone = true
	switch c.op {
	case opGet:
		h.finish(c, Reply{})
		h.fetches[c.name].remove(h, c)
	case opBarrier:
		h.finish(c, Reply{})
		h.gatherings[c.name].remove(h, now, c)
	}
}

// withdraw tells the head that request id no longer counts. The head answers all
// the same.
func (h *hub) withdraw(id uint64) { h.send(Request{ID: id, Op: opCancel}) }

// forget withdraws request id, in whose answer nobody is interested, on m's account.
func (h *hub) forget(id uint64, m *member) {
	m.calls++
	h.pending[id] = forgotten{m}
	h.withdraw(id)
}

// forgotten is a request that the head has been told to forget.
type forgotten struct{ member *member }

func (f forgotten) reply(*hub, time.Time, Reply) { f.member.calls-- }

// tick sends the reports that are due at now; next is when it is needed again, or
// the zero time.
func (h *hub) tick(now time.Time) {
	var due []*gathering
	for _, g := range h.gatherings {
		if !g.reportAt.IsZero() && !g.reportAt.After(now) {
			due = append(due, g)
		}
	}
	slices.SortFunc(due, func(a, b *gathering) int { return a.name.compare(b.name) })
	for _, g := range due {
		g.report(h, now)
	}
}

func (h *hub) next() (first time.Time) {
	for _, g := range h.gatherings {
		if first.IsZero() || (!g.reportAt.IsZero() && g.reportAt.Before(first)) {
			first = g.reportAt
		}
	}
	return first
}

// span returns up to when one message to the head should wait for calls, of which
// there is at least one: the earliest deadline, or one a little later.
func span(calls []*call) time.Time {
	first := slices.MinFunc(calls, func(a, b *call) int { return a.due.Compare(b.due) }).due
	due := first
	for _, c := range calls {
		if c.due.After(due) && c.due.Sub(first) <= batch {
			due = c.due
		}
	}
	return due
}

// remaining is the timeout of a message that is to wait until due.
func remaining(now, due time.Time) time.Duration { return max(due.Sub(now), time.Millisecond) }
