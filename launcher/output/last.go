package output

import (
	"bytes"
	"sync"
	"time"
)

// maxLast is how much of a rank's last line is kept.
const maxLast = 256

// last keeps the end of the last line that a rank has printed, empty ones aside, on
// whichever of its streams.
type last struct {
	mu    sync.Mutex
	line  []byte    // guarded by mu
	cut   bool      // guarded by mu; its beginning is gone
	ended bool      // guarded by mu; what comes next is another line
	which int       // guarded by mu; its stream
	at    time.Time // guarded by mu; when something came, be it an end of line
}

func (l *last) add(which int, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Now()
	text := bytes.TrimRight(p, "\r\n")
	if len(text) == 0 {
		l.ended = l.ended || which == l.which
		return
	}
	if begin := bytes.LastIndexAny(text, "\r\n") + 1; begin > 0 || l.ended || which != l.which {
		text = text[begin:]
		l.line, l.cut = l.line[:0], false
	}
	l.ended, l.which = len(p) > 0 && (p[len(p)-1] == '\n' || p[len(p)-1] == '\r'), which
	if len(text) > maxLast {
		text, l.line, l.cut = text[len(text)-maxLast:], l.line[:0], true
	}
	l.line = append(l.line, text...)
	if over := len(l.line) - maxLast; over > 0 {
		l.line, l.cut = append(l.line[:0], l.line[over:]...), true
	}
}

func (l *last) get() (line string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line = shown(string(l.line))
	if l.cut {
		line = "…" + line
	}
	return line, l.at
}
