package pmi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorun/rendezvous"
)

// job is a whole job: the head's engine, and on each host a store and a Server.
type job struct {
	t       *testing.T
	servers []*Server
	hostOf  []int

	mu       sync.Mutex
	engine   *rendezvous.Engine
	stores   []*rendezvous.Server
	messages int // to the head
	aborts   []Abort
	parted   []Parted
	warnings []string
}

// newJob starts a job with so many ranks on each host.
func newJob(t *testing.T, counts ...int) *job {
	t.Helper()
	j := &job{t: t}
	var names []string
	for host, n := range counts {
		names = append(names, fmt.Sprint("node", host+1))
		for range n {
			j.hostOf = append(j.hostOf, host)
		}
	}
	j.engine = rendezvous.NewEngine(len(j.hostOf), names, func(rank int) int { return j.hostOf[rank] }, func(int) bool { return false })
	requests := make(chan func(), 1<<16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f := range requests {
			f()
		}
	}()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for host := range counts {
		var ranks []int
		var seats []Seat
		for rank, h := range j.hostOf {
			if h == host {
				ranks, seats = append(ranks, rank), append(seats, Seat{rank, host})
			}
		}
		store, err := rendezvous.Listen(filepath.Join(dir, fmt.Sprint(host)), rendezvous.ServerConfig{
			Secret: make([]byte, rendezvous.SecretLen), Ranks: ranks, UID: os.Geteuid(),
			Send: func(r rendezvous.Request) { requests <- func() { j.handle(host, r) } },
		})
		if err != nil {
			t.Fatal(err)
		}
		j.stores = append(j.stores, store)
		j.servers = append(j.servers, New(Config{
			Name: "kvs", Size: len(j.hostOf), Nodes: len(counts), Node: host, Ranks: seats, Mapping: Mapping(j.hostOf), Store: store,
			Abort:  func(a Abort) { j.note(func() { j.aborts = append(j.aborts, a) }) },
			Parted: func(p []Parted) { j.note(func() { j.parted = append(j.parted, p...) }) },
			Warn:   func(text string) { j.note(func() { j.warnings = append(j.warnings, text) }) },
		}))
	}
	t.Cleanup(func() {
		for i := range j.servers {
			j.servers[i].Close()
			j.stores[i].Close()
		}
		close(requests)
		<-done
	})
	return j
}

func (j *job) note(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

func (j *job) handle(host int, r rendezvous.Request) {
	j.mu.Lock()
	j.messages++
	replies := j.engine.Handle(time.Now(), host, r)
	j.mu.Unlock()
	for _, x := range replies {
		j.stores[x.Host].Deliver(x.Reply)
	}
}

// client is an MPI process.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func newClient(t *testing.T, conn net.Conn) *client {
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReaderSize(conn, 1<<16)}
}

func (j *job) client(rank int) *client {
	ours, theirs := net.Pipe()
	j.servers[j.hostOf[rank]].Serve(rank, theirs)
	return newClient(j.t, ours)
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Errorf("%s: %v", line, err)
	}
}

func (c *client) hear() string {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(line, "\n")
}

// ask says a line and checks the answer.
func (c *client) ask(line, want string) {
	c.t.Helper()
	c.say(line)
	if got := c.hear(); got != want {
		c.t.Errorf("%s: got %q; want %q", line, got, want)
	}
}

