package rendezvous

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestEngineScripts plays requests of agents to the Engine:
//
//	job node1=0-1 node2=2-3     the job's hosts and ranks
//	node1 put addr abc id=1     a request of that host's agent
//	at 1.5s                     the time goes on
//	gone 0-1                    those ranks have ended
//	node1 over missing=0-1      and so has all that they had started
//	next                        prints when Tick is next needed
//	wanted                      prints what is waited for, and which ranks
func TestEngineScripts(t *testing.T) {
	runScripts(t, "engine", func() func([]string) []string {
		now := epochZero
		var e *Engine
		var hosts []string
		gone := map[int]bool{}
		show := func(list []Routed) (lines []string) {
			for _, r := range list {
				lines = append(lines, hosts[r.Host]+" "+showReply(r.Reply))
			}
			return lines
		}
		return func(words []string) []string {
			switch words[0] {
			case "job":
				names, _, hostOf := testHosts(words[1:])
				hosts = names
				clear(gone)
				e = NewEngine(len(hostOf), hosts, func(rank int) int { return hostOf[rank] }, func(rank int) bool { return gone[rank] })
				return nil
			case "gone":
				for _, rank := range mustRanks(words[1]) {
					gone[rank] = true
				}
				return nil
			case "at":
				now = epochZero.Add(mustDuration(words[1]))
				return show(e.Tick(now))
			case "next":
				if next := e.Next(); !next.IsZero() {
					return []string{"at " + next.Sub(epochZero).String()}
				}
				return []string{"nothing waits"}
			case "wanted":
				var lines []string
				for _, w := range e.Wanted() {
					lines = append(lines, fmt.Sprintf("%s %s from %v: %s", w.Op, w.Name, w.From, w.Text))
				}
				return lines
			}
			return show(e.Handle(now, slices.Index(hosts, words[0]), parseTestRequest(words[1:])))
		}
	})
}

func TestEngineTotal(t *testing.T) {
	e := NewEngine(1, []string{"node1"}, func(int) int { return 0 }, allHere)
	if e.limit != MaxTotal {
		t.Errorf("got limit %d; want %d", e.limit, MaxTotal)
	}
	const fits = 20
	e.limit = fits*(MaxValue+10+keyCost) + MaxValue
	value := make([]byte, MaxValue)
	put := func(i int) Reply {
		return e.Handle(epochZero, 0, Request{Op: opPut, Key: fmt.Sprintf("%010d", i), Value: value})[0].Reply
	}
	for i := range fits {
		if r := put(i); r.Code != "" {
			t.Fatalf("value %d of %d: got %+v; want it taken", i, fits, r)
		}
	}
	if r := put(fits); r.Code != CodeLimit {
		t.Errorf("one value too many: got %+v; want code %q", r, CodeLimit)
	}
	if r := put(0); r.Code != "" {
		t.Errorf("a value that is there already: got %+v; want success", r)
	}
}

// A host that is not gorun's agent cannot make the head wait for any number of things.
func TestEngineWaits(t *testing.T) {
	e := NewEngine(3, []string{"node1", "node2"}, func(rank int) int { return rank / 2 }, allHere)
	ask := func(host, id int, op string) string {
		for _, r := range e.Handle(epochZero, host, Request{ID: uint64(id), Op: op, Key: fmt.Sprint("k", id)}) {
			return r.Reply.Code + " " + r.Reply.Err
		}
		return ""
	}
	const most = 2*maxCalls + 1
	for id := range most {
		if got := ask(0, id, []string{opGet, opBarrier}[id%2]); got != "" {
			t.Fatalf("request %d: got %q; want it to wait", id, got)
		}
	}
	for _, op := range []string{opGet, opBarrier} {
		if got, want := ask(0, most, op), fmt.Sprintf("limit node1 has %d requests waiting already", most); got != want {
			t.Errorf("%s: got %q; want %q", op, got, want)
		}
	}
	if got := ask(1, 0, opGet); got != "" {
		t.Errorf("another host: got %q; want it to wait", got)
	}
	if got := ask(0, most, opPut) + ask(0, most, opTry); got != "  " {
		t.Errorf("what need not wait: got %q; want success", got)
	}
	ask(0, 0, opCancel)
	if got := ask(0, most+1, opGet); got != "" {
		t.Errorf("after a cancel: got %q; want it to wait", got)
	}
	long := Request{Op: opBarrier, Key: "b", Missing: []int{0, 0}, Left: []int{0}}
	if got := e.Handle(epochZero, 0, long); len(got) != 1 || got[0].Reply.Code != CodeInvalid {
		t.Errorf("a report of three ranks out of two: got %+v; want code %q", got, CodeInvalid)
	}
	for len(e.queue) > 0 {
		e.Tick(e.Next())
	}
	if e.waiting[0] != 0 || e.waiting[1] != 0 {
		t.Errorf("got %v waits left; want none", e.waiting)
	}
}

