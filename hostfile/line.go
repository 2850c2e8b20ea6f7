package hostfile

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// parser reads a hostfile line by line.
type parser struct {
	file       string
	line       int // the current line, from 1
	comment    int // line in which an open /* stands; 0: none is open
	commentCol int
	set        *set
	wrong      []*SyntaxError // by line
}

// token is a word or "=" of a line.
type token struct {
	text string
	off  int // in bytes, in the line
}

// mistake is an error inside a line: text at an offset in bytes.
type mistake struct {
	off             int
	text, msg, hint string
}

// shift moves m, found in a part of a line, to where that part starts.
func (m *mistake) shift(off int) *mistake {
	if m != nil {
		m.off += off
	}
	return m
}

// errorIn gives m its place in a file or list; line is the text m.off counts in.
func (m *mistake) errorIn(file string, number int, line string) *SyntaxError {
	col := utf8.RuneCountInString(line[:min(m.off, len(line))]) + 1
	return &SyntaxError{File: file, Line: number, Col: col, Text: clip(m.text), Msg: m.msg, Hint: m.hint}
}

// parseLine reads one line, which has no "\n", into p.set, and returns what is wrong in it.
func (p *parser) parseLine(line string) *SyntaxError {
	if len(line) > maxLine {
		return (&mistake{text: line, msg: "the line is too long"}).errorIn(p.file, p.line, line)
	}
	bare := strings.TrimRight(line, "\r \t")
	m := loneReturn(bare)
	var tokens []token
	if m == nil {
		bare, m = p.uncomment(bare)
	}
	if m == nil {
		tokens, m = tokenize(bare)
	}
	switch {
	case m != nil || len(tokens) == 0:
	case tokens[0].text[0] == '^':
		m = p.parseExclusion(line, tokens)
	default:
		m = p.parseEntry(tokens)
	}
	if m != nil {
		return m.errorIn(p.file, p.line, line)
	}
	return nil
}

// parseEntry reads "host key=value ..." into p.set.
func (p *parser) parseEntry(tokens []token) *mistake {
	host := tokens[0]
	switch {
	case host.text == "=":
		return &mistake{host.off, "=", "no host before it", ""}
	case host.text == "rank" && len(tokens) > 2 && digits(tokens[1].text) && tokens[2].text == "=":
		return &mistake{host.off, "rank " + tokens[1].text, "a line of a rankfile", "a hostfile has one host a line"}
	}
	e, m := parseHost(host.text)
	if m != nil {
		return m.shift(host.off)
	}
	if m := e.parseKeys(tokens[1:]); m != nil {
		return m
	}
	e.File, e.Line = p.file, p.line
	return p.set.add(e).shift(host.off)
}

// parseExclusion reads "^host" into p.set.
func (p *parser) parseExclusion(line string, tokens []token) *mistake {
	x, m := parseExclusion(tokens[0].text)
	if m == nil && len(tokens) > 1 {
		m = &mistake{tokens[1].off - tokens[0].off, tokens[1].text, "nothing can follow a host that is left out", ""}
	}
	if m != nil {
		return m.shift(tokens[0].off)
	}
	x.at = *(&mistake{off: tokens[0].off}).errorIn(p.file, p.line, line)
	p.set.without = append(p.set.without, x)
	return nil
}

// loneReturn finds a carriage return inside a line. It looks into comments too: what
// stands after it was meant to be a line.
func loneReturn(line string) *mistake {
	if i := strings.IndexByte(line, '\r'); i >= 0 {
		return &mistake{i, "\r", "carriage return inside the line", "the file has the line ends of an old Mac; end its lines with a newline"}
	}
	return nil
}

// uncomment overwrites the line's comments with blanks, so that offsets stay. It
// keeps track of a /* that is still open at the line's end. A second /* before its
// end is an error, because the lines between would be lost silently.
func (p *parser) uncomment(line string) (string, *mistake) {
	if p.comment == 0 && !strings.ContainsAny(line, "#/") {
		return line, nil
	}
	b := []byte(line)
	for i := 0; i < len(b); i++ {
		two := string(b[i:min(i+2, len(b))])
		switch {
		case p.comment != 0 && two == "/*":
			return "", &mistake{i, "/*", fmt.Sprintf("the comment of line %d is still open", p.comment), "end it with */"}
		case p.comment != 0 && two == "*/":
			p.comment = 0
			b[i], b[i+1] = ' ', ' '
			i++
		case p.comment != 0:
			b[i] = ' '
		case two == "/*":
			p.comment, p.commentCol = p.line, utf8.RuneCount(b[:i])+1
			b[i], b[i+1] = ' ', ' '
			i++
		case b[i] == '#' || two == "//":
			return string(b[:i]), nil
		}
	}
	return string(b), nil
}

// tokenize cuts a line without comments into words and equals signs.
func tokenize(line string) ([]token, *mistake) {
	var tokens []token
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '=':
			tokens = append(tokens, token{"=", i})
			i++
		case c < ' ' || c == 0x7f:
			return nil, &mistake{i, string(c), "control character", ""}
		default:
			n := strings.IndexFunc(line[i:], func(r rune) bool { return r <= ' ' || r == '=' || r == 0x7f })
			if n < 0 {
				n = len(line) - i
			}
			tokens = append(tokens, token{line[i : i+n], i})
			i += n
		}
	}
	return tokens, nil
}
