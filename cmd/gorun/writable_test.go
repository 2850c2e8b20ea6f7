package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorun/preflight"
)

// TestCheckFiles looks at what is to be written later. A file system that takes
// nothing, even from root, is /proc.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	facts := func(path string) error { return (&preflightOptions{only: true, save: path}).checkFiles() }
	page := func(path string) error { return (&preflightOptions{mode: preflight.Full, html: path}).checkFiles() }
	unused := func(path string) error { return (&preflightOptions{html: path}).checkFiles() }
	tests := map[string]struct {
		check func(string) error
		path  string
		want  string // in the error; "" for none
	}{
		"no-result":           {checkResult, "", ""},
		"new-result":          {checkResult, filepath.Join(dir, "new"), ""},
		"old-result":          {checkResult, file, ""},
		"result-on-a-device":  {checkResult, "/dev/stdout", ""},
		"result-is-directory": {checkResult, dir, "--result " + dir + ": is a directory"},
		"result-in-nothing":   {checkResult, filepath.Join(dir, "no", "r.json"), "there is no directory " + dir + "/no"},
		"result-in-a-file":    {checkResult, filepath.Join(file, "r.json"), "not a directory"},
		"result-not-writable": {checkResult, "/proc/r.json", "--result /proc/r.json: nothing can be made in /proc: "},
		"result-no-name":      {checkResult, "-", "--result -: names no file"},
		"facts-new":           {facts, filepath.Join(dir, "new"), ""},
		"facts-no-name":       {facts, "-", "--save-facts -: names no file"},
		"facts-in-nothing":    {facts, filepath.Join(dir, "no", "f.json"), "--save-facts " + dir + "/no/f.json: there is no directory"},
		"page-on-a-device":    {page, "/dev/stdout", ""},
		"page-is-directory":   {page, dir, "--html " + dir + ": is a directory"},
		"page-not-writable":   {page, "/proc/p.html", "--html /proc/p.html: nothing can be made in /proc: "},
		"page-not-asked-for":  {unused, dir, ""}, // by a configuration file's key
		"no-output":           {checkOutputDir, "", ""},
		"old-output":          {checkOutputDir, dir, ""},
		"new-output":          {checkOutputDir, filepath.Join(dir, "a", "b"), ""},
		"output-pattern":      {checkOutputDir, filepath.Join(dir, "%j", "%r"), ""},
		"output-in-proc":      {checkOutputDir, "/proc/a/%r", "--output-dir /proc/a: nothing can be made in /proc: "},
		"output-is-a-file":    {checkOutputDir, file, "--output-dir " + file + ": " + file + " is no directory"},
		"output-in-a-file":    {checkOutputDir, filepath.Join(file, "x"), "not a directory"},
		"output-not-writable": {checkOutputDir, "/proc/a/b", "--output-dir /proc/a/b: nothing can be made in /proc: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.check(tt.path)
			if (err == nil) != (tt.want == "") || err != nil && (!isUsage(err) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v; want %q", err, tt.want)
			}
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v; want the file alone", entries, err)
	}
}
