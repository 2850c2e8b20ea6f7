package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"gorun/launcher/output"
)

// console writes gorun's own words to standard error.
type console struct {
	w      io.Writer
	inLine bool // a rank has left its last line there unfinished

	// What ends the wait for a reader of w; whoever does not come is not told the rest.
	limit   time.Duration    // 0: none
	signals <-chan os.Signal // nil: none
	stuck   bool             // a write does not end; nothing more is written
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
	c.write(b.String())
}

// write writes text as far as its reader lets it. What is left behind ends with the
// process.
func (c *console) write(text string) {
	if c.stuck || text == "" {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		io.WriteString(c.w, text)
	}()
	var late <-chan time.Time
	if c.limit > 0 {
		late = time.After(c.limit)
	}
	for {
		select {
		case <-written:
			return
		case <-late:
			c.stuck = true
			return
		case s := <-c.signals:
			if ends(s) {
				c.stuck = true
				return
			}
		}
	}
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
