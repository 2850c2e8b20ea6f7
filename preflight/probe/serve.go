package probe

import (
	"errors"
	"io"
	"net"
	"time"
)

const (
	// idle is how long a connection that has proved itself may ask for nothing, and how
	// much longer than asked for something may take.
	idle = 10 * time.Second

	// maxSink is more than any packet has.
	maxSink = 1 << 17
)

// answer serves one connection until its dialer closes it, or the listener is closed.
func (l *Listener) answer(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(l.patience))
	if err := admit(conn, l.secret, l.self); err != nil {
		return
	}
	l.proved(conn)
	l.serve(conn)
}

// serve answers requests until one is wrong or the connection ends.
func (l *Listener) serve(conn net.Conn) {
	for {
		conn.SetDeadline(time.Now().Add(idle))
		r, err := readRequest(conn)
		if err != nil {
			return
		}
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
		case r.op == opStream && r.a <= uint64(maxStream):
			answer, err = l.receive(conn, time.Duration(r.a))
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

// receive waits for its turn, takes a stream that lasts about so long, and says how much
// has come in how long.
func (l *Listener) receive(conn net.Conn, lasts time.Duration) (request, error) {
	turn := time.NewTimer(idle + queueFor(lasts))
	defer turn.Stop()
	select {
	case l.stream <- struct{}{}:
		defer func() { <-l.stream }()
	case <-turn.C:
		return request{}, errors.New("other streams take too long")
	case <-l.ctx.Done():
		return request{}, l.ctx.Err()
	}
	conn.SetDeadline(time.Now().Add(2*lasts + idle))
	if _, err := conn.Write(request{op: opStream}.append(nil)); err != nil {
		return request{}, err
	}
	counted, took, err := count(conn, lasts/4)
	return request{op: opStream, a: uint64(counted), b: uint64(took)}, err
}

// count reads to the end, and says how many bytes came in how long after a warm-up, in
// which TCP finds its speed. If the stream ended before, all counts but what came first.
func count(r io.Reader, warm time.Duration) (bytes int64, took time.Duration, err error) {
	buf := make([]byte, chunk)
	if _, err = io.ReadAtLeast(r, buf, 1); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return 0, 0, err
	}
	start := time.Now()
	from, last := start, start
	for {
		n, err := r.Read(buf)
		if n > 0 {
			last = time.Now()
			bytes += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return bytes, last.Sub(from), nil
		}
		if err != nil {
			return 0, 0, err
		}
		if from == start && last.Sub(start) >= warm {
			from, bytes = last, 0
		}
	}
}
