package launcher

import (
	"time"

	"gorun/launcher/wire"
)

// suspend stops this process once the agents have been told to pause.
func (r *run) suspend() {
	if r.io.Suspend == nil {
		return
	}
	r.flushLinks(time.Second)
	r.suspensions.Add(1)
	show := r.out.Hide()
	before := time.Now()
	r.dialer.Suspend(r.io.Suspend)
	show()
	took := time.Since(before)
	r.paused += took
	r.limit.shift(took)
	r.deadline.shift(took)
	r.looking.shift(took)
	r.around.shift(took)
	r.lateness.shift(took)
	if r.exam != nil {
		r.exam.patience.shift(took)
	}
	for _, h := range r.hosts {
		h.heard.Store(int64(r.now()))
	}
}

// flushLinks returns when what was queued for the live hosts has been written, or
// the limit is over.
func (r *run) flushLinks(limit time.Duration) {
	late := time.After(limit)
	told := make(chan struct{}, len(r.hosts))
	n := 0
	for _, h := range r.hosts {
		if r.m.live(h.index) {
			n++
			r.aside.Go(func() {
				h.send.SendBulk(wire.Frame{Kind: wire.Heartbeat}) // bulk goes after what was queued
				told <- struct{}{}
			})
		}
	}
	for range n {
		select {
		case <-told:
		case <-late:
			return
		}
	}
}
