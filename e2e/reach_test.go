package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// reachTimeout is long enough for a busy machine to reach a good host.
const reachTimeout = "4s"

// TestUnreachable has a good host and a bad one: gorun says what is wrong with the bad
// one, soon, and starts nothing on the good one.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		words string                                             // of the bad host's line in the hostfile
		spoil func(t *testing.T, bad string, home string) func() // returns what undoes it, or nil
		want  []string
	}{
		{"refused-port", "port=2222", nil, []string{"refused"}},
		{"silent-host", "", freeze, []string{"no ssh banner", reachTimeout}},
		{"blackhole", "", mute, []string{"no answer", reachTimeout}},
		{"wrong-key", "", wrongKey, []string{"is not the one in", "known_hosts:1", "SHA256:", "ssh-keygen -R"}},
		{"unknown-key", "", unknownKey, []string{"is not known", "SHA256:", "right key: ssh rank@", "--accept-new-host-keys"}},
		{"no-usable-key", "user=root", nil, []string{"key was not accepted", "id_ed25519", "publickey"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			nodes := hosts(t, 2)
			good, bad := nodes[0], nodes[1]
			home, use := newHome(t)
			if tt.spoil != nil {
				if undo := tt.spoil(t, bad, home); undo != nil {
					t.Cleanup(undo)
				}
			}
			file := write(t, shared(t), "hosts", good+"\n"+bad+" "+tt.words+"\n")
			e := gorun(t, sh([]string{"-hostfile", file, "-ppn", "1", "--connect-timeout", reachTimeout}, "echo started"), use)
			e.want(t, 125, append(tt.want, bad)...)
			e.wantWithin(t, soon)
			if regexp.MustCompile(`\b` + good + `\b`).MatchString(e.stderr) {
				t.Errorf("stderr names the good host:\n%s", e.stderr)
			}
			if e.stdout != "" {
				t.Errorf("stdout %q; want nothing started on the good host", e.stdout)
			}
		})
	}
}

// freeze stops the host's sshd: the kernel still accepts connections for it.
func freeze(t *testing.T, host, _ string) func() {
	testbed(t, "root", host, "sh", "-c", "kill -STOP $(cat "+state+"/"+host+"/ready)")
	return func() { testbed(t, "sshd", host) }
}

func mute(t *testing.T, host, _ string) func() {
	testbed(t, "mute", host)
	return nil // hosts mends links
}

// wrongKey makes known_hosts name another key for the host.
func wrongKey(t *testing.T, host, home string) func() {
	key := filepath.Join(shared(t), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	rewriteKnown(t, host, home, host+" "+string(public))
	return nil
}

func unknownKey(t *testing.T, host, home string) func() {
	rewriteKnown(t, host, home, "")
	return nil
}

// rewriteKnown replaces the host's line in home's known_hosts by first, which becomes line 1.
func rewriteKnown(t *testing.T, host, home, first string) {
	t.Helper()
	path := filepath.Join(home, ".ssh", "known_hosts")
	known, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := first
	for line := range strings.Lines(string(known)) {
		if names, _, _ := strings.Cut(line, " "); !slices.Contains(strings.Split(names, ","), host) {
			text += line
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	e := gorun(t, []string{"-H", nodes[0] + ",nosuch1,nosuch2", "echo", "started"})
	e.want(t, 125, "nosuch1", "nosuch2", "2 of 3 hosts")
	e.wantWithin(t, soon)
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started on the good host", e.stdout)
	}
}

func TestAcceptNewHostKeys(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	home, use := newHome(t)
	unknownKey(t, nodes[0], home)
	gorun(t, []string{"-H", nodes[0], "--accept-new-host-keys", "true"}, use).want(t, 0)
	gorun(t, []string{"-H", nodes[0], "true"}, use).want(t, 0)                                   // it was recorded
	if err := os.WriteFile(filepath.Join(home, ".ssh", "known_hosts"), nil, 0o600); err != nil { // the name recorded is hashed
		t.Fatal(err)
	}
	wrongKey(t, nodes[0], home)
	gorun(t, []string{"-H", nodes[0], "--accept-new-host-keys", "true"}, use).want(t, 125, "is not the one in")
}

func TestNoKeyAtAll(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	home, use := newHome(t)
	if err := os.Remove(filepath.Join(home, ".ssh", "id_ed25519")); err != nil {
		t.Fatal(err)
	}
	gorun(t, []string{"-H", nodes[0], "true"}, use).want(t, 125, nodes[0], "no key to offer")
}

func TestSSHConfig(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	home, use := newHome(t)
	key := filepath.Join(home, "key")
	if err := os.Rename(filepath.Join(home, ".ssh", "id_ed25519"), key); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".ssh"), "config", "Host gpu*\n  HostName "+nodes[0]+"\n  User noisy\n  IdentityFile "+key+"\n  IdentitiesOnly yes\n")
	e := gorun(t, sh([]string{"-H", "gpu7", "-wdir", "/"}, `echo $USER on $(hostname)`), use)
	e.want(t, 0)
	if want := "noisy on " + nodes[0] + "\n"; e.stdout != want {
		t.Errorf("got %q; want %q", e.stdout, want)
	}
}

