package probe

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// These are what is asked first of all hosts, and then of one after another.
var (
	reachAll = Order{MTU: true, Keep: true}
	measured = Order{Pings: 2, Bandwidth: maxStream, Bytes: 64 << 20} // long enough to be timed on a busy machine, too
)

// to is o with these targets.
func (o Order) to(targets ...Target) Order {
	o.Rounds = [][]Target{targets}
	return o
}

func proberFor(t *testing.T, self int) *Prober {
	t.Helper()
	p := NewProber(self, testSecret, loopback)
	t.Cleanup(p.Close)
	return p
}

// Connections are kept to hosts of a higher number, and what is found later is added.
func TestKeeps(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	for self, kept := range map[int]bool{0: true, 2: false} {
		p := proberFor(t, self)
		first := p.Run(t.Context(), reachAll.to(to)).Links[0]
		if first.Failure != "" || first.MTU == 0 || first.Latency != 0 || (p.kept[1] != nil) != kept {
			t.Errorf("host %d: got %+v, kept %v", self, first, p.kept)
		}
		then := p.Run(t.Context(), measured.to(to)).Links[0]
		if then.MTU != first.MTU || then.Latency <= 0 || then.BytesPerSecond <= 0 || then.Back <= 0 || (then.Connect == first.Connect) != kept {
			t.Errorf("host %d: got %+v after %+v", self, then, first)
		}
		if len(p.kept) > 0 {
			t.Errorf("host %d: a turn's connection is kept", self)
		}
	}
}

// What is bad is told again, and not tried again.
func TestBadIsNotTriedAgain(t *testing.T) {
	var came atomic.Int32
	to := Target{1, answering(t, func(*net.TCPConn) { came.Add(1) })}
	p := proberFor(t, 0)
	first := p.Run(t.Context(), reachAll.to(to)).Links[0]
	before := came.Load()
	again := p.Run(t.Context(), measured.to(to)).Links[0]
	if first.Failure == "" || again != first || came.Load() != before || p.Good(1) || !p.Good(2) {
		t.Errorf("got %+v, then %+v, with %d connections after %d", first, again, came.Load(), before)
	}
}

// A good link stays good if there is no time to measure it, or others have its target's
// turn for too long.
func TestTurnThatDoesNotCome(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	l.turns <- struct{}{}
	defer func() { <-l.turns }()
	p := proberFor(t, 0)
	first := p.Run(t.Context(), reachAll.to(to)).Links[0]
	late := measured.to(to)
	late.Timeout, late.Bandwidth = soon, time.Millisecond
	if got := p.Run(t.Context(), late).Links[0]; got != first {
		t.Errorf("got %+v; want %+v as before", got, first)
	}
}

func TestStoppedWhileMeasured(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	p := proberFor(t, 0)
	first := p.Run(t.Context(), reachAll.to(to)).Links[0]
	if got := p.Run(canceled(t), measured.to(to)).Links[0]; got != first {
		t.Errorf("got %+v; want %+v as before", got, first)
	}
}

// Of what was not tried nothing is known, also later.
func TestStoppedIsTriedAgain(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	p := proberFor(t, 0)
	if got := p.Run(canceled(t), reachAll.to(to)).Links[0]; got.Failure != Stopped {
		t.Fatalf("got %+v; want it stopped", got)
	}
	if !p.Good(1) {
		t.Error("a way that was not tried is bad")
	}
	if got := p.Run(t.Context(), measured.to(to)).Links[0]; got.Failure != "" || got.Back <= 0 {
		t.Errorf("got %+v; want it measured", got)
	}
}

// A link is measured again if a stream that was timed was slow.
func TestDoubtful(t *testing.T) {
	p := proberFor(t, 0)
	p.order = measured
	told := mostTold(measured.Bytes)
	for _, tt := range []struct {
		out, back float64
		want      bool
	}{{told, told, false}, {told, told / 3, true}, {told / 3, told, true}, {told, 0, false}, {0, 0, false}} {
		if got := p.doubtful(&Link{BytesPerSecond: tt.out, Back: tt.back}); got != tt.want {
			t.Errorf("%.0f and %.0f bytes per second of %.0f: got %v; want %v", tt.out, tt.back, told, got, tt.want)
		}
	}
}

// Nothing is streamed on a way that is known to be bad.
func TestSparesBadWays(t *testing.T) {
	l := listening(t, 1, loopback)
	l.Spare(func(host int) bool { return host != 0 })
	for self, back := range map[int]bool{0: false, 2: true} {
		got := proberFor(t, self).Run(t.Context(), measured.to(target(1, l))).Links[0]
		if got.Failure != "" || got.BytesPerSecond <= 0 || (got.Back > 0) != back {
			t.Errorf("host %d: got %+v", self, got)
		}
	}
}

func TestClosedProberKeepsNothing(t *testing.T) {
	l := listening(t, 1, loopback)
	p := proberFor(t, 0)
	p.Close()
	if p.Run(t.Context(), reachAll.to(target(1, l))); len(p.kept) > 0 {
		t.Errorf("got %v", p.kept)
	}
}

// canceled is a context that has ended.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
