package cpu

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"gorun/backend"
)

var calls = map[string]call{
	"allreduce(1000 float32, sum, ring)":     {seq: 7, kind: allReduce, count: 1000, dtype: backend.Float32, op: backend.Sum, algo: ring},
	"allreduce(4294967300 uint8, max, star)": {seq: 1 << 40, kind: allReduce, count: 1<<32 + 4, dtype: backend.Uint8, op: backend.Max, algo: star},
	"broadcast(3 int64, root 15)":            {seq: 8, kind: broadcast, count: 3, dtype: backend.Int64, root: 15, algo: tree},
	"barrier()":                              {seq: 9, kind: barrier, algo: dissemination},
	"split()":                                {seq: 10, kind: split, count: 8, dtype: backend.Int64, op: backend.Sum, algo: star},
	"collective 77":                          {seq: 11, kind: 77},
}

func TestCall(t *testing.T) {
	for text, k := range calls {
		b := k.append(nil)
		if len(b) != callLen || parseCall(b) != k {
			t.Errorf("%s: got %v of %d bytes; want it back", text, parseCall(b), len(b))
		}
		if k.String() != text {
			t.Errorf("got %q; want %q", k, text)
		}
	}
}

func TestMismatchNamesLowerRankFirst(t *testing.T) {
	c := &comm{name: "world"}
	a, b := call{seq: 3, kind: barrier}, call{seq: 3, kind: split}
	want := "world: call 3 differs: rank 1 called split(), rank 4 called barrier()"
	for _, err := range []error{c.mismatch(4, a, 1, b), c.mismatch(1, b, 4, a)} {
		if err.Error() != want {
			t.Errorf("got %q; want %q", err, want)
		}
	}
}

func TestAbortFrames(t *testing.T) {
	cause := errors.New("lost")
	for name, err := range map[string]error{
		"mismatch": &backend.MismatchError{Comm: "world", Seq: 4, Ranks: [2]int{0, 3}, Calls: [2]string{"a", "b"}},
		"peer":     &backend.PeerError{Comm: "world", Rank: 2, Err: cause},
		"abort":    &backend.AbortError{Comm: "world", Rank: 2, Err: cause},
	} {
		kind, body, readErr := readControl(bytes.NewReader(abortFrame(err)))
		if readErr != nil || kind != abortMessage {
			t.Fatalf("%s: got message %d, %v", name, kind, readErr)
		}
		got := parseAbort(body, "world", 1)
		if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", err, err) {
			t.Errorf("got %T %v; want %T %v", got, got, err, err)
		}
	}
}

// TestLongReason checks that a reason of any text leaves a message that can be read.
func TestLongReason(t *testing.T) {
	for name, text := range map[string]string{"long": strings.Repeat("x", 1<<20), "bytes": strings.Repeat("\x00\xff", 1<<20)} {
		kind, body, err := readControl(bytes.NewReader(abortFrame(&backend.AbortError{Rank: 1, Err: errors.New(text)})))
		if err != nil || kind != abortMessage {
			t.Fatalf("%s: got message %d, %v", name, kind, err)
		}
		if e, ok := errors.AsType[*backend.AbortError](parseAbort(body, "world", 1)); !ok || e.Rank != 1 {
			t.Errorf("%s: got %v; want rank 1's abort", name, e)
		}
	}
}

