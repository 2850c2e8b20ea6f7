package output

import (
	"strings"
	"time"
	"unicode/utf8"
)

// This file shows a last line on a terminal that is no part of the output: a rank's
// progress bar, or else gorun's own status. It is taken away before anything is
// written, and comes again behind it. The cursor rests at its beginning, so that all of
// it can be taken away also when the terminal has become narrower meanwhile. Behind a
// rank's unfinished line nothing is shown.

const (
	drawEvery = 100 * time.Millisecond // at most
	maxLive   = 1 << 10                // bytes of a bar that are looked at
	minWidth  = 10                     // columns below which nothing is shown

	eraseLive = "\r\x1b[J" // to the end of the screen: the line may have been wrapped
)

// live is what run knows of the last line.
type live struct {
	shown bool
	at    time.Time // when it was drawn
}

// liveLocked returns what the last line is to be now, and when to look again; zero: not
// before something changes. It is nil if it is to stay as it is, and empty for none.
func (l *lane) liveLocked(v *live, now time.Time, last bool) (text []byte, look time.Time) {
	switch {
	case l.width == nil:
		return nil, look
	case last || l.hidden > 0 || l.mid:
		if v.shown {
			text = []byte{}
		}
		return text, look
	case !l.stale:
		return nil, look
	case now.Before(v.at.Add(drawEvery)):
		return nil, v.at.Add(drawEvery)
	}
	l.stale = false
	if text = l.barLocked(); text == nil {
		text = []byte(l.status)
	}
	return text, look
}

// draw makes text the last line; nil leaves it.
func (l *lane) draw(v *live, text []byte, now time.Time) error {
	if text == nil || len(text) == 0 && !v.shown {
		return nil
	}
	width := 0
	if len(text) > 0 {
		width = l.width()
		v.at = now
	}
	switch {
	case width < 0:
		return nil
	case width < minWidth:
		return l.erase(v)
	case !v.shown && !l.show(v):
		return nil
	}
	return writeAll(l.w, []byte("\r"+fit(string(text), width-1)+"\x1b[J\r"))
}

// show notes that a last line is shown, unless it is hidden since it was decided on.
func (l *lane) show(v *live) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hidden > 0 {
		return false
	}
	v.shown, l.erased = true, make(chan struct{})
	return true
}

// erase takes the last line away.
func (l *lane) erase(v *live) error {
	if !v.shown {
		return nil
	}
	v.shown = false
	err := writeAll(l.w, []byte(eraseLive))
	l.mu.Lock()
	l.stale = true
	close(l.erased)
	l.mu.Unlock()
	l.poke()
	return err
}

// put writes p where the last line is.
func (l *lane) put(v *live, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if err := l.erase(v); err != nil {
		return err
	}
	return writeAll(l.w, p)
}

func (l *lane) setStatus(text string) {
	l.mu.Lock()
	changed := l.status != text
	l.status, l.stale = text, l.stale || changed
	l.mu.Unlock()
	if changed {
		l.poke()
	}
}

// hide takes the last line away until show is called. It waits until that is done, but
// not for long: a terminal that is stopped takes nothing.
func (l *lane) hide() (show func()) {
	l.mu.Lock()
	l.hidden++
	erased := l.erased
	l.mu.Unlock()
	l.poke()
	if erased != nil {
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-erased:
		case <-late.C:
		}
	}
	return func() {
		l.mu.Lock()
		l.hidden--
		l.stale = true
		l.mu.Unlock()
		l.poke()
	}
}

// fit returns s fit for a line of so many columns: of control sequences only colours
// pass, and nothing is wider than the line.
func fit(s string, width int) string {
	var b strings.Builder
	coloured := false
	s = strings.TrimRight(s, "\r\n")
	for len(s) > 0 {
		if s[0] == '\x1b' {
			n := escapeLen(s)
			if seq := s[:n]; isColour(seq) {
				b.WriteString(seq)
				coloured = true
			}
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		shown := s[:n]
		if r == '\t' || unclean(r) {
			shown = "?"
		}
		if width -= columns(r); width < 0 {
			break
		}
		b.WriteString(shown)
		s = s[n:]
	}
	if coloured {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// isColour reports whether an escape sequence does nothing but set colours and the like.
func isColour(seq string) bool {
	params, ok := strings.CutPrefix(seq, "\x1b[")
	params, ok2 := strings.CutSuffix(params, "m")
	return ok && ok2 && strings.Trim(params, "0123456789;:") == ""
}

// columns is how wide a character may be: of those that are wide on some terminals, and
// of no more than these, it is 2.
func columns(r rune) int {
	if r >= 0x1100 && (r < 0x2000 || r >= 0x2600) {
		return 2
	}
	return 1
}
