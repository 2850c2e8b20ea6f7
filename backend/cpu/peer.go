package cpu

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// directMax is the length in bytes up to which a collective writes at once,
	// without the sender. All that one collective writes to a peer must fit into the
	// sockets' buffers: every rank may be writing, and none reading.
	directMax = 8 << 10

	// readAhead is how much is read at once of what a peer sends: a call and a short
	// message come with one system call.
	readAhead = directMax + callLen
)

// peer is another rank and the two connections to it.
type peer struct {
	rank int

	// Owned by progress once the mesh is complete.
	in             *bufio.Reader
	sent, received uint64 // the last call that has been told to, and heard from, the peer

	mu   sync.Mutex
	data net.Conn // guarded by mu until the mesh is complete, then never set again
	ctl  net.Conn // guarded by mu

	ctlMu sync.Mutex // held while writing to ctl
}

// brokenError is a data connection that no longer works.
type brokenError struct {
	rank int
	err  error
}

func (e *brokenError) Error() string { return fmt.Sprintf("rank %d: %v", e.rank, e.err) }

// attach takes a connection over. It reports whether it was missing.
func (p *peer) attach(lane lane, conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := &p.data
	if lane == controlLane {
		slot = &p.ctl
	}
	if *slot != nil {
		return false
	}
	*slot = conn
	return true
}

// control returns the control connection; nil if there is none yet.
func (p *peer) control() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctl
}

func (p *peer) closeData() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data != nil {
		p.data.Close()
	}
}

func (p *peer) closeControl() {
	if p == nil {
		return
	}
	if conn := p.control(); conn != nil {
		conn.Close()
	}
}

// send sends b to p, as part of o. A short o is written at once; else b must not
// change before the sender has written it.
func (c *comm) send(o *op, p *peer, b []byte) error {
	first := p.sent != o.seq
	p.sent = o.seq
	if len(o.src) > directMax && len(b) > 0 {
		if first {
			c.tx.put(p, o.header[:])
		}
		c.tx.put(p, b)
		return nil
	}
	c.out = c.out[:0]
	if first {
		c.out = append(c.out, o.header[:]...)
	}
	c.out = append(c.out, b...)
	if len(c.out) == 0 {
		return nil
	}
	if _, err := p.data.Write(c.out); err != nil {
		return &brokenError{p.rank, err}
	}
	return nil
}

// recv fills b with what p sends for o, after making sure that p does the same call.
func (c *comm) recv(o *op, p *peer, b []byte) error {
	c.waiting.Store(int32(p.rank))
	if p.in == nil {
		p.in = bufio.NewReaderSize(p.data, readAhead)
	}
	if p.received != o.seq {
		if _, err := io.ReadFull(p.in, c.in[:]); err != nil {
			return &brokenError{p.rank, err}
		}
		if k := parseCall(c.in[:]); k != o.call {
			return c.mismatch(p.rank, k, c.rank, o.call)
		}
		p.received = o.seq
	}
	if _, err := io.ReadFull(p.in, b); err != nil {
		return &brokenError{p.rank, err}
	}
	return nil
}

// tell sends a control message to p, if it takes it within tellTimeout. A peer that
// does not is found dead by its watcher.
func (c *comm) tell(p *peer, frame []byte) { p.tell(frame, time.Now().Add(tellTimeout)) }

// tellAll sends a control message to all other ranks, within tellTimeout in all.
func (c *comm) tellAll(frame []byte) {
	deadline := time.Now().Add(tellTimeout)
	for _, p := range c.peers {
		if p != nil {
			p.tell(frame, deadline)
		}
	}
}

func (p *peer) tell(frame []byte, deadline time.Time) {
	conn := p.control()
	if conn == nil {
		return
	}
	p.ctlMu.Lock()
	defer p.ctlMu.Unlock()
	conn.SetWriteDeadline(deadline)
	conn.Write(frame)
}
