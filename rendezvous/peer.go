package rendezvous

import (
	"bufio"
	"container/list"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxQueue is how many bytes of answers a connection may have waiting before its
	// next request is read: a client that does not read stops only itself.
	maxQueue = 256 << 10

	answerCost   = 256         // of an answer's line, roughly, in that sum
	lastAnswer   = time.Second // for a client to take its last answers when it must go
	lastBytes    = 1 << 20     // that a client may still send then
	fullWrite    = 32 << 10    // bytes that are written without waiting for more answers to go with them
	largestReuse = 128 << 10   // bytes of a write buffer that is kept
)

// peer is a connection of the Server. One goroutine reads and one writes.
type peer struct {
	conn     net.Conn
	in       *bufio.Reader
	session  session       // guarded by the Server's mu, but for epoch in the reader
	stranger *list.Element // guarded by the Server's mu; nil after hello, but for one that was refused

	mu     sync.Mutex
	change sync.Cond // queue, waiting or closed changed
	queue  []Reply   // guarded by mu
	bytes  int       // guarded by mu; of queue and of what is being written
	closed bool      // guarded by mu; no answer will follow
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, in: bufio.NewReaderSize(conn, MaxLine)}
	p.change.L = &p.mu
	p.session.answer = p.answer
	return p
}

// answer queues r. It does not block: what it may queue is bounded by the requests
// that a rank may have waiting.
func (p *peer) answer(r Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.queue = append(p.queue, r)
		p.bytes += answerCost + len(r.Value)
		p.change.Broadcast()
	}
}

// room waits until the client has taken most of its answers. It reports false when
// the connection has failed.
func (p *peer) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.bytes > maxQueue {
		p.change.Wait()
	}
	return !p.closed
}

// finish lets the writer end after what is queued, for which the client gets a
// moment.
func (p *peer) finish() {
	p.conn.SetWriteDeadline(time.Now().Add(lastAnswer))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.change.Broadcast()
}

// drain reads what a client that was refused still sends, without end for a moment at
// most. Were its connection closed with bytes unread, it would see that fail while it
// writes, or in the place of its answer.
func (p *peer) drain() {
	p.conn.SetReadDeadline(time.Now().Add(lastAnswer))
	if c, ok := p.conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
	io.CopyN(io.Discard, p.in, lastBytes)
}

// take returns all that is queued, waiting for something; nothing at the end.
func (p *peer) take() []Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.closed {
		p.change.Wait()
	}
	queue := p.queue
	p.queue = nil
	return queue
}

// write sends answers until finish, or until the connection fails.
func (p *peer) write() {
	var buf []byte
	for {
		queue := p.take()
		if len(queue) == 0 {
			return
		}
		for len(queue) > 0 {
			var cost int
			buf, cost, queue = fill(buf[:0], queue)
			if _, err := p.conn.Write(buf); err != nil {
				p.fail()
				return
			}
			p.written(cost)
		}
		if cap(buf) > largestReuse {
			buf = nil
		}
	}
}

// fill adds answers to b until there is enough for one write. It returns what they count
// in a peer's bytes, and the answers that are left.
func fill(b []byte, queue []Reply) (with []byte, cost int, rest []Reply) {
	for len(queue) > 0 && len(b) < fullWrite {
		b = queue[0].Append(b)
		cost += answerCost + len(queue[0].Value)
		queue = queue[1:]
	}
	return b, cost, queue
}

func (p *peer) written(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= n
	p.change.Broadcast()
}

// fail ends the reader too.
func (p *peer) fail() {
	p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.queue = true, nil
	p.change.Broadcast()
}
