package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hosts(n int) []string {
	h := make([]string, n)
	for i := range h {
		h[i] = "n1"
	}
	return h
}

// inDir returns the names of the files of so many ranks in dir.
func inDir(tb testing.TB, dir string, ranks int) []string {
	tb.Helper()
	names, err := FileNames(dir, "", make([]Rank, ranks))
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// contents returns what lies in dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(b)
	}
	return got
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	var stdout, stderr screen
	m := mustNew(t, Options{Stdout: &stdout, Stderr: &stderr, Hosts: hosts(2), Files: inDir(t, dir, 2), Tag: true})
	m.Write(0, 1, []byte("a\r\n\x00\xff"))
	m.Write(1, 1, []byte("b"))
	m.Write(0, 1, []byte("c"))
	m.Write(1, 2, []byte("\n\nd"))
	m.Line("own")
	m.End(0, 1)
	m.Write(5, 1, []byte("x"))
	m.End(5, 1)
	if got, want := m.Tail(1), []string{"", "", "d"}; !cmp.Equal(got, want) {
		t.Errorf("Tail: got %q; want %q", got, want)
	}
	mustClose(t, m)
	want := map[string]string{"rank.0.out": "a\r\n\x00\xffc", "rank.0.err": "", "rank.1.out": "b", "rank.1.err": "\n\nd"}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if stdout.String() != "" || stderr.String() != "own\n" {
		t.Errorf("got %q and %q on stdout and stderr; want nothing and the own line", stdout.String(), stderr.String())
	}
}

// TestFilesReplaceOld: a second job into a directory leaves nothing of the first.
func TestFilesReplaceOld(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rank.00.out": "old", "rank.11.err": "old", "rank.0.out": "old and long", "rank.x.out": "mine", "rank.1.out.gz": "mine", "notes": "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("keep"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "rank.0.err")); err != nil {
		t.Fatal(err)
	}
	m := mustNew(t, Options{Hosts: hosts(1), Files: inDir(t, dir, 1)})
	m.Write(0, 1, []byte("new"))
	m.Write(0, 2, []byte("new"))
	mustClose(t, m)
	want := map[string]string{"rank.0.out": "new", "rank.0.err": "new", "rank.x.out": "mine", "rank.1.out.gz": "mine", "notes": "mine"}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if b, _ := os.ReadFile(outside); string(b) != "keep" {
		t.Errorf("a file behind a link: got %q; want it untouched", b)
	}
}

