package agent

import (
	"sync"
	"time"
)

// ending is the order to stop: who gave it, and when the grace is over. The first
// order begins it, later ones can only shorten it. Its methods may be called from
// any goroutine.
type ending struct {
	begun chan struct{} // closed by the first order
	moved chan struct{} // capacity 1: the deadline has moved
	hurry chan struct{} // closed when nobody will take the rest of the output
	gone  chan struct{} // closed when the link is lost

	mu       sync.Mutex
	why      string    // guarded by mu; "" when the head asked for the end
	code     int       // guarded by mu; of this process
	deadline time.Time // guarded by mu
	draining bool      // guarded by mu; all processes are dead, output is on its way
}

func newEnding() *ending {
	return &ending{begun: make(chan struct{}), moved: make(chan struct{}, 1), hurry: make(chan struct{}), gone: make(chan struct{})}
}

// order asks for the end with so much grace. why is empty, and code 0, when the
// head asked. An order without grace that comes when only output is left to be sent
// gives that up.
func (e *ending) order(why string, code int, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	deadline := time.Now().Add(max(grace, 0))
	if !isClosed(e.begun) {
		e.why, e.code, e.deadline = why, code, deadline
		close(e.begun)
		return
	}
	if e.draining && grace <= 0 {
		closeOnce(e.hurry)
	}
	if deadline.Before(e.deadline) {
		e.deadline = deadline
		select {
		case e.moved <- struct{}{}:
		default:
		}
	}
}

// lose is the order given by the end of the link: the process fails even if the
// head had asked it to stop before.
func (e *ending) lose(why string, grace time.Duration) {
	e.order(why, exitLost, grace)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == 0 {
		e.why, e.code = why, exitLost
	}
	closeOnce(e.gone)
	closeOnce(e.hurry)
}

// drain notes that only output is left to be sent.
func (e *ending) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
}

// left is the time until the grace is over.
func (e *ending) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Until(e.deadline)
}

// reason is why the process ends, and with which code.
func (e *ending) reason() (why string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why, e.code
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}
