package transport

import "strings"

// echoMark stands for what a host gave back of what it was sent.
const echoMark = "..."

// withoutEcho returns the text of a host without what it repeats of the command that it
// was given, and whether it does. Who repeats it may quote it in another way, and both
// ends of the text may be cut off.
func withoutEcho(text, command string) (string, bool) {
	const window = 40 // bytes that nobody else writes
	plain, at := unquoted(text)
	want, _ := unquoted(command)
	for k := 0; k+window <= len(want); k += window {
		i := strings.Index(plain, want[k:k+window])
		if i < 0 {
			continue
		}
		begin, end := i, i+window
		for b := k; begin > 0 && b > 0 && plain[begin-1] == want[b-1]; b-- {
			begin--
		}
		for e := k + window; end < len(plain) && e < len(want) && plain[end] == want[e]; e++ {
			end++
		}
		after, _ := withoutEcho(text[at[end-1]+1:], command)
		return strings.TrimRight(text[:at[begin]], quoting) + echoMark + strings.TrimLeft(after, quoting), true
	}
	return text, false
}

const quoting = "'\"\\`"

// unquoted is s without the characters by which words are quoted, and where in s each of
// its bytes is.
func unquoted(s string) (plain string, at []int) {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(quoting, s[i]) < 0 {
			b.WriteByte(s[i])
			at = append(at, i)
		}
	}
	return b.String(), at
}
