package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func status(text string) act { return func(m *Merger) { m.Status(text) } }

// TestLive looks at a terminal of 40 columns, after every step and after the end.
func TestLive(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		acts []act
		want string // what is to be seen when the acts are over
		end  string // and after Close
	}{
		{name: "status", acts: []act{status("2 ranks run")}, want: "_2 ranks run", end: "_"},
		{name: "status-below-output", acts: []act{status("s"), out(0, "a\n"), sleep(drawEvery)}, want: "a\n_s", end: "a\n_"},
		{name: "status-comes-again-later", acts: []act{status("s"), out(0, "a\n")}, want: "a\n_", end: "a\n_"},
		{name: "status-changes", acts: []act{status("longer"), sleep(drawEvery), status("s")}, want: "_s", end: "_"},
		{name: "status-not-too-often", acts: []act{status("a"), status("b"), sleep(drawEvery - 1)}, want: "_a", end: "_"},
		{name: "status-goes", acts: []act{status("a"), sleep(drawEvery), status("")}, want: "_", end: "_"},
		{name: "status-is-cut", acts: []act{status(strings.Repeat("x", 50))}, want: "_" + strings.Repeat("x", 39), end: "_"},
		{name: "status-is-clean", acts: []act{status("a\x1b[2J\nb")}, want: `_a\x1b[2J\nb`, end: "_"},
		{name: "not-behind-an-unfinished-line", acts: []act{out(0, "name: "), sleep(idle), status("s"), sleep(time.Second)}, want: "name: _", end: "name: _"},
		{name: "unfinished-line-erases-it", acts: []act{status("status"), out(0, "name: "), sleep(idle)}, want: "name: _", end: "name: _"},
		{name: "behind-the-finished-line", acts: []act{out(0, "name: "), sleep(idle), status("s"), out(0, "x\n"), sleep(drawEvery)}, want: "name: x\n_s", end: "name: x\n_"},
		{name: "own-line", acts: []act{status("s"), line("gorun: x"), sleep(drawEvery)}, want: "gorun: x\n_s", end: "gorun: x\n_"},
		{name: "joined-lines", opts: Options{Fold: true}, acts: []act{status("s"), out(0, "a\n"), sleep(foldFor + drawEvery)}, want: "[0] a\n_s", end: "[0] a\n_"},

		{name: "bar", acts: []act{out(0, "\r10%"), sleep(drawEvery), out(0, "\r20%")}, want: "_20%", end: "20%_"},
		{name: "bar-before-status", acts: []act{status("s"), sleep(drawEvery), out(0, "\r10%")}, want: "_10%", end: "10%_"},
		{name: "bar-ends", acts: []act{out(0, "\r10%"), sleep(drawEvery), out(0, "\r99%\r100%\n"), status("s"), sleep(drawEvery)}, want: "100%\n_s", end: "100%\n_"},
		{name: "bar-with-cr-behind", acts: []act{out(0, "10%\r"), sleep(drawEvery), out(0, "20%\r")}, want: "_20%", end: "_20%"},
		{name: "bar-with-cr-before-lf", acts: []act{out(0, "10%\r20%\r\nx\r\n")}, want: "20%\nx\n_", end: "20%\nx\n_"},
		{name: "bar-in-parts", acts: []act{out(0, "\r10% ##"), out(0, "##  "), sleep(drawEvery)}, want: "_10% ####  ", end: "10% ####  _"},
		{name: "lowest-rank-only", acts: []act{out(2, "\r2: 1%"), sleep(drawEvery), out(1, "\r1: 1%"), sleep(drawEvery), out(2, "\r2: 9%"), sleep(time.Second)},
			want: "_1: 1%", end: "1: 1%\n2: 9%_"},
		{name: "others-last-state-stays", acts: []act{out(0, "\r0: 1%"), out(2, "\r2: 1%"), out(2, "\r2: 100%\n"), sleep(drawEvery)}, want: "2: 100%\n_0: 1%", end: "2: 100%\n0: 1%_"},
		{name: "next-bar-when-one-ends", acts: []act{out(0, "\r0: 1%"), out(2, "\r2: 1%"), sleep(time.Second), out(0, "\r0: 100%\n"), sleep(drawEvery)}, want: "0: 100%\n_2: 1%", end: "0: 100%\n2: 1%_"},
		{name: "lines-above-the-bar", acts: []act{out(0, "\r1%"), sleep(drawEvery), out(1, "x\n"), out(1, "y\n"), sleep(drawEvery)}, want: "x\ny\n_1%", end: "x\ny\n1%_"},
		{name: "line-of-the-same-rank-before", acts: []act{out(0, "start\n\r1%"), sleep(drawEvery)}, want: "start\n_1%", end: "start\n1%_"},
		{name: "stream-ends-in-a-bar", acts: []act{out(0, "\r1%\r2%"), end(0, 1), sleep(drawEvery), out(1, "x\n")}, want: "2%\nx\n_", end: "2%\nx\n_"},
		{name: "bar-with-tags", opts: Options{Tag: true}, acts: []act{out(1, "\r1%"), sleep(drawEvery)}, want: "_[1 n1] 1%", end: "[1 n1] 1%_"},
		{name: "bar-with-tags-ends", opts: Options{Tag: true}, acts: []act{out(1, "\r1%\r2%\n")}, want: "[1 n1] 2%\n_", end: "[1 n1] 2%\n_"},
		{name: "bars-are-joined", opts: Options{Fold: true}, acts: []act{out(0, "\r1%"), out(1, "\r1%\r100%\n"), out(2, "\r2%\r100%\n"), sleep(drawEvery), out(0, "\r100%\n")}, want: "[0-2] 100%\n_", end: "[0-2] 100%\n_"},
		{name: "bar-is-cut-and-cleaned", acts: []act{out(0, "\r\x1b[31m"+strings.Repeat("#", 50)+"\x1b[0m\x1b[2J\a"), sleep(drawEvery)},
			want: "_" + strings.Repeat("#", 39)},
		{name: "wide-bar", acts: []act{out(0, "\r"+strings.Repeat("進", 30)), sleep(drawEvery)}, want: "_" + strings.Repeat("進", 19)},
		{name: "prompt-becomes-a-bar", acts: []act{out(0, "wait"), sleep(idle), out(0, "\rdone"), out(1, "x\n"), sleep(drawEvery)}, want: "done\nx\n_", end: "done\nx\n_"},
		{name: "long-state", opts: Options{Partial: 64}, acts: []act{out(0, "\r"+strings.Repeat("#", 80)), sleep(drawEvery)},
			want: strings.Repeat("#", 40) + "\n" + strings.Repeat("#", 40) + "_"},
		{name: "one-rank-passes-as-it-is", opts: Options{Hosts: []string{"h"}}, acts: []act{status("s"), out(0, "10%\r20%")}, want: "20%_", end: "20%_"},
		{name: "hidden", acts: []act{status("s"), func(m *Merger) { m.Hide() }, sleep(time.Second), out(0, "\r1%"), sleep(time.Second)}, want: "_", end: "1%_"},
		{name: "hidden-and-shown", acts: []act{status("s"), func(m *Merger) { show := m.Hide(); time.Sleep(time.Second); show() }, sleep(drawEvery)}, want: "_s", end: "_"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				screen := newTerm(40)
				o := tt.opts
				o.Stdout, o.Stderr, o.Terminal, o.StderrTerminal = screen, screen, true, true
				o.Width = func() int { return screen.width }
				if o.Hosts == nil {
					o.Hosts = three
				}
				m := mustNew(t, o)
				for _, a := range tt.acts {
					a(m)
					synctest.Wait()
				}
				if got := screen.String(); got != tt.want {
					t.Errorf("got %q; want %q", got, tt.want)
				}
				mustClose(t, m)
				if got := screen.String(); tt.end != "" && got != tt.end {
					t.Errorf("after Close: got %q; want %q", got, tt.end)
				}
			})
		})
	}
}

