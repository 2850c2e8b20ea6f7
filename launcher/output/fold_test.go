package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFold(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		acts []act
		want string // on stdout when the acts are over
		rest string // what Close adds
		err  string // on stderr after Close
	}{
		{name: "all-the-same", acts: []act{out(0, "a\n"), out(2, "a\n"), out(1, "a\n")}, want: "[0-2] a\n"},
		{name: "waits-for-all", acts: []act{out(0, "a\n"), out(2, "a\n"), sleep(foldFor - 1)}, rest: "[0,2] a\n"},
		{name: "not-for-ever", acts: []act{out(0, "a\n"), out(2, "a\n"), sleep(foldFor)}, want: "[0,2] a\n"},
		{name: "late-one-comes-alone", acts: []act{out(0, "a\n"), sleep(foldFor), out(1, "a\n"), out(2, "a\n"), sleep(foldFor)}, want: "[0] a\n[1-2] a\n"},
		{name: "not-for-those-that-have-ended", acts: []act{end(1, 1), out(0, "a\n"), out(2, "a\n")}, want: "[0,2] a\n"},
		{name: "one-ends-meanwhile", acts: []act{out(0, "a\n"), out(2, "a\n"), end(1, 1)}, want: "[0,2] a\n"},
		{name: "ended-ranks-line-stays", acts: []act{out(1, "a\n"), end(1, 1), out(0, "a\n"), out(2, "a\n")}, want: "[0-2] a\n"},
		{name: "not-for-those-that-are-further", acts: []act{out(0, "a\nb\n"), out(1, "b\n"), out(2, "a\nb\n")}, want: "[0,2] a\n[0-2] b\n"},
		{name: "order-of-each-rank", acts: []act{out(0, "a\nb\n"), out(1, "b\na\n"), out(2, "a\nb\n"), sleep(foldFor)}, want: "[0,2] a\n[0-2] b\n[1] a\n"},
		{name: "repeated-lines", acts: []act{out(0, "a\na\n"), out(1, "a\na\n"), out(2, "a\n"), sleep(foldFor)}, want: "[0-2] a\n[0-1] a\n"},
		{name: "different-lines", acts: []act{out(0, "loss 1\nepoch\n"), out(1, "loss 2\nepoch\n"), out(2, "loss 1\nepoch\n")}, want: "[0,2] loss 1\n[1] loss 2\n[0-2] epoch\n"},
		{name: "own-lines-between-common-ones", acts: []act{out(0, "hello\nI am 0\nready\n"), out(1, "hello\nI am 1\nready\n"), out(2, "hello\nI am 2\nready\n")},
			want: "[0-2] hello\n[0] I am 0\n[1] I am 1\n[2] I am 2\n[0-2] ready\n"},
		{name: "one-says-more", acts: []act{out(0, "a\nb\nhello\nI am 0\nready\n"), out(1, "hello\nI am 1\nready\n"), out(2, "hello\nI am 2\nready\n")},
			want: "[0] a\n[0] b\n[0-2] hello\n[0] I am 0\n[1] I am 1\n[2] I am 2\n[0-2] ready\n"},
		{name: "insertion-does-not-put-off-others", acts: []act{out(0, "a\nb\n"), sleep(foldFor / 2), out(1, "x\n"), sleep(foldFor / 2)},
			want: "[0] a\n[1] x\n[0] b\n"},
		{name: "empty-lines", acts: []act{out(0, "\n"), out(1, "\n"), out(2, "\n")}, want: "[0-2] \n"},
		{name: "bad-utf8", acts: []act{out(0, "\xff\x00\r\n"), out(1, "\xff\x00\r\n"), out(2, "\xfe\n"), sleep(foldFor)}, want: "[0-1] \xff\x00\r\n[2] \xfe\n"},
		{name: "streams-apart", acts: []act{out(0, "a\n"), err(0, "a\n"), out(1, "a\n"), out(2, "a\n")}, want: "[0-2] a\n", err: "[0] a\n"},
		{name: "unfinished-last-lines", acts: []act{out(0, "a"), out(1, "a"), out(2, "a\n"), end(0, 1), end(1, 1), end(2, 1)}, want: "[0-2] a\n"},
		{name: "unfinished-alone", acts: []act{out(0, "a"), end(0, 1), err(1, "b")}, rest: "[0] a\n", err: "[1] b\n"},
		{name: "own-lines-come-behind", acts: []act{err(0, "a\n"), line("gorun: x"), err(1, "a\n"), sleep(foldFor)}, err: "[0] a\ngorun: x\n[1] a\n"},
		{name: "long-lines-are-not-joined", opts: Options{Partial: 4}, acts: []act{out(1, "x\n"), out(0, "abcd"), out(0, "ef\n"), out(1, "abcdef\n")},
			want: "[1] x\n[0] abcdef\n", rest: "[1] abcdef\n"},
		{name: "long-line-is-broken", opts: Options{Partial: 4}, acts: []act{out(0, "abcd"), out(1, "x\n"), sleep(idle + foldFor), out(0, "ef\n"), out(0, "y\n"), sleep(foldFor)},
			want: "[0] abcd\n[1] x\n[0] ef\n[0] y\n"},
		{name: "with-hosts", opts: Options{Tag: true, Hosts: []string{"n1", "n1", "n2"}}, acts: []act{out(0, "a\nb\n"), out(1, "a\nb\n"), out(2, "b\nc\n"), sleep(foldFor)},
			want: "[0-1 n1] a\n[0-2 2 hosts] b\n[2 n2] c\n"},
		{name: "with-times", opts: Options{Stamp: true}, acts: []act{out(0, "a\n"), sleep(foldFor / 2), out(1, "a\n"), out(2, "a\n")}, want: at(0) + "[0-2] a\n"},
		{name: "one-rank", opts: Options{Hosts: []string{"h"}}, acts: []act{out(0, "a\n")}, want: "[0] a\n"},
		{name: "prompt-on-a-terminal", opts: Options{Terminal: true}, acts: []act{out(1, "x\n"), out(0, "name: "), sleep(idle), out(0, "joe\n")}, want: "[1] x\n[0] name: joe\n"},
		{name: "colours", opts: Options{Terminal: true, Color: true}, acts: []act{out(0, "a\n"), out(1, "a\n"), out(2, "a\n")}, want: "\x1b[32m[0-2]\x1b[0m a\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr screen
				tt.opts.Stdout, tt.opts.Stderr, tt.opts.Fold = &stdout, &stderr, true
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
				if m.Unfinished() {
					t.Error("Unfinished: got true; want false")
				}
			})
		})
	}
}

