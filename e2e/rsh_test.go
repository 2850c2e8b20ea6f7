package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// systemSSH is how gorun's users name their own ssh.
const systemSSH = "ssh -o BatchMode=yes {host}"

// container makes a command that takes its words as docker exec does: they are run as
// they are. It goes to a host by ssh.
func container(t *testing.T) string {
	t.Helper()
	dir := shared(t)
	path := write(t, dir, "docker", "#!/bin/bash\ntest \"$1 $2\" = 'exec -i' || exit 125\nhost=$3; shift 3\n"+
		"exec ssh -o BatchMode=yes \"$host\" \"$(printf '%q ' \"$@\")\"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path + " exec -i {host}"
}

func TestRsh(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=2")
	for name, rsh := range map[string]string{"ssh": systemSSH, "docker": container(t)} {
		t.Run(name, func(t *testing.T) {
			e := gorun(t, sh([]string{"--rsh", rsh, "-hostfile", file}, sayPlace), input(strings.NewReader("")))
			e.want(t, 0)
			for i, p := range places(t, e.stdout) {
				if p.rank != i || p.host != nodes[i/2] {
					t.Errorf("got %+v; want rank %d on %s", p, i, nodes[i/2])
				}
			}
			e = gorun(t, sh([]string{"--rsh", rsh, "-hostfile", file, "-l"}, `case $RANK in
				0) cat && $GORUN_EXE store put read yes ;;
				3) $GORUN_EXE store get read >/dev/null; exit 7 ;;
				esac`), input(strings.NewReader("to rank 0\n")))
			e.want(t, 7, "rank 3 on "+nodes[1]+" exited with code 7")
			if want := "[0 " + nodes[0] + "] to rank 0\n"; e.stdout != want {
				t.Errorf("stdout %q; want %q", e.stdout, want)
			}
		})
	}
}

func TestRshUnreachable(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	list := nodes[0] + "," + nodes[1]
	e := gorun(t, []string{"--rsh", "ssh -o BatchMode=yes -o IdentityFile=/nonexistent {user}@{host}", "-H", "rank@" + nodes[0] + ",root@" + nodes[1], "echo", "started"})
	e.want(t, 125, nodes[1]+": --rsh ssh: it ended (exit status 255)", "Permission denied", "echo ok | ssh ")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started on the good host", e.stdout)
	}
	e = gorun(t, []string{"--rsh", "ssh -tt -o BatchMode=yes {host}", "-H", list, "echo", "started"})
	e.want(t, 125, nodes[0]+", "+nodes[1]+": --rsh ssh: a terminal is on the way", "hint: drop -t/-tt", "a clean pipe")
	testbed(t, "mute", nodes[1])
	e = gorun(t, []string{"--rsh", systemSSH, "--connect-timeout", reachTimeout, "-H", list, "echo", "started"})
	e.want(t, 125, nodes[1]+": --rsh ssh: it was started, but gorun's agent did not speak in "+reachTimeout)
}

// The command dies in a job's middle, or the agent behind it does.
func TestRshLost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	args := []string{"--rsh", systemSSH, "-hostfile", hostfile(t, nodes, "slots=2")}
	j := startRanks(t, 4, args)
	for _, p := range processes(t, "node0") {
		if strings.HasPrefix(p.command, "ssh ") && strings.Contains(p.command, " "+nodes[1]+" ") {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	e := j.wait(30 * time.Second)
	e.want(t, 125, "host lost: "+nodes[1], "--rsh ssh: killed by SIGKILL", "2 ranks lost", "2 ranks stopped")

	j = startScript(t, 4, args, `setsid sleep 1000 & `+running)
	for _, p := range agents(t, nodes[1]) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	e = j.wait(30 * time.Second)
	e.want(t, 125, "host lost: "+nodes[1], "agent was lost")
	if strings.Contains(e.stderr, "cannot tell") {
		t.Errorf("stderr %q; want a sweep by a second command", e.stderr)
	}
}

// Whatever ends gorun, its commands go with it, also one that hangs.
func TestRshGorunKilled(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	hang := write(t, shared(t), "hang", "#!/bin/sh\nexec sleep 1234567\n")
	if err := os.Chmod(hang, 0o755); err != nil {
		t.Fatal(err)
	}
	j := startRanks(t, 4, []string{"--rsh", systemSSH, "-hostfile", hostfile(t, nodes, "slots=2")})
	j.signal(syscall.SIGKILL)
	j.wait(5 * time.Second)
	within(t, 10*time.Second, "no ssh left on node0", func() bool {
		for _, p := range processes(t, "node0") {
			if strings.HasPrefix(p.command, "ssh ") && strings.Contains(p.command, " "+nodes[1]+" ") {
				return false
			}
		}
		return true
	})
	begun := start(t, []string{"--rsh", hang, "-H", nodes[0], "true"})
	hanging := func() bool {
		for _, p := range processes(t, "node0") {
			if strings.HasPrefix(p.command, "sleep 1234567") {
				return true
			}
		}
		return false
	}
	within(t, 10*time.Second, "the command running", hanging)
	begun.signal(syscall.SIGKILL)
	begun.wait(5 * time.Second)
	within(t, 10*time.Second, "no command left on node0", func() bool { return !hanging() })
}
