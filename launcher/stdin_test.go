package launcher

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"
)

// receivers collects what a pump sends, by rank.
type receivers struct {
	mu   sync.Mutex
	got  map[int][]byte
	eof  map[int]bool
	news chan struct{}
}

func newReceivers() *receivers {
	return &receivers{got: map[int][]byte{}, eof: map[int]bool{}, news: make(chan struct{}, 1024)}
}

func (r *receivers) send(rank int, p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 {
		r.eof[rank] = true
	}
	r.got[rank] = append(r.got[rank], p...)
	r.news <- struct{}{}
	return nil
}

// until waits for cond, which is checked at every send.
func (r *receivers) until(t *testing.T, cond func() bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		r.mu.Lock()
		ok := cond()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.news:
		case <-late:
			t.Fatalf("got %v, end of file %v; want more", r.got, r.eof)
		}
	}
}

func pumpFrom(t *testing.T, ranks ...int) (*stdinPump, *os.File, *receivers) {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	rec := newReceivers()
	p, err := newStdinPump(in, ranks, rec.send, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close(); in.Close(); w.Close() })
	return p, w, rec
}

func TestStdinPumpWaitsForCredit(t *testing.T) {
	p, w, rec := pumpFrom(t, 3)
	w.WriteString("hello")
	p.grant(3, 2)
	rec.until(t, func() bool { return string(rec.got[3]) == "he" })
	p.grant(7, 100) // of a rank that reads nothing
	p.grant(3, 100)
	w.Close()
	rec.until(t, func() bool { return string(rec.got[3]) == "hello" && rec.eof[3] })
}

func TestStdinPumpToAll(t *testing.T) {
	p, w, rec := pumpFrom(t, 0, 1)
	data := bytes.Repeat([]byte("0123456789"), 20000)
	go func() { w.Write(data); w.Close() }()
	p.grant(0, 1<<20)
	p.grant(1, 100)
	rec.until(t, func() bool { return len(rec.got[1]) == 100 && len(rec.got[0]) == 100 })
	p.forget(1) // it ended: the other gets the rest
	rec.until(t, func() bool { return rec.eof[0] })
	if !bytes.Equal(rec.got[0], data) {
		t.Errorf("rank 0: got %d bytes; want %d", len(rec.got[0]), len(data))
	}
}

func TestStdinPumpCloses(t *testing.T) {
	tests := map[string]func(p *stdinPump){
		"without-credit":  func(p *stdinPump) {},
		"while-reading":   func(p *stdinPump) { p.grant(0, 10) },
		"nobody-left":     func(p *stdinPump) { p.forget(0) },
		"nobody-left-yet": func(p *stdinPump) { p.grant(0, 10); p.forget(0) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			p, _, _ := pumpFrom(t, 0)
			prepare(p) // close, in the cleanup, must return
		})
	}
}
