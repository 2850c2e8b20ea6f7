package output

import (
	"bytes"
	"strings"
	"sync"
)

const tailLines = 10

// tailSize is how much of a stream's end is kept in a job of so many ranks: 4 KiB,
// less in big jobs so that all of it stays near 16 MiB.
func tailSize(ranks int) int { return max(1<<10, min(4<<10, 16<<20/ranks)) }

// tail keeps the end of what a rank printed. Of stdout it keeps nothing any more
// once stderr has something.
type tail struct {
	mu       sync.Mutex
	out, err ring // guarded by mu
	cut      bool // guarded by mu; the kept stream began earlier
}

func (t *tail) add(which int, p []byte, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.err
	switch {
	case which == stdout && t.err.n > 0:
		return
	case which == stdout:
		r = &t.out
	case t.err.n == 0:
		t.out, t.cut = ring{}, false
	}
	if len(p) > limit {
		p, t.cut = p[len(p)-limit:], true
	}
	if over := r.n + len(p) - limit; over > 0 {
		r.drop(over)
		t.cut = true
	}
	r.push(p)
}

func (t *tail) lines() []string {
	t.mu.Lock()
	r, cut := &t.out, t.cut
	if t.err.n > 0 {
		r = &t.err
	}
	b := r.appendFirst(nil, r.n)
	t.mu.Unlock()

	b = bytes.TrimRight(b, "\r\n")
	if len(b) == 0 {
		return nil
	}
	lines := strings.Split(string(b), "\n")
	if cut && len(lines) > 1 {
		lines, cut = lines[1:], false
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	for i, s := range lines {
		lines[i] = shown(s)
	}
	if cut {
		lines[0] = "…" + lines[0]
	}
	return lines
}

// shown returns what a terminal would leave visible of a line, cleaned.
func shown(s string) string {
	s = strings.TrimRight(s, "\r")
	return Clean(plain(s[strings.LastIndexByte(s, '\r')+1:]))
}
