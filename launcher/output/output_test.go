package output

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gorun/launcher/wire"
)

// screen is a destination that keeps what it is given, one write at a time.
type screen struct {
	mu     sync.Mutex
	text   []byte
	writes int
	gate   chan struct{} // if not nil, every write waits until it is closed
}

func (s *screen) Write(p []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	s.writes++
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// What ranks do in a test, in order.
type act func(m *Merger)

func out(rank int, text string) act { return func(m *Merger) { m.Write(rank, stdout, []byte(text)) } }
func err(rank int, text string) act { return func(m *Merger) { m.Write(rank, stderr, []byte(text)) } }

// at is the stamp so many milliseconds after a synctest's beginning.
func at(ms int64) string {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond).Local().Format("2006-01-02T15:04:05.000 ")
}

func end(rank, which int) act   { return func(m *Merger) { m.End(rank, which) } }
func line(text string) act      { return func(m *Merger) { m.Line(text) } }
func sleep(d time.Duration) act { return func(*Merger) { time.Sleep(d) } }

func mustNew(t testing.TB, o Options) *Merger {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustClose(t testing.TB, m *Merger) {
	t.Helper()
	if err := m.Close(context.Background()); err != nil {
		t.Errorf("Close: got %v; want nil", err)
	}
}

var three = []string{"n1", "n1", "n2"}

func TestStreamNumbers(t *testing.T) {
	if stdout != wire.Out || stderr != wire.Err {
		t.Errorf("got %d, %d; want wire's %d, %d", stdout, stderr, wire.Out, wire.Err)
	}
}

// TestMerge runs each row inside a bubble of fake time, in which every act has had
// its effect before the next.
func TestMerge(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		acts []act
		want string // on stdout before Close
		rest string // what Close adds
		err  string // on stderr after Close
	}{
		{name: "order-of-completion", acts: []act{out(0, "a"), out(1, "b\n"), out(0, "c\nd"), out(1, "e\n")},
			want: "b\nac\ne\n", rest: "d"},
		{name: "several-lines-at-once", acts: []act{out(0, "a\nb\nc"), out(2, "x\n"), out(0, "\n\n")},
			want: "a\nb\nx\nc\n\n"},
		{name: "streams-apart", acts: []act{out(0, "a\n"), err(0, "b\n"), out(0, "c\n")},
			want: "a\nc\n", err: "b\n"},
		{name: "odd-bytes", acts: []act{out(0, "a\r"), out(1, "\x00\xff\xfe\r\n"), out(0, "b\r\n"), out(0, "\x1b[31m\xc3\n")},
			want: "\x00\xff\xfe\r\na\rb\r\n\x1b[31m\xc3\n"},
		{name: "no-newline-at-end", acts: []act{out(0, "a"), end(0, stdout)},
			want: "a"},
		{name: "no-newline-at-end-then-another", acts: []act{out(0, "a"), end(0, stdout), out(1, "b\n")},
			want: "a\nb\n"},
		{name: "no-newline-at-any-end", acts: []act{out(0, "a"), out(1, "b"), out(2, "c"), end(1, stdout), end(0, stdout), end(2, stdout)},
			want: "b\na\nc"},
		{name: "end-after-newline", acts: []act{out(0, "a\n"), end(0, stdout), end(1, stdout), out(2, "c\n")},
			want: "a\nc\n"},
		{name: "end-twice", acts: []act{out(0, "a"), end(0, stdout), end(0, stdout), end(1, stdout), out(1, "b")},
			want: "a", rest: "\nb"},
		{name: "close-ends-lines", acts: []act{out(0, "a"), out(1, "b")},
			rest: "a\nb"},
		{name: "unknown-streams", acts: []act{out(-1, "a\n"), out(3, "b\n"), end(7, stdout), func(m *Merger) { m.Write(0, 0, []byte("c\n")); m.Write(0, 3, []byte("d\n")) }}},
		{name: "held-for-ever-in-a-file", acts: []act{out(0, "a"), sleep(time.Hour), out(1, "b\n")},
			want: "b\n", rest: "a"},

		{name: "own-line", acts: []act{err(0, "a"), line("gorun: x\x1b[2J\ny"), err(0, "b\n")},
			err: "gorun: x\\x1b[2J\\ny\nab\n"},
		{name: "own-line-after-unfinished-end", acts: []act{err(0, "a"), end(0, stderr), line("gorun: x")},
			err: "a\ngorun: x\n"},

		{name: "long-line-in-pieces", opts: Options{Partial: 4}, acts: []act{out(0, "abcdef"), out(0, "g"), out(0, "h\ni")},
			want: "abcdefgh\n", rest: "i"},
		{name: "others-wait-for-long-line", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), out(1, "x\n"), sleep(idle - 1), out(0, "e"), sleep(idle - 1), out(0, "f\ng\n")},
			want: "abcdef\nx\ng\n"},
		{name: "silent-long-line-is-broken", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), out(1, "x\n"), sleep(idle), out(0, "e\n")},
			want: "abcdx\ne\n"},
		{name: "silent-long-line-was-silent-before", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), sleep(idle), out(1, "x\n"), out(0, "e\n")},
			want: "abcdx\ne\n"},
		{name: "silent-long-line-tagged", opts: Options{Partial: 4, Tag: true}, acts: []act{out(0, "abcd"), out(1, "x\n"), sleep(idle), out(0, "e\n")},
			want: "[0 n1] abcd\n[1 n1] x\n[0 n1] e\n"},
		{name: "ended-long-line-is-broken", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), out(1, "x\n"), end(0, stdout)},
			want: "abcd\nx\n"},
		{name: "own-line-breaks-long-line", opts: Options{Partial: 4}, acts: []act{err(0, "abcd"), line("gorun: x"), err(0, "e\n")},
			err: "abcd\ngorun: x\ne\n"},
		{name: "held-rest-of-broken-line", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), sleep(idle), out(1, "x\n"), out(0, "e"), out(1, "y\n"), out(0, "f\n")},
			want: "abcdx\ny\nef\n"},

		{name: "tags", opts: Options{Tag: true}, acts: []act{out(0, "a\nb"), out(2, "c\n\n"), err(1, "e\r\n"), out(0, "d\n"), line("gorun: x")},
			want: "[0 n1] a\n[2 n2] c\n[2 n2] \n[0 n1] bd\n", err: "[1 n1] e\r\ngorun: x\n"},
		{name: "tags-end", opts: Options{Tag: true}, acts: []act{out(0, "a"), end(0, stdout), out(1, "b"), end(1, stdout)},
			want: "[0 n1] a\n[1 n1] b"},
		{name: "tags-long", opts: Options{Tag: true, Partial: 2}, acts: []act{out(0, "abc"), out(0, "d"), out(0, "e\nfg"), out(0, "\n")},
			want: "[0 n1] abcde\n[0 n1] fg\n"},
		{name: "tags-one-rank", opts: Options{Tag: true, Hosts: []string{"h"}}, acts: []act{out(0, "a"), out(0, "b\n")},
			want: "[0 h] ab\n"},
		{name: "tags-no-colour-in-files", opts: Options{Tag: true, Color: true}, acts: []act{out(0, "a\n")},
			want: "[0 n1] a\n"},
		{name: "stamps", opts: Options{Stamp: true}, acts: []act{out(0, "a\nb"), sleep(1500 * time.Millisecond), out(1, "c\n"), out(0, "d\ne\n"), err(1, "f\n"), line("gorun: x")},
			want: at(0) + "a\n" + at(1500) + "c\n" + at(1500) + "bd\n" + at(1500) + "e\n", err: at(1500) + "f\ngorun: x\n"},
		{name: "stamps-and-tags", opts: Options{Stamp: true, Tag: true}, acts: []act{out(1, "a\n")},
			want: at(0) + "[1 n1] a\n"},
		{name: "stamps-of-one-rank", opts: Options{Hosts: []string{"h"}, Stamp: true}, acts: []act{out(0, "a"), sleep(time.Second), out(0, "b\n")},
			want: at(1000) + "ab\n"},
		{name: "stamps-of-a-long-line", opts: Options{Stamp: true, Partial: 4}, acts: []act{out(0, "abcd"), sleep(time.Second), out(0, "ef\ng\n")},
			want: at(0) + "abcdef\n" + at(1000) + "g\n"},
		{name: "terminal-stamps-again-after-cr", opts: Options{Terminal: true, Stamp: true}, acts: []act{out(0, "\r1%"), sleep(idle), out(0, "\r2%")},
			want: at(300) + "\r" + at(300) + "1%\r" + at(300) + "2%"},
		{name: "tags-cr-in-files", opts: Options{Tag: true}, acts: []act{out(0, "1%\r2%\r\n")},
			want: "[0 n1] 1%\r2%\r\n"},
		{name: "tags-of-bad-host-names", opts: Options{Tag: true, Hosts: []string{"a\x1b", "b"}}, acts: []act{out(0, "a\n")},
			want: "[0 a\\x1b] a\n"},

		{name: "one-rank-at-once", opts: Options{Hosts: []string{"h"}}, acts: []act{out(0, "pass"), sleep(1), out(0, "word: \r")},
			want: "password: \r"},
		{name: "one-rank-own-line", opts: Options{Hosts: []string{"h"}}, acts: []act{err(0, "a"), line("gorun: x"), err(0, "b")},
			err: "a\ngorun: x\nb"},
		{name: "no-ranks", opts: Options{Hosts: []string{}}, acts: []act{out(0, "a\n"), line("gorun: x")},
			err: "gorun: x\n"},

		{name: "terminal-shows-prompt", opts: Options{Terminal: true}, acts: []act{out(0, "name: "), sleep(idle)},
			want: "name: "},
		{name: "terminal-waits-first", opts: Options{Terminal: true}, acts: []act{out(0, "name: "), sleep(idle - 1)},
			rest: "name: "},
		{name: "terminal-line-in-time", opts: Options{Terminal: true}, acts: []act{out(0, "a"), sleep(idle / 2), out(1, "b\n"), out(0, "c\n"), sleep(idle)},
			want: "b\nac\n"},
		{name: "terminal-age-counts-from-the-line", opts: Options{Terminal: true}, acts: []act{out(0, "a"), sleep(idle - 1), out(0, "\nb"), sleep(idle - 1)},
			want: "a\n", rest: "b"},
		{name: "terminal-prompt-is-broken", opts: Options{Terminal: true}, acts: []act{out(0, "name: "), sleep(idle), out(1, "x\n"), out(0, "joe\n")},
			want: "name: \nx\njoe\n"},
		{name: "terminal-prompt-goes-on", opts: Options{Terminal: true}, acts: []act{out(0, "name: "), sleep(idle), out(0, "j"), out(0, "oe\n"), out(1, "x\n")},
			want: "name: joe\nx\n"},
		{name: "terminal-two-prompts", opts: Options{Terminal: true}, acts: []act{out(0, "a"), sleep(idle / 2), out(1, "b"), sleep(idle)},
			want: "a\nb"},
		{name: "terminal-progress-bar", opts: Options{Terminal: true}, acts: []act{out(0, "\r1%"), sleep(idle / 2), out(0, "\r2%"), sleep(idle / 2), out(0, "\r3%"), out(0, "\r4%")},
			want: "\r1%\r2%\r3%\r4%"},
		{name: "terminal-progress-bar-broken", opts: Options{Terminal: true}, acts: []act{out(0, "\r1%"), sleep(idle), out(1, "x\n"), out(0, "\r2%"), sleep(idle), out(0, "\r3%\n")},
			want: "\r1%\nx\n\r2%\r3%\n"},
		{name: "terminal-tags-again-after-cr", opts: Options{Terminal: true, Tag: true}, acts: []act{out(0, "\r1%"), sleep(idle), out(0, "\r2%\r"), out(0, "\r3%\r\r"), out(0, "done\r"), out(0, "\n"), out(0, "x\r\n")},
			want: "[0 n1] \r[0 n1] 1%\r[0 n1] 2%\r\r[0 n1] 3%\r\r[0 n1] done\r\n[0 n1] x\r\n"},
		{name: "terminal-colours", opts: Options{Terminal: true, Tag: true, Color: true}, acts: []act{out(1, "a\n"), err(1, "b\n")},
			want: "\x1b[33m[1 n1]\x1b[0m a\n", err: "[1 n1] b\n"},
		{name: "stderr-is-the-terminal", opts: Options{StderrTerminal: true}, acts: []act{err(0, "a"), out(0, "b"), sleep(idle), err(1, "c\n")},
			rest: "b", err: "a\nc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr screen
				tt.opts.Stdout, tt.opts.Stderr = &stdout, &stderr
				if tt.opts.Hosts == nil {
					tt.opts.Hosts = three
				}
				m := mustNew(t, tt.opts)
				for _, a := range tt.acts {
					a(m)
					synctest.Wait()
				}
				if got := stdout.String(); got != tt.want {
					t.Errorf("stdout: got %q; want %q", got, tt.want)
				}
				mustClose(t, m)
				if got, want := stdout.String(), tt.want+tt.rest; got != want {
					t.Errorf("stdout after Close: got %q; want %q", got, want)
				}
				if got := stderr.String(); got != tt.err {
					t.Errorf("stderr: got %q; want %q", got, tt.err)
				}
				if got, want := m.Unfinished(), tt.err != "" && !strings.HasSuffix(tt.err, "\n"); got != want {
					t.Errorf("Unfinished: got %v; want %v", got, want)
				}
			})
		})
	}
}

