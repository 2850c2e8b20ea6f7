package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUsage has mistakes that are found before any host is asked.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	good := write(t, dir, "good", "node1 slots=2\nnode2 slots=2\n")
	empty := write(t, dir, "empty", "")
	comments := write(t, dir, "comments", "# no host\n\n")
	binary := write(t, dir, "binary", "\x7fELF\x02\x01\x01\x00\x00\xff\xfe\x00\n")
	bad := write(t, dir, "bad", "node1 slots=2\nnode[3-1] slots=2\n")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"np-zero", []string{"-np", "0", "-hostfile", good, "true"}, "-np"},
		{"np-negative", []string{"-np", "-1", "-hostfile", good, "true"}, "-np"},
		{"np-too-many", []string{"-np", "99999", "-hostfile", good, "true"}, "need 99999 slots, hosts offer 4"},
		{"np-word", []string{"-np", "many", "-hostfile", good, "true"}, "many"},
		{"hostfile-empty", []string{"-hostfile", empty, "true"}, empty},
		{"hostfile-comments-only", []string{"-hostfile", comments, "true"}, comments},
		{"hostfile-binary", []string{"-hostfile", binary, "true"}, binary},
		{"hostfile-directory", []string{"-hostfile", dir, "true"}, "directory"},
		{"hostfile-missing", []string{"-hostfile", dir + "/none", "true"}, dir + "/none"},
		{"hostfile-bad-range", []string{"-hostfile", bad, "true"}, bad + ":2:"},
		{"no-program", []string{"-hostfile", good}, "program"},
		{"flag-of-another-launcher", []string{"--rankfile", "ranks", "-hostfile", good, "true"}, "--rankfile"},
		{"variable-too-long", []string{"-H", "node1", "-genv", "LONG", strings.Repeat("x", 131070), "true"}, "131071"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, tt.args)
			e.want(t, 2)
			if text := strings.ReplaceAll(e.stderr, "131,071", "131071"); !strings.Contains(text, tt.want) {
				t.Errorf("stderr lacks %q:\n%s", tt.want, shorten(e.stderr))
			}
			if e.stdout != "" {
				t.Errorf("stdout %q; want nothing", e.stdout)
			}
		})
	}
}

// TestCannotStart spoils one host of two so that its ranks cannot start: none may.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	good, bad := nodes[0], nodes[1]
	const path = "/var/tmp/thing"
	tests := []struct {
		name  string
		spoil string // run as root on the bad host, where the good one has a program and a directory
		args  []string
		code  int
		want  []string
	}{
		{"program-missing", "rm " + path, []string{path}, 127, []string{path, "not found"}},
		{"program-missing-in-path", "rm " + path, []string{"-x", "PATH=/var/tmp:/usr/bin:/bin", "thing"}, 127, []string{`"thing"`, "/var/tmp:/usr/bin:/bin"}},
		{"not-executable", "chmod 644 " + path, []string{path}, 126, []string{path, "permission denied"}},
		{"program-is-a-directory", "rm " + path + "; mkdir " + path, []string{path}, 126, []string{path, "directory"}},
		{"directory-missing", "rmdir /var/tmp/dir", []string{"-wdir", "/var/tmp/dir", "echo", "started"}, 125, []string{"/var/tmp/dir", "no such file"}},
		{"directory-forbidden", "chmod 700 /var/tmp/dir", []string{"-wdir", "/var/tmp/dir", "echo", "started"}, 125, []string{"/var/tmp/dir", "permission denied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, host := range nodes {
				testbed(t, "root", host, "sh", "-c", "mkdir /var/tmp/dir; printf '#!/bin/sh\\necho started\\n' >"+path+"; chmod 755 "+path)
			}
			t.Cleanup(func() {
				for _, host := range nodes {
					testbed(t, "root", host, "sh", "-c", "rm -rf /var/tmp/dir "+path)
				}
			})
			testbed(t, "root", bad, "sh", "-c", tt.spoil)
			e := gorun(t, append([]string{"-H", good + ":2," + bad + ":2"}, tt.args...))
			e.want(t, tt.code, append(tt.want, bad)...)
			e.wantWithin(t, soon)
			if e.stdout != "" {
				t.Errorf("stdout %q; want nothing started on the good host", e.stdout)
			}
			if strings.Contains(e.stderr, good) {
				t.Errorf("stderr names the good host:\n%s", e.stderr)
			}
		})
	}
}

