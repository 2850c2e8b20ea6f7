package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// script is what a fuzz input makes of four ranks: every stream prints letters that
// no other prints, so that what comes out can be told apart.
type script struct {
	opts Options
	one  bool // stdout and stderr are one destination
	acts []act
	sent map[letters]*bytes.Buffer
}

// letters names a stream by the 16 letters it prints.
type letters byte

func lettersOf(rank, which int) letters { return letters(0x80 | rank<<5 | (which-1)<<4) }

func (l letters) has(c byte) bool { return letters(c&0xf0) == l }

func newScript(flags byte, ops []byte) *script {
	s := &script{sent: map[letters]*bytes.Buffer{}}
	s.opts = Options{Hosts: []string{"a", "b", "c", "d"}, Tag: flags&1 != 0, Terminal: flags&2 != 0, StderrTerminal: flags&2 != 0, Partial: 1 << (flags >> 4)}
	s.one = flags&4 != 0
	for len(ops) > 1 {
		rank, which, op := int(ops[0]&3), 1+int(ops[0]>>2&1), ops[0]>>3
		text := ops[1:min(len(ops), 2+int(ops[1]&31))]
		ops = ops[len(text):]
		ops = ops[min(len(ops), 1):]
		switch op {
		case 0:
			s.acts = append(s.acts, sleep(time.Duration(text[0])*5*time.Millisecond))
		case 1:
			s.acts = append(s.acts, line("own"))
		default:
			s.print(rank, which, text, op&1 == 0)
		}
	}
	return s
}

func (s *script) print(rank, which int, text []byte, wait bool) {
	l := lettersOf(rank, which)
	if s.sent[l] == nil {
		s.sent[l] = &bytes.Buffer{}
	}
	p := make([]byte, len(text))
	for i, c := range text {
		if p[i] = byte(l) | c&15; c&15 < 3 {
			p[i] = '\n'
		}
	}
	s.sent[l].Write(p)
	s.acts = append(s.acts, func(m *Merger) {
		m.Write(rank, which, p)
		if wait {
			synctest.Wait()
		}
	})
}

// longest returns the length of the longest line that was printed.
func (s *script) longest() (n int) {
	for _, b := range s.sent {
		for l := range bytes.SplitSeq(b.Bytes(), []byte("\n")) {
			n = max(n, len(l))
		}
	}
	return n
}

func FuzzMerge(f *testing.F) {
	for flags := range 8 {
		f.Add(byte(flags|0x60), []byte("\x10\x08hello\x00wo\x17\x05a\x00\x02bc\x00\xff\x10\x02de\x25\x05\x00xyzzy\x08\x01\x13\x1f0123456789012345678901234567890123456789"))
		f.Add(byte(flags|0x20), []byte("\x10\x08hellohelloworld\x11\x01\x00\x00\x80\x10\x09hellohello\x11\x02\x00ab\x08\x00\x12\x04\x00\x01\x02\x03"))
	}
	f.Fuzz(func(t *testing.T, flags byte, ops []byte) {
		if len(ops) > 4<<10 {
			return
		}
		s := newScript(flags, ops)
		synctest.Test(t, s.run)
	})
}

func (s *script) run(t *testing.T) {
	var a, b screen
	var total atomic.Int64
	s.opts.Stdout, s.opts.Stderr = &a, &b
	s.opts.Written = func(_, _, n int) { total.Add(int64(n)) }
	if s.one {
		s.opts.Stderr = &a
	}
	m := mustNew(t, s.opts)
	for _, a := range s.acts {
		a(m)
	}
	mustClose(t, m)
	synctest.Wait()

	sent := 0
	for _, b := range s.sent {
		sent += b.Len()
	}
	if got := int(total.Load()); got != sent {
		t.Errorf("Written: got %d bytes; want %d", got, sent)
	}
	for rank := range s.opts.Hosts {
		for which := 1; which <= 2; which++ {
			got := a.String()
			if which == stderr && !s.one {
				got = b.String()
			}
			s.check(t, rank, which, got)
		}
	}
}

// check compares what came out of a stream with what went in.
func (s *script) check(t *testing.T, rank, which int, got string) {
	l := lettersOf(rank, which)
	var want []byte
	if b := s.sent[l]; b != nil {
		want = b.Bytes()
	}
	if got, want := only(got, l), only(string(want), l); got != want {
		t.Errorf("rank %d stream %d: got the letters %q; want %q", rank, which, got, want)
	}
	whole := s.longest() < s.opts.Partial && !s.opts.Terminal
	if !whole && !s.opts.Terminal && !s.opts.Tag {
		return // others may stand inside long lines
	}
	var lines []string
	tag := fmt.Sprintf("[%d %s] ", rank, s.opts.Hosts[rank])
	for line := range strings.SplitSeq(got, "\n") {
		text := line
		if s.opts.Tag {
			text = strings.TrimPrefix(line, tag)
		}
		switch mine := only(text, l); {
		case mine == "":
		case mine != text || s.opts.Tag && text == line:
			t.Errorf("rank %d stream %d: got a line %q that is not all its own", rank, which, line)
		default:
			lines = append(lines, text)
		}
	}
	if want := strings.FieldsFunc(string(want), func(r rune) bool { return r == '\n' }); whole && strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("rank %d stream %d: got the lines %q; want %q", rank, which, lines, want)
	}
}

// only returns the bytes of s that stream l prints.
func only(s string, l letters) string {
	var b strings.Builder
	for i := range len(s) {
		if l.has(s[i]) {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
