package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"gorun/envsync"
)

// A use is one flag of the command line, or what stands for it elsewhere.
type use struct {
	name   string // in the flag set
	value  string
	typed  string // as the user spelled it, with its dashes; elsewhere the place and the key
	origin string // a short form of typed, without the key
	layer  int    // where it stands among the layers that winning was given
}

// text is the flag and its value as they may be typed.
func (u use) text() string { return u.typed + "=" + shellQuote(u.value) }

// A commandLine is gorun's arguments taken apart: flags, then the program.
type commandLine struct {
	uses    []use
	program []string
	marked  bool     // "--" stood before the program
	next    []string // what stands behind the ":" after the program: another's flags and itself; nil: there is none
}

// An arg is a word of the command line that looks like a flag.
type arg struct {
	typed  string // with its dashes, without "=value"
	word   string // without its dashes
	value  string
	valued bool // "=value" was there
}

// cut takes a word that begins with a dash apart. One dash is as good as two.
func cut(s string) arg {
	typed, value, valued := strings.Cut(s, "=")
	word := strings.TrimPrefix(strings.TrimPrefix(typed, "-"), "-")
	return arg{typed: typed, word: word, value: value, valued: valued}
}

// parseLine takes args apart by MPI's rules: a flag may have one dash or two and its
// value may follow in the same word or in the next; flags end at the first word that
// is no flag, which is the program, or at "--". The program ends at a word ":", unless
// "--" stood before it. parseLine knows from fs which flags take a value, and does not
// look at what the values are. Its errors are *usageError; the line is then what stands
// before the mistake.
func parseLine(fs *pflag.FlagSet, args []string) (commandLine, error) {
	p := lineParser{fs: fs, words: spellings(), rest: args}
	for len(p.rest) > 0 {
		a := p.rest[0]
		if a == "--" {
			p.line.program, p.line.marked = p.rest[1:], true
			break
		}
		if err := pasted(a); err != nil {
			return p.line, err
		}
		if len(a) < 2 || a[0] != '-' {
			p.line.program = p.rest
			if i := slices.Index(p.rest, ":"); i >= 0 {
				p.line.program, p.line.next = p.rest[:i:i], p.rest[i+1:]
			}
			break
		}
		p.rest = p.rest[1:]
		if err := p.flag(cut(a)); err != nil {
			return p.line, torchHints(err, args)
		}
	}
	return p.line, nil
}

// lineParser is parseLine's state.
type lineParser struct {
	fs    *pflag.FlagSet
	words map[string]string
	rest  []string
	line  commandLine
}

// flag reads the flag a and, if it needs one, its value.
func (p *lineParser) flag(a arg) error {
	name, ok := p.words[a.word]
	if !ok {
		number := ""
		if name, number, ok = p.attached(a); !ok {
			return unknownFlag(p.words, a, p.rest)
		}
		a.typed, a.value, a.valued = strings.TrimSuffix(a.typed, number), number, true
	}
	if !a.valued {
		if a.value = p.fs.Lookup(name).NoOptDefVal; a.value == "" {
			v, err := p.next(a.typed)
			if err != nil {
				return err
			}
			a.value = v
		}
	}
	return p.add(name, a)
}

// add notes the flag. The value of -genv, -env and --mca may be two words, NAME and VALUE.
func (p *lineParser) add(name string, a arg) error {
	if (name == "genv" || name == "env" || isParameter(name)) && !strings.Contains(a.value, "=") {
		given := a.typed + " " + envsync.Conceal(a.value)
		hints := []string{"write " + given + "=VALUE or " + given + " VALUE"}
		switch {
		case len(p.rest) == 0:
			return &usageError{given + ": the value is missing", hints}
		case p.forgotten():
			if err := checkParameter(dashed(name), a.value); isParameter(name) && err != nil {
				return badValue(use{typed: a.typed}, use{}, err)
			}
			v := envsync.Conceal(p.rest[0])
			return &usageError{given + ": the value is missing before " + v, append(hints, "if "+v+" is the value: "+given+"="+v)}
		}
		a.value += "=" + p.rest[0]
		p.rest = p.rest[1:]
	}
	if isParameter(name) {
		return p.parameter(name, a)
	}
	p.line.uses = append(p.line.uses, use{name: name, value: a.value, typed: a.typed, origin: a.typed})
	return nil
}

// forgotten reports whether the next word is a flag where a variable's value belongs. That
// value may begin with a dash, too, but is hardly one of gorun's long flags, or a letter
// with a number behind it.
func (p *lineParser) forgotten() bool {
	a := cut(p.rest[0])
	name := p.words[a.word]
	number := len(p.rest) > 1 && p.rest[1] != "" && strings.Trim(p.rest[1], "0123456789") == ""
	return p.rest[0] == "--" || strings.HasPrefix(p.rest[0], "-") && name != "" && (len(a.word) > 1 || number && !a.valued && p.fs.Lookup(name).NoOptDefVal == "")
}

// parameter notes an MCA parameter, as the flags of gorun that mean the same if it is
// about launching.
func (p *lineParser) parameter(name string, a arg) error {
	key, value, _ := strings.Cut(a.value, "=")
	typed := a.typed + " " + key
	uses, ok, err := launching(key, value)
	if e, isUsage := errors.AsType[*usageError](err); isUsage {
		return &usageError{typed + ": " + e.msg, e.hints}
	}
	if !ok {
		p.line.uses = append(p.line.uses, use{name: name, value: a.value, typed: a.typed, origin: a.typed})
	}
	for _, u := range uses {
		if p.fs.Lookup(u.name) == nil {
			return &usageError{typed + ": gorun has nothing like it", peerHints(u.name)}
		}
		u.typed, u.origin = typed, typed
		p.line.uses = append(p.line.uses, u)
	}
	return nil
}

// attached splits "np16" and "n4": a number may follow the name of a count at once.
func (p *lineParser) attached(a arg) (name, value string, ok bool) {
	word := strings.TrimRight(a.word, "0123456789")
	name = p.words[word]
	if a.valued || word == a.word || (name != "np" && name != "ppn") {
		return "", "", false
	}
	return name, a.word[len(word):], true
}

// next takes the word after the flag typed as its value. A word that is itself a flag
// of gorun's is no value: the value was forgotten.
func (p *lineParser) next(typed string) (string, error) {
	if len(p.rest) == 0 {
		return "", needsValue(typed, "")
	}
	v := p.rest[0]
	if v == "--" || (len(v) > 1 && v[0] == '-' && p.words[cut(v).word] != "") {
		return "", needsValue(typed, " before "+envsync.Conceal(v))
	}
	p.rest = p.rest[1:]
	return v, quoted(v)
}

func needsValue(typed, where string) error {
	return &usageError{typed + " needs a value" + where, []string{seeHelp}}
}