// TestOneDestination: stdout and stderr are one pipe, and lines of the two do not mix.
func TestOneDestination(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		acts []act
		want string
	}{
		{"lines", Options{}, []act{out(0, "a"), err(0, "b\n"), err(1, "c"), out(0, "d\n"), err(1, "e\n")}, "b\nad\nce\n"},
		{"terminal", Options{Terminal: true}, []act{err(0, "\r1%"), sleep(idle), out(0, "epoch 1\n"), err(0, "\r2%"), sleep(idle), line("gorun: x")}, "\r1%\nepoch 1\n\r2%\ngorun: x\n"},
		{"one-rank", Options{Hosts: []string{"h"}}, []act{out(0, "a"), err(0, "b"), out(0, "c\n")}, "abc\n"},
		{"unfinished", Options{}, []act{err(0, "a\n"), out(1, "b")}, "a\nb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s screen
				tt.opts.Stdout, tt.opts.Stderr = &s, &s
				if tt.opts.Hosts == nil {
					tt.opts.Hosts = three
				}
				m := mustNew(t, tt.opts)
				for _, a := range tt.acts {
					a(m)
					synctest.Wait()
				}
				mustClose(t, m)
				if got := s.String(); got != tt.want {
					t.Errorf("got %q; want %q", got, tt.want)
				}
				if got, want := m.Unfinished(), !strings.HasSuffix(tt.want, "\n"); got != want {
					t.Errorf("Unfinished: got %v; want %v", got, want)
				}
			})
		})
	}
}

