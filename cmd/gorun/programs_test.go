package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorun/hostfile"
	"gorun/launcher"
)

// told writes what the options say of each program: "np wdir hosts: program | settings".
func told(o options) string {
	var out []string
	all, own := o.sortSettings()
	for i, p := range o.programs() {
		out = append(out, fmt.Sprintf("%d %s %s: %q %v", p.np, p.wdir, p.hosts, p.program, own[i]))
	}
	return strings.Join(append(out, fmt.Sprintf("all %v", all)), "\n")
}

func TestSeveralPrograms(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"one", "-np 2 -x A=1 -genv B=2 -x C=3 ./a", `2  : ["./a"] []
all [{-x A=1} {-genv B=2} {-x C=3}]`},
		{"two", "-np 1 ./a x : -np 2 ./b -np 3", `1  : ["./a" "x"] []
2  : ["./b" "-np" "3"] []
all []`},
		{"own-flags", "-np 1 -H a -x A=1 ./a : -np 2 -H b:2 -wd /b -x A=2 -env C 3 ./b", `1  a: ["./a"] [{-x A=1}]
2 /b b:2: ["./b"] [{-x A=2} {-env C=3}]
all []`},
		{"genv-is-for-all", "-np 1 -x A=1 ./a : -np 2 -genv B 2 ./b : -np 3 ./c", `1  : ["./a"] [{-x A=1}]
2  : ["./b"] []
3  : ["./c"] []
all [{-genv B=2}]`},
		{"repeated", "--timeout 60 -l -np 1 ./a : -l --timeout 1m -np 2 ./b", `1  : ["./a"] []
2  : ["./b"] []
all []`},
		{"marked-last", "-np 1 ./a : -np 2 -- ./b : -np 3", `1  : ["./a"] []
2  : ["./b" ":" "-np" "3"] []
all []`},
		{"colons-within-words", "-np 1 ./a a: :b ::", `1  : ["./a" "a:" ":b" "::"] []
all []`},
		{"by-ppn", "-ppn 1 ./a : ./b", `0  : ["./a"] []
0  : ["./b"] []
all []`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(given(t, strings.Fields(tt.line)...)); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestSeveralProgramsRefused(t *testing.T) {
	tests := []struct{ name, line, msg, hint string }{
		{"job-flag", "-np 1 ./a : --timeout 5 -np 2 ./b", "--timeout is for the whole job: write it before the first program", "-np, -H, -wdir, -x, -env, -genv"},
		{"job-flag-differs", "--timeout 60 -np 1 ./a : --timeout 5 -np 2 ./b", "--timeout=5 is for the whole job, which has another value", "-np"},
		{"ppn", "-np 1 ./a : -ppn 2 ./b", "-ppn is for the whole job: write it before the first program", ""},
		{"hostfile", "-hostfile h -np 1 ./a : -hostfile i -np 2 ./b", "-hostfile=i is for the whole job, which has another value", "-H"},
		{"no-count", "-np 1 ./a : ./b", `"./b" has no -np`, "needs the number"},
		{"no-count-of-the-first", "./a : -np 1 ./b", `"./a" has no -np`, "needs the number"},
		{"nothing-behind", "-np 1 ./a :", `no program after ":"`, "put --"},
		{"flags-behind", "-np 1 ./a : -np 2", `no program after ":"`, "put --"},
		{"nothing-between", "-np 1 ./a : : -np 2 ./b", `no program after ":"`, "put --"},
		{"nothing-before", "-np 1 : -np 2 ./b", `no program before ":"`, "after its flags"},
		{"unknown-flag", "-np 1 ./a : --wdri 2 ./b", "unknown flag --wdri", "-wdir"},
		{"bad-value", "-np 1 ./a : -np x ./b", `-np: "x" is not a whole number`, ""},
		{"bad-variable", "-np 1 ./a : -np 1 -x ./b c", `-x "./b": that is not the name of a variable`, ""},
		{"variable-as-program", "-np 1 ./a : A=1 ./b", `"A=1" stands where the program belongs`, "-x"},
		{"stdin", "--stdin 3 -np 1 ./a : -np 2 ./b", "--stdin 3: with -np 3 the last rank is 2", ""},
		{"app-behind", "-np 1 ./a : --app f", "--app is for the whole job: write it before the first program", ""},
		{"app-and-program", "--app f ./a", `--app f and the program "./a" exclude each other`, "one a line"},
		{"app-as-typed", "-configfile no/such/file", "-configfile no/such/file: no such file or directory", ""},
		{"app-and-n", "-configfile f -n 2", "-n and -configfile exclude each other", "in the file"},
		{"app-typed-and-program", "-configfile f ./a", `-configfile f and the program "./a" exclude each other`, "one a line"},
		{"app-and-np", "--app f -np 2", "-np and --app exclude each other", "in the file"},
		{"app-missing", "--app no/such/file", "--app no/such/file: no such file or directory", ""},
		{"app-directory", "--app /", "--app /: is a directory", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOptions(strings.Fields(tt.line))
			e, ok := errors.AsType[*usageError](err)
			if !ok || e.msg != tt.msg || !strings.Contains(strings.Join(e.hints, "\n"), tt.hint) {
				t.Errorf("got %#v; want %q and a hint with %q", err, tt.msg, tt.hint)
			}
		})
	}
}