// TestFilesOfAPattern: only files whose names come again are replaced.
func TestFilesOfAPattern(t *testing.T) {
	dir := t.TempDir()
	names, err := FileNames(filepath.Join(dir, "%h", "%l"), "", []Rank{{"n1", 0, 0}, {"n1", 1, 0}, {"n2", 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "n1"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.out", "2.out", "rank.1.out"} {
		if err := os.WriteFile(filepath.Join(dir, "n1", name), []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m := mustNew(t, Options{Hosts: hosts(3), Files: names})
	m.Write(0, 1, []byte("a"))
	m.Write(2, 2, []byte("b"))
	mustClose(t, m)
	want := map[string]string{"0.out": "a", "0.err": "", "1.out": "", "1.err": "", "2.out": "old", "rank.1.out": "old"}
	if diff := cmp.Diff(want, contents(t, filepath.Join(dir, "n1"))); diff != "" {
		t.Errorf("n1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"0.out": "", "0.err": "b"}, contents(t, filepath.Join(dir, "n2"))); diff != "" {
		t.Errorf("n2 (-want +got):\n%s", diff)
	}
}

// TestFilesSpareDirectories: a directory of a rank's name is not removed, even an empty one.
func TestFilesSpareDirectories(t *testing.T) {
	for name, pattern := range map[string]string{"directory": "", "pattern": "x-%r"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			names, err := FileNames(filepath.Join(dir, pattern), "", make([]Rank, 1))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(names[0]+".err", 0o777); err != nil {
				t.Fatal(err)
			}
			if m, err := New(Options{Hosts: hosts(1), Files: names}); err == nil {
				mustClose(t, m)
				t.Error("New: got no error")
			} else if !strings.Contains(err.Error(), names[0]+".err") {
				t.Errorf("New: got %v; want it to name %s", err, names[0]+".err")
			}
			if _, err := os.Stat(names[0] + ".err"); err != nil {
				t.Errorf("the directory: %v", err)
			}
		})
	}
}

func TestFilesNames(t *testing.T) {
	for _, tt := range []struct {
		ranks       int
		first, last string
	}{
		{1, "rank.0.err", "rank.0.out"},
		{10, "rank.0.err", "rank.9.out"},
		{11, "rank.00.err", "rank.10.out"},
	} {
		t.Run(fmt.Sprint(tt.ranks), func(t *testing.T) {
			dir := t.TempDir()
			mustClose(t, mustNew(t, Options{Hosts: hosts(tt.ranks), Files: inDir(t, dir, tt.ranks)}))
			var names []string
			for name := range contents(t, dir) {
				names = append(names, name)
				if !isOutput(name) {
					t.Errorf("isOutput(%q): got false; want true", name)
				}
			}
			sort.Strings(names)
			if len(names) != 2*tt.ranks || names[0] != tt.first || names[len(names)-1] != tt.last {
				t.Errorf("got %d files from %s to %s; want %d from %s to %s", len(names), names[0], names[len(names)-1], 2*tt.ranks, tt.first, tt.last)
			}
		})
	}
}

func TestIsOutput(t *testing.T) {
	for _, name := range []string{"rank..out", "rank.1", "rank.1.out.err", "rank.1.err.out", "rank.-1.out", "rank.1.log", "Rank.1.out", "1.out", ""} {
		if isOutput(name) {
			t.Errorf("isOutput(%q): got true; want false", name)
		}
	}
}

func TestFilesBadDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.MkdirAll(filepath.Join(full, "rank.0.out", "mine"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dir, want string }{
		{"is-a-file", file, file},
		{"below-a-file", filepath.Join(file, "x"), file},
		{"name-taken", full, filepath.Join(full, "rank.0.out")},
		{"cannot-be-made", "/proc/gorun-output", "/proc/gorun-output"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := New(Options{Hosts: hosts(1), Files: inDir(t, tt.dir, 1)}); err == nil {
				mustClose(t, m)
				t.Errorf("New: got no error; want one about %s", tt.want)
			} else if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: got %v; want it to name %s", err, tt.want)
			}
		})
	}
}

// TestFilesDiskFull: a file on a full disk fails once, its bytes count as written,
// and the other files go on.
func TestFilesDiskFull(t *testing.T) {
	dir := t.TempDir()
	failed := map[string]error{}
	left := map[int]int{}
	var stderr screen
	m := mustNew(t, Options{
		Stderr: &stderr, Hosts: hosts(3), Files: inDir(t, dir, 3),
		Written: func(rank, which, n int) { left[rank] += n },
		Failed: func(err error, dest string) {
			if failed[dest] != nil {
				t.Errorf("Failed: got %s again; want it once", dest)
			}
			failed[dest] = err
		},
	})
	bad := filepath.Join(dir, "rank.1.out")
	if err := errors.Join(os.Remove(bad), os.Symlink("/dev/full", bad)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for rank := range 3 {
			m.Write(rank, 1, bytes.Repeat([]byte("x"), 10_000))
		}
	}
	mustClose(t, m)
	if len(failed) != 1 || !errors.Is(failed[bad], syscall.ENOSPC) {
		t.Errorf("Failed: got %v; want no space left for %s", failed, bad)
	}
	for rank := range 3 {
		if left[rank] != 100_000 {
			t.Errorf("Written of rank %d: got %d; want 100000", rank, left[rank])
		}
		fi, err := os.Stat(filepath.Join(dir, fmt.Sprintf("rank.%d.out", rank)))
		if rank != 1 && (err != nil || fi.Size() != 100_000) {
			t.Errorf("file of rank %d: got %v, %v; want 100000 bytes", rank, fi, err)
		}
	}
}

// TestFilesMany: more files than may be open at a time.
func TestFilesMany(t *testing.T) {
	const ranks = 40
	dir := t.TempDir()
	fs, err := newFiles(Options{Hosts: hosts(ranks), Files: inDir(t, dir, ranks)}.filled())
	if err != nil {
		t.Fatal(err)
	}
	fs.most = 7
	go fs.run()
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			for round := range 3 {
				for rank := part; rank < ranks; rank += 2 {
					fs.write(rank, 1, fmt.Appendf(nil, "rank %d round %d\n", rank, round))
				}
			}
		})
	}
	wg.Wait()
	if err := fs.close().wait(t.Context()); err != nil {
		t.Errorf("close: got %v; want nil", err)
	}
	if n := len(fs.open); n != 0 {
		t.Errorf("open after close: got %d files; want 0", n)
	}
	got := contents(t, dir)
	for rank := range ranks {
		want := fmt.Sprintf("rank %[1]d round 0\nrank %[1]d round 1\nrank %[1]d round 2\n", rank)
		if name := fmt.Sprintf("rank.%02d.out", rank); got[name] != want {
			t.Fatalf("%s: got %q; want %q", name, got[name], want)
		}
	}
}
