package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gorun/launcher"
)

// documented is what docs/events.md says of an event's fields, beside those of all.
type documented struct{ always, sometimes []string }

// eventTable reads the table in docs/events.md.
func eventTable(t *testing.T) map[string]documented {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|")
	field := regexp.MustCompile("(\\[?)`(\\w+)`")
	table := map[string]documented{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		var d documented
		for _, f := range field.FindAllStringSubmatch(m[2], -1) {
			if f[1] == "" {
				d.always = append(d.always, f[2])
			} else {
				d.sometimes = append(d.sometimes, f[2])
			}
		}
		table[m[1]] = d
	}
	return table
}

// checkEvents reads lines of events strictly, and returns their names in order.
func checkEvents(t *testing.T, text string) []string {
	t.Helper()
	table := eventTable(t)
	var names []string
	before := time.Duration(0)
	for line := range strings.Lines(text) {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		var e launcher.Event
		if err := dec.Decode(&e); err != nil || dec.More() || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%q: %v", line, err)
		}
		if e.V != 1 || e.T.IsZero() || e.T.Location() != time.UTC || e.Elapsed < before {
			t.Errorf("%q: v, t or elapsed_ns is wrong", line)
		}
		before = e.Elapsed
		checkFields(t, line, table[e.Event])
		names = append(names, e.Event)
	}
	return names
}

// checkFields compares the fields of a line with those that are documented.
func checkFields(t *testing.T, line string, d documented) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(d.always, "v", "t", "elapsed_ns", "event") {
		if _, ok := got[name]; !ok {
			t.Errorf("%q lacks %s", line, name)
		}
		delete(got, name)
	}
	for _, name := range d.sometimes {
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("%q has fields that docs/events.md does not: %q", line, slices.Collect(maps.Keys(got)))
	}
}

// TestEventsAsDocumented reads the events of real jobs strictly.
func TestEventsAsDocumented(t *testing.T) {
	tests := []struct {
		name, want string // names in order, as a regular expression
		code       int
		args       []string
	}{
		{"good", "start phase host_connecting host_connected host_hello phase host_prepared phase rank_started rank_started rank_ended rank_ended stop phase host_done phase end",
			0, []string{"-np", "2", "--oversubscribe", "true"}},
		{"failed", "start .* phase rank_started rank_ended stop phase host_done phase end", 3, []string{"-np", "1", "sh", "-c", "exit 3"}},
		{"missing", "start .* phase prepare_failed stop phase host_done phase end", 127, []string{"-np", "1", "no-such-program"}},
		{"unreachable", "start phase host_connecting host_failed stop phase end", 125, []string{"-H", "no.such.host.invalid", "true"}},
		{"warned", "start phase host_connecting warning host_connected .* end", 0, []string{"-np", "1", "-x", "NOT_SET_ANYWHERE", "true"}},
		{"timed-out", "start .* phase rank_started stop phase picture rank_ended host_done phase end", 124, []string{"-np", "1", "--timeout", "0.1", "sleep", "1000"}},
		{"too-many", "end", 2, []string{"-H", "a:1", "-np", "2", "true"}},
		{"no-hostfile", "end", 2, []string{"-hostfile", "/nonexistent/hosts", "true"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ev")
			start(t, append([]string{"--events", file}, tt.args...)...).end(tt.code)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			names := checkEvents(t, string(text))
			// Processes are looked at 0.2 s after the start and when a rank ends: anywhere in a short job.
			names = slices.DeleteFunc(names, func(name string) bool { return name == "environment" })
			got := strings.Join(names, " ")
			if !regexp.MustCompile("^" + tt.want + "$").MatchString(got) {
				t.Errorf("got %s; want %s", got, tt.want)
			}
			if want := fmt.Sprintf(`"event":"end","exit_code":%d`, tt.code); !strings.Contains(string(text), want) {
				t.Errorf("got %s; want %s in it", text, want)
			}
		})
	}
}