// TestLiveElsewhere: what is no terminal, or one that cannot take a line away again,
// gets every byte and nothing else.
func TestLiveElsewhere(t *testing.T) {
	width := func() int { return 80 }
	for name, o := range map[string]Options{
		"no-terminal":       {Width: width},
		"other-stream-only": {StderrTerminal: true, Width: width},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr screen
				o.Stdout, o.Stderr, o.Hosts = &stdout, &stderr, three
				m := mustNew(t, o)
				for _, a := range []act{status("s"), out(0, "\r1%\r2%"), sleep(time.Second), out(1, "\r9%\n"), out(0, "\r3%\n")} {
					a(m)
					synctest.Wait()
				}
				mustClose(t, m)
				if got, want := stdout.String(), "\r9%\n\r1%\r2%\r3%\n"; got != want {
					t.Errorf("stdout: got %q; want %q", got, want)
				}
				if got := stderr.String(); !o.StderrTerminal && got != "" {
					t.Errorf("stderr: got %q; want nothing", got)
				}
			})
		})
	}
}

// TestLiveWidths: on a terminal too narrow, or in the background, nothing is shown; one
// that becomes narrower keeps no rest.
func TestLiveWidths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := newTerm(1)
		var width atomic.Int64
		width.Store(1)
		m := mustNew(t, Options{Stdout: screen, Stderr: screen, Terminal: true, StderrTerminal: true, Hosts: three, Width: func() int { return int(width.Load()) }})
		m.Status("status")
		m.Write(0, 1, []byte("\r10%"))
		time.Sleep(time.Second)
		if screen.writes != 0 {
			t.Errorf("one column: got %q; want nothing", screen)
		}
		width.Store(40)
		screen.resize(40)
		m.Write(0, 1, []byte("\r"+strings.Repeat("#", 40)))
		time.Sleep(time.Second)
		if got, want := screen.String(), "_"+strings.Repeat("#", 39); got != want {
			t.Errorf("40 columns: got %q; want %q", got, want)
		}
		width.Store(15)
		screen.resize(15)
		m.Write(1, 1, []byte("a line\n"))
		time.Sleep(time.Second)
		if got, want := screen.String(), "a line\n_"+strings.Repeat("#", 14); got != want {
			t.Errorf("15 columns: got %q; want %q", got, want)
		}
		width.Store(-1)
		m.Status("other")
		time.Sleep(time.Second)
		m.Write(0, 1, []byte("\r15%"))
		time.Sleep(time.Second)
		if got, want := screen.String(), "a line\n_"+strings.Repeat("#", 14); got != want {
			t.Errorf("somebody else's: got %q; want %q", got, want)
		}
		width.Store(0)
		m.Write(0, 1, []byte("\r20%"))
		time.Sleep(time.Second)
		if got, want := screen.String(), "a line\n_"; got != want {
			t.Errorf("in the background: got %q; want %q", got, want)
		}
		mustClose(t, m)
	})
}

