package gossip

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is far more than anything here takes.
const patience = 30 * time.Second

// testHost is a host on a loopback address of its own.
type testHost struct {
	*Watch

	mu   sync.Mutex
	dead map[int]bool
	told int // how often Changed was called
}

func (h *testHost) changed(dead, alive []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	for _, d := range dead {
		h.dead[d] = true
	}
	for _, a := range alive {
		delete(h.dead, a)
	}
}

func (h *testHost) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *testHost) saysDead(node int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead[node]
}

func (h *testHost) at() netip.AddrPort { return netip.AddrPortFrom(h.config.Addr, h.Port()) }

func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftGoroutines(5 * time.Second); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = max(code, 1)
	}
	os.Exit(code)
}

func leftGoroutines(limit time.Duration) string {
	for late := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		left := slices.DeleteFunc(stacks[1:], func(s string) bool { // the first is this one
			return !strings.Contains(s, "rendezvous/gossip") && !strings.Contains(s, "hashicorp/memberlist")
		})
		if len(left) == 0 || time.Now().After(late) {
			return strings.Join(left, "\n\n")
		}
	}
}

func open(t *testing.T, node, nodes int, secret string) *testHost {
	t.Helper()
	return openAs(t, Config{Node: node, Nodes: nodes, Key: Key([]byte(secret))})
}

func openAs(t *testing.T, c Config) *testHost {
	t.Helper()
	h := &testHost{dead: map[int]bool{}}
	c.Addr, c.Most, c.Changed = netip.AddrFrom4([4]byte{127, 0, 77, byte(c.Node + 1)}), 8, h.changed
	w, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Watch = w
	t.Cleanup(w.Close)
	return h
}

// openAll opens hosts that all know each other.
func openAll(t *testing.T, nodes int) []*testHost {
	t.Helper()
	var hosts []*testHost
	for n := range nodes {
		hosts = append(hosts, open(t, n, nodes, "secret"))
	}
	for _, h := range hosts[1:] {
		if err := h.Join(t.Context(), []netip.AddrPort{hosts[0].at()}); err != nil {
			t.Fatal(err)
		}
	}
	// Who has missed a rumour learns what it was when it and another tell each other all.
	withinTime(t, 10*tellAllEvery, "all know all", func() bool {
		return !slices.ContainsFunc(hosts, func(h *testHost) bool { return h.list.NumMembers() < nodes })
	})
	return hosts
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	withinTime(t, patience, what, ok)
}

