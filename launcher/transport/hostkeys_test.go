package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func newRSA(t *testing.T) (*rsa.PrivateKey, ssh.Signer) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, s
}

func newECDSA(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keyText(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// hostCert makes a host certificate for principals.
func hostCert(t *testing.T, ca, key ssh.Signer, until time.Time, principals ...string) *ssh.Certificate {
	t.Helper()
	cert := &ssh.Certificate{
		Key: key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: principals,
		ValidAfter: uint64(time.Now().Add(-2 * time.Hour).Unix()), ValidBefore: uint64(until.Unix()),
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestHostKeys(t *testing.T) {
	_, a := newKey(t)
	_, b := newKey(t)
	_, ca := newKey(t)
	ec := newECDSA(t)
	A, B, CA, EC := keyText(a.PublicKey()), keyText(b.PublicKey()), keyText(ca.PublicKey()), keyText(ec.PublicKey())
	later := time.Now().Add(time.Hour)
	good := hostCert(t, ca, a, later, "gpu1", "farm")
	expired := hostCert(t, ca, a, time.Now().Add(-time.Hour), "gpu1")
	stranger := hostCert(t, b, a, later, "gpu1")
	gpu1 := settings{name: "gpu1", hostname: "gpu1", port: 22, user: "u"}
	port := settings{name: "gpu1", hostname: "gpu1", port: 2222, user: "u"}
	acceptNew := settings{name: "gpu1", hostname: "gpu1", port: 22, user: "u", acceptNew: true}
	alias := settings{name: "gpu1", hostname: "gpu1", port: 2222, user: "u", alias: "farm"}

	tests := []struct {
		name  string
		known string
		s     settings
		key   ssh.PublicKey
		want  string
	}{
		{"plain", "gpu1 " + A, gpu1, a.PublicKey(), ""},
		{"comment-and-junk", "# x\n\njunk\ngpu1 ssh-rsa AAAA\n\tgpu1,other " + A + " comment\r\n", gpu1, a.PublicKey(), ""},
		{"case", "GPU1 " + A, gpu1, a.PublicKey(), ""},
		{"unknown", "gpu2 " + A, gpu1, a.PublicKey(), "unknown"},
		{"changed", "#\ngpu1 " + B, gpu1, a.PublicKey(), "changed :2"},
		{"changed-type", "gpu1 " + EC, gpu1, a.PublicKey(), "changed :1"},
		{"several-keys", "gpu1 " + B + "\ngpu1 " + A, gpu1, a.PublicKey(), ""},
		{"wildcard", "gpu? " + A, gpu1, a.PublicKey(), ""},
		{"wildcard-negated", "gpu*,!gpu1 " + A, gpu1, a.PublicKey(), "unknown"},
		{"hashed", knownhosts.HashHostname("gpu1") + " " + A, gpu1, a.PublicKey(), ""},
		{"hashed-other", knownhosts.HashHostname("gpu2") + " " + A, gpu1, a.PublicKey(), "unknown"},
		{"hashed-changed", knownhosts.HashHostname("gpu1") + " " + B, gpu1, a.PublicKey(), "changed :1"},
		{"port", "[gpu1]:2222 " + A, port, a.PublicKey(), ""},
		{"port-hashed", knownhosts.HashHostname("[gpu1]:2222") + " " + A, port, a.PublicKey(), ""},
		{"port-of-another", "[gpu1]:2223 " + A, port, a.PublicKey(), "unknown"},
		{"port-without", "gpu1 " + A, port, a.PublicKey(), ""},
		{"port-without-other-key", "gpu1 " + B, port, a.PublicKey(), "unknown"},
		{"port-changed", "[gpu1]:2222 " + B, port, a.PublicKey(), "changed :1"},
		{"port-changed-but-bare", "[gpu1]:2222 " + B + "\ngpu1 " + A, port, a.PublicKey(), "changed :1"},
		{"port-other-type-but-bare", "[gpu1]:2222 " + EC + "\ngpu1 " + A, port, a.PublicKey(), "changed :1"},
		{"port-without-revoked", "gpu1 " + A + "\n@revoked gpu1 " + A, port, a.PublicKey(), "revoked :2"},
		{"alias", "farm " + A, alias, a.PublicKey(), ""},
		{"alias-not-host", "[gpu1]:2222 " + A + "\ngpu1 " + A, alias, a.PublicKey(), "unknown"},
		{"revoked", "gpu1 " + A + "\n@revoked * " + A, gpu1, a.PublicKey(), "revoked :2"},
		{"revoked-for-others", "gpu1 " + A + "\n@revoked gpu2 " + A, gpu1, a.PublicKey(), ""},
		{"revoked-only", "@revoked gpu1 " + B, gpu1, a.PublicKey(), "unknown"},
		{"bad-marker", "@what gpu1 " + A, gpu1, a.PublicKey(), "unknown"},
		{"authority", "@cert-authority gpu* " + CA, gpu1, good, ""},
		{"authority-alias", "@cert-authority farm " + CA, alias, good, ""},
		{"authority-port", "@cert-authority [gpu1]:2222 " + CA, port, good, ""},
		{"authority-without-port", "@cert-authority gpu1 " + CA, port, good, ""},
		{"authority-without-port-alias", "@cert-authority gpu1 " + CA, alias, good, "certificate no authorities"},
		{"authority-for-others", "@cert-authority gpu2 " + CA, gpu1, good, "certificate no authorities"},
		{"authority-unknown", "@cert-authority * " + CA, gpu1, stranger, "certificate no authorities"},
		{"authority-is-no-host-key", "@cert-authority * " + A, gpu1, a.PublicKey(), "unknown"},
		{"authority-revoked", "@cert-authority * " + CA + "\n@revoked * " + CA, gpu1, good, "revoked :2"},
		{"certified-key-revoked", "@cert-authority * " + CA + "\n@revoked * " + A, gpu1, good, "revoked :2"},
		{"expired", "@cert-authority * " + CA, gpu1, expired, "certificate cert has expired"},
		{"expired-but-key-known", "@cert-authority * " + CA + "\ngpu1 " + A, gpu1, expired, ""},
		{"expired-but-key-known-without-port", "@cert-authority * " + CA + "\ngpu1 " + A, port, expired, ""},
		{"expired-and-other-key-known", "@cert-authority * " + CA + "\ngpu1 " + B, gpu1, expired, "changed :2"},
		{"expired-and-new", "@cert-authority * " + CA, acceptNew, expired, ""},
		{"other-principal", "@cert-authority * " + CA, settings{hostname: "gpu9", port: 22}, good, "certificate principal"},
		{"ipv6", "fd00::2 " + A, settings{hostname: "fd00::2", port: 22}, a.PublicKey(), ""},
		{"ipv6-port", "[fd00::2]:99 " + A, settings{hostname: "fd00::2", port: 99}, a.PublicKey(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "known_hosts")
			write(t, file, tt.known, 0o600)
			s := tt.s
			s.userKnownHosts = []string{file}
			c, err := newHostKeys(slog.New(slog.DiscardHandler), noFile).check(&s)
			if err != nil {
				t.Fatal(err)
			}
			err = c.callback("", nil, tt.key)
			if got := describe(err, file); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("got %q (%v); want %q", got, err, tt.want)
			}
			if !errors.Is(c.failure(), err) {
				t.Errorf("failure: got %v; want %v", c.failure(), err)
			}
		})
	}
}

func describe(err error, file string) string {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*HostKeyError](err)
	if !ok {
		return err.Error()
	}
	where := strings.TrimPrefix(fmt.Sprintf("%s:%d", e.File, e.Line), file)
	switch e.Problem {
	case HostKeyUnknown:
		return "unknown " + e.Command
	case HostKeyChanged:
		return "changed " + where
	case HostKeyRevoked:
		return "revoked " + where
	}
	return "certificate " + strings.TrimPrefix(e.Detail, "ssh: ")
}

// TestKnownHostsAsSSH lets ssh-keygen say which lines match.
func TestKnownHostsAsSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		skip(t, "needs ssh-keygen")
	}
	_, a := newKey(t)
	A := keyText(a.PublicKey())
	file := filepath.Join(t.TempDir(), "known_hosts")
	write(t, file, strings.Join([]string{
		"a,b " + A, "*.x.org,!no.x.org " + A, knownhosts.HashHostname("c") + " " + A, "[d]:44 " + A, "d " + A, "@revoked e* " + A,
		"@cert-authority *.x.org " + A, "[*.y]:44 " + A, "? " + A, "10.0.*,!10.0.0.1 " + A, "",
	}, "\n"), 0o600)
	db := newHostKeys(slog.New(slog.DiscardHandler), noFile)
	for _, name := range []string{"a", "b", "c", "d", "[d]:44", "e", "eee", "m.x.org", "no.x.org", "[z.y]:44", "10.0.0.1", "10.0.0.2", "zz"} {
		out, _ := exec.Command("ssh-keygen", "-F", name, "-f", file).Output()
		var want []string
		for line := range strings.Lines(string(out)) {
			if _, n, ok := strings.Cut(strings.TrimSpace(line), "found: line "); ok {
				want = append(want, strings.Fields(n)[0])
			}
		}
		known, err := db.known([]string{file}, name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range known {
			got = append(got, fmt.Sprint(k.line))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got lines %v; want %v", name, got, want)
		}
	}
}

