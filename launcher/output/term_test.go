package output

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// term is a small terminal: it knows CR, LF, the end of a row, and the control sequences
// that Merger uses. What it does not know fails the test that reads it.
type term struct {
	mu       sync.Mutex
	width    int
	rows     [][]rune
	row, col int
	pending  string // the beginning of a sequence or character
	unknown  []string
	writes   int
}

func newTerm(width int) *term { return &term{width: width, rows: [][]rune{nil}} }

func (t *term) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	s := t.pending + string(p)
	for len(s) > 0 {
		n := t.interpret(s)
		if n == 0 {
			break
		}
		s = s[n:]
	}
	t.pending = s
	return len(p), nil
}

// interpret does what the beginning of s says and returns its length, 0 if it goes on.
func (t *term) interpret(s string) int {
	switch s[0] {
	case '\r':
		t.col = 0
	case '\n':
		t.down()
		t.col = 0
	case '\x1b':
		return t.escape(s)
	default:
		if !utf8.FullRuneInString(s) {
			return 0
		}
		r, n := utf8.DecodeRuneInString(s)
		t.print(r)
		return n
	}
	return 1
}

func (t *term) down() {
	if t.row++; t.row == len(t.rows) {
		t.rows = append(t.rows, nil)
	}
}

func (t *term) print(r rune) {
	if t.col == t.width {
		t.down()
		t.col = 0
	}
	row := t.rows[t.row]
	for len(row) <= t.col {
		row = append(row, ' ')
	}
	row[t.col] = r
	t.rows[t.row] = row
	t.col++
}

func (t *term) escape(s string) int {
	i := strings.IndexFunc(s[1:], func(r rune) bool { return r >= '@' && r != '[' })
	if i < 0 {
		return 0
	}
	seq := s[:i+2]
	switch {
	case seq == "\x1b[J":
		t.rows = t.rows[:t.row+1]
		t.rows[t.row] = t.rows[t.row][:min(t.col, len(t.rows[t.row]))]
	case strings.HasSuffix(seq, "m"):
	default:
		t.unknown = append(t.unknown, fmt.Sprintf("%q", seq))
	}
	return len(seq)
}

// resize makes the terminal narrower or wider, and wraps its rows anew, as most do.
func (t *term) resize(width int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows [][]rune
	for i, row := range t.rows {
		if i == t.row {
			t.row = len(rows) + t.col/width
		}
		for len(row) > width {
			rows = append(rows, row[:width])
			row = row[width:]
		}
		rows = append(rows, row)
	}
	t.col %= width
	t.rows, t.width = rows, width
}

// String is what is to be seen, with the cursor as "_".
func (t *term) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for i, row := range t.rows {
		text := string(row)
		if i == t.row {
			for len(row) < t.col {
				row = append(row, ' ')
			}
			text = string(row[:t.col]) + "_" + string(row[t.col:])
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	if len(t.unknown) > 0 {
		fmt.Fprintf(&b, " and unknown %s", t.unknown)
	}
	return b.String()
}
