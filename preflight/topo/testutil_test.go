package topo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample returns the text of the sample that begins with number.
func sample(t testing.TB, number string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", number+"-*.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("sample %s: got files %v; want one", number, files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parsed(t testing.TB, number string) *Matrix {
	t.Helper()
	m, err := ParseMatrix(sample(t, number))
	if err != nil {
		t.Fatalf("sample %s: %v", number, err)
	}
	return &m
}

func samples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/[0-9]*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for i, f := range files {
		files[i], _, _ = strings.Cut(filepath.Base(f), "-")
	}
	return files
}
