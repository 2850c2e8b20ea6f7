package main

import (
	"io"
	"log/slog"
	"strings"

	"gorun/launcher/output"
)

// console writes gorun's own words to standard error.
type console struct {
	w      io.Writer
	inLine bool // a rank has left its last line there unfinished
}

// print writes a report, every line with gorun's name before it.
func (c *console) print(r report) {
	var b strings.Builder
	if c.inLine && len(r.lines) > 0 {
		b.WriteByte('\n')
		c.inLine = false
	}
	for _, l := range r.lines {
		b.WriteString("gorun: " + output.Clean(l) + "\n")
	}
	for _, h := range r.hints {
		b.WriteString("gorun: hint: " + output.Clean(h) + "\n")
	}
	io.WriteString(c.w, b.String())
}

// warn writes one line.
func (c *console) warn(text string) { c.print(report{lines: []string{"warning: " + text}}) }

// logger returns a logger for -v, or one that drops everything. lines is written a
// line at a time.
func logger(verbose bool, lines io.Writer) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{ReplaceAttr: dropLevel}))
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

// Write prints a line of the log, for commands without ranks. slog calls it for one
// line at a time.
func (c *console) Write(line []byte) (int, error) {
	c.print(report{lines: []string{strings.TrimSuffix(string(line), "\n")}})
	return len(line), nil
}
