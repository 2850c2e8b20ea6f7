// Package hostfile says which hosts exist and how many slots each has.
//
// One parser reads the dialects people have: those of Open MPI, DeepSpeed and Horovod
// ("gpu1 slots=8 max_slots=16 port=222 user=ann", "^gpu1" to leave it out), of Hydra
// ("gpu1:8"), of KungFu ("10.0.0.1 slots=8 public_addr=54.1.2.3"), of batch systems (a
// name for each slot), plain names, "user@host", IPv6 addresses ("fd00::2",
// "[fd00::2]:2222") and bracket ranges ("gpu[001-128,200]-ib0"). A list with a mistake
// is an error that says where; it never loses a host silently.
//
// A number after a name is a number of slots; after a bracketed IPv6 address it is
// a port. Names are compared without case, IPv6 addresses by value, and whole:
// gpu.1.foo and gpu.2.foo are two hosts. The package resolves and connects nothing.
package hostfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// Limits of a list of hosts; beyond them is an error.
const (
	MaxHosts = 65536 // hosts in a list, and names from one bracket expression
	MaxSlots = 65536 // slots of one host

	maxFile     = 16 << 20 // bytes of a hostfile
	maxLine     = 64 << 10 // bytes of a line
	maxMentions = 1 << 20  // names in a list, repeats counted
	maxCount    = 1024     // slots in "host:n", where a larger n is more likely a port
	maxName     = 253      // bytes of a host name (RFC 1035)
	maxText     = 80       // bytes of the text quoted in an error
	maxMistakes = 8        // mistakes in a file that are told
)

// ListName is the File of hosts that come from the command line's list, ExcludeName that
// of mistakes in the list of hosts to leave out.
const (
	ListName    = "-H"
	ExcludeName = "--exclude"
)

// Host is one host of a list, and where it stands.
type Host struct {
	Name     string // as the user wrote it after expansion, without user@, port and brackets of IPv6
	User     string // "": not given
	Port     int    // 0: not given
	Addr     string // name or address to connect to; "": Name
	Rack     string // label; "": not given
	Switch   string // label, the highest switch first where it is a path: "spine1/leaf7"; "": not given
	Domain   string // label of the NVLink domain that its GPUs are in; "": not given
	Slots    int    // -1: not given, the host itself tells; 0 only when the user wrote 0
	MaxSlots int    // 0: no limit
	File     string // the file's name, or ListName
	Line     int    // first line, or item of the list, that names the host; from 1
	Bare     bool   // in a list: one mention without a number, so Slots is the default 1
}

// Target is what to connect to: a name or an address.
func (h Host) Target() string { return cmp.Or(h.Addr, h.Name) }

// Place is where the host stands, for people: "hosts:3", or "-H item 3" in a list.
func (h Host) Place() string {
	switch {
	case h.File == ListName:
		return fmt.Sprintf("%s item %d", h.File, h.Line)
	case h.Line > 0:
		return fmt.Sprintf("%s:%d", h.File, h.Line)
	}
	return h.File
}

// SyntaxErrors are several mistakes in a hostfile, in the order of its lines. Whoever looks
// for a *SyntaxError in it finds the first.
type SyntaxErrors struct {
	First []*SyntaxError
	More  int // lines with mistakes that First has not
}

func (e *SyntaxErrors) Error() string { return e.First[0].Error() }
func (e *SyntaxErrors) Unwrap() error { return e.First[0] }

// SyntaxError is a mistake in a list of hosts. All functions that read one return it.
type SyntaxError struct {
	File string // the file's name, ListName, or "" from Expand
	Line int    // line, or item of the list, from 1; 0: the file as a whole
	Col  int    // character in the line or list, from 1; 0: unknown
	Text string // the offending text, possibly shortened; "" if there is none
	Msg  string // what is wrong with Text
	Hint string // what to do, or ""
}

func (e *SyntaxError) Error() string {
	var b strings.Builder
	switch {
	case (e.File == ListName || e.File == ExcludeName) && e.Line > 0:
		fmt.Fprintf(&b, "%s: item %d: ", e.File, e.Line)
	case e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Col)
	case e.File != "":
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, "%q: ", e.Text)
	}
	return b.String() + e.Msg
}

// ParseFile reads the hostfile at path. It blocks as long as reading does, which for
// a pipe (`-hostfile <(command)`) is until the writer ends. The error is a
// *SyntaxError, a *SyntaxErrors, or wraps what opening or reading returned (fs.ErrNotExist,
// EISDIR).
func ParseFile(path string) ([]Host, error) { return parseFile(path, false) }

// ParseNodefile reads the file that a batch system has written for a job, such as
// $PBS_NODEFILE, as ParseFile does, but every line with a name alone is one slot.
func ParseNodefile(path string) ([]Host, error) { return parseFile(path, true) }

func parseFile(path string, nodefile bool) ([]Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hostfile %s: %w", path, cause(err))
	}
	defer f.Close()
	return parse(path, f, nodefile)
}

// cause is err without the operation and path that an *fs.PathError adds.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Parse reads a hostfile from r; name is its name in errors and in Host.File. Hosts
// come in the order of their first line. A file without hosts is an error. The error
// is a *SyntaxError, a *SyntaxErrors, or wraps that of r.
func Parse(name string, r io.Reader) ([]Host, error) { return parse(name, r, false) }

func parse(name string, r io.Reader, nodefile bool) ([]Host, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("hostfile %s: %w", name, cause(err))
	}
	text, err := decode(name, data)
	if err != nil {
		return nil, err
	}
	p := parser{file: name, set: newSet(false)}
	p.set.nodefile = nodefile
	for rest := text; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		p.line++
		if e := p.parseLine(line); e != nil {
			p.wrong = append(p.wrong, e)
		}
	}
	if p.comment != 0 && len(p.wrong) == 0 {
		return nil, &SyntaxError{File: name, Line: p.comment, Col: p.commentCol, Text: "/*", Msg: "the comment is not closed", Hint: "end it with */"}
	}
	hosts := p.set.finish()
	switch n := len(p.wrong); {
	case n == 1 || n > 1 && len(hosts) == 0: // without any host it is hardly a hostfile
		return nil, p.wrong[0]
	case n > 1:
		told := min(n, maxMistakes)
		return nil, &SyntaxErrors{First: p.wrong[:told], More: n - told}
	case len(hosts) == 0:
		return nil, &SyntaxError{File: name, Msg: "no hosts in it"}
	}
	return exclude(hosts, hosts, p.set.without)
}

// decode checks that data can be a hostfile and takes the byte order mark off.
func decode(name string, data []byte) (string, error) {
	wrong := func(msg, hint string) error { return &SyntaxError{File: name, Msg: msg, Hint: hint} }
	if len(data) > maxFile {
		return "", wrong(fmt.Sprintf("longer than %d MiB, not a hostfile", maxFile>>20), "")
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return "", wrong("text in UTF-16", "save the file as UTF-8")
	}
	if strings.Contains(text, "\x00") {
		return "", wrong("binary data, not a hostfile", "")
	}
	return text, nil
}

// clip shortens text for an error.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for cut > maxText-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
