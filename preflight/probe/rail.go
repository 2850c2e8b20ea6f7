package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Failures of rails, beside those of links.
const (
	// NoProgram: perftest is not installed at one of the ends. Nothing is known.
	NoProgram Failure = "no-program"
	// Device: the device cannot be used on one of the ends, whatever the network is like.
	Device Failure = "device"
	// Lost: both ends were ready, and RDMA did not come through.
	Lost Failure = "lost"
)

// Rail is a way by RDMA between ports of two hosts' devices.
type Rail struct {
	Place int      `json:"place"` // among the rails of each host
	From  RailPort `json:"from"`  // of the host that tries
	To    RailPort `json:"to"`
}

// RailPort is a port of an RDMA device, as its host calls it, and how it is used.
type RailPort struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
	GID    int    `json:"gid"` // index; less than 0: the layer has none to choose
	SL     int    `json:"sl,omitempty"`
	TClass int    `json:"tclass,omitempty"`
}

// RailLink is what one host has found of a rail to another.
type RailLink struct {
	Host    int     `json:"host"` // the target's index in the job
	Place   int     `json:"place"`
	From    string  `json:"from"` // device of the host that tried
	To      string  `json:"to"`   // and of the target
	Failure Failure `json:"failure,omitempty"`
	// There: the failure is one of the target by itself, not of the host that tried.
	// Only for NoProgram and Device.
	There bool `json:"there,omitempty"`
	// Text tells more of a failure, for people: one line without control characters.
	Text           string        `json:"text,omitempty"`
	BytesPerSecond float64       `json:"bytes_per_second,omitempty"`
	Latency        time.Duration `json:"latency,omitempty"` // one way, typical; 0: not known
}

const (
	programBandwidth = "ib_write_bw"
	programLatency   = "ib_write_lat"

	// railLimit is how long ib_write_bw may take: it sends for a second, however slow that
	// is, and needs half a second besides, or some on a busy host.
	railLimit = 10 * time.Second
	// latencyLimit is how long ib_write_lat may take for a thousand messages, which takes
	// it some milliseconds.
	latencyLimit = 3 * time.Second
	// listenLimit is how long it may take to listen.
	listenLimit = 4 * time.Second

	// maxServing bounds what may follow a request for a program.
	maxServing = 4096
	maxRails   = 64
)

// RunRails has perftest send over rails from host self to the target, whose Listener
// starts the other ends, and returns what is found, in the order of rails: all of them at
// once, if there are CPUs for that. It connects from source, if that is valid. It blocks
// for some seconds, and at most until ctx ends: what was not tried by then is Stopped. No
// program is left when it returns, but one that the kernel cannot end.
func RunRails(ctx context.Context, self int, secret []byte, source netip.Addr, target Target, rails []Rail) []RailLink {
	p := prober{self: self, secret: secret, source: source.Unmap(), order: Order{}.bounded(), find: find}
	rails = rails[:min(len(rails), maxRails)]
	links := make([]RailLink, len(rails))
	limit := make(chan struct{}, max(1, cpus()/2))
	var wg sync.WaitGroup
	for i, r := range rails {
		links[i] = RailLink{Host: target.Host, Place: r.Place, From: r.From.Device, To: r.To.Device}
		wg.Go(func() {
			select {
			case limit <- struct{}{}:
				defer func() { <-limit }()
			case <-ctx.Done():
			}
			p.tryRail(ctx, target, r, &links[i])
		})
	}
	wg.Wait()
	return links
}

// cpus is how many this process may use; GOMAXPROCS may be less.
func cpus() int { return runtime.NumCPU() }

// tryRail measures one rail.
func (p *prober) tryRail(ctx context.Context, t Target, r Rail, link *RailLink) {
	err := p.unfit(t)
	if err == nil {
		err = p.measureRail(ctx, t, r, link)
	}
	if err == nil {
		return
	}
	f := asFault(err)
	if ctx.Err() != nil {
		f = &fault{kind: Stopped, text: fmt.Sprintf("not tried to the end: %v", context.Cause(ctx))}
	}
	link.Failure, link.Text = f.kind, f.text
	link.There = f.there && (f.kind == NoProgram || f.kind == Device)
}

func (p *prober) measureRail(ctx context.Context, t Target, r Rail, link *RailLink) error {
	s, _, err := p.reach(ctx, t)
	if err != nil {
		return faultf(Other, "%s", asFault(err).text)
	}
	defer s.close()
	text, err := p.perftest(ctx, s, t, programBandwidth, r, railLimit)
	if err != nil {
		return err
	}
	if link.BytesPerSecond, err = ParseBandwidth(text); err != nil {
		return faultf(Other, "%s: %v", programBandwidth, err)
	}
	// The rail is good, whatever comes of this.
	if text, err = p.perftest(ctx, s, t, programLatency, r, latencyLimit); err == nil {
		link.Latency, _ = ParseLatency(text)
	}
	return nil
}

