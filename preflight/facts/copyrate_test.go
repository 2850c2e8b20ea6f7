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
