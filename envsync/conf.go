package envsync

import (
	"bytes"
	"fmt"
	"strings"
)

// ConfSetting is a line of a file of NCCL settings (/etc/nccl.conf) that sets a variable.
type ConfSetting struct {
	Name, Value string
	Line        int // counted from 1; 0: it is of no file
}

// ConfTrap is a line of a file of NCCL settings that does not do what it seems to say,
// which NCCL never tells.
type ConfTrap struct {
	Line int
	Text string // of the line, for people: a secret is hidden, a long one cut
	Msg  string // what is wrong with it
}

// Limits of NCCL's own reader (src/misc/param.cc), in bytes. What is longer is cut.
const (
	maxConfName  = 1023
	maxConfValue = 1023
	maxConfLine  = 4096
)

// ParseConf reads a file of NCCL settings as NCCL does: NAME=value, raw, with no blanks
// taken off, no quotes, no export, and with a comment only where "#" is the first
// character of a line. Of a name that is set twice the first counts. Lines whose names
// nobody asks for, as "NCCL_ALGO ", are no settings; what is odd about these and others
// is told in traps. It never fails: NCCL does not either.
func ParseConf(data []byte) (set []ConfSetting, traps []ConfTrap) {
	first := map[string]int{} // index in set
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimSuffix(string(line), "\n")
		s, msgs := parseConfLine(text)
		if s.Name != "" {
			s.Line = n
			if i, again := first[s.Name]; !again {
				first[s.Name] = len(set)
				set = append(set, s)
			} else if set[i].Value != s.Value {
				msgs = append(msgs, fmt.Sprintf("%s is set by line %d already, and that counts", s.Name, set[i].Line))
			}
		}
		for _, m := range msgs {
			traps = append(traps, ConfTrap{Line: n, Text: Setting{Text: text}.shown(), Msg: m})
		}
	}
	return set, traps
}

// parseConfLine reads a line without its end. The setting has no name if the line sets
// nothing that anybody asks for.
func parseConfLine(line string) (s ConfSetting, msgs []string) {
	note := func(format string, args ...any) { msgs = append(msgs, fmt.Sprintf(format, args...)) }
	if len(line) > maxConfLine {
		note("a line has at most %d bytes", maxConfLine)
	}
	if i := strings.IndexByte(line, 0); i >= 0 {
		note("what follows the zero byte is not read")
		line = line[:i]
	}
	if rest, ok := strings.CutSuffix(line, "\r"); ok {
		if rest != "" && rest[0] != '#' {
			note("it ends with a carriage return, which some versions of NCCL take for a part of the value")
		}
		line = rest
	}
	word := strings.TrimLeft(line, " \t")
	if word == "" || word[0] == '#' {
		return s, nil // an indented comment sets a name that nobody asks for, if any
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		note("it has no = and is not read")
		return s, msgs
	}
	if msg := confNameTrap(name); msg != "" {
		note("%s", msg)
		return s, msgs
	}
	if msg := confValueTrap(value); msg != "" {
		note("%s", msg)
	}
	if len(value) > maxConfValue {
		note("a value has at most %d bytes; the rest is not read", maxConfValue)
		value = value[:maxConfValue]
	}
	return ConfSetting{Name: name, Value: value}, msgs
}

// confNameTrap says why nobody asks for what the line of that name sets; "" if somebody may.
func confNameTrap(name string) string {
	without := strings.Trim(strings.TrimPrefix(name, "\ufeff"), " \t")
	word, rest, several := strings.Cut(without, " ")
	switch {
	case name == "":
		return "it has no name and is not read"
	case len(name) > maxConfName:
		return fmt.Sprintf("a name has at most %d bytes", maxConfName)
	case several && (word == "export" || word == "set" || word == "setenv"):
		return fmt.Sprintf("without effect: no %s is read; write %s=VALUE", word, shown(strings.TrimSpace(rest)))
	case without == name && validName(name):
		return ""
	case strings.HasPrefix(name, "\ufeff"):
		return "without effect: the file begins with a byte order mark, which is part of the name"
	case without != name:
		return fmt.Sprintf("without effect: a blank is part of the name; write %s=VALUE", shown(without))
	}
	return "without effect: not a name"
}

// confValueTrap says what of value is there by mistake, as far as one can tell.
func confValueTrap(value string) string {
	trimmed := strings.Trim(value, " \t")
	quoted := len(trimmed) > 1 && (trimmed[0] == '"' || trimmed[0] == '\'') && trimmed[len(trimmed)-1] == trimmed[0]
	switch {
	case quoted:
		return "the quotes are part of the value"
	case strings.Contains(trimmed, " #") || strings.Contains(trimmed, "\t#"):
		return "the comment is part of the value"
	case trimmed != value && trimmed != "":
		return "the blanks around the value are part of it"
	case strings.HasPrefix(trimmed, "$"):
		return "no variable is read in a value; it is taken as it is written"
	}
	return ""
}
