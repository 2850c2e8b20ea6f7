package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gorun/launcher/wire"
)

// Limits of what may come before the hail, in bytes.
const (
	maxNoise = 1 << 20 // of dot files and banners
	maxLine  = 1 << 10 // of a line that begins with the nonce
)

// scanner finds the lines that begin with the nonce among whatever else a host
// prints: they may stand behind text without a newline.
type scanner struct {
	r       io.Reader
	marker  []byte
	buf     []byte
	skipped int    // bytes
	kept    []byte // the first of them
}

func newScanner(r io.Reader, nonce string) *scanner {
	return &scanner{r: r, marker: []byte("@gorun-" + nonce + " ")}
}

var (
	errNoise    = errors.New("the login shell printed more than 1 MiB before gorun's agent spoke")
	errLongLine = errors.New("a line too long came instead of the agent's hail")
)

// next returns the next such line without marker and newline.
func (s *scanner) next() (string, error) {
	chunk := make([]byte, 512)
	for {
		line, found := s.cut()
		switch {
		case s.skipped > maxNoise:
			return "", errNoise
		case len(line) > maxLine:
			return "", errLongLine
		case found:
			return line, nil
		}
		n, err := s.r.Read(chunk)
		s.buf = append(s.buf, chunk[:n]...)
		if err != nil && n == 0 {
			s.skip(len(s.buf))
			return "", err
		}
	}
}

// cut takes the next line out of the buffer, and what stands before it. Without
// found, line is as much of it as has come.
func (s *scanner) cut() (line string, found bool) {
	i := bytes.Index(s.buf, s.marker)
	if i < 0 {
		s.skip(max(0, len(s.buf)-len(s.marker)+1))
		return "", false
	}
	s.skip(i)
	text := s.buf[len(s.marker):]
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return string(text), false
	}
	s.buf = text[end+1:]
	return string(text[:end]), true
}

// skip drops n bytes, and keeps the first of all dropped ones.
func (s *scanner) skip(n int) {
	s.kept = append(s.kept, s.buf[:min(n, noiseKept-len(s.kept))]...)
	s.skipped += n
	s.buf = s.buf[n:]
}

// noise returns the first 4 KiB of what was skipped, cleaned.
func (s *scanner) noise() string { return clean(string(s.kept)) }

// rest returns what was read behind the last line.
func (s *scanner) rest() []byte {
	if len(s.buf) == 0 {
		return nil
	}
	return s.buf
}

// checkHail checks the text of an agent's hail behind the nonce.
func checkHail(line, nonce string) error {
	if got := "@gorun-" + nonce + " " + line; got != wire.Hail(nonce) {
		return fmt.Errorf("the agent says %q, want %q", cleanLine(line, 100), strings.TrimPrefix(wire.Hail(nonce), "@gorun-"+nonce+" "))
	}
	return nil
}

// need is a request of the bootstrap script for the binary.
type need struct {
	kernel, machine string
	kind            string // cached, home or tmp
}

func parseNeed(line string) (need, error) {
	f := strings.Fields(line)
	if len(f) != 4 || f[0] != "need" || f[3] != "cached" && f[3] != "home" && f[3] != "tmp" {
		return need{}, fmt.Errorf("bad request from the host: %q", cleanLine(line, 100))
	}
	return need{f[1], f[2], f[3]}, nil
}

// parseFail reads why a directory is no good.
func parseFail(line string) Place {
	_, rest, _ := strings.Cut(line, " ")
	why, dir, _ := strings.Cut(rest, " ")
	p := Place{Dir: cleanLine(dir, 200)}
	switch why {
	case "nohome":
		p.Why = "there is no such home directory"
		if p.Dir == "" {
			p.Why, p.Dir = "not set", "HOME"
		}
	case "mkdir":
		p.Why = "cannot make a directory there"
	case "create":
		p.Why = "cannot make a file there"
	case "write":
		p.Why = "cannot write all of the binary (disk full?)"
	case "size":
		p.Why = "the file there is not gorun"
	case "126":
		p.Why = "programs may not be run from there (mounted noexec?)"
	default:
		p.Why = "running gorun from there ends with status " + cleanLine(why, 20)
	}
	return p
}

func parseAt(line string) (place, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(line, "at "))
	if err != nil || n < 1 || n >= len(placeDirs) {
		return 0, fmt.Errorf("bad place from the host: %q", cleanLine(line, 100))
	}
	return place(n), nil
}
