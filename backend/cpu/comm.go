package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorun/backend"
)

const (
	// stallAfter is how long a collective waits before it tells rank 0 what it is.
	stallAfter = 100 * time.Millisecond

	// tellTimeout bounds how long a rank tries to tell the others something.
	tellTimeout = time.Second

	// verdictTimeout is how long a broken data connection waits for the control
	// connections to say why.
	verdictTimeout = time.Second

	// lastWords is how long a rank whose control connection has ended is not said to be
	// gone, as another rank may be about to say why it ended.
	lastWords = 200 * time.Millisecond
)

// comm is one rank's end of a communicator. Its goroutines are progress, which does
// the collectives; the sender, which writes for it what is too long to be written
// at once; one watcher for each control connection; and the monitor. Close ends and
// joins them all.
type comm struct {
	session    *session
	name       string
	rank, size int
	ranks      []int   // the job's rank of each rank here
	peers      []*peer // by rank; nil at rank

	tx      *sender
	stall   *time.Timer  // fires when the collective under way has taken long
	waiting atomic.Int32 // the rank that progress waits for, or -1

	// Owned by progress.
	out     []byte // a message that is written at once
	in      [callLen]byte
	scratch []byte   // what has come from a peer and is to be reduced
	marks   []uint64 // the sender's count at earlier steps

	mu      sync.Mutex
	wake    sync.Cond // something below has changed; progress waits for it
	queue   []*op     // guarded by mu; calls not begun
	seq     uint64    // guarded by mu; of the last call
	current call      // guarded by mu; the call under way, if its seq is not 0
	reports []call    // guarded by mu; at rank 0: the last call that a rank reported
	leaver  *leaver   // guarded by mu; the rank that closed first
	err     error     // guarded by mu; why the communicator is dead
	closing bool      // guarded by mu

	dead chan struct{} // closed with err set
	told chan struct{} // closed when the others have been told, after dead

	quit     chan struct{} // closed by Close; ends the monitor
	finished chan struct{} // closed when progress has ended
	wg       sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// leaver is a rank that has closed the communicator after call seq.
type leaver struct {
	rank int
	seq  uint64
}

// newComm makes the communicator name of the job's ranks, in which this process is
// rank, and waits for the others.
func newComm(ctx context.Context, s *session, name string, rank int, ranks []int) (*comm, error) {
	size := len(ranks)
	s.users.Add(1)
	c := &comm{
		session: s, name: name, rank: rank, size: size, ranks: ranks,
		peers: make([]*peer, size), reports: make([]call, size), marks: make([]uint64, size),
		stall: time.NewTimer(time.Hour), tx: newSender(),
		dead: make(chan struct{}), told: make(chan struct{}), quit: make(chan struct{}), finished: make(chan struct{}),
	}
	c.stall.Stop()
	c.wake.L = &c.mu
	for r := range c.peers {
		if r != rank {
			c.peers[r] = &peer{rank: r}
		}
	}
	err := c.join(ctx)
	c.wg.Go(c.progress)
	c.wg.Go(c.monitor)
	c.wg.Go(func() { c.tx.loop(c.broken) })
	if err != nil {
		return nil, c.abandon(ctx, err)
	}
	return c, nil
}

// abandon frees a communicator that could not be opened, and returns why. Ranks that
// are connected already are told.
func (c *comm) abandon(ctx context.Context, err error) error {
	own := &backend.AbortError{Comm: c.name, Rank: c.rank, Err: err}
	c.fail(own)
	if reason := c.Close(ctx); !errors.Is(reason, own) {
		return reason
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

func (c *comm) Rank() int { return c.rank }

func (c *comm) Size() int { return c.size }

// fail kills the communicator for the reason err, unless it is dead, and tells the
// other ranks. It may be called by any goroutine, and returns when they are told.
func (c *comm) fail(err error) {
	if c.die(err) {
		c.tellAll(abortFrame(err))
		close(c.told)
	}
	<-c.told
}

// die is fail without telling anybody. It reports whether the communicator was
// alive; then the caller must close c.told.
func (c *comm) die(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	close(c.dead)
	for _, p := range c.peers {
		p.closeData()
	}
	c.tx.fail()
	c.wake.Broadcast()
	return true
}

// broken handles a data connection that no longer works. The reason is on its way
// on a control connection, if the peer's end is not cut off.
func (c *comm) broken(rank int, err error) {
	t := time.NewTimer(verdictTimeout)
	defer t.Stop()
	select {
	case <-c.dead:
	case <-t.C:
		c.fail(&backend.PeerError{Comm: c.name, Rank: rank, Err: fmt.Errorf("data connection: %w", err)})
	}
}

func (c *comm) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort implements backend.Comm.
func (c *comm) Abort(err error) {
	if err == nil {
		err = errors.New("no reason given")
	}
	c.fail(&backend.AbortError{Comm: c.name, Rank: c.rank, Err: err})
}

// Close implements backend.Comm.
func (c *comm) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { c.closeErr = c.shut(ctx) })
	return c.closeErr
}

func (c *comm) shut(ctx context.Context) error {
	c.mu.Lock()
	c.closing = true
	c.wake.Broadcast()
	c.mu.Unlock()
	select {
	case <-c.finished:
	case <-ctx.Done():
		c.fail(&backend.AbortError{Comm: c.name, Rank: c.rank, Err: fmt.Errorf("close: %w", ctx.Err())})
		<-c.finished
	}
	err := c.failure()
	if err == nil {
		c.tellAll(byeFrame(c.seq)) // no call changes seq when closing
	} else {
		<-c.told
	}
	close(c.quit)
	c.tx.close()
	for _, p := range c.peers {
		p.closeData()
		p.closeControl()
	}
	c.wg.Wait()
	return errors.Join(err, c.session.release())
}

// monitor tells rank 0 of calls that take long.
func (c *comm) monitor() {
	for {
		select {
		case <-c.quit:
			return
		case <-c.stall.C:
			c.report()
		}
	}
}

func (c *comm) report() {
	c.mu.Lock()
	k := c.current
	c.mu.Unlock()
	switch {
	case k.seq == 0: // it has just ended
	case c.rank == 0:
		c.judge(0, k)
	default:
		c.tell(c.peers[0], reportFrame(k))
	}
}

// judge compares what a rank has called with what others have reported: rank 0 alone
// does so. A rank that has not come to this call will be compared when it does.
func (c *comm) judge(rank int, k call) {
	c.mu.Lock()
	c.reports[rank] = k
	var err error
	for other, seen := range c.reports {
		if seen.seq == k.seq && seen != k {
			err = c.mismatch(rank, k, other, seen)
			break
		}
	}
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
}

// leave notes that a rank has closed the communicator after call seq.
func (c *comm) leave(rank int, seq uint64) {
	c.mu.Lock()
	if c.leaver == nil || seq < c.leaver.seq {
		c.leaver = &leaver{rank, seq}
	}
	err := c.leftLocked()
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
}

// leftLocked returns an error if the call under way waits for a rank that has left.
func (c *comm) leftLocked() error {
	if l := c.leaver; l != nil && c.current.seq > l.seq {
		return &backend.PeerError{Comm: c.name, Rank: l.rank, Err: fmt.Errorf("closed the communicator after call %d", l.seq)}
	}
	return nil
}
