package agent

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

func TestStopGivesGrace(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh(`trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done`), sh("kill -STOP $$; exit 3")))
	h.shows(0, "ready\n")
	d := h.stop(testLimit)
	if x := h.exit(0); x.Code != 7 || !x.ByStop {
		t.Errorf("rank 0 %+v; want code 7, by stop", x)
	}
	if x := h.exit(1); x.Signal != int(unix.SIGTERM) || !x.ByStop { // TERM reaches it as it was continued
		t.Errorf("stopped rank 1 %+v; want SIGTERM, by stop", x)
	}
	if len(d.Killed) > 0 {
		t.Errorf("killed %v; want none", d.Killed)
	}
	if out := h.text(0, wire.Out); out != "ready\nbye\n" {
		t.Errorf("rank 0 wrote %q; want its last words", out)
	}
}

func TestStopKillsStubborn(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	pids := h.run(newPlan(t, []string{"sleep", "1000"}, self("stubborn"), self("daemon"), sh("trap '' TERM; sleep 1000 & exit 0")))
	h.pid(1, "stubborn ")
	daemon := h.pid(2, "daemon ")
	h.pid(2, "stubborn ")
	if x := h.exit(2); x.Code != 0 || x.ByStop {
		t.Errorf("rank 2 %+v; want 0", x)
	}
	h.exit(3)
	// Who ends by TERM has all the time for it, the others a little after that.
	h.tell(wire.Message{Stop: &wire.Stop{Grace: time.Hour}})
	h.exit(0)
	d := h.stop(300 * time.Millisecond)
	if want := []int{1, 3}; !slices.Equal(d.Killed, want) {
		t.Errorf("killed %v; want %v", d.Killed, want)
	}
	if x := h.exit(1); x.Signal != int(unix.SIGKILL) || !x.ByStop {
		t.Errorf("rank 1 %+v; want SIGKILL, by stop", x)
	}
	log := message(h, "log", func(m wire.Message) *wire.Log { return m.Log })
	if !strings.Contains(log.Text, "outside of the ranks' process groups") {
		t.Errorf("log %+v; want the daemon's name", log)
	}
	wantGone(t, append(pids, daemon)...)
}

func TestSecondStopShortens(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, self("stubborn")))
	h.pid(0, "stubborn ")
	h.tell(wire.Message{Stop: &wire.Stop{Grace: time.Hour}})
	if d := h.stop(0); !slices.Equal(d.Killed, []int{0}) {
		t.Errorf("killed %v; want rank 0", d.Killed)
	}
}

// A stop that overtakes the start leaves no rank behind, started or not.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	var args [][]string
	for range 64 {
		args = append(args, []string{"sleep", "1000"})
	}
	for _, grace := range []time.Duration{0, testLimit} {
		h := startAgent(t, launch{})
		p := newPlan(t, args...)
		if f := h.prepare(p); len(f) > 0 {
			t.Fatalf("prepare: %+v", f)
		}
		h.tell(wire.Message{Start: &wire.Start{}})
		if grace > 0 {
			message(h, "started", func(m wire.Message) *wire.Started { return m.Started })
		}
		h.stop(grace)
		s := &sweeper{id: p.JobID, envs: map[procKey]owner{}}
		if left := s.find(); len(left) > 0 {
			t.Errorf("grace %v: left behind: %v", grace, left)
		}
		h.until("the end of the link", func() bool { return h.ended })
		started, exited := false, 0
		for _, m := range h.msgs {
			started = started || m.Started != nil
			if m.Exited != nil {
				exited++
			}
		}
		if started && exited != len(args) {
			t.Errorf("grace %v: %d exits; want %d", grace, exited, len(args))
		}
	}
}

// Processes that lose their parent become the agent's, and do not stay as zombies.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	pids := h.run(newPlan(t, sh("for i in 1 2 3 4 5 6 7 8; do (sh -c 'sleep 0.1' &); done; echo spawned; exec sleep 1000")))
	h.shows(0, "spawned\n")
	below := func() (n int) {
		for _, p := range processes() {
			if p.ppid == h.cmd.Process.Pid && p.pid != pids[0] {
				n++
			}
		}
		return n
	}
	eventually(t, "no child but the rank", func() bool { return below() == 0 })
	h.stop(0)
}

