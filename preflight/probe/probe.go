// Package probe tries the network between the hosts of a job, from host to host.
//
// Every agent has a Listener for the time of a preflight, and carries out Orders by Run:
// it connects to other hosts' listeners and measures. Both ends prove that they know the
// job's secret before anything else, so that a link is never called good because a proxy
// or a stranger has answered. What is found is told as plain values: a Link per host
// tried, which Gather and Slow judge. RunRails has perftest send by RDMA: the listener of the
// other host starts the other end. Probe knows nothing of the head, and does not say
// what is to be done about a bad link.
package probe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// DefaultTimeout is how long a connect may take when an Order does not say: the kernel
// sends the first packet again after a second, so that one lost packet is no failure.
const DefaultTimeout = 3 * time.Second

const (
	// maxPings and maxStream bound what an Order may ask for.
	maxPings  = 10_000
	maxStream = time.Minute

	// atOnce is how many targets of a round are tried at the same time, so that each has
	// its answer soon, however slow the hosts are. One that takes longer than quickly
	// does not count: nobody may be there.
	atOnce  = 16
	quickly = 300 * time.Millisecond

	// maxKept is how many connections are kept, which bounds the file descriptors.
	maxKept = 256
)

// Failure says in a word why a link is not good. It is empty if it is.
type Failure string

const (
	// Dropped: nothing answered in time. A firewall that drops, or a host that is down.
	Dropped Failure = "dropped"
	// Refused: the host answered that nobody listens there, by a TCP reset.
	Refused Failure = "refused"
	// Rejected: a firewall said no by an ICMP message; Text says which and from where.
	Rejected Failure = "rejected"
	// Unreachable: there is no route, or nobody has that address in its network.
	Unreachable Failure = "unreachable"
	// Closed: somebody accepted the connection and closed it without a word: a proxy.
	Closed Failure = "closed"
	// Reset: somebody accepted the connection and reset it.
	Reset Failure = "reset"
	// Silent: somebody accepted the connection and said nothing until the deadline: a
	// proxy, or a host whose agent is stopped.
	Silent Failure = "silent"
	// Stranger: who answered does not know the job's secret.
	Stranger Failure = "stranger"
	// OtherHost: another host of this job answered (Answered says which): two hosts have
	// one address, or an address is translated.
	OtherHost Failure = "other-host"
	// Broken: the link was good at first and failed while it was measured.
	Broken Failure = "broken"
	// Invalid: the address is none that can be tried, such as one with a zone.
	Invalid Failure = "invalid"
	// Stopped: the context ended first, so nothing is known of the link.
	Stopped Failure = "stopped"
	// Other: something else, which Text tells.
	Other Failure = "other"
)

// Target is a listener of another host.
type Target struct {
	Host int            `json:"host"` // its index in the job
	Addr netip.AddrPort `json:"addr"`
}

// Order is what one host is to try. What is zero is not tried, but the connect always is.
type Order struct {
	// Rounds are tried one after another, the targets of one round at once. Hosts keep
	// common rounds only as far as each gets them in an Order of its own.
	Rounds [][]Target `json:"rounds"`
	// Timeout bounds each connect, and each answer; 0: DefaultTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Pings is how many round trips are timed: after one that is not, unless bandwidth is
	// measured, since then the target's turn has woken both ends.
	Pings int `json:"pings,omitempty"`
	// MTU asks whether a packet as large as the interface allows gets through.
	MTU bool `json:"mtu,omitempty"`
	// Bandwidth is for how long data is streamed to the target, one connection, at most
	// a minute, and then back; once more if that was slow. The target has its turn with
	// one host at a time, which includes the round trips.
	Bandwidth time.Duration `json:"bandwidth,omitempty"`
	// Bytes ends each stream earlier, after so many bytes; 0: it does not.
	Bytes int64 `json:"bytes,omitempty"`
	// Keep keeps the connections to hosts of a higher number, for a later order of the
	// same Prober.
	Keep bool `json:"keep,omitempty"`
}

// Link is what one host has found of its way to another.
type Link struct {
	Host    int     `json:"host"` // the target's index in the job
	Failure Failure `json:"failure,omitempty"`
	// Text tells more of a failure, or of a failed MTU, for people: one line without
	// control characters, which may quote what a stranger sent.
	Text string `json:"text,omitempty"`
	// Answered and Boot are who answered instead, if Failure is OtherHost.
	Answered int    `json:"answered,omitempty"`
	Boot     string `json:"boot,omitempty"`

	Connect time.Duration `json:"connect,omitempty"` // the TCP handshake
	Latency time.Duration `json:"latency,omitempty"` // the shortest round trip
	Median  time.Duration `json:"median,omitempty"`  // the median round trip
	// BytesPerSecond is what the target received in the best quarter of the stream, but for
	// the first: at least so much, as a host cannot tell times that are very short. 0: it
	// came too unevenly, or there was no time.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
	// Back is what came back from the target, in the same way. With it, the round trips
	// are those of the target, too.
	Back float64 `json:"back,omitempty"`
	// MTU is the size of the connection's largest packets, with all headers: the smaller
	// of both hosts' interface MTUs, or less if a router has said so to either.
	MTU int `json:"mtu,omitempty"`
	// MTUFailed: small packets pass, and one of MTU bytes is lost without a word each
	// of several times. Only the direction to the target is tried.
	MTUFailed bool `json:"mtu_failed,omitempty"`
}

