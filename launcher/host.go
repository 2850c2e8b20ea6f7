package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"gorun/hostfile"
	"gorun/launcher/transport"
	"gorun/launcher/wire"
)

// dropGrace is how long an agent that has said Done may take to close its stream.
const dropGrace = 2 * time.Second

// host is the head's end of one host: a goroutine that dials and then reads frames.
type host struct {
	index int
	spec  hostfile.Host

	cancel context.CancelFunc
	ended  chan struct{} // closed when serve has returned

	// Set by serve before its up event, read by the loop after it.
	link  transport.Link
	send  *wire.Sender
	hello *wire.Hello

	heard   atomic.Int64  // when a frame last came, as time since the run began
	dropped atomic.Bool   // the loop is done with this host: its end is no news
	eof     atomic.Bool   // its stream has ended
	sawDone bool          // its agent has said Done; owned by serve
	said    bool          // its silence has been reported; owned by the loop
	startAt time.Duration // when Start was sent, since the ranks' start; owned by the loop
	startOK bool          // startAt is set
}

// sink is what a host's frames are handed to. Its methods may block for a short
// time only, and are called from the host's goroutine.
type sink interface {
	cameUp(h *host)
	didNotCome(h *host, err error)
	frame(h *host, f wire.Frame) error // an error ends the link
	gone(h *host, why string, agentDied bool)
}

// serve connects to the host and hands its frames to s until the stream ends.
func (h *host) serve(ctx context.Context, d *transport.Dialer, limit time.Duration, now func() time.Duration, s sink) {
	defer close(h.ended)
	link, err := d.Dial(ctx, h.spec)
	if err != nil {
		s.didNotCome(h, err)
		return
	}
	defer link.Close()
	h.link = link
	r := wire.NewReader(link)
	if h.hello, err = readHello(ctx, link, r, limit); err != nil {
		s.didNotCome(h, fmt.Errorf("its agent started but sent no hello: %w%s", err, stderrOf(link)))
		return
	}
	h.send = wire.NewSender(link)
	h.heard.Store(int64(now()))
	s.cameUp(h)
	err = h.pump(r, now, s)
	h.eof.Store(true)
	if h.dropped.Load() {
		h.cancel()
	} else if !h.sawDone {
		why, died := h.whyGone(ctx, err)
		s.gone(h, why, died)
	}
	// An agent may be swept over this connection: the loop drops it when that is done.
	<-ctx.Done()
	link.Close()
	h.send.Close() // what it still holds has nobody to read it
}

// pump reads frames until the stream or the sink ends.
func (h *host) pump(r *wire.Reader, now func() time.Duration, s sink) error {
	for {
		f, err := r.Read()
		if err != nil {
			return err
		}
		h.heard.Store(int64(now()))
		if err := s.frame(h, f); err != nil {
			return err
		}
	}
}

// readHello waits for the agent's first message; the deadline closes the link.
func readHello(ctx context.Context, link transport.Link, r *wire.Reader, limit time.Duration) (*wire.Hello, error) {
	late := time.AfterFunc(limit, func() { link.Close() })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { link.Close() })
	defer stop()
	for {
		f, err := r.Read()
		switch {
		case err != nil:
			return nil, err
		case f.Kind == wire.Heartbeat:
			continue
		case f.Kind != wire.Control:
			return nil, fmt.Errorf("first frame is of kind %d", f.Kind)
		}
		m, err := wire.Decode(f)
		if err == nil && m.Hello == nil {
			err = errors.New("first message is no hello")
		}
		return m.Hello, err
	}
}

// whyGone says how the stream ended. agentDied: the connection may still carry a sweep.
func (h *host) whyGone(ctx context.Context, err error) (why string, agentDied bool) {
	ctx, cancel := context.WithTimeout(ctx, dropGrace)
	defer cancel()
	end := h.link.Wait(ctx)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if end == nil {
			return "gorun's agent ended early" + stderrOf(h.link), true
		}
		return fmt.Sprintf("gorun's agent was lost: %v%s", end, stderrOf(h.link)), true
	default:
		return fmt.Sprintf("link lost: %v%s", err, stderrOf(h.link)), true
	}
}

func stderrOf(l transport.Link) string {
	if s := l.Stderr(); s != "" {
		return fmt.Sprintf(" (its stderr: %q)", s)
	}
	return ""
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
