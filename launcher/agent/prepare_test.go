package agent

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// foreignELF is the head of a program for a machine that is not this one.
func foreignELF() string {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	machine := uint16(183)
	if runtime.GOARCH == "arm64" {
		machine = 62
	}
	binary.LittleEndian.PutUint16(b[18:], machine)
	return string(b)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

type findTest struct {
	name, program, path string
	want                string // path below the working directory
	code                int
	text                string
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/script", "#!/bin/sh\n", 0o755)
	write(t, dir+"/plain", "#!/bin/sh\n", 0o644)
	write(t, dir+"/bad", "#! /no/such/sh -e\n", 0o755)
	write(t, dir+"/crlf", "#!/bin/sh\r\necho\r\n", 0o755)
	write(t, dir+"/text", "echo hello\n", 0o755)
	write(t, dir+"/empty", "", 0o755)
	write(t, dir+"/foreign", foreignELF(), 0o755)
	write(t, dir+"/one/tool", "#!/bin/sh\n", 0o644)
	write(t, dir+"/two/tool", "#!/bin/sh\n", 0o755)
	write(t, dir+"/one/only", "#!/bin/sh\n", 0o644)
	write(t, dir+"/one/dir/x", "", 0o644)
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	tests := []findTest{
		{"absolute", dir + "/script", "", "/script", 0, ""},
		{"relative", "./script", "", "/./script", 0, ""},
		{"in-path", "tool", dir + "/two", "/two/tool", 0, ""},
		{"passed-over", "tool", dir + "/one:" + dir + "/two", "/two/tool", 0, ""},
		{"relative-path", "tool", "two", "/two/tool", 0, ""},
		{"empty-path-entry", "script", "/nowhere:", "/script", 0, ""},
		{"missing", "nonesuch", "/nowhere:/usr/nowhere", "", 127, `program "nonesuch" not found; PATH searched: /nowhere:/usr/nowhere`},
		{"missing-slash", "./nonesuch", "", "", 127, `program "./nonesuch" not found in directory ` + dir},
		{"through-a-file", "./script/x", "", "", 127, "not found"},
		{"no-name", "", "/bin", "", 127, "empty"},
		{"directory", "./one", "", "", 126, "is a directory"},
		{"directory-in-path", "dir", dir + "/one", "", 127, "not found"},
		{"device", "/dev/null", "", "", 126, "no regular file"},
		{"not-executable", "./plain", "", "", 126, "permission denied"},
		{"not-executable-in-path", "only", dir + "/one:" + dir + "/two", "", 126, "permission denied"},
		{"bad-interpreter", "./bad", "", "", 126, `bad interpreter "/no/such/sh"`},
		{"cr-lf", "./crlf", "", "", 126, "CR LF"},
		{"no-interpreter", "./text", "", "", 126, "exec format error"},
		{"empty", "./empty", "", "", 126, "empty"},
		{"other-machine", "./foreign", "", "", 126, "this host is " + runtime.GOARCH},
		{"link-to-itself", "./loop", "", "", 126, "symbolic links"},
	}
	if foreignFormats() { // this kernel may be able to run them
		tests = slices.DeleteFunc(tests, func(tt findTest) bool {
			return slices.Contains([]string{"no-interpreter", "empty", "other-machine"}, tt.name)
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findProgram(tt.program, dir, tt.path, true)
			if tt.code == 0 {
				if err != nil || got != dir+tt.want {
					t.Errorf("got %q, %v; want %q", got, err, dir+tt.want)
				}
				return
			}
			se, ok := err.(*startError)
			if !ok || se.code != tt.code || !strings.Contains(se.text, tt.text) {
				t.Errorf("got %q, %#v; want code %d, %q", got, err, tt.code, tt.text)
			}
		})
	}
}

func TestFindProgramWithoutPath(t *testing.T) {
	if got, err := findProgram("sh", "/", "", false); err != nil || !strings.HasSuffix(got, "/sh") {
		t.Errorf("sh without PATH: %q, %v", got, err)
	}
	if got, err := findProgram("sh", "/nowhere", "", true); err == nil {
		t.Errorf("sh with an empty PATH: %q; want only the working directory searched", got)
	}
}

func TestLoaderMissing(t *testing.T) {
	b, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	b = b[:headLen]
	p, err := inspect(b, machines(runtime.GOARCH))
	if err != nil || !strings.HasPrefix(p.interpreter, "/lib") || !exists(p.interpreter) {
		t.Fatalf("/bin/sh: loader %q, %v; want one in /lib", p.interpreter, err)
	}
	path := t.TempDir() + "/prog"
	write(t, path, strings.Replace(string(b), "/lib", "/xyz", 1), 0o755)
	if err := format(path); err == nil || !strings.Contains(err.Error(), "dynamic loader") {
		t.Errorf("got %v; want a missing dynamic loader", err)
	}
}

func TestPrepareFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/ok", "#!/bin/sh\n", 0o755)
	write(t, dir+"/file", "", 0o644)
	long := strings.Repeat("x", envsync.MaxString+1)
	tests := []struct {
		name  string
		ranks [][]string
		edit  func(p *wire.Plan)
		want  []wire.Failure // Text: a part of it
	}{
		{"all-missing", [][]string{{"nonesuch"}, {"nonesuch"}}, nil, []wire.Failure{{Rank: -1, Code: 127, Text: "PATH searched: "}}},
		{"some-missing", [][]string{{"./ok"}, {"./no"}, {"./no"}, {"./file"}}, nil, []wire.Failure{
			{Rank: 1, Code: 127, Text: "(and 1 more of this host's ranks)"}, {Rank: 3, Code: 126, Text: "permission denied"},
		}},
		{"no-directory", [][]string{{"sh"}, {"sh"}}, func(p *wire.Plan) { p.Dir = wire.Bytes("/no/such\ndir") },
			[]wire.Failure{{Rank: -1, Code: 125, Text: `working directory "/no/such\ndir": no such file or directory`}}},
		{"directory-is-file", [][]string{{"sh"}}, func(p *wire.Plan) { p.Dir = wire.Bytes(dir + "/file") },
			[]wire.Failure{{Rank: -1, Code: 125, Text: "is no directory"}}},
		{"relative-directory", [][]string{{"sh"}}, func(p *wire.Plan) { p.Dir = wire.Bytes(".") },
			[]wire.Failure{{Rank: -1, Code: 125, Text: "not absolute"}}},
		{"ranks-own-path", [][]string{{"ok"}, {"ok"}}, func(p *wire.Plan) {
			p.Env = append(p.Env, wire.Bytes("PATH=/nowhere"))
			p.Ranks[1].Env = append(p.Ranks[1].Env, wire.Bytes("PATH="+dir))
		}, []wire.Failure{{Rank: 0, Code: 127, Text: "PATH searched: /nowhere"}}},
		{"nul", [][]string{{"./ok", "a\x00b"}, {"./ok"}}, func(p *wire.Plan) {
			p.Ranks[1].Env = append(p.Ranks[1].Env, wire.Bytes("X=\x00"))
		}, []wire.Failure{{Rank: 0, Code: 126, Text: "argument 1 has a NUL byte"}, {Rank: 1, Code: 126, Text: `"X" has a NUL`}}},
		{"long-argument", [][]string{{"./ok", long}}, nil, []wire.Failure{{Rank: -1, Code: 126, Text: "at most 131071"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlan(t, tt.ranks...)
			p.Dir = wire.Bytes(dir)
			if tt.edit != nil {
				tt.edit(p)
			}
			j, err := newJob(p, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := j.check(os.Environ(), "/exe")
			for i := range min(len(got), len(tt.want)) {
				if strings.Contains(got[i].Text, tt.want[i].Text) {
					got[i].Text = tt.want[i].Text
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A failed prepare starts nothing, and leaves nothing.
func TestPrepareFails(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, sh("echo $$ >ran"), []string{"nonesuch"})
	got := h.prepare(p)
	if len(got) != 1 || got[0].Rank != 1 || got[0].Code != 127 {
		t.Errorf("prepared %+v; want rank 1, 127", got)
	}
	h.tell(wire.Message{Start: &wire.Start{}})
	h.stop(0)
	if exists(string(p.Dir) + "/ran") {
		t.Error("rank 0 was started")
	}
}

func TestJobDirectoryTaken(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, sh(""))
	if err := os.Mkdir(jobDir(p.JobID), 0o700); err != nil {
		t.Fatal(err)
	}
	got := h.prepare(p)
	if len(got) != 1 || got[0].Rank != -1 || got[0].Code != 125 || !strings.Contains(got[0].Text, jobDir(p.JobID)) {
		t.Errorf("prepared %+v; want 125, the directory's name", got)
	}
	h.stop(0)
	if err := os.Remove(jobDir(p.JobID)); err != nil {
		t.Errorf("the directory that another made: %v; want it untouched", err)
	}
}

func TestNewJobRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(p *wire.Plan)
	}{
		{"job-id", func(p *wire.Plan) { p.JobID = "../../../etc/passwd" }},
		{"no-job-id", func(p *wire.Plan) { p.JobID = "" }},
		{"no-ranks", func(p *wire.Plan) { p.Ranks = nil }},
		{"negative-rank", func(p *wire.Plan) { p.Ranks[0].Rank = -1 }},
		{"rank-beyond-size", func(p *wire.Plan) { p.Ranks[0].Rank = 2 }},
		{"rank-twice", func(p *wire.Plan) { p.Ranks[0].Rank = 1 }},
		{"no-arguments", func(p *wire.Plan) { p.Ranks[0].Args = nil }},
		{"no-nodes", func(p *wire.Plan) { p.Nodes = 0 }},
		{"negative-credit", func(p *wire.Plan) { p.Credit = -1 }},
	}
	for _, tt := range tests {
		p := newPlan(t, sh(""), sh(""))
		if _, err := newJob(p, nil, nil); err != nil {
			t.Fatal(err)
		}
		tt.edit(p)
		if _, err := newJob(p, nil, nil); err == nil {
			t.Errorf("%s: the plan was accepted", tt.name)
		}
	}
}

func TestTwin(t *testing.T) {
	tests := []struct {
		name  string
		bound []string
		want  twinError
	}{
		{"known", []string{"@gorun-1.0", "@gorun-1", "@gorun-1.1", "@other"}, 1},
		{"only-own", []string{"@gorun-1.0", "@gorun-1"}, -1},
		{"nonsense", []string{"@gorun-1.-1", "@gorun-1.x", "@gorun-12.2"}, -1},
	}
	for _, tt := range tests {
		if got := twin("@gorun-1", 0, tt.bound); got != tt.want {
			t.Errorf("%s: got %d; want %d", tt.name, got, tt.want)
		}
	}
}

func TestRemoveInstallRefuses(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/" + installPrefix + "0123456789abcdef"
	write(t, file, "", 0o600)
	link := dir + "/" + installPrefix + "fedcba9876543210"
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, "/", "/etc", installPrefix + "0123456789abcdef", dir + "/" + installPrefix + "..", file, link} {
		if err := removeInstall(path); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	if !exists(file) || !exists(link) {
		t.Error("what is no install directory was removed")
	}
	if err := removeInstall(dir + "/" + installPrefix + "00000000"); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// What the session or the job sets is not set again, and the head learns what was.
func TestLack(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{env: []string{"IN_SESSION=session", "EMPTY="}})
	p := newPlan(t, []string{"sh", "-c", "echo $IN_SESSION,$EMPTY,$IN_JOB,$NOWHERE"}, []string{"true"})
	p.Env = append(p.Env, wire.Bytes("IN_JOB=job"))
	for i := range p.Ranks {
		for _, name := range []string{"IN_SESSION", "EMPTY", "IN_JOB", "NOWHERE"} {
			p.Ranks[i].Lack = append(p.Ranks[i].Lack, wire.Bytes(name+"=lack"))
		}
	}
	h.run(p)
	got := message(h, "prepared", func(m wire.Message) *wire.Prepared { return m.Prepared }).Lacked
	if !slices.Equal(got, []string{"NOWHERE"}) {
		t.Errorf("told %q; want NOWHERE, once", got)
	}
	if out := h.text(0, wire.Out); out != "session,,job,lack\n" {
		t.Errorf("the rank has %q", out)
	}
	h.stop(0)
}
