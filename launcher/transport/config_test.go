package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorun/hostfile"
)

func noFile(string, error) {}

// testWorld runs nothing: "yes" and "no" are the commands that a Match exec may ask for.
func testWorld() world {
	hosts := map[string]string{"a.lan.": "a.lan", "alias.lan.": "real.lan", "alias": "real.lan.", "v6.lan.v6": "v6.lan"}
	env := map[string]string{"DIR": "/dir", "PERCENT": "%h", "EMPTY": ""}
	return world{
		hostname: "head.lan",
		uid:      1234,
		getenv:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		exec: func(_ context.Context, command string) (bool, error) {
			word, _, _ := strings.Cut(command, " ")
			if word != "yes" && word != "no" {
				return false, errors.New("it did not end in 1s")
			}
			return word == "yes", nil
		},
		canon: func(_ context.Context, name, family string) (string, error) {
			return cmp.Or(hosts[name], hosts[name+family]), nil
		},
		networks: func() []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::5")}
		},
		version: func(context.Context) (string, error) { return "OpenSSH_10.2p1", nil },
		close:   func() {},
	}
}

// configOf loads one config file of the given text.
func configOf(t *testing.T, text string) (*sshConfig, string, error) {
	t.Helper()
	home := t.TempDir()
	os.Mkdir(filepath.Join(home, ".ssh"), 0o700)
	name := filepath.Join(home, ".ssh", "config")
	write(t, name, text, 0o600)
	c, err := loadConfig(Options{Home: home, User: "alice", Config: []string{name}}, testWorld(), noFile)
	return c, home, err
}

