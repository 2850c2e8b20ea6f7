package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gorun/launcher/wire"
)

// contentWindow is how many bytes of files may be under way from the head to a host, in
// the link and in memory. It is some pieces: the head sends a piece when there is credit
// for all of it.
const contentWindow = 4 << 20

// inbox holds files' bytes from the head until they are written: the link's reader must
// not wait for a disk.
type inbox struct {
	grant func(wire.Frame) // must not block
	wake  chan struct{}    // capacity 1

	mu    sync.Mutex
	queue []wire.Frame // guarded by mu
	room  int          // guarded by mu; granted and not yet received
	owed  int          // written and not yet granted again; owned by who calls next
}

func newInbox(grant func(wire.Frame)) *inbox {
	return &inbox{grant: grant, wake: make(chan struct{}, 1)}
}

// open lets the head send, by a Want that says how much.
func (b *inbox) open() (credit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room += contentWindow
	return contentWindow
}

// push queues a copy of f. It does not block.
func (b *inbox) push(f wire.Frame) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(f.Payload) > b.room {
		return errors.New("files beyond their credit")
	}
	b.room -= len(f.Payload)
	f.Payload = append([]byte(nil), f.Payload...)
	b.queue = append(b.queue, f)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

// next waits for the next frame.
func (b *inbox) next(ctx context.Context) (wire.Frame, error) {
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			f := b.queue[0]
			b.queue = b.queue[1:]
			b.mu.Unlock()
			return f, nil
		}
		b.mu.Unlock()
		select {
		case <-b.wake:
		case <-ctx.Done():
			return wire.Frame{}, ctx.Err()
		}
	}
}

// written returns the credit of n bytes to the head.
func (b *inbox) written(n int) {
	if b.owed += n; b.owed < contentWindow/8 {
		return
	}
	b.mu.Lock()
	b.room += b.owed
	b.mu.Unlock()
	b.grant(wire.CreditFrame(wire.FileStream, b.owed))
	b.owed = 0
}

// takeContent hands files' bytes to the one who waits for them.
func (a *agent) takeContent(f wire.Frame) error {
	s := a.stager.Load()
	if s == nil {
		return fmt.Errorf("%w: files that were not announced", errFrame)
	}
	return s.in.push(f)
}
