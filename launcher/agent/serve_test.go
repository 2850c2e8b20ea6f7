package agent

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

func TestRunsRanks(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, sh("echo out; echo err >&2; exit 3"), sh("kill -SEGV $$"), sh("pwd"))
	pids := h.run(p)
	if len(pids) != 3 || slices.Contains(pids, 0) {
		t.Fatalf("pids %v; want three", pids)
	}
	if x := h.exit(0); x.Code != 3 || x.Signal != 0 || x.ByStop || x.At <= 0 {
		t.Errorf("rank 0 %+v; want code 3", x)
	}
	if x := h.exit(1); x.Code != 0 || x.Signal != int(unix.SIGSEGV) {
		t.Errorf("rank 1 %+v; want SIGSEGV", x)
	}
	for _, want := range []struct {
		rank, which int
		text        string
	}{{0, wire.Out, "out\n"}, {0, wire.Err, "err\n"}, {1, wire.Out, ""}, {2, wire.Out, string(p.Dir) + "\n"}} {
		if got := h.text(want.rank, want.which); got != want.text {
			t.Errorf("rank %d stream %d: got %q; want %q", want.rank, want.which, got, want.text)
		}
	}
	if d := h.stop(time.Minute); len(d.Killed) > 0 {
		t.Errorf("killed %v; want none", d.Killed)
	}
	h.until("the end of the link", func() bool { return h.ended })
	for i, m := range h.msgs { // exits never come before the pids they belong to
		if m.Exited != nil && !slices.ContainsFunc(h.msgs[:i], func(m wire.Message) bool { return m.Started != nil }) {
			t.Error("an exit came before started")
		}
	}
}

// Many ranks that end at once are all reported, once each, with their own codes.
func TestManyRanks(t *testing.T) {
	t.Parallel()
	const ranks = 64
	var args [][]string
	for n := range ranks {
		args = append(args, sh(fmt.Sprintf("echo %d; exit %d", n, n)))
	}
	h := startAgent(t, launch{})
	h.run(newPlan(t, args...))
	for n := range ranks {
		if x := h.exit(n); x.Code != n || x.Signal != 0 || x.ByStop {
			t.Errorf("rank %d: %+v", n, x)
		}
		if got := h.text(n, wire.Out); got != fmt.Sprintln(n) {
			t.Errorf("rank %d wrote %q", n, got)
		}
	}
	h.stop(0)
	h.until("the end of the link", func() bool { return h.ended })
	seen, last := map[int]bool{}, time.Duration(0)
	for _, m := range h.msgs {
		if m.Exited == nil {
			continue
		}
		if seen[m.Exited.Rank] || m.Exited.At < last {
			t.Errorf("%+v: a second time, or earlier than the one before", m.Exited)
		}
		seen[m.Exited.Rank], last = true, m.Exited.At
	}
}