func TestHostKeyAlgorithms(t *testing.T) {
	known := func(marker string, algos ...string) (ks []*knownKey) {
		for _, a := range algos {
			ks = append(ks, &knownKey{marker: marker, algo: a})
		}
		return ks
	}
	tests := []struct {
		name  string
		known []*knownKey
		want  string // first three
	}{
		{"nothing", nil, "ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384"},
		{"rsa", known("", "ssh-rsa"), "rsa-sha2-512 rsa-sha2-256 ssh-ed25519"},
		{"ecdsa-and-rsa", known("", "ssh-rsa", "ecdsa-sha2-nistp521"), "ecdsa-sha2-nistp521 rsa-sha2-512 rsa-sha2-256"},
		{"revoked", known(markRevoked, "ssh-rsa"), "ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384"},
		{"authority", known(markCA, "ssh-rsa"), "ssh-ed25519-cert-v01@openssh.com ecdsa-sha2-nistp256-cert-v01@openssh.com ecdsa-sha2-nistp384-cert-v01@openssh.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			algos := new(algorithms).hostKeyAlgorithms(tt.known)
			if got := strings.Join(algos[:3], " "); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
			if n := len(algos); n != 6 && n != 12 {
				t.Errorf("got %d algorithms; want 6, or 12 with certificates", n)
			}
		})
	}
}

