package agent

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/launcher/wire"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	tail := " S 7 42 42 0 -1 4194560 1 0 0 0 10 20 300 4000 20 0 5 0 987654 5000000 100\n"
	want := func(comm string) proc {
		return proc{pid: 42, ppid: 7, pgrp: 42, state: 'S', start: 987654, own: 30, ticks: 4330, threads: 5, comm: comm}
	}
	tests := []struct {
		name, line string
		want       proc
		ok         bool
	}{
		{"plain", "42 (sh)" + tail, want("sh"), true},
		{"blank", "42 (my prog)" + tail, want("my prog"), true},
		{"parentheses", "42 (a) R 1 (b)" + tail, want("a) R 1 (b"), true},
		{"no-name", "42" + tail, proc{}, false},
		{"cut", "42 (sh) S 7 42", proc{}, false},
		{"no-pid", "(sh)" + tail, proc{}, false},
		{"bad-pid", "-4 (sh)" + tail, proc{}, false},
		{"reversed", ") 42 (" + tail, proc{}, false},
		{"empty", "", proc{}, false},
	}
	for _, tt := range tests {
		got, ok := parseStat([]byte(tt.line))
		if ok != tt.ok || (ok && got != tt.want) {
			t.Errorf("%s: got %+v, %v; want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestReadProc(t *testing.T) {
	p, ok := readProc(os.Getpid())
	if !ok || p.pid != os.Getpid() || p.ppid != os.Getppid() || !p.live() || p.start == 0 {
		t.Errorf("got %+v, %v; want this process", p, ok)
	}
	if !slices.Contains(processes(), p) && !slices.ContainsFunc(processes(), func(q proc) bool { return q.pid == p.pid }) {
		t.Error("this process is not in the list of all")
	}
	if _, ok := readProc(1 << 30); ok {
		t.Error("a process that cannot exist was found")
	}
}

// Kernels without CONFIG_PROC_CHILDREN get the same answer the long way.
func TestChildren(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if !hasChildren() {
		t.Error("no children; want one")
	}
	for name, list := range map[string][]int{"file": children(), "scan": childrenByScan(os.Getpid())} {
		if !slices.Contains(list, cmd.Process.Pid) {
			t.Errorf("by %s: %v; want %d in it", name, list, cmd.Process.Pid)
		}
	}
}

func TestBelow(t *testing.T) {
	all := []proc{{pid: 1}, {pid: 10, ppid: 1}, {pid: 11, ppid: 10}, {pid: 12, ppid: 11}, {pid: 20, ppid: 10}, {pid: 21, ppid: 20}, {pid: 30, ppid: 1},
		{pid: 40, ppid: 41}, {pid: 41, ppid: 40}} // torn by pids that were used again meanwhile
	pids := func(ps []proc) (out []int) {
		for _, p := range ps {
			out = append(out, p.pid)
		}
		slices.Sort(out)
		return out
	}
	got := pids(below(all, map[int]bool{10: true, 40: true}, map[int]bool{20: true}))
	if diff := cmp.Diff([]int{11, 12, 41}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"0123456789abcdef": true, "ABCDEF01": true, strings.Repeat("f", 64): true,
		"": false, "1234567": false, strings.Repeat("f", 65): false, "../../../../etc": false, "0123456 ": false, "0123456é": false,
	} {
		if got := validID(id); got != want {
			t.Errorf("%q: got %v; want %v", id, got, want)
		}
	}
}

func TestWhose(t *testing.T) {
	tests := []struct {
		name, environ string
		want          owner
	}{
		{"ours", "A=1\x00GORUN_JOB_ID=0123abcd\x00B=2\x00", ownerOurs},
		{"ours-alone", "GORUN_JOB_ID=0123abcd", ownerOurs},
		{"other", "GORUN_JOB_ID=0123abcde\x00", ownerOther},
		{"prefix-only", "GORUN_JOB_ID=0123\x00", ownerOther},
		{"another-name", "XGORUN_JOB_ID=0123abcd\x00GORUN_JOB_IDS=0123abcd\x00", ownerUnknown},
		{"in-a-value", "A=GORUN_JOB_ID=0123abcd\x00", ownerUnknown},
		{"none", "", ownerUnknown},
	}
	for _, tt := range tests {
		if got := whose([]byte(tt.environ), "0123abcd"); got != tt.want {
			t.Errorf("%s: got %v; want %v", tt.name, got, tt.want)
		}
	}
}

func TestSweepSparesOwnLine(t *testing.T) {
	up := ancestors(os.Getpid())
	if !up[os.Getpid()] || !up[os.Getppid()] {
		t.Errorf("ancestors %v; want this process and its parent", up)
	}
}

func TestEnding(t *testing.T) {
	e := newEnding()
	if isClosed(e.begun) {
		t.Fatal("begun without an order")
	}
	e.order("", exitDone, time.Hour)
	if !isClosed(e.begun) || e.left() < time.Minute {
		t.Errorf("left %v; want an hour", e.left())
	}
	e.order("later", 9, 2*time.Hour)
	if why, code := e.reason(); why != "" || code != exitDone || e.left() > time.Hour {
		t.Errorf("a second order changed the first: %q, %d, %v", why, code, e.left())
	}
	e.order("", exitDone, time.Minute)
	if e.left() > time.Minute || len(e.moved) != 1 {
		t.Errorf("left %v; want a minute, and to be told", e.left())
	}
	e.order("", exitDone, -time.Second)
	if e.left() > 0 || isClosed(e.hurry) {
		t.Error("no grace: want none left, and output still sent")
	}
	e.drain()
	e.order("", exitDone, 0)
	if !isClosed(e.hurry) || isClosed(e.gone) {
		t.Error("no grace while output is left: want it given up")
	}
	e.lose("gone", 0)
	e.lose("gone again", 0)
	if why, code := e.reason(); why != "gone" || code != exitLost || !isClosed(e.gone) {
		t.Errorf("after the loss: %q, %d; want gone, %d", why, code, exitLost)
	}
}

func TestEndByLoss(t *testing.T) {
	e := newEnding()
	e.lose("cut", time.Minute)
	if why, code := e.reason(); why != "cut" || code != exitLost || !isClosed(e.hurry) || e.left() <= 0 {
		t.Errorf("got %q, %d, %v; want the grace, and output given up", why, code, e.left())
	}
}

func TestFold(t *testing.T) {
	f := func(rank int, text string) wire.Failure { return wire.Failure{Rank: rank, Code: 127, Text: text} }
	tests := []struct {
		name     string
		failures []wire.Failure
		ranks    int
		want     []wire.Failure
	}{
		{"none", nil, 2, nil},
		{"all", []wire.Failure{f(4, "x"), f(5, "x")}, 2, []wire.Failure{f(-1, "x")}},
		{"one-of-one", []wire.Failure{f(4, "x")}, 1, []wire.Failure{f(-1, "x")}},
		{"one-of-two", []wire.Failure{f(5, "x")}, 2, []wire.Failure{f(5, "x")}},
		{"two-kinds", []wire.Failure{f(7, "x"), f(5, "y"), f(6, "x")}, 3, []wire.Failure{f(6, "x (and 1 more of this host's ranks)"), f(5, "y")}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, fold(tt.failures, tt.ranks)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// However many ranks fail, and however long the reasons, the head takes the message.
func TestFailuresAreShort(t *testing.T) {
	var failures []wire.Failure
	for i := range 1000 {
		failures = append(failures, wire.Failure{Rank: i, Code: 127, Text: strconv.Itoa(i) + strings.Repeat("<&>é", 30_000)})
	}
	out := fold(failures, len(failures))
	f, err := wire.Encode(wire.Message{Prepared: &wire.Prepared{Failures: out}})
	if err != nil || len(f.Payload) > wire.MaxReport {
		t.Errorf("%d bytes, %v; want at most %d", len(f.Payload), err, wire.MaxReport)
	}
	if got := out[len(out)-1].Text; !strings.HasSuffix(got, "… (and 968 more failures)") {
		t.Errorf("got %q at the end; want the number of the others", got[len(got)-40:])
	}
}

func TestClean(t *testing.T) {
	if got := clean("a\x1b[31mb\nc\u0085d\x7fé"); got != "a?[31mb?c?d?é" {
		t.Errorf("got %q", got)
	}
}

func TestOpenFiles(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := openFiles(); !slices.Contains(got, int(f.Fd())) || slices.Contains(got, 2) {
		t.Errorf("got %v; want %d, and not 2", got, f.Fd())
	}
}

func TestProcText(t *testing.T) {
	if got, want := (proc{pid: 4711, comm: "py\x1bthon", state: 'D'}).String(), "pid 4711 (py?thon) in state D"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// Only what exec says about the program is the program's fault.
func TestExecCode(t *testing.T) {
	tests := map[error]int{
		unix.ENOENT: codeNotFound, unix.EACCES: codeCannotRun, unix.EAGAIN: codeOurs,
		&startError{codeOurs, "standard streams: no such file or directory"}: codeOurs,
	}
	for err, want := range tests {
		if got := execCode(err); got != want {
			t.Errorf("%v: got %d; want %d", err, got, want)
		}
	}
}
