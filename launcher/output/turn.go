package output

import (
	"slices"
	"time"
)

// This file decides whose bytes are written next. It does no I/O.

// fillLocked moves bytes whose turn it is into b.
func (l *lane) fillLocked(b *batch, now time.Time) {
	l.showLocked(now)
	for !b.full() {
		if r := l.nextLocked(now); r.stream == nil || !l.takeLocked(b, r, now) {
			break
		}
	}
	for _, s := range l.skips {
		b.skips = append(b.skips, skip{s, s.skipped})
		s.skipped = 0
	}
	l.skips = l.skips[:0]
	l.ending = slices.DeleteFunc(l.ending, func(s *stream) bool {
		if s.n == 0 {
			b.ended = append(b.ended, s)
		}
		return s.n == 0
	})
}

// nextLocked returns the bytes whose turn it is, no stream if nothing is due. They are
// the oldest record's, unless another stream's line has not ended.
func (l *lane) nextLocked(now time.Time) record {
	none, came := record{}, now.UnixMilli()
	r := l.order.first()
	s := l.last
	if !l.mid || r != nil && r.stream == s {
		if r == nil {
			return none
		}
		return *r
	}
	if r == nil {
		return record{s, s.n, came}
	}
	if l.waiting.IsZero() {
		l.waiting = now
	}
	late := now.Sub(l.waiting) >= patience
	switch {
	case s.n > 0 && !late:
		return record{s, s.firstLine(), came}
	case late || l.breakableLocked(now):
		return *r
	}
	return none
}

// breakableLocked reports whether another stream may write although the last one's
// line has not ended. It has nothing to write at the moment.
func (l *lane) breakableLocked(now time.Time) bool {
	return l.through || l.terminal || l.last.ended || l.own.n > 0 || now.Sub(l.lastAt) >= idle
}

// newlineLocked reports whether a '\n' must stand before what s writes now.
func (l *lane) newlineLocked(s *stream) bool {
	switch {
	case !l.mid || l.last == s:
		return false
	case s == &l.own:
		return true
	case l.through:
		return false
	}
	return l.terminal || l.marked() || l.last.ended && l.last.n == 0
}

// takeLocked moves the bytes of r, or as many as fit, into b. It cuts at the end of a
// line, and leaves a line that does not fit for the next batch: destinations that
// others write to as well see whole lines in one write. It reports whether it moved any.
func (l *lane) takeLocked(b *batch, r record, now time.Time) bool {
	s, n := r.stream, r.n
	if room := b.room(); n > room {
		switch n = s.lines(room); {
		case n > 0:
		case len(b.raw) > 0:
			return false
		default:
			n = room
		}
	}
	if n == 0 {
		return false
	}
	goesOn := l.mid && l.last == s
	final := s.ended && n == s.n
	b.add(piece{record{s, n, r.at}, l.newlineLocked(s), !goesOn, final})
	early := min(n, s.ready)
	s.ready -= early
	s.taken += early
	s.drop(n)

	l.mid = b.raw[len(b.raw)-1] != '\n' && !(final && l.folding()) // which ends lines itself
	if !l.mid || !goesOn {
		l.waiting = time.Time{}
	}
	l.last, l.lastAt = s, now
	return true
}

// showLocked lets a terminal's unfinished lines that are old enough be written.
func (l *lane) showLocked(now time.Time) {
	if l.showAt.IsZero() || now.Before(l.showAt) {
		return
	}
	l.showAt = time.Time{}
	for which := range l.streams {
		for i := range l.streams[which] {
			s := &l.streams[which][i]
			if s.n == s.ready || s.bar {
				continue
			}
			if at := s.since.Add(idle); at.After(now) {
				l.showAt = sooner(l.showAt, at)
			} else {
				l.readyLocked(s, s.n)
			}
		}
	}
}

// lookLocked returns when to look again although nobody writes; zero: never.
func (l *lane) lookLocked() time.Time {
	if !l.mid || l.waiting.IsZero() {
		return l.showAt
	}
	return sooner(l.showAt, l.lastAt.Add(idle))
}

// sooner returns the earlier of two times, of which zero ones do not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
