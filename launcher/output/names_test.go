package output

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFileNames(t *testing.T) {
	two := []Rank{{"n1", 0, 0}, {"n1", 1, 0}, {"n2", 0, 1}}
	dozen := make([]Rank, 12)
	for i := range dozen {
		dozen[i] = Rank{Host: "n", Local: i}
	}
	tests := []struct {
		name, pattern string
		ranks         []Rank
		want          string // names, or the end of them in a big job
	}{
		{"directory", "out", two, "out/rank.0 out/rank.1 out/rank.2"},
		{"absolute", "/a/b/", two, "/a/b/rank.0 /a/b/rank.1 /a/b/rank.2"},
		{"rank", "out/%r", two, "out/0 out/1 out/2"},
		{"rank-in-a-name", "logs/%j/%h/rank-%r", two, "logs/J/n1/rank-0 logs/J/n1/rank-1 logs/J/n2/rank-2"},
		{"directory-of-the-job", "logs/%j", two, "logs/J/rank.0 logs/J/rank.1 logs/J/rank.2"},
		{"directory-of-the-rank", "logs/%r/", two, "logs/0/rank.0 logs/1/rank.1 logs/2/rank.2"},
		{"directory-of-the-rank-below", "logs/%r/all", two, "logs/0/all/rank.0 logs/1/all/rank.1 logs/2/all/rank.2"},
		{"host-and-local-rank", "%h.%l", two, "n1.0 n1.1 n2.0"},
		{"program", "%a/x%r", two, "0/x0 0/x1 1/x2"},
		{"percent", "100%%/%%r", two, "100%/%r/rank.0 100%/%r/rank.1 100%/%r/rank.2"},
		{"twice", "%r%r", two, "00 11 22"},
		{"padded", "%l-%r", dozen, "10-10 11-11"},
		{"bad-hosts", "%h/%r", []Rank{{Host: ".."}, {Host: "a/b"}, {Host: "c\n"}, {Host: ""}}, `__/0 a_b/1 c\n/2 _/3`},
		{"no-ranks", "x/%r", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := FileNames(tt.pattern, "J", tt.ranks)
			if s := strings.Join(got, " "); err != nil || !strings.HasSuffix(s, tt.want) || len(got) == 3 && s != tt.want {
				t.Errorf("got %q, %v; want %q", s, err, tt.want)
			}
		})
	}
}

func TestFileNamesRefused(t *testing.T) {
	ranks := []Rank{{"n1", 0, 0}, {"n1", 1, 0}, {"n2", 0, 1}}
	tests := []struct{ name, pattern, want string }{
		{"unknown", "out/%x", `"out/%x": "%x" means nothing`},
		{"unknown-rune", "out/%é", `"out/%é": "%é" means nothing`},
		{"at-the-end", "out%", `"out%": "%" means nothing`},
		{"same-local-rank", "out/%l", `"out/%l": ranks 0 and 2 would write the same file, out/0.out`},
		{"same-through-dots", "out/%r/../%l", `"out/%r/../%l": ranks 0 and 2 would write the same file, out/0.out`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := FileNames(tt.pattern, "J", ranks)
			e, ok := errors.AsType[*PatternError](err)
			if !ok || e.Error() != tt.want || e.Hint == "" {
				t.Errorf("got %v; want %s and a hint", err, tt.want)
			}
		})
	}
}

func TestFixedDir(t *testing.T) {
	got := map[string]string{}
	want := map[string]string{
		"out": "out", "out/": "out", "/": "/", "a/b/%r": "a/b", "a/x-%h/b": "a", "%j": ".", "/%j": "/", "/a/%%/%r": "/a/%", "a/%%r": "a/%r", "./x": "x",
	}
	for pattern := range want {
		got[pattern] = FixedDir(pattern)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzFileNames: no pattern and no host leads out of the fixed directory, unless the
// pattern says so itself, and no two ranks share a file.
func FuzzFileNames(f *testing.F) {
	for _, s := range []string{"out", "%r", "a/%h/%l", "%j/%a-%r%%", "/%h/../%r", "%"} {
		f.Add(s, "..", "n/1")
	}
	f.Fuzz(func(t *testing.T, pattern, host, other string) {
		names, err := FileNames(pattern, "job", []Rank{{host, 0, 0}, {host, 1, 0}, {other, 0, 1}})
		if err != nil {
			return
		}
		if err := CheckPattern(pattern); err != nil {
			t.Fatalf("FileNames takes what CheckPattern refuses: %v", err)
		}
		fixed := FixedDir(pattern)
		for i, name := range names {
			if strings.Contains(pattern, "..") {
				break
			}
			if rel, err := filepath.Rel(fixed, name); err != nil || strings.HasPrefix(rel, "../") {
				t.Errorf("rank %d: %q is not below %q", i, name, fixed)
			}
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != 3 {
			t.Errorf("got %q; want three names", names)
		}
	})
}
