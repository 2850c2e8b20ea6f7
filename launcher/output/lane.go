package output

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	batchSize = 64 << 10
	maxOwn    = 1 << 20 // bytes of gorun's own lines kept while their destination is blocked
)

// lane is one destination with the streams that go there. Writers put bytes into the
// streams' rings; run, its only goroutine, takes them out and writes them.
type lane struct {
	name     string
	w        io.Writer
	terminal bool
	through  bool       // bytes of ranks pass at once, untouched
	tags     []string   // by rank; nil for none
	folds    [3]*folder // by stream; nil unless equal lines are joined. Of run
	hosts    []string   // by rank; nil unless joined lines name them
	color    bool       // their marks are coloured
	stamp    bool       // lines begin with the time at which they came
	partial  int
	written  func(rank, which, n int)
	failed   func(err error, dest string)

	bars  bool       // progress bars are shown for one rank
	width func() int // columns of the terminal for a last line, 0 for none now; nil: never

	wake chan struct{} // capacity 1
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	streams [3][]stream // by number and rank; guarded by mu, as all that follows
	ending  []*stream   // those that have ended, and of which the folder does not know
	own     stream      // gorun's own lines
	dropped int         // of them
	flight  int         // bytes of the write in progress
	order   order
	skips   []*stream // of which something was skipped
	scratch []byte    // for use
	closing bool      // nothing more comes
	gone    bool      // nobody waits for what is left

	// The line at which the destination stands.
	last    *stream   // whose bytes were taken last
	mid     bool      // they did not end a line
	lastAt  time.Time // when that was
	waiting time.Time // since when a ready line waits for the end of this one; zero: none does
	showAt  time.Time // when the first unfinished line comes of age on a terminal; zero: none

	// The last line, which is no part of the output.
	status string
	stale  bool          // what is shown is not what should be
	hidden int           // by how many
	erased chan struct{} // closed when nothing is shown any more; nil: nothing ever was
}

// stream is what one rank has yet to see written of its stdout or stderr. The bytes
// after the ready ones are held: the beginning of an unfinished line.
type stream struct {
	ring
	ready  int    // oldest bytes that stand in records of the order, or will leave as they are
	taken  int    // bytes that were taken before their record came first
	newest uint64 // number of its newest record
	since  time.Time
	ended  bool

	bar     bool // the unfinished line is a progress bar
	skipped int  // bytes that others overwrite, since it was told last

	rank, which int // which is 0 for gorun's own lines
}

func newLane(o Options, name string, w io.Writer, terminal bool) *lane {
	l := &lane{
		name: name, w: w, terminal: terminal, partial: o.Partial,
		through: len(o.Hosts) == 1 && !o.Tag && !o.Stamp && !o.Fold, stamp: o.Stamp,
		written: o.Written, failed: o.Failed,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if terminal && o.Width != nil {
		l.width, l.bars = o.Width, !l.through
	}
	switch {
	case o.Fold && o.Tag:
		l.hosts = o.Hosts
		fallthrough
	case o.Fold:
		l.color = o.Color && terminal
	case o.Tag:
		l.tags = tags(o.Hosts, o.Color && terminal)
	}
	return l
}

// carry makes stream number which of every rank go to l, equal lines joined if fold.
func (l *lane) carry(which, ranks int, fold bool) {
	if fold {
		l.folds[which] = newFolder(ranks)
	}
	l.streams[which] = make([]stream, ranks)
	for i := range l.streams[which] {
		s := &l.streams[which][i]
		s.rank, s.which = i, which
	}
}

func tags(hosts []string, color bool) []string {
	t := make([]string, len(hosts))
	for i, h := range hosts {
		t[i] = fmt.Sprintf("[%d %s] ", i, Clean(h))
		if color {
			t[i] = fmt.Sprintf("\x1b[%dm[%d %s]\x1b[0m ", colorOf(i), i, Clean(h))
		}
	}
	return t
}

// colorOf is the colour of a rank's mark: green to cyan.
func colorOf(rank int) int { return 32 + rank%5 }

func (l *lane) write(rank, which int, p []byte) {
	l.mu.Lock()
	news := !l.closing && l.pushLocked(&l.streams[which][rank], p)
	l.mu.Unlock()
	if news {
		l.poke()
	}
}

// pushLocked adds p to s and reports whether run has something to do.
func (l *lane) pushLocked(s *stream, p []byte) bool {
	if l.bars && s != &l.own && (s.bar || bytes.IndexByte(p, '\r') >= 0 && !l.loose(s)) {
		return l.pushBarLocked(s, p)
	}
	return l.pushPlainLocked(s, p)
}

func (l *lane) pushPlainLocked(s *stream, p []byte) bool {
	held := s.n - s.ready
	s.push(p)
	whole := wholeLines(p)
	begins := whole < len(p) && (whole > 0 || held == 0)
	ready := s.ready
	if whole > 0 {
		ready = s.n - len(p) + whole
	}
	if l.through || s.n-ready >= l.partial {
		ready = s.n
	}
	news := l.readyLocked(s, ready) || l.mid && l.last == s
	if begins && l.terminal && s.n > s.ready {
		s.since = time.Now()
		if l.showAt.IsZero() {
			l.showAt, news = s.since.Add(idle), true
		}
	}
	return news
}

// readyLocked lets the oldest n bytes of s be written in their turn.
func (l *lane) readyLocked(s *stream, n int) bool {
	if n <= s.ready {
		return false
	}
	at := int64(0)
	if l.stamp {
		at = time.Now().UnixMilli()
	}
	l.order.add(s, n-s.ready, at)
	s.ready = n
	return true
}

func (l *lane) end(rank, which int) {
	l.mu.Lock()
	l.endLocked(&l.streams[which][rank])
	l.mu.Unlock()
	l.poke()
}

func (l *lane) endLocked(s *stream) {
	if s.bar {
		s.bar, l.stale = false, true
	}
	l.readyLocked(s, s.n)
	if !s.ended && l.folds[s.which] != nil {
		l.ending = append(l.ending, s)
	}
	s.ended = true
}

func (l *lane) line(text string) {
	l.mu.Lock()
	switch {
	case l.closing:
	case l.own.n+len(text) > maxOwn:
		l.dropped++
	default:
		if l.dropped > 0 {
			l.pushLocked(&l.own, fmt.Appendf(nil, "gorun: %s was blocked; %d lines of gorun's own are missing here\n", l.name, l.dropped))
			l.dropped = 0
		}
		l.pushLocked(&l.own, []byte(Clean(text)+"\n"))
	}
	l.mu.Unlock()
	l.poke()
}

// close ends every stream; run then writes what is left and ends.
func (l *lane) close() *drain {
	l.mu.Lock()
	for which := range l.streams {
		for i := range l.streams[which] {
			l.endLocked(&l.streams[which][i])
		}
	}
	l.closing = true
	l.mu.Unlock()
	l.poke()
	return &drain{l.name, l.done, l.quit}
}

func (l *lane) quit() (left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	left = l.flight + l.own.n
	for which := range l.streams {
		for i := range l.streams[which] {
			left += l.streams[which][i].n
		}
	}
	return left
}

func (l *lane) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
