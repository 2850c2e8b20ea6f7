package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/wire"
	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

// examiner tells the head, before there is a plan, what this host is like and what its
// links to others are like. Its messages come from the link's reader; each of its
// goroutines ends soon when the examination is over: a plan has come, or the order to stop.
type examiner struct {
	settled <-chan struct{} // closed when the login shell has ended: what it leaves is killed, whosever it is
	collect func(context.Context, facts.Order) facts.Host
	send    func(wire.Message)

	ctx    context.Context // ends when the examination is over
	cancel context.CancelFunc

	mu   sync.Mutex
	work sync.WaitGroup // nothing is added when ctx has ended; for that guarded by mu

	asked    bool // for facts; owned by the link's reader, as all that follows
	listener *probe.Listener
	self     int
	secret   []byte
	addr     netip.Addr

	probing atomic.Bool // a Probe is being carried out
}

func newExaminer(settled <-chan struct{}, send func(wire.Message)) *examiner {
	x := &examiner{settled: settled, collect: facts.Collect, send: send}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// aside calls f in a goroutine, unless the examination is over.
func (x *examiner) aside(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() == nil {
		x.work.Go(f)
	}
}

// end ends the examination. The channel is closed when nothing is left of it.
func (x *examiner) end() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.work.Wait()
	}()
	return ended
}

// take carries out one message. It does not wait for what that asks for.
func (x *examiner) take(m wire.Message) error {
	switch {
	case x.ctx.Err() != nil:
		return nil // it was on its way when the end came
	case m.Examine != nil && !x.asked:
		return x.examine(*m.Examine)
	case m.Listen != nil && x.secret == nil && m.Listen.Host >= 0 && len(m.Listen.Secret) > 0:
		x.listen(*m.Listen)
		return nil
	case m.Probe != nil && x.listener != nil && len(m.Probe.Targets) <= wire.MaxTargets && !x.probing.Swap(true):
		x.aside(func() { x.probe(*m.Probe) })
		return nil
	}
	return fmt.Errorf("%w: an examination out of turn", errFrame)
}

// examine collects the facts, beside all else.
func (x *examiner) examine(m wire.Examine) error {
	x.asked = true
	var order facts.Order
	if err := json.Unmarshal(m.Order, &order); err != nil {
		return fmt.Errorf("%w: an order for facts: %v", errFrame, err)
	}
	x.send(wire.Message{Clock: &wire.Clock{At: time.Now()}})
	x.aside(func() {
		if !joinedOr(x.settled, x.ctx.Done()) {
			return
		}
		ctx, cancel := context.WithTimeoutCause(x.ctx, m.Within, fmt.Errorf("there was no more time than %v for all facts", m.Within))
		defer cancel()
		host := x.collect(ctx, order)
		text, err := json.Marshal(host)
		if err == nil && len(text) > wire.MaxFacts {
			err = fmt.Errorf("they are %d bytes, more than the %d that gorun takes", len(text), wire.MaxFacts)
		}
		if err != nil {
			x.say(wire.Message{Facts: &wire.Facts{Failure: cut(clean(err.Error()))}})
			return
		}
		for more := true; more; {
			part := text[:min(len(text), wire.FactsPart)]
			text = text[len(part):]
			more = len(text) > 0
			x.say(wire.Message{Facts: &wire.Facts{Part: part, More: more}})
		}
	})
	return nil
}

// listen answers the probes of others until the examination is over.
func (x *examiner) listen(m wire.Listen) {
	x.self, x.secret, x.addr = m.Host, m.Secret, m.Addr
	self := probe.Identity{Host: m.Host, Boot: readLine("/proc/sys/kernel/random/boot_id")}
	l, err := probe.Listen(self, m.Addr, m.Secret)
	if err != nil {
		x.send(wire.Message{Probing: &wire.Probing{Failure: cut(clean(err.Error()))}})
		return
	}
	x.listener = l
	x.aside(func() {
		<-x.ctx.Done()
		l.Close()
	})
	if x.ctx.Err() != nil {
		l.Close() // if it was over just before that
	}
	x.send(wire.Message{Probing: &wire.Probing{Port: l.Port()}})
}

// probe tries other hosts.
func (x *examiner) probe(m wire.Probe) {
	ctx, cancel := context.WithTimeoutCause(x.ctx, m.Within, fmt.Errorf("there was no more time than %v", m.Within))
	defer cancel()
	if m.Rails != nil {
		x.tryRails(ctx, m)
		return
	}
	order := probe.Order{Rounds: make([][]probe.Target, 1), Pings: m.Pings, MTU: m.MTU, Bandwidth: m.Bandwidth, Bytes: m.Bytes}
	for _, t := range m.Targets {
		order.Rounds[0] = append(order.Rounds[0], probe.Target{Host: t.Host, Addr: t.Addr})
	}
	x.probed(probe.Run(ctx, x.self, x.secret, x.addr, order))
}

// tryRails tries the rails to another host.
func (x *examiner) tryRails(ctx context.Context, m wire.Probe) {
	result := probe.Result{From: x.self}
	var rails []probe.Rail
	if err := json.Unmarshal(m.Rails, &rails); err == nil && len(m.Targets) == 1 {
		t := m.Targets[0]
		result.Rails = probe.RunRails(ctx, x.self, x.secret, x.addr, probe.Target{Host: t.Host, Addr: t.Addr}, rails)
	}
	x.probed(result)
}

// probed tells what was found.
func (x *examiner) probed(found probe.Result) {
	result, err := json.Marshal(found)
	if err != nil || len(result) > wire.MaxProbed {
		result = []byte("null") // its numbers are finite, and its texts short
	}
	x.probing.Store(false)
	x.say(wire.Message{Probed: &wire.Probed{Result: result}})
}

// say sends m unless the examination is over: then nobody wants to know.
func (x *examiner) say(m wire.Message) {
	if x.ctx.Err() == nil {
		x.send(m)
	}
}

// endExamination ends it, and returns when nothing is left of it, or after some time if
// something hangs in the kernel.
func (a *agent) endExamination() {
	joined(a.exam.end(), nil, joinLimit)
}

// clearTools ends what the collection of facts has started and could not end. It is for a
// host on which no rank was started.
func (a *agent) clearTools() {
	if !a.exam.asked || !hasChildren() {
		return
	}
	late := time.Now().Add(reapLimit)
	for wait := pollFirst; !killBelow(a.alien) && time.Now().Before(late); wait = min(2*wait, pollMost) {
		<-time.After(wait)
	}
}
