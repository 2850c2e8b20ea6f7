package rendezvous

import (
	"slices"
	"time"
)

// fetch is a key that ranks of this host wait for; the head is asked once for all.
type fetch struct {
	name  name
	calls []*call
	id    uint64    // of the request at the head
	due   time.Time // of that request
	from  *int      // of that request
}

func (h *hub) get(now time.Time, c *call) {
	f := h.fetches[c.name]
	if f == nil {
		f = &fetch{name: c.name}
		h.fetches[c.name] = f
	}
	f.calls = append(f.calls, c)
	if f.id == 0 || f.due.Sub(c.due) > batch || f.from == nil && c.from != nil {
		f.giveUp(h, c)
		f.ask(h, now)
	}
}

// ask asks the head for the key until the earliest deadline.
func (f *fetch) ask(h *hub, now time.Time) {
	f.due = span(f.calls)
	r := Request{Op: opGet, Key: f.name.key, Epoch: f.name.epoch, Rank: f.calls[0].session.rank, Timeout: remaining(now, f.due)}
	if i := slices.IndexFunc(f.calls, func(c *call) bool { return c.from != nil }); i >= 0 {
		r.From = f.calls[i].from
	}
	f.from = r.From
	f.id = h.ask(f, r)
}

// giveUp takes back what the head was asked, because of c.
func (f *fetch) giveUp(h *hub, c *call) {
	if f.id != 0 {
		h.forget(f.id, c.session.member)
		f.id = 0
	}
}

// reply ends the calls that r answers. After a deadline, those that may wait longer
// go on; and if the rank is gone that is to write the key, those that did not name it.
func (f *fetch) reply(h *hub, now time.Time, r Reply) {
	f.id = 0
	ended := slices.Clone(f.calls)
	f.calls = f.calls[:0]
	if r.Code == "" {
		h.keep(f.name, r.Value)
	}
	for _, c := range ended {
		if r.Code == CodeDeadline && c.due.After(f.due) || r.Code == CodeGone && (c.from == nil || *c.from != *f.from) {
			f.calls = append(f.calls, c)
			continue
		}
		h.finish(c, r)
	}
	if len(f.calls) == 0 {
		delete(h.fetches, f.name)
		return
	}
	f.ask(h, now)
}

func (f *fetch) remove(h *hub, c *call) {
	f.calls = without(f.calls, c)
	if len(f.calls) == 0 {
		f.giveUp(h, c)
		delete(h.fetches, f.name)
	}
}
