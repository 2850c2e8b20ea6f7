package probe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"
)

var (
	testSecret = []byte("the secret of a test's job")
	loopback   = netip.MustParseAddr("127.0.0.1")
)

// soon is an order's timeout for what must not answer.
const soon = 300 * time.Millisecond

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" {
		os.Exit(helper(os.Stdin, os.Stdout))
	}
	if os.Getenv(fakeVar) != "" {
		os.Exit(fakePerftest(os.Args))
	}
	os.Exit(m.Run())
}

// listening returns a listener of host at addr, which is closed with the test.
func listening(tb testing.TB, host int, addr netip.Addr) *Listener {
	tb.Helper()
	l, err := Listen(Identity{Host: host, Boot: "4a0b-11"}, addr, testSecret)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return l
}

func target(host int, l *Listener) Target {
	return Target{host, l.lis.Addr().(*net.TCPAddr).AddrPort()}
}

// try runs an order with one target, and returns what was found.
func try(t *testing.T, to Target, o Order) Link {
	t.Helper()
	o.Rounds = [][]Target{{to}}
	r := Run(t.Context(), 0, testSecret, netip.Addr{}, o)
	if r.From != 0 || len(r.Links) != 1 || r.Links[0].Host != to.Host {
		t.Fatalf("got %+v; want one link to host %d", r, to.Host)
	}
	return r.Links[0]
}

func TestMeasures(t *testing.T) {
	for name, addr := range map[string]netip.Addr{"ipv4": loopback, "ipv6": netip.IPv6Loopback()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needFamily(t, addr)
			l := listening(t, 3, addr)
			o := Order{Pings: 20, MTU: true, Bandwidth: 50 * time.Millisecond, Rounds: [][]Target{{target(3, l)}}}
			got := Run(t.Context(), 0, testSecret, addr, o).Links[0]
			if got.Failure != "" || got.MTUFailed || got.Text != "" {
				t.Fatalf("got %+v; want a good link", got)
			}
			if got.Connect <= 0 || got.Latency <= 0 || got.Median < got.Latency || got.Latency > time.Second {
				t.Errorf("got connect %v, latency %v, median %v", got.Connect, got.Latency, got.Median)
			}
			if want := loopbackMTU(t); got.MTU != min(want, 65535) && got.MTU != want {
				t.Errorf("got MTU %d; want %d", got.MTU, want)
			}
			if got.BytesPerSecond < 1e6 {
				t.Errorf("got %.0f bytes per second on loopback", got.BytesPerSecond)
			}
		})
	}
}

func loopbackMTU(t *testing.T) int {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	return lo.MTU
}

// needFamily skips the test if addr cannot be listened at here.
func needFamily(t *testing.T, addr netip.Addr) {
	t.Helper()
	lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	lis.Close()
}

func TestConnectOnly(t *testing.T) {
	l := listening(t, 1, loopback)
	got := try(t, target(1, l), Order{})
	if got.Failure != "" || got.Connect <= 0 || got.Latency != 0 || got.MTU != 0 || got.BytesPerSecond != 0 {
		t.Errorf("got %+v; want only a connect time", got)
	}
}

func TestBytesEndStream(t *testing.T) {
	l := listening(t, 1, loopback)
	for _, bytes := range []int64{1, 1 << 20, 3<<20 + 1} {
		start := time.Now()
		got := try(t, target(1, l), Order{Bandwidth: maxStream, Bytes: bytes})
		if got.Failure != "" || got.BytesPerSecond <= 0 {
			t.Errorf("%d bytes: got %+v", bytes, got)
		}
		if took := time.Since(start); took > maxStream/2 {
			t.Errorf("%d bytes took %v", bytes, took)
		}
	}
}

// Streams to one host take turns, and each is measured.
func TestStreamsTakeTurns(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	const lasts = 40 * time.Millisecond
	start := time.Now()
	r := Run(t.Context(), 0, testSecret, netip.Addr{}, Order{Bandwidth: lasts, Rounds: [][]Target{{to, to, to}}})
	for _, got := range r.Links {
		if got.Failure != "" || got.BytesPerSecond <= 0 {
			t.Errorf("got %+v", got)
		}
	}
	if took := time.Since(start); took < 3*lasts {
		t.Errorf("three streams took %v; want one after another, %v each", took, lasts)
	}
}

func TestRounds(t *testing.T) {
	a, b := listening(t, 1, loopback), listening(t, 2, loopback)
	r := Run(t.Context(), 0, testSecret, loopback, Order{Rounds: [][]Target{{target(2, b)}, {}, {target(1, a), target(2, b)}}})
	var hosts []int
	for _, link := range r.Links {
		if link.Failure != "" {
			t.Errorf("got %+v", link)
		}
		hosts = append(hosts, link.Host)
	}
	if len(hosts) != 3 || hosts[0] != 2 || hosts[1] != 1 || hosts[2] != 2 {
		t.Errorf("got hosts %v; want 2 1 2", hosts)
	}
}

