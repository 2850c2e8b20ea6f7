package output

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// credit is what a head grants one stream: so many bytes may be on the way.
type credit struct {
	mu   sync.Mutex
	more sync.Cond
	left int
}

func newCredits(ranks, n int) []credit {
	c := make([]credit, ranks)
	for i := range c {
		c[i].left, c[i].more.L = n, &c[i].mu
	}
	return c
}

func (c *credit) take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left < n {
		c.more.Wait()
	}
	c.left -= n
}

func (c *credit) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += n
	c.more.Signal()
}

// BenchmarkMerge measures 16 ranks that print lines of 40 bytes, in frames of 32 KiB
// and of one line, against a credit of 1 MiB each.
func BenchmarkMerge(b *testing.B) {
	for _, bm := range []struct {
		name  string
		frame int
		opts  func(b *testing.B) Options
	}{
		{"discard", 32 << 10, func(*testing.B) Options { return Options{} }},
		{"discard-line-frames", 40, func(*testing.B) Options { return Options{} }},
		{"discard-tagged", 32 << 10, func(*testing.B) Options { return Options{Tag: true} }},
		{"pipe", 32 << 10, func(b *testing.B) Options { return Options{Stdout: readPipe(b)} }},
		{"pipe-tagged", 32 << 10, func(b *testing.B) Options { return Options{Stdout: readPipe(b), Tag: true} }},
		{"files", 32 << 10, func(b *testing.B) Options { return Options{Files: inDir(b, b.TempDir(), 16)} }},
	} {
		b.Run(bm.name, func(b *testing.B) { benchmarkMerge(b, bm.opts(b), bm.frame) })
	}
}

func readPipe(b *testing.B) io.Writer {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 256<<10)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { w.Close(); <-done; r.Close() })
	return w
}

func benchmarkMerge(b *testing.B, o Options, frame int) {
	const ranks = 16
	credits := newCredits(ranks, 1<<20)
	for i := range ranks {
		o.Hosts = append(o.Hosts, fmt.Sprintf("gpu%02d", i/8))
	}
	o.Written = func(rank, _, n int) { credits[rank].give(n) }
	m, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 39)
	text := bytes.Repeat(append(line, '\n'), frame/40+1)[:frame]
	b.SetBytes(int64(ranks * len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for rank := range ranks {
		wg.Go(func() {
			for range b.N {
				credits[rank].take(len(text))
				m.Write(rank, 1, text)
			}
		})
	}
	wg.Wait()
	if err := m.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
