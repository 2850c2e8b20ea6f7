package hostfile

import (
	"fmt"
	"strconv"
	"strings"
)

const maxGroups = 8 // bracket groups in one name

// Expand returns the names that expr stands for, in order: "n[1-2]a[1,3]" is n1a1,
// n1a3, n2a1, n2a3. A group holds numbers and ranges, with commas between; a range
// may have a step ("[1-10/3]": 1, 4, 7, 10). Leading zeros of its first number set a
// range's width. Commas outside brackets separate expressions. Repeats are kept.
// More than MaxHosts names are an error. Names are not checked further than that
// they are not empty. The error is a *SyntaxError without File and Line.
func Expand(expr string) ([]string, error) {
	var names []string
	for _, it := range splitList(expr) {
		some, m := expand(it.text)
		if m == nil && it.text == "" {
			m = &mistake{0, expr, "a name is missing", ""}
		}
		if m == nil && len(names)+len(some) > MaxHosts {
			m = tooMany(expr)
		}
		if m != nil {
			return nil, m.shift(it.off).errorIn("", 0, expr)
		}
		names = append(names, some...)
	}
	return names, nil
}

// splitList cuts s at the commas outside brackets.
func splitList(s string) []token {
	var items []token
	depth, start := 0, 0
	for i := range len(s) {
		switch {
		case s[i] == '[':
			depth++
		case s[i] == ']':
			depth--
		case s[i] == ',' && depth <= 0:
			items = append(items, token{s[start:i], start})
			start = i + 1
		}
	}
	return append(items, token{s[start:], start})
}

func tooMany(text string) *mistake {
	return &mistake{0, text, fmt.Sprintf("more than %d names", MaxHosts), ""}
}

// expand is Expand without commas outside brackets.
func expand(expr string) ([]string, *mistake) {
	if !strings.ContainsAny(expr, "[]") {
		return []string{expr}, nil
	}
	names := []string{""}
	groups := 0
	for rest, off := expr, 0; rest != ""; {
		literal, group, end, m := nextGroup(rest)
		if m != nil {
			return nil, m.shift(off)
		}
		numbers := []string{""}
		if end > len(literal) {
			groups++
			if numbers, m = expandGroup(group); m != nil {
				return nil, m.shift(off + len(literal) + 1)
			}
		}
		switch {
		case groups > maxGroups:
			return nil, &mistake{0, expr, fmt.Sprintf("more than %d ranges in a name", maxGroups), ""}
		case len(names)*len(numbers) > MaxHosts:
			return nil, tooMany(expr)
		case len(names[0])+len(literal) > maxName:
			return nil, &mistake{0, expr, fmt.Sprintf("a name is longer than %d bytes", maxName), ""}
		}
		names = appendEach(names, literal, numbers)
		rest, off = rest[end:], off+end
	}
	return names, nil
}

// nextGroup cuts the first bracket group off s: what stands before it, what is
// inside, and where it ends. Without a group, all of s is literal and end is len(s).
func nextGroup(s string) (literal, group string, end int, m *mistake) {
	open := strings.IndexAny(s, "[]")
	if open < 0 {
		return s, "", len(s), nil
	}
	if s[open] == ']' {
		return "", "", 0, &mistake{open, s[open:], "] without a [ before it", ""}
	}
	n := strings.IndexAny(s[open+1:], "[]")
	switch {
	case n < 0:
		return "", "", 0, &mistake{open, s[open:], "[ without a ] after it", "write a range without blanks, as n[1-4,7]"}
	case s[open+1+n] == '[':
		return "", "", 0, &mistake{open, s[open:], "a [ inside brackets", ""}
	}
	return s[:open], s[open+1 : open+1+n], open + n + 2, nil
}

// appendEach returns every name with literal and every ending, the endings running fastest.
func appendEach(names []string, literal string, endings []string) []string {
	all := make([]string, 0, len(names)*len(endings))
	for _, name := range names {
		for _, ending := range endings {
			all = append(all, name+literal+ending)
		}
	}
	return all
}

// expandGroup returns the numbers of a group, which is what stands inside brackets.
func expandGroup(group string) ([]string, *mistake) {
	var numbers []string
	for _, it := range splitList(group) {
		r, m := parseRange(it.text)
		if m != nil {
			return nil, m.shift(it.off)
		}
		if r.count() > MaxHosts-uint64(len(numbers)) {
			return nil, tooMany(group)
		}
		for n := range r.count() {
			numbers = append(numbers, r.number(n))
		}
	}
	return numbers, nil
}

// span is a range of numbers, both ends included.
type span struct {
	first, last, step uint64
	width             int // least number of digits
}

func (r span) count() uint64 { return (r.last-r.first)/r.step + 1 }

// number returns the nth number from 0 on, with its leading zeros.
func (r span) number(n uint64) string {
	s := strconv.FormatUint(r.first+n*r.step, 10)
	if missing := r.width - len(s); missing > 0 {
		return strings.Repeat("0", missing) + s
	}
	return s
}

// parseRange reads "7", "001-128" and "1-10/3".
func parseRange(text string) (span, *mistake) {
	wrong := func(msg, hint string) (span, *mistake) { return span{}, &mistake{0, text, msg, hint} }
	if text == "" {
		return wrong("a number is missing in the brackets", "")
	}
	ends, stepText, stepped := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(ends, "-")
	if !isRange {
		last = first
	}
	r := span{step: 1, width: len(first)}
	ok := parseNumber(first, &r.first) && parseNumber(last, &r.last)
	switch {
	case !ok:
		return wrong("bad range: not a number or first-last", "brackets hold numbers and ranges, as n[1-4,7]")
	case stepped && (!isRange || !parseNumber(stepText, &r.step) || r.step == 0):
		return wrong("bad range: the step must be a number above 0, as 1-10/3", "")
	case r.first > r.last:
		return wrong("bad range: start is after end", "")
	case len(last) < len(first) || len(last) > len(first) && last[0] == '0':
		return wrong("bad range: the ends have different leading zeros", fmt.Sprintf("write %0*d-%0*d", len(last), r.first, len(last), r.last))
	}
	return r, nil
}

// parseNumber reads decimal digits, at most 18 of them.
func parseNumber(s string, n *uint64) bool {
	if !digits(s) || len(s) > 18 {
		return false
	}
	*n, _ = strconv.ParseUint(s, 10, 64)
	return true
}
