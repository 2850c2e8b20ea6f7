// Package bcast is what head and agents agree on when they bring files to hosts: how a
// file is checked, who gets it from whom, and how two agents find out that they belong
// to the same job.
//
// A file is known by its root, a hash over the hashes of its pieces. Who has the root
// from the head can take the rest from anybody: first the list of the pieces' hashes,
// which the root proves, then the pieces, each of which the list proves. So a host can
// pass on a piece as soon as it has it, and nothing wrong goes further than one hop.
//
// Package bcast knows nothing of frames, connections or where files are.
package bcast

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
)

// PieceSize is the size of a piece, in bytes; the last one of a file may be shorter. It
// is what a host must have of a file before it can pass any of it on.
const PieceSize = 1 << 20

// HashSize is the length of a hash, in bytes.
const HashSize = sha256.Size

// MaxSize bounds a file's size: its list must fit into memory.
const MaxSize = 1 << 42

// Root is what a file's content is known by.
type Root [HashSize]byte

// Item is a file as its receiver sees it.
type Item struct {
	Size int64
	Root Root
}

// Pieces is the number of pieces of a file of that size.
func Pieces(size int64) int { return int((size + PieceSize - 1) / PieceSize) }

// Length is the length of piece n of a file of that size.
func Length(size int64, n int) int { return int(min(PieceSize, size-int64(n)*PieceSize)) }

// Hash is the hash of one piece.
func Hash(piece []byte) [HashSize]byte { return sha256.Sum256(piece) }

// RootOf is the root of a file of that size with that list: the hashes of its pieces,
// one behind the other.
func RootOf(size int64, list []byte) Root {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64([]byte("gorun file\x00"), uint64(size)))
	h.Write(list)
	return Root(h.Sum(nil))
}

// List reads a file of that size and returns its list. read is told how many bytes more
// have been read; it may be nil. The error is ctx's, r's, or io.ErrUnexpectedEOF for a
// file that is shorter.
func List(ctx context.Context, r io.ReaderAt, size int64, read func(n int)) ([]byte, error) {
	list := make([]byte, 0, Pieces(size)*HashSize)
	buf := make([]byte, min(PieceSize, size))
	for n := range Pieces(size) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		piece := buf[:Length(size, n)]
		if err := ReadPiece(r, n, piece); err != nil {
			return nil, err
		}
		h := Hash(piece)
		list = append(list, h[:]...)
		if read != nil {
			read(len(piece))
		}
	}
	return list, nil
}

// ReadPiece reads piece n of a file into buf, which has its length.
func ReadPiece(r io.ReaderAt, n int, buf []byte) error {
	got, err := r.ReadAt(buf, int64(n)*PieceSize)
	switch {
	case got == len(buf):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Proves reports whether list says that piece n is this one.
func Proves(list []byte, n int, piece []byte) bool {
	at := n * HashSize
	return at+HashSize <= len(list) && Hash(piece) == [HashSize]byte(list[at:at+HashSize])
}
