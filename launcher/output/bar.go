package output

import "bytes"

// This file treats progress bars: unfinished lines that a program overwrites again and
// again behind a CR. Where a terminal can show a last line that goes away again (see
// live.go) such lines are held like all that are unfinished, but only their newest
// state: what it overwrites nobody can see any more.

// pushBarLocked is pushLocked for bytes with a CR, or of a line that had one.
func (l *lane) pushBarLocked(s *stream, p []byte) (news bool) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			n = len(p)
		}
		line := p[:n]
		p = p[n:]
		if !s.bar && bytes.IndexByte(line, '\r') < 0 {
			news = l.pushPlainLocked(s, line) || news
			continue
		}
		l.overwriteLocked(s, line)
		if s.bar = line[n-1] != '\n' && s.n-s.ready < l.partial; s.bar {
			l.stale, news = true, true
		} else {
			l.stale = true
			news = l.readyLocked(s, s.n) || news
		}
	}
	return news
}

// overwriteLocked adds p to the unfinished line of s, of which the newest state stays.
func (l *lane) overwriteLocked(s *stream, p []byte) {
	held := s.n - s.ready
	line := append(s.appendLast(l.scratch[:0], held), p...)
	l.scratch = line
	old := lastState(line)
	s.dropLast(held)
	s.push(line[old:])
	if old == 0 {
		return
	}
	if s.skipped == 0 {
		l.skips = append(l.skips, s)
	}
	s.skipped += old
}

// lastState returns where in a line the text begins that no CR overwrites.
func lastState(line []byte) int {
	end := len(bytes.TrimRight(line, "\r\n"))
	return bytes.LastIndexByte(line[:end], '\r') + 1
}

// loose reports whether what comes of s belongs to a line that the destination has the
// beginning of, or will have.
func (l *lane) loose(s *stream) bool {
	return l.mid && l.last == s || s.ready > 0 && s.at(s.ready-1) != '\n'
}

// barLocked returns the bar of the lowest rank that draws one, after its mark, and nil
// if none does.
func (l *lane) barLocked() []byte {
	var lowest *stream
	for which := range l.streams {
		for i := range l.streams[which] {
			if s := &l.streams[which][i]; s.bar && (lowest == nil || s.rank < lowest.rank) {
				lowest = s
			}
		}
	}
	if lowest == nil {
		return nil
	}
	p := l.appendName(nil, lowest.rank)
	return lowest.appendLast(p, min(lowest.n-lowest.ready, maxLive))
}
