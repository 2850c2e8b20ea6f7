package gorun_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quietDeadlines are files whose deadlines' errors nobody is told: all others give them
// words for people, by context.WithTimeoutCause, for a user does not know what a context is.
var quietDeadlines = map[string]string{
	"launcher/lost.go":              "a jump host that does not answer is lost, and said to be",
	"launcher/begin.go":             "what has not been written by then is dropped",
	"launcher/host.go":              "the agent's end is then told without how it ended",
	"launcher/agent/settings.go":    "a file that does not answer is said not to",
	"launcher/agent/sweep.go":       "what is left is listed instead",
	"launcher/transport/room.go":    "it estimates",
	"launcher/transport/resolve.go": "another way is tried, and resolver errors get words of their own",
}

func TestDeadlinesHaveWords(t *testing.T) {
	for _, dir := range []string{"launcher", "hostfile", "cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, call := range []string{"context.WithTimeout(", "context.WithDeadline("} {
				if strings.Contains(string(b), call) && quietDeadlines[path] == "" {
					t.Errorf("%s: %s: its error is %q; give it words by WithTimeoutCause", path, call, "context deadline exceeded")
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