// TestRankFails has ranks that end badly while the others would run for long.
func TestRankFails(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=4")
	const others = "; exec sleep 1000"
	tests := []struct {
		name   string
		script string
		code   int
		want   []string
		absent []string
	}{
		{"segv", `[ $GORUN_RANK = 2 ] && kill -SEGV $$` + others, 139, []string{"rank 2 on " + nodes[0] + " killed by SIGSEGV", "7 other ranks stopped"}, nil},
		{"exit-3-on-rank-5", `[ $GORUN_RANK = 5 ] && { echo the reason >&2; exit 3; }` + others, 3,
			[]string{"rank 5 on " + nodes[1] + " exited with code 3", "7 other ranks stopped", "last lines of rank 5:", "the reason"}, nil},
		{"last-lines-of-stdout", `[ $GORUN_RANK = 5 ] && { echo printed, not logged; exit 4; }` + others, 4, []string{"last lines of rank 5:", "  printed, not logged"}, nil},
		{"own-125", `[ $GORUN_RANK = 1 ] && exit 125` + others, 125, []string{"rank 1 on " + nodes[0] + " exited with code 125"}, nil},
		{"shebang-missing", `[ $GORUN_RANK = 6 ] && exec /no/such/interpreter` + others, 127, []string{"rank 6"}, nil},
		{"killed-by-somebody", `[ $GORUN_RANK = 7 ] && kill -KILL $$` + others, 137, []string{"rank 7 on " + nodes[1] + " killed by SIGKILL", "gorun did not send that KILL"}, nil},
		{"while-others-write", `[ $GORUN_RANK = 0 ] && { sleep 0.3; exit 9; }; exec yes`, 9, []string{"rank 0 on " + nodes[0] + " exited with code 9"}, []string{"rank 1 on"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, sh([]string{"-hostfile", file}, tt.script))
			e.want(t, tt.code, tt.want...)
			e.wantWithin(t, soon)
			for _, text := range tt.absent {
				if strings.Contains(e.stderr, text) {
					t.Errorf("stderr has %q:\n%s", text, shorten(e.stderr))
				}
			}
			for _, host := range nodes {
				checkClean(t, host)
			}
		})
	}
}

// Ranks 3 and 4, on two hosts, fail at once, behind a barrier. One of them is the
// headline; the other has failed by itself too, or was stopped first.
func TestTwoFailuresAtOnce(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=4")},
		`$GORUN_EXE store barrier || exit 99; case $GORUN_RANK in 3|4) exit 1$GORUN_RANK; esac; exec sleep 1000`))
	first := regexp.MustCompile(`(?m)^gorun: rank (3|4) on (\S+) exited with code 1(3|4), \S+ m?s after start; (1 other rank failed too; 6|7) other ranks stopped$`).FindStringSubmatch(e.stderr)
	if first == nil || first[1] != first[3] || strings.Count(e.stderr, "exited with code") != 1 {
		t.Fatalf("no headline that tells of both failures:\n%s", shorten(e.stderr))
	}
	rank, _ := strconv.Atoi(first[1])
	e.want(t, 10+rank)
	if want := nodes[rank-3]; first[2] != want {
		t.Errorf("rank %d on %s; want %s", rank, first[2], want)
	}
}

func TestKeepGoing(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2"), "--keep-going"}, `[ $GORUN_RANK = 1 ] && exit 3; sleep 1; echo rank $GORUN_RANK to the end`))
	e.want(t, 3, "rank 1 on "+nodes[0]+" exited with code 3")
	if n := strings.Count(e.stdout, "to the end\n"); n != 3 {
		t.Errorf("%d ranks ran to their end; want 3:\n%s", n, e.stdout)
	}
}

