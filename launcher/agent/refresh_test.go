package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRefresh: only what stands in a cache is dated to now.
func TestRefresh(t *testing.T) {
	home := t.TempDir()
	for file, want := range map[string]bool{
		".cache/gorun/gorun-0123456789abcdef": true,
		".cache/gorun/gorun":                  false,
		"cache/gorun/gorun-1":                 false,
		"bin/gorun":                           false,
	} {
		name := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-100 * time.Hour)
		os.Chtimes(name, old, old)
		refresh(name)
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.ModTime().After(old.Add(time.Hour)); got != want {
			t.Errorf("%s: refreshed %v; want %v", file, got, want)
		}
	}
	refresh(filepath.Join(home, ".cache/gorun/gorun-none")) // no harm
}
