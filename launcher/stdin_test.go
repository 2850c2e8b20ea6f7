package launcher

import (
	"bytes"
	"errors"
	"os"
	"strings"
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

// stdinOf gives a job a stdin that holds text, and then ends.
func (w *world) stdinOf(text string) {
	w.Helper()
	r, in, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	w.io.Stdin = r
	written := make(chan struct{})
	go func() {
		defer close(written)
		in.WriteString(text) // fails when the job ends before it has read all
		in.Close()
	}()
	w.Cleanup(func() { r.Close(); <-written })
}

func TestStdinToRanks(t *testing.T) {
	long := strings.Repeat("0123456789\n", 1000) // in many windows
	tests := []struct {
		name, behaviour string
		stdin           int
		ranks           []int
		copies          int
		states          string
	}{
		{"rank-0", "echo-one", 0, []int{1, 1}, 1, "exited 0, exited 0"},
		{"rank-1", "echo-one", 1, []int{1, 1}, 1, "exited 0, exited 0"},
		{"all", "echo", StdinAll, []int{2, 1}, 3, "exited 0, exited 0, exited 0"},
		{"all-but-a-lost-host", "echo-or-die", StdinAll, []int{1, 1}, 1, "exited 0, lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.behaviour, tt.ranks...)
			w.job.Stdin, w.job.KeepGoing = tt.stdin, true
			w.stdinOf(long)
			w.wantStates(w.good(), tt.states)
			if got := w.stdout.String(); len(got) != tt.copies*len(long) || strings.Count(got, "0123456789\n") != tt.copies*1000 {
				t.Errorf("got %d bytes; want %d", len(got), tt.copies*len(long))
			}
		})
	}
}

// Only the hosts know how many ranks there are; see also TestRunRefuses.
func TestStdinForNobody(t *testing.T) {
	w := newWorld(t, "not-asked", -1, -1)
	w.job.Stdin = 4
	w.stdinOf("x")
	_, err := w.run()
	e, ok := errors.AsType[*StdinError](err)
	if !ok || e.Rank != 4 || e.Size != 4 || e.Error() != "--stdin 4: the job has ranks 0 to 3" {
		t.Errorf("got %v", err)
	}
}

// A terminal or file that cannot be read costs a line, and is an end of file.
func TestStdinThatCannotBeRead(t *testing.T) {
	w := newWorld(t, "echo", 1)
	w.job.Stdin = 0
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w.io.Stdin = dir
	w.wantStates(w.good(), "exited 0")
	if want := "gorun: warning: standard input cannot be read: is a directory\n"; w.stderr.String() != want {
		t.Errorf("stderr: got %q; want %q", w.stderr, want)
	}
}

// An agent that no longer reads holds up neither the job's end nor gorun's.
func TestStdinOnABlockedLink(t *testing.T) {
	w := newWorld(t, "reads-nothing", 1)
	w.job.Stdin = 0
	w.stdinOf(strings.Repeat("x", 10<<20))
	w.job.Timeout, w.job.Grace = 300*time.Millisecond, 50*time.Millisecond
	w.waits.stop, w.waits.kill = 50*time.Millisecond, 50*time.Millisecond
	res := w.good()
	w.wantStates(res, "lost")
	if !res.Timeout || !contains(res.Lost, "did not confirm the stop") {
		t.Errorf("got %+v", res)
	}
}
