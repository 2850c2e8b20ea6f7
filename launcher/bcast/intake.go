package bcast

import (
	"errors"
	"fmt"
)

// ErrCorrupt is returned by Intake.Write for bytes that are not those of the file.
var ErrCorrupt = errors.New("what came is not the file")

// Intake puts together what one sender sends: for each item in turn its list, then its
// content. It hands on only what it has proved.
type Intake struct {
	items []Item
	at    int    // item that comes
	first int    // piece its content begins with
	list  []byte // of items[at], as far as it has come
	buf   []byte // piece that comes
	n     int    // its number

	listed func(item int, list []byte) error            // takes a proved list over
	piece  func(item, n int, p []byte, last bool) error // takes a proved piece; p is valid during the call
}

// NewIntake is an intake of items, of the first of which the content comes from piece
// first on. None may be empty. listed and piece are told what has come; an error of
// theirs ends the intake.
func NewIntake(items []Item, first int, listed func(item int, list []byte) error, piece func(item, n int, p []byte, last bool) error) *Intake {
	return &Intake{items: items, first: first, listed: listed, piece: piece}
}

// Done reports whether all has come.
func (t *Intake) Done() bool { return t.at == len(t.items) }

// Write takes bytes of an item; they may end anywhere, but not behind the item.
func (t *Intake) Write(item int, p []byte) error {
	if t.Done() || item != t.at || len(p) == 0 {
		return fmt.Errorf("%w: bytes of file %d, not of %d", ErrCorrupt, item, t.at)
	}
	for len(p) > 0 {
		if t.Done() || item != t.at {
			return fmt.Errorf("%w: it is longer", ErrCorrupt)
		}
		var err error
		if n := Pieces(t.items[t.at].Size) * HashSize; len(t.list) < n {
			p, err = t.takeList(p, n)
		} else {
			p, err = t.takePiece(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Intake) takeList(p []byte, whole int) (rest []byte, err error) {
	n := min(whole-len(t.list), len(p))
	t.list = append(t.list, p[:n]...)
	if len(t.list) < whole {
		return nil, nil
	}
	it := t.items[t.at]
	if RootOf(it.Size, t.list) != it.Root {
		return nil, fmt.Errorf("%w: wrong list", ErrCorrupt)
	}
	t.n = t.first
	return p[n:], t.listed(t.at, t.list)
}

func (t *Intake) takePiece(p []byte) (rest []byte, err error) {
	it := t.items[t.at]
	whole := Length(it.Size, t.n)
	n := min(whole-len(t.buf), len(p))
	piece := p[:n]
	if n < whole { // it has not come in one
		t.buf = append(t.buf, piece...)
		piece = t.buf
	}
	if len(piece) < whole {
		return nil, nil
	}
	if !Proves(t.list, t.n, piece) {
		return nil, fmt.Errorf("%w: piece %d", ErrCorrupt, t.n)
	}
	last := t.n+1 == Pieces(it.Size)
	err = t.piece(t.at, t.n, piece, last)
	t.buf = t.buf[:0]
	t.n++
	if last {
		t.at, t.first, t.list = t.at+1, 0, nil
	}
	return p[n:], err
}

// A Source has files to send. Both methods may block.
type Source interface {
	List(item int) ([]byte, error)
	Piece(item, n int) ([]byte, error) // valid until the next call
}

// Send passes what an Intake of the same items takes to emit, and returns the first
// error.
func Send(src Source, sizes []int64, first int, emit func(item int, p []byte) error) error {
	for item, size := range sizes {
		list, err := src.List(item)
		if err == nil {
			err = emit(item, list)
		}
		for n := first; err == nil && n < Pieces(size); n++ {
			var p []byte
			if p, err = src.Piece(item, n); err == nil {
				err = emit(item, p)
			}
		}
		if err != nil {
			return err
		}
		first = 0
	}
	return nil
}