// TestFoldOneDestination: lines of stdout and stderr are not joined with each other
// although they go to one place.
func TestFoldOneDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := mustNew(t, Options{Stdout: &s, Stderr: &s, Hosts: three, Fold: true})
		for rank := range three {
			m.Write(rank, 1, []byte("a\n"))
			m.Write(rank, 2, []byte("a\n"))
		}
		synctest.Wait()
		if got, want := s.String(), "[0-2] a\n[0-2] a\n"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
		mustClose(t, m)
	})
}

// TestFoldRandom: whatever the ranks print and when, every rank's lines come out once
// each and in order.
func TestFoldRandom(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { foldRandom(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func foldRandom(t *testing.T, rnd *rand.Rand) {
	const ranks = 20
	var s screen
	m := mustNew(t, Options{Stdout: &s, Hosts: hosts(ranks), Fold: true})
	sent := make([][]string, ranks)
	for range 2000 {
		rank := rnd.IntN(ranks)
		text := fmt.Sprint(rnd.IntN(1 + rnd.IntN(8)))
		sent[rank] = append(sent[rank], text)
		m.Write(rank, 1, []byte(text+"\n"))
		if rnd.IntN(50) == 0 {
			time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		}
	}
	for rank := range ranks / 2 {
		m.End(rank, 1)
	}
	mustClose(t, m)
	got := make([][]string, ranks)
	lines := 0
	for line := range strings.Lines(s.String()) {
		lines++
		set, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "["), "] ")
		members, err := parseRankSet(set)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, rank := range members {
			got[rank] = append(got[rank], text)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(sent) {
		t.Errorf("got other lines, or in another order, than the ranks have printed")
	}
	if lines > 1500 {
		t.Errorf("got %d lines of 2000; hardly any were joined", lines)
	}
}

// TestFoldIsBounded: a rank that prints much while another says nothing waits for it
// with little, and gets its credit back without a second's delay.
func TestFoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w counter
		back := 0
		m := mustNew(t, Options{Stdout: &w, Hosts: three, Fold: true, Written: func(_, _, n int) { back += n }})
		start := time.Now()
		sent := 0
		for i := range 40_000 {
			line := fmt.Appendf(nil, "line %d of many\n", i)
			sent += len(line)
			m.Write(0, 1, line)
			if i%100 == 0 {
				synctest.Wait()
				if held := m.lanes[stdout].folds[stdout]; held.bytes > maxFolded+batchSize || len(held.groups) > maxGroups {
					t.Fatalf("got %d bytes in %d groups", held.bytes, len(held.groups))
				}
			}
		}
		synctest.Wait()
		if took := time.Since(start); took > 0 || back != sent {
			t.Errorf("after %v %d bytes of %d are back", took, back, sent)
		}
		mustClose(t, m)
		if got, want := w.lines, 0; got == want {
			t.Errorf("nothing was written")
		}
	})
}

// TestFoldBehindFailure: a closed destination does not keep the goroutine busy, nor hold
// back credit.
func TestFoldBehindFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, back := 0, 0
		m := mustNew(t, Options{Stdout: brokenWriter{}, Hosts: three, Fold: true,
			Failed: func(error, string) { failed++ }, Written: func(_, _, n int) { back += n }})
		for i := range 100 {
			m.Write(0, 1, fmt.Appendf(nil, "%d\n", i))
			time.Sleep(foldFor / 10)
		}
		synctest.Wait()
		if failed != 1 || back != 290 {
			t.Errorf("got %d failures, %d bytes back; want 1 and 290", failed, back)
		}
		mustClose(t, m)
	})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestFoldHugeLine: a line without end passes in pieces of bounded size.
func TestFoldHugeLine(t *testing.T) {
	var w counter
	back := make(chan int, 1<<20)
	m := mustNew(t, Options{Stdout: &w, Hosts: three, Fold: true, Written: func(_, _, n int) { back <- n }})
	frame := bytes.Repeat([]byte("x"), 32<<10)
	const size = 32 << 20
	for sent, open := 0, 0; sent < size; sent += len(frame) {
		for open > 256<<10 {
			open -= <-back
		}
		m.Write(1, 1, frame)
		open += len(frame)
	}
	m.Write(1, 1, []byte("\n"))
	mustClose(t, m)
	if want := size + len("[1] \n"); w.n != want || w.most > 2*batchSize {
		t.Errorf("got %d bytes, %d in one write; want %d and at most %d", w.n, w.most, want, 2*batchSize)
	}
}
