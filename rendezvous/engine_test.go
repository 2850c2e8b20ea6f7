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
//	next                        prints when Tick is next needed
func TestEngineScripts(t *testing.T) {
	runScripts(t, "engine", func() func([]string) []string {
		now := epochZero
		var e *Engine
		var hosts []string
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
				e = NewEngine(len(hostOf), hosts, func(rank int) int { return hostOf[rank] })
				return nil
			case "at":
				now = epochZero.Add(mustDuration(words[1]))
				return show(e.Tick(now))
			case "next":
				if next := e.Next(); !next.IsZero() {
					return []string{"at " + next.Sub(epochZero).String()}
				}
				return []string{"nothing waits"}
			}
			return show(e.Handle(now, slices.Index(hosts, words[0]), parseTestRequest(words[1:])))
		}
	})
}

func TestEngineTotal(t *testing.T) {
	e := NewEngine(1, []string{"node1"}, func(int) int { return 0 })
	put := func(i, n int) Reply {
		return e.Handle(epochZero, 0, Request{Op: opPut, Key: fmt.Sprintf("%010d", i), Value: make([]byte, n)})[0].Reply
	}
	fits := MaxTotal / (MaxValue + 10 + keyCost)
	for i := range fits {
		if r := put(i, MaxValue); r.Code != "" {
			t.Fatalf("value %d of %d: got %+v; want it taken", i, fits, r)
		}
	}
	if r := put(fits, MaxValue); r.Code != CodeLimit {
		t.Errorf("one value too many: got %+v; want code %q", r, CodeLimit)
	}
	if r := put(0, MaxValue); r.Code != "" {
		t.Errorf("a value that is there already: got %+v; want success", r)
	}
}

func TestEngineCopiesValues(t *testing.T) {
	e := NewEngine(1, []string{"node1"}, func(int) int { return 0 })
	value := []byte("before")
	e.Handle(epochZero, 0, Request{ID: 1, Op: opPut, Key: "k", Value: value})
	copy(value, "after!")
	got := e.Handle(epochZero, 0, Request{ID: 2, Op: opGet, Key: "k"})[0].Reply.Value
	if !bytes.Equal(got, []byte("before")) {
		t.Errorf("got %q; want the value as it was put", got)
	}
}

// A barrier and a key for 10,000 ranks on 1,250 hosts must cost the head little.
func TestEngineLarge(t *testing.T) {
	const hosts, each = 1250, 8
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("node%04d", i)
	}
	e := NewEngine(hosts*each, names, func(rank int) int { return rank / each })
	begin := time.Now()
	for round := range 10 {
		for host := range hosts {
			out := e.Handle(epochZero, host, Request{ID: uint64(2 * round), Op: opBarrier, Key: "b"})
			if want := host == hosts-1; (len(out) == hosts) != want || (len(out) == 0) == want {
				t.Fatalf("round %d: host %d: got %d replies", round, host, len(out))
			}
		}
		e.Handle(epochZero, 0, Request{ID: 1, Op: opPut, Key: fmt.Sprint(round), Value: make([]byte, 128)})
		for host := range hosts {
			if out := e.Handle(epochZero, host, Request{ID: 1, Op: opGet, Key: fmt.Sprint(round)}); len(out) != 1 {
				t.Fatalf("get: got %d replies; want 1", len(out))
			}
		}
	}
	if took := time.Since(begin) / 10; took > time.Second {
		t.Errorf("a round took %v; want well below 1 s", took)
	}
	for host := range hosts - 1 {
		e.Handle(epochZero, host, Request{ID: 7, Op: opBarrier, Key: "b"})
	}
	begin = time.Now()
	out := e.Tick(epochZero.Add(time.Hour))
	if len(out) != hosts-1 {
		t.Fatalf("after the deadline: got %d replies; want %d", len(out), hosts-1)
	}
	want := `barrier "b": 8 of 10000 ranks have not come: ranks 9992-9999 on node1249`
	for _, r := range out {
		if r.Reply.Err != want {
			t.Fatalf("got %q; want %q", r.Reply.Err, want)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the errors took %v", took)
	}
	if len(e.waits) != 0 || len(e.queue) != 0 || len(e.meetings) != 0 {
		t.Errorf("left behind: %d waits, %d queued, %d barriers", len(e.waits), len(e.queue), len(e.meetings))
	}
}
