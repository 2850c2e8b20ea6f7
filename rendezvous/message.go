package rendezvous

import "time"

// Request asks the store for something: of a rank to its agent, or of an agent to the head.
type Request struct {
	ID      uint64 // chosen by who asks; the Reply repeats it
	Op      string // hello, put, get, try, barrier or cancel
	Key     string // or the barrier's name
	Rank    int    // who asks; from a rank it counts only in hello
	Epoch   int
	Timeout time.Duration // 0: DefaultTimeout
	From    *int          // get: the rank that is to write the key; nil: not said
	Value   []byte        // put

	// A barrier's report of a host to the head: its ranks that have not come, and
	// those that came and left again. The whole host waits when both are empty.
	Missing, Left []int
}

// Reply answers the Request with the same ID.
type Reply struct {
	ID    uint64
	Code  string // "" for success, else a code of Error
	Err   string // text of the error
	Value []byte
}

// Append adds r's line and value to b.
func (r Request) Append(b []byte) []byte { return b }

// ParseRequest reads a whole request: one line and exactly its value. The result
// shares no memory with p.
func ParseRequest(p []byte) (Request, error) { return Request{}, ErrGone }

// Append adds r's line and value to b.
func (r Reply) Append(b []byte) []byte { return b }

// ParseReply reads a whole reply: one line and exactly its value. The result shares
// no memory with p.
func ParseReply(p []byte) (Reply, error) { return Reply{}, ErrGone }
