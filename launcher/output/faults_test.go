package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndlessLine: a line that never ends, and never pauses, lets others in after a
// bounded time, every one that waits.
func TestEndlessLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := mustNew(t, Options{Stdout: &s, Hosts: three, Partial: 4})
		m.Write(0, stdout, []byte("aaaa"))
		synctest.Wait()
		m.Write(1, stdout, []byte("x\n"))
		m.Write(2, stdout, []byte("y\n"))
		start := time.Now()
		for !strings.Contains(s.String(), "y\n") && time.Since(start) < time.Minute {
			m.Write(0, stdout, []byte("a"))
			time.Sleep(idle / 3)
			synctest.Wait()
		}
		if got := time.Since(start); got < patience || got > patience+idle {
			t.Errorf("got in after %v; want %v", got, patience)
		}
		if got := s.String(); !strings.Contains(got, "ax\ny\n") {
			t.Errorf("got %q; want the lines x and y together", got)
		}
		mustClose(t, m)
	})
}

// feeder is a slow destination of a rank that always has more of its line than one
// write takes.
type feeder struct {
	screen
	m *Merger
}

func (f *feeder) Write(p []byte) (int, error) {
	f.m.Write(0, stdout, make([]byte, batchSize))
	time.Sleep(idle / 3)
	return f.screen.Write(p)
}

func TestEndlessLineBehindSlowTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f feeder
		m := mustNew(t, Options{Stdout: &f, Hosts: three, Partial: 4})
		f.m = m
		m.Write(0, stdout, make([]byte, 4*batchSize))
		synctest.Wait()
		m.Write(1, stdout, []byte("x\n"))
		time.Sleep(patience + 3*idle)
		if got := f.String(); strings.Count(got, "\x00x\n") != 1 {
			t.Errorf("got no line x among %d bytes after %v", len(got), patience+3*idle)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: got %v; want nil, since nothing is taken any more", err)
		}
	})
}

// TestBlockedStdout: while stdout is blocked for a minute, nothing else is.
func TestBlockedStdout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdout, stderr := screen{gate: make(chan struct{})}, screen{}
		var left [2]int
		m := mustNew(t, Options{Stdout: &stdout, Stderr: &stderr, Hosts: three, Written: func(rank, which, n int) { left[which-1] += n }})
		for i := range 60 {
			m.Write(0, 1, fmt.Appendf(nil, "out %d\n", i))
			m.Write(1, 2, fmt.Appendf(nil, "err %d\n", i))
			m.Line(fmt.Sprintf("own %d", i))
			time.Sleep(time.Second)
			synctest.Wait()
			if want := fmt.Sprintf("err %d\nown %d\n", i, i); !strings.HasSuffix(stderr.String(), want) {
				t.Fatalf("stderr: got %q; want it to end with %q", stderr.String(), want)
			}
			if got, want := m.Tail(0), fmt.Sprintf("out %d", i); got[len(got)-1] != want {
				t.Fatalf("Tail: got %q; want the last line %q", got, want)
			}
		}
		if left[0] != 0 || left[1] != 410 {
			t.Errorf("Written: got %d and %d; want 0 and 410", left[0], left[1])
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := m.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(fmt.Sprint(err), "stdout: 410 bytes not written: ") {
			t.Errorf("Close: got %v; want stdout's 410 bytes and the deadline", err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("Close: took %v; want 2s", got)
		}
		close(stdout.gate)
		synctest.Wait()
		if got, want := stdout.String(), "out 0\n"; got != want {
			t.Errorf("stdout after Close gave up: got %q; want %q", got, want)
		}
	})
}

