package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestReadTOML(t *testing.T) {
	text := "\ufeff" + `# a comment with [brackets and "quotes
np = 4
  hostfile = 'C:\no' # end
"quoted # key" = 1

[env]
A = """
two [ lines
# no comment
"quoted" \""""  # done
B = '''
it's'''''
"a.b" = "1"
[[host]]
match = "a"
env = { X = "1", "Y" = "2" }
[host.more]
z = 1
[ ssh . "rsh" ]
list = [
  "a]", # comment ]
  [1, 2],
]
	x.y = true
[[host]]
match = "b"
`
	want := []string{
		"2:1 0 np = 4",
		`3:3 0 hostfile = C:\no`,
		"4:1 0 quoted # key = 1",
		"6:1 0 env = <nil>",
		"7:1 0 env A = two [ lines\n# no comment\n\"quoted\" \"",
		"11:1 0 env B = it's''",
		"13:1 0 env a.b = 1",
		"14:1 1 host = <nil>",
		"15:1 1 host match = a",
		"16:1 1 host env = <nil>",
		"16:1 1 host env X = 1",
		"16:1 1 host env Y = 2",
		"17:1 1 host more = <nil>",
		"18:1 1 host more z = 1",
		"19:1 0 ssh rsh = <nil>",
		"20:1 0 ssh rsh list = [a] [1 2]]",
		"24:2 0 ssh rsh x = <nil>",
		"24:2 0 ssh rsh x y = true",
		"25:1 2 host = <nil>",
		"26:1 2 host match = b",
	}
	entries, err := readTOML("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%d:%d %d %s = %v", e.at.line, e.at.col, e.array, strings.Join(e.path, " "), e.value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTOMLSyntaxErrors(t *testing.T) {
	tests := map[string]struct{ text, want, hint string }{
		"bare-word":    {"np = 4\nhostfile = hosts\n", `f:2:12: "hostfile = hosts": expected value but found "hosts" instead`, "in quotes"},
		"duplicate":    {"np = 4\nnp = 5\n", `f:2:8: "np = 5": key 'np' has already been defined`, "once in a file"},
		"table-twice":  {"[ssh]\n[env]\n[ssh]\n", `f:3:2: "[ssh]": key 'ssh' has already been defined`, "once in a file"},
		"open-string":  {"a = \"x\n", `f:1:7: "a = \"x": strings cannot contain newlines`, "the quote that it began with"},
		"open-table":   {"[ssh\nport = 3\n", `f:1:5: "[ssh": expected '.' or ']' to end table name, but got '\n' instead`, "[name]"},
		"escape":       {`a = "C:\dir"`, `f:1:6: "a = \"C:\\dir\"": invalid escape in string '\d'`, "single quotes"},
		"long":         {strings.Repeat("a", 200), `f:1:200: "` + strings.Repeat("a", 80) + `...": unexpected EOF; expected key separator '='`, ""},
		"nul":          {"a\x00b", `f:1:1: "a\x00b": files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8`, ""},
		"utf-8":        {"a = \"\xff\"", `f:1:5: "a = \"\xff\"": invalid UTF-8 byte: 0xff`, ""},
		"secret":       {"API_KEY = hunter2", `f:1:11: no TOML; the line is not repeated here, as it holds a secret`, ""},
		"no-value":     {"np\n", `f:1:3: "np": expected '.' or '=', but got '\n' instead`, "key = value"},
		"nothing":      {"np =\n", `f:1:5: "np =": expected value but found '\n' instead`, "a value is missing"},
		"key-as-table": {"np = 1\n[np.x]\n", `f:2:2: "[np.x]": key 'np' was already created as a hash`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readTOML("f", []byte(tt.text))
			e, ok := errors.AsType[*usageError](err)
			if !ok || err.Error() != tt.want {
				t.Fatalf("got %v; want %s", err, tt.want)
			}
			if hints := strings.Join(e.hints, " "); !strings.Contains(hints, tt.hint) {
				t.Errorf("got hints %q; want %q", hints, tt.hint)
			}
		})
	}
}

// TestDeepTOML: a file that package toml would take hours for is refused at once.
func TestDeepTOML(t *testing.T) {
	const n = 100_000
	for name, tt := range map[string]struct{ text, want string }{
		"lists":   {"\nx = " + strings.Repeat("[", n), "f:2:1: "},
		"tables":  {"a = 1\nx = " + strings.Repeat("{a=", n), "f:2:1: "},
		"key":     {"a" + strings.Repeat(".a", n) + " = 1", "f:1:1: "},
		"header":  {"[a" + strings.Repeat(".a", n) + "]\nx = 1", "f:1:1: "},
		"comment": {"# " + strings.Repeat("[", n) + "\nx = \"" + strings.Repeat("{.", n) + "\"\n", ""},
		"floats":  {"x = [" + strings.Repeat("0.5, ", n) + "]", ""},
		"no-toml": {strings.Repeat("<", n), "f:1:1: "},
	} {
		t.Run(name, func(t *testing.T) {
			switch _, err := readTOML("f", []byte(tt.text)); {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}

// FuzzReadTOML checks that whatever is TOML is taken apart without loss, and the rest
// refused with its place.
func FuzzReadTOML(f *testing.F) {
	for _, s := range []string{
		"np = 4\n[env]\nA = \"1\"\n", "a = [\n1, # ]\n2]\nb.c = {d = '#', e = [{f = 1}]}\n", "[[host]]\nmatch = 'a'\n[host.env]\nX = \"\"\"a\n\"\"\"\"\"\n[[host]]",
		"a = '''\n'''''", "\ufeffa=1\r\n\r\nb=2", "[a]\nb=1\n[c.\"d]\"]\n", "a = \"\\\"\"\n#x", "x = 1979-05-27T07:32:00Z", "a = [[1],[2]]", "[[a.b]]\n[a.c]\n[[a.b]]\nx=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := readTOML("f", []byte(text))
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok || !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("%q: error %v without a place", text, err)
			}
			return
		}
		var whole map[string]any
		if _, err := toml.Decode(strings.TrimPrefix(text, "\ufeff"), &whole); err != nil {
			t.Fatalf("%q: read, but is no TOML: %v", text, err)
		}
		n := 0
		for _, e := range entries {
			if e.value != nil {
				n++
			}
			if e.at.line < 1 || e.at.col < 1 || e.at.line > strings.Count(text, "\n")+1 {
				t.Fatalf("%q: %v at %v", text, e.path, e.at)
			}
		}
		if want := leaves(whole); n != want {
			t.Fatalf("%q: %d keys; want %d", text, n, want)
		}
	})
}

// leaves counts the keys of m that are no tables.
func leaves(v any) int {
	n := 0
	switch v := tables(v).(type) {
	case map[string]any:
		for _, x := range v {
			n += leaves(x)
		}
	case []map[string]any:
		for _, x := range v {
			n += leaves(x)
		}
	default:
		n = 1
	}
	return n
}
