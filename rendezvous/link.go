package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// link is a connection to the agent that several callers share. One goroutine reads.
type link struct {
	conn       net.Conn
	in         *bufio.Reader
	rank, size int
	secret     []byte
	gone       chan struct{} // closed when the reader has ended
	reading    sync.WaitGroup

	writing sync.Mutex // held while a request is written

	mu      sync.Mutex
	answers map[uint64]chan Reply // guarded by mu; by request ID, each with room for one
	last    uint64                // guarded by mu; ID
}

// errNoAnswer: no reply came in the time given to await.
var errNoAnswer = errors.New("no answer")

// newLink says hello on conn, within conn's deadline, which it then removes, and
// starts the reader. An *Error is the agent's refusal.
func newLink(conn net.Conn, rank, size int) (*link, error) {
	l := &link{
		conn: conn, in: bufio.NewReaderSize(conn, maxReplyLine), rank: rank, size: size,
		gone: make(chan struct{}), answers: map[uint64]chan Reply{},
	}
	hello := Request{Op: opHello, Rank: rank}
	// An agent that refuses at once may have closed already: its reason can be read
	// though hello cannot be written.
	conn.Write(hello.Append(nil))
	r, err := readReply(l.in)
	if err != nil {
		return nil, err
	}
	if err := r.failure(0); err != nil {
		return nil, err
	}
	if len(r.Value) != SecretLen {
		return nil, fmt.Errorf("secret of %d bytes; want %d", len(r.Value), SecretLen)
	}
	l.secret = r.Value
	conn.SetDeadline(time.Time{})
	l.reading.Go(l.read)
	return l, nil
}

// read hands replies to those who wait for them. Replies that nobody waits for any
// more are dropped.
func (l *link) read() {
	defer close(l.gone)
	defer l.conn.Close()
	for {
		r, err := readReply(l.in)
		if err != nil {
			return
		}
		l.mu.Lock()
		answer := l.answers[r.ID]
		delete(l.answers, r.ID)
		l.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
}

// register makes room for n answers, to the requests from first on. All come in one channel.
func (l *link) register(n int) (first uint64, answers chan Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answers = make(chan Reply, n)
	for range n {
		l.last++
		l.answers[l.last] = answers
	}
	return l.last - uint64(n) + 1, answers
}

// withdraw takes back those of n requests from first on that have not been answered.
func (l *link) withdraw(first uint64, n int) {
	var text []byte
	l.mu.Lock()
	for id := first; id < first+uint64(n); id++ {
		if _, waits := l.answers[id]; waits {
			delete(l.answers, id)
			text = Request{ID: id, Op: opCancel}.Append(text)
		}
	}
	l.mu.Unlock()
	if text != nil {
		l.write(text, answerGrace)
	}
}

// write sends requests. A failed or late write ends the link, since what follows half a
// request would be misread.
func (l *link) write(text []byte, within time.Duration) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(within))
	if _, err := l.conn.Write(text); err != nil {
		l.conn.Close()
		return ErrGone
	}
	return nil
}

// await waits for a reply for limit of this process's own time: a second in which
// the process was stopped, or the whole job paused, counts as one at most. A
// context's deadline is the agent's to keep, and is not looked at here.
func (l *link) await(ctx context.Context, answer chan Reply, limit time.Duration) (Reply, error) {
	cancelled := ctx.Done()
	step := min(limit, time.Second)
	timer := time.NewTimer(step)
	defer timer.Stop()
	for {
		select {
		case r := <-answer:
			return r, nil
		case <-l.gone:
			select {
			case r := <-answer:
				return r, nil
			default:
				return Reply{}, ErrGone
			}
		case <-cancelled:
			if ctx.Err() != context.DeadlineExceeded {
				return Reply{}, context.Cause(ctx)
			}
			cancelled = nil
		case <-timer.C:
			if limit -= step; limit <= 0 {
				return Reply{}, errNoAnswer
			}
			step = min(limit, time.Second)
			timer.Reset(step)
		}
	}
}

func (l *link) close() {
	l.conn.Close()
	l.reading.Wait()
}
