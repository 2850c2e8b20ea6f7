package facts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a source over a new directory that holds files: names that end in "/" are
// directories, and contents that begin with "-> " are symbolic links.
func tree(t *testing.T, files map[string]string) *source {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(content, "-> ")
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &source{root: root, access: access, run: noProgram}
}

func noProgram(_ context.Context, name string, _ ...string) ([]byte, error) {
	return nil, errors.New(name + " was run")
}

func TestSourceRead(t *testing.T) {
	s := tree(t, map[string]string{
		"sys/small":  " 12\n",
		"sys/hex":    "0x10de\n",
		"sys/big":    strings.Repeat("x", 10000),
		"sys/link":   "-> small",
		"dev/nv2":    "",
		"dev/nv10":   "",
		"dev/nvctl":  "",
		"sys/empty":  "",
		"sys/a/b/c/": "",
	})
	if err := unix.Mkfifo(s.at("/sys/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.text("/sys/small"); got != "12" {
		t.Errorf("text: got %q; want 12", got)
	}
	if n, ok := s.number("/sys/hex"); n != 0x10de || !ok {
		t.Errorf("number: got %#x, %v; want 0x10de", n, ok)
	}
	if _, ok := s.number("/sys/empty"); ok {
		t.Error("an empty file has a number")
	}
	if b, err := s.read("/sys/big", 9000); len(b) != 9000 || err != nil {
		t.Errorf("read of a large file: got %d bytes, %v; want 9000", len(b), err)
	}
	if b, err := s.read("/sys/pipe", 100); len(b) != 0 || err != nil {
		t.Errorf("read of a pipe: got %q, %v; want nothing", b, err)
	}
	if _, err := s.read("/sys/none", 100); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/sys/none") || strings.Contains(err.Error(), s.root) {
		t.Errorf("read of no file: got %v", err)
	}
	if _, err := s.read("/sys/a", 100); err == nil {
		t.Error("read of a directory: got no error")
	}
	if got, want := s.numbered("/dev", "nv"), []int{2, 10}; !slices.Equal(got, want) {
		t.Errorf("numbered: got %v; want %v", got, want)
	}
	if got := s.real("/sys/link"); got != "/sys/small" {
		t.Errorf("real: got %q; want /sys/small", got)
	}
	if got := s.link("/sys/link"); got != "small" {
		t.Errorf("link: got %q; want small", got)
	}
	if got := s.list("/none"); got != nil {
		t.Errorf("list of no directory: got %v", got)
	}
}

func TestSourceProgram(t *testing.T) {
	s := tree(t, map[string]string{"usr/lib/wsl/lib/nvidia-smi": "#!", "usr/bin/dir/": "", "opt/bin/locked": ""})
	if got := s.program("nvidia-smi"); got != "/usr/lib/wsl/lib/nvidia-smi" {
		t.Errorf("got %q", got)
	}
	if got := s.program("dir"); got != "" {
		t.Errorf("a directory as a program: got %q", got)
	}
	if err := os.Chmod(s.at("/opt/bin/locked"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.program("locked"); got != "" {
		t.Errorf("a file that may not be run: got %q", got)
	}
}

// script is a program for runProgram.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stand-in")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunProgram(t *testing.T) {
	for _, test := range []struct {
		name, script, out, err string
		code                   int
	}{
		{"well", "echo hello; echo words >&2", "hello\n", "", 0},
		{"code-and-words", "echo out; echo ' it\tfailed ' >&2; exit 9", "out\n", "stand-in ended with code 9: it failed", 9},
		{"words-on-stdout", "echo 'No devices were found'; exit 6", "No devices were found\n", "stand-in ended with code 6: No devices were found", 6},
		{"signal", "kill -SEGV $$", "", "stand-in was ended by segmentation fault", 139},
		{"child-holds-output", "sleep 60 & echo hello", "hello\n", "", 0},
		{"child-left-group", "setsid sleep 3 & echo hello", "hello\n", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			begin := time.Now()
			out, err := runProgram(t.Context(), script(t, test.script))
			if string(out) != test.out {
				t.Errorf("output: got %q; want %q", out, test.out)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.err {
				t.Errorf("error: got %q; want %q", got, test.err)
			}
			if exit, _ := errors.AsType[*exitError](err); exit != nil && exit.code != test.code {
				t.Errorf("code: got %d; want %d", exit.code, test.code)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestRunProgramMissing(t *testing.T) {
	if _, err := runProgram(t.Context(), "/none/nvidia-smi"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v; want not exist", err)
	}
}

func TestRunProgramLimit(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	path := script(t, `trap '' TERM INT HUP
sleep 60 & echo $! >> `+pids+`
(trap '' TERM; echo partial; sleep 61) & echo $$ $! >> `+pids+`
wait`)
	why := errors.New("no answer in 300ms")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, why)
	defer cancel()
	begin := time.Now()
	out, err := runProgram(ctx, path)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v; want about 300ms", took)
	}
	if !errors.Is(err, why) || errors.Is(err, errHung) {
		t.Errorf("error: got %v; want %v", err, why)
	}
	if string(out) != "partial\n" {
		t.Errorf("output: got %q; want partial", out)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		awaitGone(t, pid)
	}
}

// awaitGone fails if a process is still alive after a while.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	limit := time.After(3 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-limit:
			t.Errorf("process %d is still there", pid)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestRunProgramCapsOutput(t *testing.T) {
	t.Parallel()
	out, err := runProgram(t.Context(), script(t, "head -c 20000000 /dev/zero"))
	if len(out) != maxOutput || err != nil {
		t.Errorf("got %d bytes, %v; want %d", len(out), err, maxOutput)
	}
}

func TestBrief(t *testing.T) {
	if got, want := brief(" a\x1b[31m\n\t b\u202e "), "a[31m b"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if got := brief(strings.Repeat("x", 400)); len(got) != 303 {
		t.Errorf("got %d bytes; want 303", len(got))
	}
}