func TestSettings(t *testing.T) {
	host := func(name string) hostfile.Host { return hostfile.Host{Name: name} }
	tests := []struct {
		name, text string
		host       hostfile.Host
		want       string // hostname user port alias identities userKnownHosts acceptNew identitiesOnly
	}{
		{"empty", "", host("gpu1"), "gpu1 alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"first-wins", "Host gpu*\nPort 2222\nHost *\nPort 3333\nUser bob\n", host("gpu1"), "gpu1 bob 2222 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostfile-wins", "Host *\nPort 3333\nUser bob\n", hostfile.Host{Name: "a", User: "eve", Port: 7}, "a eve 7 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostname-token", "Host gpu*\nHostName %h.example.com\n", host("GPU1"), "gpu1 alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"hostname-token-match", "Host GPU*\nHostName %h.example.com\n", host("GPU1"), "gpu1.example.com alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"identities", "IdentityFile ~/.ssh/k_%r@%h\nHost a\nIdentityFile \"/k with blank/%u%%\"\nIdentityFile %d/x # last\nIdentitiesOnly yes", host("a"), "a alice 22 - H/.ssh/k_alice@a,/k with blank/alice%,H/x H/.ssh/known_hosts,H/.ssh/known_hosts2 false true"},
		{"identity-none", "IdentityFile none", host("a"), "a alice 22 -  H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"known-hosts", "UserKnownHostsFile /a ~/b \"/c d\"\nStrictHostKeyChecking accept-new", host("a"), "a alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk /a,H/b,/c d true false"},
		{"no-known-hosts", "UserKnownHostsFile none\nStrictHostKeyChecking no\nHostKeyAlias Farm", host("a"), "a alice 22 farm H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk  true false"},
		{"equals-and-case", "hOsT = a b\n  pOrT=99\r\n\tUSER = \"x y\"\n", host("b"), "b x y 99 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"negated", "Host * !gpu1\nPort 1\nHost *\nPort 2", host("gpu1"), "gpu1 alice 2 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-host", "Host a\nHostName z.example\nMatch host *.example user alice\nPort 5\nMatch originalhost z.example\nPort 6\nMatch all\nUser m", host("a"), "z.example m 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-not", "Match !host b\nPort 5\nMatch !originalhost a\nUser no", host("a"), "a alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-final", "Match final all\nPort 5\nUser f\nHost a\nPort 6", host("a"), "a f 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"exec", "Match exec \"yes %n\"\nPort 6\nMatch exec no\nUser eve\nMatch !exec no\nUser carol", host("a"), "a carol 6 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"exec-for-others", "Match host other exec \"hang\"\nPort 7\nHost other\nMatch exec \"yes\"\nPort 8", host("a"), "a alice 8 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"proxy-none", "Host a\nProxyCommand none\nHost *\nProxyJump b", host("a"), "a alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-network", "Match localnetwork 10.0.0.0/8,192.0.2.1\nPort 5\nMatch !localnetwork fd00::/16\nUser no", host("a"), "a alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-tagged", "Match tagged \"\"\nPort 5\nMatch all\nTag red\nMatch tagged r*\nUser bob\nMatch tagged \"\"\nUser no", host("a"), "a bob 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-version", "Match version OpenSSH_10.*\nPort 5", host("a"), "a alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-command", "Match command gorun*\nPort 5\nMatch sessiontype=exec\nUser x", host("a"), "a x 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"match-user-of-hostfile", "Match user eve\nPort 5", hostfile.Host{Name: "a", User: "eve"}, "a eve 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical", "CanonicalizeHostname yes\nCanonicalDomains no.lan lan\nHost a.lan\nPort 5\nMatch canonical host *.lan\nUser x", host("A"), "a.lan x 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-not-found", "CanonicalizeHostname yes\nCanonicalDomains lan\nHost b\nPort 5", host("b"), "b alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-many-dots", "CanonicalizeHostname yes\nCanonicalDomains lan\nCanonicalizeMaxDots 0\nHost a.b\nPort 5", host("a.b"), "a.b alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-alias", "CanonicalizeHostname yes\nCanonicalDomains lan\nCanonicalizePermittedCNAMEs *.lan:*.lan\nHost real.lan\nPort 5", host("alias"), "real.lan alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-alias-not-permitted", "CanonicalizeHostname yes\nCanonicalDomains lan\nCanonicalizePermittedCNAMEs *.lan:*.far\nHost alias.lan\nPort 5", host("alias"), "alias.lan alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-bare-alias", "CanonicalizeHostname yes\nCanonicalizePermittedCNAMEs alias:*", host("alias"), "real.lan alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-not-behind-a-proxy", "CanonicalizeHostname yes\nCanonicalDomains lan\nMatch canonical\nPort 5\nProxyJump none\nMatch all\nProxyCommand none", host("a"), "a.lan alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-with-no-jump", "CanonicalizeHostname yes\nCanonicalDomains lan\nProxyJump none\nHost a.lan\nPort 5", host("a"), "a.lan alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"canonical-family", "CanonicalizeHostname yes\nAddressFamily inet6\nCanonicalDomains lan.v6", host("v6"), "v6 alice 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"address", "Host fd00::1\nPort 7\nHost fd00::0001\nPort 5", host("fd00::0001"), "fd00::1 alice 5 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"tokens", "UserKnownHostsFile /%d/%u/%i/%l/%L/%h/%n/%p/%r/%k/%% /%C /%j. ${DIR}/${PERCENT}\nHostName GPU.%h\nUser bob", host("A"), "gpu.a bob 22 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk /H/alice/1234/head.lan/head/gpu.a/A/22/bob/A/%,/84642555ce6b1145139af242ea1552a366fe5f48,/.,/dir/%h false false"},
		{"unknown-keyword", "Frobnicate 3\nPort 4", host("a"), "a alice 4 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
		{"byte-order-mark", "\ufeffPort 4", host("a"), "a alice 4 - H/.ssh/id_ed25519,H/.ssh/id_ecdsa,H/.ssh/id_rsa,H/.ssh/id_ed25519_sk,H/.ssh/id_ecdsa_sk H/.ssh/known_hosts,H/.ssh/known_hosts2 false false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, home, err := configOf(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.lookup(t.Context(), tt.host, lookupOptions{})
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
		{"proxy-jump", "Host a\n  ProxyJump a,,b", `:2: ProxyJump: "" names no host`},
		{"proxy-command", "ProxyCommand nc %h %Z", `:1: ProxyCommand: "nc %h %Z": token %Z is not supported`},
		{"proxy-stdin", "ProxyCommand -", ":1: ProxyCommand -: gorun's own input and output are not a connection"},
		{"proxy-fd", "ProxyCommand nc -F %h %p\nProxyUseFdpass yes", ":2: ProxyUseFdpass is not supported"},
		{"match-exec", "Match exec \"hang %n\"\n  Port 5", `:1: Match exec: "hang a": it did not end in 1s`},
		{"match-exec-token", "Match exec \"x %Z\"", `:1: Match exec: "x %Z": token %Z is not supported`},
		{"match-nothing", "Match", ":1: Match has no criteria"},
		{"match-no-value", "Match user", ":1: Match user has no value"},
		{"match-unknown", "Port 3\nMatch phase new", ":2: Match phase: gorun does not know this criterion"},
		{"match-bad-network", "Match localnetwork 10.0.0.1/8", `:1: Match localnetwork: "10.0.0.1/8" is not a network`},
		{"canonicalize", "CanonicalizeHostname perhaps", `:1: bad CanonicalizeHostname "perhaps": want yes or no`},
		{"canonical-nowhere", "CanonicalizeHostname yes\nCanonicalDomains x y\nCanonicalizeFallbackLocal no", `:1: CanonicalizeHostname: there is no host "a" in CanonicalDomains x y`},
		{"canonical-cnames", "CanonicalizeHostname yes\nCanonicalizePermittedCNAMEs a", `:2: bad CanonicalizePermittedCNAMEs "a": want NAMES:NAMES`},
		{"canonical-dots", "CanonicalizeHostname yes\nCanonicalizeMaxDots x", `:2: bad CanonicalizeMaxDots "x"`},
		{"revoked-keys", "RevokedHostKeys /etc/ssh/revoked", ":1: RevokedHostKeys is not supported"},
		{"no-value", "Port", ":1: Port has no value"},
		{"bad-port", "\nPort ssh", `:2: bad Port "ssh"`},
		{"bad-strict", "StrictHostKeyChecking maybe", `:1: bad StrictHostKeyChecking "maybe"`},
		{"bad-yes-no", "IdentitiesOnly perhaps", `:1: bad IdentitiesOnly "perhaps": want yes or no`},
		{"bad-token", "IdentityFile /k/%Z", `:1: IdentityFile: "/k/%Z": token %Z is not supported`},
		{"environment", "UserKnownHostsFile ${HOME}/k", `:1: UserKnownHostsFile: the environment variable HOME is not set`},
		{"open-variable", "UserKnownHostsFile ${HOME", ":1: UserKnownHostsFile: ${ without a name and }"},
		{"no-such-user", "IdentityFile ~no.such.user/x", `:1: IdentityFile: "~no.such.user/x": there is no user "no.such.user"`},
		{"include-token", "Include /%h", `:1: Include "/%h": "/%h": token %h is not supported`},
		{"open-quote", "Port 3\nUser \"x", ":2: a quote (\") is not closed"},
		{"include-nothing", "Include", ":1: Include names no file"},
		{"misspelt", "Port 3\nHostnam b", `:2: unknown keyword "hostnam"; did you mean HostName?`},
		{"misspelt-elsewhere", "Host b\n  StrictHostKeyCheking yes", `:2: unknown keyword "stricthostkeycheking"; did you mean StrictHostKeyChecking?`},
		{"misspelt-block", "Hots b\nPort 3", `:1: unknown keyword "hots"; did you mean Host?`},
		{"misspelt-before-ignore", "Prot 3\nIgnoreUnknown *", `:1: unknown keyword "prot"; did you mean Port?`},
		{"misspelt-ignore-elsewhere", "Host b\nIgnoreUnknown *\nHost *\nProt 3", `:4: unknown keyword "prot"; did you mean Port?`},
		{"misspelt-ignore-other", "IgnoreUnknown x,!prot,*\nProt 3", `:2: unknown keyword "prot"; did you mean Port?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, home, err := configOf(t, tt.text)
			if err == nil {
				var s *settings
				s, err = c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{})
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

// A keyword that is no known one misspelt may be another ssh's, and is told of; so is an
// algorithm, in any case.
func TestDoubts(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"none", "UseKeychain yes\nprotocol 2\nHPNDisabled no\nSkeyAuthentication no\nMatch all\nInclude /none", ""},
		{"unknown", "Port 3\n\nFrobnicate 3\nHost b\nFrobnicate 4", `:3: unknown keyword "frobnicate" is skipped|:5: unknown keyword "frobnicate" is skipped`},
		{"once-in-two-passes", "Frobnicate 3\nMatch final\nPort 4", `:1: unknown keyword "frobnicate" is skipped`},
		{"ignored", "IgnoreUnknown Frob*,x\nFROBNICATE 3\nX\nHost b\nfrob", ""},
		{"ignored-in-part", "IgnoreUnknown x\nIgnoreUnknown frob*\nFrobnicate 3", `:3: unknown keyword "frobnicate" is skipped`},
		{"ciphers", "Ciphers aes256-ctr,foo,aes128-crt", `:1: Ciphers: unknown algorithm "foo"|:1: Ciphers: unknown algorithm "aes128-crt"; did you mean aes128-ctr?`},
		{"kex", "KexAlgorithms +nonsense", `:1: KexAlgorithms: unknown algorithm "nonsense"`},
		{"kex-known-to-ssh", "KexAlgorithms mlkem768x25519-sha256,sntrup761x25519-sha512@openssh.com,curve25519-sha256", ""},
		{"macs", "MACs ^hmac-sha2-265", `:1: MACs: unknown algorithm "hmac-sha2-265"; did you mean hmac-sha2-256?`},
		{"taken-away", "MACs -hmac-none\nCiphers -*-cbc", ""},
		{"patterns", "HostKeyAlgorithms ssh-*,x-*", `:1: HostKeyAlgorithms: unknown algorithm "x-*"`},
		{"not-applying", "Host b\nCiphers foo", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, home, err := configOf(t, row.text)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.Join(s.doubts, "|"), filepath.Join(home, ".ssh", "config"), ""); got != row.want {
				t.Errorf("got %s; want %s", got, row.want)
			}
		})
	}
}

// As with ssh a keyword must be known in a file, too, that is included for other hosts.
func TestMisspeltInInclude(t *testing.T) {
	part := filepath.Join(t.TempDir(), "part")
	write(t, part, "User x\nFrobnicate\nUsr y\n", 0o600)
	c, _, err := configOf(t, "Host b\nInclude "+part+"\nHost *\nPort 3")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{})
	if want := part + `:3: unknown keyword "usr"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v; want %s", err, want)
	}
}

// What is doubted is told once for all hosts, and not without end.
func TestDoubtsOnce(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0").start()
	text := "Ciphers +foo\n" + strings.Repeat("Frobnicate\n", 50)
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, text) })
	for range 3 {
		mustDial(t, d, s.host())
	}
	ws := d.Warnings() // and one of the host's key
	if len(ws) != maxDoubts+1 || !strings.HasSuffix(ws[0], `:2: unknown keyword "frobnicate" is skipped`) {
		t.Errorf("got %d: %q", len(ws), ws)
	}
}

