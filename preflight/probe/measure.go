package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// After the handshake the dialer sends requests: one byte that says what, and two numbers
// of 8 bytes. Each is answered by the same, with what was found.
//
// In a turn both ends are for each other alone. It has pings, and then a stream: the
// dialer sends for as long, or as much, as the turn says, and closes its direction; the
// acceptor answers what has come, and sends in the same way, until it closes.
const (
	opPing   byte = 1 // answered at once
	opSink   byte = 2 // a: how many bytes follow; answered when they have come
	opTurn   byte = 3 // a: how long a stream lasts, in nanoseconds; b: or how many bytes, 0: any; answered when the turn begins
	opStream byte = 6 // what follows is a stream; answered with a: bytes counted, b: nanoseconds

	requestLen = 1 + 8 + 8
)

type request struct {
	op   byte
	a, b uint64
}

func (r request) append(b []byte) []byte {
	b = append(b, r.op)
	b = binary.BigEndian.AppendUint64(b, r.a)
	return binary.BigEndian.AppendUint64(b, r.b)
}

func readRequest(r io.Reader) (request, error) {
	var b [requestLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return request{}, err
	}
	return request{b[0], binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}, nil
}

// expect reads an answer to op.
func expect(r io.Reader, op byte) (request, error) {
	got, err := readRequest(r)
	if err == nil && got.op != op {
		err = errors.New("the answer is to something else")
	}
	return got, err
}

// chunk is written at once of a stream.
const chunk = 256 << 10

// measure measures what the order asks for, on conn or, if that is nil, on a new
// connection to the target.
func (p *Prober) measure(ctx context.Context, t Target, conn *net.TCPConn, link *Link) (err error) {
	var s session
	if conn != nil {
		s = over(ctx, conn)
	} else if s, link.Connect, err = p.reach(ctx, t); err != nil {
		return err
	}
	defer func() {
		if err == nil && !link.MTUFailed && p.order.Bandwidth <= 0 && p.keep(t.Host, s) {
			return
		}
		if err != nil || link.MTUFailed {
			s.conn.SetLinger(0) // the kernel would go on for minutes with what is not sent
		}
		s.close()
	}()
	if p.order.Bandwidth <= 0 {
		if err := p.ping(s.conn, link, 1); err != nil {
			return brokenFault("round trips", err)
		}
	}
	if p.order.MTU {
		lost, err := p.fullSize(s.conn, link)
		if err != nil {
			return brokenFault("a full-size packet", err)
		}
		if lost {
			return p.confirm(ctx, t, link)
		}
	}
	if p.order.Bandwidth > 0 {
		return p.turns(ctx, t, s.conn, link)
	}
	return nil
}

func brokenFault(what string, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return faultf(Broken, "the link was good, and then had no answer while %s was measured", what)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return faultf(Broken, "the link was good, and then was closed while %s was measured", what)
	}
	return faultf(Broken, "the link was good, and then failed while %s was measured: %v", what, err)
}

// ping times round trips, after so many that wake both ends.
func (p *Prober) ping(conn *net.TCPConn, link *Link, waking int) error {
	if p.order.Pings <= 0 {
		return nil
	}
	times := make([]time.Duration, 0, p.order.Pings+waking)
	message := request{op: opPing}.append(nil)
	for range cap(times) {
		conn.SetDeadline(time.Now().Add(p.order.Timeout))
		start := time.Now()
		if _, err := conn.Write(message); err != nil {
			return err
		}
		if _, err := expect(conn, opPing); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	times = times[waking:]
	slices.Sort(times)
	link.Latency, link.Median = times[0], times[len(times)/2]
	return nil
}