// A host whose sshd drops logins because others are under way is tried again.
func TestMaxStartups(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	testbed(t, "sshd", nodes[0], "MaxStartups=1:100:1")
	t.Cleanup(func() { testbed(t, "sshd", nodes[0]) })
	// bash holds the one place until its standard input ends.
	occupy := exec.Command(script, "exec", "node0", "bash", "-c", "exec 3<>/dev/tcp/"+nodes[0]+"/22; read -r banner <&3; echo taken; cat")
	release, err := occupy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := occupy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := occupy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release.Close(); occupy.Wait() })
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	j := start(t, []string{"-H", nodes[0], "-v", "true"})
	within(t, 15*time.Second, "a login dropped and tried again", func() bool { return strings.Contains(j.err.String(), "trying again") })
	release.Close()
	j.wait(30*time.Second).want(t, 0)
}

// One machine under two names would run twice the ranks that it has slots for.
func TestSameMachineTwice(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	e := gorun(t, []string{"-H", nodes[0] + "," + nodes[0] + "-v6", "echo", "started"})
	e.want(t, 125, nodes[0]+"-v6", "same machine")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	gorun(t, []string{"-H", nodes[0], "-v", "true"}).want(t, 0, nodes[0]+": resolve", "connect", "auth", "agent", "ready")
}

// The address of a name that does not answer is not waited out alone.
func TestEveryAddressIsTried(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	testbed(t, "root", nodes[0], "sh", "-c", "nft 'add table ip6 six; add chain ip6 six in { type filter hook input priority 0; }; add rule ip6 six in tcp dport 22 drop'")
	t.Cleanup(func() { testbed(t, "root", nodes[0], "nft", "delete table ip6 six") })
	e := gorun(t, []string{"-H", nodes[0] + "-both", "hostname"})
	e.want(t, 0)
	e.wantWithin(t, soon)
}

// What a configuration says of some hosts is so there and nowhere else.
func TestConfiguredHosts(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	config := fmt.Sprintf(`
hosts = "%[1]s:2,%[2]s:2"
[env]
PLACE = "anywhere"
WIDE = "everywhere"
[[host]]
match = "%[2]s"
user = "rank"
env = { PLACE = "there", NCCL_IB_HCA = "mlx5_1" }
`, nodes[0], nodes[1])
	e := gorun(t, sh([]string{"--config", write(t, shared(t), "gorun.toml", config)}, `echo $GORUN_NODE_RANK $WIDE $PLACE $NCCL_IB_HCA`), variable("NCCL_IB_HCA=mlx5_0"))
	e.want(t, 0)
	got := lines(e.stdout)
	slices.Sort(got)
	want := []string{"0 everywhere anywhere mlx5_0", "0 everywhere anywhere mlx5_0", "1 everywhere there mlx5_1", "1 everywhere there mlx5_1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}
