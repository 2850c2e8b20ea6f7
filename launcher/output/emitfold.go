package output

import (
	"bytes"
	"fmt"
	"time"
)

// This file writes a lane's batches when equal lines are joined. What is no whole line
// is not joined: a piece of a line that is too long, or that a terminal shows before it
// has ended. Such pieces, and gorun's own lines, go behind everything that waits.

// emitFolded writes what of b, and of what waits, is due; everything if all.
func (l *lane) emitFolded(b *batch, e *emitter, now time.Time, all bool) error {
	e.out = e.out[:0]
	raw := b.raw
	for _, p := range b.pieces {
		text := raw[:p.n]
		raw = raw[p.n:]
		l.foldPiece(text, p, e, now)
		if err := l.emitGroups(e, now, false); err != nil {
			return err
		}
	}
	for _, s := range b.ended {
		l.folds[s.which].end(s.rank)
	}
	if err := l.emitGroups(e, now, all); err != nil {
		return err
	}
	return l.put(&e.live, e.out)
}

// foldPiece lets the whole lines of a piece wait for others, and adds the rest.
func (l *lane) foldPiece(text []byte, p piece, e *emitter, now time.Time) {
	starts := p.starts
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		whole := n > 0 || p.final
		if n == 0 {
			n = len(text)
		}
		if line := text[:n]; p.stream != &l.own && starts && whole {
			l.folds[p.stream.which].add(p.stream.rank, bytes.TrimSuffix(line, []byte("\n")), p.at, now)
		} else {
			l.addRaw(line, p, e, now)
		}
		text = text[n:]
		starts = true
	}
	if p.final && e.open == p.stream {
		e.closeLine()
	}
}

// addRaw adds a line, or a part of one, behind all that waits.
func (l *lane) addRaw(line []byte, p piece, e *emitter, now time.Time) {
	l.addGroups(e, now, true)
	if e.open != p.stream {
		e.closeLine()
		e.cr = false
		if p.stream != &l.own {
			e.mark = l.appendFoldMark(e.mark[:0], []int{p.stream.rank}, p.at)
			e.out = append(e.out, e.mark...)
		}
	}
	if l.terminal && p.stream != &l.own {
		e.appendOver(line)
	} else {
		e.out = append(e.out, line...)
	}
	if e.open = p.stream; line[len(line)-1] == '\n' {
		e.open = nil
	}
}

// closeLine ends a line that was left unfinished.
func (e *emitter) closeLine() {
	if e.open != nil {
		e.out = append(e.out, '\n')
		e.open = nil
	}
}

// emitGroups adds what has waited long enough to e.out, which it writes when full.
func (l *lane) emitGroups(e *emitter, now time.Time, all bool) error {
	l.addGroups(e, now, all)
	if len(e.out) < batchSize {
		return nil
	}
	err := l.put(&e.live, e.out)
	e.out = e.out[:0]
	return err
}

func (l *lane) addGroups(e *emitter, now time.Time, all bool) {
	for _, f := range l.folds[stdout:] {
		if f == nil {
			continue
		}
		for g := f.take(now, all); g != nil; g = f.take(now, all) {
			l.addGroup(g, e)
		}
	}
}

func (l *lane) addGroup(g *group, e *emitter) {
	e.closeLine()
	e.cr = false
	e.mark = l.appendFoldMark(e.mark[:0], g.ranks.list(), g.at)
	e.out = append(e.out, e.mark...)
	if l.terminal {
		e.appendOver([]byte(g.text))
	} else {
		e.out = append(e.out, g.text...)
	}
	e.out = append(e.out, '\n')
}

// appendFoldMark appends what stands before a line of these ranks: the time, the ranks,
// and with tags the host, or how many they are.
func (l *lane) appendFoldMark(p []byte, ranks []int, at int64) []byte {
	if l.stamp {
		p = time.UnixMilli(at).AppendFormat(p, stampFormat)
	}
	return l.appendWho(p, ranks)
}

// appendWho appends the ranks, and with tags their host, in brackets.
func (l *lane) appendWho(p []byte, ranks []int) []byte {
	who := RankSet(ranks)
	if l.hosts != nil {
		who += " " + l.where(ranks)
	}
	if l.color {
		return fmt.Appendf(p, "\x1b[%dm[%s]\x1b[0m ", colorOf(ranks[0]), who)
	}
	return fmt.Appendf(p, "[%s] ", who)
}

// where names the host of ranks, or counts the hosts.
func (l *lane) where(ranks []int) string {
	hosts := map[string]bool{}
	for _, r := range ranks {
		hosts[l.hosts[r]] = true
	}
	if len(hosts) == 1 {
		return Clean(l.hosts[ranks[0]])
	}
	return fmt.Sprintf("%d hosts", len(hosts))
}

// lookFolded returns when something that waits is due; zero: never.
func (l *lane) lookFolded() (at time.Time) {
	for _, f := range l.folds {
		if f != nil {
			at = sooner(at, f.look())
		}
	}
	return at
}

// folded is how many bytes wait.
func (l *lane) folded() (n int) {
	for _, f := range l.folds {
		if f != nil {
			n += f.bytes
		}
	}
	return n
}
