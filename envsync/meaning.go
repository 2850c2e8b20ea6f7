package envsync

import (
	"strconv"
	"strings"
)

// Meaning is value in the one way of writing of all that NCCL takes alike for the variable
// name: 1024 for 0x400, Ring for ring. What is not known to mean the same as other text is
// returned as it is.
func Meaning(name, value string) string {
	v, known := Lookup(name)
	switch {
	case !known:
		return value
	case numeric(v.Kind):
		n := readNumber(value)
		if n.digits == "" || n.rest != "" || n.tooLarge {
			return value
		}
		return strconv.FormatInt(n.value, 10)
	case v.Kind == Words && vocabularyOf(name).fold:
		return strings.ToUpper(value)
	case v.Kind == Grammar:
		return respelt(value, append(grammarWords(name), collectives...))
	}
	return value
}

// respelt writes the words in text that are among known, in any case, as known has them.
func respelt(text string, known []string) string {
	var out strings.Builder
	for text != "" {
		n := strings.IndexFunc(text, func(r rune) bool { return r > 0x7f || !inName(byte(r)) })
		if n < 0 {
			n = len(text)
		}
		word := text[:n]
		for _, k := range known {
			if strings.EqualFold(word, k) {
				word = k
			}
		}
		out.WriteString(word)
		if n < len(text) {
			out.WriteByte(text[n])
			n++
		}
		text = text[n:]
	}
	return out.String()
}
