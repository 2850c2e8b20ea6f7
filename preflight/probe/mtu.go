package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mtuWait is how long a full-size packet is waited for at least, and mtuRetries how
	// often the kernel must have sent it again until it is called lost: not one loss
	// tells, and not a host that is slow to answer.
	mtuWait    = time.Second
	mtuRetries = 2
	mtuTries   = 3
	mtuLook    = 50 * time.Millisecond

	// leastHalfWindow is the least half of a window that a connection begins with.
	leastHalfWindow = 32 << 10

	tcpiTimestamps = 1 // TCPI_OPT_TIMESTAMPS of linux/tcp.h
)

// fullSize finds out whether packets as large as the connection allows are lost again and
// again, though they must not be fragmented. If a router says by ICMP that they are too
// large, then the kernel sends smaller ones and all is well.
func (p *prober) fullSize(conn *net.TCPConn, link *Link) (lost bool, err error) {
	control(conn, func(fd int) {
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
	})
	for range mtuTries {
		before, err := tcpInfo(conn)
		if err != nil {
			return false, err
		}
		link.MTU = packetSize(conn, before)
		fate, err := p.sendFull(conn, before)
		if err != nil || fate == lostPacket {
			return err == nil, err
		}
		after, err := tcpInfo(conn)
		if err != nil {
			return false, err
		}
		if fate == passedPacket || passedWhole(before, after) {
			link.MTU = packetSize(conn, after)
			return false, nil
		}
	}
	return true, nil
}

// fate is what became of a full-size packet.
type fate int

const (
	passedPacket  fate = iota
	lostPacket         // again and again
	refusedPacket      // at first, by this host's interface; then its data has come somehow
)

// sendFull sends one full-size packet, and tells its fate. It is one packet alone, since
// several that wait are handed to the network interface as one, and virtual ones pass
// that on whatever their MTU is.
func (p *prober) sendFull(conn *net.TCPConn, before *unix.TCPInfo) (fate, error) {
	size := max(int(before.Snd_mss), requestLen)
	packet := make([]byte, size)
	request{op: opSink, a: uint64(size - requestLen)}.append(packet[:0])
	start := time.Now()
	limit := start.Add(max(p.order.Timeout, 2*mtuWait))
	conn.SetDeadline(limit)
	if _, err := conn.Write(packet); err != nil {
		return 0, err
	}
	return awaitPacket(conn, start, limit, before.Total_retrans+mtuRetries)
}

// passedWhole reports whether what was sent meanwhile, and has come, was one packet, sent
// again or not; or smaller ones, since a router has asked for that. What an interface has
// refused to the sender's face (as a virtual one does whose other end has a smaller MTU),
// the kernel later sends in other pieces.
func passedWhole(before, after *unix.TCPInfo) bool {
	sent, again := after.Data_segs_out-before.Data_segs_out, after.Total_retrans-before.Total_retrans
	return after.Snd_mss < before.Snd_mss || sent <= again+1
}

// packetSize returns how large the connection's packets are with all headers. Very large
// ones, of loopback or InfiniBand, begin smaller, as none may fill more than half of the
// other end's window: then it is what they may become.
func packetSize(conn *net.TCPConn, info *unix.TCPInfo) int {
	size := int(info.Snd_mss) + 20 + 20
	if conn.RemoteAddr().(*net.TCPAddr).IP.To4() == nil {
		size += 20
	}
	if info.Options&tcpiTimestamps != 0 {
		size += 12
	}
	if size >= leastHalfWindow {
		return int(info.Pmtu)
	}
	return size
}

// awaitPacket waits for the answer to a full-size packet sent at start, or until that is
// lost: not acknowledged by the target's kernel after so many retransmissions of the
// connection, or at the limit, or not even sent.
func awaitPacket(conn *net.TCPConn, start, limit time.Time, retries uint32) (fate, error) {
	var answer [requestLen]byte
	fate := passedPacket
	for n := 0; ; {
		conn.SetReadDeadline(time.Now().Add(mtuLook))
		got, err := conn.Read(answer[n:])
		if n += got; n == requestLen {
			return fate, nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		info, infoErr := tcpInfo(conn)
		if infoErr != nil {
			return 0, infoErr
		}
		late := time.Now().After(limit)
		again := info.Unacked > 0 && (late || info.Total_retrans >= retries)
		refused := info.Unacked == 0 && info.Notsent_bytes > 0
		if (again || refused) && time.Since(start) >= mtuWait {
			return lostPacket, nil
		}
		if refused {
			fate = refusedPacket
		}
		if late {
			return 0, err
		}
	}
}

// confirm makes sure that small packets still pass when a full-size one has not, and
// then says so in link.
func (p *prober) confirm(ctx context.Context, t Target, link *Link) error {
	s, _, err := p.reach(ctx, t)
	if err != nil {
		return brokenFault("a full-size packet", err)
	}
	s.close()
	link.MTUFailed = true
	link.Text = fmt.Sprintf("small packets pass, and those of %d bytes are lost", link.MTU)
	return nil
}

func tcpInfo(conn *net.TCPConn) (info *unix.TCPInfo, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); e != nil {
		return nil, e
	}
	return info, err
}