func TestEngineCopiesValues(t *testing.T) {
	e := NewEngine(1, []string{"node1"}, func(int) int { return 0 }, allHere)
	value := []byte("before")
	e.Handle(epochZero, 0, Request{ID: 1, Op: opPut, Key: "k", Value: value})
	copy(value, "after!")
	got := e.Handle(epochZero, 0, Request{ID: 2, Op: opGet, Key: "k"})[0].Reply.Value
	if !bytes.Equal(got, []byte("before")) {
		t.Errorf("got %q; want the value as it was put", got)
	}
}

const largeHosts, largeEach = 1250, 8

func largeEngine() *Engine {
	names := make([]string, largeHosts)
	for i := range names {
		names[i] = fmt.Sprintf("node%04d", i)
	}
	return NewEngine(largeHosts*largeEach, names, func(rank int) int { return rank / largeEach }, allHere)
}

// allHere says of every rank that it is not gone.
func allHere(int) bool { return false }

// A barrier of 10,000 ranks on 1,250 hosts is one request and one reply per host, and
// nothing is kept of it, nor of one that failed.
func TestEngineLarge(t *testing.T) {
	e := largeEngine()
	for round := range 3 {
		for host := range largeHosts {
			out := e.Handle(epochZero, host, Request{ID: uint64(round), Op: opBarrier, Key: "b"})
			if last := host == largeHosts-1; last && len(out) != largeHosts || !last && len(out) != 0 {
				t.Fatalf("round %d: host %d: got %d replies", round, host, len(out))
			}
		}
	}
	for host := range largeHosts - 1 {
		e.Handle(epochZero, host, Request{ID: 7, Op: opBarrier, Key: "b"})
	}
	out := e.Tick(epochZero.Add(time.Hour))
	if len(out) != largeHosts-1 {
		t.Fatalf("after the deadline: got %d replies; want %d", len(out), largeHosts-1)
	}
	want := `barrier "b": 8 of 10000 ranks have not come: ranks 9992-9999 on node1249`
	for _, r := range out {
		if r.Reply.Err != want {
			t.Fatalf("got %q; want %q", r.Reply.Err, want)
		}
	}
	if len(e.waits) != 0 || len(e.queue) != 0 || len(e.meetings) != 0 {
		t.Errorf("left behind: %d waits, %d queued, %d barriers", len(e.waits), len(e.queue), len(e.meetings))
	}
}

// BenchmarkEngine10000 is the head's part of a unique ID and a barrier for 10,000
// ranks on 1,250 hosts, messages coded as on the wire.
func BenchmarkEngine10000(b *testing.B) {
	e := largeEngine()
	var buf []byte
	handle := func(host int, r Request) {
		r, err := ParseRequest(r.Append(buf[:0]))
		if err != nil {
			b.Fatal(err)
		}
		for _, out := range e.Handle(epochZero, host, r) {
			buf = out.Reply.Append(buf[:0])
		}
	}
	for i := 0; b.Loop(); i++ {
		for host := range largeHosts {
			handle(host, Request{ID: 1, Op: opGet, Key: "uid", Epoch: i})
			if host == 0 {
				handle(host, Request{ID: 2, Op: opPut, Key: "uid", Epoch: i, Value: make([]byte, 128)})
			}
			handle(host, Request{ID: 3, Op: opBarrier, Key: "b"})
		}
	}
}

// BenchmarkEngineMissing is the errors of a barrier to which one host of 1,250 did
// not come, and of a key that nobody wrote.
func BenchmarkEngineMissing(b *testing.B) {
	for _, op := range []string{opBarrier, opGet} {
		b.Run(op, func(b *testing.B) {
			e := largeEngine()
			now := epochZero
			for b.Loop() {
				for host := range largeHosts - 1 {
					e.Handle(now, host, Request{ID: 1, Op: op, Key: "b"})
				}
				now = now.Add(time.Hour)
				e.Tick(now)
			}
		})
	}
}
