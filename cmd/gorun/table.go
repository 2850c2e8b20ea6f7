package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// A flag is one row of the table of gorun's flags (see flags.go). From the table come
// the flag set, the keys of the configuration, the completion of shells and the
// manual's section FLAGS; help.txt is written by hand and compared with it.
type flag struct {
	words    string      // its spellings, as --help shows them
	arg      string      // what stands for its value in texts, other forms after "|"; "": it takes none
	value    pflag.Value // where the value goes
	complete completion  // what its value can be
	key      string      // its key in a configuration file, and that it has a GORUN_* variable; "": neither
	guarded  bool        // the key may not stand in a file that was found in the current directory
	each     bool        // each of several programs may have its own; the others are for the whole job
	text     string      // for the manual; *word* is in italics, flags are bold; the first sentence is for shells, too
}

// A completion is what a shell offers as a flag's value: one of these, or else the
// words to choose from.
type completion string

const (
	aFile      completion = "<file>"
	aDirectory completion = "<directory>"
	someHosts  completion = "<hosts>" // with commas between
	aVariable  completion = "<variable>"
)

// A group is the flags under one headline of --help and the manual.
type group struct {
	title string
	flags []flag
	note  string // for the manual, after the flags
}

// spelled returns the flag's spellings with their dashes.
func (f flag) spelled() []string { return strings.Fields(f.words) }

// usage writes the flag as --help does: "-np N, -n N, -c N".
func (f flag) usage() string {
	var forms []string
	for _, w := range f.spelled() {
		for arg := range strings.SplitSeq(f.arg, "|") {
			forms = append(forms, strings.TrimSpace(w+" "+arg))
		}
	}
	return strings.Join(forms, ", ")
}

// name is what the flag is called in the flag set: its first spelling that is more
// than a letter, if any, without dashes.
func (f flag) name() string {
	words := f.spelled()
	for _, w := range words {
		if len(bare(w)) > 1 {
			return bare(w)
		}
	}
	return bare(words[0])
}

// bare is a spelling without its dashes.
func bare(word string) string { return strings.TrimLeft(word, "-") }

// rows returns every flag of the table.
func (o *options) rows() []flag {
	var rows []flag
	for _, g := range o.groups() {
		rows = append(rows, g.flags...)
	}
	return rows
}

// flagSet returns a flag set that stores into o.
func (o *options) flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	for _, f := range o.rows() {
		fs.Var(f.value, f.name(), "")
		if f.arg == "" {
			fs.Lookup(f.name()).NoOptDefVal = "true"
		}
	}
	return fs
}

// spellings maps what users type, without dashes, to the names in the flag set.
func spellings() map[string]string {
	m := map[string]string{}
	for _, f := range new(options).rows() {
		for _, w := range f.spelled() {
			m[bare(w)] = f.name()
		}
	}
	return m
}

// dashed writes a flag as --help does: MPI's old names with one dash, others with two.
func dashed(word string) string {
	for _, f := range new(options).rows() {
		for _, w := range f.spelled() {
			if bare(w) == word {
				return w
			}
		}
	}
	if len(word) == 1 {
		return "-" + word
	}
	return "--" + word
}
