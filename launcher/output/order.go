package output

// maxRecords bounds the memory that the order of lines takes; see order.add.
const maxRecords = 8 << 10

// order remembers in which order streams made bytes ready: a queue of records,
// numbered from 0 for ever.
type order struct {
	ring       []record // its length is a power of two, or 0
	head, tail uint64   // numbers of the oldest record and of the next one
}

// record says that n bytes of stream are ready.
type record struct {
	stream *stream
	n      int
	at     int64 // when they came, in Unix milliseconds, if that matters
}

func (o *order) at(i uint64) *record { return &o.ring[i&uint64(len(o.ring)-1)] }

// add notes n more bytes of s, which came at the time at. With maxRecords records
// waiting they join the newest record of s, and so come earlier than they would: many
// short lines behind a blocked destination cost no more memory than their bytes.
func (o *order) add(s *stream, n int, at int64) {
	if o.tail > o.head {
		if r := o.at(o.tail - 1); r.stream == s && r.at == at {
			r.n += n
			return
		}
		if r := o.at(s.newest); o.tail-o.head >= maxRecords && s.newest >= o.head && r.stream == s {
			r.n += n
			return
		}
	}
	if int(o.tail-o.head) == len(o.ring) {
		o.grow()
	}
	*o.at(o.tail) = record{s, n, at}
	s.newest = o.tail
	o.tail++
}

func (o *order) grow() {
	old := *o
	o.ring = make([]record, max(64, 2*len(o.ring)))
	for i := old.head; i < old.tail; i++ {
		*o.at(i) = *old.at(i)
	}
}

// first returns the oldest record whose bytes have not all been taken, or nil.
func (o *order) first() *record {
	for o.head < o.tail {
		r := o.at(o.head)
		k := min(r.n, r.stream.taken)
		r.n -= k
		r.stream.taken -= k
		if r.n > 0 {
			return r
		}
		o.head++
	}
	return nil
}