type uncomparable struct{ _ []int }

func (uncomparable) Write(p []byte) (int, error) { return len(p), nil }

func TestSame(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, again, b := open("a"), open("a"), open("b")
	for _, tt := range []struct {
		name string
		a, b io.Writer
		want bool
	}{
		{"one-file-twice", a, again, true},
		{"two-files", a, b, false},
		{"file-and-buffer", a, &screen{}, false},
		{"uncomparable", uncomparable{}, uncomparable{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := same(tt.a, tt.b); got != tt.want {
				t.Errorf("got %v; want %v", got, tt.want)
			}
		})
	}
}

// TestWholeLinesInOneWrite: a line is not cut by the size of a write.
func TestWholeLinesInOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cutter{t: t, gate: make(chan struct{})}
		m := mustNew(t, Options{Stdout: &s, Hosts: three})
		text := []byte(strings.Repeat(strings.Repeat("x", 999)+"\n", 30))
		for range 20 {
			for rank := range three {
				m.Write(rank, 1, text)
			}
		}
		for range 20 {
			m.Write(0, 1, text)
		}
		close(s.gate)
		mustClose(t, m)
		if s.n != 80*len(text) {
			t.Errorf("got %d bytes; want %d", s.n, 80*len(text))
		}
	})
}

type cutter struct {
	t    *testing.T
	gate chan struct{}
	n    int
}

