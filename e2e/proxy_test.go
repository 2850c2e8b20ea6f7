package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sshConfig writes ~/.ssh/config of a home.
func sshConfig(t *testing.T, home string, lines ...string) {
	t.Helper()
	write(t, filepath.Join(home, ".ssh"), "config", strings.Join(lines, "\n")+"\n")
	if err := os.Chmod(filepath.Join(home, ".ssh", "config"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sshdWith restarts a host's sshd with options, and as it was at the end of the test.
func sshdWith(t *testing.T, host string, options ...string) {
	t.Helper()
	testbed(t, append([]string{"sshd", host}, options...)...)
	t.Cleanup(func() { testbed(t, "sshd", host) })
}

// fromWhere prints the address that the rank's ssh connection comes from.
const fromWhere = `echo ${SSH_CONNECTION%% *}`

func address(t *testing.T, host string) string {
	t.Helper()
	return strings.Fields(testbed(t, "exec", host, "getent", "ahostsv4", host))[0]
}

// One connection to a jump host serves all hosts behind it, within the limits of an sshd
// that takes few.
func TestJumpHost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 7)
	home, use := newHome(t)
	sshConfig(t, home, "Host gate", "  HostName "+nodes[0], "Host "+strings.Join(nodes[1:], " "), "  ProxyJump gate")
	known := testbed(t, "root", "node0", "sed", "-n", "s/^"+nodes[0]+",/gate,&/p", state+"/known_hosts")
	write(t, filepath.Join(home, ".ssh"), "known_hosts2", known)
	sshdWith(t, nodes[0], "MaxStartups=3:100:3", "MaxSessions=2", "GatewayPorts=no")
	e := gorun(t, sh([]string{"-v", "-H", strings.Join(nodes[1:], ",")}, fromWhere), use)
	e.want(t, 0)
	if want := strings.Repeat(address(t, nodes[0])+"\n", 6); e.stdout != want {
		t.Errorf("connections come from\n%swant six times\n%s", e.stdout, want)
	}
	if n := strings.Count(e.stderr, "jump host connected"); n != 1 {
		t.Errorf("%d connections to the jump host; want one\n%s", n, e.stderr)
	}
}

// A jump host may be behind another, by its own configuration or by a chain.
func TestJumpHostBehindAnother(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	home, use := newHome(t)
	for name, config := range map[string][]string{
		"own":   {"Host " + nodes[1], "ProxyJump " + nodes[0], "Host " + nodes[2], "ProxyJump rank@" + nodes[1] + ":22"},
		"chain": {"Host " + nodes[2], "ProxyJump " + nodes[0] + ",ssh://" + nodes[1]},
	} {
		sshConfig(t, home, config...)
		e := gorun(t, sh([]string{"-H", nodes[2]}, fromWhere), use)
		e.want(t, 0)
		if want := address(t, nodes[1]) + "\n"; e.stdout != want {
			t.Errorf("%s: the connection comes from %s; want %s", name, e.stdout, want)
		}
	}
}

// What is wrong with a jump host is said once, however many hosts are behind it.
func TestJumpHostFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config string // %s: the jump host
		spoil  func(t *testing.T, gate, home string) func()
		want   string
	}{
		{"down", "ProxyJump %s:2222", nil, "jump host %[1]s, with 4 hosts behind it: ssh rank@%[1]s:2222: dial tcp"},
		{"hangs", "ProxyJump %s", freeze, "jump host %[1]s, with 4 hosts behind it: ssh rank@%[1]s:22: connected to"},
		{"wrong-key", "ProxyJump %s", wrongKey, "jump host %[1]s, with 4 hosts behind it: ssh rank@%[1]s:22: host key of \"%[1]s\" is not the one in"},
		{"no-forwarding", "ProxyJump %s", noForwarding, "ssh rank@HOST:22: jump host %[1]s may not connect to HOST:22"},
		{"dead-host", "ProxyJump %s\nPort 2222", nil, "jump host %[1]s cannot connect to HOST:2222: Name or service not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gate := hosts(t, 1)[0]
			home, use := newHome(t)
			sshConfig(t, home, "Host gpu1 gpu2 gpu3 gpu4", fmt.Sprintf(tt.config, gate))
			if tt.spoil != nil {
				if undo := tt.spoil(t, gate, home); undo != nil {
					t.Cleanup(undo)
				}
			}
			e := gorun(t, []string{"-H", "gpu1,gpu2,gpu3,gpu4", "--connect-timeout", reachTimeout, "true"}, use)
			e.want(t, 125, fmt.Sprintf(tt.want, gate))
			e.wantWithin(t, soon)
			if n := strings.Count(e.stderr, "\n"); n > 3 {
				t.Errorf("it is said in %d lines:\n%s", n, e.stderr)
			}
		})
	}
}

