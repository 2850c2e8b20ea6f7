package probe

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// turn waits until the target has time for this host alone, and then measures round trips
// and a stream each way. If others take too long, nothing is measured: that is no fault
// of the link. Its errors are faults.
func (p *Prober) turn(conn *net.TCPConn, link *Link) error {
	lasts := p.order.Bandwidth
	conn.SetDeadline(time.Now().Add(p.order.Timeout + queueFor(lasts)))
	err := p.ask(conn, request{op: opTurn, a: uint64(lasts), b: uint64(max(p.order.Bytes, 0))})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		return brokenFault("round trips", err)
	}
	if err := p.ping(conn, link, 0); err != nil {
		return brokenFault("round trips", err)
	}
	if err := p.stream(conn, link); err != nil {
		return brokenFault("bandwidth", err)
	}
	return nil
}

// ask sends a request and waits for its answer.
func (p *Prober) ask(conn net.Conn, r request) error {
	if _, err := conn.Write(r.append(nil)); err != nil {
		return err
	}
	_, err := expect(conn, r.op)
	return err
}

// stream sends data, takes the target's word for how much came, and counts what comes
// back.
func (p *Prober) stream(conn *net.TCPConn, link *Link) error {
	lasts := p.order.Bandwidth
	conn.SetDeadline(time.Now().Add(p.order.Timeout))
	if _, err := conn.Write(request{op: opStream}.append(nil)); err != nil {
		return err
	}
	start := time.Now()
	sent, err := pour(conn, lasts, p.order.Bytes)
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
	conn.SetReadDeadline(time.Now().Add(p.order.Timeout + 2*lasts))
	back, err := count(conn, lasts/4)
	if err != nil {
		return err
	}
	if back.all > 0 {
		link.Back = back.rate()
	}
	return nil
}

// zeros are what streams are of.
var zeros [chunk]byte

// pour writes for so long, or as many bytes if most is not 0.
func pour(conn net.Conn, lasts time.Duration, most int64) (sent int64, err error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		control(tcp, func(fd int) {
			// What the kernel has not sent yet must not take long when the time is over.
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, chunk)
			if most > 0 && most <= chunk { // then it is written at once
				unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, int(2*most))
			}
		})
	}
	conn.SetWriteDeadline(time.Now().Add(lasts))
	for {
		part := zeros[:]
		if most > 0 {
			part = zeros[:min(most-sent, chunk)]
		}
		n, err := conn.Write(part)
		sent += int64(n)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return sent, nil
		case err != nil:
			return sent, err
		case sent == most:
			return sent, nil
		}
	}
}

// queueFor is how long a turn waits for others to the same host.
func queueFor(lasts time.Duration) time.Duration { return 20 * lasts }

// counted is what has come of a stream.
type counted struct {
	bytes int64         // after the warm-up
	took  time.Duration // for these; 0: it all came at once
	all   int64
	whole time.Duration // since it was waited for
}

// rate is in bytes per second.
func (c counted) rate() float64 {
	if c.took == 0 {
		return float64(c.all) / max(c.whole, 1).Seconds()
	}
	return float64(c.bytes) / c.took.Seconds()
}

// readBuffers has arrays of readChunk bytes.
var readBuffers = sync.Pool{New: func() any { return new([readChunk]byte) }}

// count reads to the end, and says how many bytes came in how long after a warm-up, in
// which TCP finds its speed. If the stream ended before, all counts but what came first.
func count(r io.Reader, warm time.Duration) (c counted, err error) {
	if tcp, ok := r.(*net.TCPConn); ok { // fewer wakes take less of a busy CPU
		control(tcp, func(fd int) { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, readChunk) })
	}
	array := readBuffers.Get().(*[readChunk]byte)
	defer readBuffers.Put(array)
	buf := array[:]
	began := time.Now()
	n, err := io.ReadAtLeast(r, buf, 1)
	if errors.Is(err, io.EOF) {
		return c, nil
	}
	start := time.Now()
	from, last := start, start
	c.all = int64(n)
	for err == nil {
		n, err = r.Read(buf)
		if n > 0 {
			last = time.Now()
			c.bytes += int64(n)
			c.all += int64(n)
		}
		if err == nil && from == start && last.Sub(start) >= warm {
			from, c.bytes = last, 0
		}
	}
	if !errors.Is(err, io.EOF) {
		return counted{}, err
	}
	c.took, c.whole = last.Sub(from), last.Sub(began)
	return c, nil
}
