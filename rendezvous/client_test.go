package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func TestClientKeys(t *testing.T) {
	j := newTestJob(t, 2, 1)
	ctx := t.Context()
	c := j.clients()
	if _, ok, err := c[0].Try(ctx, "k"); ok || err != nil {
		t.Fatalf("try of no key: got %v, %v; want false, no error", ok, err)
	}
	got := make(chan string)
	go func() {
		value, err := c[2].GetFrom(ctx, "k", 0)
		got <- fmt.Sprint(string(value), err)
	}()
	value := bytes.Repeat([]byte{0, '\n', 0xff}, MaxValue/3)
	if err := c[0].Put(ctx, "k", value); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != string(value)+"<nil>" {
		t.Errorf("get: got %d bytes; want the %d put", len(s), len(value))
	}
	if v, ok, err := c[1].Try(ctx, "k"); !ok || err != nil || !bytes.Equal(v, value) {
		t.Errorf("try: got %d bytes, %v, %v", len(v), ok, err)
	}
	if err := c[1].Put(ctx, "k", value); err != nil {
		t.Errorf("the same again: %v", err)
	}
	err := c[1].Put(ctx, "k", []byte("other"))
	if want := `key "k" already has another value, put by rank 0 on node1`; code(err) != CodeConflict || err.Error() != want {
		t.Errorf("another value: got %v; want %s", err, want)
	}
	if _, ok, err := c[0].At(3).Try(ctx, "k"); ok || err != nil {
		t.Errorf("another epoch: got %v, %v; want false, no error", ok, err)
	}
	for _, client := range c {
		if !bytes.Equal(client.Secret(), testSecret[:]) || client.Size() != 3 {
			t.Errorf("rank %d: secret %x, size %d", client.Rank(), client.Secret(), client.Size())
		}
	}
}

func TestClientRefuses(t *testing.T) {
	j := newTestJob(t, 1)
	c, ctx := j.client(0), t.Context()
	_, tooFar := c.GetFrom(ctx, "k", 1)
	_, badKey := c.Get(ctx, "\xff")
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"long-key", c.Put(ctx, strings.Repeat("k", MaxKey+1), nil), CodeLimit},
		{"longest-key", c.Put(ctx, strings.Repeat("\x01", MaxKey), nil), ""},
		{"long-value", c.Put(ctx, "k", make([]byte, MaxValue+1)), CodeLimit},
		{"longest-value", c.Put(ctx, "k", make([]byte, MaxValue)), ""},
		{"no-key", c.Put(ctx, "", nil), CodeInvalid},
		{"key-not-utf8", badKey, CodeInvalid},
		{"rank-not-there", tooFar, CodeInvalid},
		{"epoch-negative", c.At(-1).Put(ctx, "k", nil), CodeInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := code(row.err); got != row.want || (row.err == nil) != (row.want == "") {
				t.Errorf("got %v; want code %q", row.err, row.want)
			}
		})
	}
}

func TestClientDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newPipeJob(t, 2, 2)
		c := j.clients()
		var running sync.WaitGroup
		for _, rank := range []int{0, 1, 3} {
			running.Go(func() {
				err := c[rank].Barrier(within(t, 5*time.Second), "step")
				want := `barrier "step": 1 of 4 ranks has not come: rank 2 on node2 (waited 5 s)`
				if code(err) != CodeDeadline || err.Error() != want {
					t.Errorf("rank %d: got %v; want %s", rank, err, want)
				}
			})
		}
		_, err := c[0].GetFrom(t.Context(), "mesh/world/0/3", 3)
		want := `key "mesh/world/0/3": rank 3 on node2 has not written it (waited 60 s)`
		if code(err) != CodeDeadline || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
		running.Wait()
		each(t, c, func(c *Client) error { return c.Barrier(t.Context(), "step") })
	})
}

func TestClientCancel(t *testing.T) {
	j := newTestJob(t, 2)
	c := j.clients()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	result := make(chan error)
	go func() { result <- c[0].Barrier(ctx, "b") }()
	eventually(t, "rank 0 waits", func() bool { return j.waits(0) == 1 })
	cancel(cause)
	if err := <-result; err != cause {
		t.Errorf("got %v; want %v", err, cause)
	}
	eventually(t, "rank 0 has left", func() bool { return j.waits(0) == 0 })
	if err := c[0].Barrier(ctx, "b"); err != cause {
		t.Errorf("cancelled before: got %v; want %v", err, cause)
	}
	each(t, c, func(c *Client) error { return c.Barrier(t.Context(), "b") })
}

// waits is how many requests of rank its agent has not answered.
func (j *testJob) waits(rank int) int {
	s := j.servers[j.hostOf[rank]]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub.members[rank].calls
}

func TestClientGone(t *testing.T) {
	j := newTestJob(t, 2)
	c := j.clients()
	waiting := make(chan error)
	go func() { waiting <- c[0].Barrier(t.Context(), "b") }()
	go func() { _, err := c[1].Get(t.Context(), "k"); waiting <- err }()
	eventually(t, "both wait", func() bool { return j.waits(0)+j.waits(1) == 2 })
	j.servers[0].Close()
	for range 2 {
		if err := <-waiting; !errors.Is(err, ErrGone) {
			t.Errorf("while waiting: got %v; want ErrGone", err)
		}
	}
	if err := c[0].Put(t.Context(), "k", nil); !errors.Is(err, ErrGone) {
		t.Errorf("after: got %v; want ErrGone", err)
	}
	j.setenv(0)
	if _, err := Dial(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("dial: got %v; want ErrGone", err)
	}
}