func TestStopBeforePlan(t *testing.T) {
	t.Parallel()
	startAgent(t, launch{}).stop(0)
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	if f := h.prepare(newPlan(t, sh("echo no"))); len(f) > 0 {
		t.Fatalf("prepare: %+v", f)
	}
	h.stop(0)
}

func TestRemovesInstallDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/" + installPrefix + "0123456789abcdef"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h := startAgent(t, launch{args: []string{"--remove", dir}})
	h.stop(0)
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// However the link ends, nothing of the job may outlive it by more than the grace.
func TestLinkLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(h *head)
		want string // in stderr
	}{
		{"closed", func(h *head) { h.stdin.Close() }, "gorun is gone"},
		{"silent", func(h *head) { h.quiet() }, "was silent for"},
		{"garbage", func(h *head) { h.stdin.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "unknown frame kind"},
		{"unknown-message", func(h *head) { h.send.Send(wire.Frame{Kind: wire.Control, Payload: []byte(`{"news":{}}`)}) }, "unknown kind"},
		{"second-plan", func(h *head) { h.send.SendMessage(wire.Message{Plan: newPlan(h.t, sh(""))}) }, "second plan"},
		{"second-start", func(h *head) {
			h.send.SendMessage(wire.Message{Start: &wire.Start{}})
			h.send.SendMessage(wire.Message{Start: &wire.Start{}})
		}, "second start"},
		{"foreign-stream", func(h *head) { h.send.Send(wire.CreditFrame(wire.StreamID(99, wire.Out), 1)) }, "credit for stream"},
		{"stdin-without-credit", func(h *head) {
			h.send.Send(wire.Frame{Kind: wire.Stdin, Stream: wire.StreamID(0, wire.In), Payload: make([]byte, 100)})
			for range 1 << 14 {
				h.send.Send(wire.Frame{Kind: wire.Stdin, Stream: wire.StreamID(0, wire.In), Payload: make([]byte, 100)})
			}
		}, "beyond its credit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := startAgent(t, launch{})
			p := newPlan(t, self("daemon"), sh("echo $$; exec sleep 1000"))
			p.Grace = 100 * time.Millisecond
			p.Ranks[0].Stdin = true
			pids := h.run(p)
			daemon := h.pid(0, "daemon ")
			h.pid(0, "stubborn ")
			tt.lose(h)
			if code := h.code(); code == 0 {
				t.Errorf("exit code 0; want a failure")
			}
			if got := h.stderr.String(); !strings.Contains(got, tt.want) {
				t.Errorf("stderr %q; want %q", got, tt.want)
			}
			wantGone(t, append(pids, daemon)...)
		})
	}
}

// A head that no longer reads must not keep the agent from stopping its ranks.
func TestHeadDoesNotRead(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"silent", "closed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := startAgent(t, launch{noRead: true})
			p := newPlan(t, sh(`echo $$ >pid; exec cat /dev/zero`))
			p.Credit, p.Grace = 1<<30, 100*time.Millisecond
			h.tell(wire.Message{Plan: p})
			h.tell(wire.Message{Start: &wire.Start{}})
			var b []byte
			eventually(t, "the rank's pid", func() bool {
				b, _ = os.ReadFile(string(p.Dir) + "/pid")
				return len(b) > 1
			})
			if how == "silent" {
				h.quiet()
			} else {
				h.stdin.Close()
			}
			if code := h.code(); code != exitLost {
				t.Errorf("exit code %d; want %d", code, exitLost)
			}
		})
	}
}

func TestSignalToAgent(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]unix.Signal{"TERM": unix.SIGTERM, "INT": unix.SIGINT, "HUP": unix.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startAgent(t, launch{})
			pids := h.run(newPlan(t, []string{"sleep", "1000"}))
			h.cmd.Process.Signal(sig)
			h.done()
			if x := h.exit(0); !x.ByStop {
				t.Errorf("rank 0 %+v; want by stop", x)
			}
			if code := h.code(); code != 128+int(sig) {
				t.Errorf("exit code %d; want %d", code, 128+int(sig))
			}
			wantGone(t, pids...)
		})
	}
}

