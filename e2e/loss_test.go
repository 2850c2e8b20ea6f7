package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is a script whose ranks tell that they run, and then would stay for long.
const running = `: >"$1/rank.$GORUN_RANK"; exec sleep 1000`

// startRanks starts such a job and waits until all of its ranks run.
func startRanks(t *testing.T, n int, args []string, setups ...setup) *job {
	t.Helper()
	return startScript(t, n, args, running, setups...)
}

// startScript waits until n ranks have made their file in the directory $1.
func startScript(t *testing.T, n int, args []string, script string, setups ...setup) *job {
	t.Helper()
	dir := shared(t)
	j := start(t, append(sh(args, script), "sh", dir), setups...)
	within(t, 30*time.Second, fmt.Sprintf("%d ranks running", n), func() bool {
		select {
		case <-j.ended:
			t.Fatalf("gorun has ended: %s", j.err.String())
		default:
		}
		made, _ := filepath.Glob(filepath.Join(dir, "rank.*"))
		return len(made) == n
	})
	return j
}

// agents lists the gorun processes of a host.
func agents(t *testing.T, host string) []process {
	t.Helper()
	var found []process
	for _, p := range processes(t, host) {
		if strings.Contains(p.command, "gorun agent") || strings.Contains(p.command, " agent ") {
			found = append(found, p)
		}
	}
	return found
}

func TestGorunKilled(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startRanks(t, 4, []string{"-hostfile", hostfile(t, nodes, "slots=2")})
	j.signal(syscall.SIGKILL)
	if e := j.wait(5 * time.Second); e.code != 137 {
		t.Errorf("exit code %d; want 137", e.code)
	}
	// hosts checks that the ranks go; those that ignore TERM after the grace:
	j = startScript(t, 2, []string{"-hostfile", hostfile(t, nodes, "slots=1"), "--kill-grace", "1s"}, `trap '' TERM; : >"$1/rank.$GORUN_RANK"; while :; do sleep 1; done`)
	j.signal(syscall.SIGKILL)
	j.wait(5 * time.Second)
}

// The local host's agent hangs on a pipe, not on a connection.
func TestGorunKilledLocally(t *testing.T) {
	t.Parallel()
	need(t)
	j := startRanks(t, 2, []string{"-np", "2", "--oversubscribe"})
	mine := func() (n int) {
		for _, p := range processes(t, "node0") {
			if strings.Contains(p.environ, "GORUN_RANK=") && strings.HasPrefix(p.command, "sleep 1000") {
				n++
			}
		}
		return n
	}
	within(t, 10*time.Second, "two ranks on node0", func() bool { return mine() == 2 }) // the shells become sleep
	j.signal(syscall.SIGKILL)
	j.wait(5 * time.Second)
	within(t, 10*time.Second, "no rank left on node0", func() bool { return mine() == 0 })
}

// An agent is ended in a job's middle, or stopped: the host is lost, and nothing is left
// there.
func TestAgentSignalled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		signal syscall.Signal
		want   string
	}{
		{"killed", syscall.SIGKILL, "agent"},
		{"told-to-stop", syscall.SIGTERM, "gorun's agent was told to stop there"},
		{"stopped", syscall.SIGSTOP, "silent for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := hosts(t, 2)
			args := []string{"-hostfile", hostfile(t, nodes, "slots=2"), "--lost-after", "5s"}
			j := startScript(t, 4, args, `setsid sleep 1000 & `+running)
			found := agents(t, nodes[1])
			if len(found) == 0 {
				t.Fatalf("no agent among %+v", processes(t, nodes[1]))
			}
			for _, p := range found {
				syscall.Kill(p.pid, tt.signal)
			}
			e := j.wait(30 * time.Second)
			e.want(t, 125, "host lost: "+nodes[1], tt.want)
		})
	}
}

