package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gorun/hostfile"
)

func noFile(string, error) {}

// configOf loads one config file of the given text.
func configOf(t *testing.T, text string) (*sshConfig, string, error) {
	t.Helper()
	home := t.TempDir()
	os.Mkdir(filepath.Join(home, ".ssh"), 0o700)
	name := filepath.Join(home, ".ssh", "config")
	write(t, name, text, 0o600)
	c, err := loadConfig(Options{Home: home, User: "alice", Config: []string{name}}, noFile)
	return c, home, err
}

func TestSettings(t *testing.T) {
	host := func(name string) hostfile.Host { return hostfile.Host{Name: name} }
	tests := []struct {
		name, text string
		host       hostfile.Host
		want       string // hostname user port alias identities userKnownHosts acceptNew identitiesOnly
	}{
		{"empty", "", host("gpu1"), "gpu1 alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"first-wins", "Host gpu*\nPort 2222\nHost *\nPort 3333\nUser bob\n", host("gpu1"), "gpu1 bob 2222 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostfile-wins", "Host *\nPort 3333\nUser bob\n", hostfile.Host{Name: "a", User: "eve", Port: 7}, "a eve 7 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostname-token", "Host gpu*\nHostName %h.example.com\n", host("GPU1"), "gpu1 alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostname-token-match", "Host GPU*\nHostName %h.example.com\n", host("GPU1"), "gpu1.example.com alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"identities", "IdentityFile ~/.ssh/k_%r@%h\nHost a\nIdentityFile \"/k with blank/%u%%\"\nIdentityFile %d/x # last\nIdentitiesOnly yes", host("a"), "a alice 22 - H/.ssh/k_alice@a,/k with blank/alice%,H/x H/.ssh/known_hosts,H/.ssh/known_hosts2 false true"},
		{"identity-none", "IdentityFile none", host("a"), "a alice 22 -  H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"known-hosts", "UserKnownHostsFile /a ~/b \"/c d\"\nStrictHostKeyChecking accept-new", host("a"), "a alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa /a,H/b,/c d true false"},
		{"no-known-hosts", "UserKnownHostsFile none\nStrictHostKeyChecking no\nHostKeyAlias Farm", host("a"), "a alice 22 farm H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa  true false"},
		{"equals-and-case", "hOsT = a b\n  pOrT=99\r\n\tUSER = \"x y\"\n", host("b"), "b x y 99 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"negated", "Host * !gpu1\nPort 1\nHost *\nPort 2", host("gpu1"), "gpu1 alice 2 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-host", "Host a\nHostName z.example\nMatch host *.example user alice\nPort 5\nMatch originalhost z.example\nPort 6\nMatch all\nUser m", host("a"), "z.example m 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-not", "Match !host b\nPort 5\nMatch !originalhost a\nUser no", host("a"), "a alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-final", "Match final all\nPort 5\nUser f\nHost a\nPort 6", host("a"), "a f 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"exec-of-no-interest", "Match exec \"test -e /x\"\nForwardX11 yes\nHost a\nPort 6", host("a"), "a alice 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"exec-for-others", "Match host other exec \"test -e /x\"\nProxyJump j\nHost a\nPort 6", host("a"), "a alice 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"exec-too-late", "Host a\nPort 6\nMatch exec x\nPort 7", host("a"), "a alice 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"proxy-none", "Host a\nProxyJump none\nHost *\nProxyCommand nc %h %p", host("a"), "a alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"unknown-keyword", "Frobnicate 3\nPort 4", host("a"), "a alice 4 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"byte-order-mark", "\ufeffPort 4", host("a"), "a alice 4 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, home, err := configOf(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.lookup(tt.host, false)
			if err != nil {
				t.Fatal(err)
			}
			if s.problem != nil {
				t.Fatalf("problem: %v", s.problem)
			}
			alias := s.alias
			if alias == "" {
				alias = "-"
			}
			got := fmt.Sprintf("%s %s %d %s %s %s %v %v", s.hostname, s.user, s.port, alias, strings.Join(s.identities, ","),
				strings.Join(s.userKnownHosts, ","), s.acceptNew, s.identitiesOnly)
			if got = strings.ReplaceAll(got, home, "H"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSettingsProblems(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"proxy-jump", "Host a\n  ProxyJump bastion", ":2: ProxyJump is not supported yet"},
		{"proxy-command", "ProxyCommand nc %h %p", ":1: ProxyCommand is not supported yet"},
		{"match-exec", "Match exec \"x y\"\n  Port 5", ":1: cannot tell yet whether Match exec x y applies; port (line 2) depends on it"},
		{"match-exec-proxy", "Match originalhost a exec x\n  ProxyJump j", ":1: cannot tell yet whether Match originalhost a exec x applies; proxyjump (line 2) depends on it"},
		{"canonicalize", "CanonicalizeHostname yes", ":1: CanonicalizeHostname is not supported yet"},
		{"revoked-keys", "RevokedHostKeys /etc/ssh/revoked", ":1: RevokedHostKeys is not supported yet"},
		{"no-value", "Port", ":1: port has no value"},
		{"bad-port", "\nPort ssh", `:2: bad Port "ssh"`},
		{"bad-strict", "StrictHostKeyChecking maybe", `:1: bad StrictHostKeyChecking "maybe"`},
		{"bad-yes-no", "IdentitiesOnly perhaps", `:1: bad identitiesonly "perhaps": want yes or no`},
		{"bad-token", "IdentityFile /k/%C", `:1: IdentityFile: "/k/%C": token %C is not supported`},
		{"environment", "UserKnownHostsFile ${HOME}/k", `:1: userknownhostsfile: "${HOME}/k": environment variables are not supported yet`},
		{"open-quote", "Port 3\nUser \"x", ":2: a quote (\") is not closed"},
		{"include-nothing", "Include", ":1: Include names no file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, home, err := configOf(t, tt.text)
			if err == nil {
				var s *settings
				s, err = c.lookup(hostfile.Host{Name: "a"}, false)
				if err == nil {
					err = s.problem
				}
			}
			config, ok := errors.AsType[*ConfigError](err)
			if !ok || config == nil {
				t.Fatalf("got %v; want a ConfigError", err)
			}
			got := strings.TrimPrefix(err.Error(), filepath.Join(home, ".ssh", "config"))
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestIncludes(t *testing.T) {
	c, home, err := configOf(t, "Include more.d/*.conf\nHost b\nInclude ~/.ssh/only-b absent\nHost *\nPort 9\n")
	if err != nil {
		t.Fatal(err)
	}
	_ = home
	for _, tt := range []struct{ host, want string }{{"a", "a 9"}, {"b", "b 9"}} {
		s, err := c.lookup(hostfile.Host{Name: tt.host}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %d", s.hostname, s.port); got != tt.want {
			t.Errorf("without included files: got %s; want %s", got, tt.want)
		}
	}

	dir := filepath.Join(home, ".ssh")
	os.Mkdir(filepath.Join(dir, "more.d"), 0o700)
	write(t, filepath.Join(dir, "more.d", "1.conf"), "Host c\nHostName sea\n", 0o600)
	write(t, filepath.Join(dir, "more.d", "2.conf"), "Host c d\nHostName lake\nPort 1\nProxyJump x\n", 0o600)
	write(t, filepath.Join(dir, "only-b"), "User inner\nHost a b\nPort 7\n", 0o600)
	if c, err = loadConfig(Options{Home: home, User: "alice"}, noFile); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ host, want string }{
		{"a", "a alice 9"}, {"b", "b inner 7"}, {"c", "sea alice 1 " + dir + "/more.d/2.conf:4: ProxyJump is not supported yet"},
	}
	for _, tt := range tests {
		s, err := c.lookup(hostfile.Host{Name: tt.host}, false)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %s %d", s.hostname, s.user, s.port)
		if s.problem != nil {
			got += " " + s.problem.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %s; want %s", tt.host, got, tt.want)
		}
	}
}

// As with ssh, a directory and hidden files (an editor's) among those of an Include do no harm.
func TestIncludeLeavesOut(t *testing.T) {
	_, home, err := configOf(t, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".ssh")
	os.MkdirAll(filepath.Join(dir, "d", "old"), 0o700)
	write(t, filepath.Join(dir, "d", ".1.swp"), "b0VIM \"", 0o600)
	write(t, filepath.Join(dir, "d", "1"), "Port 7\n", 0o600)
	write(t, filepath.Join(dir, ".mine"), "User bob\n", 0o600)
	write(t, filepath.Join(dir, "config"), "Include d/* .m*\n", 0o600)
	c, err := loadConfig(Options{Home: home, User: "alice"}, noFile)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.lookup(hostfile.Host{Name: "a"}, false); err != nil || s.port != 7 || s.user != "bob" {
		t.Errorf("got %+v, %v; want port 7, user bob", s, err)
	}
}

func TestIncludeCycle(t *testing.T) {
	_, _, err := configOf(t, "Include config")
	if err == nil || !strings.Contains(err.Error(), "nested more than 16 deep") {
		t.Errorf("got %v; want an error about nesting", err)
	}
}

func TestConfigFiles(t *testing.T) {
	home := t.TempDir()
	os.Mkdir(filepath.Join(home, ".ssh"), 0o700)
	name := filepath.Join(home, ".ssh", "config")
	write(t, name, "Port 4\n", 0o666)
	tests := []struct{ name, path, want string }{
		{"writable-by-others", name, "may be written by others (mode 0666)"},
		{"directory", home, "is a directory"},
		{"missing", filepath.Join(home, "none"), "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadConfig(Options{Home: home, Config: []string{tt.path}}, noFile)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
	if _, err := readConfigFile(name, maxConfig, true); err != nil {
		t.Errorf("the system's file: got %v; want it read, whoever may write it", err)
	}
	if _, err := loadConfig(Options{Home: filepath.Join(home, "nobody")}, noFile); err != nil {
		t.Errorf("default files that do not exist: got %v; want no error", err)
	}
}

func TestElsewhere(t *testing.T) {
	tests := []struct {
		name, text string
		want       bool
	}{
		{"nothing", "", false},
		{"all-hosts", "Host *\nUser bob\nPort 3\nProxyJump j", false},
		{"top", "User bob", false},
		{"port", "Host a\nPort 2222", true},
		{"pattern", "Host a*\nUser bob", true},
		{"harmless", "Host a\nIdentityFile x", false},
		{"match-host", "Match host a\nHostName b", true},
		{"match-all", "Match all\nUser b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := configOf(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.lookup(hostfile.Host{Name: "a"}, false)
			if err != nil {
				t.Fatal(err)
			}
			if s.elsewhere != tt.want {
				t.Errorf("got %v; want %v", s.elsewhere, tt.want)
			}
		})
	}
}

// TestAgainstSSH compares with what the user's ssh makes of the same file.
func TestAgainstSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		skip(t, "needs ssh")
	}
	text := `
Host gpu0? !gpu09
	HostName %h.cluster
	Port 2200
Match originalhost gpu01 user alice
	User carol
	IdentityFile ~/a
	IdentityFile "/b c"
Host gpu* "quo ted"
	User dave # comment
	UserKnownHostsFile /x /y
	HostKeyAlias=farm
	IdentitiesOnly   yes
Match host *.cluster !user dave
	StrictHostKeyChecking accept-new
Match final
	HashKnownHosts yes
	IdentityFile /final
	HostName no.such
Match host GPU0?.CLUSTER
	IdentityFile /upper
Match originalhost GPU02
	IdentityFile /original
Host gpu02.cluster
	IdentityFile /led-here
Host GPU02
	IdentityFile /never
Match canonical originalhost gpu*
	IdentityFile /canonical
Host *
	Port 2201
	IdentityFile /z
	StrictHostKeyChecking no
`
	c, home, err := configOf(t, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"gpu01", "gpu02", "GPU02", "gpu09", "gpu", "other"} {
		t.Run(host, func(t *testing.T) {
			me, err := user.Current()
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("ssh", "-G", "-F", filepath.Join(home, ".ssh", "config"), host).Output()
			if err != nil {
				t.Fatal(err)
			}
			c.user = me.Username
			s, err := c.lookup(hostfile.Host{Name: host}, false)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("hostname %s\nuser %s\nport %d\nhostkeyalias %s\nidentityfile %s\nidentitiesonly %v\nhashknownhosts %v\nuserknownhostsfile %s\n", s.hostname,
				s.user, s.port, s.alias, strings.Join(s.identities, " "), s.identitiesOnly, s.hashKnownHosts, strings.Join(s.userKnownHosts, " "))
			yes := map[string]string{"yes": "true", "no": "false"}
			want := fmt.Sprintf("hostname %s\nuser %s\nport %s\nhostkeyalias %s\nidentityfile %s\nidentitiesonly %s\nhashknownhosts %s\nuserknownhostsfile %s\n",
				sshValue(string(out), "hostname"), sshValue(string(out), "user"), sshValue(string(out), "port"), sshValue(string(out), "hostkeyalias"),
				strings.ReplaceAll(sshValue(string(out), "identityfile"), "~", home), yes[sshValue(string(out), "identitiesonly")], yes[sshValue(string(out), "hashknownhosts")],
				strings.ReplaceAll(sshValue(string(out), "userknownhostsfile"), me.HomeDir+"/", home+"/"))
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("ssh -G (-) and gorun (+) differ:\n%s", d)
			}
			strict := sshValue(string(out), "stricthostkeychecking")
			if want := strict == "false" || strict == "accept-new"; s.acceptNew != want {
				t.Errorf("accept new keys: got %v; want %v (%s)", s.acceptNew, want, strict)
			}
		})
	}
}

// sshValue joins the values of a keyword in the output of ssh -G.
func sshValue(out, key string) string {
	var vs []string
	for line := range strings.Lines(out) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), " "); k == key {
			vs = append(vs, v)
		}
	}
	return strings.Join(vs, " ")
}

