package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"gorun/launcher"
)

const (
	readerPatience = 5 * time.Second // for a reader of a named pipe to come
	maxEvents      = 16 << 20        // bytes kept for a reader that is slow
)

// eventLog writes what happens to the file of --events, a line of JSON each. A nil
// *eventLog is none. Its methods may be called from any goroutine.
type eventLog struct {
	w       io.Writer
	file    *os.File // w, if it is to be closed
	began   time.Time
	conceal func(text string) string // hides secrets in what is quoted

	wake chan struct{} // capacity 1
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	queue   []byte // guarded by mu, as what follows
	closing bool   // nothing more comes
	err     error  // the first; nothing is written after it
}

// openEvents opens the file of --events; "" is none and "-" is stdout. A named pipe may
// take a moment to get its reader. Its errors are *usageError.
func openEvents(path string, stdout io.Writer, conceal func(string) string) (*eventLog, error) {
	if path == "" {
		return nil, nil
	}
	l := &eventLog{w: stdout, began: time.Now(), conceal: conceal, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if path != "-" {
		file, err := openEventFile(path)
		if err != nil {
			return nil, &usageError{fmt.Sprintf("--events %s: %v", path, reason(err)), nil}
		}
		l.w, l.file = file, file
	}
	go l.run()
	return l, nil
}

func openEventFile(path string) (*os.File, error) {
	if !isStream(path) {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o666)
	}
	late := time.After(readerPatience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		file, err := openStream(path)
		if !errors.Is(err, syscall.ENXIO) {
			return file, err
		}
		select {
		case <-again.C:
		case <-late:
			return nil, err
		}
	}
}

// reason is err without the path that it is about.
func reason(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok && err == error(e) {
		return e.Err
	}
	return err
}

// add queues an event. It does not block.
func (l *eventLog) add(e launcher.Event) {
	now := time.Now()
	e.V, e.T, e.Elapsed = launcher.EventVersion, now.UTC(), now.Sub(l.began)
	e.Text = l.conceal(e.Text)
	if e.Event == "start" {
		e.Gorun = ownVersion()
	}
	line, err := encodeEvent(e)
	l.mu.Lock()
	switch {
	case l.err != nil || l.closing:
	case err != nil:
		l.err = err
	case len(l.queue)+len(line) > maxEvents:
		l.err = errors.New("their reader is too slow")
	default:
		l.queue = append(l.queue, line...)
	}
	l.mu.Unlock()
	l.poke()
}

func encodeEvent(e launcher.Event) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	return line.Bytes(), err
}

func (l *eventLog) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes what is queued until the log is closed or cannot be written.
func (l *eventLog) run() {
	defer close(l.done)
	var todo []byte
	for {
		l.mu.Lock()
		todo, l.queue = l.queue, todo[:0]
		end := len(todo) == 0 && (l.closing || l.err != nil)
		l.mu.Unlock()
		switch {
		case end:
			return
		case len(todo) == 0:
			<-l.wake
		default:
			if _, err := l.w.Write(todo); err != nil {
				l.fail(reason(err))
				return
			}
		}
	}
}

func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// close writes the last event and returns the first error, when all is written or the
// limit is over.
func (l *eventLog) close(last launcher.Event, limit time.Duration) error {
	l.add(last)
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.poke()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-l.done:
	case <-late.C:
		l.fail(fmt.Errorf("their reader did not take them within %v", limit))
	}
	if l.file != nil {
		l.file.Close() // a write to a pipe that is under way ends by that
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
