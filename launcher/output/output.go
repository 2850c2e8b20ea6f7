// Package output merges what many ranks print into readable lines or files.
//
// The one idea: a Write only copies bytes into a queue, and one goroutine per
// destination writes the queues out, so a destination that blocks holds up nobody
// but itself. Package output knows nothing of networks or processes; what bounds
// its memory is the credit that its user grants and Written returns.
//
// # What comes out
//
// A line ends with '\n' and nothing else: CR, NUL and bytes that are no UTF-8 are
// bytes like any other, and none is changed. Streams are a rank's stdout and its
// stderr. Bytes of one stream never change their order; lines of different streams
// come in the order in which they were completed (after 8,192 changes of stream
// behind a blocked destination, only about so).
//
//   - A line is written when its '\n' has come: whole, with nothing inside it.
//   - The end of a stream also ends its last line. If that lacks a '\n' none is
//     added, unless something follows on the same destination: then one is put
//     between.
//   - A line longer than Options.Partial is passed on in pieces as it comes. While
//     it lasts other streams wait, until it has been silent for 300 ms or they have
//     waited for 5 s. Then they go on in the middle of it, without an added '\n',
//     since the bytes of every rank are kept exactly. On a terminal and with tags
//     a '\n' is put first, and the rest of the line, when it comes, is a line of
//     its own with its own tag.
//   - On a terminal an unfinished line is shown when it is 300 ms old, so prompts
//     appear. What another stream writes meanwhile goes on a line of its own.
//   - With Options.Width an unfinished line with a CR in it, a progress bar, is shown on
//     a terminal as the last line, for the lowest rank that draws one; of it and of the
//     other ranks' the newest state is written when the line has ended.
//   - With Options.Tag every line starts with "[rank host] ", with Options.Stamp
//     with the time at which it came, before the tag. On a terminal both are written
//     again after a CR inside a line, where the terminal starts over.
//   - With Options.Fold a whole line waits until every rank whose stream has not
//     ended has given the same line or a later one of those that wait, or for one
//     second; then it is written once, after the set of the ranks that have given it:
//     "[0-7,9] ". Every rank's lines keep their order, and those of stdout and stderr
//     are not joined with each other. At most 1 MiB waits. With tags the host follows
//     the ranks, or the number of their hosts.
//   - A job of one rank without tags and times passes its bytes through at once,
//     untouched.
//   - A line of gorun's own always starts and ends with a line, and is not marked.
//
// If stdout and stderr are the same file, pipe or terminal they are one destination,
// so that lines of the two do not mix either.
//
// # Files
//
// With Options.Files every stream goes, byte for byte, into a file of its own; nothing
// is written to stdout, and to stderr only lines of gorun's own. In a directory where
// files are called rank.<N>.out and rank.<N>.err all of such names are removed first, so
// everything there with such a name is of the latest job. Files of other names replace
// those of the same name, and nothing else is removed: who wants a job's files apart
// names it in their path. A job still writing to removed files keeps them to itself.
// All files exist from the start, also of ranks that stay silent.
//
// # Write errors
//
// After a destination's first error (closed pipe, full disk) Failed is told once,
// and further bytes for it are dropped, not written later: what a file holds is the
// beginning of its stream. Dropped bytes count as written, so the ranks run on.
package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Numbers of a rank's streams, the same as wire.Out and wire.Err.
const (
	stdout = 1
	stderr = 2
)

const (
	maxPartial = 64 << 10
	idle       = 300 * time.Millisecond // age at which a terminal shows an unfinished line; silence that lets others into a long one
	patience   = 5 * time.Second        // how long others wait for a long line that keeps coming
)

// Options says where output goes. The callbacks are called from the Merger's
// goroutines, for one stream never concurrently; they must be quick, may call every
// method but Close, and may still be called by a write that outlasts Close.
type Options struct {
	Stdout, Stderr io.Writer // nil: discarded
	Terminal       bool      // Stdout is a terminal
	StderrTerminal bool      // Stderr is a terminal

	Hosts []string // each rank's host; its length is the number of ranks
	Tag   bool     // every line starts with "[rank host] "
	Stamp bool     // every line starts with the time at which it came
	Fold  bool     // equal lines of several ranks are joined into one that starts with "[ranks] "
	Color bool     // tags are coloured where they go to a terminal
	Files []string // each rank's files, without .out and .err, instead of Stdout and Stderr; see FileNames. nil: none

	// Width returns the columns of the terminal, 0 if nothing may be shown there that
	// goes away again, and less if somebody else has the terminal and its last line is to be
	// left alone: then a rank's progress bar, or what Status says, is the last line. nil: never, as on a terminal that knows no control sequences. It must be quick.
	Width func() int

	// Partial bounds a line that is held until it is complete, in bytes; 0 or more
	// than 64 KiB means 64 KiB. It must not be above the credit of one stream: a
	// stream without credit could never complete its line.
	Partial int

	Written func(rank, which, n int)     // n bytes of a stream have left; nil: not told
	Failed  func(err error, dest string) // the first write error of "stdout", "stderr" or a file's path; nil: not told
}

// Merger merges the output of a job's ranks. Its methods may be called from any
// goroutine, those for one stream from one at a time. None but Close and Hide ever blocks.
type Merger struct {
	tails []tail
	lasts []last
	lanes [3]*lane // by stream; equal if both go to one place. Files need only stderr's
	files *files   // nil without Options.Files
}

