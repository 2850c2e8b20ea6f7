package agent

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// maxCredit bounds what a stream's credit can grow to, in bytes.
const maxCredit = 1 << 30

// buffer is what one frame's payload is read into. All streams of a job share a pool
// of them: most streams are silent most of the time.
type buffer = [wire.MaxPayload]byte

func newPool() *sync.Pool { return &sync.Pool{New: func() any { return new(buffer) }} }

// stream carries one output stream of a rank to the head, by a goroutine of its own.
// It reads the pipe only while it has credit, so a rank that writes faster than the
// head takes it is held back by its full pipe. At the end it sends an empty frame.
type stream struct {
	id   uint32
	bulk func(wire.Frame) error
	pool *sync.Pool
	more chan struct{} // capacity 1: credit has grown, or drop was called
	done chan struct{} // closed after the empty frame

	mu      sync.Mutex
	credit  int      // guarded by mu; bytes that may be sent
	dropped bool     // guarded by mu; read on, but send nothing
	file    *os.File // guarded by mu; nil before start
	begun   bool     // guarded by mu; done will be closed
}

func newStream(id uint32, credit int, pool *sync.Pool, bulk func(wire.Frame) error) *stream {
	return &stream{
		id: id, bulk: bulk, pool: pool, more: make(chan struct{}, 1), done: make(chan struct{}),
		credit: min(credit, maxCredit),
	}
}

// grant lets n more bytes be sent.
func (s *stream) grant(n int) {
	s.mu.Lock()
	s.credit = min(s.credit+min(n, maxCredit), maxCredit)
	s.mu.Unlock()
	s.wake()
}

// drop makes the stream read on without credit and throw away what it reads.
func (s *stream) drop() {
	s.mu.Lock()
	s.dropped = true
	s.mu.Unlock()
	s.wake()
}

// finish gives up waiting for the pipe's writers at the deadline; what is in the
// pipe then is still sent. Waiting for credit is not bounded by it.
func (s *stream) finish(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.SetReadDeadline(deadline)
	}
}

// control calls f with the descriptor that the stream reads, while it does.
func (s *stream) control(f func(fd uintptr)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	if raw, err := s.file.SyscallConn(); err == nil {
		raw.Control(f)
	}
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// start begins to read f, which the stream closes.
func (s *stream) start(f *os.File) {
	s.mu.Lock()
	s.file, s.begun = f, true
	s.mu.Unlock()
	go func() {
		s.copy(f)
		f.Close()
		s.empty()
	}()
}

// skip ends a stream that will not be started.
func (s *stream) skip() {
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	go s.empty()
}

// empty sends the end of file.
func (s *stream) empty() {
	s.bulk(wire.Frame{Kind: wire.Output, Stream: s.id}) // an error is the reader's to report
	close(s.done)
}

// open reports whether the stream has begun and not ended.
func (s *stream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun && !isClosed(s.done)
}

// copy returns at end of file (EIO, of a terminal that nobody has open any more), or when finish's deadline has passed and the pipe has
// been emptied once.
func (s *stream) copy(f *os.File) {
	raw, err := f.SyscallConn()
	take, rest := s.next, math.MaxInt
	for err == nil && rest > 0 {
		var buf *buffer
		var n int
		buf, n, err = take(raw, min(s.allowed(), rest))
		if n > 0 {
			s.pass(buf[:n])
			s.pool.Put(buf)
		}
		if rest != math.MaxInt {
			rest -= n
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			take, rest, err = s.rest, maxPipe, nil
		}
	}
}

// allowed waits for credit and returns how much to read at most.
func (s *stream) allowed() int {
	for {
		s.mu.Lock()
		credit, dropped := s.credit, s.dropped
		s.mu.Unlock()
		if dropped {
			return wire.MaxPayload
		}
		if credit > 0 {
			return min(credit, wire.MaxPayload)
		}
		<-s.more
	}
}

// pass sends p, unless the stream has been dropped.
func (s *stream) pass(p []byte) {
	s.mu.Lock()
	dropped := s.dropped
	s.credit -= len(p)
	s.mu.Unlock()
	if dropped {
		return
	}
	if s.bulk(wire.Frame{Kind: wire.Output, Stream: s.id, Payload: p}) != nil {
		s.drop()
	}
}

// next waits until there is something to read, and reads up to n bytes of it. It
// holds no buffer while it waits.
func (s *stream) next(raw syscall.RawConn, n int) (buf *buffer, m int, err error) {
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		buf, m, failed = s.read(fd, n)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return buf, m, err
}

// rest is next without the wait: an empty pipe is io.EOF.
func (s *stream) rest(raw syscall.RawConn, n int) (buf *buffer, m int, err error) {
	failed := raw.Control(func(fd uintptr) { buf, m, err = s.read(fd, n) })
	if failed != nil {
		err = failed
	}
	if err == unix.EAGAIN {
		err = io.EOF
	}
	return buf, m, err
}

// read returns a buffer only with m > 0 bytes in it.
func (s *stream) read(fd uintptr, n int) (buf *buffer, m int, err error) {
	buf = s.pool.Get().(*buffer)
	for m, err = unix.Read(int(fd), buf[:n]); err == unix.EINTR; {
		m, err = unix.Read(int(fd), buf[:n])
	}
	if m > 0 {
		return buf, m, nil
	}
	s.pool.Put(buf)
	if err == nil {
		err = io.EOF
	}
	return nil, 0, err
}
