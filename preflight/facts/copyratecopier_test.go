package facts

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// oneCore is a machine with one core that copies a piece in pieceTime, whoever waits.
type oneCore struct {
	mu   sync.Mutex // held while a piece is copied
	look sync.Mutex
	time time.Duration
}

const pieceTime = copyWindow / 100

func (m *oneCore) now() time.Duration {
	m.look.Lock()
	defer m.look.Unlock()
	return m.time
}

func (m *oneCore) copy(to, from []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look.Lock()
	defer m.look.Unlock()
	m.time += pieceTime
}

// More threads than cores copy no more than one for each core.
func TestTogetherOnOneCore(t *testing.T) {
	want := copyPiece / pieceTime.Seconds()
	for _, threads := range []int{1, 2, 8} {
		m := &oneCore{}
		got := copier{m.now, m.copy}.together(t.Context(), threads, make([]byte, threads*2*copyPiece))
		// Pieces that wait at both ends of a window may count in it, one of each thread.
		if got < want/2 || got > want*1.2 {
			t.Errorf("%d threads: got %.3g; want %.3g", threads, got, want)
		}
	}
}

func TestBestWindow(t *testing.T) {
	const window = 4
	whole := copyPiece / time.Duration(window).Seconds()
	tests := []struct {
		name  string
		spans [][]span
		want  float64 // pieces in a window
	}{
		{"both-at-once", [][]span{{{10, 12}, {12, 14}}, {{10, 12}, {12, 14}}}, 4},
		{"in-turns", [][]span{{{10, 12}, {14, 16}, {18, 20}}, {{12, 14}, {16, 18}, {18, 20}}}, 2},
		{"best-of-two", [][]span{{{10, 14}, {14, 15}, {15, 16}, {16, 18}}}, 3},
		{"one-waits", [][]span{{{10, 18}}, {{10, 14}, {14, 18}}}, 1.5},
		{"after-another-ended", [][]span{{{10, 14}}, {{10, 14}, {14, 15}, {15, 16}, {16, 17}, {17, 18}}}, 2},
		{"before-the-begin", [][]span{{{6, 14}}}, 0.5},
		{"no-whole-window", [][]span{{{10, 13}}}, 0},
		{"one-has-none", [][]span{{{10, 14}}, nil}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := bestWindow(tt.spans, 10, window) / whole; got < tt.want-1e-9 || got > tt.want+1e-9 {
				t.Errorf("got %g pieces; want %g", got, tt.want)
			}
		})
	}
}

// alone leaves out waits for the core, unless most pieces have them, and ends at once if the
// first piece alone is quicker, as it comes from the cache.
func TestAlone(t *testing.T) {
	tests := []struct {
		name string
		took func(n int) time.Duration // of the nth piece
		rate time.Duration             // of a piece
		ends time.Duration
	}{
		{"steady", func(int) time.Duration { return 100 }, 100, 2 * copyWindow},
		{"core-is-shared", func(n int) time.Duration { return []time.Duration{100, 5000}[n%2] }, 100, 2 * copyWindow},
		{"first-in-cache", func(n int) time.Duration { return []time.Duration{10, 100}[min(n, 1)] }, 100, 2 * copyWindow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var now time.Duration
			n := 0
			c := copier{func() time.Duration { return now }, func(to, from []byte) { now += tt.took(n) * time.Microsecond; n++ }}
			got := c.alone(t.Context(), make([]byte, 2*copyPiece))
			if want := copyPiece / (tt.rate * time.Microsecond).Seconds(); got != want {
				t.Errorf("got %.3g; want %.3g", got, want)
			}
			if now > tt.ends && n > copyFewest {
				t.Errorf("it took %v and %d pieces", now, n)
			}
		})
	}
}

func TestPiece(t *testing.T) {
	memory := make([]byte, 4*copyPiece)
	half := len(memory) / 2
	c := copier{func() time.Duration { return 0 }, copyMemory}
	for i := range memory[:half] {
		memory[i] = byte(i*7 + i>>8)
	}
	want := bytes.Clone(memory[:half])
	c.piece(memory, 0)
	if !bytes.Equal(memory[half:half+copyPiece], want[:copyPiece]) || memory[half+copyPiece+1] != 0 {
		t.Error("piece 0 is not the first piece alone")
	}
	c.piece(memory, 1)
	clear(memory[:half])
	c.piece(memory, 2)
	c.piece(memory, 3)
	if !bytes.Equal(memory[:half], want) || !bytes.Equal(memory[half:], want) {
		t.Error("it has not come back")
	}
}

// The rates of all sizes are alike where copies pass the caches.
func BenchmarkCopyMemory(b *testing.B) {
	for _, size := range []int{copyPiece, copyLarge} {
		memory := make([]byte, 2*size)
		touch(memory)
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			b.SetBytes(copyPiece)
			c := copier{func() time.Duration { return 0 }, copyMemory}
			for i := 0; b.Loop(); i++ {
				c.piece(memory, i)
			}
		})
	}
}