func TestAcceptNew(t *testing.T) {
	_, a := newKey(t)
	_, b := newKey(t)
	home := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(home, ".ssh", "known_hosts")
	h := newHostKeys(slog.New(slog.DiscardHandler), noFile)
	const hosts = 40
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() {
			s := settings{hostname: fmt.Sprintf("n%02d", i/2), port: 22, acceptNew: true, userKnownHosts: []string{file}, hashKnownHosts: i%4 > 1}
			c, err := h.check(&s)
			if err == nil {
				err = c.callback("", nil, a.PublicKey())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st, err := os.Stat(filepath.Dir(file)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: got %v, %v; want mode 0700", st, err)
	}
	text, _ := os.ReadFile(file)
	if got := strings.Count(string(text), "\n"); got != hosts/2 {
		t.Errorf("got %d lines; want %d:\n%s", got, hosts/2, text)
	}
	if got := strings.Count(string(text), "|1|"); got != hosts/4 {
		t.Errorf("got %d hashed lines; want %d", got, hosts/4)
	}
	if got, want := h.warnings(), fmt.Sprintf("recorded the keys of %d new hosts in %s", hosts/2, file); len(got) != 1 || got[0] != want {
		t.Errorf("warnings: got %q; want %q", got, want)
	}

	// What was written is what a fresh start reads, and it protects.
	again := newHostKeys(slog.New(slog.DiscardHandler), noFile)
	for i := range hosts / 2 {
		s := settings{hostname: fmt.Sprintf("n%02d", i), port: 22, acceptNew: true, userKnownHosts: []string{file}}
		c, err := again.check(&s)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.callback("", nil, a.PublicKey()); err != nil {
			t.Errorf("n%02d: %v", i, err)
		}
		if got := describe(c.callback("", nil, b.PublicKey()), file); !strings.HasPrefix(got, "changed :") {
			t.Errorf("n%02d with another key: got %q; want changed", i, got)
		}
	}
}

func TestAcceptNewEnds(t *testing.T) {
	_, a := newKey(t)
	_, b := newKey(t)
	dir := t.TempDir()
	noNewline := filepath.Join(dir, "no-newline")
	write(t, noNewline, "other "+keyText(b.PublicKey()), 0o600)
	tests := []struct{ name, file, warning string }{
		{"dev-null", os.DevNull, "trusted the keys of 1 host without knowing them: no known_hosts file is kept"},
		{"no-newline", noNewline, "recorded the keys of 1 new host in " + noNewline},
		{"cannot-write", "/proc/version", "trusted the keys of 1 new host but could not record them: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostKeys(slog.New(slog.DiscardHandler), noFile)
			s := settings{hostname: "gpu1", port: 22, acceptNew: true, userKnownHosts: []string{tt.file}}
			for i := range 2 {
				c, err := h.check(&s)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.callback("", nil, a.PublicKey()); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
				if got := describe(c.callback("", nil, b.PublicKey()), ""); !strings.HasPrefix(got, "changed") {
					t.Errorf("another key in connection %d: got %q; want changed", i, got)
				}
			}
			if got := h.warnings(); len(got) != 1 || !strings.HasPrefix(got[0], tt.warning) {
				t.Errorf("warnings: got %q; want %q", got, tt.warning)
			}
		})
	}
	text, _ := os.ReadFile(noNewline)
	if want := "other " + keyText(b.PublicKey()) + "\ngpu1 " + keyText(a.PublicKey()) + "\n"; string(text) != want {
		t.Errorf("file: got %q; want %q", text, want)
	}
}

func TestAcceptCommand(t *testing.T) {
	tests := []struct {
		s    settings
		want string
	}{
		{settings{name: "gpu1", hostname: "gpu1.example", user: "u", port: 22}, "u@gpu1 true"},
		{settings{name: "gpu1", hostname: "gpu1", user: "a b", port: 2222}, "-p 2222 'a b@gpu1' true"},
		{settings{name: "gpu1", hostname: "gpu1", user: "u", port: 2222, config: "my config"}, "-F 'my config' -p 2222 u@gpu1 true"},
		{settings{name: "gpu1", hostname: "gpu1", user: "u", port: 22, config: "none"}, "-F none u@gpu1 true"},
		{settings{name: "x'; rm -rf /", hostname: "x", user: "u", port: 22}, `'u@x'\''; rm -rf /' true`},
	}
	for _, tt := range tests {
		if got := acceptArgs(&tt.s); got != tt.want {
			t.Errorf("got %s; want %s", got, tt.want)
		}
	}
}

func FuzzKnownHosts(f *testing.F) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxlZnRvdmVyc2FuZHRoaW5nc3RoYXRsb29rbGlrZWtl"
	f.Add("gpu1 "+key+"\n|1|AAAAAAAAAAAAAAAAAAAAAAAAAAA=|AAAAAAAAAAAAAAAAAAAAAAAAAAA= "+key, "gpu1")
	f.Add("@revoked *,!a "+key+"\n@cert-authority [a]:1 "+key, "[a]:1")
	f.Add("@ \n|\n|1||| a b\n,,! ssh-rsa AAAA", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		db, _ := parseKnownHosts("f", text)
		for _, k := range db.lookup(name) {
			if k.line < 1 || k.line > strings.Count(text, "\n")+1 {
				t.Errorf("line %d of %q", k.line, text)
			}
			if k.marker != "" && k.marker != markCA && k.marker != markRevoked {
				t.Errorf("marker %q", k.marker)
			}
			if k.patterns != "" && !matchPatterns(strings.Split(k.patterns, ","), name) {
				t.Errorf("line %d (%q) found for %q", k.line, k.patterns, name)
			}
			k.is([]byte(name))
			k.is(nil)
		}
	})
}