func (c *cutter) Write(p []byte) (int, error) {
	<-c.gate
	if p[len(p)-1] != '\n' {
		c.t.Errorf("a write of %d bytes ends inside a line", len(p))
	}
	c.n += len(p)
	return len(p), nil
}

// TestTagsInBoundedMemory: tags may be many times longer than what they stand before.
func TestTagsInBoundedMemory(t *testing.T) {
	var w counter
	m := mustNew(t, Options{Stdout: &w, Hosts: three, Tag: true})
	const lines = 3 * batchSize
	m.Write(0, 1, []byte(strings.Repeat("\n", lines)))
	mustClose(t, m)
	if want := lines * len("[0 n1] \n"); w.n != want {
		t.Errorf("got %d bytes; want %d", w.n, want)
	}
	if w.most > 2*batchSize {
		t.Errorf("got a write of %d bytes; want at most %d", w.most, 2*batchSize)
	}
}

// TestHugeLine: 100 MB without a newline pass in bounded memory and one piece.
func TestHugeLine(t *testing.T) {
	const size = 100 << 20
	var w counter
	back := make(chan int, 1<<20)
	m := mustNew(t, Options{Stdout: &w, Hosts: three, Written: func(_, _, n int) { back <- n }})
	frame := []byte(strings.Repeat("x", 32<<10))
	var most int
	for sent, open := 0, 0; sent < size; {
		for open > 256<<10 {
			open -= <-back
		}
		m.Write(0, 1, frame)
		sent += len(frame)
		open += len(frame)
		most = max(most, len(m.lanes[stdout].streams[stdout][0].buf))
	}
	m.Write(0, 1, []byte("\n"))
	m.Write(1, 1, []byte("y\n"))
	mustClose(t, m)
	if w.n != size+3 || w.lines != 2 {
		t.Errorf("got %d bytes in %d lines; want %d in 2", w.n, w.lines, size+3)
	}
	if most > 512<<10 {
		t.Errorf("buffer: got %d bytes; want at most 512 KiB", most)
	}
}

