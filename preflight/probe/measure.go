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

	"golang.org/x/sys/unix"
)

// After the handshake the dialer sends requests: one byte that says what, and two numbers
// of 8 bytes. Each is answered by the same, with what was found.
const (
	opPing   byte = 1 // answered at once
	opSink   byte = 2 // a: how many bytes follow; answered when they have come
	opStream byte = 3 // a: how long, in nanoseconds; answered when it may begin, and, after the
	// dialer has closed its direction, with a: bytes counted, b: nanoseconds

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

// chunk is how much is written and read at once of a stream.
const chunk = 256 << 10

// measure connects to a target and measures what the order asks for.
func (p *prober) measure(ctx context.Context, t Target, link *Link) (err error) {
	s, took, err := p.reach(ctx, t)
	link.Connect = took
	if err != nil {
		return err
	}
	defer func() {
		if err != nil || link.MTUFailed {
			s.conn.SetLinger(0) // the kernel would go on for minutes with what is not sent
		}
		s.close()
	}()
	if err := p.ping(s.conn, link); err != nil {
		return brokenFault("round trips", err)
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
		if err := p.stream(s.conn, link); err != nil {
			return brokenFault("bandwidth", err)
		}
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

// ping times round trips.
func (p *prober) ping(conn *net.TCPConn, link *Link) error {
	if p.order.Pings <= 0 {
		return nil
	}
	times := make([]time.Duration, 0, p.order.Pings+1)
	message := request{op: opPing}.append(nil)
	for range p.order.Pings + 1 {
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
	times = times[1:] // the first one wakes both ends
	slices.Sort(times)
	link.Latency, link.Median = times[0], times[len(times)/2]
	return nil
}

// stream sends data for the time that the order says, and takes the target's word for
// how much came.
func (p *prober) stream(conn *net.TCPConn, link *Link) error {
	// What the kernel has not sent yet must not take long when the time is over.
	control(conn, func(fd int) { unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, chunk) })
	lasts := p.order.Bandwidth
	conn.SetDeadline(time.Now().Add(p.order.Timeout + queueFor(lasts)))
	if _, err := conn.Write(request{op: opStream, a: uint64(lasts)}.append(nil)); err != nil {
		return err
	}
	if _, err := expect(conn, opStream); err != nil {
		return err
	}
	start := time.Now()
	sent, err := p.pour(conn, start.Add(lasts))
	if err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(p.order.Timeout + lasts))
	got, err := expect(conn, opStream)
	if err != nil {
		return err
	}
	if got.b > uint64(time.Hour) {
		return errors.New("the answer makes no sense")
	}
	if got.b == 0 { // it all came at once
		got.a, got.b = uint64(sent), uint64(max(time.Since(start), 1))
	}
	link.BytesPerSecond = float64(got.a) / time.Duration(got.b).Seconds()
	return nil
}

// pour writes until the time given, or as many bytes as the order allows.
func (p *prober) pour(conn *net.TCPConn, until time.Time) (sent int64, err error) {
	conn.SetWriteDeadline(until)
	buf := make([]byte, chunk)
	for {
		if most := p.order.Bytes - sent; p.order.Bytes > 0 && most < chunk {
			buf = buf[:most]
		}
		n, err := conn.Write(buf)
		sent += int64(n)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return sent, nil
		case err != nil:
			return sent, err
		case sent == p.order.Bytes:
			return sent, nil
		}
	}
}

// queueFor is how long a stream waits for others to the same host.
func queueFor(lasts time.Duration) time.Duration { return 10 * lasts }
