package wire

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// ErrClosed is returned by a Sender after Close.
var ErrClosed = errors.New("wire: sender closed")

// Sender writes frames to one stream from one goroutine of its own. Its methods
// may be called from any goroutine.
//
// There are two lanes: Send queues without bound and never blocks, for control,
// store, heartbeat and credit frames; SendBulk blocks until its frame is written,
// for output and stdin. A queued frame waits for at most one bulk frame, and none
// that was queued before SendBulk was called is written after its frame.
type Sender struct {
	w    io.Writer
	bulk chan Frame    // one writer at a time; the loop takes it when nothing is queued
	took chan error    // answers the frame taken from bulk
	wake chan struct{} // capacity 1: the queue is no longer empty, or closing
	done chan struct{} // closed when the loop has ended

	bulkMu sync.Mutex // held by the one SendBulk that may use bulk and took

	mu     sync.Mutex
	queue  []Frame // guarded by mu
	queued int     // guarded by mu; bytes in queue
	flight int     // guarded by mu; bytes taken from queue, as far as they were not written before
	closed bool    // guarded by mu
	err    error   // guarded by mu; the first write error
}

// NewSender returns a Sender on w and starts its goroutine; Close ends it.
func NewSender(w io.Writer) *Sender {
	s := &Sender{w: w, bulk: make(chan Frame), took: make(chan error), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.loop()
	return s
}

// Send queues f, whose Payload must not change any more; several Senders may have the
// same. After a write error or Close it drops f:
// the reader of the same link reports the loss.
func (s *Sender) Send(f Frame) {
	s.mu.Lock()
	if !s.closed && s.err == nil {
		s.queue = append(s.queue, f)
		s.queued += headerLen + len(f.Payload)
	}
	s.mu.Unlock()
	s.poke()
}

// SendMessage queues m as a control frame.
func (s *Sender) SendMessage(m Message) error {
	f, err := Encode(m)
	if err == nil {
		s.Send(f)
	}
	return err
}

// SendBulk writes f and returns when the stream has taken it; f.Payload may then be
// reused. It returns the link's write error, or ErrClosed.
func (s *Sender) SendBulk(f Frame) error {
	s.bulkMu.Lock()
	defer s.bulkMu.Unlock()
	select {
	case s.bulk <- f:
		return <-s.took
	case <-s.done:
		return s.failure()
	}
}

// Queued returns how many bytes Send has queued that are not written yet, or have just
// been: a peer that does not read lets them grow.
func (s *Sender) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued + s.flight
}

// Close writes what is queued, ends the goroutine and returns the first write
// error. It does not close the stream; a stream that blocks must be closed first.
func (s *Sender) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.poke()
	<-s.done
	if err := s.failure(); err != ErrClosed {
		return err
	}
	return nil
}

func (s *Sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sender) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return ErrClosed
}

// take takes the queue. buffered is what is left of the last one.
func (s *Sender) take(buffered int) (queue []Frame, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue = s.queue, nil
	s.flight, s.queued = s.queued+buffered, 0
	return queue, s.closed
}

// landed notes that nothing taken from the queue is left to be written.
func (s *Sender) landed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = 0
}

func (s *Sender) loop() {
	defer close(s.done)
	w := frameWriter{w: bufio.NewWriterSize(s.w, 4<<10)}
	for {
		closed, err := s.writeQueue(&w)
		if s.fail(err) || closed {
			return
		}
		select {
		case <-s.wake:
		case f := <-s.bulk:
			_, err := s.writeQueue(&w)
			if err == nil {
				err = w.write(f)
			}
			if err == nil {
				err = w.w.Flush()
			}
			s.took <- err
			if s.fail(err) {
				return
			}
		}
	}
}

// writeQueue writes what is queued and flushes it. It reports whether Close was
// called before that.
func (s *Sender) writeQueue(w *frameWriter) (closed bool, err error) {
	for {
		queue, closed := s.take(w.w.Buffered())
		if len(queue) == 0 {
			err := w.w.Flush()
			s.landed()
			return closed, err
		}
		for _, f := range queue {
			if err := w.write(f); err != nil {
				return closed, err
			}
		}
	}
}

// frameWriter writes frames by way of a buffer that it keeps. Of a long message that holds
// one part at a time: many links may be sent the same at once.
type frameWriter struct {
	w       *bufio.Writer
	scratch []byte
}

func (w *frameWriter) write(f Frame) error {
	long := len(f.Payload) > MaxPayload
	for more := true; more; {
		w.scratch, f.Payload, more = appendPart(w.scratch[:0], f)
		if _, err := w.w.Write(w.scratch); err != nil {
			return err
		}
	}
	if long { // few are
		w.scratch = nil
	}
	return nil
}

// fail records err and reports whether the loop must end.
func (s *Sender) fail(err error) bool {
	if err == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.queue, s.queued, s.flight = nil, 0, 0
	return true
}
