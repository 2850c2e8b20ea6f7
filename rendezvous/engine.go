package rendezvous

import "time"

// Engine holds the keys and barriers of one job. It does no I/O, has no clock and
// no goroutine: requests and the time go in, replies come out, and the same input
// gives the same output. It is not safe for concurrent use.
//
// The time may be any clock that never goes back; one that stands still while the
// job is suspended keeps deadlines from passing meanwhile.
type Engine struct{}

// Routed is a reply for one host's agent. Reply.Value must not be changed.
type Routed struct {
	Host  int
	Reply Reply
}

// NewEngine returns the Engine of a job of size ranks. hosts are the hosts' names,
// for error texts; hostOf gives the index in hosts of a rank's host.
func NewEngine(size int, hosts []string, hostOf func(rank int) int) *Engine { return &Engine{} }

// Handle takes a request of a host's agent and returns the replies that are now
// due, also to requests of other hosts. Requests of one host must be handled in
// the order in which its agent sent them. It keeps no memory of r but a copy.
func (e *Engine) Handle(now time.Time, host int, r Request) []Routed { return nil }

// Tick returns the replies to requests whose deadline is not after now.
func (e *Engine) Tick(now time.Time) []Routed { return nil }

// Next returns when Tick is next needed, or the zero time if nothing waits.
func (e *Engine) Next() time.Time { return time.Time{} }
