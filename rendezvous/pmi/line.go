package pmi

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of the protocol. Clients have buffers of 1024 bytes for a value.
const (
	maxName  = 256  // of the key-value space's name, with a zero byte behind it
	maxKey   = 64   // the same
	maxValue = 1024 // the same
	maxLine  = 4096 // bytes of a line, with its end
)

// command is a line of a client's: fields NAME=VALUE with blanks between, of which
// the first is cmd or, for the first line of several, mcmd.
type command struct {
	name   string
	lines  bool // mcmd: more lines follow, up to endcmd
	fields []field
}

type field struct{ name, value string }

// parse reads a line without its end. The value of a field "value" or "port" is the rest
// of the line: some clients put blanks into it.
func parse(line string) (c command, err error) {
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			return c, fmt.Errorf("byte %#x in a line", line[i])
		}
	}
	rest := strings.TrimLeft(line, " ")
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || name == "" || strings.Contains(name, " ") {
			return c, fmt.Errorf("no field NAME=VALUE in %.80q", rest)
		}
		if name == "value" || name == "port" {
			c.fields = append(c.fields, field{name, after})
			break
		}
		value, more, _ := strings.Cut(after, " ")
		c.fields = append(c.fields, field{name, value})
		rest = strings.TrimLeft(more, " ")
	}
	if len(c.fields) == 0 || c.fields[0].name != "cmd" && c.fields[0].name != "mcmd" {
		return c, fmt.Errorf("no command in %.80q", line)
	}
	c.name, c.lines = c.fields[0].value, c.fields[0].name == "mcmd"
	c.fields = c.fields[1:]
	return c, nil
}

// get returns the first field of a name, "" if there is none.
func (c command) get(name string) string {
	if i := slices.IndexFunc(c.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return c.fields[i].value
	}
	return ""
}

// reply is a line of the server's without its end. pairs are names and values in turn;
// a value has no blank in it, but for the last.
func reply(name string, pairs ...string) string {
	var b strings.Builder
	b.WriteString("cmd=" + name)
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(" " + pairs[i] + "=" + pairs[i+1])
	}
	return b.String()
}

// refuse is the reply to a command that failed. Clients may read a word only, and no
// more than they have room for.
func refuse(name, why string, pairs ...string) string {
	word := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '=' || r > '~' {
			return '_'
		}
		return r
	}, why)
	return reply(name, append([]string{"rc", "-1", "msg", word[:min(len(word), maxName)]}, pairs...)...)
}
