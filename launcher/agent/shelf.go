package agent

import (
	"context"
	"os"
	"sync"

	"gorun/launcher/bcast"
)

// shelf is what of a job's files is on this host at the moment, for other hosts to take.
// Its methods may be called from any goroutine.
type shelf struct {
	mu    sync.Mutex
	moved chan struct{} // guarded by mu; closed and replaced when more is there
	files []shelved     // guarded by mu; by number
}

// shelved is one file of a shelf.
type shelved struct {
	size   int64
	path   string // where its content is; "" before any of it is
	list   []byte // nil: not there yet
	pieces int    // that are there, from the first
}

func newShelf(sizes []int64) *shelf {
	h := &shelf{moved: make(chan struct{}), files: make([]shelved, len(sizes))}
	for i, n := range sizes {
		h.files[i].size = n
	}
	return h
}

// change has do change file i, and wakes who waits for that.
func (h *shelf) change(i int, do func(f *shelved)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do(&h.files[i])
	close(h.moved)
	h.moved = make(chan struct{})
}

// whole notes that all of file i is at path.
func (h *shelf) whole(i int, path string) {
	h.change(i, func(f *shelved) { f.path, f.pieces = path, bcast.Pieces(f.size) })
}

func (h *shelf) get(i int) (f shelved, moved chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files[i], h.moved
}

// taker is one host that takes files from a shelf, of which it gives the numbers. It is
// a bcast.Source.
type taker struct {
	ctx   context.Context
	shelf *shelf
	files []int
	idle  func(moved chan struct{}) error // waits until moved is closed
	alive func() error                    // is called from time to time by what takes long
	open  *os.File
	buf   []byte
}

func (t *taker) close() {
	if t.open != nil {
		t.open.Close()
		t.open = nil
	}
}

// wait returns file i of the wanted ones as soon as it is ready.
func (t *taker) wait(i int, ready func(f shelved) bool) (shelved, error) {
	for {
		f, moved := t.shelf.get(t.files[i])
		if ready(f) {
			return f, nil
		}
		if err := t.idle(moved); err != nil {
			return f, err
		}
	}
}

// List waits for the file's list. Of a file that was here before, it is made now.
func (t *taker) List(i int) ([]byte, error) {
	t.close()
	f, err := t.opened(i)
	if err != nil || f.list != nil {
		return f.list, err
	}
	var dead error
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	list, err := bcast.List(ctx, t.open, f.size, func(int) {
		if dead = t.alive(); dead != nil {
			cancel()
		}
	})
	if dead != nil {
		return nil, dead
	}
	if err == nil {
		t.shelf.change(t.files[i], func(f *shelved) { f.list = list })
	}
	return list, err
}

// opened opens file i as soon as any of it is there. One that is whole may just be on the
// way from one name to the other.
func (t *taker) opened(i int) (f shelved, err error) {
	for tried := ""; ; tried = f.path {
		if f, err = t.wait(i, func(f shelved) bool { return f.path != tried }); err != nil {
			return f, err
		}
		if t.open, err = os.Open(f.path); err == nil || tried != "" || !os.IsNotExist(err) {
			return f, err
		}
	}
}

// Piece waits for a piece of the file whose list was the last.
func (t *taker) Piece(i, n int) ([]byte, error) {
	f, err := t.wait(i, func(f shelved) bool { return f.pieces > n })
	if err != nil {
		return nil, err
	}
	if t.buf == nil {
		t.buf = make([]byte, bcast.PieceSize)
	}
	p := t.buf[:bcast.Length(f.size, n)]
	return p, bcast.ReadPiece(t.open, n, p)
}
