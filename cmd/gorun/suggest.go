package main

import (
	"maps"
	"slices"
	"strings"

	"gorun/envsync"
)

// unknownFlag is the error for a, which no flag of gorun's is; rest is what follows.
func unknownFlag(words map[string]string, a arg, rest []string) error {
	return &usageError{"unknown flag " + envsync.Conceal(a.typed), unknownHints(words, a, rest)}
}

func unknownHints(words map[string]string, a arg, rest []string) []string {
	if strings.HasPrefix(a.word, "-") {
		return []string{"flags begin with one dash or two"}
	}
	same := strings.ReplaceAll(a.word, "_", "-")
	lower := same
	if len(same) > 1 { // as letters, -C is not -c
		lower = strings.ToLower(same)
	}
	for _, word := range []string{same, lower} {
		if words[word] != "" {
			return []string{"write " + dashed(word)}
		}
		if hints := peerHints(word); hints != nil {
			return hints
		}
	}
	if hint := glued(words, a, rest); hint != "" {
		return []string{"write " + hint}
	}
	if hints := gluedNumber(a); hints != nil {
		return hints
	}
	return nearHints(words, lower)
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
			return "-x " + shellQuote(envsync.Conceal(value))
		}
	case "host", "hostfile":
		if !a.valued && strings.ContainsAny(value, "0123456789.:,/") {
			return "-" + flag + " " + shellQuote(envsync.Conceal(value))
		}
	}
	return ""
}

// gluedNumber is what peers say about a flag of one letter whose value, which begins
// with a digit, follows without a space, as in -t10.
func gluedNumber(a arg) []string {
	if len(a.word) < 2 || !strings.HasPrefix(a.typed, "-"+a.word) || a.word[1] < '0' || a.word[1] > '9' {
		return nil
	}
	return peerHints(a.word[:1])
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
		theirs = append(theirs, p.words...)
	}
	if w := nearest(word, theirs); w != "" {
		return []string{"if you mean " + dashed(w) + ": " + peerHints(w)[0]}
	}
	return []string{seeHelp, "flags of the program come after the program's name"}
}

// nearest is the candidate with the fewest edits to word, of equals the likeliest, or ""
// if all are too far. Candidates of one letter are near to everything, and
// left out.
func nearest(word string, candidates []string) string {
	best, limit := "", len(word)/3
	if len(word) > 64 {
		return ""
	}
	for _, c := range candidates {
		d := envsync.Edits(word, c)
		if len(c) > 1 && (d < limit || d == limit && (best == "" || likeness(word, c) > likeness(word, best))) {
			best, limit = c, d
		}
	}
	return best
}

// likeness tells of two words with as many edits to word which was meant: one that word
// only goes on from or breaks off, or else one that begins with the same letter.
func likeness(word, c string) int {
	switch {
	case word == "" || c == "" || word[0] != c[0]:
		return 0
	case strings.HasPrefix(word, c) || strings.HasPrefix(c, word):
		return 2
	}
	return 1
}
