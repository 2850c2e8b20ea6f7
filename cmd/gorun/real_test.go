package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorun/hostfile"
	"gorun/launcher"
)

// makeHostfiles writes the hostfiles of testdata/real.txt into a new directory, and makes
// it the current one.
func makeHostfiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	files := map[string]string{"bare2": "gpu1\ngpu2\n", "pbs": strings.Repeat("gpu1\n", 4) + strings.Repeat("gpu2\n", 4)}
	for _, n := range []int{2, 4, 64} {
		files[fmt.Sprintf("h%d", n)] = fmt.Sprintf("gpu[1-%d] slots=8\n", n)
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// layoutOf is the first line that a dry run of a command line prints, on hosts with eight
// GPUs, or what gorun says about the line, hints and all.
func layoutOf(args []string) string {
	c := &command{env: environment{"HOME=/"}}
	o, err := parseOptions(args)
	var text strings.Builder
	if err == nil {
		c.console.w = &text
		o.verbose = false
		var job launcher.Job
		if job, err = c.newJob(o); err == nil {
			err = launcher.DryRun(&text, job, 48, 8)
		}
	}
	if err != nil {
		r := errorReport(err, o)
		return "hint: " + strings.Join(append(r.lines, r.hints...), "\n")
	}
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, " on ") && !strings.HasPrefix(line, "warning: ") {
			return strings.TrimSpace(line)
		}
	}
	return text.String()
}

func TestRealLines(t *testing.T) {
	path, err := filepath.Abs("testdata/real.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	makeHostfiles(t)
	n := 0
	for number, l := range strings.Split(string(text), "\n") {
		line, want, ok := strings.Cut(l, " => ")
		if l == "" || l[0] == '#' {
			continue
		}
		lines, err := parseAppFile("line", []byte(line))
		if !ok || err != nil || len(lines) != 1 {
			t.Fatalf("real.txt:%d: %q: %v", number+1, l, err)
		}
		n++
		got := layoutOf(lines[0].words)
		hint, isHint := strings.CutPrefix(want, "hint: ")
		if isHint && (!strings.HasPrefix(got, "hint: ") || !strings.Contains(got, hint)) || !isHint && got != want {
			t.Errorf("real.txt:%d: %s\ngot  %s\nwant %s", number+1, line, got, want)
		}
	}
	if n < 50 {
		t.Errorf("got %d lines; want at least 50", n)
	}
}

// TestComingFrom runs the lines of docs/coming-from.md: what stands in the right column
// must be a line for gorun, and what is said to run as it is must do so.
func TestComingFrom(t *testing.T) {
	text, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	makeHostfiles(t)
	if err := os.WriteFile("hosts", []byte("gpu1 slots=8\ngpu2 slots=8\ngpu3 slots=8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(l, "| \n"), `\|`, "\x00"), "|")
		if len(cells) != 2 || !strings.Contains(cells[1], "`gorun ") {
			continue
		}
		for i, code := range strings.Split(cells[1], "`") {
			if i%2 == 0 || !strings.HasPrefix(code, "gorun ") {
				continue
			}
			n++
			as := strings.NewReplacer("\x00", "|", " ~ ", " /home/me ") // as a shell has it
			lines, err := parseAppFile("line", []byte(as.Replace(strings.TrimPrefix(code, "gorun "))))
			if err != nil {
				t.Fatalf("%s: %v", code, err)
			}
			if got := layoutOf(lines[0].words); !strings.Contains(got, " on ") || strings.HasPrefix(got, "hint: ") {
				t.Errorf("%s\ngot %s", code, got)
			}
		}
	}
	if n < 25 {
		t.Errorf("got %d lines for gorun; want at least 25", n)
	}
}

// The errors of hosts' lists name what they are about, however a list came in.
func TestListErrorsAreUsage(t *testing.T) {
	for _, line := range []string{"-H a:50000 ./app", "-hosts a,,b ./app", "-H a --exclude b ./app"} {
		o := given(t, strings.Fields(line)...)
		_, err := readHosts(o, nil)
		if _, ok := errors.AsType[*hostfile.SyntaxError](err); !ok || !isUsage(err) {
			t.Errorf("%s: got %v; want a usage error", line, err)
		}
	}
}
