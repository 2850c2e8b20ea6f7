package main

import (
	"os"
	"path/filepath"
	"testing"

	"gorun/preflight"
)

func TestHostsThatFlagsAskFor(t *testing.T) {
	for name, c := range map[string]struct {
		p    preflightOptions
		n    int
		want string // "" for none
	}{
		"none":           {preflightOptions{}, 1, ""},
		"enough":         {preflightOptions{minHosts: 2, spares: 1}, 3, ""},
		"too-few":        {preflightOptions{minHosts: 2}, 1, "--min-hosts 2: there is 1 host"},
		"spares-alone":   {preflightOptions{spares: 3}, 3, "--spares 3: there are 3 hosts, and no other would be left"},
		"without-spares": {preflightOptions{minHosts: 2, spares: 2}, 3, "--min-hosts 2: there are 3 hosts, of which --spares 2 keeps some in reserve"},
	} {
		err := c.p.checkCounts(c.n)
		if (err == nil) != (c.want == "") || err != nil && (!isUsage(err) || err.Error() != c.want) {
			t.Errorf("%s: got error %v; want %q", name, err, c.want)
		}
	}
}

func TestPageBesideFacts(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"same":        {file, file, true},
		"other":       {file, filepath.Join(dir, "g"), false},
		"new-and-new": {filepath.Join(dir, "g"), dir + "/./g", true},
		"link":        {link, file, true},
		"none":        {file, "", false},
		"nowhere":     {file, filepath.Join(dir, "no", "f"), false},
		"device":      {"/dev/null", "/dev/./null", false},
	} {
		if got := oneFile(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v; want %v", name, got, c.want)
		}
	}
}

func TestLayoutOfTooManyRanks(t *testing.T) {
	p := page{decision: preflight.Decision{Use: []string{"a"}, Slots: []int{1 << 24}, Ranks: 1 << 24}}
	if got := p.layout(); got != nil {
		t.Errorf("got a layout of %d hosts for more ranks than a job has", len(got))
	}
}
