package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// stream is a link's end that takes one write each time it is let.
type stream struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	let  chan error // nil: always; else one write per receive, which fails with what is not nil
	done chan struct{}
}

func (s *stream) Write(p []byte) (int, error) {
	if s.let != nil {
		select {
		case err := <-s.let:
			if err != nil {
				return 0, err
			}
		case <-s.done:
			return 0, io.ErrClosedPipe
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// frames returns what was written, in words.
func (s *stream) frames(t *testing.T) (got []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	frames, err := readAll(bytes.NewReader(s.buf.Bytes()))
	if err != io.EOF {
		t.Errorf("stream: got %v after %d frames; want whole frames", err, len(frames))
	}
	for _, f := range frames {
		got = append(got, string(f.Payload))
	}
	return got
}

func control(text string) Frame { return Frame{Control, 0, []byte(text)} }
func output(text string) Frame  { return Frame{Output, 5, []byte(text)} }

func TestSender(t *testing.T) {
	var w stream
	s := NewSender(&w)
	s.Send(control("a"))
	if err := s.SendBulk(output("b")); err != nil {
		t.Errorf("SendBulk: got %v; want nil", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, w.frames(t)); diff != "" {
		t.Errorf("after SendBulk (-want +got):\n%s", diff)
	}
	if err := s.SendMessage(Message{Stop: &Stop{}}); err != nil {
		t.Errorf("SendMessage: got %v; want nil", err)
	}
	if err := s.SendMessage(Message{}); err == nil {
		t.Errorf("SendMessage of nothing: got nil; want an error")
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: got %v; want nil", err)
		}
	}
	s.Send(control("late"))
	if err := s.SendBulk(output("late")); err != ErrClosed {
		t.Errorf("SendBulk after Close: got %v; want %v", err, ErrClosed)
	}
	if got := s.Queued(); got != 0 {
		t.Errorf("got %d bytes queued; want none", got)
	}
	if diff := cmp.Diff([]string{"a", "b", `{"stop":{"grace":0}}`}, w.frames(t)); diff != "" {
		t.Errorf("after Close (-want +got):\n%s", diff)
	}
}

// widest is the longest write that it was given.
type widest int

func (w *widest) Write(p []byte) (int, error) {
	*w = max(*w, widest(len(p)))
	return len(p), nil
}

// TestLongMessageIsNotCopied: what many links are sent at once is in memory once.
func TestLongMessageIsNotCopied(t *testing.T) {
	var w widest
	s := NewSender(&w)
	s.Send(Frame{Control, 0, make([]byte, 100*MaxPayload)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if most := widest(MaxPayload + headerLen + 4<<10); w == 0 || w > most {
		t.Errorf("got a write of %d bytes; want at most %d", w, most)
	}
}

// TestSendComesFirst: with the stream blocked in a bulk frame, whatever is queued
// goes before the next bulk frame.
func TestSendComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stream{let: make(chan error)}
		s := NewSender(&w)
		go func() {
			for i := range 5 {
				s.SendBulk(output(fmt.Sprint("bulk ", i)))
			}
		}()
		synctest.Wait()
		s.Send(control("a"))
		s.Send(Frame{Kind: Heartbeat})
		s.Send(control(string(long(3 * MaxPayload))))
		close(w.let)
		synctest.Wait()
		want := []string{"bulk 0", "a", "", string(long(3 * MaxPayload)), "bulk 1", "bulk 2", "bulk 3", "bulk 4"}
		got := w.frames(t)
		if len(got) != len(want) {
			t.Fatalf("got %d frames; want %d", len(got), len(want))
		}
		for i := range 4 {
			if got[i] != want[i] {
				t.Errorf("frame %d: got %.20q; want %.20q", i, got[i], want[i])
			}
		}
		s.Close()
	})
}

// TestBulkComesAfter: what was queued before SendBulk is on the stream when it
// returns, also when both come while the sender is busy.
func TestBulkComesAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 30 {
			w := stream{let: make(chan error)}
			s := NewSender(&w)
			s.Send(control("busy"))
			synctest.Wait()
			s.Send(control("first"))
			done := make(chan error)
			go func() { done <- s.SendBulk(Frame{Kind: Heartbeat}) }()
			synctest.Wait()
			close(w.let)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"busy", "first", ""}, w.frames(t)); diff != "" {
				t.Fatalf("round %d (-want +got):\n%s", i, diff)
			}
			s.Close()
		}
	})
}

