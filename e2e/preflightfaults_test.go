package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everyHost is how many hosts a preflight looks at here. The tests that take all that
// there are do not run beside others.
const everyHost = hostsUp

// atSwitch runs a command where the other ends of all hosts' links are.
func atSwitch(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=" + state + "/switch"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// port is the switch's end of a host's link.
func port(host string) string { return "p" + strings.TrimPrefix(host, "node") }

// lowMTU has a host send and take packets of up to so many bytes.
func lowMTU(t *testing.T, host, mtu string) {
	t.Helper()
	testbed(t, "root", host, "ip", "link", "set", "eth0", "mtu", mtu)
	t.Cleanup(func() { testbed(t, "root", host, "ip", "link", "set", "eth0", "mtu", "1500") })
}

// losesFullSize has the switch lose large packets to a host, but not those of its way to
// node0, which know of it.
func losesFullSize(t *testing.T, host string) {
	t.Helper()
	testbed(t, "root", host, "sh", "-c", `ip route replace "$(getent ahostsv4 node0 | head -n 1 | cut -d ' ' -f 1)" dev eth0 mtu 900 advmss 860`)
	atSwitch(t, "ip", "link", "set", port(host), "mtu", "1000")
	t.Cleanup(func() {
		atSwitch(t, "ip", "link", "set", port(host), "mtu", "1500")
		testbed(t, "root", host, "sh", "-c", `ip route del "$(getent ahostsv4 node0 | head -n 1 | cut -d ' ' -f 1)"`)
	})
}

// misnames puts an edited /etc/hosts over that of a host.
func misnames(t *testing.T, host, sed string) {
	t.Helper()
	testbed(t, "root", host, "sh", "-c", `sed "$1" /etc/hosts >"$2" && mount --bind "$2" /etc/hosts && rm "$2"`, "sh", sed, filepath.Join(state, host, "hosts"))
	t.Cleanup(func() { testbed(t, "root", host, "umount", "/etc/hosts") })
}

// uneven puts a program at the same path on all hosts, with another text on one, and on
// another none.
func uneven(t *testing.T, nodes []string, other, none string) (path string) {
	t.Helper()
	path = "/var/tmp/preflight-program"
	for _, host := range nodes {
		file := onHost(t, host, path)
		text := "#!/bin/sh\nexit 0\n"
		if host == other {
			text += "# built later\n"
		}
		t.Cleanup(func() { os.Remove(file) })
		if host == none {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestPreflightOfAll looks at all hosts that there are, one fault after the other.
func TestPreflightOfAll(t *testing.T) {
	nodes := hosts(t, everyHost)
	t.Run("healthy", func(t *testing.T) { lookAtHealthy(t, nodes) })
	t.Run("faults", func(t *testing.T) { lookAtFaults(t, nodes) })
	t.Run("facts", func(t *testing.T) { lookAtFacts(t, nodes) })
}

// A fault of each kind is found on the host that has it, and nothing on the others.
func lookAtFaults(t *testing.T, nodes []string) {
	file := hostfile(t, nodes, "slots=2")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	barring := write(t, shared(t), "hosts", strings.Replace(string(text), "\n"+nodes[12]+" ", "\n"+nodes[12]+" user=root ", 1))
	tests := []struct {
		name  string
		spoil func(t *testing.T)
		args  []string
		code  int
		want  []expected
	}{
		{"mtu", func(t *testing.T) { lowMTU(t, nodes[4], "1400") }, nil, 0, []expected{{"mtu", "warning", "has MTU 1400, the others have 1500", nodes[4:5]}}},
		{"etc-hosts", func(t *testing.T) {
			misnames(t, nodes[5], "s/^[^ ]* "+nodes[2]+" /10.77.0.240 "+nodes[2]+" /")
			misnames(t, nodes[9], "s/^[^ ]* "+nodes[9]+" /127.0.1.1 "+nodes[9]+" /")
		}, nil, 0, []expected{
			{"names", "warning", nodes[2] + " is 10.77.0.240", nodes[5:6]},
			{"own-name", "warning", "loopback address", nodes[9:10]},
		}},
		{"shm", func(t *testing.T) { smallShm(t, nodes[6]) }, nil, 4, []expected{{"shm", "host", "too little of /dev/shm free: 1 MiB", nodes[6:7]}}},
		{"program", func(t *testing.T) {}, []string{uneven(t, nodes, nodes[7], nodes[11])}, 4, []expected{
			{"program-same", "host", "sha256", nodes[7:8]},
			{"program", "host", "lacks the program /var/tmp/preflight-program", nodes[11:12]},
		}},
		// One more lets nobody in: its neighbours are each other's then.
		{"several-at-once", func(t *testing.T) {
			smallShm(t, nodes[1])
			fence(t, nodes[3], opening+" drop")
			fence(t, nodes[5], opening+" reject")
			losesFullSize(t, nodes[7])
			misnames(t, nodes[9], "s/^[^ ]* "+nodes[2]+" /10.77.0.240 "+nodes[2]+" /")
		}, []string{"-hostfile", barring}, 4, []expected{
			{"shm", "host", "", nodes[1:2]},
			{"connect", "host", "no host reaches " + nodes[3] + ": dropped", nodes[3:4]},
			{"connect", "host", "no host reaches " + nodes[5] + ": rejected by a firewall", nodes[5:6]},
			{"mtu-path", "host", "packets of full size to and from " + nodes[7], nodes[7:8]},
			{"names", "warning", nodes[2] + " is 10.77.0.240", nodes[9:10]},
			{"host-reached", "host", "key was not accepted", nodes[12:13]},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spoil(t)
			args := tt.args
			if !slices.Contains(args, "-hostfile") {
				args = append([]string{"-hostfile", file}, args...)
			}
			j := look(t, args...)
			j.wantFindings(t, tt.code, tt.want...)
			var bad []string
			for _, name := range nodes {
				if slices.ContainsFunc(tt.want, func(w expected) bool { return w.verdict == "host" && w.hosts[0] == name }) {
					bad = append(bad, name)
				}
			}
			if !slices.Equal(j.Decision.Excluded, bad) {
				t.Errorf("left out are %v; want %v", j.Decision.Excluded, bad)
			}
		})
	}
}

// Between two hosts nobody knows who is wrong: the job cannot run.
func TestPreflightPair(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	fence(t, nodes[2], opening+" ip saddr "+nodes[1]+" drop")
	file := hostfile(t, nodes, "slots=1")
	job := start(t, append([]string{"--preflight", "quick", "-hostfile", file}, "echo", "started"))
	want := nodes[1] + " -> " + nodes[2] + ": dropped, no answer comes (reverse ok)"
	look(t, "-hostfile", file).wantFindings(t, 3, expected{"connect", "cluster", want, nodes[1:3]})
	e := job.wait(60 * time.Second)
	e.want(t, 125, "no-go: "+want, "nothing was started", "remedy: open tcp ", "hint: --preflight off starts the job all the same")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}
	// Which of both is left out is the user's to say.
	without := "--exclude " + nodes[1] + ", or --exclude " + nodes[2]
	gorun(t, []string{"--drop-bad", "-hostfile", file, "echo", "started"}).want(t, 125, "no-go: "+want, without)
	gorun(t, []string{"--preflight", "quick", "--exclude", nodes[1], "-hostfile", file, "true"}).want(t, 0)
}

// Where all is well nothing is found, however much is looked at.
func lookAtHealthy(t *testing.T, nodes []string) {
	file := hostfile(t, nodes, "slots=2")
	quick := []string{"host-reached", "clock", "names", "own-name", "address", "interface", "connect", "mtu", "mtu-path", "shm", "tmp", "work-dir", "kernel"}
	for _, tt := range []struct {
		name string
		args []string
		ok   []string
	}{
		{"quick", []string{"-hostfile", file}, quick},
		{"hosts-by-name", []string{"-H", strings.Join(nodes, ":2,") + ":2"}, quick},
		{"full", []string{"--preflight", "full", "-hostfile", file}, append(quick, "latency", "bandwidth")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := look(t, tt.args...)
			j.wantFindings(t, 0)
			j.ok(t, tt.ok...)
			if want := "go: 16 hosts, 32 ranks"; j.Headline != want || len(j.Decision.Use) != everyHost || len(j.Layout) != everyHost {
				t.Errorf("%q, on %v, laid out as %v; want %q", j.Headline, j.Decision.Use, j.Layout, want)
			}
			for _, host := range nodes {
				checkClean(t, host)
			}
			if tt.name != "full" {
				return
			}
			for _, m := range [][][]*float64{j.Latency, j.Bandwidth} {
				for a, row := range m {
					for b, value := range row {
						if (value == nil) != (a == b) {
							t.Fatalf("from %s to %s: %v; want each pair measured", nodes[a], nodes[b], value)
						}
					}
				}
				if len(m) != everyHost {
					t.Errorf("%d rows; want %d", len(m), everyHost)
				}
			}
		})
	}
	e := gorun(t, append(append([]string{"--preflight", "quick", "-hostfile", file}, tolerant(t)...), "hostname"))
	e.want(t, 0)
	if got := lines(e.stdout); len(got) != 2*everyHost || e.stderr != "" {
		t.Errorf("%d lines, and stderr %q; want %d lines and a quiet preflight", len(got), e.stderr, 2*everyHost)
	}
}

// An agent that was stopped while hosts are looked at costs its host, and not the job.
func TestSlowPreflightStoppedAgent(t *testing.T) {
	nodes := hosts(t, 6)
	// The host's first connection takes a while, so that it has not told all when it stops.
	fence(t, nodes[3], opening+" ip saddr "+nodes[2]+" drop")
	j := start(t, append(append([]string{"--drop-bad", "-v", "-hostfile", hostfile(t, nodes, "slots=1")}, tolerant(t)...), "hostname"))
	within(t, 20*time.Second, "all hosts reached", func() bool { return strings.Count(j.err.String(), "ready after") == 6 })
	time.Sleep(500 * time.Millisecond)
	for _, p := range agents(t, nodes[2]) {
		syscall.Kill(p.pid, syscall.SIGSTOP)
		t.Cleanup(func() { syscall.Kill(p.pid, syscall.SIGCONT) })
	}
	e := j.wait(40 * time.Second)
	e.want(t, 0, "go without "+nodes[2]+": 5 hosts, 5 ranks instead of 6", nodes[2]+" does not answer: reached, but its agent did not ")
	got := lines(e.stdout)
	slices.Sort(got)
	want := slices.Delete(slices.Clone(nodes), 2, 3)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("ran on %v; want %v", got, want)
	}
}

// Faults one by one that cost seconds each, and those that only a full look finds.
func TestSlowPreflightFaults(t *testing.T) {
	nodes := hosts(t, everyHost)
	file := hostfile(t, nodes, "slots=2")
	answers := "tcp sport 32768-60999 tcp flags & (syn | ack) == (syn | ack)"
	tests := []struct {
		name  string
		spoil func(t *testing.T)
		args  []string
		code  int
		want  []expected
	}{
		{"dropped", func(t *testing.T) { fence(t, nodes[4], opening+" drop") }, nil, 4, []expected{{"connect", "host", "no host reaches", nodes[4:5]}}},
		{"dropped-outwards", func(t *testing.T) { fence(t, nodes[4], answers+" drop") }, nil, 4, []expected{{"connect", "host", "reaches no other host: dropped", nodes[4:5]}}},
		{"rejected", func(t *testing.T) { fence(t, nodes[4], opening+" reject with tcp reset") }, nil, 4, []expected{{"connect", "host", "no host reaches", nodes[4:5]}}},
		{"two-neighbours", func(t *testing.T) { fence(t, nodes[4], opening+" drop"); fence(t, nodes[5], opening+" drop") }, nil, 4, []expected{
			{"connect", "host", "no host reaches", nodes[4:6]}}},
		{"first-and-last", func(t *testing.T) { fence(t, nodes[0], opening+" drop"); smallShm(t, nodes[15]) }, nil, 4, []expected{
			{"connect", "host", "no host reaches", nodes[:1]}, {"shm", "host", "", nodes[15:]}}},
		{"dropped-full", func(t *testing.T) { fence(t, nodes[4], opening+" drop") }, []string{"--preflight", "full"}, 4, []expected{{"connect", "host", "no host reaches", nodes[4:5]}}},
		{"pair-full", func(t *testing.T) { fence(t, nodes[4], opening+" ip saddr "+nodes[9]+" drop") }, []string{"--preflight", "full"}, 3, []expected{
			{"connect", "cluster", nodes[9] + " -> " + nodes[4], []string{nodes[4], nodes[9]}}}},
		{"full-size-lost", func(t *testing.T) { losesFullSize(t, nodes[4]) }, nil, 4, []expected{{"mtu-path", "host", "to and from", nodes[4:5]}}},
		{"link-cut", func(t *testing.T) {
			testbed(t, "cut", nodes[4])
			t.Cleanup(func() { testbed(t, "mend", nodes[4]) })
		}, []string{"--connect-timeout", "6s"}, 4, []expected{{"host-reached", "host", "no answer", nodes[4:5]}}},
		{"frozen-sshd", func(t *testing.T) { t.Cleanup(freeze(t, nodes[4], "")) }, []string{"--connect-timeout", "6s"}, 4, []expected{
			{"host-reached", "host", "no ssh banner", nodes[4:5]}}},
		{"fenced-off", func(t *testing.T) {
			for _, host := range nodes {
				fence(t, host, opening+" drop")
			}
		}, nil, 3, []expected{{"connect", "cluster", "most connections between hosts fail: 32 of 32", nodes}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spoil(t)
			look(t, append([]string{"-hostfile", file}, tt.args...)...).wantFindings(t, tt.code, tt.want...)
		})
	}
}

// A host whose link is slow is told from hosts whose links are not.
func TestSlowPreflightSlowHost(t *testing.T) {
	nodes := hosts(t, 6)
	// Slow enough to stand out on a machine that others use, too.
	shape := []string{"qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "32kbit", "latency", "50ms"}
	if out, err := exec.Command(script, append([]string{"root", nodes[3], "tc"}, shape...)...).CombinedOutput(); err != nil {
		t.Skipf("the kernel cannot slow a link down: %s", out)
	}
	t.Cleanup(func() { testbed(t, "root", nodes[3], "tc", "qdisc", "del", "dev", "eth0", "root") })
	config := write(t, shared(t), "gorun.toml", "[preflight]\nopen-files = 256\nslow-latency = 10000\nslow-bandwidth = 0.05\n")
	args := []string{"--preflight-only", "--json", "--config", config, "--preflight", "full", "-hostfile", hostfile(t, nodes, "slots=1")}
	judged(t, gorun(t, args)).wantFindings(t, 0, expected{"bandwidth", "warning", "is slow in the network", nodes[3:4]})
}
