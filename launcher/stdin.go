package launcher

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// backgroundRetry is how often a terminal is tried again while this process is in
// the background: reading it then is an error, since SIGTTIN is ignored.
const backgroundRetry = time.Second

// stdinPump copies gorun's stdin to one rank or to all, against the credit their
// agents grant; it reads nothing that no rank can take. It owns one goroutine.
type stdinPump struct {
	in     *os.File
	send   func(rank int, p []byte) error // empty: end of file
	failed func(error)                    // told when in cannot be read; end of file is sent then
	wake   [2]*os.File                    // closing wake[1] ends the goroutine
	done   chan struct{}

	mu     sync.Mutex
	cond   *sync.Cond
	credit map[int]int // by rank that still reads; guarded by mu
	closed bool        // guarded by mu
}

// newStdinPump starts copying from in to the given ranks.
func newStdinPump(in *os.File, ranks []int, send func(rank int, p []byte) error, failed func(error)) (*stdinPump, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &stdinPump{in: in, send: send, failed: failed, wake: [2]*os.File{r, w}, done: make(chan struct{}), credit: map[int]int{}}
	p.cond = sync.NewCond(&p.mu)
	for _, rank := range ranks {
		p.credit[rank] = 0
	}
	go p.run()
	return p, nil
}

// grant lets n more bytes go to rank.
func (p *stdinPump) grant(rank, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.credit[rank]; ok {
		p.credit[rank] += n
		p.cond.Signal()
	}
}

// forget stops sending to a rank that has ended.
func (p *stdinPump) forget(rank int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.credit, rank)
	p.cond.Signal()
}

// readPatience is how long close waits for a read: another process may have taken the
// input that was there, and the read cannot be called back.
const readPatience = time.Second

// close ends the goroutine and waits for it, unless it hangs in a read. Its sends
// must not block any more.
func (p *stdinPump) close() {
	p.mu.Lock()
	p.closed = true
	p.cond.Signal()
	p.mu.Unlock()
	p.wake[1].Close()
	select {
	case <-p.done:
	case <-time.After(readPatience):
	}
}

// room waits until every rank that still reads has credit, and returns the least;
// 0 when there is nobody left to read.
func (p *stdinPump) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && len(p.credit) > 0 {
		least := wire.MaxPayload
		for _, c := range p.credit {
			least = min(least, c)
		}
		if least > 0 {
			return least
		}
		p.cond.Wait()
	}
	return 0
}

func (p *stdinPump) run() {
	defer close(p.done)
	defer p.wake[0].Close()
	buf := make([]byte, wire.MaxPayload)
	for {
		room := p.room()
		if room == 0 {
			return
		}
		n, err := p.read(buf[:room])
		if err == errEnded {
			return
		}
		if err != nil && err != io.EOF {
			p.failed(err)
		}
		p.pass(buf[:n])
		if err != nil {
			return
		}
	}
}

// errEnded is returned by read when the pump is being closed.
var errEnded = errors.New("stdin: ended")

// read waits for input or for close. End of file is io.EOF with no bytes.
func (p *stdinPump) read(buf []byte) (int, error) {
	in, wake := int(p.in.Fd()), int(p.wake[0].Fd())
	for {
		fds := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, errEnded
		}
		if fds[0].Revents == 0 {
			continue
		}
		n, err := unix.Read(in, buf)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err == unix.EIO && isTerminal(in):
			fds = fds[1:]
			unix.Poll(fds, int(backgroundRetry/time.Millisecond))
			if fds[0].Revents != 0 {
				return 0, errEnded
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// pass sends b, empty for end of file, to every rank that still reads.
func (p *stdinPump) pass(b []byte) {
	p.mu.Lock()
	var ranks []int
	for r := range p.credit {
		p.credit[r] -= len(b)
		ranks = append(ranks, r)
	}
	p.mu.Unlock()
	for _, r := range ranks {
		if p.send(r, b) != nil {
			p.forget(r)
		}
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
