package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReadmeProgram does what README.md says for a program outside this repository:
// its commands, word for word, beside a folder named gorun.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(readme), "\n## Writing a program\n")
	before, rest, ok1 := strings.Cut(text, "```go\n")
	program, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok1 || !ok2 {
		t.Fatal("README.md has no program in its section Writing a program")
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(repository, filepath.Join(dir, "gorun")); err != nil {
		t.Fatal(err)
	}
	// `cd sum` is one of the commands.
	script := "set -e\n" + commands(before) + "cat >main.go <<'END'\n" + program + "END\n" + commands(after)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"), "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "of 4: the ranks add up to 6\n"); n != 4 {
		t.Errorf("%d ranks have the right sum; want 4:\n%s", n, out)
	}
}

// commands returns the lines that Markdown shows as code by four blanks.
func commands(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "    ") {
			b.WriteString(strings.TrimLeft(l, " "))
		}
	}
	return b.String()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestReadmeNamesFlagsThatExist looks at the commands that README.md shows.
func TestReadmeNamesFlagsThatExist(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	words := spellings()
	for l := range strings.Lines(string(readme)) {
		if strings.HasPrefix(l, "    gorun -") {
			for _, w := range flagsIn(l) {
				if words[w] == "" {
					t.Errorf("%q: gorun has no flag -%s", l, w)
				}
			}
		}
	}
}

func TestHelpAndManualNameTheDefaults(t *testing.T) {
	o := defaultOptions()
	page, err := os.ReadFile("../../docs/gorun.1")
	if err != nil {
		t.Fatal(err)
	}
	manual := strings.ReplaceAll(string(page), `\-`, "-")
	seconds := func(d time.Duration) string { return fmt.Sprintf("The default is %.0f seconds.", d.Seconds()) }
	for _, tt := range []struct{ flag, help, manual string }{
		{"connect-timeout", "connecting to a host (" + o.connectTimeout.String() + ")", seconds(o.connectTimeout)},
		{"fanout", fmt.Sprintf("made at once (%d)", o.fanout), fmt.Sprintf("The default is %d.", o.fanout)},
		{"stdin", "all (0)", "The default is 0."},
		{"backend", "(" + o.backend + ")", "The default is " + o.backend + "."},
		{"kill-grace", "a job is stopped (" + o.grace.String() + ")", seconds(o.grace)},
		{"lost-after", "is lost (" + o.lostAfter.String() + ")", seconds(o.lostAfter)},
	} {
		if !strings.Contains(helpText, tt.help) {
			t.Errorf("help lacks %q", tt.help)
		}
		_, entry, _ := strings.Cut(manual, `--`+tt.flag+`\fR`)
		if entry, _, _ = strings.Cut(entry, "\n.TP"); !strings.Contains(entry, tt.manual) {
			t.Errorf("the manual's entry of --%s lacks %q:\n%s", tt.flag, tt.manual, entry)
		}
	}
}

// Every exit code that gorun has is in the help, the manual and README.md.
func TestExitCodesAreTold(t *testing.T) {
	texts := map[string]string{"help": helpText}
	for _, name := range []string{"docs/gorun.1", "README.md"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, text := range texts {
		for _, code := range []int{exitUsage, exitTimeout, exitTrouble, 126, 127, 129, 130, 131, 143, exitStdoutClosed} {
			if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, code)).MatchString(text) {
				t.Errorf("%s does not tell of exit code %d", name, code)
			}
		}
	}
}
