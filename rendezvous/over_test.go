package rendezvous

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

// Of a rank that is over, what its connections have sent still counts; then who waits for
// it is answered at once, on all hosts, but not who waits for a key that anybody may write.
func TestServerOver(t *testing.T) {
	j := newTestJob(t, 2, 1)
	c := j.clients()
	if j.servers[0].Over(0) {
		t.Fatal("a rank with a connection is over")
	}
	results, other := make(chan error, 3), make(chan error, 1)
	go func() { _, err := c[2].GetFrom(t.Context(), "k", 0); results <- err }()
	go func() { _, err := c[1].GetFrom(t.Context(), "k", 0); results <- err }()
	go func() { results <- c[2].Barrier(t.Context(), "b") }()
	go func() { _, err := c[1].Get(t.Context(), "k"); other <- err }()
	eventually(t, "all wait", func() bool { return j.waits(1) == 2 && j.waits(2) == 2 })
	if err := c[0].Put(t.Context(), "last", []byte("words")); err != nil {
		t.Fatal(err)
	}
	c[0].Close()
	begun := time.Now()
	eventually(t, "the rank is over", func() bool { return j.servers[0].Over(0) })
	for range 3 {
		if err := <-results; code(err) != CodeGone || !strings.Contains(err.Error(), "rank 0 on node1") {
			t.Errorf("got %v; want that rank 0 is gone", err)
		}
	}
	if took := time.Since(begun); took > DefaultTimeout/2 {
		t.Errorf("took %v; want no wait for the deadline", took)
	}
	if v, err := c[2].GetFrom(t.Context(), "last", 0); err != nil || string(v) != "words" {
		t.Errorf("what it had written: got %q, %v", v, err)
	}
	select {
	case err := <-other:
		t.Fatalf("a key that anybody may write: %v", err)
	default:
	}
	if err := c[2].Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-other; err != nil {
		t.Errorf("a key that another wrote: %v", err)
	}
}

// No rank may say of another that it is over.
func TestOverIsNoRequest(t *testing.T) {
	conn := newTestJob(t, 2).raw(0)
	io.WriteString(conn, helloLine+`{"op":"over","missing":[1],"key":"k","id":2}`+"\n")
	in := bufio.NewReader(conn)
	readReply(in)
	if r, err := readReply(in); err != nil || r.Code != CodeInvalid {
		t.Errorf("got %+v, %v; want it refused", r, err)
	}
}
