package main

import (
	stdflag "flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is what `make docs` sets.
var update = stdflag.Bool("update", false, "write the manual's section FLAGS anew")

// Lines of docs/gorun.1 between which the flags stand.
const (
	flagsBegin = ".\\\" Made from the table in cmd/gorun/flags.go by make docs:\n"
	flagsEnd   = ".\\\" End of what is made.\n"
)

func TestManualIsMadeFromTheTable(t *testing.T) {
	const file = "../../docs/gorun.1"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), flagsBegin)
	_, after, ok2 := strings.Cut(rest, flagsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the lines between which the flags stand", file)
	}
	want := before + flagsBegin + manualFlags() + flagsEnd + after
	if string(page) == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table of flags: run make docs", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// manualFlags is the manual's account of every flag, in roff.
func manualFlags() string {
	var b strings.Builder
	o := defaultOptions()
	for _, g := range o.groups() {
		b.WriteString(".SS " + g.title + "\n")
		for _, f := range g.flags {
			b.WriteString(".TP\n" + roffUsage(f.usage()) + "\n" + roff(f.text))
		}
		if g.note != "" {
			b.WriteString(".PP\n" + roff(g.note))
		}
	}
	return b.String()
}

var (
	capitals = regexp.MustCompile(`[A-Z]{2,}|\b[A-Z]\b`)
	italics  = regexp.MustCompile(`\*([a-z]+)\*`)
	sentence = regexp.MustCompile(`([.:]) ([A-Z])`)
)

// roffUsage sets flags in bold and what stands for a value in italics.
func roffUsage(usage string) string {
	forms := strings.Split(usage, ", ")
	for i, form := range forms {
		word, arg, _ := strings.Cut(form, " ")
		arg = capitals.ReplaceAllStringFunc(arg, func(s string) string { return `\fI` + strings.ToLower(s) + `\fR` })
		forms[i] = strings.TrimSpace(bold(word) + " " + arg)
	}
	return strings.Join(forms, ", ")
}

func bold(word string) string { return `\fB` + strings.ReplaceAll(word, "-", `\-`) + `\fR` }

// roff writes a text of the table, a sentence a line.
func roff(text string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), `\`, `\e`)
	text = flagWord.ReplaceAllStringFunc(text, func(s string) string {
		i := strings.Index(s, "-")
		return s[:i] + bold(s[i:])
	})
	text = italics.ReplaceAllString(text, `\fI$1\fR`)
	text = sentence.ReplaceAllString(text, "$1\n$2")
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestRoff(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"flags":     {"As -np and --kill-grace (or -l), not a-b.", "As \\fB\\-np\\fR and \\fB\\-\\-kill\\-grace\\fR (or \\fB\\-l\\fR), not a-b.\n"},
		"italics":   {"Write *dir*, 'A_*' or all*.", "Write \\fIdir\\fR, 'A_*' or all*.\n"},
		"sentences": {"One.\n\t\tTwo a.b. Three: x.", "One.\nTwo a.b.\nThree: x.\n"},
		"backslash": {`A \n.`, "A \\en.\n"},
		"request":   {".so /etc/passwd", "\\&.so /etc/passwd\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := roff(tt.text); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestTableIsConsistent(t *testing.T) {
	seen := map[string]string{}
	note := func(kind, what, whose string) {
		if other, ok := seen[kind+what]; ok {
			t.Errorf("%s and %s have the same %s, %q", other, whose, kind, what)
		}
		seen[kind+what] = whose
	}
	for _, f := range new(options).rows() {
		for _, w := range f.spelled() {
			note("spelling", bare(w), f.words)
			if !flagWord.MatchString(w) {
				t.Errorf("%q is not a flag", w)
			}
		}
		if f.key != "" {
			note("key", f.key, f.words)
		}
		if f.complete != "" && f.arg == "" {
			t.Errorf("%s takes no value, but a completion", f.words)
		}
		if strings.TrimSpace(f.text) != f.text || !strings.HasSuffix(f.text, ".") {
			t.Errorf("%s: the text %q is not one of sentences", f.words, f.text)
		}
	}
}

// The help, written by hand, has the flags of the table in its order.
func TestHelpAgreesWithTheTable(t *testing.T) {
	var want []string
	o := defaultOptions()
	for _, g := range o.groups() {
		want = append(want, g.title)
		for _, f := range g.flags {
			want = append(want, "  "+f.usage())
		}
	}
	_, list, _ := strings.Cut(helpText, `or at "--".`)
	list, _, _ = strings.Cut(list, "\nSubcommands")
	var got []string
	for l := range strings.Lines(list) {
		l = strings.TrimSuffix(l, "\n")
		if entry, ok := strings.CutPrefix(l, "  -"); ok {
			usage, _, _ := strings.Cut(entry, "  ")
			got = append(got, "  -"+usage)
		} else if l != "" && l[0] != ' ' {
			got = append(got, l)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table and help.txt differ (-table +help.txt):\n%s", diff)
	}
}