func TestDialEnvironment(t *testing.T) {
	j := newTestJob(t, 2)
	good := "unix:" + j.paths[0]
	for _, row := range []struct{ name, store, rank, size, want string }{
		{"good", good, "1", "2", ""},
		{"not-launched", "", "", "", ErrNotLaunched.Error()},
		{"other-scheme", "tcp:localhost:1", "0", "2", `GORUN_STORE is "tcp:localhost:1"; want unix:PATH`},
		{"no-path", "unix:", "0", "2", `GORUN_STORE is "unix:"; want unix:PATH`},
		{"no-rank", good, "", "2", `GORUN_RANK is ""; want a number from 0`},
		{"bad-size", good, "0", "many", `GORUN_SIZE is "many"; want a number from 1`},
		{"rank-too-high", good, "2", "2", `GORUN_RANK is 2, but GORUN_SIZE is 2`},
		{"rank-elsewhere", good, "2", "3", `rank 2 is not on this host`},
		{"no-socket", "unix:/nonexistent/store", "0", "2", "/nonexistent/store: " + ErrGone.Error() + " (or this is a container that the directory is not mounted in)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Setenv("GORUN_STORE", row.store)
			t.Setenv("GORUN_RANK", row.rank)
			t.Setenv("GORUN_SIZE", row.size)
			c, err := Dial(t.Context())
			if row.want == "" {
				if err != nil || c.Rank() != 1 || c.Size() != 2 {
					t.Fatalf("got %v, %v", c, err)
				}
				c.Close()
				return
			}
			if err == nil || err.Error() != row.want {
				t.Errorf("got %v; want %s", err, row.want)
			}
		})
	}
}

// An agent that is stopped, or something else that listens there and says nothing.
func TestDialSilent(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("GORUN_STORE", "unix:"+path)
	t.Setenv("GORUN_RANK", "0")
	t.Setenv("GORUN_SIZE", "1")
	if _, err := Dial(within(t, 100*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || err.Error() != path+": the agent did not answer in time" {
		t.Errorf("got %v; want the deadline, in words", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want cancelled", err)
	}
}

// A connection that the agent closes before it answers hello is tried again.
func TestDialRetries(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for range 2 {
			if conn, err := l.Accept(); err == nil {
				conn.Close()
			}
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(Reply{Value: testSecret[:]}.Append(nil))
		drain(conn)
	}()
	t.Setenv("GORUN_STORE", "unix:"+path)
	t.Setenv("GORUN_RANK", "0")
	t.Setenv("GORUN_SIZE", "1")
	c, err := Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// fakeAgent answers hello on a pipe and then does as it is told.
func fakeAgent(t *testing.T, then func(net.Conn)) *Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		defer ours.Close()
		io := make([]byte, 4096)
		ours.Read(io)
		ours.Write(Reply{Value: testSecret[:]}.Append(nil))
		then(ours)
	}()
	l, err := newLink(theirs, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{link: l}
}

// drain reads until the other side closes.
func drain(conn net.Conn) {
	b := make([]byte, 4096)
	for {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

func TestClientAgentSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeAgent(t, drain)
		defer c.Close()
		begin := time.Now()
		_, err := c.Get(t.Context(), "k")
		if want := `get "k": the agent does not answer`; code(err) != CodeDeadline || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
		if took, want := time.Since(begin), DefaultTimeout+answerGrace; took != want {
			t.Errorf("took %v; want %v", took, want)
		}
	})
}

// An agent that takes no request must not hold a client either.
func TestClientAgentStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		defer close(stuck)
		c := fakeAgent(t, func(net.Conn) { <-stuck })
		defer c.Close()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := c.Put(ctx, "k", nil); err != ErrGone {
			t.Errorf("got %v; want ErrGone", err)
		}
		if took, want := time.Since(begin), 3*time.Second+answerGrace; took != want {
			t.Errorf("took %v; want %v", took, want)
		}
	})
}

func TestClientAgentTalksNonsense(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"http", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"long-line", strings.Repeat("x", maxReplyLine+1)},
		{"huge-value", `{"id":1,"len":99999999}` + "\n"},
		{"negative-value", `{"id":1,"len":-1}` + "\n"},
		{"cut", `{"id":1,"len":10}` + "\n12345"},
		{"unknown-id", `{"id":77,"len":0}` + "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := fakeAgent(t, func(conn net.Conn) {
				b := make([]byte, 4096)
				conn.Read(b)
				conn.Write([]byte(row.text))
			})
			defer c.Close()
			if _, err := c.Get(t.Context(), "k"); err != ErrGone {
				t.Errorf("got %v; want ErrGone", err)
			}
		})
	}
}

func TestClientBadSecret(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		ours.Read(make([]byte, 4096))
		ours.Write(Reply{Value: []byte("short")}.Append(nil))
	}()
	if _, err := newLink(theirs, 0, 1); err == nil {
		t.Error("got no error; want one about the secret")
	}
}
