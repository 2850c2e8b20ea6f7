package main

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

// The scripts that make a shell complete gorun's flags. Lines "@NAME@" in them stand
// for what is made from the table of flags.
//
//go:embed completion
var completionFiles embed.FS

// completionScript is what --completion prints for shell.
func completionScript(shell string) string {
	text, _ := completionFiles.ReadFile("completion/" + shell)
	var kinds, flags, clean strings.Builder
	for _, f := range new(options).rows() {
		if f.arg != "" {
			kinds.WriteString(kindCase(shell, f))
		}
		for _, w := range f.spelled() {
			line := flagLine(shell, w, f.summary())
			flags.WriteString(line)
			if cleans(f.name()) {
				clean.WriteString(line)
			}
		}
	}
	return strings.NewReplacer("@KINDS@\n", kinds.String(), "@FLAGS@\n", flags.String(), "@CLEAN@\n", clean.String()).Replace(string(text))
}

// kindCase says, as a branch of the shell's case statement, what f's value can be.
func kindCase(shell string, f flag) string {
	var words []string
	for _, w := range f.spelled() {
		words = append(words, bare(w))
	}
	kind := string(f.complete)
	if kind == "" {
		kind = "<any>"
	}
	if shell == "fish" {
		return fmt.Sprintf("        case %s\n            echo '%s'\n", strings.Join(words, " "), kind)
	}
	return fmt.Sprintf("    %s) want='%s' ;;\n", strings.Join(words, "|"), kind)
}

// flagLine is the flag word in the shell's list of flags.
func flagLine(shell, word, summary string) string {
	switch shell {
	case "zsh": // a colon ends the word
		return "    " + shellQuote(word+":"+strings.ReplaceAll(summary, ":", `\:`)+" ") + "\n"
	case "fish":
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(summary)
		return "        " + word + `\t'` + quoted + "' \\\n"
	}
	return "    " + word + "\n"
}

// summary is the first sentence of the flag's text.
func (f flag) summary() string {
	text := regexp.MustCompile(`\*([a-z]+)\*`).ReplaceAllString(strings.Join(strings.Fields(f.text), " "), "$1")
	sentence, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(sentence, ".")
}