func (c *client) init() {
	c.t.Helper()
	c.ask("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
}

func (c *client) put(key, value string) {
	c.t.Helper()
	c.ask("cmd=put kvsname=kvs key="+key+" value="+value, "cmd=put_result rc=0 msg=success")
}

func (c *client) get(key, value string) {
	c.t.Helper()
	want := "cmd=get_result rc=0 msg=success value=" + value
	if value == "" {
		want = "cmd=get_result rc=-1 msg=key_" + key + "_not_found value=unknown"
	}
	c.ask("cmd=get kvsname=kvs key="+key, want)
}

// each lets every rank do the same at the same time.
func (j *job) each(clients []*client, do func(rank int, c *client)) {
	var all sync.WaitGroup
	for rank, c := range clients {
		all.Go(func() { do(rank, c) })
	}
	all.Wait()
}

func (j *job) clients() []*client {
	var out []*client
	for rank := range j.hostOf {
		out = append(out, j.client(rank))
	}
	return out
}

func TestConversation(t *testing.T) {
	c := newJob(t, 1).client(0)
	c.ask("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init rc=-1 msg=gorun_speaks_version_1 pmi_version=1 pmi_subversion=1")
	c.init()
	c.ask("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024")
	c.ask("cmd=get_appnum", "cmd=appnum appnum=0")
	c.ask("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs")
	c.ask("cmd=get_universe_size", "cmd=universe_size size=1")
	c.get("PMI_process_mapping", "(vector,(0,1,1))")
	c.get("PMI_hwloc_xmlfile", "")
	c.ask("cmd=get kvsname=other key=a", "cmd=get_result rc=-1 msg=no_such_kvsname value=unknown")
	c.get("a", "")
	c.put("a", `b64= " -"`)
	c.get("a", `b64= " -"`)
	c.put("a", `b64= " -"`)
	c.ask("cmd=put kvsname=kvs key=a value=c", "cmd=put_result rc=-1 msg=key_a_has_another_value_already")
	c.ask("cmd=put kvsname=kvs key=PMI_x value=c", "cmd=put_result rc=-1 msg=keys_that_begin_with_PMI__are_the_server's")
	c.ask("cmd=put kvsname=kvs key=e value=", "cmd=put_result rc=-1 msg=a_value_of_0_bytes")
	c.ask("cmd=put kvsname=kvs key= value=a", "cmd=put_result rc=-1 msg=a_key_of_0_bytes")
	c.put(strings.Repeat("k", 63), strings.Repeat("v", 1023))
	c.ask("cmd=put kvsname=kvs key="+strings.Repeat("k", 64)+" value=a", "cmd=put_result rc=-1 msg=a_key_of_64_bytes")
	c.ask("cmd=put kvsname=kvs key=long value="+strings.Repeat("v", 1024), "cmd=put_result rc=-1 msg=a_value_of_1024_bytes")
	c.ask("cmd=publish_name service=s port=tag 1", "cmd=publish_result rc=-1 msg=gorun_does_not_connect_jobs_with_each_other")
	c.ask("cmd=unpublish_name service=s", "cmd=unpublish_result rc=-1 msg=gorun_does_not_connect_jobs_with_each_other")
	c.ask("cmd=lookup_name service=s", "cmd=lookup_result rc=-1 msg=gorun_does_not_connect_jobs_with_each_other")
	c.ask("cmd=dance", "cmd=dance_result rc=-1 msg=unknown_command")
	c.ask("mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=1\nspawnssofar=1\nargcnt=0\ninfo_num=0\nendcmd",
		"cmd=spawn_result rc=-1 msg=gorun_starts_no_ranks_in_a_running_job")
	c.ask("cmd=barrier_in", "cmd=barrier_out")
	c.ask("cmd=finalize", "cmd=finalize_ack")
	c.ask("cmd=init pmi_version=1", "cmd=response_to_init rc=-1 msg=this_rank_has_been_an_MPI_process_already pmi_version=1 pmi_subversion=1")
}

func TestAppnum(t *testing.T) {
	j := newJob(t, 1, 1)
	j.client(1).ask("cmd=get_appnum", "cmd=appnum appnum=1")
}

// What was put before a barrier is seen by all who come behind it.
func TestFences(t *testing.T) {
	j := newJob(t, 3, 1, 2)
	j.each(j.clients(), func(rank int, c *client) {
		c.init()
		for round := range 4 {
			if round != 1 { // nobody puts anything
				c.put(fmt.Sprintf("r%d-%d", round, rank), fmt.Sprint("v", rank))
			}
			c.ask("cmd=barrier_in", "cmd=barrier_out")
			for other := range j.hostOf {
				want := fmt.Sprint("v", other)
				if round == 1 {
					want = ""
				}
				c.get(fmt.Sprintf("r%d-%d", round, other), want)
			}
			c.get(fmt.Sprintf("r%d-%d", 9, rank), "")
		}
		c.ask("cmd=finalize", "cmd=finalize_ack")
	})
	within(t, "all ranks have left", func() bool { return len(j.left()) == 6 })
	if left := j.left(); slices.ContainsFunc(left, func(p Parted) bool { return p.How != Finalized }) {
		t.Errorf("got %v; want all finalized", left)
	}
}

// Tables and pieces of more than one value.
func TestManyKeys(t *testing.T) {
	const keys = 100
	j := newJob(t, 2, 2)
	value := func(rank, i int) string { return strings.Repeat(strconv.Itoa(rank), 1000) + strconv.Itoa(i) }
	j.each(j.clients(), func(rank int, c *client) {
		for i := range keys {
			c.put(fmt.Sprintf("%d/%d", rank, i), value(rank, i))
		}
		c.ask("cmd=barrier_in", "cmd=barrier_out")
		for _, other := range []int{3, 0, 2, 1} {
			for i := range keys {
				c.get(fmt.Sprintf("%d/%d", other, i), value(other, i))
			}
		}
	})
}

// The head's part grows with the hosts, not with the ranks or keys.
func TestMessages(t *testing.T) {
	counts := slices.Repeat([]int{16}, 8)
	j := newJob(t, counts...)
	j.each(j.clients(), func(rank int, c *client) {
		c.put(fmt.Sprint("k", rank), strings.Repeat("x", 400))
		c.ask("cmd=barrier_in", "cmd=barrier_out")
		for other := range j.hostOf {
			c.get(fmt.Sprint("k", other), strings.Repeat("x", 400))
		}
	})
	// Of each host: its table, its barrier, one piece. Of node 0: a try for each host, and a piece.
	j.note(func() {
		if most := 4*len(counts) + 20; j.messages > most {
			t.Errorf("%d messages for %d keys on %d hosts; want at most %d", j.messages, len(j.hostOf), len(counts), most)
		}
	})
}

func TestTwoValues(t *testing.T) {
	j := newJob(t, 1, 1, 1)
	j.each(j.clients(), func(rank int, c *client) {
		if rank < 2 {
			c.put("k", fmt.Sprint("v", rank))
		}
		c.ask("cmd=barrier_in", "cmd=barrier_out")
		if rank == 2 {
			c.ask("cmd=get kvsname=kvs key=k", "cmd=get_result rc=-1 msg=key_k_was_put_with_two_values value=unknown")
		}
	})
}

func TestAbort(t *testing.T) {
	j := newJob(t, 2)
	c := j.client(1)
	c.init()
	c.say("cmd=abort exitcode=7 message=abort")
	within(t, "the abort is told", func() bool { return len(j.told()) == 1 })
	if got, want := j.told()[0], (Abort{Rank: 1, Code: 7}); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	c.conn.Close()
}

func (j *job) told() (out []Abort) {
	j.note(func() { out = slices.Clone(j.aborts) })
	return out
}

func (j *job) left() (out []Parted) {
	j.note(func() { out = slices.Clone(j.parted) })
	return out
}

// Ranks that leave are told of when it matters, and once.
func TestLeaving(t *testing.T) {
	j := newJob(t, 3, 1)
	clients := j.clients()
	for _, c := range clients {
		c.init()
	}
	clients[3].conn.Close()
	within(t, "a rank that is gone is told of at once", func() bool { return len(j.left()) == 1 })
	clients[0].ask("cmd=finalize", "cmd=finalize_ack")
	clients[0].ask("cmd=get_appnum", "cmd=appnum appnum=0")
	if left := j.left(); len(left) != 1 {
		t.Errorf("nobody waits: got %+v; want one that has left", left)
	}
	clients[1].say("cmd=barrier_in")
	within(t, "who has finalized is told of when another waits", func() bool { return len(j.left()) == 2 })
	clients[2].conn.Close()
	within(t, "another is gone", func() bool { return len(j.left()) == 3 })
	var got []string
	for _, p := range j.left() {
		got = append(got, fmt.Sprint(p.Rank, p.How))
	}
	if want := []string{"3gone", "0finalized", "2gone"}; !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestNeverInitialized(t *testing.T) {
	j := newJob(t, 2)
	for _, c := range j.clients() {
		c.conn.Close()
	}
	within(t, "all have left", func() bool { return len(j.left()) == 2 })
	if left := j.left(); left[0].How != Absent || left[1].How != Absent {
		t.Errorf("got %+v; want absent ranks", left)
	}
}

// What is no PMI ends the connection, is told of, and does not disturb others.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n", "\x00\x01\x02\n", "\n", strings.Repeat("a", 3*maxLine), "mcmd=spawn\n" + strings.Repeat("x\n", maxSpawnLines+1)} {
		j := newJob(t, 2)
		good, bad := j.client(0), j.client(1)
		good.init()
		go io.WriteString(bad.conn, text)
		if got := bad.hear(); got != "EOF" {
			t.Errorf("%.20q: got %q; want an end", text, got)
		}
		good.put("a", "b")
		within(t, "it is told of", func() bool { var n int; j.note(func() { n = len(j.warnings) }); return n == 1 })
	}
}

