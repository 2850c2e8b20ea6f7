package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// transfer gets files, from one sender or from several after each other.
type transfer struct {
	s       *stager
	missing []int    // numbers of the files that have not come yet, in order
	pieces  int      // of the first that are there
	file    *os.File // the first, when some of it is there
	failed  error    // of this host's own: no other sender would help
}

// syncEvery is how many pieces may wait for the disk. Else the last of a big file would
// wait for all of it, and nobody would see that anything moves.
const syncEvery = 32

// close removes what has come of a file that is not whole.
func (t *transfer) close() {
	if t.file != nil {
		t.file.Close()
		os.Remove(t.s.depot.tmp(t.missing[0]))
	}
}

// intake takes what a sender sends from now on, which is what the Want asks for.
func (t *transfer) intake() (*wire.Want, func(f wire.Frame) (done bool, err error)) {
	numbers := slices.Clone(t.missing)
	items := make([]bcast.Item, len(numbers))
	at := map[uint32]int{}
	for i, n := range numbers {
		f := &t.s.job.Files[n]
		items[i] = bcast.Item{Size: f.Size, Root: bcast.Root(f.Root)}
		at[uint32(n)] = i
	}
	in := bcast.NewIntake(items, t.pieces,
		func(i int, list []byte) error {
			t.s.shelf.change(numbers[i], func(f *shelved) { f.list = list })
			return nil
		},
		func(i, n int, p []byte, last bool) error { return t.piece(numbers[i], n, p, last) })
	return &wire.Want{Files: numbers, Piece: t.pieces}, func(f wire.Frame) (bool, error) {
		i, ok := at[f.Stream]
		if !ok {
			return false, fmt.Errorf("%w: content of file %d", errFrame, f.Stream)
		}
		err := in.Write(i, f.Payload)
		return in.Done(), err
	}
}

// piece writes a piece of the first missing file.
func (t *transfer) piece(number, n int, p []byte, last bool) error {
	f := &t.s.job.Files[number]
	err := t.write(number, n, p, f)
	if err == nil && last {
		err = t.keep(number, f)
	}
	if err != nil {
		t.failed = t.s.explain(err, f)
	}
	return err
}

func (t *transfer) write(number, n int, p []byte, f *wire.File) (err error) {
	if t.file == nil {
		if t.file, err = t.s.depot.create(t.s.ctx, number, f); err != nil {
			return err
		}
		t.s.shelf.change(number, func(h *shelved) { h.path = t.s.depot.tmp(number) })
	}
	if _, err := t.file.WriteAt(p, int64(n)*bcast.PieceSize); err != nil {
		return err
	}
	if n%syncEvery == syncEvery-1 {
		if err := unix.Fdatasync(int(t.file.Fd())); err != nil {
			return err
		}
	}
	t.pieces = n + 1
	t.s.progress(len(p))
	t.s.shelf.change(number, func(h *shelved) { h.pieces = n + 1 })
	return nil
}

// keep puts a file that is whole in its place.
func (t *transfer) keep(number int, f *wire.File) error {
	w := t.file
	t.file, t.pieces = nil, 0
	if err := t.s.depot.keep(w, number, f); err != nil {
		os.Remove(t.s.depot.tmp(number))
		return err
	}
	t.missing = t.missing[1:]
	if err := t.s.depot.place(f); err != nil {
		return err
	}
	t.s.placed[number] = true
	t.s.shelf.change(number, func(h *shelved) { h.path = t.s.depot.path(string(f.Name)) })
	return nil
}

// explain says which directory could not take a file.
func (s *stager) explain(err error, f *wire.File) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%s: %w; %q needs %d bytes, %d are free", s.depot.root, bare(err), f.Name, f.Size, room(s.depot.root))
	}
	return fmt.Errorf("%s: %q: %w", s.depot.root, f.Name, err)
}

func (t *transfer) fromHost(addr string) error {
	want, write := t.intake()
	return takeFrom(t.s.ctx, addr, t.s.job.Key, t.s.job.Node, want, write)
}

func (t *transfer) fromHead() error {
	want, write := t.intake()
	want.Credit = t.s.in.open()
	t.s.send(wire.Message{Want: want})
	for {
		f, err := t.s.in.next(t.s.ctx)
		if err != nil {
			return err
		}
		done, err := write(f)
		if done || err != nil {
			return err
		}
		t.s.in.written(len(f.Payload))
	}
}
