package envsync

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMerge(t *testing.T) {
	tests := []struct {
		name    string
		session []string
		lists   [][]string
		want    []string
	}{
		{
			name: "empty",
			want: []string{"PYTHONUNBUFFERED=1"},
		},
		{
			name:    "leftovers-go",
			session: []string{"PATH=/bin", "NCCL_DEBUG=WARN", "RANK=0", "WORLD_SIZE=2", "HOME=/h", "PMI_RANK=0", "LOCAL_RANK=1"},
			want:    []string{"PATH=/bin", "HOME=/h", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "leftover-names-come-back",
			session: []string{"NCCL_DEBUG=WARN", "A=1"},
			lists:   [][]string{{"NCCL_DEBUG=INFO"}, {"RANK=3"}},
			want:    []string{"A=1", "NCCL_DEBUG=INFO", "RANK=3", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "later-wins",
			session: []string{"A=1", "B=1", "C=1"},
			lists:   [][]string{{"B=2", "C=2", "D=2"}, {"C=3", "D=3", "E=3"}},
			want:    []string{"A=1", "B=2", "C=3", "D=3", "E=3", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "later-wins-within-list",
			session: []string{"A=1"},
			lists:   [][]string{{"A=2", "A=3"}},
			want:    []string{"A=3", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "first-of-session",
			session: []string{"A=1", "A=2"},
			want:    []string{"A=1", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "unbuffered-in-session",
			session: []string{"PYTHONUNBUFFERED=0"},
			want:    []string{"PYTHONUNBUFFERED=0"},
		},
		{
			name:    "unbuffered-empty",
			session: []string{"PYTHONUNBUFFERED="},
			want:    []string{"PYTHONUNBUFFERED="},
		},
		{
			name:  "unbuffered-in-job",
			lists: [][]string{{"PYTHONUNBUFFERED=x"}, {"A=1"}},
			want:  []string{"PYTHONUNBUFFERED=x", "A=1"},
		},
		{
			name:    "bytes-survive",
			session: []string{"A=\xff\xfe\n", "\xff=1"},
			lists:   [][]string{{"B==\x80=\t", "C="}},
			want:    []string{"A=\xff\xfe\n", "\xff=1", "B==\x80=\t", "C=", "PYTHONUNBUFFERED=1"},
		},
		{
			name:    "no-names",
			session: []string{"", "=x", "A"},
			lists:   [][]string{{"", "=y", "B"}},
			want:    []string{"PYTHONUNBUFFERED=1"},
		},
		{
			name:    "functions-of-bash",
			session: []string{"BASH_FUNC_module%%=() {  eval x\n}"},
			want:    []string{"BASH_FUNC_module%%=() {  eval x\n}", "PYTHONUNBUFFERED=1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Merge(tt.session, tt.lists...); !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %q\nwant\n  %q", got, tt.want)
			}
		})
	}
}

// randomList makes entries of few names, so that they meet.
func randomList(rnd *rand.Rand) []string {
	names := []string{"A", "B", "C", "NCCL_A", "NCCL_B", "RANK", "OMPI_X", "PYTHONUNBUFFERED", "LOCAL_X"}
	list := make([]string, rnd.IntN(8))
	for i := range list {
		list[i] = fmt.Sprintf("%s=%d", names[rnd.IntN(len(names))], rnd.IntN(3))
	}
	return list
}

func TestMergeProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		session, job, own := randomList(rnd), randomList(rnd), randomList(rnd)
		before := fmt.Sprint(session, job, own)
		env := Merge(session, job, own)
		checkMerged(t, env, session, job, own)
		if after := fmt.Sprint(session, job, own); after != before {
			t.Fatalf("got arguments %s; want %s", after, before)
		}
		// Lists merge one by one as they do together.
		if two := Merge(session, slices.Concat(job, own)); !slices.Equal(two, env) {
			t.Fatalf("got %q; want %q as of two lists", two, env)
		}
		// What a list says already changes nothing.
		if again := Merge(session, job, own, own); !slices.Equal(again, env) {
			t.Fatalf("got %q; want %q", again, env)
		}
		// Order within the session does not matter to the values of a digest.
		if a, b := DigestOf(env), DigestOf(shuffled(rnd, env)); a != b {
			t.Fatalf("got digests %s and %s of one environment", a, b)
		}
	}
}

func shuffled(rnd *rand.Rand, list []string) []string {
	list = slices.Clone(list)
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// checkMerged compares env with what a plain search in the lists finds.
func checkMerged(t *testing.T, env, session []string, lists ...[]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if seen[name] {
			t.Fatalf("got %s twice in %q", name, env)
		}
		seen[name] = true
		if want := source(name, session, lists); entry != want {
			t.Fatalf("got %q; want %q, of %q and %q", entry, want, session, lists)
		}
	}
	for _, entry := range slices.Concat(append(lists, []string{"PYTHONUNBUFFERED"})...) {
		if name, _, _ := strings.Cut(entry, "="); !seen[name] {
			t.Fatalf("got %q; want %s in it", env, name)
		}
	}
	for _, entry := range session {
		if name, _, _ := strings.Cut(entry, "="); !seen[name] && !Leftover(name) {
			t.Fatalf("got %q; want %s of the session in it", env, name)
		}
	}
}

// source is the entry that must win for name.
func source(name string, session []string, lists [][]string) string {
	of := func(entry string) bool { return strings.HasPrefix(entry, name+"=") }
	for _, list := range slices.Backward(lists) {
		for _, entry := range slices.Backward(list) {
			if of(entry) {
				return entry
			}
		}
	}
	if i := slices.IndexFunc(session, of); i >= 0 && !Leftover(name) {
		return session[i]
	}
	if name == "PYTHONUNBUFFERED" {
		return "PYTHONUNBUFFERED=1"
	}
	return ""
}

func FuzzMerge(f *testing.F) {
	f.Add("A=1\x00B=2\x00NCCL_X=1", "B=3", "RANK=1")
	f.Add("PYTHONUNBUFFERED=\x00=\x00X", "A==", "\xff=\xfe")
	f.Fuzz(func(t *testing.T, session, job, own string) {
		cut := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "\x00"), func(e string) bool { return strings.Index(e, "=") < 1 })
		}
		s, j, o := cut(session), cut(job), cut(own)
		env := Merge(s, j, o)
		checkMerged(t, env, s, j, o)
		if d := DigestOf(env); len(d.String()) != 33 || d != DigestOf(append([]string{"A=9"}, env...)) {
			t.Fatalf("got digest %q", d)
		}
	})
}

