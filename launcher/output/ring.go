package output

import "bytes"

const (
	ringMin  = 256
	ringKeep = 1 << 20 // an empty ring keeps no more memory than this
)

// ring is a queue of bytes. It grows as needed; the zero value is empty.
type ring struct {
	buf  []byte // its length is a power of two, or 0
	head int    // index of the oldest byte
	n    int    // bytes held
}

// push adds p at the end.
func (r *ring) push(p []byte) {
	if r.n+len(p) > len(r.buf) {
		r.grow(r.n + len(p))
	}
	at := (r.head + r.n) & (len(r.buf) - 1)
	k := copy(r.buf[at:], p)
	copy(r.buf, p[k:])
	r.n += len(p)
}

func (r *ring) grow(n int) {
	size := max(ringMin, len(r.buf))
	for size < n {
		size *= 2
	}
	buf := make([]byte, size)
	a, b := r.first(r.n)
	copy(buf[copy(buf, a):], b)
	r.buf, r.head = buf, 0
}

// first returns the oldest n bytes in two pieces, valid until the next push.
func (r *ring) first(n int) (a, b []byte) {
	end := r.head + n
	if end <= len(r.buf) {
		return r.buf[r.head:end], nil
	}
	return r.buf[r.head:], r.buf[:end-len(r.buf)]
}

// drop forgets the oldest n bytes.
func (r *ring) drop(n int) {
	if r.n -= n; r.n > 0 {
		r.head = (r.head + n) & (len(r.buf) - 1)
		return
	}
	r.head = 0
	if len(r.buf) > ringKeep {
		r.buf = nil
	}
}

// at returns byte i, counted from the oldest.
func (r *ring) at(i int) byte { return r.buf[(r.head+i)&(len(r.buf)-1)] }

// dropLast forgets the newest n bytes.
func (r *ring) dropLast(n int) { r.n -= n }

// appendLast appends the newest n bytes to p.
func (r *ring) appendLast(p []byte, n int) []byte {
	a, b := r.first(r.n)
	if from := r.n - n; from > len(a) {
		return append(p, b[from-len(a):]...)
	} else {
		return append(append(p, a[from:]...), b...)
	}
}

// appendFirst appends the oldest n bytes to p.
func (r *ring) appendFirst(p []byte, n int) []byte {
	a, b := r.first(n)
	return append(append(p, a...), b...)
}

// firstLine returns the length of the oldest line with its '\n', or of everything.
func (r *ring) firstLine() int {
	a, b := r.first(r.n)
	if i := bytes.IndexByte(a, '\n'); i >= 0 {
		return i + 1
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return len(a) + i + 1
	}
	return r.n
}

// lines returns the length of the whole lines among the oldest n bytes.
func (r *ring) lines(n int) int {
	a, b := r.first(n)
	if k := wholeLines(b); k > 0 {
		return len(a) + k
	}
	return wholeLines(a)
}

// wholeLines returns the length of p up to and with its last '\n'. It looks forward
// first, which is many times faster where there is none.
func wholeLines(p []byte) int {
	if bytes.IndexByte(p, '\n') < 0 {
		return 0
	}
	return bytes.LastIndexByte(p, '\n') + 1
}
