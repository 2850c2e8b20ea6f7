package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// completed runs testdata/completion/driver with the words of command before it, and
// returns what it prints for each line, sorted, without the descriptions.
func completed(t *testing.T, shell, driver string, lines []string, command ...string) [][]string {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skip(err)
	}
	driver, err := filepath.Abs("testdata/completion/" + driver)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"hosts.txt", "script", "spa ce"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(completionScript(shell)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sub", ".ssh"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Where bash finds hosts, and where the others do.
	for name, text := range map[string]string{"names": "::1 gpuhost\n10.0.0.1 gpuhost\n", ".ssh/known_hosts": "gpuhost ssh-ed25519 AAAA\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{driver, filepath.Join(dir, "script")}, lines)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GORUN_TEST=1", "TERM=dumb", "HISTFILE=", "HOSTFILE="+filepath.Join(dir, "names"))
	out, err := cmd.CombinedOutput()
	answers := strings.Split(string(out), "END\n")
	if err != nil || len(answers) != len(lines)+1 {
		t.Fatalf("%v: %d answers for %d lines\n%s", err, len(answers)-1, len(lines), out)
	}
	var all [][]string
	for _, a := range answers[:len(lines)] {
		var words []string
		for l := range strings.Lines(a) {
			word, _, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
			if word = strings.TrimSuffix(word, "/"); word != "" {
				words = append(words, word)
			}
		}
		slices.Sort(words)
		all = append(all, slices.Compact(words))
	}
	return all
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	tests := []struct{ line, want string }{
		{"gorun -hostf", "-hostfile"},
		{"gorun --hostf", "--hostfile"},
		{"gorun -np 4 --keep", "--keep-going"},
		{"gorun --np=4 --keep", "--keep-going"},
		{"gorun -np4 --keep", "--keep-going"},
		{"gorun -oversubscribe --ke", "--keep-going"},
		{"gorun -genv A B --keep", "--keep-going"},
		{"gorun -genv A=B --keep", "--keep-going"},
		{"gorun -H a:8,b:8 --keep", "--keep-going"},
		{"gorun -H gpuho", "gpuhost"},
		{"gorun -H gpu1,gpuho", "gpu1,gpuhost"},
		{"gorun -H gpuhost,gpuho", ""},
		{"gorun --exclude ^gpuhost,gpu1,gpuho", ""},
		{"gorun --exclude=me@gpuhost,gpuho", ""},
		{"gorun -H :", ""},
		{"gorun --frob", ""},
		{"gorun --stdin ", "0 all none"},
		{"gorun -stdin a", "all"},
		{"gorun -np ", ""},
		{"gorun -hostfile h", "hosts.txt"},
		{"gorun -f h", "hosts.txt"},
		{"gorun --wdir s", "sub"},
		{"gorun -x GORUN_TES", "GORUN_TEST"},
		{"gorun -np 2 prog --s", "--special"},
		{"gorun -l -- prog --s", "--special"},
		{"gorun --stdin=all prog -np 4 --sp", "--special"},
		{"gorun -genv A B prog --s", "--special"},
		{"gorun clean --f", "--fanout"},
		{"gorun clean --ti", ""},
		{"gorun clean ", ""},
		{"gorun store b", "barrier"},
		{"gorun store c", "check-env"},
	}
	var lines []string
	for _, tt := range tests {
		lines = append(lines, tt.line)
	}
	for _, command := range [][]string{{"bash", "--norc", "--noprofile"}, {"zsh", "-f"}, {"fish", "--no-config"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			for i, got := range completed(t, command[0], command[0], lines, command...) {
				// What the shell offers may be more than what begins like the word.
				_, word, _ := cutLast(tests[i].line, " ")
				got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, word) && tests[i].want != "--special" })
				if s := strings.Join(got, " "); s != tests[i].want {
					t.Errorf("%q: got %q; want %q", tests[i].line, s, tests[i].want)
				}
			}
		})
	}
}

// cutLast cuts s at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Every flag is offered, and every value of the table known.
func TestCompletionOffersEveryFlag(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := completionScript(shell)
		for _, f := range new(options).rows() {
			for _, w := range f.spelled() {
				if !strings.Contains(script, w) {
					t.Errorf("%s: %s is missing", shell, w)
				}
			}
		}
		if regexp.MustCompile(`@[A-Z]+@`).MatchString(script) {
			t.Errorf("%s: something was not filled in:\n%s", shell, script)
		}
	}
}

// The line editor of bash puts what is offered into the right place.
func TestCompletionInReadline(t *testing.T) {
	t.Parallel()
	tests := []struct{ line, want string }{
		{"gorun --hostf", "<--hostfile>"},
		{"gorun --stdin=a", "<--stdin=all>"},
		{"gorun -hostfile=ho", "<-hostfile=hosts.txt>"},
		{"gorun -hostfile sp", "<-hostfile><spa ce>"},
		{"gorun -H a:8,gpuho", "<-H><a:8,gpuhost>"},
		{"gorun -np 4 -wdir su", "<-np><4><-wdir><sub/>"},
		{"gorun -np 4 ls ho", "<-np><4><ls><hosts.txt>"}, // by readline itself
		{"gorun -np 4 ./scr", "<-np><4><./script>"},
	}
	var lines []string
	for _, tt := range tests {
		lines = append(lines, tt.line)
	}
	for i, got := range completed(t, "bash", "readline", lines, "zsh", "-f") {
		if s := strings.Join(got, " "); s != tests[i].want {
			t.Errorf("%q: got %q; want %q", tests[i].line, s, tests[i].want)
		}
	}
}
