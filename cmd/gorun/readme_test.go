package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

func TestHelpNamesTheDefaults(t *testing.T) {
	o := defaultOptions()
	for _, want := range []string{
		"connecting to a host (" + o.connectTimeout.String() + ")", "a job is stopped (" + o.grace.String() + ")",
		"is lost (" + o.lostAfter.String() + ")", "made at once (64)", "(" + o.backend + ")",
	} {
		if !strings.Contains(helpText, want) {
			t.Errorf("help lacks %q", want)
		}
	}
	if o.fanout != 64 {
		t.Errorf("got a default fanout of %d; help says 64", o.fanout)
	}
}
