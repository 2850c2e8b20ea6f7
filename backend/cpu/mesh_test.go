package cpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gorun/backend"
)

// soon is in which a rank must know of what has gone wrong, on a busy machine too.
const soon = 5 * time.Second

func TestAddresses(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("no IPv6 here: %v", err)
	}
	probe.Close()
	for name, addrs := range map[string][]string{
		"ipv6":  {"::1", "::1", "::1"},
		"mixed": {"::1", "127.0.0.1", "127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemStore()
			runRanks(t, len(addrs), func(rank int) error {
				return joinAndBarrier(t.Context(), Config{Rank: rank, Size: len(addrs), Store: store, Secret: testSecret, Addr: addrs[rank]})
			})
		})
	}
}

// runRanks calls f for all ranks at once; none may fail.
func runRanks(t *testing.T, size int, f func(rank int) error) {
	t.Helper()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func joinAndBarrier(ctx context.Context, cfg Config) error {
	c, err := Connect(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.Barrier().Wait(ctx); err != nil {
		return err
	}
	return c.Close(ctx)
}

// strangers are what else may come to a rank's port.
var strangers = map[string]func(net.Conn){
	"silent":       func(net.Conn) {},
	"gone-at-once": func(c net.Conn) { c.Close() },
	"browser":      func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: gpu01\r\n\r\n") },
	"noise":        func(c net.Conn) { c.Write(slices.Repeat([]byte{0xff, 0, 'g'}, 10000)) },
	"half-hello":   func(c net.Conn) { io.WriteString(c, magic[:5]) },
	"no-secret": func(c net.Conn) {
		keys{[]byte("a guess"), "world/0/3"}.greet(c, hello{lane: dataLane, from: 2})
	},
	"no-proof": func(c net.Conn) {
		c.Write(hello{lane: controlLane, from: 2}.append(nil))
		io.ReadFull(c, make([]byte, nonceLen+32))
		c.Write(make([]byte, 32))
	},
	"no-such-rank": func(c net.Conn) { c.Write(hello{lane: dataLane, from: 1 << 31}.append(nil)) },
}

// TestStrangers besets rank 0 while the others join, with more connections than it
// keeps.
func TestStrangers(t *testing.T) {
	for name, stranger := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newMemStore()
			runRanks(t, 3, func(rank int) error {
				if rank > 0 {
					addr, _ := store.GetFrom(t.Context(), "mesh/world/0/0", 0)
					for range maxStrangers * 3 / 4 {
						conn, err := net.Dial("tcp", string(addr))
						if err != nil {
							return err
						}
						defer conn.Close()
						conn.SetDeadline(time.Now().Add(soon))
						go stranger(conn)
					}
				}
				start := time.Now()
				err := joinAndBarrier(t.Context(), Config{Rank: rank, Size: 3, Store: store, Secret: testSecret, Addr: "127.0.0.1"})
				if took := time.Since(start); rank > 0 && took > handshakeTimeout/2 {
					return fmt.Errorf("joined after %v: %w", took, err)
				}
				return err
			})
		})
	}
}

// TestSilentStranger checks that a connection that says nothing is dropped in time.
func TestSilentStranger(t *testing.T) {
	t.Parallel()
	store := newMemStore()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { Connect(ctx, Config{Rank: 0, Size: 2, Store: store, Secret: testSecret, Addr: "127.0.0.1"}) })
	defer wg.Wait()
	defer cancel()
	addr, err := store.GetFrom(ctx, "mesh/world/0/0", 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", string(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	conn.SetReadDeadline(start.Add(2 * handshakeTimeout))
	n, err := conn.Read(make([]byte, 1))
	if took := time.Since(start); n != 0 || !errors.Is(err, io.EOF) || took > handshakeTimeout*3/2 {
		t.Errorf("got %d bytes, %v after %v; want the end of the connection after %v", n, err, took, handshakeTimeout)
	}
}