// TestMachinesEventsAsDocumented: what launcher's scripts show agrees with
// docs/events.md, and everything there is seen in them or above.
func TestMachinesEventsAsDocumented(t *testing.T) {
	files, err := filepath.Glob("../../launcher/testdata/machine/events-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	files = append(files, "../../launcher/testdata/machine/preflight-drops.txt")
	seen := map[string]bool{"start": true, "host_connected": true, "warning": true, "picture": true, "environment": true, "end": true}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if event, ok := strings.CutPrefix(strings.TrimSpace(line), "{"); ok {
				for _, name := range checkEvents(t, `{"v":1,"t":"2026-01-01T00:00:00Z","elapsed_ns":0,`+event+"\n") {
					seen[name] = true
				}
			}
		}
	}
	// No script of the machine has this one, which the run itself records.
	differs, err := encodeEvent(launcher.Event{Event: "environment_differs", V: 1, T: time.Now().UTC(), Text: "a line", Message: []string{"who has which"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range checkEvents(t, string(differs)) {
		seen[name] = true
	}
	for name := range eventTable(t) {
		if !seen[name] {
			t.Errorf("docs/events.md has %s, which no test shows", name)
		}
	}
}

// stuckWriter takes nothing until it is closed.
type stuckWriter struct{ gate chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.gate
	return 0, io.ErrClosedPipe
}

func TestEventLog(t *testing.T) {
	tests := map[string]struct {
		to   func() io.Writer
		want string // in the error
	}{
		"written":   {func() io.Writer { return &bytes.Buffer{} }, ""},
		"full-disk": {func() io.Writer { return mustOpen(t, "/dev/full") }, "no space left on device"},
		"stuck":     {func() io.Writer { return stuckWriter{make(chan struct{})} }, "did not take them within 2s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := tt.to()
				l, err := openEvents("-", w, hideABC)
				if err != nil {
					t.Fatal(err)
				}
				l.add(launcher.Event{Event: "warning", Text: "a\xff<\n--token=abc"})
				synctest.Wait()
				err = l.close(launcher.Event{Event: "end", Exit: new(0)}, 2*time.Second)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %v; want %q", err, tt.want)
				}
				if b, ok := w.(*bytes.Buffer); ok {
					if got := strings.Join(checkEvents(t, b.String()), " "); got != "warning end" {
						t.Errorf("got %s", got)
					}
					if !strings.Contains(b.String(), `"text":"a\ufffd<\n--token=<hidden>"`) {
						t.Errorf("got %s", b)
					}
				}
				if w, ok := w.(stuckWriter); ok {
					close(w.gate)
					<-l.done
				}
			})
		})
	}
}

func hideABC(s string) string { return strings.ReplaceAll(s, "abc", "<hidden>") }

func mustOpen(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestEventsOfASlowReader: what is kept for it has a limit.
func TestEventsOfASlowReader(t *testing.T) {
	w := stuckWriter{make(chan struct{})}
	l, err := openEvents("-", w, hideABC)
	if err != nil {
		t.Fatal(err)
	}
	e := launcher.Event{Event: "warning", Text: strings.Repeat("x", 1<<20)}
	for range maxEvents>>20 + 4 {
		l.add(e)
	}
	l.mu.Lock()
	n, failed := len(l.queue), l.err
	l.mu.Unlock()
	if n > maxEvents || failed == nil || !strings.Contains(failed.Error(), "too slow") {
		t.Errorf("got %d bytes kept, error %v", n, failed)
	}
	close(w.gate)
	l.close(launcher.Event{}, time.Minute)
}

func TestOpenEvents(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("reader-comes-late", func(t *testing.T) {
		read := make(chan string)
		time.AfterFunc(100*time.Millisecond, func() {
			text, _ := os.ReadFile(pipe)
			read <- string(text)
		})
		l, err := openEvents(pipe, nil, hideABC)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.close(launcher.Event{Event: "end", Exit: new(0)}, time.Minute); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := checkEvents(t, <-read); fmt.Sprint(got) != "[end]" {
			t.Errorf("got %q", got)
		}
	})
	for name, tt := range map[string]struct{ path, want string }{
		"pipe-without-a-reader": {pipe, "a pipe needs a reader"},
		"directory":             {dir, "is a directory"},
		"nowhere":               {filepath.Join(dir, "no", "ev"), "no such file"},
		"closed":                {"/dev/fd/987", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openEvents(tt.path, nil, hideABC)
			if _, ok := errors.AsType[*usageError](err); !ok || !strings.HasPrefix(err.Error(), "--events "+tt.path+": ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}
