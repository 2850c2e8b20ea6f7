package probe

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readChunk = 32 << 10 // is read of a stream at once at most
	leastRead = 4 << 10  // and at least waited for, unless the stream ends

	// readsOf is how many reads a stream of known length has at least, so that its
	// quarters can be told.
	readsOf = 8

	// leastTimed is the least time of a quarter: how soon a host runs a process that is
	// woken differs by as much, so that a quarter that came in less tells only that it
	// took no longer.
	leastTimed = 200 * time.Microsecond

	// uneven is how many times quicker than all of a stream its best quarter may be, if
	// all took less than longTimed: in more, a wait for a core does not weigh.
	uneven    = 2
	longTimed = 20 * time.Millisecond
)

// counted is the best quarter of a stream.
type counted struct {
	bytes uint64
	took  time.Duration // 0: it could not be timed
}

// rate is in bytes per second; 0 if it is not known.
func (c counted) rate() float64 {
	if c.took <= 0 {
		return 0
	}
	return float64(c.bytes) / c.took.Seconds()
}

// mostTold is the most bytes per second that can be told of a stream of so many bytes.
func mostTold(bytes int64) float64 { return float64(bytes/4) / leastTimed.Seconds() }

// readBuffers has arrays of readChunk bytes.
var readBuffers = sync.Pool{New: func() any { return new([readChunk]byte) }}

// count reads a stream to its end, and times it: the receiver's clock alone is the same
// for both directions. Most is how long the stream is at most; 0: any.
func count(r io.Reader, most int64) (counted, error) {
	size := readChunk
	if most > 0 {
		size = int(min(max(most/readsOf, leastRead), readChunk))
	}
	if tcp, ok := r.(*net.TCPConn); ok { // fewer wakes take less of a busy CPU
		control(tcp, func(fd int) { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, size) })
	}
	array := readBuffers.Get().(*[readChunk]byte)
	defer readBuffers.Put(array)
	var t timeline
	for start := time.Now(); ; {
		n, err := r.Read(array[:size])
		if n > 0 {
			t.add(n, time.Since(start))
		}
		switch {
		case errors.Is(err, io.EOF):
			return t.best(), nil
		case err != nil:
			return counted{}, err
		}
	}
}

// timeline is when how much of a stream had come.
type timeline struct {
	marks []mark
	step  uint64 // bytes from one mark to the next at least
	all   uint64
}

type mark struct {
	bytes uint64 // so far
	at    time.Duration
}

// mostMarks is an even number that bounds a timeline, however long the stream is.
const mostMarks = 64

func (t *timeline) add(n int, at time.Duration) {
	t.all += uint64(n)
	if k := len(t.marks); k > 0 && t.all-t.marks[k-1].bytes < t.step {
		return
	}
	t.marks = append(t.marks, mark{t.all, at})
	if len(t.marks) == mostMarks {
		for k := range mostMarks / 2 {
			t.marks[k] = t.marks[2*k]
		}
		t.marks = t.marks[:mostMarks/2]
		t.step = t.all / (mostMarks / 2)
	}
}

// best is the quarter of the stream that came quickest, but for the first one, in which
// TCP finds its speed. Where a host did not run for a while, that tells in another quarter;
// what the network does tells in all. If the others took much longer, it is not known which
// of both it was, and of a short stream nothing is told.
func (t *timeline) best() (best counted) {
	part := max(t.all/4, 1)
	first := slices.IndexFunc(t.marks, func(m mark) bool { return m.bytes >= part })
	if first < 0 {
		return counted{}
	}
	marks := t.marks[first:]
	for i, from := range marks {
		k := slices.IndexFunc(marks[i:], func(m mark) bool { return m.bytes >= from.bytes+part })
		if k < 0 {
			break
		}
		c := marks[i+k].since(from)
		if c.took < leastTimed*time.Duration(c.bytes)/time.Duration(part) {
			return counted{part, leastTimed}
		}
		if c.rate() > best.rate() {
			best = c
		}
	}
	if all := marks[len(marks)-1].since(marks[0]); all.took < longTimed && best.rate() > uneven*all.rate() {
		return counted{}
	}
	return best
}

// since is what came after an earlier mark.
func (m mark) since(from mark) counted { return counted{m.bytes - from.bytes, m.at - from.at} }
