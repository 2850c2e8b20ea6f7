package probe

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// answering returns the address of a server that gives every connection to f, and then
// closes it.
func answering(t *testing.T, f func(conn *net.TCPConn)) netip.AddrPort {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				f(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		lis.Close()
		wg.Wait()
	})
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

func TestWhoAnswers(t *testing.T) {
	hello := func(conn net.Conn) { io.ReadFull(conn, make([]byte, helloLen)) }
	rest := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	tests := []struct {
		name  string
		f     func(conn *net.TCPConn)
		waits bool // for the timeout
		want  Failure
		text  string
	}{
		{"closes", func(conn *net.TCPConn) { hello(conn) }, false, Closed, "closed without an answer"},
		{"resets", func(conn *net.TCPConn) { hello(conn); conn.SetLinger(0) }, false, Reset, "reset without an answer"},
		{"says-nothing", func(conn *net.TCPConn) { rest(conn) }, true, Silent, "nothing was said"},
		{"banner", func(conn *net.TCPConn) { io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n"); rest(conn) }, false, Stranger, `says "SSH-2.0-OpenSS"`},
		{"short-garbage", func(conn *net.TCPConn) { hello(conn); io.WriteString(conn, "\x1b[31m") }, false, Stranger, `says "\x1b[31m"`},
		{"echo", func(conn *net.TCPConn) { io.Copy(conn, conn) }, true, Stranger, "says"},
		{"only-magic", func(conn *net.TCPConn) { hello(conn); io.WriteString(conn, magic) }, false, Stranger, "says"},
		{"zeros", func(conn *net.TCPConn) { conn.Write(make([]byte, 1<<16)); rest(conn) }, false, Stranger, "says"},
		{"long-boot", func(conn *net.TCPConn) {
			io.WriteString(conn, magic)
			conn.Write(bytes.Repeat([]byte{255}, 1<<10))
			rest(conn)
		}, false, Stranger, "secret"},
		{"other-job", func(conn *net.TCPConn) { admit(conn, []byte("another secret"), Identity{Host: 1}); rest(conn) }, false, Stranger, "secret"},
		{"no-welcome", func(conn *net.TCPConn) {
			defer conn.CloseWrite()
			theirs := make([]byte, helloLen)
			io.ReadFull(conn, theirs)
			answer := append(opening(1), 0)
			conn.Write(append(answer, proof(testSecret, "acceptor", theirs, answer)...))
			io.ReadFull(conn, make([]byte, 32))
		}, false, Closed, "closed"},
		{"wrong-answer", func(conn *net.TCPConn) {
			admit(conn, testSecret, Identity{Host: 1})
			conn.Write(make([]byte, requestLen))
			rest(conn)
		}, false, Broken, "round trips"},
		{"ends-later", func(conn *net.TCPConn) {
			admit(conn, testSecret, Identity{Host: 1})
			io.ReadFull(conn, make([]byte, requestLen))
		}, false, Broken, "was closed while round trips"},
		{"hangs-later", func(conn *net.TCPConn) { admit(conn, testSecret, Identity{Host: 1}); rest(conn) }, true, Broken, "no answer while round trips"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			o := Order{Pings: 3}
			if tt.waits {
				o.Timeout = soon
			}
			got := try(t, Target{1, answering(t, tt.f)}, o)
			if got.Failure != tt.want || !strings.Contains(got.Text, tt.text) {
				t.Errorf("got %+v; want %s, with %q", got, tt.want, tt.text)
			}
			if strings.ContainsAny(got.Text, "\x1b\x00\n\r") {
				t.Errorf("got control characters: %q", got.Text)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A listener that is beset may drop a connection: that is no failure yet.
func TestClosedOnce(t *testing.T) {
	var mu sync.Mutex
	first := true
	addr := answering(t, func(conn *net.TCPConn) {
		mu.Lock()
		drop := first
		first = false
		mu.Unlock()
		if !drop {
			admit(conn, testSecret, Identity{Host: 1})
		}
	})
	if got := try(t, Target{1, addr}, Order{}); got.Failure != "" {
		t.Errorf("got %+v; want a second try", got)
	}
}

func TestNobodyListens(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().(*net.TCPAddr).AddrPort()
	lis.Close()
	if got := try(t, Target{1, addr}, Order{}); got.Failure != Refused || got.Text == "" {
		t.Errorf("got %+v; want it refused", got)
	}
}

func TestOtherHost(t *testing.T) {
	l := listening(t, 7, loopback)
	to := target(7, l)
	to.Host = 4
	got := try(t, to, Order{Pings: 2})
	if got.Failure != OtherHost || got.Answered != 7 || got.Boot != "4a0b-11" || got.Latency != 0 {
		t.Errorf("got %+v; want host 7 told", got)
	}
}

// A relay that passes everything on is no obstacle.
func TestRelay(t *testing.T) {
	l := listening(t, 1, loopback)
	relay := answering(t, func(conn *net.TCPConn) {
		out, err := net.DialTCP("tcp", nil, l.lis.Addr().(*net.TCPAddr))
		if err != nil {
			return
		}
		defer out.Close()
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(out, conn); out.CloseWrite() })
		io.Copy(conn, out)
		conn.CloseWrite()
		wg.Wait()
	})
	got := try(t, Target{1, relay}, Order{Pings: 2, MTU: true, Bandwidth: 20 * time.Millisecond})
	if got.Failure != "" || got.BytesPerSecond <= 0 {
		t.Errorf("got %+v; want a good link", got)
	}
}

// Strangers by the thousand, silent or not, do not keep real probes from passing, and
// are dropped.
func TestStrangersDoNotStall(t *testing.T) {
	l := listening(t, 1, loopback)
	to := target(1, l)
	for i := range 3 * maxStrangers {
		conn, err := net.Dial("tcp", to.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		switch i % 3 {
		case 1:
			conn.Write([]byte(strings.Repeat("GET / HTTP/1.1\r\n", 100)))
		case 2:
			conn.Write(opening(2)) // as a probe does, but never proves it
		}
	}
	start := time.Now()
	for range 5 {
		if got := try(t, to, Order{Pings: 5}); got.Failure != "" {
			t.Errorf("got %+v", got)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("five probes took %v among strangers", took)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.strangers) > maxStrangers {
		t.Errorf("%d strangers are kept; want at most %d", len(l.strangers), maxStrangers)
	}
}

// A stranger is dropped in time though it trickles bytes, and learns nothing.
func TestStrangerIsDropped(t *testing.T) {
	t.Parallel()
	const patience = 200 * time.Millisecond
	l, err := listenFor(Identity{Host: 1}, loopback, testSecret, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	conn.Write([]byte(magic[:3]))
	conn.SetReadDeadline(start.Add(20 * patience))
	b, err := io.ReadAll(conn)
	if len(b) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %q, %v; want it closed without a word", b, err)
	}
	if took := time.Since(start); took < patience/2 {
		t.Errorf("dropped after %v", took)
	}
}

// script is a connection that reads what it is given, and throws away what is written.
type script struct {
	io.Reader
	net.Conn
	written int
}

func (s *script) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *script) Write(b []byte) (int, error) { s.written += len(b); return len(b), nil }
func (s *script) SetDeadline(time.Time) error { return nil }
func (s *script) Close() error                { return nil }
func requests(list ...request) (bytes []byte) {
	for _, r := range list {
		bytes = r.append(bytes)
	}
	return bytes
}

// Whatever bytes come, the listener returns, and a stranger gets no more than one answer.
func FuzzListener(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte(magic), requests(request{op: opPing}, request{op: opPing, a: 1}))
	f.Add(append(opening(3), make([]byte, 32)...), append(requests(request{op: opSink, a: 5}), "hello"...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), append(requests(request{op: opStream, a: 1e6}), make([]byte, 1<<12)...))
	f.Add([]byte("SSH-2.0-x\r\n"), requests(request{op: opSink, a: 1 << 63}, request{op: opStream, a: 1 << 63}, request{op: 9}))
	l := listening(f, 1, loopback)
	f.Fuzz(func(t *testing.T, before, after []byte) {
		s := &script{Reader: bytes.NewReader(before)}
		if err := admit(s, testSecret, l.self); err == nil {
			t.Errorf("admitted %q", before)
		}
		if limit := answerLen + maxBoot + 32; s.written > limit || s.written > 0 && !bytes.HasPrefix(before, []byte(magic)) {
			t.Errorf("wrote %d bytes to a stranger", s.written)
		}
		l.serve(&script{Reader: bytes.NewReader(after)})
		greet(&script{Reader: bytes.NewReader(before)}, testSecret, 1)
	})
}

func FuzzExtendedError(f *testing.F) {
	f.Add([]byte{111, 0, 0, 0, originICMP, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 0, 0, 7})
	f.Add(append([]byte{113, 0, 0, 0, originICMP6, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0}, make([]byte, 26)...))
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := parseExtended(b)
		if m == nil {
			return
		}
		if text := m.fault(loopback).Error(); text == "" || strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("got %q", text)
		}
	})
}