// TestOrderBehindBlock: lines come in the order of their completion also when many
// waited, and many short ones need little more than their bytes.
func TestOrderBehindBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := screen{gate: make(chan struct{})}
		m := mustNew(t, Options{Stdout: &s, Hosts: three})
		var want strings.Builder
		for i := range maxRecords - 1 {
			fmt.Fprintf(&want, "%d\n", i)
			m.Write(i%3, 1, fmt.Appendf(nil, "%d\n", i))
		}
		for range 10 * maxRecords {
			m.Write(0, 1, []byte("\n"))
			m.Write(1, 1, []byte("\n"))
		}
		if got := len(m.lanes[stdout].order.ring); got > 2*maxRecords {
			t.Errorf("records: got %d; want at most %d", got, 2*maxRecords)
		}
		close(s.gate)
		mustClose(t, m)
		got := strings.TrimRight(s.String(), "\n") + "\n"
		if got != want.String() {
			t.Errorf("got another order than that of the writes")
		}
		if got, want := len(s.String()), want.Len()+20*maxRecords; got != want {
			t.Errorf("got %d bytes; want %d", got, want)
		}
	})
}

// TestStampsBehindBlock: a line has the time at which it came, not that at which it
// could be written.
func TestStampsBehindBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := screen{gate: make(chan struct{})}
		m := mustNew(t, Options{Stdout: &s, Hosts: three, Stamp: true})
		var want string
		for i := range 5 {
			m.Write(0, 1, []byte("a\nb\n"))
			want += at(int64(i)) + "a\n" + at(int64(i)) + "b\n"
			time.Sleep(time.Millisecond)
		}
		close(s.gate)
		mustClose(t, m)
		if got := s.String(); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	})
}

func TestOwnLinesBehindBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := screen{gate: make(chan struct{})}
		m := mustNew(t, Options{Stderr: &s, Hosts: three})
		text := strings.Repeat("x", 99)
		const lines = 20_000
		m.Line(text)
		synctest.Wait() // until its writing is what blocks
		for range lines - 1 {
			m.Line(text)
		}
		if got := m.lanes[stderr].own.n; got > maxOwn {
			t.Errorf("held: got %d bytes; want at most %d", got, maxOwn)
		}
		close(s.gate)
		synctest.Wait()
		m.Line("last")
		mustClose(t, m)
		shown := strings.Count(s.String(), text+"\n")
		if want := fmt.Sprintf("gorun: stderr was blocked; %d lines of gorun's own are missing here\nlast\n", lines-shown); !strings.HasSuffix(s.String(), want) {
			t.Errorf("got …%q; want it to end with %q", s.String()[len(s.String())-120:], want)
		}
	})
}

// TestClosedStdout is `gorun … | head`: one report, and no credit is lost.
func TestClosedStdout(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	var failed []string
	var left int
	m := mustNew(t, Options{Stdout: w, Hosts: three,
		Failed: func(err error, dest string) {
			if !errors.Is(err, syscall.EPIPE) {
				t.Errorf("got error %v; want EPIPE", err)
			}
			failed = append(failed, dest)
		},
		Written: func(rank, which, n int) { left += n },
	})
	for i := range 300 {
		m.Write(i%3, 1, []byte("hello\n"))
	}
	mustClose(t, m)
	if len(failed) != 1 || failed[0] != "stdout" {
		t.Errorf("Failed: got %q; want stdout once", failed)
	}
	if left != 1800 {
		t.Errorf("Written: got %d bytes; want 1800", left)
	}
}

// stubborn is a shared terminal that another program has made non-blocking.
type stubborn struct {
	screen
	calls int
}

func (s *stubborn) Write(p []byte) (int, error) {
	if s.calls++; s.calls%3 != 0 {
		n := min(len(p), 2*(s.calls%3-1))
		s.screen.Write(p[:n])
		return n, &os.PathError{Op: "write", Path: "tty", Err: syscall.EAGAIN}
	}
	return s.screen.Write(p)
}

type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestWriteAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stubborn
		if err := writeAll(&s, []byte("hello, world\n")); err != nil || s.String() != "hello, world\n" {
			t.Errorf("non-blocking: got %q, %v; want the whole line, nil", s.String(), err)
		}
	})
	if err := writeAll(short{}, []byte("ab")); err != io.ErrShortWrite {
		t.Errorf("short write: got %v; want %v", err, io.ErrShortWrite)
	}
}
