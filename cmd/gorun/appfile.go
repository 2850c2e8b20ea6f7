package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxAppFile is the largest file of --app, in bytes.
const maxAppFile = 16 << 20

// An appLine is a program of an --app file: the words of a line, or of several that are
// joined by a backslash at the end.
type appLine struct {
	number int // of the first line, from 1
	words  []string
}

// readAppFile reads the programs of o's file; line is the command line, which must name
// none.
func (o *options) readAppFile(line commandLine) error {
	typed := o.typedFlag("app")
	switch {
	case len(line.program) > 0:
		return &usageError{fmt.Sprintf("%s %s and the program %q exclude each other", typed, shellQuote(o.appFile), line.program[0]),
			[]string{"the programs are those of the file, one a line"}}
	case o.np > 0:
		return &usageError{o.typedFlag("np") + " and " + typed + " exclude each other", []string{"write -np in the file, before each program"}}
	}
	lines, err := loadAppFile(typed, o.appFile)
	if err != nil {
		return err
	}
	for _, l := range lines {
		where := fmt.Sprintf("%s:%d", o.appFile, l.number)
		for next := l.words; next != nil; { // a ":" may stand between programs here, too
			more, err := o.readPart(next, line.uses, where)
			if err != nil {
				return (&options{where: where}).at(err)
			}
			next = more.next
		}
	}
	return nil
}

// loadAppFile reads the file at path, which the flag typed names. Its errors are *usageError.
func loadAppFile(typed, path string) ([]appLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("%s %s: %v", typed, shellQuote(path), plainError(err)), nil}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAppFile+1))
	switch {
	case err != nil:
		return nil, &usageError{fmt.Sprintf("%s %s: %v", typed, shellQuote(path), plainError(err)), nil}
	case len(text) > maxAppFile:
		return nil, &usageError{fmt.Sprintf("%s %s: larger than %d MiB", typed, shellQuote(path), maxAppFile>>20), nil}
	}
	return parseAppFile(path, text)
}

// plainError is err without the operation and path that an *fs.PathError adds.
func plainError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// parseAppFile takes a file of --app apart: a program a line, with its flags, in words as
// a shell's: '...' as it is, "..." with \" and \\, \ before any character, # to the end of
// the line at the begin of a word. name is the file's in errors, which are *usageError.
func parseAppFile(name string, text []byte) ([]appLine, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var lines []appLine
	var p wordParser
	begin, number, open := 1, 0, false
	for line := range strings.Lines(string(text)) {
		if number++; !open {
			begin = number
		}
		var err error
		if open, err = p.line(strings.TrimRight(line, "\r\n")); err != nil {
			return nil, &usageError{fmt.Sprintf("%s:%d: %v", name, number, err), nil}
		}
		if !open && p.words != nil {
			lines, p = append(lines, appLine{begin, p.words}), wordParser{}
		}
	}
	if p.end(); p.words != nil { // the last line was to be continued
		lines = append(lines, appLine{begin, p.words})
	}
	if lines == nil {
		return nil, &usageError{name + ": no programs in it", []string{"write a program a line, as in: -np 2 ./a x y"}}
	}
	return lines, nil
}

// wordParser cuts lines into words.
type wordParser struct {
	words []string
	word  []byte
	began bool // word is one, even if it is empty
}

// line reads a line, and reports whether its end was escaped: the next one continues it.
func (p *wordParser) line(s string) (more bool, err error) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0:
			return false, fmt.Errorf("%q: a zero byte", clip(s))
		case c == ' ' || c == '\t':
			p.end()
		case c == '#' && !p.began:
			return false, nil
		case c == '\\' && i == len(s)-1:
			return true, nil
		case c == '\\':
			i++
			p.put(s[i])
		case c == '\'' || c == '"':
			n, ok := p.quoted(s[i+1:], c)
			if !ok {
				return false, fmt.Errorf("%q: the quote is not closed", clip(s[i:]))
			}
			i += n
		default:
			p.put(c)
		}
	}
	p.end()
	return false, nil
}

// quoted reads what stands in quotes, and returns how long it is with the closing one.
func (p *wordParser) quoted(s string, quote byte) (n int, ok bool) {
	p.began = true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return i + 1, true
		case c == '\\' && quote == '"' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			p.put(s[i])
		default:
			p.put(c)
		}
	}
	return 0, false
}

func (p *wordParser) put(c byte) { p.word, p.began = append(p.word, c), true }

func (p *wordParser) end() {
	if p.began {
		p.words = append(p.words, string(p.word))
	}
	p.word, p.began = nil, false
}

// clip shortens a text that is quoted in an error.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
