// Package rendezvous lets the ranks of a job exchange keys and meet.
//
// There are three parts. The Engine, at the head, holds all keys and barriers and
// is a pure function of requests and time. A Server, in each agent, takes the
// ranks' connections on a unix socket, joins what they ask into few messages to
// the head, and caches values. A Client, in a rank, is what programs use; so does
// the command "gorun store". The package moves no frames between agent and head:
// its callers do.
//
// # Protocol of the socket
//
// GORUN_STORE=unix:PATH names the socket. A request is one line of JSON and then
// len raw bytes:
//
//	{"op":"put","key":"addr/3","len":14,"timeout_ms":60000,"epoch":0,"id":7}
//
// and a reply is the same:
//
//	{"id":7,"len":0}
//	{"id":8,"len":0,"code":"deadline","err":"key \"addr/3\": rank 3 on node2 has not written it"}
//
// A reply repeats the request's id; requests may be sent without waiting, and are
// then answered in the order in which they can be. A line is at most MaxLine bytes
// of UTF-8. Fields left out are zero, but for timeout_ms (60 seconds) and epoch (that of hello).
// Unknown fields are ignored. The ops:
//
//	hello    {rank, epoch} comes first, within 5 seconds; the reply's value is the job's secret
//	put      {key, len} sets a key; the same value again is fine, another is an error (conflict)
//	get      {key, timeout_ms, from} waits for a key; from is the rank that is to write it, for the error's text
//	try      {key} answers at once; a key that is not there has the code "absent"
//	barrier  {key, timeout_ms} waits until every rank of the job has entered the barrier of that name
//	cancel   {id} takes back a waiting request, which is then never answered; cancel has no reply
//
// Keys and barriers belong to an epoch: those of different epochs never meet.
// A closed connection takes back everything it waits for, also when only its
// writing side is closed. After a line that is not a request, or a value that is
// too long, the agent answers with an error and closes the connection.
//
// # Barriers
//
// A barrier is known by its name and epoch, and is for all ranks of the job. It is
// released, for all, at a moment when every rank waits in it; a rank whose
// deadline passes or whose connection closes has left it. From that moment the
// name is free again, and a rank that enters it enters the next barrier of that
// name: it does not matter which of the rank's processes enters, or how many there
// were before. A rank that enters a barrier in which it waits already gets an error.
// A client that is killed in the very moment of the release may count as present.
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
