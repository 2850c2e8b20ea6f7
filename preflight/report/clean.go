package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gorun/hostfile"
)

// longest is how many bytes of one text from a host are shown.
const longest = 2000

// clean returns s fit for one line: tabs become blanks; control characters, invisible
// ones and bytes that are no UTF-8 are shown as \n, \x1b, \u202e. What is too long is cut.
func clean(s string) string { return cleanTo(s, longest) }

func cleanTo(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = s[:most]
		for !utf8.RuneStart(s[len(s)-1]) && len(s) > 1 {
			s = s[:len(s)-1]
		}
		s = s[:len(s)-1] // the first byte of what may be half a character
	}
	if strings.ContainsFunc(s, unclean) {
		var b strings.Builder
		for i, r := range s {
			b.WriteString(shown(s, i, r))
		}
		s = b.String()
	}
	if cut {
		s += "…"
	}
	return s
}

// unclean also holds for U+FFFD, which is what a bad byte is read as.
func unclean(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

func shown(s string, i int, r rune) string {
	switch {
	case r == '\t':
		return " "
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == utf8.RuneError:
		if _, n := utf8.DecodeRuneInString(s[i:]); n > 1 {
			return string(r) // it stood there as itself
		}
		return fmt.Sprintf(`\x%02x`, s[i])
	case !unclean(r):
		return string(r)
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// folded writes names as "gpu[01-03], login".
func folded(names []string) string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = cleanTo(name, 200)
	}
	return spaced(hostfile.Fold(short))
}

// spaced puts a blank behind the commas that are not in brackets.
func spaced(list string) string {
	var b strings.Builder
	depth := 0
	for _, r := range list {
		b.WriteRune(r)
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// ranges writes numbers as "0-7, 16".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		k := i
		for k+1 < len(numbers) && numbers[k+1] == numbers[k]+1 {
			k++
		}
		part := fmt.Sprint(numbers[i])
		if k > i {
			part += fmt.Sprintf("-%d", numbers[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

// count writes "1 host", "2 hosts".
func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
