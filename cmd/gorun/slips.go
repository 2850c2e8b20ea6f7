package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"gorun/envsync"
)

// This file finds what a web page, a word processor or an editor has put into a line,
// and what is left in it of another launcher's.

const (
	dashes = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
	quotes = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb"
	spaces = "\u00a0\u2007\u2009\u200b\u202f\u3000\ufeff"
)

// pasted says what is wrong with a word where a flag or the program may stand, if
// somebody has copied it from where words look better than they work; else nil.
func pasted(word string) error {
	plain := undashed(word)
	i := strings.IndexAny(word, spaces)
	switch {
	case strings.Trim(word, "\r") == "" && word != "":
		return &usageError{"a carriage return stands where a flag or the program belongs", []string{windowsHint}}
	case plain != word:
		r, _ := utf8.DecodeRuneInString(strings.TrimLeft(word, "-"))
		return &usageError{fmt.Sprintf("%q begins with the character %U, which is no dash of the keyboard's", envsync.Conceal(word), r),
			[]string{"write " + shellQuote(envsync.Conceal(plain))}}
	case i >= 0 && word[0] == '-':
		r, _ := utf8.DecodeRuneInString(word[i:])
		return &usageError{fmt.Sprintf("%q holds the character %U, which is no space of the keyboard's", envsync.Conceal(word), r), []string{"type the space anew"}}
	case word == `\` || strings.TrimLeft(word, " \t\n") != word:
		return &usageError{fmt.Sprintf("%q stands where a flag or the program belongs", envsync.Conceal(word)),
			[]string{`nothing may follow the \ at the end of a line, not even a space`}}
	}
	return quoted(word)
}

const windowsHint = `the script's lines end as Windows has them: sed -i 's/\r$//' SCRIPT`

// undashed is word with dashes of the keyboard's for others that it begins with.
func undashed(word string) string {
	rest := strings.TrimLeft(word, "-"+dashes)
	begin := word[:len(word)-len(rest)]
	if !strings.ContainsAny(begin, dashes) {
		return word
	}
	begin = strings.ReplaceAll(begin, "\u2014", "--")
	for _, r := range dashes {
		begin = strings.ReplaceAll(begin, string(r), "-")
	}
	return begin[:min(2, len(begin))] + rest
}

// quoted says that word begins or ends in quotes that no shell knows, or behind a
// carriage return; nil if it does not.
func quoted(word string) error {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	for _, r := range []rune{first, last} {
		if strings.ContainsRune(quotes, r) && r != utf8.RuneError {
			return &usageError{fmt.Sprintf("%q: the character %U is no quote for a shell", envsync.Conceal(word), r), []string{`write ' or "`}}
		}
	}
	if last == '\r' {
		return &usageError{fmt.Sprintf("%q ends in a carriage return", envsync.Conceal(word)), []string{windowsHint}}
	}
	return nil
}

// otherLauncher says that a program is itself a launcher, in whose place gorun stands;
// nil if it is not. One that starts the processes of a single host may be meant, if flags
// place it there.
func otherLauncher(program []string, placed bool) error {
	name := filepath.Base(program[0])
	rest := program[1:]
	switch name {
	case "mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "mpiexec.openmpi", "mpiexec.mpich", "orterun", "prterun", "horovodrun", "srun", "deepspeed":
	case "torchrun":
		if placed {
			return nil
		}
	default:
		module, script := torchModule(program)
		if module == "" || placed {
			return nil
		}
		name, rest = module, script
	}
	e := &usageError{fmt.Sprintf("%q stands where the program belongs: gorun takes its place", name), nil}
	if line, ok := torchLine(rest); ok {
		e.hints = append(e.hints, line...)
	} else if len(rest) > 0 {
		e.hints = append(e.hints, "leave it out: "+typed(append([]string{"gorun"}, rest...)...))
	}
	e.hints = append(e.hints, "if it is the program, put -- before it")
	return e
}

// typed writes words as one may type them, with secrets hidden.
func typed(args ...string) string {
	var words []string
	for _, a := range envsync.HideArgs(args) {
		words = append(words, shellQuote(envsync.Conceal(a)))
	}
	return strings.Join(words, " ")
}
