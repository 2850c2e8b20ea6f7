package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"
)

func TestOf(t *testing.T) {
	s := []float32{1, 2, 3}
	b := Of(s[1:])
	if b.DType() != Float32 || b.Count() != 2 || len(b.Bytes()) != 8 {
		t.Errorf("got %v, count %d, %d bytes; want float32, 2, 8", b.DType(), b.Count(), len(b.Bytes()))
	}
	if got := unsafe.Pointer(&b.Bytes()[0]); got != unsafe.Pointer(&s[1]) {
		t.Errorf("got memory at %p; want the slice's own, %p", got, &s[1])
	}
}

func TestOfTypes(t *testing.T) {
	for _, tt := range []struct {
		buffer Buffer
		dtype  DType
		name   string
		size   int
	}{
		{Of([]int8{1}), Int8, "int8", 1},
		{Of([]int16{1}), Int16, "int16", 2},
		{Of([]int32{1}), Int32, "int32", 4},
		{Of([]int64{1}), Int64, "int64", 8},
		{Of([]uint8{1}), Uint8, "uint8", 1},
		{Of([]uint16{1}), Uint16, "uint16", 2},
		{Of([]uint32{1}), Uint32, "uint32", 4},
		{Of([]uint64{1}), Uint64, "uint64", 8},
		{Of([]float32{1}), Float32, "float32", 4},
		{Of([]float64{1}), Float64, "float64", 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.buffer.DType()
			if d != tt.dtype || d.String() != tt.name || d.Size() != tt.size || len(tt.buffer.Bytes()) != tt.size {
				t.Errorf("got %v of %d bytes, buffer of %d; want %s of %d", d, d.Size(), len(tt.buffer.Bytes()), tt.name, tt.size)
			}
		})
	}
}

func TestOfNothing(t *testing.T) {
	for name, b := range map[string]Buffer{"nil": Of[int64](nil), "empty": Of([]int64{})} {
		if b.Count() != 0 || len(b.Bytes()) != 0 || b.DType() != Int64 {
			t.Errorf("%s: got %d elements, %d bytes, %v; want none of int64", name, b.Count(), len(b.Bytes()), b.DType())
		}
	}
	if d := (Buffer{}).DType(); d.Size() != 0 || d.String() != "no type" {
		t.Errorf("zero buffer: got %v of %d bytes; want no type of 0", d, d.Size())
	}
	if d := DType(200); d.Size() != 0 || d.String() != "type 200" {
		t.Errorf("unknown type: got %v of %d bytes", d, d.Size())
	}
}

func TestOp(t *testing.T) {
	for op, want := range map[Op]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg", 0: "no operation", 9: "operation 9"} {
		if op.String() != want {
			t.Errorf("got %q; want %q", op, want)
		}
		if valid := op >= Sum && op <= Avg; op.Valid() != valid {
			t.Errorf("%v: got valid %v; want %v", op, op.Valid(), valid)
		}
	}
}

func TestOpen(t *testing.T) {
	opened := errors.New("opened")
	openers := map[string]Opener{
		"cpu":  func(context.Context) (Comm, error) { return nil, opened },
		"fake": func(context.Context) (Comm, error) { return nil, errors.ErrUnsupported },
	}
	for _, tt := range []struct {
		name, value string
		want        error
	}{
		{"unset", "", opened},
		{"cpu", "cpu", opened},
		{"other", "fake", errors.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GORUN_BACKEND", tt.value)
			if _, err := Open(t.Context(), openers); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
		})
	}
	t.Setenv("GORUN_BACKEND", "gpu")
	if _, err := Open(t.Context(), openers); err == nil || !strings.Contains(err.Error(), `"gpu", only cpu, fake`) {
		t.Errorf("got %v; want the backends there are", err)
	}
}

func TestErrorTexts(t *testing.T) {
	cause := errors.New("connection closed")
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"mismatch": {
			&MismatchError{Comm: "world", Seq: 3, Ranks: [2]int{0, 2}, Calls: [2]string{"barrier", "broadcast"}},
			"world: call 3 differs: rank 0 called barrier, rank 2 called broadcast",
		},
		"peer":  {&PeerError{Comm: "world", Rank: 2, Err: cause}, "world: rank 2 is gone: connection closed"},
		"abort": {&AbortError{Comm: "world", Rank: 1, Err: cause}, "world: rank 1 gave up: connection closed"},
	} {
		if tt.err.Error() != tt.want {
			t.Errorf("%s: got %q; want %q", name, tt.err, tt.want)
		}
		if name != "mismatch" && !errors.Is(tt.err, cause) {
			t.Errorf("%s: does not wrap its cause", name)
		}
	}
}
