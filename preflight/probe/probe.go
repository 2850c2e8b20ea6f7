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

	// atOnce is how many targets of a round are tried at the same time, which bounds
	// the file descriptors.
	atOnce = 256
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
	// Pings is how many round trips are timed, after one that is not.
	Pings int `json:"pings,omitempty"`
	// MTU asks whether a packet as large as the interface allows gets through.
	MTU bool `json:"mtu,omitempty"`
	// Bandwidth is for how long data is streamed to the target, one connection, at most
	// a minute. Streams to one host wait for each other.
	Bandwidth time.Duration `json:"bandwidth,omitempty"`
	// Bytes ends the stream earlier, after so many bytes; 0: it does not.
	Bytes int64 `json:"bytes,omitempty"`
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
	// BytesPerSecond is what the target received, without the stream's first quarter.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
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

// Run carries out an order on host self, and returns when all targets are judged, or soon
// after ctx has ended: what was not tried by then is Stopped. It connects from source,
// if that is valid and of the target's family. It blocks for about the Timeout per round
// if nothing answers, and a second or more for a failing MTU.
func Run(ctx context.Context, self int, secret []byte, source netip.Addr, o Order) Result {
	p := prober{self: self, secret: secret, source: source.Unmap(), order: o.bounded()}
	result := Result{From: self}
	for _, round := range o.Rounds {
		result.Links = append(result.Links, p.round(ctx, round)...)
	}
	return result
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

// prober is the host that tries.
type prober struct {
	self   int
	secret []byte
	source netip.Addr
	order  Order
	find   func(program string) (path string) // only for rails
}

func (p *prober) round(ctx context.Context, targets []Target) []Link {
	links := make([]Link, len(targets))
	limit := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, t := range targets {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			links[i] = p.try(ctx, t)
		})
	}
	wg.Wait()
	return links
}

// try judges one target.
func (p *prober) try(ctx context.Context, t Target) Link {
	link := Link{Host: t.Host}
	err := p.unfit(t)
	if err == nil {
		err = p.measure(ctx, t, &link)
	}
	if err == nil {
		return link
	}
	f := asFault(err)
	if ctx.Err() != nil {
		f = &fault{kind: Stopped, text: fmt.Sprintf("not tried to the end: %v", context.Cause(ctx))}
	}
	link.Failure, link.Text, link.Answered, link.Boot = f.kind, f.text, f.answered, f.boot
	return link
}

// unfit says why a target cannot be tried at all.
func (p *prober) unfit(t Target) error {
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
