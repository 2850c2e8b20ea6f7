package rendezvous

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var testRequests = []Request{
	{},
	{ID: 7, Op: opHello, Rank: 3, Epoch: 2},
	{ID: 1<<64 - 1, Op: opPut, Key: "addr/3", Value: []byte("10.0.0.1:4000\n\x00\xff")},
	{Op: opGet, Key: "k<&>\u2028\"\\\x01", Timeout: 1500 * time.Millisecond, From: new(0)},
	{Op: opBarrier, Key: "b", Rank: 8, Timeout: maxTimeout, Missing: []int{8, 9}, Left: []int{10}},
	{ID: 9, Op: opCancel},
}

var testReplies = []Reply{
	{},
	{ID: 3, Value: []byte("value\n{}")},
	{ID: 1<<64 - 1, Code: CodeDeadline, Err: `key "k": rank 3 on node2 has not written it`},
}

func TestRequestRoundTrip(t *testing.T) {
	for _, want := range testRequests {
		got, err := ParseRequest(want.Append(nil))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", want, err, diff)
		}
	}
	for _, want := range testReplies {
		got, err := ParseReply(want.Append(nil))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", want, err, diff)
		}
	}
}

func TestRequestTimeouts(t *testing.T) {
	for _, row := range []struct {
		name       string
		give, want time.Duration
	}{
		{"rounds-up", time.Nanosecond, time.Millisecond},
		{"more-than-a-year", 2 * maxTimeout, maxTimeout},
		{"none", 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := ParseRequest(Request{Op: opGet, Key: "k", Timeout: row.give}.Append(nil))
			if err != nil || got.Timeout != row.want {
				t.Errorf("got %v, %v; want %v", got.Timeout, err, row.want)
			}
		})
	}
}

// The result must not change with the bytes it came from.
func TestParseCopies(t *testing.T) {
	p := testRequests[2].Append(nil)
	r, err := ParseRequest(p)
	clear(p)
	if diff := cmp.Diff(testRequests[2], r); err != nil || diff != "" {
		t.Errorf("request: %v\n%s", err, diff)
	}
	p = testReplies[1].Append(nil)
	reply, err := ParseReply(p)
	clear(p)
	if diff := cmp.Diff(testReplies[1], reply); err != nil || diff != "" {
		t.Errorf("reply: %v\n%s", err, diff)
	}
}

// What parses must, written again, parse to the same.
func FuzzParseRequest(f *testing.F) {
	for _, r := range testRequests {
		f.Add(r.Append(nil))
	}
	f.Add([]byte(`{"op":"put","len":3}` + "\nab"))
	f.Add([]byte(`{"op":"get","timeout_ms":1e99}` + "\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := ParseRequest(p)
		if err != nil {
			return
		}
		again, err := ParseRequest(r.Append(nil))
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", r, err, diff)
		}
	})
}

func FuzzParseReply(f *testing.F) {
	for _, r := range testReplies {
		f.Add(r.Append(nil))
	}
	f.Add([]byte(`{"id":-1}` + "\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := ParseReply(p)
		if err != nil {
			return
		}
		again, err := ParseReply(r.Append(nil))
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", r, err, diff)
		}
	})
}

// FuzzConnection gives a connection's bytes to the line reader, a hub and an Engine,
// whole and byte by byte: both must give the same answers, within the limits, and
// nothing may stay when the connection is gone.
func FuzzConnection(f *testing.F) {
	hello := helloLine
	f.Add([]byte(hello + `{"op":"put","key":"k","len":5,"id":2}` + "\nvalue" + `{"op":"get","key":"k","id":3}` + "\n"))
	f.Add([]byte(hello + `{"op":"barrier","key":"b"}` + "\n" + `{"op":"barrier","key":"b"}` + "\n" + `{"op":"cancel"}` + "\n"))
	f.Add([]byte(hello + `{"op":"get","key":"k","from":7}` + "\n" + `{"op":"fly"}` + "\nGET / HTTP/1.1\r\n"))
	f.Add([]byte(`{"op":"hello","rank":1,"epoch":3}` + "\n" + `{"op":"try","key":"k"}` + "\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		whole := playConnection(t, bufio.NewReaderSize(bytes.NewReader(p), MaxLine))
		bytewise := playConnection(t, bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(p)), MaxLine))
		if diff := cmp.Diff(whole, bytewise); diff != "" {
			t.Errorf("the answers depend on how the bytes come (-whole +bytewise):\n%s", diff)
		}
	})
}

func playConnection(t *testing.T, in *bufio.Reader) (answers []Reply) {
	w := newWorld([]string{"node1", "node2"}, [][]int{{0, 1}, {2}}, map[int]int{0: 0, 1: 0, 2: 1})
	w.quiet = true
	s := &session{answer: func(r Reply) {
		if n := len(r.Append(nil)); n > maxReplyLine+MaxValue {
			t.Errorf("an answer of %d bytes", n)
		}
		answers = append(answers, r)
	}}
	for {
		r, err := readRequest(in, s.epoch)
		if e, ok := errors.AsType[*Error](err); ok {
			s.answer(refusal(r.ID, e))
		}
		if err != nil || !w.hubs[0].handle(w.now, s, r) {
			break
		}
		w.flow()
		w.advance(w.now.Add(time.Second))
	}
	w.hubs[0].leave(w.now, s)
	w.flow()
	h, e := w.hubs[0], w.engine
	if n := len(h.fetches) + len(h.gatherings) + len(h.pending) + len(e.waits) + len(e.gets) + len(e.meetings); n != 0 {
		t.Errorf("%d things are left behind", n)
	}
	if s.member != nil && *s.member != (member{}) {
		t.Errorf("the rank is charged with %+v", *s.member)
	}
	return answers
}