// TestOpenFails checks that a rank that cannot open says why, and when.
func TestOpenFails(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, tt := range []struct {
		name  string
		cfg   Config
		addr0 string // what rank 0 has put in the store
		want  string
	}{
		{"nobody-dials", Config{Rank: 0}, "", `not connected with rank 1, 2: key "mesh/world/0/1": rank 1 has not written it: context deadline exceeded`},
		{"only-listens", Config{Rank: 0, Epoch: 7}, "", "not connected with rank 1, 2: rank 1 listens at gpu07:1234: context deadline exceeded"},
		{"many", Config{Rank: 0, Size: 20}, "", "not connected with rank 1, 2, 3, 4, 5, 6, 7, 8 and 11 more: "},
		{"nobody-listens", Config{Rank: 1}, "", `key "mesh/world/0/0": rank 0 has not written it`},
		{"mute", Config{Rank: 1}, mute.Addr().String(), "rank 0 at " + mute.Addr().String() + ": context deadline exceeded"},
		{"no-address", Config{Rank: 1}, "gpu01:http:x", "rank 0 at gpu01:http:x: "},
		{"foreign-address", Config{Rank: 0, Addr: "192.0.2.1"}, "", "192.0.2.1"},
		{"bad-algo", Config{Rank: 0, Algo: "allreduce:bush"}, "", `GORUN_ALGO: "allreduce:bush"`},
		{"bad-rank", Config{Rank: 3}, "", "rank 3 of 3"},
		{"no-secret", Config{Rank: 0, Secret: []byte{}}, "", "a secret, an address and a store are needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newMemStore()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if tt.addr0 != "" {
				store.Put(ctx, "mesh/world/0/0", []byte(tt.addr0))
			}
			store.Put(ctx, "mesh/world/7/1", []byte("gpu07:1234"))
			cfg := tt.cfg
			cfg.Store, cfg.Size = store, max(cfg.Size, 3)
			if cfg.Secret == nil {
				cfg.Secret = testSecret
			}
			if cfg.Addr == "" {
				cfg.Addr = "127.0.0.1"
			}
			start := time.Now()
			c, err := Connect(ctx, cfg)
			if err == nil || c != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, error %v; want %q", c, err, tt.want)
			}
			if took := time.Since(start); took > soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestDataConnectionLost cuts the data connection between two ranks, in the middle of a
// long call and of a short one, while they can still talk.
func TestDataConnectionLost(t *testing.T) {
	for name, count := range map[string]int{"long": 1 << 20, "short": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comms, err := openWorld(t.Context(), 3, "allreduce:ring")
			if err != nil {
				t.Fatal(err)
			}
			comms[1].(*comm).peers[2].closeData()
			start := time.Now()
			runRanks(t, 3, func(rank int) error {
				c, s := comms[rank], backend.Of(make([]float32, count))
				defer c.Close(t.Context())
				err := c.AllReduce(s, s, backend.Sum).Wait(t.Context())
				if e, ok := errors.AsType[*backend.PeerError](err); !ok || e.Rank == 0 || !strings.Contains(e.Error(), "data connection") {
					return fmt.Errorf("got %v; want the data connection between ranks 1 and 2", err)
				}
				return nil
			})
			if took := time.Since(start); took > verdictTimeout+soon {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestLastWords has a rank see the end of a second one before it hears from a third what
// that one died of.
func TestLastWords(t *testing.T) {
	comms, err := openWorld(t.Context(), 3, "")
	if err != nil {
		t.Fatal(err)
	}
	waits := []backend.Handle{1: comms[1].Barrier(), 2: comms[2].Barrier()}
	comms[2].(*comm).peers[1].closeControl()
	time.Sleep(lastWords / 10)
	comms[0].Abort(errors.New("disk full"))
	for rank := 1; rank < 3; rank++ {
		if err := waits[rank].Wait(t.Context()); err == nil || err.Error() != "world: rank 0 gave up: disk full" {
			t.Errorf("rank %d: got %v; want what rank 0 said", rank, err)
		}
	}
	for _, c := range comms {
		c.Close(t.Context())
	}
}

// TestSilence checks how the kernel notices that a peer's host is gone, without taking
// a rank that does not read for one.
func TestSilence(t *testing.T) {
	comms, err := openWorld(t.Context(), 2, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comms {
		defer c.Close(t.Context())
		p := c.(*comm).peers[1-c.Rank()]
		for _, option := range []struct {
			name          string
			level, id     int
			data, control int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 5, 5},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 2, 2},
			{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1, 1},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0, 15000},
		} {
			data, control := socketOption(t, p.data, option.level, option.id), socketOption(t, p.ctl, option.level, option.id)
			if data != option.data || control != option.control {
				t.Errorf("rank %d: %s: got %d for data, %d for control; want %d, %d", c.Rank(), option.name, data, control, option.data, option.control)
			}
		}
	}
}

func socketOption(t *testing.T, conn net.Conn, level, id int) int {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := -1
	raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, id) })
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestOtherSecret has a rank of another job come to this one.
func TestOtherSecret(t *testing.T) {
	t.Parallel()
	store := newMemStore()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := Connect(ctx, Config{Rank: 0, Size: 2, Store: store, Secret: testSecret, Addr: "127.0.0.1"}); err == nil {
			t.Error("rank 0: joined a rank with another secret")
		}
	})
	_, err := Connect(t.Context(), Config{Rank: 1, Size: 2, Store: store, Secret: []byte("other"), Addr: "127.0.0.1"})
	if !errors.Is(err, errProof) {
		t.Errorf("rank 1: got %v; want %v", err, errProof)
	}
	wg.Wait()
}

