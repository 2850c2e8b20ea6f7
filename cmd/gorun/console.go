package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"

	"gorun/launcher/output"
)

// console writes gorun's own words to standard error.
type console struct {
	w io.Writer
}

// print writes a report, every line with gorun's name before it.
func (c console) print(r report) {
	var b strings.Builder
	for _, l := range r.lines {
		b.WriteString("gorun: " + output.Clean(l) + "\n")
	}
	for _, h := range r.hints {
		b.WriteString("gorun: hint: " + output.Clean(h) + "\n")
	}
	io.WriteString(c.w, b.String())
}

// warn writes one line.
func (c console) warn(text string) { c.print(report{lines: []string{"warning: " + text}}) }

// logger returns a logger for -v (level 1) and -vv (2); at 0 it drops everything.
func (c console) logger(verbose int) *slog.Logger {
	if verbose == 0 {
		return slog.New(slog.DiscardHandler)
	}
	level := slog.LevelInfo
	if verbose > 1 {
		level = slog.LevelDebug
	}
	h := slog.NewTextHandler(&prefixer{w: c.w}, &slog.HandlerOptions{Level: level, ReplaceAttr: dropLevel})
	return slog.New(h)
}

// dropLevel keeps the time of day, which tells what took long, and leaves the level out.
func dropLevel(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.LevelKey:
		return slog.Attr{}
	case a.Key == slog.TimeKey:
		return slog.String("time", a.Value.Time().Format("15:04:05.000"))
	}
	return a
}

// prefixer puts gorun's name before every line. A Write is one line.
type prefixer struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *prefixer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(append([]byte("gorun: "), bytes.ToValidUTF8(b, []byte("?"))...))
	return len(b), err
}