// inFile is the command line with the text in a file of --app.
func inFile(t *testing.T, text string, args ...string) (string, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "apps")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, append(args, "--app", path)
}

func TestAppFile(t *testing.T) {
	_, args := inFile(t, "# two\n-np 1 -x A=1 ./a 'b c'\n\n-np 2 -wdir /b ./b : -np 3 -genv G 1 ./c\n", "-x", "J=1", "-wdir", "/j")
	want := `1  : ["./a" "b c"] [{-x A=1}]
2 /b : ["./b"] []
3  : ["./c"] []
all [{-x J=1} {-genv G=1}]`
	if got := told(given(t, args...)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAppFileRefused(t *testing.T) {
	tests := []struct{ name, text, msg string }{
		{"flag", "-np 1 ./a\n\n--wdri 2 ./b\n", ":3: unknown flag --wdri"},
		{"value", "-np x ./a\n", `:1: -np: "x" is not a whole number`},
		{"job-flag", "-np 1 ./a\n--timeout 5 -np 2 ./b", ":2: --timeout is for the whole job: write it on the command line"},
		{"no-program", "-np 1 ./a\n-np 2\n", ":2: no program given"},
		{"no-count", "-np 1 ./a\n./b\n", `:2: "./b" has no -np`},
		{"variable", "-np 1 \\\n A=1 ./a\n", `:1: "A=1" stands where the program belongs`},
		{"nested", "--app x\n", ":1: --app is for the whole job: write it on the command line"},
		{"quote", "-np 1 ./a\n-np 1 ./b 'x y\n", `:2: "'x y": the quote is not closed`},
		{"empty", "# nothing\n\n", ": no programs in it"},
		{"zero-byte", "-np 1 ./a\x00\n", `:1: "-np 1 ./a\x00": a zero byte`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, args := inFile(t, tt.text)
			_, err := parseOptions(args)
			if e, ok := errors.AsType[*usageError](err); !ok || e.msg != path+tt.msg {
				t.Errorf("got %v; want %s%s", err, path, tt.msg)
			}
		})
	}
}

func TestAppFileTooLarge(t *testing.T) {
	path, args := inFile(t, "#")
	if err := os.Truncate(path, maxAppFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := parseOptions(args); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestParseAppFile(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // "LINE[words]" for each
	}{
		{"words", "a b\tc\n d \n", `1["a" "b" "c"] 2["d"]`},
		{"quotes", `'a b' "c \" \\ \n" d'e'"f" ''`, `1["a b" "c \" \\ \\n" "def" ""]`},
		{"backslash", `a\ b \# \\ \'`, `1["a b" "#" "\\" "'"]`},
		{"comments", "# x\na # b\na#b '#'\n  # c", `2["a"] 3["a#b" "#"]`},
		{"continued", "a b\\\nc \\\n  d\ne\n", `1["a" "bc" "d"] 4["e"]`},
		{"continued-at-the-end", "a \\", `1["a"]`},
		{"continued-by-a-comment", "a \\\n# b\nc", `1["a"] 3["c"]`},
		{"crlf", "\xef\xbb\xbfa b\r\nc\\\r\nd\r\n", `1["a" "b"] 2["cd"]`},
		{"bytes", "\xff\xfe é", `1["\xff\xfe" "é"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := parseAppFile("f", []byte(tt.text))
			var got []string
			for _, l := range lines {
				got = append(got, fmt.Sprintf("%d%q", l.number, l.words))
			}
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("got %s, %v; want %s", strings.Join(got, " "), err, tt.want)
			}
		})
	}
}

// FuzzParseAppFile checks that any text is words or an error with file and line, and that
// words written as for a shell are read as they were.
func FuzzParseAppFile(f *testing.F) {
	for _, s := range []string{"-np 1 ./a 'b c'\n# x\n-np 2 ./b \\\n \"c \\\" d\"\r\n", "'", `"\`, "a\\", "\x00", "a : b\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lines, err := parseAppFile("f", []byte(s))
		if err != nil {
			if e, ok := errors.AsType[*usageError](err); !ok || !strings.HasPrefix(e.msg, "f:") || lines != nil {
				t.Fatalf("got %v, %v", lines, err)
			}
			return
		}
		for _, l := range lines {
			if len(l.words) == 0 || l.number < 1 || l.number > strings.Count(s, "\n")+1 {
				t.Fatalf("line %d: words %q", l.number, l.words)
			}
			if strings.Contains(strings.Join(l.words, ""), "\n") {
				t.Fatalf("a word over two lines: %q", l.words)
			}
			var quoted []string
			for _, w := range l.words {
				quoted = append(quoted, shellQuote(w))
			}
			again, err := parseAppFile("f", []byte(strings.Join(quoted, " ")))
			if err != nil || len(again) != 1 || !slices.Equal(again[0].words, l.words) {
				t.Fatalf("%q written as %q: got %v, %v", l.words, quoted, again, err)
			}
		}
	})
}

// hostsText writes hosts as "a:2 b:-1".
func hostsText(hosts []hostfile.Host) string {
	var out []string
	for _, h := range hosts {
		out = append(out, fmt.Sprintf("%s:%d", h.Name, h.Slots))
	}
	return strings.Join(out, " ")
}

func TestHostsOfPrograms(t *testing.T) {
	dir := t.TempDir()
	file, open := filepath.Join(dir, "hosts"), filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(file, []byte("a slots=4\nb slots=4\nc slots=4\n"), 0o600), os.WriteFile(open, []byte("a\nb\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, line, hosts, own string }{
		{"one", "-H a:2,b ./x", "a:2 b:1", ""},
		{"none", "-np 1 ./x : -np 1 ./y", "", "|"},
		{"own", "-np 1 -H a:2 ./x : -np 1 -H b:2 ./y", "a:2 b:2", "a:2|b:2"},
		{"the-most", "-np 1 -H a:2 ./x : -np 1 -H b,A:3 ./y", "a:3 b:1", "a:2|b:1 a:3"},
		{"names-alone", "-np 1 -H a ./x : -np 1 -H a:4 ./y", "a:4", "a:1|a:4"},
		{"host-tells", "-np 1 -H a:* ./x : -np 1 -H a:4 ./y", "a:-1", "a:-1|a:4"},
		{"one-without", "-np 1 -H a:2,b:2 ./x : -np 3 ./y", "a:2 b:2", "a:2 b:2|"},
		{"of-a-file", "-hostfile FILE -np 1 -H c ./x : -np 1 ./y", "a:4 b:4 c:4", "c:4|"},
		{"all-of-a-file", "-hostfile FILE -np 1 -H c ./x : -np 1 -H a:2 ./y", "a:4 c:4", "c:4|a:2"},
		{"of-an-open-file", "-hostfile OPEN -np 1 -H b ./x : -np 1 -H b:2 ./y", "b:-1", "b:-1|b:2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := given(t, strings.Fields(strings.NewReplacer("FILE", file, "OPEN", open).Replace(tt.line))...)
			apps, hosts, err := o.apps("/", nil)
			var own []string
			for _, a := range apps {
				own = append(own, hostsText(a.Hosts))
			}
			if got := strings.Join(own, "|"); err != nil || hostsText(hosts) != tt.hosts || got != tt.own {
				t.Errorf("got %q and %q, %v; want %q and %q", hostsText(hosts), got, err, tt.hosts, tt.own)
			}
		})
	}
}

func TestHostsOfProgramsRefused(t *testing.T) {
	file, app := filepath.Join(t.TempDir(), "hosts"), ""
	if err := os.WriteFile(file, []byte("a slots=4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	app, args := inFile(t, "-np 1 ./x\n-np 1 -H b, ./y\n", "-hostfile", file)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"not-in-the-file", strings.Fields("-hostfile " + file + " -np 1 -H b ./x : -np 1 ./y"), `-H: item 1: "b": not in ` + file},
		{"too-many", strings.Fields("-hostfile " + file + " -np 1 -H a:5 ./x : -np 1 ./y"), `-H: item 1: "a": 5 slots here, 4 in ` + file + ":1"},
		{"two-users", strings.Fields("-np 1 -H me@a ./x : -np 1 -H you@a ./y"), `-H: item 1: "a": user "you" here, "me" in item 1 of another list`},
		{"in-a-file", args, app + ":2: -H \"b,\" ends in \",\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parseOptions(tt.args)
			if err == nil {
				_, _, err = o.apps("/", nil)
			}
			if err == nil || err.Error() != tt.want || !isUsage(err) {
				t.Errorf("got %v; want %s", err, tt.want)
			}
		})
	}
}

// What is said of a rank and of slots names the program, if there are several.
func TestReportsNameThePrograms(t *testing.T) {
	o := given(t, "-np", "1", "./a", ":", "-np", "3", "./b")
	rank := launcher.RankResult{Rank: 2, App: 1, Host: "gpu1", State: launcher.StateExited, Code: 3}
	if got := rankEnd(rank, o); got != "rank 2 (./b) on gpu1 exited with code 3, 0 ms after start" {
		t.Errorf("got %q", got)
	}
	err := &launcher.SlotsError{Program: "./b", Need: 3, Have: 1, Hosts: []launcher.HostSlots{{Name: "gpu1", Slots: 2, Taken: 1, Origin: "hosts:1"}}}
	got := strings.Join(errorReport(err, o).lines, "\n")
	if want := "./b needs 3 slots, its hosts have 1 left\n  gpu1: 2 slots, 1 taken (hosts:1)"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestDirectoriesOfPrograms(t *testing.T) {
	_, file := inFile(t, "-np 1 ./a\n-np 1 -wdir /b ./b\n", "-wdir", "j")
	tests := []struct {
		name string
		args []string
		want string // each program's own
	}{
		{"none", strings.Fields("./a"), "|"},
		{"one", strings.Fields("-wdir x ./a"), "|/here/x"},
		{"first", strings.Fields("-wdir x -np 1 ./a : -np 1 ./b"), "|/here/x|"},
		{"second", strings.Fields("-np 1 ./a : -wd /y -np 1 ./b"), "||/y"},
		{"file", file, "|/here/j|/b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := given(t, tt.args...)
			apps, _, err := o.apps("/here", nil)
			got := ""
			for _, a := range apps {
				got += "|" + a.Dir
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
