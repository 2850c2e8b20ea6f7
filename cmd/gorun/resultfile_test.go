package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gorun/launcher"
)

func TestWriteResult(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o640), os.Symlink("r.json", link)); err != nil {
		t.Fatal(err)
	}
	res := &launcher.Result{JobID: "j1", Ranks: []launcher.RankResult{{Rank: 0, Host: "a", State: launcher.StateExited, Code: 3}}}
	f := resultFile{Gorun: "v1", ExitCode: 3, Message: []string{"m"}, Command: []string{"app"}, Result: res}
	if err := writeResult(link, f); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if got["job_id"] != "j1" || got["exit_code"] != 3.0 || len(got["ranks"].([]any)) != 1 {
		t.Errorf("got %s", data)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the symbolic link was replaced: %v", err)
	}
	if err := writeResult("/dev/null", f); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	if err := writeResult(filepath.Join(dir, "no", "r.json"), f); err == nil {
		t.Error("no error for a directory that is missing")
	}
}

// TestWriteResultTo looks at places that are no plain file.
func TestWriteResultTo(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"real", "real/sub"} {
		if err := os.Mkdir(in(name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"dangling": "real/new.json", "dir": "real/sub", "real/sub/up": "../up.json", "loop": "loop", "astray": "no/x"} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(in("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 255)
	tests := map[string]struct {
		path string
		want string // the file that is there then; "" for an error
	}{
		"dangling":     {"dangling", "real/new.json"},
		"up":           {"dir/up", "real/up.json"}, // not up.json beside dir
		"long":         {long, long},
		"too-long":     {long + "n", ""},
		"loop":         {"loop", ""},
		"astray":       {"astray", ""},
		"unread-fifo":  {"fifo", ""},
		"no-directory": {"none/r.json", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := writeResult(in(tt.path), resultFile{})
			if (err == nil) != (tt.want != "") {
				t.Fatalf("got error %v", err)
			}
			if info, err := os.Lstat(in(tt.want)); tt.want != "" && (err != nil || !info.Mode().IsRegular()) {
				t.Errorf("%s: %v", tt.want, err)
			}
			if err := checkResult(in(tt.path)); name != "unread-fifo" && (err == nil) != (tt.want != "") {
				t.Errorf("got %v of the check before the job", err)
			}
		})
	}
}

func TestFailuresInTheResult(t *testing.T) {
	hosts := failuresOf(&launcher.HostsError{Hosts: []launcher.HostFailure{{Host: "a", Err: errors.New("gone")}}}, options{})
	if len(hosts) != 1 || hosts[0].Host != "a" || hosts[0].Text != "gone" || hosts[0].Rank != nil {
		t.Errorf("got %+v", hosts)
	}
	ranks := failuresOf(&launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: "a", Rank: 0, Code: 127, Text: `"API_KEY =hunter2" not found`}, {Host: "b", Rank: -1, Code: 125}}},
		options{program: []string{"API_KEY =hunter2"}})
	if len(ranks) != 2 || ranks[0].Rank == nil || *ranks[0].Rank != 0 || ranks[1].Rank != nil || ranks[0].Text != `"API_KEY <hidden>" not found` || ranks[1].Code != 125 {
		t.Errorf("got %+v", ranks)
	}
}