func TestArgumentsUnchanged(t *testing.T) {
	t.Parallel()
	args := []string{"", "a b", `q"'q`, "$HOME `x` \\", "new\nline", "\xff\xfe\x01", "-x", "é"}
	h := startAgent(t, launch{})
	h.run(newPlan(t, self(append([]string{"args"}, args...)...)))
	var got []string
	for line := range strings.Lines(h.text(0, wire.Out)) {
		s, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(args, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	h.stop(0)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{env: []string{"NCCL_OLD=1", "RANK=7", "SESSION=s", "TAKEN=t", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22"}})
	p := newPlan(t, []string{"env", "-0"})
	p.Env = append(p.Env, wire.Bytes("NCCL_DEBUG=INFO"), wire.Bytes("RAW=\xff\xfe\n"), wire.Bytes("TWICE=1"))
	p.Unset = []string{"TAKEN"}
	p.Ranks[0].Env = append(p.Ranks[0].Env, wire.Bytes("TWICE=2"), wire.Bytes("RANK=0"))
	h.run(p)
	env := strings.Split(h.text(0, wire.Out), "\x00")
	for _, want := range []string{
		"SESSION=s", "NCCL_DEBUG=INFO", "RAW=\xff\xfe\n", "TWICE=2", "RANK=0", "GORUN_JOB_ID=" + p.JobID,
		"GORUN_EXE=" + os.Args[0], "PWD=" + string(p.Dir), "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
	for _, name := range []string{"NCCL_OLD", "TAKEN", "OLDPWD"} {
		if v, ok := lookup(env, name); ok {
			t.Errorf("%s=%s is there; want none", name, v)
		}
	}
	if h.hello.SSHServer != "127.0.0.1" || h.hello.RouteAddr != "127.0.0.1" {
		t.Errorf("hello: ssh server %q, route %q; want 127.0.0.1", h.hello.SSHServer, h.hello.RouteAddr)
	}
	h.stop(0)
}

// Whatever the session ignored, blocked, left open or limited, a rank starts clean.
func TestRankStartsClean(t *testing.T) {
	t.Parallel()
	extra, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	script := `trap "" INT HUP PIPE TSTP TTIN TTOU USR1; ulimit -Sn 64; exec env --block-signal=USR2,ALRM "$@"`
	h := startAgent(t, launch{wrap: []string{"bash", "-c", script, "bash"}, files: []*os.File{extra}})
	h.run(newPlan(t, []string{"cat", "/proc/self/status"}, []string{"ls", "-l", "/proc/self/fd"}, sh("ulimit -Sn; ulimit -Hn"), sh("ulimit -Sl; ulimit -Hl")))
	status := h.text(0, wire.Out)
	for _, name := range []string{"SigBlk", "SigIgn"} {
		_, rest, _ := strings.Cut(status, name+":\t")
		word, _, _ := strings.Cut(rest, "\n")
		// Signals 32 and 33 are the C library's own: posix_spawn, by which make starts
		// programs, leaves them ignored, and Go does not touch them.
		if mask, err := strconv.ParseUint(word, 16, 64); err != nil || mask&^(3<<31) != 0 {
			t.Errorf("%s is %q; want no signal of a program's in\n%s", name, word, status)
		}
	}
	if fds := h.text(1, wire.Out); strings.Count(fds, " -> ") != 4 || !strings.Contains(fds, "0 -> /dev/null") {
		t.Errorf("descriptors are\n%s; want stdin from /dev/null, two pipes, and that of ls itself", fds)
	}
	files := strings.Fields(h.text(2, wire.Out))
	soft, _ := strconv.Atoi(files[0])
	hard, err := strconv.Atoi(files[1])
	if err != nil {
		hard = maxFiles // unlimited
	}
	if soft != min(hard, maxFiles) {
		t.Errorf("open files: soft %s, hard %s; want soft %d", files[0], files[1], min(hard, maxFiles))
	}
	if lock := strings.Fields(h.text(3, wire.Out)); lock[0] != lock[1] {
		t.Errorf("locked memory: soft %s, hard %s; want them equal", lock[0], lock[1])
	}
	h.stop(0)
}

func TestSameMachineTwice(t *testing.T) {
	t.Parallel()
	a, b := startAgent(t, launch{}), startAgent(t, launch{})
	p := newPlan(t, sh("echo ran"))
	p.Nodes = 2
	if f := a.prepare(p); len(f) > 0 {
		t.Fatalf("first agent: %+v", f)
	}
	p.Node = 1
	got := b.prepare(p)
	if len(got) != 1 || got[0].Rank != -1 || got[0].Code != 125 || got[0].Text != "is the same machine as " || got[0].Twin == nil || *got[0].Twin != 0 {
		t.Errorf("second agent: %+v; want the same machine as node 0", got)
	}
	b.stop(0)
	a.tell(wire.Message{Start: &wire.Start{}})
	if out := a.text(0, wire.Out); out != "ran\n" {
		t.Errorf("first agent's rank wrote %q; want ran", out)
	}
	a.stop(0)
}

func TestHoldsPort(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	port := h.hello.Port
	p := newPlan(t, []string{"sleep", "1000"})
	p.HoldPort = true
	h.run(p)
	addr := &unix.SockaddrInet4{Port: port}
	try := func(reuse int) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, reuse)
		if err := unix.Bind(fd, addr); err != nil {
			return err
		}
		return unix.Listen(fd, 1)
	}
	if err := try(0); err != unix.EADDRINUSE {
		t.Errorf("a stranger binds port %d: %v; want %v", port, err, unix.EADDRINUSE)
	}
	if err := try(1); err != nil {
		t.Errorf("rank 0's server on port %d: %v", port, err)
	}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		t.Errorf("a Go server on port %d: %v", port, err)
	} else {
		l.Close()
	}
	h.stop(0)
	if err := try(0); err != nil {
		t.Errorf("port %d after the job: %v", port, err)
	}
}

func TestPortDropped(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, []string{"sleep", "1000"}))
	fd, err := bindPort(h.hello.Port)
	if err != nil {
		t.Errorf("port %d: %v; want it free, as the plan does not hold it", h.hello.Port, err)
	} else {
		unix.Close(fd)
	}
	h.stop(0)
}

func TestSignalReachesGroup(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh(`trap 'echo parent' USR1; (trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.05; done) & wait; wait`)))
	h.shows(0, "ready\n")
	h.tell(wire.Message{Signal: &wire.Signal{Num: int(unix.SIGUSR1)}})
	h.shows(0, "parent\n")
	h.shows(0, "child\n")
	h.stop(0)
}

// A head may be suspended before it has a plan for this host.
func TestPauseBeforeThePlan(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.tell(wire.Message{Pause: &wire.Pause{On: true}})
	h.tell(wire.Message{Pause: &wire.Pause{}})
	h.run(newPlan(t, sh("echo on we go")))
	if got := h.text(0, wire.Out); got != "on we go\n" {
		t.Errorf("got %q", got)
	}
	h.stop(0)
}