// serving asks for the other end of a program.
type serving struct {
	Program string   `json:"program"`
	Port    RailPort `json:"port"`
	Six     bool     `json:"six,omitempty"` // the ends meet by IPv6
}

// served is how that went.
type served struct {
	TCP     uint16  `json:"tcp,omitempty"` // where it listens
	Failure Failure `json:"failure,omitempty"`
	Text    string  `json:"text,omitempty"`
}

// perftest runs both ends of a program of perftest for so long at most, and returns what
// this one has printed if that is a result. Its errors are faults.
func (p *prober) perftest(ctx context.Context, s session, t Target, name string, r Rail, most time.Duration) (string, error) {
	path := p.find(name)
	if path == "" {
		return "", faultf(NoProgram, "%s is not installed", name)
	}
	addr := t.Addr.Addr().Unmap()
	var there served
	err := s.ask(opServe, serving{name, r.To, addr.Is6()}, &there, listenLimit+p.order.Timeout)
	if err != nil {
		return "", faultf(Other, "the other end did not say whether %s listens: %v", name, err)
	}
	if there.Failure != "" {
		return "", &fault{kind: there.Failure, text: there.Text, there: true}
	}
	args := append(perftestArgs(name, r.From, there.TCP, addr.Is6()), addr.String())
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	x := start(path, args...)
	ended := x.Wait(limited)
	text := x.end()
	if err := s.ask(opServed, nil, &there, killWait+p.order.Timeout); err != nil && ctx.Err() == nil {
		there = served{}
	}
	if !ended && text == "" {
		text = fmt.Sprintf("it had not come to an end after %v", most)
	}
	return text, verdict(name, text, ended, there)
}

// verdict judges what both ends of a program have said; nil: there is a result.
func verdict(name, text string, ended bool, there served) error {
	_, err := ParseBandwidth(text)
	if name == programLatency {
		_, err = ParseLatency(text)
	}
	if err == nil {
		return nil
	}
	line, kind := complaint(text)
	switch {
	case errors.Is(err, errZero):
		return faultf(Lost, "%s: no message has arrived within a second", name)
	case kind == Device:
		return faultf(Device, "%s: %s", name, line)
	case there.Failure == Device:
		return &fault{kind: Device, text: fmt.Sprintf("%s: %s", name, there.Text), there: true}
	case kind == Lost:
		return faultf(Lost, "%s: %s", name, line)
	case there.Failure == Lost:
		return faultf(Lost, "%s, at the other end: %s", name, there.Text)
	case !ended:
		return faultf(Lost, "%s: %s", name, line)
	}
	return faultf(Other, "%s: %s", name, cmp.Or(line, there.Text, "it has printed nothing"))
}

// ask sends a request with a JSON value behind it, nil for none, and reads the answer's.
func (s session) ask(op byte, what any, answer any, within time.Duration) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	s.conn.SetDeadline(time.Now().Add(within))
	if _, err := s.conn.Write(append(request{op: op, a: uint64(len(text))}.append(nil), text...)); err != nil {
		return err
	}
	got, err := expect(s.conn, op)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %v", within)
	case err != nil:
		return err
	case got.a > maxServing:
		return errors.New("the answer makes no sense")
	}
	return readJSON(s.conn, got.a, answer)
}

// perftestArgs are the arguments of a program of perftest, but for the server's address.
func perftestArgs(name string, p RailPort, tcp uint16, six bool) []string {
	args := []string{"-d", p.Device, "-i", strconv.Itoa(p.Port), "-p", strconv.Itoa(int(tcp)), "-F"}
	if p.GID >= 0 {
		args = append(args, "-x", strconv.Itoa(p.GID))
	}
	if p.SL > 0 {
		args = append(args, "-S", strconv.Itoa(p.SL))
	}
	if p.TClass > 0 {
		args = append(args, "--tclass="+strconv.Itoa(p.TClass))
	}
	if six {
		args = append(args, "--ipv6-addr")
	}
	if name == programLatency {
		return append(args, "-s", "2", "-n", "1000")
	}
	// A slow rail would take long for what is under way when the second is over.
	return append(args, "-s", "1048576", "-t", "16", "-D", "1", "--report_gbits")
}