func TestIgnoresTerm(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2"), "--kill-grace", "1s"},
		`[ $GORUN_RANK = 0 ] && { sleep 1; exit 7; }; [ $GORUN_RANK = 2 ] && trap '' TERM; while :; do sleep 1; done`))
	e.want(t, 7, "rank 0 on "+nodes[0]+" exited with code 7", "rank 2 did not end by TERM within 1s and had to be killed")
	e.wantWithin(t, soon)
}

// A rank that leaves its session and group twice is still found: the agent is its reaper.
func TestDaemonises(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	const daemon = `setsid sh -c 'setsid sleep 1000 & sleep 1000 &' </dev/null >/dev/null 2>&1; `
	t.Run("success", func(t *testing.T) {
		e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=1"), "--kill-grace", "1s"}, daemon+"echo done"))
		e.want(t, 0)
		e.wantWithin(t, soon)
		for _, host := range nodes {
			checkClean(t, host)
		}
	})
	t.Run("failure", func(t *testing.T) {
		e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=1"), "--kill-grace", "1s"}, daemon+"exit 5"))
		e.want(t, 5)
		e.wantWithin(t, soon)
	})
	// Its output's pipe is held open by the daemon: that must not keep gorun.
	t.Run("holds-the-pipe", func(t *testing.T) {
		e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=1"), "--kill-grace", "1s"}, `setsid sleep 1000 & echo done`))
		e.want(t, 0)
		e.wantWithin(t, soon)
		if n := strings.Count(e.stdout, "done\n"); n != 2 {
			t.Errorf("got %q; want done twice", e.stdout)
		}
	})
}

// A file in shared memory that no rank has mapped is somebody else's.
func TestOthersSharedMemoryStays(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	testbed(t, "exec", nodes[0], "sh", "-c", "echo theirs >/dev/shm/theirs")
	gorun(t, []string{"-H", nodes[0], "false"}).want(t, 1)
	if got := files(t, nodes[0], "/dev/shm"); len(got) != 1 || got[0] != "theirs" {
		t.Errorf("/dev/shm has %v; want theirs alone", got)
	}
	testbed(t, "exec", nodes[0], "rm", "/dev/shm/theirs")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, []string{"-hostfile", hostfile(t, nodes, "slots=2"), "--timeout", "1s", "sleep", "1000"})
	e.want(t, 124, "timeout", "4 ranks stopped")
	e.wantWithin(t, soon)
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	dir := shared(t)
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	testbed(t, "root", "node0", "mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", out)
	t.Cleanup(func() { testbed(t, "root", "node0", "umount", "-l", out) })
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=1"), "--output-dir", out}, "head -c 1000000 /dev/zero; echo rank $GORUN_RANK >&2"))
	e.want(t, 125, "no space left on device", out)
	e.wantWithin(t, soon)
}

// It is found before any host is asked.
func TestOutputDirUnusable(t *testing.T) {
	t.Parallel()
	need(t)
	for name, dir := range map[string]string{"not-writable": "/etc/out", "takes-no-files": "/proc/out", "is-a-file": "/etc/passwd"} {
		t.Run(name, func(t *testing.T) {
			e := gorun(t, []string{"-H", "nosuch", "--output-dir", dir, "echo", "started"})
			e.want(t, 2, dir)
			if strings.Contains(e.stderr, "nosuch") {
				t.Errorf("a host was asked:\n%s", e.stderr)
			}
		})
	}
}

func TestResultFile(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	path := filepath.Join(shared(t), "result.json")
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=1"), "--result", path}, `[ $GORUN_RANK = 1 ] && exit 3; exec sleep 1000`))
	e.want(t, 3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"exit_code": 3`, `"first_failure"`, nodes[1], fmt.Sprintf(`"name": %q`, nodes[0])} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the result lacks %s:\n%s", want, text)
		}
	}
}
