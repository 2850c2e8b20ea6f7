package transport

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nameOf identifies a file that holds content.
func nameOf(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gorun")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name, size, err := identify(f)
	if err != nil || size != int64(len(content)) || !strings.HasPrefix(name, "gorun-") || len(name) != len("gorun-")+16 {
		t.Fatalf("got %q, %d bytes, %v; want a name and %d", name, size, err, len(content))
	}
	return name
}

// Equal names mean equal builds, whoever has made them.
func TestIdentify(t *testing.T) {
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	id := buildID(bytes.NewReader(self))
	if out, err := exec.Command("go", "tool", "buildid", os.Args[0]).Output(); err != nil || strings.TrimSpace(string(out)) != id {
		t.Fatalf("got the ID %q; go says %q, %v", id, out, err)
	}
	last, middle := len(self)-1, len(self)/2
	changed := bytes.Clone(self)
	changed[middle]++
	// What does not come from go build may say so in fewer bytes, or in as many.
	foreign := bytes.ReplaceAll(self, []byte(id), []byte("redacted"+strings.Repeat("\x00", len(id)-8)))
	foreignChanged := bytes.Clone(foreign)
	foreignChanged[middle]++
	names := map[string]string{}
	for _, tt := range []struct {
		what    string
		content []byte
	}{
		{"built by go", self},
		{"stripped of its last byte", self[:last]},
		{"another ID", bytes.ReplaceAll(self, []byte(id), []byte(strings.Repeat("x", 20)+id[20:]))},
		{"a foreign ID", foreign},
		{"a foreign ID and a changed byte", foreignChanged},
		{"no program", []byte("text")},
		{"another text", []byte("Text")},
		{"empty", nil},
	} {
		name := nameOf(t, tt.content)
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s are both %s", tt.what, other, name)
		}
		names[name] = tt.what
		if again := nameOf(t, tt.content); again != name {
			t.Errorf("%s: got %s and %s", tt.what, name, again)
		}
	}
	if nameOf(t, changed) != nameOf(t, self) {
		t.Error("a binary with an ID is read as a whole")
	}
}

// FuzzBuildID looks for an ID in anything.
func FuzzBuildID(f *testing.F) {
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self[:min(len(self), 64<<10)])
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, program []byte) {
		if id := buildID(bytes.NewReader(program)); id != "" && len(id) != 4*20+3 {
			t.Errorf("got %q", id)
		}
		loaderOf(bytes.NewReader(program))
	})
}