// Result is what one host has found, in the order of its Order.
type Result struct {
	From  int    `json:"from"` // the index of the host that tried
	Links []Link `json:"links"`
	// Rails is what RunRails has found, instead of Run.
	Rails []RailLink `json:"rails,omitempty"`
}

// Run carries out one order on host self, see Prober.
func Run(ctx context.Context, self int, secret []byte, source netip.Addr, o Order) Result {
	p := NewProber(self, secret, source)
	defer p.Close()
	return p.Run(ctx, o)
}

// bounded returns o with what may be asked for.
func (o Order) bounded() Order {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	o.Pings = min(o.Pings, maxPings)
	o.Bandwidth = min(o.Bandwidth, maxStream)
	return o
}

// Prober is the host that tries. It carries out one order at a time.
type Prober struct {
	self   int
	secret []byte
	source netip.Addr
	order  Order
	find   func(program string) (path string) // only for rails

	mu     sync.Mutex
	closed bool
	known  map[int]Link         // guarded by mu; what orders with Keep have found, by host
	kept   map[int]*net.TCPConn // guarded by mu; those that are kept, by host
}

// NewProber returns the Prober of host self. It connects from source, if that is valid
// and of a target's family. The caller closes it.
func NewProber(self int, secret []byte, source netip.Addr) *Prober {
	return &Prober{self: self, secret: secret, source: source.Unmap(), known: map[int]Link{}, kept: map[int]*net.TCPConn{}}
}

// Close ends the connections that are kept; no more are.
func (p *Prober) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for host, conn := range p.kept {
		conn.Close()
		delete(p.kept, host)
	}
}

// Run carries out an order, and returns when all targets are judged, or soon after ctx has
// ended: what was not tried by then is Stopped. If nothing answers, it blocks for about the
// Timeout per round and, of many targets, 300 ms for each 16; if they answer, and have no
// turn, for the Timeout and 20 times the Bandwidth; and for a second or more for a failing
// MTU. Of a target that an order with Keep has had, what was found then is told again, and
// more only if it was good.
func (p *Prober) Run(ctx context.Context, o Order) Result {
	p.order = o.bounded()
	result := Result{From: p.self}
	for _, round := range o.Rounds {
		result.Links = append(result.Links, p.round(ctx, round)...)
	}
	return result
}

func (p *Prober) round(ctx context.Context, targets []Target) []Link {
	links := make([]Link, len(targets))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, t := range targets {
		places <- struct{}{}
		leave := sync.OnceFunc(func() { <-places })
		late := time.AfterFunc(quickly, leave)
		wg.Go(func() {
			links[i] = p.try(ctx, t)
			late.Stop()
			leave()
		})
	}
	wg.Wait()
	return links
}

// try judges one target.
func (p *Prober) try(ctx context.Context, t Target) Link {
	known, conn := p.recall(t.Host)
	if known.bad() {
		return known
	}
	link := known
	link.Host = t.Host
	err := p.unfit(t)
	if err == nil {
		err = p.measure(ctx, t, conn, &link)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil:
		f := asFault(err)
		link.Failure, link.Text, link.Answered, link.Boot = f.kind, f.text, f.answered, f.boot
	case known.Connect > 0:
		return known // it is good as far as it was tried
	default:
		link.Failure, link.Text = Stopped, fmt.Sprintf("not tried to the end: %v", context.Cause(ctx))
	}
	if link.Failure != Stopped { // of which nothing is known
		p.remember(link)
	}
	return link
}

// bad reports whether there is nothing more to measure.
func (l *Link) bad() bool { return l.Failure != "" || l.MTUFailed }

// recall returns what is known of a host, and the connection to it that was kept, or nil.
func (p *Prober) recall(host int) (Link, *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.kept[host]
	delete(p.kept, host)
	return p.known[host], conn
}

func (p *Prober) remember(link Link) {
	if p.order.Keep {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known[link.Host] = link
	}
}

// Good reports whether nothing bad is known of the way to a host.
func (p *Prober) Good(host int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	link := p.known[host]
	return !link.bad()
}

// keep keeps a connection, unless it is to be closed.
func (p *Prober) keep(host int, s session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.order.Keep || host <= p.self || p.closed || len(p.kept) >= maxKept || p.kept[host] != nil || !s.stop() {
		return false
	}
	p.kept[host] = s.conn
	return true
}

// unfit says why a target cannot be tried at all.
func (p *Prober) unfit(t Target) error {
	addr := t.Addr.Addr().Unmap()
	err := usable(addr)
	switch {
	case err != nil:
	case t.Addr.Port() == 0:
		err = fmt.Errorf("%s: no port", addr)
	case len(p.secret) == 0:
		err = errNoSecret
	}
	if err != nil {
		return &fault{kind: Invalid, text: err.Error()}
	}
	return nil
}

// usable says why others cannot reach addr, whatever the network is like.
func usable(addr netip.Addr) error {
	switch {
	case !addr.IsValid():
		return fmt.Errorf("no address")
	case addr.Zone() != "" || addr.Is6() && addr.IsLinkLocalUnicast():
		return fmt.Errorf("%s is a link-local address, which means something else on every host", addr)
	case addr.IsUnspecified(), addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%s is no host's address", addr)
	}
	return nil
}
