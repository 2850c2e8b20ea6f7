package rendezvous

import (
	"bufio"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gorun/launcher/wire"
)

// largeJob is a job of many hosts in one process: a Client for each rank, a Server for
// each host, and an Engine. Each host has a pipe to the head, on which go the frames that
// launcher and agent send.
type largeJob struct {
	clients []*Client
	servers []*Server
	running sync.WaitGroup
	ends    []func()

	mu     sync.Mutex
	engine *Engine        // guarded by mu
	asked  map[string]int // guarded by mu; messages that have come to the head, by op
}

func newLargeJob(tb testing.TB, hosts, each int) *largeJob {
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("node%04d", i)
	}
	j := &largeJob{asked: map[string]int{}, engine: NewEngine(hosts*each, names, func(rank int) int { return rank / each }, allHere)}
	senders := make([]*wire.Sender, hosts)
	for host := range hosts {
		head, agent := net.Pipe()
		senders[host] = wire.NewSender(head)
		up := wire.NewSender(agent)
		ranks := make([]int, each)
		for i := range ranks {
			ranks[i] = host*each + i
		}
		s := newServer(ServerConfig{Secret: testSecret[:], Ranks: ranks, Send: func(r Request) {
			up.Send(wire.Frame{Kind: wire.Store, Payload: r.Append(nil)})
		}})
		s.running.Go(s.tick)
		j.servers = append(j.servers, s)
		j.running.Go(func() { j.head(tb, host, head, senders) })
		j.running.Go(func() { j.agent(tb, s, agent) })
		j.ends = append(j.ends, func() { head.Close(); agent.Close(); up.Close(); senders[host].Close() })
		for _, rank := range ranks {
			ours, theirs := net.Pipe()
			s.serve(theirs, nil)
			l, err := newLink(ours, rank, hosts*each)
			if err != nil {
				tb.Fatal(err)
			}
			j.clients = append(j.clients, &Client{link: l})
		}
	}
	return j
}

// head reads what a host's agent sends.
func (j *largeJob) head(tb testing.TB, host int, conn net.Conn, senders []*wire.Sender) {
	frames := wire.NewReader(bufio.NewReader(conn), wire.MaxReport)
	for {
		f, err := frames.Read()
		if err != nil {
			return
		}
		r, err := ParseRequest(f.Payload)
		if err != nil {
			tb.Error(err)
			return
		}
		j.mu.Lock()
		j.asked[r.Op]++
		for _, a := range j.engine.Handle(time.Now(), host, r) {
			senders[a.Host].Send(wire.Frame{Kind: wire.Store, Payload: a.Reply.Append(nil)})
		}
		j.mu.Unlock()
	}
}

// agent reads what the head sends.
func (j *largeJob) agent(tb testing.TB, s *Server, conn net.Conn) {
	frames := wire.NewReader(bufio.NewReader(conn), wire.MaxMessage)
	for {
		f, err := frames.Read()
		if err != nil {
			return
		}
		r, err := ParseReply(slices.Clone(f.Payload))
		if err != nil {
			tb.Error(err)
			return
		}
		s.Deliver(r)
	}
}

func (j *largeJob) close() {
	for _, c := range j.clients {
		c.Close()
	}
	for _, s := range j.servers {
		s.shut()
	}
	for _, end := range j.ends {
		end()
	}
	j.running.Wait()
}

// all runs f in every rank at once.
func (j *largeJob) all(tb testing.TB, f func(c *Client) error) {
	var running sync.WaitGroup
	for _, c := range j.clients {
		running.Go(func() {
			if err := f(c); err != nil {
				tb.Errorf("rank %d: %v", c.Rank(), err)
			}
		})
	}
	running.Wait()
}

// messages returns how many messages have come to the head since it was last called.
func (j *largeJob) messages() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	asked := j.asked
	j.asked = map[string]int{}
	return asked
}

// raceDetector reports whether this test is built with it: it takes some 8,000 goroutines,
// and gives up now and then long before ("CHECK failed", in its own code).
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// A barrier is a message of each host to the head, and so is what all ranks get; a
// creator of an ID says two, and rank 0 asks for each of theirs.
func TestLargeJob(t *testing.T) {
	hosts := largeHosts
	if raceDetector() {
		hosts = 24 // more than 128 ranks, so two creators
	}
	ranks := hosts * largeEach
	synctest.Test(t, func(t *testing.T) {
		j := newLargeJob(t, hosts, largeEach)
		defer j.close()
		var entered atomic.Int32
		j.all(t, func(c *Client) error {
			entered.Add(1)
			err := c.Barrier(within(t, time.Minute), "b")
			if n := int(entered.Load()); err == nil && n != ranks {
				err = fmt.Errorf("released when %d ranks of %d were in", n, ranks)
			}
			return err
		})
		if got := j.messages(); got[opBarrier] != hosts || len(got) != 1 {
			t.Errorf("barrier: got %v messages; want %d", got, hosts)
		}
		makers := creators(ranks)
		want := make([]ID, len(makers))
		for i, rank := range makers {
			want[i] = idOf(rank)
		}
		ctx := within(t, time.Minute)
		j.all(t, func(c *Client) error {
			got, err := UniqueIDs(ctx, c, "world", 0, func() (ID, error) { return idOf(c.Rank()), nil })
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("got %d IDs that are not those of the creators", len(got))
			}
			return err
		})
		got := j.messages()
		if puts := 2*len(makers) + 1; got[opPut] != puts || got[opGet] > hosts+len(makers) || len(got) != 2 {
			t.Errorf("IDs: got %v messages; want %d puts and at most %d gets", got, puts, hosts+len(makers))
		}
	})
}

// BenchmarkLargeJob is 10,000 ranks on 1,250 hosts: how long a barrier takes, and how
// long it takes until all have the 79 unique IDs that are made for so many.
func BenchmarkLargeJob(b *testing.B) {
	j := newLargeJob(b, largeHosts, largeEach)
	defer j.close()
	var barrier, ids time.Duration
	round := 0
	for b.Loop() {
		start := time.Now()
		j.all(b, func(c *Client) error { return c.Barrier(b.Context(), "b") })
		met := time.Now()
		j.all(b, func(c *Client) error {
			_, err := UniqueIDs(b.Context(), c, "world", round, func() (ID, error) { return idOf(c.Rank() + round<<16), nil })
			return err
		})
		barrier += met.Sub(start)
		ids += time.Since(met)
		round++
	}
	b.ReportMetric(float64(barrier.Milliseconds())/float64(round), "ms/barrier")
	b.ReportMetric(float64(ids.Milliseconds())/float64(round), "ms/ids")
}