func TestPort(t *testing.T) {
	j := newJob(t, 2)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	var mu sync.Mutex
	j.servers[0].Listen(l, func(net.Conn) error {
		mu.Lock()
		defer mu.Unlock()
		if refused {
			return io.EOF
		}
		return nil
	})
	dial := func() *client {
		conn, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	}
	c := dial()
	c.say("cmd=initack pmiid=1")
	for _, want := range []string{"cmd=initack", "cmd=set size=2", "cmd=set rank=1", "cmd=set debug=0"} {
		if got := c.hear(); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	c.init()
	for _, text := range []string{"GET / HTTP/1.1\n", "cmd=initack pmiid=2\n", "cmd=initack pmiid=x\n", "cmd=init pmiid=0\n", strings.Repeat("a", 2*maxLine)} {
		stranger := dial()
		go io.WriteString(stranger.conn, text)
		if got := stranger.hear(); got != "EOF" && !strings.Contains(got, "reset") {
			t.Errorf("%.20q: got %q; want an end", text, got)
		}
	}
	again := dial()
	again.say("cmd=initack pmiid=1")
	for range 4 {
		again.hear()
	}
	if got := again.hear(); got != "EOF" {
		t.Errorf("a second connection of a rank: got %q; want an end", got)
	}
	mu.Lock()
	refused = true
	mu.Unlock()
	if got := dial().hear(); got != "EOF" {
		t.Errorf("a stranger: got %q; want an end", got)
	}
	c.put("a", "b")
}

// A rank's end does not leave anything of it in the store.
func TestDiesInBarrier(t *testing.T) {
	j := newJob(t, 2)
	clients := j.clients()
	clients[0].init()
	clients[0].say("cmd=barrier_in")
	within(t, "it waits", func() bool { return len(j.stores[0].Waiting()) == 1 })
	clients[0].conn.Close()
	within(t, "it waits no more", func() bool { return len(j.stores[0].Waiting()) == 0 })
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSlowSilentStranger(t *testing.T) {
	j := newJob(t, 1)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j.servers[0].Listen(l, func(net.Conn) error { return nil })
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if got := newClient(t, conn).hear(); got != "EOF" {
		t.Errorf("got %q; want an end", got)
	}
}
