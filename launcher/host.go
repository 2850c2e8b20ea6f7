package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorun/hostfile"
	"gorun/launcher/transport"
	"gorun/launcher/wire"
)

// exitPatience is how long to wait for the news of how an agent ended.
const exitPatience = 2 * time.Second

// host is the head's end of one host: a goroutine that dials and then reads frames.
type host struct {
	index int // among the run's hosts, or released; owned by the loop until the ranks have places, and then it stays
	spec  hostfile.Host
	most  int // ranks that it may get at most; 0: as it offers; owned by the loop

	ctx    context.Context // of the link: when it ends, the link is dropped
	cancel context.CancelFunc
	ended  chan struct{} // closed when serve has returned

	// Set by serve before its up event, read by the loop after it.
	link  transport.Link
	send  *wire.Sender
	hello *wire.Hello

	heard    atomic.Int64            // when a frame last came, as time since the run began
	dropped  atomic.Bool             // the loop is done with this host: its end is no news
	eof      atomic.Bool             // its stream has ended
	sawDone  bool                    // its agent has said Done; owned by serve
	courier  atomic.Pointer[courier] // brings it files; nil before it is told of any
	spoke    map[string]bool         // what it has said that is said once; owned by serve
	logs     int                     // lines for the user that its agent has sent; owned by serve
	settings *wire.Settings          // what it has told of its own; nil: nothing yet; owned by the loop
	awaited  bool                    // it was said that it is waited for; owned by the loop
	said     bool                    // its silence has been reported; owned by the loop
	startAt  time.Duration           // when Start was sent, since the ranks' start; owned by the loop
	gossip   netip.AddrPort          // where its agent listens for the others; owned by the loop
	sweeping bool                    // what its agent has left is being removed; owned by the loop
	answers  answers                 // in a preflight; owned by the loop but for what says so
}

// released is the index of a host that was let go before the ranks had places: what comes
// from it is no news.
const released = -1

func newHost(index int, spec hostfile.Host) *host {
	h := &host{index: index, spec: spec, ended: make(chan struct{}), spoke: map[string]bool{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// local reports whether the agent runs on this machine: then no connection was made.
func (h *host) local() bool {
	return !slices.ContainsFunc(h.link.Timeline(), func(p transport.Phase) bool { return p.Name == "connect" })
}

// sink is what a host's frames are handed to. Its methods may block for a short
// time only, and are called from the host's goroutine.
type sink interface {
	retry() time.Duration // how long a host that may be coming up is tried again
	awaited(h *host, err error)
	patience() time.Duration // for an agent that is running to say hello
	suspended() int64        // how often this process was, or is being, suspended
	now() time.Duration
	connected(h *host) // an agent runs there; its hello comes next
	cameUp(h *host)
	didNotCome(h *host, err error)
	frame(h *host, f wire.Frame) error // an error ends the link
	gone(h *host, why string)
	detail(h *host, text string) // of what another call tells in short
}

// serve connects to the host and hands its frames to s until the stream or h.ctx ends.
func (h *host) serve(d *transport.Dialer, s sink) {
	defer close(h.ended)
	link, err := h.dial(d, s)
	if err != nil {
		s.didNotCome(h, err)
		return
	}
	defer link.Close()
	defer context.AfterFunc(h.ctx, func() { link.Close() })()
	h.link = link
	s.connected(h)
	r := wire.NewReader(link, wire.MaxReport)
	if h.hello, err = readHello(link, r, s); err != nil {
		s.didNotCome(h, fmt.Errorf("its agent started but sent no hello: %s", h.whyGone(err, s)))
		return
	}
	h.send = wire.NewSender(link)
	h.heard.Store(int64(s.now()))
	s.cameUp(h)
	err = h.pump(r, s)
	h.eof.Store(true)
	if h.dropped.Load() {
		h.cancel()
	} else if !h.sawDone {
		s.gone(h, h.whyGone(err, s))
	}
	// An agent may be swept over this connection: the loop drops it when that is done.
	<-h.ctx.Done()
	link.Close()
	h.send.Close() // what it still holds has nobody to read it
}

// Between tries of a host that may be coming up.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Second
)

// dial connects to the host. One that may be coming up is tried again for as long as the
// job says.
func (h *host) dial(d *transport.Dialer, s sink) (transport.Link, error) {
	began, most := time.Now(), s.retry()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		link, err := d.Dial(h.ctx, h.spec)
		if err == nil || !transport.Passing(err) || time.Since(began)+wait > most {
			return link, err
		}
		s.awaited(h, err)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-h.ctx.Done():
			t.Stop()
			return nil, context.Cause(h.ctx)
		}
	}
}

