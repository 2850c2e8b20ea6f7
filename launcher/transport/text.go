package transport

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode"
)

// Sizes of what is kept of a host's words, in bytes.
const (
	stderrKept = 32 << 10
	noiseKept  = 4 << 10
)

// clean makes text from a host safe to print: no control or formatting character
// but newline and tab, valid UTF-8, no space at its ends.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r) && r != unicode.ReplacementChar:
			return r
		case r == '\r':
			return -1
		}
		return '?'
	}, s)
	return strings.TrimSpace(s)
}

// cleanLine is clean for a single line of at most n bytes.
func cleanLine(s string, n int) string {
	s = strings.Join(strings.FieldsFunc(clean(s), func(r rune) bool { return r == '\n' }), " | ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// cleanEnd is cleanLine that keeps the end.
func cleanEnd(s string, n int) string {
	s = cleanLine(s, math.MaxInt)
	if len(s) > n {
		s = "..." + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}

// count is n things, with their number.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// tail keeps the last limit bytes written to it. It allocates only when written to.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte // guarded by mu
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	if over := len(t.buf) + len(p) - t.limit; over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// take returns what is kept, cleaned, and keeps it no more.
func (t *tail) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := clean(string(t.buf))
	t.buf = t.buf[:0]
	return text
}

// String returns what is kept, cleaned.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return clean(string(t.buf))
}
