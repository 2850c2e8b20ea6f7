package bcast

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// content is so many bytes that no two pieces of are equal.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	r.Read(b)
	return b
}

// library is a Source of whole files.
type library [][]byte

func (l library) List(i int) ([]byte, error) {
	return List(context.Background(), bytes.NewReader(l[i]), int64(len(l[i])), nil)
}

func (l library) Piece(i, n int) ([]byte, error) {
	at := n * PieceSize
	return l[i][at : at+Length(int64(len(l[i])), n)], nil
}

func (l library) items(t testing.TB) (items []Item, sizes []int64) {
	for i, b := range l {
		list, err := l.List(i)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, Item{int64(len(b)), RootOf(int64(len(b)), list)})
		sizes = append(sizes, int64(len(b)))
	}
	return items, sizes
}

// reader is an Intake, and what it has put together.
type reader struct {
	*Intake
	got  [][]byte
	last []bool
}

func newReader(items []Item, first int) *reader {
	r := &reader{got: make([][]byte, len(items)), last: make([]bool, len(items))}
	r.Intake = NewIntake(items, first, func(int, []byte) error { return nil }, func(i, n int, p []byte, last bool) error {
		if at := n * PieceSize; i > 0 || first == 0 {
			if at != len(r.got[i]) {
				return errors.New("pieces out of order")
			}
		}
		r.got[i] = append(r.got[i], p...)
		r.last[i] = last
		return nil
	})
	return r
}

func TestSendAndIntake(t *testing.T) {
	files := library{content(1), content(PieceSize), content(3*PieceSize + 7), content(PieceSize - 1)}
	items, sizes := files.items(t)
	for _, step := range []int{1 << 30, 32 << 10, 1000} {
		r := newReader(items, 0)
		err := Send(files, sizes, 0, func(i int, p []byte) error {
			for len(p) > 0 {
				n := min(step, len(p))
				if err := r.Write(i, p[:n]); err != nil {
					return err
				}
				p = p[n:]
			}
			return nil
		})
		if err != nil || !r.Done() {
			t.Fatalf("in steps of %d: %v, done %v", step, err, r.Done())
		}
		for i := range files {
			if !bytes.Equal(r.got[i], files[i]) || !r.last[i] {
				t.Errorf("in steps of %d: file %d came as %d bytes, last %v; want %d", step, i, len(r.got[i]), r.last[i], len(files[i]))
			}
		}
	}
}

func TestResume(t *testing.T) {
	files := library{content(3*PieceSize + 7), content(5)}
	items, sizes := files.items(t)
	r := newReader(items, 2)
	if err := Send(files, sizes, 2, r.Write); err != nil || !r.Done() {
		t.Fatalf("got %v, done %v", err, r.Done())
	}
	if !bytes.Equal(r.got[0], files[0][2*PieceSize:]) || !bytes.Equal(r.got[1], files[1]) {
		t.Errorf("got %d and %d bytes", len(r.got[0]), len(r.got[1]))
	}
}

func TestCorrupt(t *testing.T) {
	files := library{content(2*PieceSize + 9), content(5)}
	items, sizes := files.items(t)
	stream := func() (out [][]byte) { // list, pieces, list, piece
		Send(files, sizes, 0, func(_ int, p []byte) error { out = append(out, bytes.Clone(p)); return nil })
		return out
	}
	flip := func(b []byte, at int) { b[at] ^= 1 }
	tests := map[string]struct {
		spoil  func(s [][]byte)
		pieces int // that are taken nevertheless
	}{
		"list":         {func(s [][]byte) { flip(s[0], 40) }, 0},
		"first-piece":  {func(s [][]byte) { flip(s[1], 0) }, 0},
		"second-piece": {func(s [][]byte) { flip(s[2], PieceSize-1) }, 1},
		"swapped":      {func(s [][]byte) { s[1], s[2] = s[2], s[1] }, 0},
		"last-piece":   {func(s [][]byte) { flip(s[3], 8) }, 2},
		"longer":       {func(s [][]byte) { s[3] = append(s[3], 1) }, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := stream()
			tt.spoil(s)
			r := newReader(items, 0)
			var err error
			for _, p := range s[:4] {
				if err = r.Write(0, p); err != nil {
					break
				}
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v; want %v", err, ErrCorrupt)
			}
			if n := Pieces(int64(len(r.got[0]))); n != tt.pieces {
				t.Errorf("%d pieces were taken; want %d", n, tt.pieces)
			}
		})
	}
	r := newReader(items, 0)
	if err := r.Write(1, []byte{1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("bytes of another file: got %v", err)
	}
}