func TestPause(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, self("daemon"), []string{"sleep", "1000"})
	pids := h.run(p)
	daemon := h.pid(0, "daemon ")
	h.tell(wire.Message{Pause: &wire.Pause{On: true}})
	stopped := func(pid int) bool { p, ok := readProc(pid); return ok && p.state == 'T' }
	eventually(t, "stopped ranks", func() bool { return stopped(pids[1]) && stopped(daemon) })
	h.quiet() // as a suspended head
	var beats int
	h.look(func() { beats = h.beats })
	// The first may come at once, but each later one two seconds after that before it.
	h.until("heartbeats of the agent for longer than LostAfter", func() bool { return h.beats > beats+1+int(p.LostAfter/(2*time.Second)) })
	h.tell(wire.Message{Pause: &wire.Pause{}})
	eventually(t, "ranks that run again", func() bool {
		h.send.Send(wire.Frame{Kind: wire.Heartbeat}) // it is heard again
		return !stopped(pids[1]) && !stopped(daemon)
	})
	h.stop(0)
}

// A program that vanishes between prepare and start is reported as a rank's end.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, []string{"./prog"}, sh("echo fine"))
	path := string(p.Dir) + "/prog"
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if f := h.prepare(p); len(f) > 0 {
		t.Fatalf("prepare: %+v", f)
	}
	os.Remove(path)
	h.tell(wire.Message{Start: &wire.Start{}})
	pids := message(h, "started", func(m wire.Message) *wire.Started { return m.Started }).PIDs
	if pids[0] != 0 || pids[1] == 0 {
		t.Errorf("pids %v; want 0 for rank 0 only", pids)
	}
	if x := h.exit(0); x.Code != 127 || !strings.Contains(x.Text, "no such file") {
		t.Errorf("rank 0 %+v; want 127, no such file", x)
	}
	if out := h.text(0, wire.Out); out != "" {
		t.Errorf("rank 0 wrote %q", out)
	}
	if out := h.text(1, wire.Out); out != "fine\n" {
		t.Errorf("rank 1 wrote %q; want fine", out)
	}
	h.stop(0)
}

// What the session had started before the agent is not the job's.
func TestAlienChildSurvives(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{wrap: []string{"sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo $! >"$0"; exec "$@"`, t.TempDir() + "/pid"}})
	b, err := os.ReadFile(h.cmd.Args[3])
	if err != nil {
		t.Fatal(err)
	}
	alien, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	h.run(newPlan(t, []string{"sleep", "1000"}))
	h.stop(time.Second)
	if !alive(alien) {
		t.Error("the session's own process was killed")
	}
	unix.Kill(alien, unix.SIGKILL)
}

// Nor is what the session's own process had started: it becomes our child when that ends.
func TestAlienOrphanSurvives(t *testing.T) {
	t.Parallel()
	script := `mkfifo "$0.fifo"; { sleep 1000 & echo $! >"$0"; read x <"$0.fifo"; } >/dev/null 2>&1 & until test -s "$0"; do sleep 0.01; done; exec "$@"`
	h := startAgent(t, launch{wrap: []string{"sh", "-c", script, t.TempDir() + "/pid"}})
	b, err := os.ReadFile(h.cmd.Args[3])
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	h.run(newPlan(t, []string{"sleep", "1000"}))
	if err := os.WriteFile(h.cmd.Args[3]+".fifo", []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan's new parent", func() bool { p, _ := readProc(orphan); return p.ppid == h.cmd.Process.Pid })
	h.stop(time.Second)
	if !alive(orphan) {
		t.Error("the session's own process was killed")
	}
	unix.Kill(orphan, unix.SIGKILL)
}

// The head's answers reach the store, the ranks' questions the head.
func TestStoreFrames(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, self("store"))
	p.Ranks[0].Env = append(p.Ranks[0].Env, wire.Bytes("GORUN_SIZE=1"), wire.Bytes("GORUN_STORE=unix:"+jobDir(p.JobID)+"/store"))
	h.run(p)
	h.until("a request", func() bool { return len(h.store) > 0 })
	req, err := rendezvous.ParseRequest(h.store[0])
	if err != nil || req.Op != "put" || req.Key != "key" || string(req.Value) != "value" || req.Rank != 0 {
		t.Errorf("request %+v, %v; want rank 0's put", req, err)
	}
	h.send.Send(wire.Frame{Kind: wire.Store, Payload: rendezvous.Reply{ID: req.ID}.Append(nil)})
	if got := h.text(0, wire.Out); got != "put\n" {
		t.Errorf("rank 0 wrote %q, %q; want put", got, h.text(0, wire.Err))
	}
	h.stop(0)
}