// TestGivesUpWhileOpening has one rank give up while others still wait for a third.
func TestGivesUpWhileOpening(t *testing.T) {
	t.Parallel()
	store := newMemStore()
	errs := make([]error, 3)
	start := time.Now()
	var wg sync.WaitGroup
	const first = 2 * time.Second // long enough to be connected
	for rank, patience := range map[int]time.Duration{1: time.Minute, 2: first} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, errs[rank] = Connect(ctx, Config{Rank: rank, Size: 3, Store: store, Secret: testSecret, Addr: "127.0.0.1"})
		})
	}
	wg.Wait()
	if took := time.Since(start); took > first+soon {
		t.Errorf("took %v", took)
	}
	if e, ok := errors.AsType[*backend.AbortError](errs[1]); !ok || e.Rank != 2 || !strings.Contains(e.Error(), "rank 0 has not written it") {
		t.Errorf("rank 1: got %v; want that rank 2 gave up, and why", errs[1])
	}
	if !errors.Is(errs[2], context.DeadlineExceeded) {
		t.Errorf("rank 2: got %v; want its own deadline", errs[2])
	}
}

// TestCloseFreesAll counts what is left when communicators are closed, healthy, dead
// and half open.
func TestCloseFreesAll(t *testing.T) {
	before, files := runtime.NumGoroutine(), openFiles(t)
	for range 3 {
		comms, err := openWorld(t.Context(), 4, "")
		if err != nil {
			t.Fatal(err)
		}
		comms[0].Abort(errors.New("test"))
		for _, c := range comms {
			c.Close(t.Context())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		Connect(ctx, Config{Rank: 1, Size: 3, Store: newMemStore(), Secret: testSecret, Addr: "127.0.0.1"})
		cancel()
	}
	for range 100 { // goroutines that have been joined may not have ended
		if runtime.NumGoroutine() <= before && openFiles(t) <= files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d files; want %d, %d", runtime.NumGoroutine(), openFiles(t), before, files)
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestSessionClosedLast checks that the store is used until the last communicator that
// was made from it is closed.
func TestSessionClosedLast(t *testing.T) {
	closed := false
	c, err := open(t.Context(), Config{Rank: 0, Size: 1, Secret: testSecret, Addr: "127.0.0.1"}, func() error {
		closed = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	child, err := c.Split(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c.Close(t.Context()); closed {
		t.Error("closed with a communicator left")
	}
	if child.Close(t.Context()); !closed {
		t.Error("not closed with the last communicator")
	}
}

func TestHostAddr(t *testing.T) {
	for _, tt := range []struct{ name, addr, nodes, want string }{
		{"given", "fd00::7", "2", "fd00::7"},
		{"one-host", "", "1", "127.0.0.1"},
		{"missing", "", "2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hostAddr(tt.addr, tt.nodes)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
