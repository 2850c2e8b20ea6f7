package hostfile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style says how an entry gives its slots; entries of one host must agree.
type style int

const (
	plain   style = iota // a name alone: one more slot each time
	counted              // host:n: n more slots each time
	keyed                // slots=n, max_slots=n or host:*: once
)

// entry is what one line or item says of one or more hosts.
type entry struct {
	Host  // what all of them have; Name is empty
	names []string
	style style
}

// nameOnly reports whether e says nothing but a name, as a line of a nodefile does.
func (e *entry) nameOnly() bool {
	said := e.Host
	said.File, said.Line = "", 0
	return len(e.names) == 1 && e.style == plain && said == Host{Slots: -1}
}

// parseHost reads "[user@]host", "host:n", "host:*", "[IPv6]:port" and "IPv4:n:address",
// where host may have bracket ranges.
func parseHost(word string) (entry, *mistake) {
	e := entry{Host: Host{Slots: -1}}
	if m := unlike(word); m != nil {
		return e, m
	}
	s, off := word, 0
	if i := strings.LastIndexByte(word, '@'); i >= 0 {
		e.User, s, off = word[:i], word[i+1:], i+1
		if m := checkUser(e.User); m != nil {
			return e, &mistake{0, word, m.msg, m.hint}
		}
	}
	var m *mistake
	switch colons := colonsOutside(s); {
	case s == "":
		return e, &mistake{0, word, "no host after @", "write user@host without blanks"}
	case bracketed(s):
		m = e.parseBracketed(s)
	case len(colons) == 0:
		m = e.parseNames(s)
	case len(colons) == 1:
		m = e.parseCounted(s, colons[0])
	case len(colons) == 2 && isIPv4(s[:colons[0]]) && digits(s[colons[0]+1:colons[1]]):
		m = e.parseReached(s, colons[1])
	default:
		m = e.parseBareIPv6(s)
	}
	return e, m.shift(off)
}

// unlike tells what is written as other programs want a host.
func unlike(word string) *mistake {
	const port = "; for a port write port=2222 behind it, in a hostfile"
	inside, _, _ := strings.Cut(strings.TrimPrefix(word[strings.LastIndexByte(word, '@')+1:], "["), "]")
	switch _, rest, url := strings.Cut(word, "://"); {
	case url:
		rest, _, _ = strings.Cut(rest, "/")
		if i := strings.LastIndexByte(rest, ':'); i >= 0 && digits(rest[i+1:]) {
			rest = rest[:i]
		}
		return &mistake{0, word, "an address of the web's kind, not a host", "write " + rest + port}
	case isIPv4(inside) && strings.Contains(word, "["):
		return &mistake{0, word, "brackets stand around an IPv6 address, or a range of numbers", "write " + inside + port}
	}
	return nil
}

// parseReached reads KungFu's "IPv4:n:address"; colon is where the second colon is.
func (e *entry) parseReached(s string, colon int) *mistake {
	if m := e.parseCounted(s[:colon], strings.IndexByte(s, ':')); m != nil {
		return m
	}
	e.Addr = s[colon+1:]
	return checkAddr(e.Addr).shift(colon + 1)
}

func isIPv4(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is4()
}

// checkAddr says what is wrong with the address by which a host is reached, which may
// be a name.
func checkAddr(s string) *mistake {
	if strings.Contains(s, ":") {
		return checkIPv6(s)
	}
	return checkName(s)
}

// checkUser says what is wrong with a user's name.
func checkUser(user string) *mistake {
	switch {
	case user == "":
		return &mistake{0, user, "no user before @", ""}
	case strings.Contains(user, "@"):
		return &mistake{0, user, "more than one @", "one host per line, as user@host"}
	case strings.HasPrefix(user, "-"):
		return &mistake{0, user, "a user's name cannot start with -", ""}
	case strings.ContainsAny(user, `:/[],=#"'`) || !utf8.ValidString(user) ||
		strings.ContainsFunc(user, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }):
		return &mistake{0, user, "a user's name cannot have blanks, quotes or any of : / [ ] , = #", ""}
	}
	return nil
}

// colonsOutside returns where s has colons outside brackets.
func colonsOutside(s string) []int {
	var at []int
	depth := 0
	for i := range len(s) {
		switch {
		case s[i] == '[':
			depth++
		case s[i] == ']':
			depth--
		case s[i] == ':' && depth <= 0:
			at = append(at, i)
		}
	}
	return at
}

// bracketed reports whether s starts with an IPv6 address in brackets, not with a range.
func bracketed(s string) bool {
	inside, _, _ := strings.Cut(s, "]")
	return strings.HasPrefix(s, "[") && strings.Contains(inside, ":")
}

