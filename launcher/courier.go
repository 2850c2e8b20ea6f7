package launcher

import (
	"errors"
	"os"
	"sync"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// courier sends files to one host, against the credit that the host grants. It is a
// bcast.Source. Its methods run in one goroutine, but for grant and stop.
type courier struct {
	cargo *cargo
	send  *wire.Sender
	want  *wire.Want
	open  *os.File
	buf   []byte // nil: no piece is in memory

	mu     sync.Mutex
	cond   *sync.Cond
	credit int  // guarded by mu
	ended  bool // guarded by mu
}

// errDropped ends a courier whose host was let go.
var errDropped = errors.New("the host was let go")

func newCourier(c *cargo, send *wire.Sender) *courier {
	k := &courier{cargo: c, send: send}
	k.cond = sync.NewCond(&k.mu)
	return k
}

// grant lets n more bytes go.
func (k *courier) grant(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.credit += n
	k.cond.Signal()
}

// stop ends run.
func (k *courier) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.cond.Signal()
}

// await waits until n bytes may go.
func (k *courier) await(n int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.credit < n && !k.ended {
		k.cond.Wait()
	}
	if k.ended {
		return errDropped
	}
	return nil
}

// run sends what is wanted. An error is a *ChangedError or *FileError if it is about a file, else
// about the link, whose reader tells it.
func (k *courier) run(want *wire.Want) error {
	k.want = want
	k.grant(want.Credit)
	sizes := make([]int64, len(want.Files))
	for i, n := range want.Files {
		sizes[i] = k.cargo.files[n].size
	}
	defer k.putDown()
	defer func() {
		if k.open != nil {
			k.open.Close()
		}
	}()
	return bcast.Send(k, sizes, want.Piece, k.emit)
}

func (k *courier) List(i int) ([]byte, error) {
	if k.open != nil {
		k.open.Close()
	}
	f := &k.cargo.files[k.want.Files[i]]
	var err error
	if k.open, err = f.open(); err != nil {
		return nil, &FileError{f.path, !f.needed, bareError(err)}
	}
	return f.list, nil
}

// Piece reads a piece when all of it may go: a host that is slow holds no memory here.
func (k *courier) Piece(i, n int) ([]byte, error) {
	f := &k.cargo.files[k.want.Files[i]]
	length := bcast.Length(f.size, n)
	if err := k.await(length); err != nil {
		return nil, err
	}
	k.cargo.room <- struct{}{}
	k.buf = make([]byte, length)
	if err := bcast.ReadPiece(k.open, n, k.buf); err != nil || !bcast.Proves(f.list, n, k.buf) {
		return nil, &ChangedError{f.path}
	}
	return k.buf, nil
}

// putDown makes room for the piece of another host.
func (k *courier) putDown() {
	if k.buf != nil {
		k.buf = nil
		<-k.cargo.room
	}
}

func (k *courier) emit(i int, p []byte) error {
	defer k.putDown()
	for len(p) > 0 {
		n := min(len(p), wire.MaxPayload)
		if err := k.await(n); err != nil {
			return err
		}
		if err := k.send.SendBulk(wire.Frame{Kind: wire.Content, Stream: uint32(k.want.Files[i]), Payload: p[:n]}); err != nil {
			return err
		}
		k.grant(-n)
		k.cargo.sent.Add(int64(n))
		p = p[n:]
	}
	return nil
}
