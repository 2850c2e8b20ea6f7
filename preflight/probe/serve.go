package probe

import (
	"io"
	"math"
	"net"
	"time"
)

const (
	// keeps is how long a connection that has proved itself may ask for nothing.
	keeps = time.Minute

	// idle is how much longer than asked for something may take.
	idle = 10 * time.Second

	// turnIdle is how much longer than its streams a turn may take. It is short, as others
	// wait.
	turnIdle = 5 * time.Second

	// lingers is for how many seconds the end of a turn waits at most for what is not
	// sent, which would disturb the next one.
	lingers = 1

	// maxSink is more than any packet has.
	maxSink = 1 << 17
)

// answer serves one connection until its dialer closes it, or the listener is closed.
func (l *Listener) answer(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(l.patience))
	host, err := admit(conn, l.secret, l.self)
	if err != nil {
		return
	}
	l.proved(conn)
	l.serve(conn, host)
}

// serve answers a host's requests until one is wrong or the connection ends.
func (l *Listener) serve(conn net.Conn, host int) {
	for {
		conn.SetDeadline(time.Now().Add(keeps))
		r, err := readRequest(conn)
		if err != nil {
			return
		}
		conn.SetDeadline(time.Now().Add(idle))
		answer := request{op: r.op}
		switch {
		case r.op == opServe:
			if l.rail(conn, r.a) != nil {
				return
			}
			continue
		case r.op == opPing:
		case r.op == opSink && r.a <= maxSink:
			_, err = io.CopyN(io.Discard, conn, int64(r.a))
		case r.op == opTurn && r.a <= uint64(maxStream) && r.b <= math.MaxInt64:
			l.turn(conn, host, time.Duration(r.a), int64(r.b))
			return
		default:
			return
		}
		if err != nil {
			return
		}
		if _, err := conn.Write(answer.append(nil)); err != nil {
			return
		}
	}
}

// turn waits until it is a host's turn, and has both ends measure round trips and streams
// of so long or so many bytes. It closes conn. What goes wrong the dialer sees, too.
func (l *Listener) turn(conn net.Conn, host int, lasts time.Duration, bytes int64) {
	late := time.NewTimer(idle + queueFor(lasts))
	defer late.Stop()
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
		defer conn.Close() // before the next one's turn
	case <-late.C:
		return
	case <-l.ctx.Done():
		return
	}
	conn.SetDeadline(time.Now().Add(turnIdle + 2*lasts))
	answer := request{op: opTurn}
	for {
		if _, err := conn.Write(answer.append(nil)); err != nil {
			return
		}
		r, err := readRequest(conn)
		switch {
		case err != nil:
			return
		case r.op == opPing:
			answer.op = opPing
		case r.op == opStream:
			l.exchange(conn, host, lasts, bytes)
			return
		default:
			return
		}
	}
}

// exchange takes a stream, says what has come, and sends one if the way is good.
func (l *Listener) exchange(conn net.Conn, host int, lasts time.Duration, bytes int64) {
	c, err := count(conn, bytes)
	if err != nil {
		return
	}
	conn.SetDeadline(time.Now().Add(turnIdle + 2*lasts))
	answer := request{op: opStream, a: c.bytes, b: uint64(c.took)}
	if _, err := conn.Write(answer.append(nil)); err != nil || !l.sendsTo(host) {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && pour(conn, lasts, bytes) == nil {
		tcp.SetLinger(lingers)
	}
}