// pump reads frames until the stream or the sink ends.
func (h *host) pump(r *wire.Reader, s sink) error {
	for {
		f, err := r.Read()
		if err != nil {
			return err
		}
		h.heard.Store(int64(s.now()))
		if err := s.frame(h, f); err != nil {
			return err
		}
	}
}

// readHello waits for the agent's first message; the deadline closes the link.
func readHello(link transport.Link, r *wire.Reader, s sink) (*wire.Hello, error) {
	late := newLimit(s, func() { link.Close() })
	f, err := r.Read()
	for err == nil && f.Kind == wire.Heartbeat {
		f, err = r.Read()
	}
	if late.stop() {
		return nil, lateError(s.patience())
	}
	if err != nil {
		return nil, err
	}
	if f.Kind != wire.Control {
		return nil, fmt.Errorf("%w: its first frame is of kind %d", errPeer, f.Kind)
	}
	m, err := wire.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errPeer, err)
	}
	return m.Hello, checkHello(m.Hello)
}

// helloLimit is the time that an agent has for its hello. It begins again when this
// process has been suspended.
type helloLimit struct {
	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	over  bool        // guarded by mu
}

// newLimit returns a running limit that calls f when it is over.
func newLimit(s sink, f func()) *helloLimit {
	l, seen := &helloLimit{}, s.suspended()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(s.patience(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := s.suspended(); n != seen {
			seen = n
			l.timer.Reset(s.patience())
			return
		}
		l.over = true
		f()
	})
	return l
}

// stop stops it, and reports whether it is over.
func (l *helloLimit) stop() (over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	return l.over
}

// lateError is a hello that has not come within so long.
type lateError time.Duration

func (e lateError) Error() string { return fmt.Sprintf("nothing came within %v", time.Duration(e)) }

// checkHello refuses a hello with which a layout could not be made.
func checkHello(h *wire.Hello) error {
	switch {
	case h == nil:
		return fmt.Errorf("%w: its first message is no hello", errPeer)
	case h.Cores < 1 || h.Cores > MaxRanks || h.GPUs < 0 || h.GPUs > MaxRanks || h.Port < 0 || h.Port > 65535:
		return fmt.Errorf("%w: hello with %d cores, %d GPUs, port %d", errPeer, h.Cores, h.GPUs, h.Port)
	case h.Settings != nil:
		if err := checkSettings(h.Settings); err != nil {
			return fmt.Errorf("%w: %v", errPeer, err)
		}
	}
	return nil
}

// whyGone says how the stream ended that should not have.
func (h *host) whyGone(err error, s sink) string {
	_, late := errors.AsType[lateError](err)
	if late || errors.Is(err, errPeer) {
		return err.Error() + h.stderr(s)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("link lost: %v%s", err, h.stderr(s))
	}
	ctx, cancel := context.WithTimeout(h.ctx, exitPatience)
	defer cancel()
	switch end := h.link.Wait(ctx); {
	case end == nil:
		return "gorun's agent ended early" + h.stderr(s)
	case ctx.Err() != nil:
		return "gorun's agent closed its stream" + h.stderr(s)
	default:
		return fmt.Sprintf("gorun's agent was lost: %v%s", end, h.stderr(s))
	}
}

// stderr is what the agent wrote to its standard error, if anything, in brackets. Of
// much, as when the Go runtime gives up, only the beginning is told; the rest is a
// detail.
func (h *host) stderr(s sink) string {
	const most = 300
	text := strings.TrimSpace(h.link.Stderr())
	if text == "" {
		return ""
	}
	if len(text) <= most {
		return fmt.Sprintf(" (its stderr: %q)", text)
	}
	s.detail(h, "its stderr:\n"+text)
	lines := strings.SplitN(text, "\n", 3)
	begin := strings.Join(lines[:min(len(lines), 2)], "\n")
	begin = strings.ToValidUTF8(begin[:min(len(begin), most)], "")
	return fmt.Sprintf(" (its stderr begins: %q; -v shows all)", begin)
}

// once reports whether the host says that word for the first time.
func (h *host) once(word string) bool {
	first := !h.spoke[word]
	h.spoke[word] = true
	return first
}

// drop lets the host go. An agent that has said Done ends by itself; wait bounds how
// long that may take. Called by the loop; returns at once.
func (h *host) drop(wait time.Duration) {
	if h.dropped.Swap(true) {
		return
	}
	if wait == 0 || h.eof.Load() {
		h.cancel()
		return
	}
	time.AfterFunc(wait, h.cancel)
}
