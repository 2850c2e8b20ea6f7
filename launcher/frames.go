package launcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/launcher/transport"
	"gorun/launcher/wire"
	"gorun/rendezvous"
	"gorun/rendezvous/pmi"
)

// This file is the sink of the hosts' goroutines: output and credit are dealt with
// where they arrive, everything else is posted to the loop.

func (r *run) patience() time.Duration { return r.job.ConnectTimeout }

func (r *run) suspended() int64 { return r.suspensions.Load() }

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) connected(h *host) {
	if r.io.Events != nil {
		r.tell(func() { r.record(Event{Event: "host_connected", Host: h.spec.Name, Steps: steps(h)}) })
	}
}

func (r *run) cameUp(h *host) {
	r.tell(func() {
		if r.io.Verbose {
			r.say(fmt.Sprintf("%s: %s", h.spec.Name, timeline(h.link.Timeline())))
		}
		r.examine(h)
		r.step(event{host: h.index, up: h.hello, answers: r.settle(h)})
	})
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

func (r *run) retry() time.Duration { return r.job.RetryHosts }

// awaited says that a host is waited for: of the first in one line, of the others with -v.
func (r *run) awaited(h *host, err error) {
	r.tell(func() {
		if h.awaited {
			return
		}
		h.awaited = true
		text := fmt.Sprintf("waiting up to %v for hosts that cannot be reached yet: %s: %v", r.job.RetryHosts, h.spec.Name, err)
		if r.awaits {
			r.note("info", text)
			return
		}
		r.awaits = true
		r.say(text)
	})
}

func (r *run) didNotCome(h *host, err error) {
	r.tell(func() { r.step(event{host: h.index, failed: err}) })
}

func (r *run) gone(h *host, why string) {
	r.of(h, func() { r.step(event{host: h.index, lost: &lostEvent{why: why, sweep: true}}) })
}

func (r *run) detail(h *host, text string) {
	r.tell(func() {
		for line := range strings.Lines(text) {
			r.note("info", h.spec.Name+": "+strings.TrimSuffix(line, "\n"))
		}
	})
}

// maxUnread bounds what a host is owed while it asks for more. All of a store's keys are
// not so much.
const maxUnread = 2 * rendezvous.MaxTotal

// errPeer is the end of a link whose agent sends what it must not.
var errPeer = errors.New("its agent broke the protocol")

func (r *run) frame(h *host, f wire.Frame) error {
	switch f.Kind {
	case wire.Heartbeat:
		return nil
	case wire.Output:
		return r.output(h, f)
	case wire.Credit:
		return r.stdinCredit(h, f)
	case wire.Store:
		req, err := rendezvous.ParseRequest(f.Payload)
		if err != nil {
			return fmt.Errorf("%w: %v", errPeer, err)
		}
		if n := h.send.Queued(); n > maxUnread {
			return fmt.Errorf("%w: it asks the store and leaves %d bytes unread", errPeer, n)
		}
		r.of(h, func() { r.request(h, req) })
		return nil
	case wire.Control:
		m, err := wire.Decode(f)
		if err == nil {
			err = r.checkMessage(h, m)
		}
		if err != nil {
			return fmt.Errorf("%w: %v", errPeer, err)
		}
		h.sawDone = h.sawDone || m.Done != nil
		came := time.Now()
		r.of(h, func() { r.message(h, m, came) })
		return nil
	}
	return fmt.Errorf("%w: a frame of kind %d", errPeer, f.Kind)
}

// output passes a rank's bytes on. They are bounded by the credit that was granted.
func (r *run) output(h *host, f wire.Frame) error {
	p := r.placed.Load()
	at := p.at(h)
	rank, which := wire.SplitStream(f.Stream)
	switch {
	case !p.has(at, rank) || which == wire.In || which > wire.Err:
		return fmt.Errorf("%w: output for stream %d", errPeer, f.Stream)
	case len(f.Payload) == 0:
		p.credit.ended(rank, which)
		p.out.End(rank, which)
	case !p.credit.received(rank, which, len(f.Payload)):
		return fmt.Errorf("%w: output of rank %d without credit, or behind its end", errPeer, rank)
	default:
		p.out.Write(rank, which, f.Payload)
	}
	return nil
}

// stdinCredit lets more of stdin go to one of the host's ranks, or of files to the host.
func (r *run) stdinCredit(h *host, f wire.Frame) error {
	if k := h.courier.Load(); k != nil && f.Stream == wire.FileStream && wire.CreditOf(f) <= maxContent {
		k.grant(wire.CreditOf(f))
		return nil
	}
	p := r.placed.Load() // before r.stdin, which is set before it
	at := p.at(h)
	rank, which := wire.SplitStream(f.Stream)
	if !p.has(at, rank) || which != wire.In || r.stdin == nil {
		return fmt.Errorf("%w: credit for stream %d", errPeer, f.Stream)
	}
	r.stdin.grant(rank, wire.CreditOf(f))
	return nil
}

// ofFiles reports whether a host speaks of files that are brought to it.
func ofFiles(m wire.Message) bool {
	return m.Have != nil || m.Seen != nil || m.Want != nil || m.Got != nil || m.Staged != nil
}

// message handles a control message in the loop. It came at the time given.
func (r *run) message(h *host, m wire.Message, came time.Time) {
	e := event{host: h.index, answered: m.Settings != nil, prepared: m.Prepared, started: m.Started, exited: m.Exited, done: m.Done, picture: m.Picture}
	switch {
	case m.Log != nil:
		r.note(m.Log.Level, h.spec.Name+": "+m.Log.Text)
		return
	case m.Prepared != nil:
		r.nameTwins(h, m.Prepared.Failures)
		if s := r.m.hosts[h.index].state; s == hostUp || s == hostStaged { // it tells that once
			r.bindings.take(h.spec.Name, m.Prepared, len(r.m.ranks))
			r.libraries.take(h.index, h.spec.Name, m.Prepared)
			r.lacked.take(h.index, m.Prepared.Lacked)
			r.unmet.take(h.index, m.Prepared.Unmet)
			if err := r.libraries.strict(len(r.placed.Load().hosts)); err != nil && r.job.Rigor == envsync.Strict {
				r.step(event{planErr: err})
			}
		}
	case m.Settings != nil:
		h.settings = m.Settings
	case ofFiles(m):
		r.staging.message(h, m)
		return
	case ofPreflight(m):
		r.answered(h, m, came)
		return
	case m.Watching != nil || m.Word != nil:
		r.watched(h, m)
		return
	case m.Proof != nil:
		r.proved(h, m.Proof)
		return
	case m.Exited != nil && r.stdin != nil:
		r.stdin.forget(m.Exited.Rank)
	case m.Started != nil && r.io.Verbose:
		r.say(fmt.Sprintf("%s: %s started", h.spec.Name, count(len(m.Started.PIDs), "rank")))
	}
	if m.Abort != nil {
		e.broke = aborted(m.Abort)
	}
	if len(m.Parted) > 0 {
		r.noteParted(m.Parted)
		return
	}
	r.step(e)
	if m.Exited != nil {
		r.mpiEnded(m.Exited.Rank)
	}
}

// nameTwins completes the texts of h's failures with what agents do not know: the name of
// the other host, and where the two stand.
func (r *run) nameTwins(h *host, failures []wire.Failure) {
	for i, f := range failures {
		if f.Twin != nil {
			other := r.hosts[r.placed.Load().hosts[*f.Twin]].spec
			failures[i].Text += fmt.Sprintf("%s (%s and %s)", other.Name, h.spec.Place(), other.Place())
		}
	}
}

// request handles one of the store's requests in the loop. Hosts without ranks, or
// that were let go, have none to make.
func (r *run) request(h *host, req rendezvous.Request) {
	if p := r.placed.Load(); p != nil && r.m.live(h.index) {
		r.reply(r.engine.Handle(r.storeTime(), p.nodes[h.index], req))
		if req.Op == "barrier" && strings.HasPrefix(req.Key, pmi.Prefix) {
			r.mpiMeeting(req.Key)
		}
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
