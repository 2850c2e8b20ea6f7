package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gossipPort returns the UDP port that gorun's agent holds on host; 0 if there is none.
func gossipPort(t *testing.T, host string) (port int) {
	t.Helper()
	for line := range strings.Lines(testbed(t, "root", host, "cat", "/proc/net/udp")) {
		var n, local, p int
		if c, _ := fmt.Sscanf(line, "%d: %x:%x", &n, &local, &p); c == 3 && p != 0 {
			port = p
		}
	}
	return port
}

// watching waits until the hosts of a job with -v watch each other.
func watching(t *testing.T, j *job, n int) {
	t.Helper()
	within(t, 20*time.Second, "hosts watching each other", func() bool {
		return strings.Contains(j.err.String(), fmt.Sprintf("gorun: %d hosts watch each other\n", n))
	})
}

// interrupt ends a job that goes on, and that has not spoken of what the word says.
func interrupt(t *testing.T, j *job, word string) {
	t.Helper()
	j.signal(syscall.SIGINT)
	e := j.wait(15 * time.Second)
	e.want(t, 130)
	if strings.Contains(e.stderr, word) {
		t.Errorf("stderr has %q:\n%s", word, e.stderr)
	}
}

// A host vanishes while its connection looks alive. The others tell, long before
// --lost-after. Strangers at their ports do not matter.
func TestHostVanishes(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	j := startRanks(t, 3, []string{"-v", "--lost-after", "100s", "-hostfile", hostfile(t, nodes, "slots=1")})
	watching(t, j, 3)
	bother(t, nodes[0])
	testbed(t, "crash", nodes[1])
	t.Cleanup(func() { testbed(t, "boot", nodes[1]) })
	begun := time.Now()
	want := nodes[1] + " is lost: silent for "
	within(t, 30*time.Second, want, func() bool { return strings.Contains(j.err.String(), want) })
	took := time.Since(begun)
	t.Logf("lost after %v", took)
	if took < 3*time.Second {
		t.Errorf("lost after %v; want 5 s of silence, which began 2 s before that at most", took)
	}
	j.wait(30*time.Second).want(t, 125, "host lost: "+nodes[1], " of 2 other hosts cannot reach it either") // one is enough
	if port := gossipPort(t, nodes[0]); port != 0 {
		t.Errorf("port %d is still open on %s", port, nodes[0])
	}
}

// bother does to a host's port what strangers do.
func bother(t *testing.T, host string) {
	t.Helper()
	port := gossipPort(t, host)
	if port == 0 {
		t.Fatalf("no port on %s", host)
	}
	script := fmt.Sprintf(`trap '' PIPE
		for i in 1 2 3; do
			exec 3<>/dev/tcp/%[1]s/%[2]d; head -c 100000 /dev/urandom >&3
			exec 4<>/dev/tcp/%[1]s/%[2]d; printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >&4
			exec 5<>/dev/tcp/%[1]s/%[2]d
			exec 6<>/dev/udp/%[1]s/%[2]d; for n in 1 2 3 4 5; do head -c 1000 /dev/urandom >&6; done
		done 2>/dev/null; true`, host, port)
	testbed(t, "exec", "node0", "bash", "-c", script)
}

// Only the connection from gorun to a host is gone: the others say so, and it is lost
// when --lost-after has passed.
func TestSlowLinkToHeadLost(t *testing.T) {
	nodes := hosts(t, 3)
	j := startRanks(t, 3, []string{"-v", "--lost-after", "14s", "--kill-grace", "1s", "-hostfile", hostfile(t, nodes, "slots=1")})
	watching(t, j, 3)
	testbed(t, "root", nodes[1], "nft", `table inet mute {
		chain in { type filter hook input priority 0; ip saddr node0 drop; }
		chain out { type filter hook output priority 0; ip daddr node0 drop; }
	}
`)
	text := "; 2 other hosts still reach it: it is the link from here that is gone"
	e := j.wait(60 * time.Second)
	e.want(t, 125, nodes[1]+": silent for 1", "host lost: "+nodes[1]+": silent for 1")
	if n := strings.Count(e.stderr, text); n != 2 {
		t.Errorf("told %d times that it is the link; want it of the silence, and of the loss", n)
	}
	// Its agent ends by itself.
	within(t, 40*time.Second, "no agent left on "+nodes[1], func() bool { return len(agents(t, nodes[1])) == 0 })
}

