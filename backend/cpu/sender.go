package cpu

import "sync"

// sender writes, in order, what progress hands it, so that progress can read
// meanwhile. put, count, wrote and flush are for progress alone.
type sender struct {
	mu     sync.Mutex
	wake   sync.Cond // something below has changed
	queue  []item    // guarded by mu
	next   int       // guarded by mu; index in queue
	puts   uint64    // guarded by mu; items ever put
	writes uint64    // guarded by mu; items ever written
	busy   bool      // guarded by mu; an item is being written
	failed bool      // guarded by mu; nothing more is written
	closed bool      // guarded by mu
}

type item struct {
	p *peer
	b []byte
}

func newSender() *sender {
	s := &sender{}
	s.wake.L = &s.mu
	return s
}

// put queues b to be written to p. b must stay as it is until it has been written.
func (s *sender) put(p *peer, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.queue) {
		s.queue, s.next = s.queue[:0], 0
	}
	s.queue = append(s.queue, item{p, b})
	s.puts++
	s.wake.Broadcast()
}

// count is the number of items put so far.
func (s *sender) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// wrote waits until the first n items have been written. It reports false, and that
// none is being written, if the sender has failed.
func (s *sender) wrote(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy && s.failed || s.writes < n && !s.failed {
		s.wake.Wait()
	}
	return !s.failed
}

// flush waits for everything that was put; see wrote.
func (s *sender) flush() bool { return s.wrote(s.count()) }

// fail makes the sender drop what it has and will get. A write under way must be
// ended by closing its connection.
func (s *sender) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = true
	s.wake.Broadcast()
}

// close ends loop, when it has written the item under way.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Broadcast()
}

// loop writes until close. It calls broken when a connection does not take an item.
func (s *sender) loop(broken func(rank int, err error)) {
	for {
		it, ok := s.take()
		if !ok {
			return
		}
		_, err := it.p.data.Write(it.b)
		s.done()
		if err != nil {
			s.fail()
			broken(it.p.rank, err)
		}
	}
}

func (s *sender) take() (item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && (s.failed || s.next == len(s.queue)) {
		s.wake.Wait()
	}
	if s.closed {
		return item{}, false
	}
	it := s.queue[s.next]
	s.queue[s.next] = item{}
	s.next++
	s.busy = true
	return it, true
}

func (s *sender) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.writes++
	s.wake.Broadcast()
}
