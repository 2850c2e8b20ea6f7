package main

import (
	"maps"
	"slices"
	"strings"
)

// unknownFlag is the error for a, which no flag of gorun's is; rest is what follows.
func unknownFlag(words map[string]string, a arg, rest []string) error {
	e := &usageError{msg: "unknown flag " + a.typed}
	same := strings.ReplaceAll(a.word, "_", "-")
	lower := strings.ToLower(same)
	switch {
	case strings.HasPrefix(a.word, "-"):
		e.hints = []string{"flags begin with one dash or two"}
	case words[same] != "":
		e.hints = []string{"write " + dashed(same)}
	case peerHint(same) != "":
		e.hints = []string{peerHint(same)}
	case words[lower] != "":
		e.hints = []string{"write " + dashed(lower)}
	case peerHint(lower) != "":
		e.hints = []string{peerHint(lower)}
	case glued(words, a, rest) != "":
		e.hints = []string{"write " + glued(words, a, rest)}
	default:
		e.hints = nearHints(words, lower)
	}
	return e
}

// glued is how to write a flag of one letter whose value follows without a space, as
// in -xNAME=VALUE, or "" if a does not look like that.
func glued(words map[string]string, a arg, rest []string) string {
	if len(a.word) < 2 || !strings.HasPrefix(a.typed, "-"+a.word) || len(rest) == 0 {
		return ""
	}
	flag, value := a.word[:1], a.word[1:]
	switch words[flag] {
	case "x":
		if isVariable(value) && (a.valued || value == strings.ToUpper(value)) {
			if a.valued {
				value += "=" + a.value
			}
			return "-x " + shellQuote(value)
		}
	case "host", "hostfile":
		if !a.valued && strings.ContainsAny(value, "0123456789.:,/") {
			return "-" + flag + " " + shellQuote(value)
		}
	}
	return ""
}

// nearHints names the flag that word is nearest to: one of gorun's, else another
// launcher's.
func nearHints(words map[string]string, word string) []string {
	own := slices.Sorted(maps.Keys(words))
	if w := nearest(word, own); w != "" {
		return []string{"did you mean " + dashed(w) + "?"}
	}
	var theirs []string
	for _, p := range peers() {
		theirs = append(theirs, strings.Fields(p.words)...)
	}
	if w := nearest(word, theirs); w != "" {
		return []string{"if you mean " + dashed(w) + ": " + peerHint(w)}
	}
	return []string{seeHelp, "flags of the program come after the program's name"}
}

// dashed writes a flag as --help does: MPI's old names with one dash, others with two.
func dashed(word string) string {
	old := "np ppn npernode hostfile machinefile host wdir wd genv genvall vv"
	if len(word) == 1 || slices.Contains(strings.Fields(old), word) {
		return "-" + word
	}
	return "--" + word
}

// nearest is the candidate with the fewest edits to word, the first of equals, or ""
// if all are too far. Candidates of one letter are near to everything, and
// left out.
func nearest(word string, candidates []string) string {
	best, limit := "", len(word)/3
	if len(word) > 64 {
		return ""
	}
	for _, c := range candidates {
		if d := edits(word, c); len(c) > 1 && d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// edits is the number of letters to insert, delete, change or swap with their
// neighbour to make b of a.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
