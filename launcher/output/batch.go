package output

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"time"
)

const maxPieces = 4 << 10

// batch is what one write takes from the streams.
type batch struct {
	raw    []byte // their bytes, at most batchSize
	pieces []piece
	added  bool // some piece needs a '\n' before it
	skips  []skip
	ended  []*stream // that have nothing left, of those the folder waits for
}

// skip is so many bytes of a stream that are not written, as others overwrite them.
type skip struct {
	stream *stream
	n      int
}

// piece is some bytes of one stream.
type piece struct {
	record
	newline bool // a '\n' stands before it
	starts  bool // it starts a line
	final   bool // it ends its stream
}

func newBatch() *batch {
	return &batch{raw: make([]byte, 0, batchSize)}
}

func (b *batch) reset() {
	b.raw, b.pieces, b.added, b.ended = b.raw[:0], b.pieces[:0], false, b.ended[:0]
	b.skips = b.skips[:0]
}

func (b *batch) room() int { return batchSize - len(b.raw) }

func (b *batch) full() bool { return b.room() == 0 || len(b.pieces) == maxPieces }

func (b *batch) add(p piece) {
	b.raw = p.stream.appendFirst(b.raw, p.n)
	b.pieces = append(b.pieces, p)
	b.added = b.added || p.newline
}

// run writes what the streams hold until the lane is closed.
func (l *lane) run() {
	defer close(l.done)
	b := newBatch()
	var e emitter
	var err error
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		t := l.gather(b, &e.live, now, err == nil)
		if t.gone {
			return
		}
		if err == nil {
			if err = l.emit(b, &e, now, t.last); err == nil {
				err = l.draw(&e.live, t.live, now)
			}
			if err != nil {
				l.failed(err, l.name)
			}
		}
		l.tell(b)
		if t.last {
			return
		}
		if len(b.raw) == 0 {
			l.sleep(timer, t.look)
		}
	}
}

// task is what run has to do beside writing a batch.
type task struct {
	live []byte    // for draw
	look time.Time // when to look again if nothing comes; zero: never
	last bool      // nothing comes any more
	gone bool      // nobody waits for anything
}

// gather fills b. What waits in the folder is due some time only if it can be written.
func (l *lane) gather(b *batch, v *live, now time.Time, works bool) task {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.reset()
	l.fillLocked(b, now)
	l.flight = len(b.raw) + l.folded()
	t := task{look: l.lookLocked(), last: l.closing && len(b.raw) == 0, gone: l.gone}
	if works {
		t.look = sooner(t.look, l.lookFolded())
	}
	text, again := l.liveLocked(v, now, t.last)
	t.live, t.look = text, sooner(t.look, again)
	return t
}

// tell says that what is in b has left.
func (l *lane) tell(b *batch) {
	for _, k := range b.skips {
		l.written(k.stream.rank, k.stream.which, k.n)
	}
	for _, p := range b.pieces {
		if p.stream != &l.own {
			l.written(p.stream.rank, p.stream.which, p.n)
		}
	}
}

// sleep returns when the lane is woken or at the time given, if any.
func (l *lane) sleep(timer *time.Timer, until time.Time) {
	if until.IsZero() {
		<-l.wake
		return
	}
	timer.Reset(time.Until(until))
	select {
	case <-l.wake:
	case <-timer.C:
	}
}

// emitter is what the text of a batch is made in, and what must be known of the one
// before.
type emitter struct {
	out  []byte
	mark []byte // what lines of the piece begin with
	live live
	cr   bool    // the last byte was a CR in a marked line on a terminal
	open *stream // whose line stands unfinished, if lines are joined
}

// stampFormat is local time, so that it agrees with the ranks' own lines and the clock
// on the wall, in a form that sorts.
const stampFormat = "2006-01-02T15:04:05.000 "

// folding reports whether equal lines are joined.
func (l *lane) folding() bool { return l.folds[stdout] != nil || l.folds[stderr] != nil }

// marked reports whether something stands before the ranks' lines.
func (l *lane) marked() bool { return l.tags != nil || l.stamp }

// appendMark appends what stands before a line.
func (l *lane) appendMark(p []byte, r record) []byte {
	if l.stamp {
		p = time.UnixMilli(r.at).AppendFormat(p, stampFormat)
	}
	if l.tags != nil {
		p = append(p, l.tags[r.stream.rank]...)
	}
	return p
}

// appendName appends what names a rank before its lines.
func (l *lane) appendName(p []byte, rank int) []byte {
	switch {
	case l.folding():
		return l.appendWho(p, []int{rank})
	case l.tags != nil:
		return append(p, l.tags[rank]...)
	}
	return p
}

// emit writes b with its marks and newlines. Nothing comes after the last one.
func (l *lane) emit(b *batch, e *emitter, now time.Time, last bool) error {
	if l.folding() {
		return l.emitFolded(b, e, now, last)
	}
	if !l.marked() && !b.added {
		return l.put(&e.live, b.raw)
	}
	e.out = e.out[:0]
	raw := b.raw
	for _, p := range b.pieces {
		text := raw[:p.n]
		raw = raw[p.n:]
		if p.newline {
			e.out = append(e.out, '\n')
		}
		if !l.marked() || p.stream == &l.own {
			e.out = append(e.out, text...)
			continue
		}
		e.mark = l.appendMark(e.mark[:0], p.record)
		if err := l.emitMarked(text, p.starts, e); err != nil {
			return err
		}
	}
	return l.put(&e.live, e.out)
}

// emitMarked adds lines, each after its mark, to e.out, which it writes when full.
func (l *lane) emitMarked(p []byte, starts bool, e *emitter) error {
	for len(p) > 0 {
		if len(e.out) >= batchSize {
			if err := l.put(&e.live, e.out); err != nil {
				return err
			}
			e.out = e.out[:0]
		}
		if starts {
			e.out = append(e.out, e.mark...)
			e.cr = false
		}
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			n = len(p)
		}
		if l.terminal {
			e.appendOver(p[:n])
		} else {
			e.out = append(e.out, p[:n]...)
		}
		p = p[n:]
		starts = true
	}
	return nil
}

// appendOver adds a line, or a part of one, in which the mark comes again after a CR
// that does not stand before the '\n' or another CR.
func (e *emitter) appendOver(p []byte) {
	for len(p) > 0 {
		if e.cr && p[0] != '\n' && p[0] != '\r' {
			e.out = append(e.out, e.mark...)
		}
		n := bytes.IndexByte(p, '\r') + 1
		e.cr = n > 0
		if n == 0 {
			n = len(p)
		}
		e.out = append(e.out, p[:n]...)
		p = p[n:]
	}
}

// writeAll writes p. A terminal or pipe that somebody else has made non-blocking (it
// is shared with other programs) is waited for.
func writeAll(w io.Writer, p []byte) error {
	for len(p) > 0 {
		n, err := w.Write(p)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			<-time.After(5 * time.Millisecond)
		case err != nil:
			return err
		case n < len(p):
			return io.ErrShortWrite
		}
		p = p[n:]
	}
	return nil
}