func TestHostCrashed(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	j := startRanks(t, 6, []string{"-hostfile", hostfile(t, nodes, "slots=2"), "--lost-after", "5s"})
	testbed(t, "crash", nodes[1])
	t.Cleanup(func() { testbed(t, "boot", nodes[1]) })
	begun := time.Now()
	e := j.wait(30 * time.Second)
	e.want(t, 125, "host lost: "+nodes[1], "2 ranks lost", "4 ranks stopped")
	if took := time.Since(begun); took > patience(15*time.Second) {
		t.Errorf("took %v after the crash; want about 5 s", took)
	}
}

func TestLinkCut(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startRanks(t, 4, []string{"-hostfile", hostfile(t, nodes, "slots=2"), "--lost-after", "5s", "--kill-grace", "1s"})
	testbed(t, "cut", nodes[1])
	e := j.wait(30 * time.Second)
	e.want(t, 125, "host lost: "+nodes[1], "silent for")
	// The host behind the cut helps itself, without the link.
	within(t, 15*time.Second, "no rank left on "+nodes[1], func() bool {
		for _, p := range processes(t, nodes[1]) {
			if strings.HasPrefix(p.command, "sleep") {
				return false
			}
		}
		return true
	})
}

// Packets vanish, but the link stays up: nobody tells either side.
func TestBlackholeWhileRunning(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startRanks(t, 4, []string{"-hostfile", hostfile(t, nodes, "slots=2"), "--lost-after", "5s", "--kill-grace", "1s"})
	testbed(t, "mute", nodes[0])
	e := j.wait(30 * time.Second)
	e.want(t, 125, "host lost: "+nodes[0], "silent for")
}

func TestSignals(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=2")
	stubborn := `trap 'echo got $GORUN_RANK' TERM INT; : >"$1/rank.$GORUN_RANK"; while :; do sleep 0.2; done`
	tests := []struct {
		name    string
		args    []string
		script  string
		signals []syscall.Signal
		code    int
		want    []string
		within  time.Duration
	}{
		{"interrupt", nil, running, []syscall.Signal{syscall.SIGINT}, 130, nil, 5 * time.Second},
		{"terminate", nil, running, []syscall.Signal{syscall.SIGTERM}, 143, nil, 5 * time.Second},
		{"hang-up", nil, running, []syscall.Signal{syscall.SIGHUP}, 129, nil, 5 * time.Second},
		{"interrupt-stubborn", []string{"--kill-grace", "1s"}, stubborn, []syscall.Signal{syscall.SIGINT}, 130, []string{"KILL"}, 6 * time.Second},
		{"interrupt-twice", []string{"--kill-grace", "100s"}, stubborn, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, []string{"Ctrl-C again kills now"}, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := startScript(t, 4, append([]string{"-hostfile", file}, tt.args...), tt.script)
			begun := time.Now()
			for i, s := range tt.signals {
				if i > 0 {
					within(t, 10*time.Second, "a line about the first signal", func() bool { return j.err.String() != "" })
				}
				j.signal(s)
			}
			e := j.wait(30 * time.Second)
			e.want(t, tt.code, tt.want...)
			if took := time.Since(begun); took > patience(tt.within+5*time.Second) { // a busy machine
				t.Errorf("took %v after the signal; want %v", took, tt.within)
			}
			for _, host := range nodes {
				checkClean(t, host)
			}
		})
	}
}

// USR1 and USR2 are for the ranks and end nothing.
func TestForwardedSignals(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startScript(t, 2, []string{"-hostfile", hostfile(t, nodes, "slots=1")},
		`trap 'echo usr1' USR1; trap 'echo usr2; exit 0' USR2; : >"$1/rank.$GORUN_RANK"; while :; do sleep 0.1; done`)
	j.signal(syscall.SIGUSR1)
	within(t, 10*time.Second, "USR1 at both ranks", func() bool { return strings.Count(j.out.String(), "usr1\n") == 2 })
	j.signal(syscall.SIGUSR2)
	e := j.wait(15 * time.Second)
	e.want(t, 0)
	if n := strings.Count(e.stdout, "usr2\n"); n != 2 {
		t.Errorf("USR2 at %d ranks; want 2", n)
	}
}