func TestIncludes(t *testing.T) {
	c, home, err := configOf(t, "Include more.d/*.conf\nHost b\nInclude ~/.ssh/only-b absent\nHost *\nPort 9\n")
	if err != nil {
		t.Fatal(err)
	}
	_ = home
	for _, tt := range []struct{ host, want string }{{"a", "a 9"}, {"b", "b 9"}} {
		s, err := c.lookup(t.Context(), hostfile.Host{Name: tt.host}, lookupOptions{})
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
	write(t, filepath.Join(dir, "more.d", "2.conf"), "Host c d\nHostName lake\nPort 1\nProxyUseFdpass yes\n", 0o600)
	write(t, filepath.Join(dir, "only-b"), "User inner\nHost a b\nPort 7\n", 0o600)
	if c, err = loadConfig(Options{Home: home, User: "alice"}, testWorld(), noFile); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ host, want string }{
		{"a", "a alice 9"}, {"b", "b inner 7"}, {"c", "sea alice 1 " + dir + "/more.d/2.conf:4: ProxyUseFdpass is not supported"},
	}
	for _, tt := range tests {
		s, err := c.lookup(t.Context(), hostfile.Host{Name: tt.host}, lookupOptions{})
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
	c, err := loadConfig(Options{Home: home, User: "alice"}, testWorld(), noFile)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{}); err != nil || s.port != 7 || s.user != "bob" {
		t.Errorf("got %+v, %v; want port 7, user bob", s, err)
	}
}

