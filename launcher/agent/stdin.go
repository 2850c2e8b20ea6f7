package agent

import (
	"errors"
	"os"
	"sync"

	"gorun/launcher/wire"
)

const (
	stdinBudget = 32 << 20  // bytes of stdin under way to all ranks of a job
	maxWindow   = 256 << 10 // to one rank
	minWindow   = 4 << 10
)

// stdinWindow is how many bytes of stdin each rank of this host may have under way.
// The other hosts are taken to have as many ranks that read it.
func stdinWindow(p *wire.Plan) int {
	readers := 0
	for _, r := range p.Ranks {
		if r.Stdin {
			readers++
		}
	}
	return max(min(stdinBudget/max(readers, 1)/max(p.Nodes, 1), maxWindow), minWindow)
}

// errWindow is returned for stdin that the head sent without credit.
var errWindow = errors.New("stdin beyond its credit")

// feed carries stdin to a rank by a goroutine of its own. What waits is bounded by
// the credit it grants; when nobody reads it any more it throws away what comes and
// goes on granting, so that the head is not held up.
type feed struct {
	id     uint32
	window int
	grant  func(wire.Frame) // must not block
	wake   chan struct{}    // capacity 1
	done   chan struct{}    // closed when the goroutine has ended

	mu     sync.Mutex
	queue  [][]byte // guarded by mu; nil is end of file
	room   int      // guarded by mu; granted and not yet received
	file   *os.File // guarded by mu; nil before start
	eof    bool     // guarded by mu; end of file has come
	closed bool     // guarded by mu
}

func newFeed(id uint32, window int, grant func(wire.Frame)) *feed {
	return &feed{id: id, window: window, grant: grant, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// start begins to write to f, which the feed closes, and lets the head send.
func (d *feed) start(f *os.File) {
	d.mu.Lock()
	d.file = f
	d.mu.Unlock()
	d.allow(d.window)
	go d.run(f)
}

// allow grants the head n more bytes.
func (d *feed) allow(n int) {
	d.mu.Lock()
	d.room += n
	d.mu.Unlock()
	d.grant(wire.CreditFrame(d.id, n))
}

// push queues a copy of p; an empty p is end of file. It does not block.
func (d *feed) push(p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eof { // nothing can follow
		return nil
	}
	if len(p) > d.room {
		return errWindow
	}
	d.room -= len(p)
	d.eof = len(p) == 0
	var chunk []byte
	if len(p) > 0 {
		chunk = append(chunk, p...)
	}
	d.queue = append(d.queue, chunk)
	d.poke()
	return nil
}

// close ends the rank's stdin at once and waits for the goroutine.
func (d *feed) close() {
	d.mu.Lock()
	d.closed = true
	f := d.file
	d.mu.Unlock()
	d.poke()
	if f != nil {
		f.Close()
		<-d.done
	}
}

func (d *feed) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *feed) take() (queue [][]byte, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	queue, d.queue = d.queue, nil
	return queue, d.closed
}

func (d *feed) run(f *os.File) {
	defer close(d.done)
	defer f.Close()
	for {
		queue, closed := d.take()
		if closed {
			return
		}
		for _, chunk := range queue {
			d.write(f, chunk)
		}
		if len(queue) == 0 {
			<-d.wake
		}
	}
}

// write passes one chunk on, or closes f at its end. A rank that has closed its
// stdin is no error.
func (d *feed) write(f *os.File, chunk []byte) {
	if len(chunk) == 0 {
		f.Close() // a later write fails, and is dropped
		return
	}
	f.Write(chunk)
	d.allow(len(chunk))
}