type counter struct{ n, lines, most int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	c.most = max(c.most, len(p))
	c.lines += strings.Count(string(p[max(0, len(p)-3):]), "\n")
	return len(p), nil
}

// TestAllocations: no memory is allocated per line.
func TestAllocations(t *testing.T) {
	for _, tag := range []bool{false, true} {
		t.Run(fmt.Sprintf("tag-%v", tag), func(t *testing.T) {
			back := make(chan int, 16)
			m := mustNew(t, Options{Hosts: three, Tag: tag, Written: func(_, _, n int) { back <- n }})
			frame := []byte(strings.Repeat("hello, world\n", 100))
			send := func() {
				m.Write(1, 1, frame)
				for n := 0; n < len(frame); n += <-back {
				}
			}
			send()
			if got := testing.AllocsPerRun(100, send); got > 1 {
				t.Errorf("got %v allocations for 100 lines; want at most 1", got)
			}
			mustClose(t, m)
		})
	}
}

// TestConcurrent lets everything happen at once, for the race detector.
func TestConcurrent(t *testing.T) {
	var stdout, stderr screen
	hosts := make([]string, 16)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("n%d", i/4)
	}
	var mu sync.Mutex
	left := 0
	m := mustNew(t, Options{Stdout: &stdout, Stderr: &stderr, Hosts: hosts, Tag: true, Terminal: true, Written: func(rank, which, n int) {
		mu.Lock()
		defer mu.Unlock()
		left += n
	}})
	var wg sync.WaitGroup
	sent := 0
	for rank := range hosts {
		for which := 1; which <= 2; which++ {
			text := fmt.Sprintf("rank %d stream %d\nand", rank, which)
			sent += 200 * len(text)
			wg.Go(func() {
				for range 200 {
					m.Write(rank, which, []byte(text))
				}
				m.End(rank, which)
			})
		}
		wg.Go(func() {
			for range 50 {
				m.Line("own")
				m.Tail(rank)
			}
		})
	}
	wg.Wait()
	mustClose(t, m)
	mustClose(t, m)
	if left != sent {
		t.Errorf("Written: got %d; want %d", left, sent)
	}
	if got, want := strings.Count(stderr.String(), "own\n"), 16*50; got != want {
		t.Errorf("own lines: got %d; want %d", got, want)
	}
	for _, l := range strings.SplitAfter(stdout.String(), "\n") {
		var rank, node, again int
		if _, err := fmt.Sscanf(l, "[%d n%d] rank %d stream 1\n", &rank, &node, &again); err == nil && (rank != again || node != rank/4) {
			t.Fatalf("got the line %q", l)
		}
	}
}