// New returns a running Merger, which must be closed. An error is about o.Files.
func New(o Options) (*Merger, error) {
	o = o.filled()
	m := &Merger{tails: make([]tail, len(o.Hosts)), lasts: make([]last, len(o.Hosts))}
	if o.Files != nil {
		f, err := newFiles(o)
		if err != nil {
			return nil, err
		}
		m.files = f
	}
	out := newLane(o, "stdout", o.Stdout, o.Terminal)
	err := out
	if m.files != nil || !same(o.Stdout, o.Stderr) {
		err = newLane(o, "stderr", o.Stderr, o.StderrTerminal)
	}
	m.lanes[stdout], m.lanes[stderr] = out, err
	if m.files == nil {
		out.carry(stdout, len(o.Hosts), o.Fold)
		err.carry(stderr, len(o.Hosts), o.Fold)
	}
	m.start()
	return m, nil
}

func (m *Merger) start() {
	for _, l := range m.used() {
		go l.run()
	}
	if m.files != nil {
		go m.files.run()
	}
}

// used returns the lanes that something goes to.
func (m *Merger) used() []*lane {
	if m.files != nil || m.lanes[stdout] == m.lanes[stderr] {
		return []*lane{m.lanes[stderr]}
	}
	return m.lanes[stdout:]
}

func (o Options) filled() Options {
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Partial <= 0 || o.Partial > maxPartial {
		o.Partial = maxPartial
	}
	if o.Written == nil {
		o.Written = func(int, int, int) {}
	}
	if o.Failed == nil {
		o.Failed = func(error, string) {}
	}
	return o
}

// same reports whether a and b write to one place.
func same(a, b io.Writer) bool {
	fa, ok := a.(*os.File)
	fb, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return equal(a, b)
	}
	sa, err := fa.Stat()
	sb, err2 := fb.Stat()
	return err == nil && err2 == nil && os.SameFile(sa, sb)
}

func equal(a, b io.Writer) bool {
	defer func() { _ = recover() }() // dynamic types that cannot be compared are different
	return a == b
}

// Write takes bytes of a rank's stdout (which is 1) or stderr (2). It copies p, and
// what it holds is bounded only by what the caller lets in before Written says that
// bytes have left. Streams that do not exist are ignored.
func (m *Merger) Write(rank, which int, p []byte) {
	if len(p) == 0 || !m.has(rank, which) {
		return
	}
	m.tails[rank].add(which, p, tailSize(len(m.tails)))
	m.lasts[rank].add(which, p)
	if m.files != nil {
		m.files.write(rank, which, p)
		return
	}
	m.lanes[which].write(rank, which, p)
}

// End says that a stream has ended; what is held of its last line is written.
func (m *Merger) End(rank, which int) {
	switch {
	case !m.has(rank, which):
	case m.files != nil:
		m.files.end(rank, which)
	default:
		m.lanes[which].end(rank, which)
	}
}

func (m *Merger) has(rank, which int) bool {
	return rank >= 0 && rank < len(m.tails) && (which == stdout || which == stderr)
}

// Line writes a line of gorun's own to stderr, cleaned by Clean and ended. While
// stderr is blocked 1 MiB of them is kept; the rest are dropped and counted.
func (m *Merger) Line(s string) { m.lanes[stderr].line(s) }

// Status has text shown on stderr as the last line, behind all that is written, if that
// is a terminal where that can be (see Options.Width) and no bar is there; "" takes it
// away. It is cut to one line.
func (m *Merger) Status(text string) { m.lanes[stderr].setStatus(Clean(text)) }

// Hide takes the last line away until show is called, for somebody else to use the
// terminal. It waits a second at most until that is done.
func (m *Merger) Hide() (show func()) {
	var shows []func()
	for _, l := range m.used() {
		shows = append(shows, l.hide())
	}
	return func() {
		for _, show := range shows {
			show()
		}
	}
}

// Tail returns the last lines of a rank's stderr, or of its stdout as long as stderr
// is empty, as they have come from the rank: at most 10, out of the last 4 KiB (1 KiB
// in big jobs). Lines are fit to print: without colours, of a line overwritten by CR
// only what stood last, and cleaned by Clean. A line whose beginning is gone starts
// with "…".
func (m *Merger) Tail(rank int) []string {
	if !m.has(rank, stdout) {
		return nil
	}
	return m.tails[rank].lines()
}

// Last returns the last line that a rank has printed on either stream, or the end of it
// after "…", fit to print as Tail's lines are, and when the rank printed last: the zero
// time if it never has.
func (m *Merger) Last(rank int) (line string, at time.Time) {
	if !m.has(rank, stdout) {
		return "", time.Time{}
	}
	return m.lasts[rank].get()
}

// Close writes what is held, unfinished lines too, ends the goroutines and returns
// nil, or when ctx ends an error that wraps ctx's and says what was not written. A
// write that blocks then cannot be taken back: its goroutine ends when it returns.
// Nothing may be written after Close.
func (m *Merger) Close(ctx context.Context) error {
	var all []*drain
	for _, l := range m.used() {
		all = append(all, l.close())
	}
	if m.files != nil {
		all = append(all, m.files.close())
	}
	var errs []error
	for _, d := range all {
		errs = append(errs, d.wait(ctx))
	}
	return errors.Join(errs...)
}

// Unfinished reports, after Close, whether stderr has been left in the middle of a
// rank's line: what is written there next should begin with a '\n'.
func (m *Merger) Unfinished() bool {
	l := m.lanes[stderr]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mid
}

// drain is a destination that has been told to end.
type drain struct {
	name string
	done <-chan struct{}
	quit func() (left int) // gives up; returns the bytes that are lost
}

func (d *drain) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return nil
	default:
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %d bytes not written: %w", d.name, d.quit(), context.Cause(ctx))
	}
}