// Ctrl-Z stops the ranks too, and CONT lets all go on. Meanwhile no limit runs.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"plain": nil, "rsh-and-pty": {"--rsh", systemSSH, "--pty"}} {
		t.Run(name, func(t *testing.T) {
			nodes := hosts(t, 1)
			j := startRanks(t, 2, append(more, "-hostfile", hostfile(t, nodes, "slots=2")))
			suspendAndContinue(t, j, nodes[0], 0)
			j.signal(syscall.SIGINT)
			j.wait(15*time.Second).want(t, 130)
		})
	}
}

// Suspended for longer than any limit.
func TestSlowSuspend(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	args := []string{"--rsh", systemSSH, "--timeout", "15s", "--lost-after", "5s", "-hostfile", hostfile(t, nodes[:1], "slots=2")}
	j := startScript(t, 2, args, `: >"$1/rank.$GORUN_RANK"; sleep 1000 & while ! test -e "$1/end"; do sleep 0.1; done; kill $!`)
	suspendAndContinue(t, j, nodes[0], 17*time.Second)
	write(t, j.cmd.Args[len(j.cmd.Args)-1], "end", "")
	j.wait(15*time.Second).want(t, 0)

	// While hosts are being reached: the silent one still has the rest of its time, and the
	// other has not given gorun up.
	t.Cleanup(freeze(t, nodes[1], ""))
	limit := patience(8 * time.Second)
	j = start(t, []string{"--connect-timeout", limit.String(), "--lost-after", "5s", "-H", nodes[0] + "," + nodes[1], "echo", "started"})
	within(t, 10*time.Second, "an agent on "+nodes[0], func() bool { return len(agents(t, nodes[0])) > 0 })
	suspended(t, j, func() { time.Sleep(limit + 2*time.Second) })
	testbed(t, "root", nodes[1], "sh", "-c", "kill -CONT $(cat "+state+"/"+nodes[1]+"/ready)")
	e := j.wait(30 * time.Second)
	e.want(t, 0)
	if e.stdout != "started\nstarted\n" {
		t.Errorf("stdout %q; want both ranks to have run", e.stdout)
	}
}

// suspendAndContinue checks that two sleeping ranks on host stop, and go on, with gorun.
func suspendAndContinue(t *testing.T, j *job, host string, d time.Duration) {
	t.Helper()
	sleepers := func(state string) func() bool {
		return func() bool {
			n := 0
			for _, p := range processes(t, host) {
				if strings.HasPrefix(p.command, "sleep 1000") && p.state == state {
					n++
				}
			}
			return n == 2
		}
	}
	within(t, 10*time.Second, "both ranks sleeping", sleepers("S"))
	suspended(t, j, func() {
		within(t, 10*time.Second, "both ranks stopped", sleepers("T"))
		time.Sleep(d)
	})
	within(t, 10*time.Second, "both ranks running again", sleepers("S"))
}

// suspended suspends gorun while f runs.
func suspended(t *testing.T, j *job, f func()) {
	t.Helper()
	gorun, nsenter := j.pid(), j.cmd.Process.Pid
	stopped := func() bool {
		for _, pid := range []int{gorun, nsenter} {
			if p, _ := readProcess(pid); p.state != "T" {
				return false
			}
		}
		return true
	}
	j.signal(syscall.SIGTSTP)
	within(t, 10*time.Second, "gorun stopped, and nsenter with it", stopped)
	f()
	syscall.Kill(nsenter, syscall.SIGCONT) // which passes it on
}

func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := start(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2")}, "exec yes rank $GORUN_RANK"), unread)
	first := make([]byte, 1)
	if _, err := j.stdout.Read(first); err != nil {
		t.Fatal(err)
	}
	j.stdout.Close()
	e := j.wait(20 * time.Second)
	e.want(t, 141)
	if n := strings.Count(e.stderr, "\n"); n > 3 {
		t.Errorf("%d lines on stderr; want few:\n%s", n, shorten(e.stderr))
	}
}