// A jump host that is lost in a job's middle is named once, for all hosts behind it.
func TestJumpHostLost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	home, use := newHome(t)
	sshConfig(t, home, "Host "+strings.Join(nodes[1:], " "), "  ProxyJump "+nodes[0])
	j := startRanks(t, 6, []string{"-hostfile", hostfile(t, nodes[1:], "slots=2")}, use)
	testbed(t, "root", nodes[0], "pkill", "-9", "-f", "^sshd(-session)?: rank")
	e := j.wait(30 * time.Second)
	e.want(t, 125, fmt.Sprintf("host lost: jump host %s, with 3 hosts behind it (%s): connection lost; 6 ranks lost", nodes[0], strings.Join(nodes[1:], ", ")))
	for _, text := range []string{"host lost: ", "left behind: "} {
		if n := strings.Count(e.stderr, text); n > 1 {
			t.Errorf("%d lines of %q; want one\n%s", n, text, e.stderr)
		}
	}
}

func noForwarding(t *testing.T, gate, _ string) func() {
	sshdWith(t, gate, "AllowTcpForwarding=no")
	return nil
}

// fewFiles has gorun start with a limit on open files.
func fewFiles(n string) setup {
	return func(j *job) {
		i := slices.Index(j.cmd.Args, "gorun")
		j.cmd.Args = slices.Insert(j.cmd.Args, i, "sh", "-c", "ulimit -n "+n+`; exec "$@"`, "sh")
	}
}

// With few open files allowed, fewer hosts are connected to at once; and if there can never
// be enough, that is said before anything is started.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	home, use := newHome(t)
	e := gorun(t, []string{"-H", strings.Join(nodes, ","), "hostname"}, use, fewFiles("64"))
	e.want(t, 0)
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("gpu%d", i))
	}
	e = gorun(t, []string{"-H", strings.Join(many, ","), "true"}, use, fewFiles("64"))
	e.want(t, 125, "connections to 60 hosts need about 88 open files here, and 64 is the limit", "ulimit -n")
	// Behind a jump host they need none.
	sshConfig(t, home, "Host gpu*", "ProxyJump "+nodes[0], "HostName "+nodes[1])
	e = gorun(t, []string{"-H", strings.Join(many, ","), "true"}, use, fewFiles("64"))
	e.want(t, 125, "same machine")
}

func TestProxyCommand(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	home, use := newHome(t)
	sshConfig(t, home, "Host "+strings.Join(nodes, " "), `ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'`)
	gorun(t, []string{"-H", strings.Join(nodes, ","), "hostname"}, use).want(t, 0)
	sshConfig(t, home, "Host *", `ProxyCommand sh -c 'echo "no tunnel to %n" >&2; exit 7'`)
	e := gorun(t, []string{"-H", nodes[0], "--connect-timeout", "1", "true"}, use)
	e.want(t, 125, "(exit status 7)", "no tunnel to "+nodes[0])
	sshConfig(t, home, "Host *", "ProxyCommand sleep 1000.7")
	e = gorun(t, []string{"-H", nodes[0], "--connect-timeout", "2", "true"}, use)
	e.want(t, 125, "sleep 1000.7", "in 2s")
	if left := testbed(t, "root", "node0", "sh", "-c", "pgrep -f '[s]leep 1000.7' || true"); left != "" {
		t.Errorf("the command is left: %s", left)
	}
}

// A host whose sshd is not up yet is waited for, at the port that --ssh-port names.
func TestRetryHosts(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	j := start(t, []string{"-H", nodes[0], "--ssh-port", "2233", "--retry-hosts", "60", "--connect-timeout", "1", "hostname"})
	within(t, 20*time.Second, "a line that says so", func() bool {
		return strings.Contains(j.err.String(), "waiting up to 1m0s for hosts that cannot be reached yet: "+nodes[0])
	})
	sshdWith(t, nodes[0], "Port=2233")
	e := j.wait(60 * time.Second)
	e.want(t, 0)
	if e.stdout != nodes[0]+"\n" {
		t.Errorf("got %q; want the host's name", e.stdout)
	}
	gorun(t, []string{"-H", nodes[0], "--ssh-port", "2244", "--retry-hosts", "1", "--connect-timeout", "1", "true"}).want(t, 125, nodes[0], "refused", "--ssh-port N")
}

func TestSSHConfigFile(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	home, use := newHome(t)
	sshConfig(t, home, "Host gpu", "HostName nowhere.invalid")
	other := write(t, home, "other", "Include cycle\nHost gpu\nHostName "+nodes[0]+"\n")
	e := gorun(t, []string{"--ssh-config", other, "-H", "gpu", "hostname"}, use)
	e.want(t, 0)
	write(t, filepath.Join(home, ".ssh"), "cycle", "Include cycle\n")
	gorun(t, []string{"--ssh-config", other, "-H", "gpu", "hostname"}, use).want(t, 125, "cycle:1: includes itself")
	gorun(t, []string{"--ssh-config", "none", "-H", nodes[0], "hostname"}, use).want(t, 0)
}
