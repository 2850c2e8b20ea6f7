package rendezvous

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Request asks the store for something: of a rank to its agent, or of an agent to the head.
type Request struct {
	ID      uint64 // chosen by who asks; the Reply repeats it
	Op      string // hello, put, get, try, barrier or cancel
	Key     string // or the barrier's name
	Rank    int    // who asks; from a rank it counts only in hello
	Epoch   int
	Timeout time.Duration // 0: DefaultTimeout; sent in whole milliseconds
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

const (
	opHello   = "hello"
	opPut     = "put"
	opGet     = "get"
	opTry     = "try"
	opBarrier = "barrier"
	opCancel  = "cancel"
	opOver    = "over" // agent to head: its ranks in Missing are over; no answer
)

// maxTimeout is what a longer timeout counts as; it keeps sums of times in range.
const maxTimeout = 365 * 24 * time.Hour

// The lines as JSON. The order of fields is the order of the package comment.
type requestLine struct {
	Op      string `json:"op"`
	Key     string `json:"key,omitempty"`
	Len     int    `json:"len"`
	Timeout int64  `json:"timeout_ms,omitempty"`
	Epoch   int    `json:"epoch,omitempty"`
	ID      uint64 `json:"id,omitempty"`
	Rank    int    `json:"rank,omitempty"`
	From    *int   `json:"from,omitempty"`
	Missing []int  `json:"missing,omitempty"`
	Left    []int  `json:"left,omitempty"`
}

type replyLine struct {
	ID   uint64 `json:"id"`
	Len  int    `json:"len"`
	Code string `json:"code,omitempty"`
	Err  string `json:"err,omitempty"`
}

// Append adds r's line and value to b.
func (r Request) Append(b []byte) []byte {
	ms := int64((r.Timeout + time.Millisecond - 1) / time.Millisecond)
	return appendMessage(b, requestLine{r.Op, r.Key, len(r.Value), ms, r.Epoch, r.ID, r.Rank, r.From, r.Missing, r.Left}, r.Value)
}

// Append adds r's line and value to b.
func (r Reply) Append(b []byte) []byte {
	return appendMessage(b, replyLine{r.ID, len(r.Value), r.Code, r.Err}, r.Value)
}

func appendMessage(b []byte, line any, value []byte) []byte {
	text, err := json.Marshal(line)
	if err != nil {
		panic("rendezvous: " + err.Error()) // numbers and strings always marshal
	}
	b = append(b, text...)
	b = append(b, '\n')
	return append(b, value...)
}

// ParseRequest reads a whole request: one line and exactly its value. The result
// shares no memory with p.
func ParseRequest(p []byte) (Request, error) {
	line, value, err := split(p)
	if err != nil {
		return Request{}, err
	}
	r, n, err := parseRequestLine(line, 0)
	if err == nil {
		r.Value, err = takeValue(value, n)
	}
	return r, err
}

// ParseReply reads a whole reply: one line and exactly its value. The result shares
// no memory with p.
func ParseReply(p []byte) (Reply, error) {
	line, value, err := split(p)
	if err != nil {
		return Reply{}, err
	}
	r, n, err := parseReplyLine(line)
	if err == nil {
		r.Value, err = takeValue(value, n)
	}
	return r, err
}

func split(p []byte) (line, value []byte, err error) {
	line, value, ok := bytes.Cut(p, []byte("\n"))
	if !ok {
		return nil, nil, errors.New("store message without a line's end")
	}
	return line, value, nil
}

func takeValue(value []byte, n int) ([]byte, error) {
	if len(value) != n {
		return nil, fmt.Errorf("store message with a value of %d bytes; its line says %d", len(value), n)
	}
	if n == 0 {
		return nil, nil
	}
	return bytes.Clone(value), nil
}

// parseRequestLine returns the request without its value, and the value's length.
// A line that says no epoch is of the given one.
func parseRequestLine(line []byte, epoch int) (Request, int, error) {
	h := requestLine{Epoch: epoch}
	if err := parseLine(line, &h); err != nil {
		return Request{}, 0, err
	}
	if h.Timeout < 0 {
		return Request{}, 0, invalid("timeout_ms %d is negative", h.Timeout)
	}
	timeout := time.Duration(min(h.Timeout, int64(maxTimeout/time.Millisecond))) * time.Millisecond
	r := Request{ID: h.ID, Op: h.Op, Key: h.Key, Rank: h.Rank, Epoch: h.Epoch, Timeout: timeout, From: h.From, Missing: h.Missing, Left: h.Left}
	return r, h.Len, checkLen(h.Len)
}

func parseReplyLine(line []byte) (Reply, int, error) {
	var h replyLine
	if err := parseLine(line, &h); err != nil {
		return Reply{}, 0, err
	}
	return Reply{ID: h.ID, Code: h.Code, Err: h.Err}, h.Len, checkLen(h.Len)
}

func parseLine(line []byte, to any) error {
	// encoding/json would turn different bad bytes into the same character, and so
	// make one key of several.
	if !utf8.Valid(line) {
		return invalid("the line is not UTF-8")
	}
	if err := json.Unmarshal(line, to); err != nil {
		return invalid("the line is not a message: %v", err)
	}
	return nil
}

func checkLen(n int) error {
	switch {
	case n < 0:
		return invalid("len %d is negative", n)
	case n > MaxValue:
		return &Error{Code: CodeLimit, Text: fmt.Sprintf("a value of %d bytes; the limit is %d", n, MaxValue)}
	}
	return nil
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Text: fmt.Sprintf(format, args...)}
}

// check returns what is wrong with a request that was well formed, or nil.
func (r *Request) check() *Error {
	if r.Op == opCancel {
		return nil
	}
	switch r.Op {
	case opPut, opGet, opTry, opBarrier:
	default:
		return invalid("unknown op %q", r.Op)
	}
	switch {
	case r.Epoch < 0:
		return invalid("epoch %d is negative", r.Epoch)
	case r.Key == "":
		return invalid("%s without a key", r.Op)
	case len(r.Key) > MaxKey:
		return &Error{Code: CodeLimit, Text: fmt.Sprintf("a key of %d bytes; the limit is %d", len(r.Key), MaxKey)}
	case !utf8.ValidString(r.Key):
		return invalid("key %q is not UTF-8", r.Key)
	case r.From != nil && *r.From < 0:
		return invalid("from %d is negative", *r.From)
	case r.Op != opPut && len(r.Value) > 0:
		return invalid("%s with a value", r.Op)
	}
	if err := checkLen(len(r.Value)); err != nil {
		return err.(*Error)
	}
	return nil
}

// wait returns how long r may wait.
func (r *Request) wait() time.Duration {
	switch {
	case r.Timeout <= 0:
		return DefaultTimeout
	case r.Timeout > maxTimeout:
		return maxTimeout
	}
	return r.Timeout
}

// refusal is the reply to request id that carries e.
func refusal(id uint64, e *Error) Reply { return Reply{ID: id, Code: e.Code, Err: e.Text} }

// name is what a key or a barrier is known by.
type name struct {
	epoch int
	key   string
}

func (n name) String() string {
	if n.epoch == 0 {
		return fmt.Sprintf("%q", n.key)
	}
	return fmt.Sprintf("%q of epoch %d", n.key, n.epoch)
}

func (n name) compare(m name) int {
	return cmp.Or(cmp.Compare(n.epoch, m.epoch), cmp.Compare(n.key, m.key))
}
