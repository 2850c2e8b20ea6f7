package output

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns s fit for one line of a terminal: control characters, invisible
// ones (such as those that turn the direction of writing) and bytes that are no
// UTF-8 are shown as \n, \x1b, \u202e. Tabs stay. It is for people to read and cannot
// be undone, since a backslash in s stays as it is.
func Clean(s string) string {
	i := strings.IndexFunc(s, unclean)
	if i < 0 {
		return s
	}
	b := []byte(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case unclean(r):
			b = appendEscape(b, r)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

// unclean also holds for U+FFFD, which is what a bad byte is read as.
func unclean(r rune) bool {
	return r != '\t' && (r == utf8.RuneError || !unicode.IsGraphic(r))
}

func appendEscape(b []byte, r rune) []byte {
	switch {
	case r == '\n':
		return append(b, `\n`...)
	case r == '\r':
		return append(b, `\r`...)
	case r == utf8.RuneError:
		return utf8.AppendRune(b, r) // it stood there as itself
	case r < 0x80:
		return fmt.Appendf(b, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return fmt.Appendf(b, `\U%08x`, r)
}

// plain returns s without the escape sequences by which programs colour their output
// and move the cursor.
func plain(s string) string {
	i := strings.IndexByte(s, '\x1b')
	if i < 0 {
		return s
	}
	var b strings.Builder
	for ; i >= 0; i = strings.IndexByte(s, '\x1b') {
		b.WriteString(s[:i])
		s = s[i+escapeLen(s[i:]):]
	}
	return b.String() + s
}

// escapeLen returns the length of the escape sequence at the start of s: CSI
// (ESC [ … final byte), OSC (ESC ] … BEL or ESC \), or ESC, any bytes from space to
// '/', and one more. One that does not end counts as two bytes.
func escapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	var n int
	switch s[1] {
	case '[':
		n = final(s[2:], '@') + 3
	case ']':
		n = strings.IndexAny(s, "\a\\") + 1
	default:
		n = final(s[1:], '0') + 2
	}
	return max(n, 2)
}

// final returns the index of the first byte from low to '~', or -1.
func final(s string, low rune) int {
	return strings.IndexFunc(s, func(r rune) bool { return r >= low && r <= '~' })
}
