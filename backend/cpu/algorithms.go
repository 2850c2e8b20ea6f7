package cpu

import "gorun/backend"

// segment is the length in bytes of the pieces in which long data travel: while one
// is on its way the one before is reduced. It is a multiple of every element's size.
const segment = 256 << 10

// disseminate returns when every rank has come, in ceil(log2 size) rounds: in each, a
// rank tells the one at twice the distance of the round before all that it knows.
func (c *comm) disseminate(o *op) error {
	for distance := 1; distance < c.size; distance *= 2 {
		to, from := c.peer(c.rank+distance), c.peer(c.rank-distance)
		if err := c.send(o, to, nil); err != nil {
			return err
		}
		if err := c.recv(o, from, nil); err != nil {
			return err
		}
	}
	return nil
}

// peer returns the peer at a rank that is counted round the ring.
func (c *comm) peer(rank int) *peer { return c.peers[(rank+c.size)%c.size] }

// star combines all ranks' data at rank 0, in the order of ranks, which sends the
// result to all.
func (c *comm) star(o *op) error {
	if c.rank == 0 {
		return c.starCentre(o)
	}
	centre := c.peers[0]
	first := c.tx.count() + 1 // the call itself goes before the data
	for at := range segments(o.src) {
		if err := c.send(o, centre, at.of(o.src)); err != nil {
			return err
		}
	}
	for at := range segments(o.dst) {
		// In place, the result overwrites what was to be sent.
		if first++; len(o.src) > directMax && !c.tx.wrote(first) {
			return c.failure()
		}
		if err := c.recv(o, centre, at.of(o.dst)); err != nil {
			return err
		}
	}
	return nil
}

func (c *comm) starCentre(o *op) error {
	combine := kernelOf(o.dtype, o.op)
	for at := range segments(o.src) {
		dst, sum := at.of(o.dst), at.of(o.src)
		for _, p := range c.peers[1:] {
			theirs := c.room(at.len())
			if err := c.recv(o, p, theirs); err != nil {
				return err
			}
			combine(dst, sum, theirs)
			sum = dst
		}
		if o.op == backend.Avg {
			divide(o.dtype, dst, c.size)
		}
		for _, p := range c.peers[1:] {
			if err := c.send(o, p, dst); err != nil {
				return err
			}
		}
	}
	return nil
}

// ring cuts the data into one block for each rank. Block b starts at rank b and goes
// round: in the first size-1 steps every rank adds its own part to what comes from
// the left and passes it on, so that rank b-1 has the whole sum; in the next size-1
// steps the sums go round. Each sum is made once, in one order, and then copied.
//
// At step s a rank receives block rank-s-1 and sends it on at once, piece by piece.
func (c *comm) ring(o *op) error {
	own := c.block(o, c.rank)
	for at := range segments(own.of(o.src)) {
		if err := c.send(o, c.peer(c.rank+1), at.of(own.of(o.src))); err != nil {
			return err
		}
	}
	c.marks[0] = c.tx.count()
	for step := range 2 * (c.size - 1) {
		if err := c.ringStep(o, step); err != nil {
			return err
		}
	}
	return nil
}

func (c *comm) ringStep(o *op, step int) error {
	block := c.block(o, c.rank-step-1)
	dst, src := block.of(o.dst), block.of(o.src)
	reduced := step - (c.size - 1) // ≥ 0: what comes is a sum, to be copied
	if reduced >= 0 && len(o.src) > directMax && !c.tx.wrote(c.marks[reduced]) {
		return c.failure() // the sum overwrites what the sender was given at step reduced-1
	}
	for at := range segments(dst) {
		var err error
		if reduced >= 0 {
			err = c.recv(o, c.peer(c.rank-1), at.of(dst))
		} else {
			err = c.recvAdd(o, at.of(dst), at.of(src), reduced == -1)
		}
		if err == nil && step < 2*(c.size-1)-1 {
			err = c.send(o, c.peer(c.rank+1), at.of(dst))
		}
		if err != nil {
			return err
		}
	}
	if reduced < -1 {
		c.marks[step+1] = c.tx.count()
	}
	return nil
}

// recvAdd sets dst to what comes from the left combined with src, this rank's part.
func (c *comm) recvAdd(o *op, dst, src []byte, last bool) error {
	sum := c.room(len(dst))
	if err := c.recv(o, c.peer(c.rank-1), sum); err != nil {
		return err
	}
	kernelOf(o.dtype, o.op)(dst, sum, src)
	if last && o.op == backend.Avg {
		divide(o.dtype, dst, c.size)
	}
	return nil
}

// tree sends the root's data down a binomial tree. Before that, every rank tells its
// parent that it and all below it have come: a rank that has its data knows that
// all ranks have made the same call.
func (c *comm) tree(o *op) error {
	parent, children := binomial(c.rank, int(o.root), c.size)
	for _, child := range children {
		if err := c.recv(o, c.peers[child], nil); err != nil {
			return err
		}
	}
	data := o.dst
	if parent < 0 {
		data = o.src
	} else if err := c.send(o, c.peers[parent], nil); err != nil {
		return err
	}
	for at := range segments(data) {
		piece := at.of(data)
		if parent >= 0 {
			if err := c.recv(o, c.peers[parent], piece); err != nil {
				return err
			}
		}
		for _, child := range children {
			if err := c.send(o, c.peers[child], piece); err != nil {
				return err
			}
		}
	}
	if &o.dst[0] != &data[0] { // a copy onto itself would be a write, which the sender may see
		copy(o.dst, data)
	}
	return nil
}

// binomial returns a rank's place in the binomial tree over size ranks below root:
// its parent, -1 for the root, and its children, the one with most ranks below first.
func binomial(rank, root, size int) (parent int, children []int) {
	place := (rank - root + size) % size
	parent = -1
	bit := 1
	for ; bit < size; bit *= 2 {
		if place&bit != 0 {
			parent = (place - bit + root) % size
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if place+bit < size {
			children = append(children, (place+bit+root)%size)
		}
	}
	return parent, children
}

// span is a part of a buffer, in bytes.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

func (s span) len() int { return s.to - s.from }

// segments yields the parts in which b travels. Ranks that agree on b's length agree
// on them.
func segments(b []byte) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		for from := 0; from < len(b); from += segment {
			if !yield(span{from, min(from+segment, len(b))}) {
				return
			}
		}
	}
}

// block returns the part of o's data that is block i, counted round the ring. The
// first blocks are one element longer when the data do not divide evenly; with fewer
// elements than ranks the last are empty.
func (c *comm) block(o *op, i int) span {
	i = (i + 2*c.size) % c.size
	n := int(o.count)
	start := func(i int) int { return (i*(n/c.size) + min(i, n%c.size)) * o.dtype.Size() }
	return span{start(i), start(i + 1)}
}

// room returns n bytes for what comes from a peer, aligned for any element; the next
// call reuses them.
func (c *comm) room(n int) []byte {
	if cap(c.scratch) < n {
		c.scratch = make([]byte, max(n, 64)) // a few bytes may begin anywhere
	}
	return c.scratch[:n]
}