func TestShorterFile(t *testing.T) {
	_, err := List(t.Context(), strings.NewReader("abc"), 4, nil)
	if err != io.ErrUnexpectedEOF {
		t.Errorf("got %v; want %v", err, io.ErrUnexpectedEOF)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := List(ctx, strings.NewReader("abc"), 3, nil); err != context.Canceled {
		t.Errorf("got %v; want %v", err, context.Canceled)
	}
}

func TestRootDependsOnSize(t *testing.T) {
	if RootOf(1, nil) == RootOf(2, nil) {
		t.Error("files of different sizes have the same root")
	}
}

func TestParent(t *testing.T) {
	const gigabyte = 1000 * PieceSize
	tests := map[string]struct {
		hosts int
		bytes int64
		depth int // of the last host
	}{
		"two":          {2, gigabyte, 2},
		"chain":        {16, gigabyte, 16},
		"longer-chain": {1000, gigabyte, 1000},
		"tree":         {4095, gigabyte, 12},
		"small-file":   {1000, PieceSize, 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			children := map[int]int{}
			deepest := 0
			for i := range tt.hosts {
				depth := 1
				p := Parent(i, tt.hosts, tt.bytes)
				children[p]++
				for ; p >= 0; p = Parent(p, tt.hosts, tt.bytes) {
					if p >= i {
						t.Fatalf("host %d gets files from %d, which comes later", i, p)
					}
					depth++
				}
				deepest = max(deepest, depth)
			}
			if deepest != tt.depth {
				t.Errorf("got depth %d; want %d", deepest, tt.depth)
			}
			for p, n := range children {
				if n > 2 || p == -1 && n != 1 {
					t.Errorf("host %d has %d children", p, n)
				}
			}
		})
	}
}

func TestRelayed(t *testing.T) {
	tests := map[string]struct {
		hosts int
		bytes int64
		want  bool
	}{
		"one-host":        {1, 1 << 40, false},
		"small":           {16, 1 << 20, false},
		"big-to-two":      {2, 1 << 30, true},
		"small-to-many":   {1000, 1 << 20, true},
		"nothing-to-many": {1000, 0, false},
	}
	for name, tt := range tests {
		if got := Relayed(tt.hosts, tt.bytes); got != tt.want {
			t.Errorf("%s: got %v; want %v", name, got, tt.want)
		}
	}
}

// greet has both ends greet each other, with a key each.
func greet(t *testing.T, key, answerKey []byte) (node int, err, answerErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	a.SetDeadline(time.Now().Add(10 * time.Second))
	b.SetDeadline(time.Now().Add(10 * time.Second))
	done := make(chan error, 1)
	go func() {
		err := Greet(a, key, 7)
		a.Close()
		done <- err
	}()
	node, answerErr = Answer(b, answerKey)
	b.Close()
	return node, <-done, answerErr
}

func TestGreet(t *testing.T) {
	key := bytes.Repeat([]byte{1}, KeySize)
	if node, err, answerErr := greet(t, key, key); node != 7 || err != nil || answerErr != nil {
		t.Errorf("got node %d, %v, %v; want 7", node, err, answerErr)
	}
	other := bytes.Repeat([]byte{2}, KeySize)
	if _, err, answerErr := greet(t, key, other); err == nil || answerErr != ErrStranger {
		t.Errorf("with another key: got %v, %v; want an error, %v", err, answerErr, ErrStranger)
	}
}

// TestImpostor: who listens and sends back what he is told, or anything, is none of ours.
func TestImpostor(t *testing.T) {
	key := bytes.Repeat([]byte{1}, KeySize)
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		b.Write(make([]byte, nonceSize))
		said := make([]byte, nonceSize+nodeSize+HashSize)
		io.ReadFull(b, said)
		b.Write(said[len(said)-HashSize:])
		b.Close()
	}()
	if err := Greet(a, key, 0); err != ErrStranger {
		t.Errorf("got %v; want %v", err, ErrStranger)
	}
}

// FuzzIntake sends any bytes as files: nothing but the files may be taken.
func FuzzIntake(f *testing.F) {
	files := library{content(2*PieceSize + 5), content(70)}
	items, sizes := files.items(f)
	var good []byte
	Send(library{files[1]}, sizes[1:], 0, func(_ int, p []byte) error { good = append(good, p...); return nil })
	f.Add(good, byte(1), uint16(7))
	f.Add(append(bytes.Clone(good), 0), byte(1), uint16(100))
	f.Add(good[:40], byte(0), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, which byte, step uint16) {
		r := newReader(items, 0)
		if which&1 == 1 {
			r = newReader(items[1:], 0)
		}
		for len(b) > 0 {
			n := min(int(step)+1, len(b))
			if r.Write(int(which>>1), b[:n]) != nil {
				break
			}
			b = b[n:]
		}
		for i, got := range r.got {
			if !bytes.HasPrefix(files[i+int(which&1)], got) {
				t.Errorf("file %d: bytes were taken that are not its own", i)
			}
		}
	})
}
