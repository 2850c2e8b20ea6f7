package probe

import (
	"sync"
	"testing"
	"time"
)

// Equal links are not told apart, however busy the machine is: by the least streams that
// jobs have, and by smaller ones.
func TestEqualLinks(t *testing.T) {
	const hosts = 12
	listeners := make([]*Listener, hosts)
	for i := range listeners {
		listeners[i] = listening(t, i, loopback)
	}
	for _, bytes := range []int64{256 << 10, 64 << 10, 16 << 10} {
		results := make([]Result, hosts)
		for _, pairs := range schedule(hosts) {
			var wg sync.WaitGroup
			for _, p := range pairs {
				from, to := min(p.From, p.To), max(p.From, p.To)
				wg.Go(func() {
					o := Order{Bandwidth: maxStream, Bytes: bytes}
					links := Run(t.Context(), from, testSecret, loopback, o.to(target(to, listeners[to]))).Links
					results[from].From = from
					results[from].Links = append(results[from].Links, links...)
				})
			}
			wg.Wait()
		}
		_, got := Slow(Gather(hosts, results), DefaultLimits())
		if len(got.Hosts)+len(got.Links) > 0 || got.Divided {
			t.Errorf("%d bytes: got %+v; want nothing slow", bytes, got)
		}
	}
}

func TestBestQuarter(t *testing.T) {
	const us = time.Microsecond
	// times adds reads of 32 KiB that come so long after one another.
	times := func(gaps ...time.Duration) (t timeline) {
		at := time.Duration(0)
		for _, gap := range gaps {
			at += gap
			t.add(32<<10, at)
		}
		return t
	}
	const most = 64 << 10 / 200e-6
	tests := []struct {
		name string
		t    timeline
		want float64
	}{
		{"nothing", times(), 0},
		{"one-read", times(time.Second), 0},
		{"even", times(0, 400*us, 400*us, 400*us, 400*us, 400*us, 400*us, 400*us), 32 << 10 / 400e-6},
		{"at-once", times(0, 0, 0, 0, 0, 0, 0, 0), most},
		{"too-quick-to-tell", times(0, 1*us, 50*us, 20*us, 70*us, 1*us, 90*us, 50*us), most},
		{"begins-late", times(9000*us, 0, 0, 50*us, 50*us, 50*us, 50*us, 50*us), most},
		{"held-up-once", times(0, 50*us, 50*us, 50*us, 9000*us, 50*us, 50*us, 50*us), most},
		{"slow-start", times(0, 9000*us, 400*us, 400*us, 400*us, 400*us, 400*us, 400*us), 32 << 10 / 400e-6},
		{"large-packets", times(0, 0, 524*us, 0, 524*us, 0, 524*us, 0), 64 << 10 / 524e-6},
		{"uneven", times(0, 50*us, 400*us, 400*us, 9000*us, 400*us, 400*us, 400*us), 0},
	}
	for _, tt := range tests {
		if got := tt.t.best().rate(); got < tt.want*0.999 || got > tt.want*1.001 {
			t.Errorf("%s: got %.0f bytes per second; want %.0f", tt.name, got, tt.want)
		}
	}
}

// A timeline of any length keeps few marks, and its rate.
func TestLongTimeline(t *testing.T) {
	var line timeline
	for i := range 100_000 {
		line.add(1000, time.Duration(i)*time.Millisecond)
	}
	if got := line.best().rate(); len(line.marks) >= mostMarks || got < 0.99e6 || got > 1.01e6 {
		t.Errorf("got %.0f bytes per second of %d marks; want 1 MB/s", got, len(line.marks))
	}
}