// A pipe that somebody else holds open, or even writes to, does not hold up the end
// for ever.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy-%v", busy), func(t *testing.T) {
			t.Parallel()
			h := startAgent(t, launch{})
			h.run(newPlan(t, sh("echo $$; exec sleep 1000")))
			f, err := os.OpenFile("/proc/"+h.line(0, "")+"/fd/1", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("foreign\n"); err != nil {
				t.Fatal(err)
			}
			var writer sync.WaitGroup
			if busy {
				writer.Go(func() {
					for err == nil { // until the agent gives the pipe up
						_, err = f.Write(make([]byte, 4096))
					}
				})
			}
			h.stop(0)
			h.shows(0, "foreign\n")
			if !busy {
				h.text(0, wire.Out)
			}
			writer.Wait()
			f.Close()
		})
	}
}

// kill -9 of the agent: the kernel ends the ranks, the sweep what they have left;
// another job on the host is not touched.
func TestSweep(t *testing.T) {
	t.Parallel()
	h, other := startAgent(t, launch{}), startAgent(t, launch{})
	shm := shmDir + "/gorun-test-" + newPlan(t).JobID
	p := newPlan(t, self("daemon"), []string{"sleep", "1000"}, self("shm", shm))
	pids := h.run(p)
	daemon := h.pid(0, "daemon ")
	h.pid(0, "stubborn ")
	q := newPlan(t, []string{"sleep", "1000"})
	otherPIDs := other.run(q)
	install := "/var/tmp/" + installPrefix + p.JobID
	if err := os.Mkdir(install, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the list of shared memory", func() bool { return len(readShmList(jobDir(p.JobID))) > 0 })

	h.cmd.Process.Kill()
	h.code()
	eventually(t, "the ranks' end", func() bool { return !alive(pids[1]) })
	if !alive(daemon) {
		t.Error("the daemon has gone by itself; the sweep has nothing to do")
	}
	out, err := exec.Command(os.Args[0], "agent", "sweep", p.JobID).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "killed 1 process") {
		t.Errorf("sweep: %v, %q; want one process killed", err, out)
	}
	wantGone(t, append(pids, daemon)...)
	for _, path := range []string{jobDir(p.JobID), install, shm} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left", path)
		}
	}
	if !alive(otherPIDs[0]) {
		t.Error("the other job's rank was killed")
	}
	other.stop(0)
}

// An agent that is stopped does not see that its head has gone: the sweep ends it too.
func TestSweepStoppedAgent(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, []string{"sleep", "1000"})
	pids := h.run(p)
	h.cmd.Process.Signal(unix.SIGSTOP)
	out, err := exec.Command(os.Args[0], "agent", "sweep", p.JobID).CombinedOutput()
	if err != nil {
		t.Errorf("sweep: %v, %q", err, out)
	}
	h.code()
	wantGone(t, pids...)
	if _, err := os.Lstat(jobDir(p.JobID)); !os.IsNotExist(err) {
		t.Errorf("%s is left", jobDir(p.JobID))
	}
}

// A gorun inside a rank has its own job, which is ended by its own agent.
func TestSweepSparesNestedJob(t *testing.T) {
	t.Parallel()
	p, nested := newPlan(t), newPlan(t)
	script := "GORUN_JOB_ID=" + nested.JobID + " sleep 1000 & echo $!; (exec env -i sleep 1000) & exec sleep 1000"
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "GORUN_JOB_ID="+p.JobID)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(inner, unix.SIGKILL)
	own := []byte("GORUN_JOB_ID=" + nested.JobID)
	eventually(t, "the processes of both jobs", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", inner))
		return bytes.Contains(b, own) && len(below(processes(), map[int]bool{cmd.Process.Pid: true}, nil)) == 2
	})
	killed, err := Sweep(t.Context(), p.JobID)
	if err != nil || killed != 2 { // the one without an environment is found as a child
		t.Errorf("killed %d, %v; want 2", killed, err)
	}
	if !alive(inner) {
		t.Error("the nested job's process was killed")
	}
}

func TestStopWhilePaused(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	pids := h.run(newPlan(t, []string{"sleep", "1000"}))
	h.tell(wire.Message{Pause: &wire.Pause{On: true}})
	eventually(t, "the stopped rank", func() bool { p, _ := readProc(pids[0]); return p.state == 'T' })
	h.stop(testLimit)
	if x := h.exit(0); x.Signal != int(unix.SIGTERM) {
		t.Errorf("rank 0 %+v; want SIGTERM", x)
	}
}

func TestSweepRefusesBadID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "..", "../../etc", "abc", "0123456789abcdeg", "01234567/", strings.Repeat("a", 65)} {
		if _, err := Sweep(t.Context(), id); err == nil {
			t.Errorf("job id %q is accepted", id)
		}
	}
}