func TestIncludeCycle(t *testing.T) {
	_, home, err := configOf(t, "Include config")
	config := filepath.Join(home, ".ssh", "config")
	if err == nil || err.Error() != config+":1: includes itself" {
		t.Errorf("got %v; want an error about %s", err, config)
	}
	dir := t.TempDir()
	for i := range 3 {
		write(t, filepath.Join(dir, fmt.Sprint(i)), fmt.Sprintf("\nInclude %s/%d\n", dir, (i+1)%3), 0o600)
	}
	_, _, err = configOf(t, "Include "+dir+"/0")
	want := fmt.Sprintf("%[1]s/2:2: includes itself by way of %[1]s/0 and %[1]s/1", dir)
	if err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	for i := range 20 {
		write(t, filepath.Join(dir, fmt.Sprint(i)), fmt.Sprintf("Include %s/%d\n", dir, i+1), 0o600)
	}
	if _, _, err = configOf(t, "Include "+dir+"/0"); err == nil || !strings.Contains(err.Error(), "nested more than 16 deep") {
		t.Errorf("got %v; want an error about nesting", err)
	}
}

// What an Include names may hold variables, and tokens about this machine.
func TestIncludePath(t *testing.T) {
	c := &sshConfig{home: "/home/alice", user: "alice", world: testWorld()}
	for arg, want := range map[string]string{
		"~/x": "/home/alice/x", "${DIR}/*.conf": "/dir/*.conf", "/a/%u/%L/%%": "/a/alice/head/%", "rel": "rel", "${EMPTY}x": "x",
	} {
		if got, err := c.includePath(arg); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", arg, got, err, want)
		}
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
			_, err := loadConfig(Options{Home: home, Config: []string{tt.path}}, testWorld(), noFile)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
	if _, err := readConfigFile(name, maxConfig, true); err != nil {
		t.Errorf("the system's file: got %v; want it read, whoever may write it", err)
	}
	if _, err := loadConfig(Options{Home: filepath.Join(home, "nobody")}, testWorld(), noFile); err != nil {
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
			s, err := c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if s.elsewhere != tt.want {
				t.Errorf("got %v; want %v", s.elsewhere, tt.want)
			}
		})
	}
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
	f.Add("Match tagged x localnetwork ::/0\nProxyJump a,b@[::1]:2\nCanonicalizeHostname always\nCanonicalDomains lan\n", "alias")
	f.Add("Match exec \"yes %C\" !final user=a\nUserKnownHostsFile ${DIR}%j ~/\n", "fd00::0001")
	f.Add("UserKnownHostsFile none x '\nStrictHostKeyChecking off", "")
	f.Fuzz(func(t *testing.T, text, host string) {
		c := &sshConfig{home: "/home/u", user: "u", world: testWorld()}
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
		s, err := c.lookup(t.Context(), hostfile.Host{Name: host}, lookupOptions{})
		if err == nil && (s.port < 1 || s.port > 65535 || s.user == "") {
			t.Errorf("got port %d, user %q", s.port, s.user)
		}
		again, err2 := c.lookup(t.Context(), hostfile.Host{Name: host}, lookupOptions{})
		if (err == nil) != (err2 == nil) || err == nil && s.hostname != again.hostname {
			t.Error("two lookups of one host differ")
		}
	})
}
