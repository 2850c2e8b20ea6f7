package rendezvous

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test's own binary be $GORUN_EXE.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "store" {
		os.Exit(Command(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// testJob is a job on real sockets: an Engine in the place of the head, and a Server
// per host. What passes between them is encoded as it is on the wire.
type testJob struct {
	t       *testing.T
	servers []*Server
	pipes   bool
	paths   []string // by host, if not pipes
	hostOf  []int    // by rank
	sent    int      // guarded by mu; messages to the head

	mu     sync.Mutex
	engine *Engine    // guarded by mu
	queue  []sent     // guarded by mu
	wake   *sync.Cond // the queue changed, or closed
	closed bool       // guarded by mu
}

type sent struct {
	host    int
	payload []byte
}

var testSecret = sha256.Sum256([]byte("secret"))

// newTestJob starts a job with so many ranks on each host.
func newTestJob(t *testing.T, perHost ...int) *testJob {
	return startJob(&testJob{t: t}, perHost)
}

// newPipeJob is newTestJob without sockets, for use inside synctest.
func newPipeJob(t *testing.T, perHost ...int) *testJob {
	return startJob(&testJob{t: t, pipes: true}, perHost)
}

func startJob(j *testJob, perHost []int) *testJob {
	j.wake = sync.NewCond(&j.mu)
	var hosts []string
	for host, n := range perHost {
		hosts = append(hosts, fmt.Sprintf("node%d", host+1))
		for range n {
			j.hostOf = append(j.hostOf, host)
		}
	}
	j.engine = NewEngine(len(j.hostOf), hosts, func(rank int) int { return j.hostOf[rank] }, allHere)
	for host := range hosts {
		j.listen(host)
	}
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(j.handle)
	running.Go(func() { j.tick(stop) })
	j.t.Cleanup(func() {
		for _, s := range j.servers {
			if j.pipes {
				s.shut()
			} else if err := s.Close(); err != nil {
				j.t.Errorf("close: %v", err)
			}
		}
		j.mu.Lock()
		j.closed = true
		j.mu.Unlock()
		j.wake.Broadcast()
		close(stop)
		running.Wait()
	})
	return j
}

func (j *testJob) listen(host int) {
	j.t.Helper()
	var ranks []int
	for rank, h := range j.hostOf {
		if h == host {
			ranks = append(ranks, rank)
		}
	}
	cfg := ServerConfig{Secret: testSecret[:], Ranks: ranks, UID: os.Getuid(), Send: func(r Request) { j.send(host, r) }}
	if j.pipes {
		s := newServer(cfg)
		s.running.Go(s.tick)
		j.servers = append(j.servers, s)
		return
	}
	path := filepath.Join(privateDir(j.t), "store")
	s, err := Listen(path, cfg)
	if err != nil {
		j.t.Fatal(err)
	}
	j.servers = append(j.servers, s)
	j.paths = append(j.paths, path)
}

func (j *testJob) send(host int, r Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent++
	j.queue = append(j.queue, sent{host, r.Append(nil)})
	j.wake.Broadcast()
}

// privateDir is a short-named directory of mode 0700.
func privateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (j *testJob) handle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.queue) == 0 && !j.closed {
			j.wake.Wait()
		}
		if j.closed {
			return
		}
		next := j.queue[0]
		j.queue = j.queue[1:]
		r, err := ParseRequest(next.payload)
		if err != nil {
			j.t.Errorf("head: %v", err)
			return
		}
		j.route(j.engine.Handle(time.Now(), next.host, r))
	}
}

// route delivers replies; j.mu is held, and let go meanwhile, as a Server calls Send
// with its own lock.
func (j *testJob) route(list []Routed) {
	j.mu.Unlock()
	defer j.mu.Lock()
	for _, r := range list {
		reply, err := ParseReply(r.Reply.Append(nil))
		if err != nil {
			j.t.Errorf("head: %v", err)
		}
		j.servers[r.Host].Deliver(reply)
	}
}

func (j *testJob) tick(stop chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			j.mu.Lock()
			j.route(j.engine.Tick(now))
			j.mu.Unlock()
		}
	}
}

// messages returns how many messages the head has got.
func (j *testJob) messages() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent
}

// client connects as rank.
func (j *testJob) client(rank int) *Client {
	j.t.Helper()
	l, err := j.link(rank)
	if err != nil {
		j.t.Fatalf("rank %d: %v", rank, err)
	}
	c := &Client{link: l}
	j.t.Cleanup(func() { c.Close() })
	return c
}

func (j *testJob) link(rank int) (*link, error) {
	host := j.hostOf[rank]
	if !j.pipes {
		return dial(j.t.Context(), j.paths[host], rank, len(j.hostOf))
	}
	ours, theirs := net.Pipe()
	j.servers[host].serve(theirs, nil)
	return newLink(ours, rank, len(j.hostOf))
}

func (j *testJob) clients() []*Client {
	j.t.Helper()
	var list []*Client
	for rank := range j.hostOf {
		list = append(list, j.client(rank))
	}
	return list
}

// raw connects without a Client.
func (j *testJob) raw(host int) net.Conn {
	j.t.Helper()
	conn, err := net.Dial("unix", j.paths[host])
	if err != nil {
		j.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	j.t.Cleanup(func() { conn.Close() })
	return conn
}

// env is the environment of a program of rank.
func (j *testJob) env(rank int) []string {
	exe, err := os.Executable()
	if err != nil {
		j.t.Fatal(err)
	}
	return []string{
		"PATH=" + os.Getenv("PATH"), "GORUN_EXE=" + exe, "GORUN_STORE=unix:" + j.paths[j.hostOf[rank]],
		"GORUN_RANK=" + strconv.Itoa(rank), "GORUN_SIZE=" + strconv.Itoa(len(j.hostOf)),
	}
}

// setenv makes this process a rank, for Dial and Command.
func (j *testJob) setenv(rank int) {
	for _, pair := range j.env(rank)[2:] {
		variable, value, _ := strings.Cut(pair, "=")
		j.t.Setenv(variable, value)
	}
}

// each runs f for every client at once and reports their errors.
func each(t *testing.T, clients []*Client, f func(c *Client) error) {
	t.Helper()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() {
			if err := f(c); err != nil {
				t.Errorf("rank %d: %v", c.Rank(), err)
			}
		})
	}
	running.Wait()
}

// eventually waits for something that a goroutine is about to bring about.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !f() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("still not so after 20 s: %s", what)
		}
	}
}

// within is a context for a request that may wait so long.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