// TestBlockedStream: Send does not wait for it, Close does, until it is closed.
func TestBlockedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stream{let: make(chan error), done: make(chan struct{})}
		s := NewSender(&w)
		for range 1000 {
			s.Send(control("x"))
		}
		bulk, closed := make(chan error, 1), make(chan error, 1)
		go func() { bulk <- s.SendBulk(output("y")) }()
		synctest.Wait()
		go func() { closed <- s.Close() }()
		synctest.Wait()
		select {
		case err := <-bulk:
			t.Errorf("SendBulk: got %v while the stream is blocked; want it to wait", err)
		case err := <-closed:
			t.Errorf("Close: got %v while the stream is blocked; want it to wait", err)
		default:
		}
		if got, want := s.Queued(), 1000*(headerLen+1); got != want {
			t.Errorf("got %d bytes queued; want %d", got, want)
		}
		close(w.done)
		if err := <-bulk; err != io.ErrClosedPipe {
			t.Errorf("SendBulk: got %v; want %v", err, io.ErrClosedPipe)
		}
		if err := <-closed; err != io.ErrClosedPipe {
			t.Errorf("Close: got %v; want %v", err, io.ErrClosedPipe)
		}
	})
}

func TestWriteError(t *testing.T) {
	broken := errors.New("broken")
	for name, send := range map[string]func(s *Sender) error{
		"in-bulk":         func(s *Sender) error { return s.SendBulk(output("x")) },
		"in-queue":        func(s *Sender) error { s.Send(control("x")); return s.SendBulk(output("y")) },
		"in-long-control": func(s *Sender) error { s.Send(control(string(long(1 << 20)))); return s.SendBulk(output("y")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := stream{let: make(chan error, 1)}
			w.let <- broken
			s := NewSender(&w)
			for range 2 {
				if err := send(s); err != broken {
					t.Errorf("SendBulk: got %v; want %v", err, broken)
				}
			}
			s.Send(control("dropped"))
			if n := len(s.queue); n != 0 {
				t.Errorf("got %d frames queued after the error; want 0", n)
			}
			for range 2 {
				if err := s.Close(); err != broken {
					t.Errorf("Close: got %v; want %v", err, broken)
				}
			}
		})
	}
}

// TestBulkMayReuse: after SendBulk the payload is the caller's again.
func TestBulkMayReuse(t *testing.T) {
	var w stream
	s := NewSender(&w)
	p := []byte("a")
	for i := range 10 {
		p[0] = byte('a' + i)
		if err := s.SendBulk(Frame{Output, 5, p}); err != nil {
			t.Fatal(err)
		}
	}
	p[0] = 'z'
	s.Close()
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, w.frames(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConcurrent lets everything happen at once, for the race detector: no frame is
// lost, and each sender's stay in order.
func TestConcurrent(t *testing.T) {
	var w stream
	s := NewSender(&w)
	var wg sync.WaitGroup
	const senders, each = 4, 200
	for i := range senders {
		wg.Go(func() {
			for n := range each {
				s.Send(control(fmt.Sprintf("c%d %d", i, n)))
			}
		})
		wg.Go(func() {
			for n := range each {
				if err := s.SendBulk(output(fmt.Sprintf("b%d %d", i, n))); err != nil {
					t.Errorf("SendBulk: got %v; want nil", err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close: got %v; want nil", err)
	}
	next := map[string]int{}
	for _, f := range w.frames(t) {
		var who string
		var n int
		if _, err := fmt.Sscan(f, &who, &n); err != nil || next[who] != n {
			t.Fatalf("got %q (%v); want number %d", f, err, next[who])
		}
		next[who]++
	}
	for who, n := range next {
		if n != each {
			t.Errorf("%s: got %d frames; want %d", who, n, each)
		}
	}
	if len(next) != 2*senders {
		t.Errorf("got frames of %d senders; want %d", len(next), 2*senders)
	}
}

// TestCloseDuringSendBulk: every SendBulk returns, with its frame written or ErrClosed.
func TestCloseDuringSendBulk(t *testing.T) {
	for range 50 {
		var w stream
		s := NewSender(&w)
		var wg sync.WaitGroup
		var mu sync.Mutex
		sent := 0
		for range 4 {
			wg.Go(func() {
				for {
					err := s.SendBulk(output("x"))
					if err != nil {
						if err != ErrClosed {
							t.Errorf("SendBulk: got %v; want %v", err, ErrClosed)
						}
						return
					}
					mu.Lock()
					sent++
					mu.Unlock()
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: got %v; want nil", err)
		}
		wg.Wait()
		if got := len(w.frames(t)); got != sent {
			t.Errorf("got %d frames; want %d", got, sent)
		}
	}
}