func TestNoGossip(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startRanks(t, 2, []string{"-v", "--no-gossip", "-hostfile", hostfile(t, nodes, "slots=1")})
	time.Sleep(3 * time.Second)
	if port := gossipPort(t, nodes[0]); port != 0 {
		t.Errorf("port %d is open", port)
	}
	interrupt(t, j, "watch")
}

// A firewall between hosts costs a warning, and not the job.
func TestSlowFirewallBetweenHosts(t *testing.T) {
	nodes := hosts(t, 2)
	testbed(t, "root", nodes[1], "nft", "table inet mute { chain in { type filter hook input priority 0; ip saddr "+nodes[0]+" drop; }; }")
	j := startRanks(t, 2, []string{"--preflight", "off", "-hostfile", hostfile(t, nodes, "slots=1")})
	within(t, 30*time.Second, "a warning", func() bool {
		return strings.Contains(j.err.String(), "gorun: warning: the hosts cannot watch each other: ")
	})
	j.signal(syscall.SIGINT)
	e := j.wait(15 * time.Second)
	e.want(t, 130, "i/o timeout; is there a firewall between hosts", "warning: "+nodes[1]+": no way to ", "where PyTorch's ranks meet (MASTER_ADDR, MASTER_PORT): no answer in 1s")
	if n := strings.Count(e.stderr, "warning"); n != 2 {
		t.Errorf("%d warnings; want two:\n%s", n, e.stderr)
	}
}

// Agents that hardly get to run, and one that was stopped for a while, end no job.
func TestSlowStoppedAgents(t *testing.T) {
	nodes := hosts(t, 3)
	j := startRanks(t, 3, []string{"-v", "-hostfile", hostfile(t, nodes, "slots=1")})
	watching(t, j, 3)
	var pids []int
	for _, node := range nodes {
		for _, p := range agents(t, node) {
			if p.state != "Z" {
				pids = append(pids, p.pid)
			}
		}
	}
	signal := func(s syscall.Signal, pids ...int) {
		for _, pid := range pids {
			syscall.Kill(pid, s)
		}
	}
	defer signal(syscall.SIGCONT, pids...)
	for range 150 { // half a minute
		signal(syscall.SIGSTOP, pids...)
		time.Sleep(100 * time.Millisecond)
		signal(syscall.SIGCONT, pids...)
		time.Sleep(100 * time.Millisecond)
	}
	for range 5 {
		signal(syscall.SIGSTOP, pids[0])
		time.Sleep(3 * time.Second)
		signal(syscall.SIGCONT, pids[0])
		time.Sleep(2 * time.Second)
	}
	select {
	case <-j.ended:
		t.Fatalf("the job has ended:\n%s", j.err.String())
	default:
	}
	// While gorun is stopped nobody is missed, nor after that.
	suspended(t, j, func() { time.Sleep(8 * time.Second) })
	time.Sleep(6 * time.Second)
	interrupt(t, j, "lost")
}

// Hosts that are cut off from the others for longer than the silence that a job may have
// are reached again: what was said of them is taken back.
func TestSlowHostsMeetAgain(t *testing.T) {
	nodes := hosts(t, 3)
	j := startRanks(t, 3, []string{"-v", "-hostfile", hostfile(t, nodes, "slots=1")})
	watching(t, j, 3)
	testbed(t, "root", nodes[1], "nft", fmt.Sprintf(`table inet mute {
		chain in { type filter hook input priority 0; ip saddr { %[1]s, %[2]s } drop; }
		chain out { type filter hook output priority 0; ip daddr { %[1]s, %[2]s } drop; }
	}
`, nodes[0], nodes[2]))
	said := func(text string) func() bool {
		return func() bool { return strings.Contains(j.err.String(), text) }
	}
	one, both := said(nodes[1]+": 1 of 2 other hosts cannot reach it"), said(nodes[1]+": 2 of 2 other hosts cannot reach it")
	within(t, 30*time.Second, "others cannot reach it", func() bool { return one() || both() })
	time.Sleep(8 * time.Second)
	testbed(t, "mend", nodes[1])
	within(t, 40*time.Second, "they can again", said(nodes[1]+": the other hosts reach it again"))
	interrupt(t, j, "lost")
}