func TestShow(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"A", "plain text", "A=plain text"},
		{"A", "", "A="},
		{"A", "é", "A=é"},
		{"A", "a\nb", `A="a\nb"`},
		{"A", "\x1b[31m", `A="\x1b[31m"`},
		{"A", "\xff", `A="\xff"`},
		{"A\x1b", "1", `"A\x1b"=1`},
		{"HF_TOKEN", "hunter2", "HF_TOKEN=<hidden>"},
		{"HF_TOKEN", "", "HF_TOKEN=<hidden>"},
	}
	for _, tt := range tests {
		if got := Show(Var{Name: tt.name, Value: tt.value}); got != tt.want {
			t.Errorf("%q %q: got %s; want %s", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestCheckSize(t *testing.T) {
	long := strings.Repeat("x", MaxString)
	if err := CheckSize([]string{"app", long}, []string{"A=" + long[2:], "B=1"}); err != nil {
		t.Errorf("got %v for strings of %d bytes; want none", err, MaxString)
	}
	tests := []struct {
		name      string
		args, env []string
		want      SizeError
		text      string
	}{
		{"argument", []string{"app", "a", long + "x"}, nil, SizeError{2, "", MaxString + 1}, "argument 2 has 131072 bytes; Linux passes at most 131071 to a program"},
		{"program", []string{long + "xy"}, nil, SizeError{0, "", MaxString + 2}, "argument 0 has 131073 bytes; Linux passes at most 131071 to a program"},
		{"variable", []string{"app"}, []string{"A=1", "BIG=" + long}, SizeError{-1, "BIG", MaxString + 4}, "variable BIG has 131075 bytes; Linux passes at most 131071 to a program"},
		{"odd-name", nil, []string{"\x1b=" + long}, SizeError{-1, "\x1b", MaxString + 2}, `variable "\x1b" has 131073 bytes; Linux passes at most 131071 to a program`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			se, ok := errors.AsType[*SizeError](CheckSize(tt.args, tt.env))
			if !ok || *se != tt.want || se.Error() != tt.text {
				t.Errorf("got %+v; want %+v with text %s", se, tt.want, tt.text)
			}
		})
	}
}

func TestPrepend(t *testing.T) {
	tests := []struct {
		name            string
		env, more, want []string
	}{
		{"set", []string{"A=1", "PATH=/bin"}, []string{"PATH=/opt/bin"}, []string{"A=1", "PATH=/opt/bin:/bin"}},
		{"not-set", []string{"PATHS=1"}, []string{"PATH=/opt/bin"}, []string{"PATHS=1", "PATH=/opt/bin"}},
		{"empty", []string{"PATH="}, []string{"PATH=/opt/bin"}, []string{"PATH=/opt/bin"}},
		{"two", []string{"B=b"}, []string{"A=a", "B=c"}, []string{"B=c:b", "A=a"}},
		{"nothing", []string{"A=1"}, nil, []string{"A=1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Prepend(tt.env, tt.more); !slices.Equal(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}