func TestInvalidTargets(t *testing.T) {
	tests := []struct {
		name, addr string
		source     netip.Addr
		secret     []byte
	}{
		{"link-local-with-zone", "[fe80::1%lo]:4000", netip.Addr{}, testSecret},
		{"link-local", "[fe80::1]:4000", netip.Addr{}, testSecret},
		{"zone", "[fd00::1%lo]:4000", netip.Addr{}, testSecret},
		{"unspecified", "0.0.0.0:4000", netip.Addr{}, testSecret},
		{"unspecified-6", "[::]:4000", netip.Addr{}, testSecret},
		{"multicast", "224.0.0.1:4000", netip.Addr{}, testSecret},
		{"broadcast", "255.255.255.255:4000", netip.Addr{}, testSecret},
		{"no-port", "127.0.0.1:0", netip.Addr{}, testSecret},
		{"no-secret", "127.0.0.1:4000", netip.Addr{}, nil},
	}
	for _, tt := range tests {
		to := Target{1, netip.MustParseAddrPort(tt.addr)}
		got := Run(t.Context(), 0, tt.secret, tt.source, Order{Rounds: [][]Target{{to}}}).Links[0]
		if got.Failure != Invalid || got.Text == "" {
			t.Errorf("%s: got %+v; want it invalid, with the reason", tt.name, got)
		}
	}
	if got := Run(t.Context(), 0, testSecret, loopback, Order{Rounds: [][]Target{{{}}}}).Links[0]; got.Failure != Invalid {
		t.Errorf("no address: got %+v", got)
	}
}

// TestOtherFamily has a host reached whose address is of another family than this one's.
func TestOtherFamily(t *testing.T) {
	l, err := Listen(Identity{Host: 1}, loopback, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := Target{1, netip.AddrPortFrom(loopback, l.Port())}
	got := Run(t.Context(), 0, testSecret, netip.IPv6Loopback(), Order{Rounds: [][]Target{{to}}}).Links[0]
	if got.Failure != "" || got.Connect <= 0 {
		t.Errorf("got %+v; want it reached, from an address that the kernel chooses", got)
	}
}

func TestListenRefuses(t *testing.T) {
	for name, addr := range map[string]netip.Addr{
		"none": {}, "link-local": netip.MustParseAddr("fe80::1%lo"), "unspecified": netip.IPv4Unspecified(),
		"multicast": netip.MustParseAddr("ff02::1"), "not-ours": netip.MustParseAddr("192.0.2.1"),
	} {
		if l, err := Listen(Identity{}, addr, testSecret); err == nil {
			l.Close()
			t.Errorf("%s: got a listener at %v", name, addr)
		}
	}
	if l, err := Listen(Identity{}, loopback, nil); err == nil {
		l.Close()
		t.Error("got a listener without a secret")
	}
}

func TestSourceNotOurs(t *testing.T) {
	l := listening(t, 1, loopback)
	o := Order{Rounds: [][]Target{{target(1, l)}}}
	got := Run(t.Context(), 0, testSecret, netip.MustParseAddr("192.0.2.1"), o).Links[0]
	if got.Failure != Other || got.Text == "" {
		t.Errorf("got %+v; want it told that the source is not this host's", got)
	}
}

// Every host of a job listens at the same port if that is free, and in the range that
// the kernel gives ports out of.
func TestCommonPort(t *testing.T) {
	a := listening(t, 0, netip.MustParseAddr("127.0.0.2"))
	b := listening(t, 1, netip.MustParseAddr("127.0.0.3"))
	low, high := portRange()
	if a.Port() != b.Port() {
		t.Errorf("got ports %d and %d; want the same", a.Port(), b.Port())
	}
	if a.Port() < low || a.Port() > high {
		t.Errorf("got port %d; want one of %d to %d", a.Port(), low, high)
	}
}

func TestCancel(t *testing.T) {
	l := listening(t, 1, loopback)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errStranger)
	defer cancel()
	start := time.Now()
	to := target(1, l)
	r := Run(ctx, 0, testSecret, netip.Addr{}, Order{Bandwidth: maxStream, Rounds: [][]Target{{to, to}, {to}}})
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v; want it to end with the context", took)
	}
	if len(r.Links) != 3 {
		t.Fatalf("got %d links; want 3", len(r.Links))
	}
	for _, got := range r.Links {
		if got.Failure != Stopped {
			t.Errorf("got %+v; want it stopped", got)
		}
	}
}

// Close ends everything, also in the midst of a stream and with strangers connected.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	l, err := Listen(Identity{Host: 1}, loopback, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	to := target(1, l)
	stranger, err := net.Dial("tcp", to.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	done := make(chan Result, 1)
	go func() {
		o := Order{Bandwidth: maxStream, Rounds: [][]Target{{to, to}}}
		done <- Run(t.Context(), 0, testSecret, netip.Addr{}, o)
	}()
	for end := time.Now().Add(5 * time.Second); len(l.stream) == 0 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	for _, link := range (<-done).Links {
		if link.Failure == "" {
			t.Errorf("got %+v; want a failure", link)
		}
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left; %d were before", runtime.NumGoroutine(), before)
		}
	}
}

func BenchmarkAllPairs(b *testing.B) {
	const hosts = 64
	listeners := make([]*Listener, hosts)
	for i := range listeners {
		listeners[i] = listening(b, i, loopback)
	}
	rounds := schedule(hosts)
	for b.Loop() {
		for _, pairs := range rounds {
			done := make(chan Result, len(pairs))
			for _, p := range pairs {
				go func() {
					o := Order{Pings: 10, MTU: true, Rounds: [][]Target{{target(p.To, listeners[p.To])}}}
					done <- Run(b.Context(), p.From, testSecret, loopback, o)
				}()
			}
			for range pairs {
				if r := <-done; r.Links[0].Failure != "" || r.Links[0].MTUFailed {
					b.Errorf("got %+v", r)
				}
			}
		}
	}
	b.ReportMetric(float64(len(rounds)), "rounds")
}