// blockStdout lets a rank flood a standard output that nobody reads for so long, while
// the others use the store; then everything must arrive, and the exit code be right.
func blockStdout(t *testing.T, blocked time.Duration) {
	nodes := hosts(t, 2)
	const bytesWritten = 30_000_000 // of rank 0: more than all buffers hold
	dir := shared(t)
	script := fmt.Sprintf(`[ $GORUN_RANK = 0 ] && { yes 0123456789 | head -c %d; exit; }
		i=0; while [ ! -e %s/stop ]; do $GORUN_EXE store put at.$i.$GORUN_RANK x && i=$((i + 1)) || exit 8; echo $i >%s/count.$GORUN_RANK; sleep 0.2; done; exit 6`, bytesWritten, dir, dir)
	j := start(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2"), "--lost-after", "5s", "--keep-going"}, script), unread)
	within(t, 30*time.Second, "ranks using the store", func() bool {
		_, err := os.Stat(filepath.Join(dir, "count.3"))
		return err == nil
	})
	time.Sleep(blocked)
	before := count(t, filepath.Join(dir, "count.3"))
	within(t, 10*time.Second, "the store still in use", func() bool { return count(t, filepath.Join(dir, "count.3")) > before })
	write(t, dir, "stop", "")
	read := 0
	buf := make([]byte, 1<<16)
	for {
		n, err := j.stdout.Read(buf)
		read += n
		if err != nil {
			break
		}
	}
	e := j.wait(20 * time.Second)
	e.want(t, 6)
	if read != bytesWritten {
		t.Errorf("%d bytes arrived; want %d", read, bytesWritten)
	}
}

// count reads the number in a file that is being rewritten; 0 if it is empty just now.
func count(t *testing.T, path string) (n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Sscan(string(bytes.TrimSpace(text)), &n)
	return n
}

func TestStdoutBlocked(t *testing.T) {
	t.Parallel()
	blockStdout(t, 10*time.Second)
}

func TestSlowStdoutBlocked(t *testing.T) {
	blockStdout(t, time.Minute)
}

// Ctrl-C works while nobody reads what the ranks print.
func TestInterruptWhileBlocked(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startScript(t, 2, []string{"-hostfile", hostfile(t, nodes, "slots=1"), "--kill-grace", "1s"}, `: >"$1/rank.$GORUN_RANK"; exec yes`, unread)
	time.Sleep(time.Second) // until the pipes are full
	begun := time.Now()
	j.signal(syscall.SIGINT)
	j.signal(syscall.SIGINT)
	e := j.wait(20 * time.Second)
	e.want(t, 130)
	if took := time.Since(begun); took > patience(12*time.Second) {
		t.Errorf("took %v after Ctrl-C", took)
	}
}

// A link that comes back in time costs a line, not the job.
func TestSlowSilence(t *testing.T) {
	nodes := hosts(t, 2)
	j := startScript(t, 2, []string{"--no-gossip", "-hostfile", hostfile(t, nodes, "slots=1")}, `: >"$1/rank.$GORUN_RANK"; sleep 25; echo rank $GORUN_RANK to the end`)
	testbed(t, "mute", nodes[1])
	within(t, 20*time.Second, "a line about the silence", func() bool { return strings.Contains(j.err.String(), nodes[1]+": silent for") })
	testbed(t, "mend", nodes[1])
	e := j.wait(60 * time.Second)
	e.want(t, 0)
	if n := strings.Count(e.stdout, "to the end\n"); n != 2 {
		t.Errorf("%d ranks ran to their end; want 2", n)
	}
}

// Nobody must wait for longer than the default limit for a host that is gone, also when no
// other host tells.
func TestSlowHostCrashedDefault(t *testing.T) {
	nodes := hosts(t, 2)
	j := startRanks(t, 2, []string{"--no-gossip", "-hostfile", hostfile(t, nodes, "slots=1")})
	begun := time.Now() // at most 2 s after the host was last heard
	testbed(t, "crash", nodes[1])
	t.Cleanup(func() { testbed(t, "boot", nodes[1]) })
	e := j.wait(60 * time.Second)
	e.want(t, 125, nodes[1]+": silent for 1", "host lost: "+nodes[1])
	if took := time.Since(begun); took < 25*time.Second || took > patience(45*time.Second) {
		t.Errorf("took %v after the crash; want about 30 s", took)
	}
}
