package facts

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

func TestCopyRate(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var h Host
	began := time.Now()
	if err := collectCopyRate(t.Context(), hostSource(), &h); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second { // on a machine that is busy
		t.Errorf("it took %v", took)
	}
	// A machine that does less than 100 MB/s cannot run this test.
	if h.System.CopyOne < 1e8 || h.System.CopyAll < 1e8 || h.System.CopyAll > 1e14 {
		t.Errorf("got %.3g and %.3g bytes per second", h.System.CopyOne, h.System.CopyAll)
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("GOMAXPROCS is %d; want %d as before", after, before)
	}
}

func TestCopyRateEnds(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := collectCopyRate(ctx, hostSource(), &Host{}); !errors.Is(err, stop) {
		t.Errorf("got %v; want %v", err, stop)
	}
}

func TestFitting(t *testing.T) {
	tests := []struct {
		name            string
		threads         int
		want, available int64
		size            int
	}{
		{"as-wanted", 1, 32 << 20, 64 << 30, 32 << 20},
		{"no-whole-piece", 1, 5<<20 + 4096, 64 << 30, 5 << 20},
		{"cache-is-huge", 1, 1 << 30, 64 << 30, 256 << 20},
		{"many-threads", 128, 32 << 20, 64 << 30, 2 << 20},
		{"little-memory", 1, 32 << 20, 64 << 20, 4 << 20},
		{"no-memory", 1, 32 << 20, 0, 0},
		{"too-little", 64, 32 << 20, 512 << 20, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fitting(tt.threads, tt.want, tt.available); got != tt.size {
				t.Errorf("got %d; want %d", got, tt.size)
			}
		})
	}
}

// Touching memory takes longest, so buffers are no larger than they need be.
func TestBufferSize(t *testing.T) {
	tests := []struct {
		name         string
		passesCaches bool
		lastCache    int64
		size         int64
	}{
		{"past-the-caches", true, 32 << 20, copyPiece},
		{"through-them", false, 32 << 20, 32 << 20},
		{"huge-cache", false, 1 << 30, copyLarge},
		{"unknown-cache", false, 0, copyPiece},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := bufferSize(tt.passesCaches, tt.lastCache); got != tt.size {
				t.Errorf("got %d; want %d", got, tt.size)
			}
		})
	}
}

func TestCopyingThreads(t *testing.T) {
	for _, tt := range []struct{ cores, allowed, want int }{
		{8, 16, 8}, {8, 2, 2}, {0, 4, 1}, {256, 512, copyThreads},
	} {
		if got := copyingThreads(tt.cores, tt.allowed); got != tt.want {
			t.Errorf("%d cores, %d allowed: got %d; want %d", tt.cores, tt.allowed, got, tt.want)
		}
	}
}

// What this process runs at once now does not limit how many threads copy.
func TestMaxProcs(t *testing.T) {
	_, want := maxProcs()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(want + 3))
	now, allowed := maxProcs()
	if now != want+3 || allowed != want || runtime.GOMAXPROCS(0) != now {
		t.Errorf("got %d now and %d allowed, and then %d; want %d, %d", now, allowed, runtime.GOMAXPROCS(0), want+3, want)
	}
}