// parseBracketed reads "[IPv6]" and "[IPv6]:port".
func (e *entry) parseBracketed(s string) *mistake {
	inside, after, closed := strings.Cut(s[1:], "]")
	if !closed {
		return &mistake{0, s, "no ] after the address", ""}
	}
	if m := checkIPv6(inside); m != nil {
		return m.shift(1)
	}
	e.names = []string{inside}
	if after == "" {
		return nil
	}
	off := len(s) - len(after)
	text, ok := strings.CutPrefix(after, ":")
	if !ok {
		return &mistake{off, after, "only a port can follow the address", fmt.Sprintf("write [%s]:2222", inside)}
	}
	port, m := parsePort(text)
	if m != nil {
		return m.shift(off + 1)
	}
	if port < 22 {
		return &mistake{off + 1, text, "after an address in brackets the number is a port",
			fmt.Sprintf(`for slots write "%s slots=%d" in a hostfile, or repeat the address in -H`, inside, port)}
	}
	e.Port = port
	return nil
}

// parseBareIPv6 reads an IPv6 address without brackets; it may have ranges.
func (e *entry) parseBareIPv6(s string) *mistake {
	names, m := expand(s)
	if m != nil {
		return m
	}
	for _, name := range names {
		if m := checkIPv6(name); m != nil {
			return &mistake{0, s, "neither host:slots nor an IPv6 address", "write an address with its port as [fd00::2]:2222"}
		}
	}
	e.names = names
	return nil
}

// parseNames reads a name, which may have ranges.
func (e *entry) parseNames(s string) *mistake {
	names, m := expand(s)
	if m != nil {
		return m
	}
	for _, name := range names {
		if m := checkName(name); m != nil {
			return &mistake{0, s, m.msg, m.hint}
		}
	}
	e.names = names
	return nil
}

// parseCounted reads "host:n", "host:*" and "host:auto"; colon is where its colon is.
func (e *entry) parseCounted(s string, colon int) *mistake {
	if colon == 0 {
		return &mistake{0, s, "no host before the colon", "write host:slots without blanks"}
	}
	if m := e.parseNames(s[:colon]); m != nil {
		return m
	}
	name, text := s[:colon], s[colon+1:]
	if text == "*" || text == "auto" {
		e.style = keyed
		return nil
	}
	if text == "" && strings.EqualFold(name, "ssh") { // a comment begins with //
		return &mistake{0, s, "an address of the web's kind, not a host", "write user@host for ssh://user@host; for a port write port=2222 behind it"}
	}
	if text == "" {
		return &mistake{0, s, "no number after the colon", fmt.Sprintf("write %s:2 without blanks", name)}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case !digits(text):
		return &mistake{colon + 1, text, "not a number of slots", fmt.Sprintf("write %s:2 for two slots", name)}
	case err != nil || n > maxCount:
		return &mistake{colon + 1, text, fmt.Sprintf("more than %d slots; is it a port?", maxCount),
			fmt.Sprintf(`in a hostfile write "%s port=%s" for a port, "%s slots=%s" for slots`, name, text, name, text)}
	}
	e.style, e.Slots = counted, int(n)
	return nil
}

// parsePort reads a port.
func parsePort(text string) (int, *mistake) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || !digits(text) {
		return 0, &mistake{0, text, "not a port (1 to 65535)", ""}
	}
	return int(n), nil
}

// digits reports whether s is one or more decimal digits and nothing else.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// checkIPv6 says what is wrong with an IPv6 address, which may have a zone.
func checkIPv6(s string) *mistake {
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is6() {
		return &mistake{0, s, "not an IPv6 address", ""}
	}
	if i := strings.IndexFunc(addr.Zone(), notInName); i >= 0 {
		return &mistake{0, s, "bad zone in the address", ""}
	}
	return nil
}

// checkName says what is wrong with a host name or IPv4 address.
func checkName(name string) *mistake {
	i := strings.IndexFunc(name, notInName)
	switch {
	case name == "":
		return &mistake{0, name, "no host", ""}
	case len(name) > maxName:
		return &mistake{0, name, fmt.Sprintf("the name is longer than %d bytes", maxName), ""}
	case name[0] == '+':
		return &mistake{0, name, "relative hosts select from a hostfile", "write them in -H, beside -hostfile FILE"}
	case name[0] == '^':
		return &mistake{0, name, "^ stands before the name alone", "write ^host"}
	case name[0] == '-':
		return &mistake{0, name, "a name cannot start with -", ""}
	case i >= 0 && name[i] == ',':
		return &mistake{0, name, "a comma in a name", "write one host per line; a list with commas goes to -H"}
	case i >= 0 && (name[i] == '{' || name[i] == '}'):
		return &mistake{0, name, fmt.Sprintf("%q cannot be in a name", firstRune(name[i:])), "ranges stand in square brackets, as n[1-4,7]"}
	case i >= 0:
		return &mistake{0, name, fmt.Sprintf("%q cannot be in a name", firstRune(name[i:])), ""}
	case strings.Trim(name, ".") == "":
		return &mistake{0, name, "not a name", ""}
	case strings.Trim(name, "0123456789.") == "":
		// The resolver takes "4" for 0.0.0.4 and "10.1" for 10.0.0.1.
		if !isIPv4(name) {
			return &mistake{0, name, "neither a name nor an IPv4 address", ""}
		}
	}
	return nil
}

func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_')
}

func firstRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[:i]
		}
	}
	return s
}
