package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// turns has the link measured, and once more if it is slow, since a process that waits for
// a core looks the same: the better counts. Its errors are faults.
func (p *Prober) turns(ctx context.Context, t Target, conn *net.TCPConn, link *Link) error {
	if err := p.turn(conn, link); err != nil || !p.doubtful(link) {
		return err
	}
	s, _, err := p.reach(ctx, t)
	if err != nil {
		return err
	}
	defer s.close()
	again := Link{}
	if err := p.turn(s.conn, &again); err != nil {
		return err
	}
	if again.Latency > 0 && again.Latency < link.Latency {
		link.Latency, link.Median = again.Latency, again.Median
	}
	link.BytesPerSecond = max(link.BytesPerSecond, again.BytesPerSecond)
	link.Back = max(link.Back, again.Back)
	return nil
}

// doubtful reports whether a stream came slower than half of what can be told.
func (p *Prober) doubtful(link *Link) bool {
	half := mostTold(p.order.Bytes) / 2
	return link.BytesPerSecond > 0 && link.BytesPerSecond < half || link.Back > 0 && link.Back < half
}

// turn waits until the target has time for this host alone, and then measures round trips
// and a stream each way. If others take too long, nothing is measured: that is no fault
// of the link. Its errors are faults.
func (p *Prober) turn(conn *net.TCPConn, link *Link) error {
	lasts := p.order.Bandwidth
	conn.SetDeadline(time.Now().Add(p.order.Timeout + queueFor(lasts)))
	err := p.ask(conn, request{op: opTurn, a: uint64(lasts), b: uint64(max(p.order.Bytes, 0))})
	if errors.Is(err, os.ErrDeadlineExceeded) && arrived(conn) {
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

// arrived reports whether the target's kernel has all that was sent: it says so within
// 200 ms, however busy the target is, and not if the way is dead.
func arrived(conn *net.TCPConn) bool {
	info, err := tcpInfo(conn)
	return err == nil && info.Unacked == 0 && info.Notsent_bytes == 0
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
	if err := pour(conn, lasts, p.order.Bytes); err != nil {
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
	link.BytesPerSecond = counted{got.a, time.Duration(got.b)}.rate()
	conn.SetReadDeadline(time.Now().Add(p.order.Timeout + 2*lasts))
	back, err := count(conn, p.order.Bytes)
	if err != nil {
		return err
	}
	link.Back = back.rate()
	return nil
}

// zeros are what streams are of.
var zeros [chunk]byte

// pour writes for so long, or as many bytes if most is not 0.
func pour(conn net.Conn, lasts time.Duration, most int64) error {
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
	for sent := int64(0); ; {
		part := zeros[:]
		if most > 0 {
			part = zeros[:min(most-sent, chunk)]
		}
		n, err := conn.Write(part)
		sent += int64(n)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case sent == most:
			return nil
		}
	}
}

// queueFor is how long a turn waits for others to the same host.
func queueFor(lasts time.Duration) time.Duration { return 20 * lasts }