func withinTime(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func TestDeadHost(t *testing.T) {
	t.Parallel()
	hosts := openAll(t, 4)
	if got, want := hosts[2].net.port(), hosts[2].at().Port(); got != want || want == 0 {
		t.Errorf("port %d at %v", got, hosts[2].at())
	}
	hosts[2].Close()
	for _, n := range []int{0, 1, 3} {
		within(t, fmt.Sprintf("node 2 is dead for node %d", n), func() bool { return hosts[n].saysDead(2) })
	}
	for _, n := range []int{0, 1, 3} {
		for other := range 4 {
			if other != 2 && hosts[n].saysDead(other) {
				t.Errorf("node %d is dead for node %d", other, n)
			}
		}
	}
	if n := hosts[2].calls(); n > 0 {
		t.Errorf("the closed watch was told %d times", n)
	}
	// A host that was called dead by mistake, or when the network had parted, is alive again
	// as soon as somebody has visited it, although it visits nobody.
	gone := hosts[2]
	n, err := listenAt(gone.at(), 4)
	if err != nil {
		t.Skip(err) // the port is another's by now
	}
	w, err := newWatch(gone.config, n)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	within(t, "node 2 is alive", func() bool { return !hosts[0].saysDead(2) && !hosts[1].saysDead(2) && !hosts[3].saysDead(2) })
}

// joinFew has all hosts join at the same time, each by those whose numbers differ from its
// own in one bit.
func joinFew(t *testing.T, hosts []*testHost) {
	t.Helper()
	var joins sync.WaitGroup
	for n, h := range hosts {
		joins.Go(func() {
			var peers []netip.AddrPort
			for bit := 1; bit < len(hosts); bit <<= 1 {
				if n^bit < len(hosts) {
					peers = append(peers, hosts[n^bit].at())
				}
			}
			if err := h.Join(t.Context(), peers); err != nil {
				t.Errorf("node %d: %v", n, err)
			}
		})
	}
	joins.Wait()
}

// Many hosts that join at the same time, each by few others, know each other then, and
// find the one that ends.
func TestSlowManyHosts(t *testing.T) {
	const nodes, gone = 32, 21
	var hosts []*testHost
	for n := range nodes {
		hosts = append(hosts, open(t, n, nodes, "secret"))
	}
	count := func(is func(*testHost) bool) (n int) {
		for _, h := range hosts {
			if is(h) {
				n++
			}
		}
		return n
	}
	begun := time.Now()
	joinFew(t, hosts)
	knows := func(h *testHost) bool { return h.list.NumMembers() == nodes }
	t.Logf("all have joined after %v; %d know all", time.Since(begun), count(knows))
	withinTime(t, 10*tellAllEvery, "all know all", func() bool { return count(knows) == nodes })
	t.Logf("all know all after %v", time.Since(begun))
	hosts[gone].Close()
	begun = time.Now()
	told := func(h *testHost) bool { return h.saysDead(gone) }
	for _, n := range []int{1, nodes / 2, nodes - 1} {
		within(t, fmt.Sprintf("%d say that node %d is dead", n, gone), func() bool { return count(told) >= n })
		t.Logf("%d say that it is dead after %v", n, time.Since(begun))
	}
}

// So do very many, before any of them is probed.
func TestSlowVeryManyHostsJoin(t *testing.T) {
	const nodes = 128
	var hosts []*testHost
	for n := range nodes {
		hosts = append(hosts, openAs(t, Config{Node: n, Nodes: nodes, Key: Key([]byte("secret")), still: true}))
	}
	begun := time.Now()
	joinFew(t, hosts)
	t.Logf("all have joined after %v", time.Since(begun))
	withinTime(t, 10*tellAllEvery, "all know all", func() bool {
		return !slices.ContainsFunc(hosts, func(h *testHost) bool { return h.list.NumMembers() < nodes })
	})
	t.Logf("all know all after %v", time.Since(begun))
}

// strangers do what people do who find a port.
var strangers = map[string]string{
	"silent": "",
	"http":   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"random": random(100_000),
	// memberlist's own first byte of an encrypted stream, and a length that it would wait for
	"greedy":  "\x0a\x01\x3f\xff\xff" + random(200_000),
	"label":   "\xf4\xff" + random(600),
	"no-text": "\x00",
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return string(b)
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	hosts := openAll(t, 3)
	for name, text := range strangers {
		for range maxInside { // more than are served at a time, all in all
			c, err := net.Dial("tcp", hosts[0].at().String())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			go c.Write([]byte(text)) // it may be hung up on meanwhile
		}
		u, err := net.Dial("udp", hosts[0].at().String())
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		for range 100 {
			u.Write([]byte(text[:min(len(text), 1400)]))
		}
	}
	inside := func() int {
		hosts[0].net.mu.Lock()
		defer hosts[0].net.mu.Unlock()
		return len(hosts[0].net.inside)
	}
	if n := inside(); n > maxInside {
		t.Errorf("%d connections are held", n)
	}
	late := open(t, 3, 4, "secret")
	if err := late.Join(t.Context(), []netip.AddrPort{hosts[0].at()}); err != nil {
		t.Errorf("nobody can join beside strangers: %v", err)
	}
	within(t, "strangers are hung up on", func() bool { return inside() == 0 })
	// They have had no part in the watch, nor disturbed it.
	for n, h := range hosts {
		for other := range hosts {
			if h.saysDead(other) {
				t.Errorf("node %d is dead for node %d", other, n)
			}
		}
	}
	hosts[2].Close()
	within(t, "a host that ends is noticed", func() bool { return hosts[0].saysDead(2) })
}

func TestWrongKey(t *testing.T) {
	t.Parallel()
	hosts := openAll(t, 2)
	for node := range 2 { // under a name of its own, and under that of a host
		other := open(t, 2-node, 3, "another secret")
		err := other.Join(t.Context(), []netip.AddrPort{hosts[0].at()})
		if err == nil || !strings.Contains(err.Error(), hosts[0].at().String()+": no sensible answer") {
			t.Errorf("got %v; want no sensible answer", err)
		}
		if n := hosts[0].list.NumMembers(); n != 2 {
			t.Errorf("%d members; want 2", n)
		}
		other.Close()
	}
	if err := open(t, 2, 3, "secret").Join(t.Context(), []netip.AddrPort{hosts[0].at()}); err != nil {
		t.Errorf("with the right key: %v", err)
	}
}

func TestJoinNobody(t *testing.T) {
	t.Parallel()
	h := open(t, 0, 3, "secret")
	if err := h.Join(t.Context(), nil); err == nil {
		t.Error("joined nobody")
	}
	closed := open(t, 1, 3, "secret")
	closed.Close()
	err := h.Join(t.Context(), []netip.AddrPort{closed.at()})
	if err == nil || !strings.HasSuffix(err.Error(), closed.at().String()+": connect: connection refused") {
		t.Errorf("got %v; want that the connection was refused", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told so"))
	if err := h.Join(ctx, []netip.AddrPort{closed.at()}); err == nil || err.Error() != "told so" {
		t.Errorf("got %v; want the context's cause", err)
	}
	h.Close()
	if err := h.Join(t.Context(), []netip.AddrPort{closed.at()}); err == nil {
		t.Error("joined when closed")
	}
	if _, err := Listen(Config{Nodes: 2, Addr: netip.MustParseAddr("192.0.2.1"), Key: Key(nil)}); err == nil {
		t.Error("listens at an address that is not here")
	}
}

// What a Watch tells is bounded, and what is left out is told when there is room.
func TestChanges(t *testing.T) {
	w := &Watch{config: Config{Most: 2}, dead: map[int]string{1: "a", 2: "b", 3: "c"}}
	told := map[int]bool{}
	dead, alive := w.changes(told)
	if len(dead) != 2 || len(alive) != 0 {
		t.Fatalf("got %v dead, %v alive; want two dead", dead, alive)
	}
	if again, alive := w.changes(told); len(again)+len(alive) > 0 {
		t.Errorf("told twice: %v, %v", again, alive)
	}
	delete(w.dead, dead[0])
	rest, alive := w.changes(told)
	if !slices.Equal(alive, dead[:1]) || len(rest) != 1 || slices.Contains(dead, rest[0]) {
		t.Errorf("got %v dead, %v alive; want the third dead, and %d alive", rest, alive, dead[0])
	}
}

func TestSuspicion(t *testing.T) {
	for nodes, want := range map[int]int{0: 7, 1: 7, 3: 7, 10: 7, 32: 4, 128: 3, 1250: 2, 65536: 2} {
		if got := suspicion(nodes); got != want {
			t.Errorf("%d nodes: %d; want %d", nodes, got, want)
		}
	}
}
