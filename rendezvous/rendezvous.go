// Package rendezvous lets the ranks of a job exchange keys and meet.
//
// There are three parts. The Engine, at the head, holds all keys and barriers and
// is a pure function of requests and time. A Server, in each agent, takes the
// ranks' connections on a unix socket, joins what they ask into few messages to
// the head, and caches values. A Client, in a rank, is what programs use; so does
// the command "gorun store". The package moves no frames between agent and head:
// its callers do.
//
// The environment variable GORUN_STORE is unix:PATH. What is said on that socket, with
// limits, codes, what a barrier is, and which keys hold unique IDs, is in docs/store.md:
// requests and replies are each one line of JSON and then raw bytes. Agent and head
// speak the same language, in which a barrier's report has two fields more.
package rendezvous

import (
	"errors"
	"fmt"
	"time"
)

// Limits of the store.
const (
	MaxKey   = 256      // bytes of a key or a barrier's name
	MaxValue = 64 << 10 // bytes of a value
	MaxTotal = 64 << 20 // bytes of a job: keys, values and 64 for each key
	MaxLine  = 4 << 10  // bytes of a line on the socket, with its end
	MaxPath  = 90       // bytes of the socket's path
)

// DefaultTimeout is how long a request waits whose context has no deadline.
const DefaultTimeout = 60 * time.Second

// SecretLen is the length of a job's secret in bytes.
const SecretLen = 32

// Codes of an Error.
const (
	CodeDeadline = "deadline" // what was waited for did not come; the text says who is missing
	CodeGone     = "gone"     // it will never come: who is missing has ended; the text says the same
	CodeConflict = "conflict" // the key has another value
	CodeTwice    = "twice"    // the rank waits in this barrier already
	CodeLimit    = "limit"    // too long, too much or too many
	CodeInvalid  = "invalid"  // not a request
)

const (
	codeAbsent    = "absent"    // try: the key is not there
	codeWithdrawn = "withdrawn" // head to agent: a cancelled barrier report, which no longer counts
)

// Error is the store's refusal of a request. No retry helps but after CodeDeadline.
type Error struct {
	Code   string
	Text   string        // for people; names ranks and hosts
	Waited time.Duration // how long a request with CodeDeadline was allowed to wait
}

// Error returns e's text, and how long was waited.
func (e *Error) Error() string {
	if e.Waited <= 0 {
		return e.Text
	}
	unit := 10 * time.Millisecond
	if e.Waited > 2*time.Second {
		unit = 100 * time.Millisecond
	}
	return fmt.Sprintf("%s (waited %g s)", e.Text, e.Waited.Round(unit).Seconds())
}

// ErrGone is returned by a Client whose connection to the agent has ended, and by
// Dial when nobody listens: the job is over, or ending. No retry helps.
var ErrGone = errors.New("the store is gone: the job has ended")

// ErrNotLaunched is returned by Dial in a process that gorun did not start.
var ErrNotLaunched = errors.New("not under gorun: GORUN_STORE is not set")