func FuzzReadControl(f *testing.F) {
	f.Add(byeFrame(7))
	f.Add(reportFrame(call{seq: 1, kind: barrier}))
	f.Add(abortFrame(&backend.PeerError{Rank: 1, Err: errors.New("gone")}))
	f.Add(frame(abortMessage, []byte(`{"mismatch":{}}`)))
	f.Add([]byte{1, 0xff, 0xff})
	f.Add([]byte{9, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, body, err := readControl(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := frame(kind, body); !bytes.HasPrefix(b, again) {
			t.Errorf("read %q as %q", b, again)
		}
		if kind == abortMessage {
			if err := parseAbort(body, "world", 3); !bytes.Equal(abortFrame(err)[:1], b[:1]) || err.Error() == "" {
				t.Errorf("%q: got %v", body, err)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{lane: dataLane, from: 3, to: 1, nonce: [nonceLen]byte{1, 2}}.append(nil))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err == nil && !bytes.Equal(h.append(nil), b) {
			t.Errorf("read %x as %+v", b, h)
		}
	})
}

func FuzzCall(f *testing.F) {
	for _, k := range calls {
		f.Add(k.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < callLen {
			return
		}
		if k := parseCall(b); !bytes.Equal(k.append(nil), b[:callLen]) || k.String() == "" {
			t.Errorf("read %x as %v", b, k)
		}
	})
}

func FuzzParseChoice(f *testing.F) {
	for _, s := range []string{"", "allreduce:ring", "allreduce:star, ", "allreduce", "ring", "broadcast:tree,allreduce:ring"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseChoice(s)
		if err != nil && c != (choice{}) {
			t.Errorf("%q: got both %v and %v", s, c, err)
		}
		if err == nil && c.allreduce != auto && !strings.Contains(s, "allreduce:"+c.allreduce.String()) {
			t.Errorf("%q: got %v", s, c)
		}
	})
}

func TestParseChoice(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       algorithm
		err        string
	}{
		{"empty", "", auto, ""},
		{"ring", "allreduce:ring", ring, ""},
		{"star-spaced", " allreduce:star , ", star, ""},
		{"last-wins", "allreduce:ring,allreduce:star", star, ""},
		{"no-algorithm", "allreduce", auto, `"allreduce": allreduce has ring and star`},
		{"unknown-algorithm", "allreduce:tree", auto, `"allreduce:tree": allreduce has ring and star`},
		{"unknown-collective", "gather:ring", auto, `"gather:ring": want allreduce:ring or allreduce:star`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseChoice(tt.text)
			if got.allreduce != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v; want %v, %q", got.allreduce, err, tt.want, tt.err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name, algo  string
		size, bytes int
		want        string
	}{
		{"short", "", 4, StarMax, "star (at most 32768 bytes)"},
		{"long", "", 4, StarMax + 1, "ring (more than 32768 bytes)"},
		{"chosen", "allreduce:star", 4, 1 << 30, "star (chosen by GORUN_ALGO)"},
		{"alone", "allreduce:star", 1, 8, "copy (one rank)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			algo, err := parseChoice(tt.algo)
			if err != nil {
				t.Fatal(err)
			}
			c := &comm{size: tt.size, session: &session{algo: algo}}
			if got := c.Explain(tt.bytes); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// TestBinomial checks, for all sizes and roots, that parents and children agree and
// that every rank is reached once.
func TestBinomial(t *testing.T) {
	for size := 1; size <= 17; size++ {
		for root := range size {
			reached := make([]int, size)
			reached[root]++
			for rank := range size {
				parent, children := binomial(rank, root, size)
				if (parent == -1) != (rank == root) {
					t.Errorf("size %d, root %d: rank %d has parent %d", size, root, rank, parent)
				}
				for _, child := range children {
					reached[child]++
					if p, _ := binomial(child, root, size); p != rank {
						t.Errorf("size %d, root %d: rank %d has child %d, whose parent is %d", size, root, rank, child, p)
					}
				}
			}
			if slices.Max(reached) != 1 || slices.Min(reached) != 1 {
				t.Errorf("size %d, root %d: ranks are reached %v times; want once", size, root, reached)
			}
		}
	}
}

// TestBlocks checks that blocks follow each other, cover everything, and differ by an
// element at most.
func TestBlocks(t *testing.T) {
	for size := 1; size <= 9; size++ {
		for count := range 30 {
			c, o := &comm{size: size}, &op{call: call{count: uint64(count), dtype: backend.Int64}}
			at := 0
			for i := range size {
				b := c.block(o, i)
				if b.from != at || b.len()%8 != 0 || b.len()/8 < count/size || b.len()/8 > count/size+1 {
					t.Errorf("block %d of %d elements in %d: got bytes %d to %d; want from %d", i, count, size, b.from, b.to, at)
				}
				if around := c.block(o, i-2*size); around != b {
					t.Errorf("block %d: got %v; want %v", i-2*size, around, b)
				}
				at = b.to
			}
			if at != 8*count {
				t.Errorf("%d elements in %d blocks: got %d bytes", count, size, at)
			}
		}
	}
}

func TestSegments(t *testing.T) {
	for _, n := range []int{0, 1, segment - 1, segment, segment + 1, 3*segment + 5} {
		at := 0
		for s := range segments(make([]byte, n)) {
			if s.from != at || s.len() < 1 || s.len() > segment {
				t.Errorf("%d bytes: got a segment from %d to %d after %d", n, s.from, s.to, at)
			}
			at = s.to
		}
		if at != n {
			t.Errorf("%d bytes: segments end at %d", n, at)
		}
	}
}

// TestRoomIsAligned asks for little first: what is made then is used for elements of
// other sizes later.
func TestRoomIsAligned(t *testing.T) {
	for range 100 {
		c := &comm{}
		for _, n := range []int{1, 2, 4, 8, 12, 64, 100, 104} {
			b := c.room(n)
			if at := uintptr(unsafe.Pointer(&b[0])); len(b) != n || at%8 != 0 {
				t.Fatalf("got %d bytes at %#x; want %d, aligned", len(b), at, n)
			}
		}
	}
}

// TestDivide has more ranks than some types can count.
func TestDivide(t *testing.T) {
	divided[int8](t, []int8{-128, 127}, 256, []int8{0, 0})
	divided[int16](t, []int16{-1000, 1000}, 300, []int16{-3, 3})
	divided[int32](t, []int32{-7, 7}, 2, []int32{-3, 3})
	divided[int64](t, []int64{-1 << 63, 7}, 2, []int64{-1 << 62, 3})
	divided[uint8](t, []uint8{255, 7}, 256, []uint8{0, 0})
	divided[uint16](t, []uint16{65535, 7}, 256, []uint16{255, 0})
	divided[uint32](t, []uint32{1 << 31, 7}, 2, []uint32{1 << 30, 3})
	divided[uint64](t, []uint64{1 << 63, 7}, 2, []uint64{1 << 62, 3})
	divided[float32](t, []float32{1, 7}, 2, []float32{0.5, 3.5})
	divided[float64](t, []float64{1, 7}, 2, []float64{0.5, 3.5})
}

func divided[T backend.Element](t *testing.T, s []T, n int, want []T) {
	t.Helper()
	b := backend.Of(s)
	divide(b.DType(), b.Bytes(), n)
	if !slices.Equal(s, want) {
		t.Errorf("%v divided by %d: got %v; want %v", b.DType(), n, s, want)
	}
}

// TestHandshake lets a dialer and an acceptor meet that differ in what they know.
func TestHandshake(t *testing.T) {
	right := keys{testSecret, "world/0/4"}
	for _, tt := range []struct {
		name   string
		dialer keys
		from   uint32
		to     uint32
		ok     bool
	}{
		{"right", right, 3, 1, true},
		{"secret", keys{[]byte("other"), right.comm}, 3, 1, false},
		{"communicator", keys{testSecret, "world.1.0/0/4"}, 3, 1, false},
		{"wrong-rank", right, 3, 2, false},
		{"lower-rank", right, 0, 1, false},
		{"itself", right, 1, 1, false},
		{"no-rank", right, 4, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := net.Pipe()
			deadline := time.Now().Add(10 * time.Second)
			a.SetDeadline(deadline)
			b.SetDeadline(deadline)
			greeted := make(chan error, 1)
			go func() {
				greeted <- tt.dialer.greet(a, hello{lane: controlLane, from: tt.from, to: tt.to})
				a.Close()
			}()
			h, err := right.admit(b, 1, 4)
			b.Close()
			if greetErr := <-greeted; (err == nil) != tt.ok || (greetErr == nil) != tt.ok {
				t.Errorf("got %v, %v; want success %v", greetErr, err, tt.ok)
			}
			if tt.ok && (h.from != 3 || h.lane != controlLane) {
				t.Errorf("got %+v", h)
			}
		})
	}
}

// TestReflection sends an acceptor's own proof back to it, and a dialer's to a dialer.
func TestReflection(t *testing.T) {
	k := keys{testSecret, "world/0/4"}
	first, nonce := hello{lane: dataLane, from: 3, to: 1}.append(nil), make([]byte, nonceLen)
	if bytes.Equal(k.proof("acceptor", first, nonce), k.proof("dialer", first, nonce)) {
		t.Error("both sides prove themselves alike")
	}
	if bytes.Equal(k.proof("dialer", first, nonce), k.proof("dialer", first[1:], append(first[:1:1], nonce...))) {
		t.Error("parts are not told apart")
	}
}