func TestMatchPattern(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "abc", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"a*c", "abbbc", true}, {"a*c", "abbbd", false},
		{"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false}, {"", "", true}, {"", "a", false}, {"a**", "a", true},
		{strings.Repeat("*a", 30) + "b", strings.Repeat("a", 3000), false},
	}
	for _, tt := range tests {
		if got := matchPattern(tt.pattern, tt.s); got != tt.want {
			t.Errorf("matchPattern(%q, %q): got %v; want %v", tt.pattern, tt.s, got, tt.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("Host *\nPort 22\nMatch host a exec \"b\"\nIdentityFile ~/%h\n", "a")
	f.Add("Match final\nProxyJump=x\nUser \\\"\n", "b.c")
	f.Add("UserKnownHostsFile none x '\nStrictHostKeyChecking off", "")
	f.Fuzz(func(t *testing.T, text, host string) {
		c := &sshConfig{home: "/home/u", user: "u"}
		var ds []directive
		for i, line := range strings.Split(text, "\n") {
			d, err := parseDirective(line)
			if err != nil {
				return
			}
			if d.key == "" || d.key == "include" {
				continue
			}
			d.file, d.line = "f", i+1
			ds = append(ds, d)
		}
		c.files = [][]directive{ds}
		s, err := c.lookup(hostfile.Host{Name: host}, false)
		if err == nil && (s.port < 1 || s.port > 65535 || s.user == "") {
			t.Errorf("got port %d, user %q", s.port, s.user)
		}
		again, err2 := c.lookup(hostfile.Host{Name: host}, false)
		if (err == nil) != (err2 == nil) || err == nil && s.hostname != again.hostname {
			t.Error("two lookups of one host differ")
		}
	})
}
