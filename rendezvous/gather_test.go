package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func gatherKey(rank int) string { return fmt.Sprintf("g/%d", rank) }

func TestGather(t *testing.T) {
	j := newTestJob(t, 3, 2)
	each(t, j.clients(), func(c *Client) error {
		if err := c.Put(t.Context(), gatherKey(c.Rank()), fmt.Append(nil, "of ", c.Rank())); err != nil {
			return err
		}
		values, err := c.Gather(t.Context(), gatherKey)
		for rank, v := range values {
			if string(v) != fmt.Sprint("of ", rank) {
				t.Errorf("rank %d got %q of rank %d", c.Rank(), v, rank)
			}
		}
		if len(values) != c.Size() {
			t.Errorf("rank %d: got %d values; want %d", c.Rank(), len(values), c.Size())
		}
		return err
	})
}

// More ranks than are asked for at once, and as much to be sent back as stops the server
// from reading on, if nobody reads it.
func TestGatherMuch(t *testing.T) {
	j := newTestJob(t, 2*gatherAtOnce+1)
	c := j.client(0)
	for rank := range c.Size() {
		if err := c.Put(t.Context(), gatherKey(rank), fmt.Appendf(nil, "%0*d", MaxValue, rank)); err != nil {
			t.Fatal(err)
		}
	}
	values, err := c.Gather(t.Context(), gatherKey)
	if err != nil || len(values) != c.Size() {
		t.Fatalf("got %d values, error %v; want %d", len(values), err, c.Size())
	}
	for rank, v := range values {
		if want := fmt.Sprintf("%0*d", MaxValue, rank); string(v) != want {
			t.Errorf("got %d bytes that end in %q; want those of rank %d", len(v), v[max(len(v)-8, 0):], rank)
		}
	}
}

func TestGatherDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newPipeJob(t, 2, 2)
		c := j.clients()
		for _, rank := range []int{0, 1, 3} {
			if err := c[rank].Put(t.Context(), gatherKey(rank), nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c[0].Gather(within(t, 5*time.Second), gatherKey)
		if want := `key "g/2": rank 2 on node2 has not written it (waited 5 s)`; code(err) != CodeDeadline || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	})
}

func TestGatherTakesBack(t *testing.T) {
	j := newTestJob(t, 4)
	c := j.client(0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	result := make(chan error)
	go func() { _, err := c.Gather(ctx, gatherKey); result <- err }()
	eventually(t, "rank 0 waits for all", func() bool { return j.waits(0) == 4 })
	cancel(cause)
	if err := <-result; err != cause {
		t.Errorf("got %v; want %v", err, cause)
	}
	eventually(t, "rank 0 waits no more", func() bool { return j.waits(0) == 0 })
	if _, err := c.Gather(t.Context(), func(int) string { return "" }); code(err) != CodeInvalid {
		t.Errorf("without keys: got %v; want code %s", err, CodeInvalid)
	}
}