// TestManyBars: 64 ranks that draw as fast as they can cost a drawing each 100 ms and
// little memory, and get their credit back.
func TestManyBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ranks = 64
		screen := newTerm(40)
		var back, sent int64
		m := mustNew(t, Options{Stdout: screen, Stderr: screen, Terminal: true, StderrTerminal: true, Hosts: hosts(ranks),
			Width: func() int { return 40 }, Written: func(_, _, n int) { atomic.AddInt64(&back, int64(n)) }})
		for i := range 1000 {
			for rank := range ranks {
				state := fmt.Appendf(nil, "\rrank %d: %d ", rank, i)
				sent += int64(len(state))
				m.Write(rank, 2, state)
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if screen.writes > 15 {
			t.Errorf("got %d drawings in 1 s; want at most 15", screen.writes)
		}
		if held := sent - atomic.LoadInt64(&back); held > ranks*40 {
			t.Errorf("got %d bytes held; want at most %d", held, ranks*40)
		}
		for i := range m.lanes[stderr].streams[stderr] {
			if n := len(m.lanes[stderr].streams[stderr][i].buf); n > 1<<10 {
				t.Fatalf("rank %d: got a buffer of %d bytes", i, n)
			}
		}
		if got := screen.String(); !strings.HasPrefix(got, "_rank 0: 9") {
			t.Errorf("got %q; want rank 0's", got)
		}
		mustClose(t, m)
		if back != sent {
			t.Errorf("Written: got %d bytes; want %d", back, sent)
		}
	})
}

// TestHideBehindBlock: a terminal that is stopped does not hold Hide up for long.
func TestHideBehindBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gated{gate: make(chan struct{}, 1)}
		s.gate <- struct{}{}
		m := mustNew(t, Options{Stderr: &s, StderrTerminal: true, Hosts: three, Width: func() int { return 40 }})
		m.Status("s")
		synctest.Wait()
		start := time.Now()
		m.Hide()
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v; want 1s", took)
		}
		close(s.gate)
		mustClose(t, m)
		if got := s.b.String(); !strings.HasSuffix(got, eraseLive) {
			t.Errorf("got %q; want the line taken away at last", got)
		}
	})
}

// gated lets a write pass for each value in its gate.
type gated struct {
	gate chan struct{}
	b    bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.gate
	return g.b.Write(p)
}

func TestFit(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "abc", "abc"},
		{"cut", "abcdefghijk", "abcdefghij"},
		{"wide", "進進進進進進", "進進進進進"},
		{"colours", "\x1b[1;31mab\x1b[0m", "\x1b[1;31mab\x1b[0m\x1b[0m"},
		{"cut-in-colour", "\x1b[31mabcdefghijk", "\x1b[31mabcdefghij\x1b[0m"},
		{"other-sequences", "a\x1b[2J\x1b[10Ab\x1b]0;title\ac\x1b(B", "abc"},
		{"controls", "a\x00\t\u202e\xff", "a????"},
		{"cr-behind", "abc\r", "abc"},
		{"unfinished-sequence", "abc\x1b[3", "abc3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fit(tt.text, 10); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// FuzzFit: whatever a rank draws stays in one row and leaves the cursor in it.
func FuzzFit(f *testing.F) {
	for _, s := range []string{"abc", "\x1b[31mx", "進", "\x1b]0;x\a", "\xff\x00", "a\u0301", "\x1b[\x80m"} {
		f.Add(s, 12)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		width = 2 + width&63
		screen := newTerm(width)
		fmt.Fprint(screen, fit(s, width-1))
		if len(screen.unknown) > 0 || screen.row != 0 || screen.col >= width || screen.pending != "" {
			t.Errorf("%q: got %q, cursor at %d of %d, rest %q", s, screen, screen.col, width, screen.pending)
		}
	})
}
