package launcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gorun/launcher/transport"
	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// This file is the sink of the hosts' goroutines: output and credit are dealt with
// where they arrive, everything else is posted to the loop.

func (r *run) cameUp(h *host) {
	r.post <- func() {
		if r.io.Verbose {
			r.say(fmt.Sprintf("%s: %s", h.spec.Name, timeline(h.link.Timeline())))
		}
		r.step(event{host: h.index, up: h.hello})
	}
}

// timeline is "resolve 0.1 ms, connect 0.3 ms, …, ready after 20.0 ms".
func timeline(phases []transport.Phase) string {
	var parts []string
	for i, p := range phases {
		if i == len(phases)-1 {
			parts = append(parts, fmt.Sprintf("%s after %.1f ms", p.Name, ms(p.At)))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %.1f ms", p.Name, ms(phases[i+1].At-p.At)))
	}
	return strings.Join(parts, ", ")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r *run) didNotCome(h *host, err error) {
	r.post <- func() { r.step(event{host: h.index, failed: err}) }
}

func (r *run) gone(h *host, why string, agentDied bool) {
	r.post <- func() { r.step(event{host: h.index, lost: &lostEvent{why: why, sweep: agentDied}}) }
}

// errPeer is the end of a link whose agent sends what it must not.
var errPeer = errors.New("its agent broke the protocol")

func (r *run) frame(h *host, f wire.Frame) error {
	switch f.Kind {
	case wire.Heartbeat:
		return nil
	case wire.Output:
		return r.output(h, f)
	case wire.Credit:
		rank, which := wire.SplitStream(f.Stream)
		if which != wire.In || r.stdin == nil {
			return fmt.Errorf("%w: credit for stream %d", errPeer, f.Stream)
		}
		r.stdin.grant(rank, wire.CreditOf(f))
		return nil
	case wire.Store:
		req, err := rendezvous.ParseRequest(append([]byte(nil), f.Payload...))
		if err != nil {
			return fmt.Errorf("%w: %v", errPeer, err)
		}
		r.post <- func() { r.request(h, req) }
		return nil
	case wire.Control:
		m, err := wire.Decode(f)
		if err != nil {
			return err
		}
		h.sawDone = h.sawDone || m.Done != nil
		r.post <- func() { r.message(h, m) }
		return nil
	}
	return fmt.Errorf("%w: a frame of kind %d", errPeer, f.Kind)
}

// output passes a rank's bytes on. They are bounded by the credit that was granted.
func (r *run) output(h *host, f wire.Frame) error {
	p := r.placed.Load()
	rank, which := wire.SplitStream(f.Stream)
	if p == nil || rank >= p.layout.Size() || p.layout.Ranks[rank].Host != h.index || which == wire.In || which > wire.Err {
		return fmt.Errorf("%w: output for stream %d", errPeer, f.Stream)
	}
	if len(f.Payload) == 0 {
		p.out.End(rank, which)
		return nil
	}
	p.credit.received(len(f.Payload))
	p.out.Write(rank, which, f.Payload)
	return nil
}

// message handles a control message in the loop.
func (r *run) message(h *host, m wire.Message) {
	e := event{host: h.index, prepared: m.Prepared, started: m.Started, exited: m.Exited, done: m.Done}
	switch {
	case m.Log != nil:
		r.note(m.Log.Level, h.spec.Name+": "+m.Log.Text)
		return
	case m.Exited != nil && r.stdin != nil:
		r.stdin.forget(m.Exited.Rank)
	case m.Started != nil && r.io.Verbose:
		r.say(fmt.Sprintf("%s: %s started", h.spec.Name, count(len(m.Started.PIDs), "rank")))
	}
	r.step(e)
}

// request handles one of the store's requests in the loop.
func (r *run) request(h *host, req rendezvous.Request) {
	if p := r.placed.Load(); p != nil {
		r.reply(r.engine.Handle(r.storeTime(), p.nodes[h.index], req))
	}
}

// reply sends the engine's answers to the hosts' agents.
func (r *run) reply(routed []rendezvous.Routed) {
	p := r.placed.Load()
	for _, a := range routed {
		if h := r.hosts[p.hosts[a.Host]]; r.m.live(h.index) {
			h.send.Send(wire.Frame{Kind: wire.Store, Payload: a.Reply.Append(nil)})
		}
	}
}

// storeTime is the store's clock: it stands still while the job is suspended, as
// all limits do.
func (r *run) storeTime() time.Time { return time.Now().Add(-r.paused) }
