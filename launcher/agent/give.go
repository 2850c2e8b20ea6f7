package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// Limits of what passes between two agents.
const (
	dialLimit  = 3 * time.Second  // for a connection to another host
	greetLimit = 5 * time.Second  // for both ends to prove who they are, and for the wish
	idleLimit  = 10 * time.Second // without a sign of life of the giving end
	writeLimit = 20 * time.Second // for the taking end to take a frame
	waitBeat   = 2 * time.Second  // between signs of life while there is nothing to give
	maxUnknown = 32               // connections that have not proved who they are
	maxWish    = 1 << 20          // bytes of a Want
)

// giver lets other hosts of the job take files from a shelf, while it listens.
type giver struct {
	ln      net.Listener
	key     []byte
	shelf   *shelf
	ctx     context.Context
	cancel  context.CancelFunc
	unknown atomic.Int32
	all     sync.WaitGroup
}

// startGiver listens at a free port of addr.
func startGiver(addr string, key []byte, shelf *shelf) (*giver, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return nil, err
	}
	g := &giver{ln: ln, key: key, shelf: shelf}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.all.Go(g.accept)
	return g, nil
}

func (g *giver) port() int { return g.ln.Addr().(*net.TCPAddr).Port }

// close ends all connections, and returns when nothing of the giver runs any more, unless
// it hangs in a file system that does not answer.
func (g *giver) close() {
	g.cancel()
	g.ln.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); g.all.Wait() }()
	joined(ended, nil, joinLimit)
}

func (g *giver) accept() {
	for {
		conn, err := g.ln.Accept()
		if g.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // out of descriptors, for one: it may pass
			select {
			case <-g.ctx.Done():
			case <-time.After(waitBeat):
			}
			continue
		}
		if g.unknown.Add(1) > maxUnknown {
			g.unknown.Add(-1)
			conn.Close()
			continue
		}
		g.all.Go(func() { g.serve(conn) })
	}
}

// serve gives one host what it wants. How that ends is the other end's to tell.
func (g *giver) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(g.ctx, func() { conn.Close() })()
	wish, err := g.greeted(conn)
	g.unknown.Add(-1)
	if err != nil {
		return
	}
	out := wire.NewSender(lateWriter{conn})
	defer func() {
		conn.Close() // nothing is queued but signs of life
		out.Close()
	}()
	t := &taker{
		ctx: g.ctx, shelf: g.shelf, files: wish.Files,
		idle: func(moved chan struct{}) error { return g.idle(out, moved) }, alive: beats(out),
	}
	defer t.close()
	sizes := make([]int64, len(wish.Files))
	for i, n := range wish.Files {
		f, _ := g.shelf.get(n)
		sizes[i] = f.size
	}
	bcast.Send(t, sizes, wish.Piece, func(item int, p []byte) error { return sendContent(out, wish.Files[item], p) })
}

// greeted returns what the other end wants, if it is of this job.
func (g *giver) greeted(conn net.Conn) (*wire.Want, error) {
	conn.SetDeadline(time.Now().Add(greetLimit))
	if _, err := bcast.Answer(conn, g.key); err != nil {
		return nil, err
	}
	f, err := wire.NewReader(conn, maxWish).Read()
	if err != nil {
		return nil, err
	}
	m, err := wire.Decode(f)
	if err != nil || m.Want == nil {
		return nil, fmt.Errorf("%w: no wish", errFrame)
	}
	conn.SetDeadline(time.Time{})
	return m.Want, g.shelf.check(m.Want)
}

// check refuses a wish for what there is not.
func (h *shelf) check(w *wire.Want) error {
	for i, n := range w.Files {
		if n < 0 || n >= len(h.files) {
			return fmt.Errorf("%w: file %d", errFrame, n)
		}
		f, _ := h.get(n)
		if f.size == 0 || i == 0 && (w.Piece < 0 || w.Piece >= bcast.Pieces(f.size)) {
			return fmt.Errorf("%w: piece %d of file %d", errFrame, w.Piece, n)
		}
	}
	return nil
}

// idle waits until something has moved, giving signs of life.
func (g *giver) idle(out *wire.Sender, moved chan struct{}) error {
	for {
		select {
		case <-moved:
			return nil
		case <-g.ctx.Done():
			return g.ctx.Err()
		case <-time.After(waitBeat):
			if err := beat(out); err != nil {
				return err
			}
		}
	}
}

// beat gives a sign of life, unless the last one is not taken yet.
func beat(out *wire.Sender) error {
	if out.Queued() > 0 {
		return errors.New("it does not read")
	}
	out.Send(wire.Frame{Kind: wire.Heartbeat})
	return nil
}

// beats returns a function that gives a sign of life when it is time.
func beats(out *wire.Sender) func() error {
	last := time.Now()
	return func() error {
		if time.Since(last) < waitBeat {
			return nil
		}
		last = time.Now()
		return beat(out)
	}
}

// sendContent sends bytes of a file in frames.
func sendContent(out *wire.Sender, file int, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), wire.MaxPayload)
		if err := out.SendBulk(wire.Frame{Kind: wire.Content, Stream: uint32(file), Payload: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// lateWriter fails when a write is not taken in time.
type lateWriter struct{ net.Conn }

func (w lateWriter) Write(p []byte) (int, error) {
	w.SetWriteDeadline(time.Now().Add(writeLimit))
	return w.Conn.Write(p)
}

// lateReader fails when nothing comes in time.
type lateReader struct{ net.Conn }

func (r lateReader) Read(p []byte) (int, error) {
	r.SetReadDeadline(time.Now().Add(idleLimit))
	return r.Conn.Read(p)
}

// takeFrom asks the agent at addr for files and hands what comes to write, until that
// reports that all has come.
func takeFrom(ctx context.Context, addr string, key []byte, node int, want *wire.Want, write func(f wire.Frame) (done bool, err error)) error {
	d := net.Dialer{Timeout: dialLimit}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(greetLimit))
	if err := bcast.Greet(conn, key, node); err != nil {
		return err
	}
	out := wire.NewSender(conn)
	err = errors.Join(out.SendMessage(wire.Message{Want: want}), out.Close())
	if err != nil {
		return err
	}
	conn.SetDeadline(time.Time{})
	for r := wire.NewReader(bufio.NewReaderSize(lateReader{conn}, 2*wire.MaxPayload), 0); ; {
		f, err := r.Read()
		if err != nil {
			return err
		}
		switch f.Kind {
		case wire.Heartbeat:
		case wire.Content:
			if done, err := write(f); done || err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w of kind %d", errFrame, f.Kind)
		}
	}
}
