package transport

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

func TestAlgorithmSpec(t *testing.T) {
	defaults, supported := []string{"a", "b", "c"}, []string{"a", "b", "c", "old-a", "old-b"}
	tests := []struct{ value, want string }{
		{"b,a", "b a"}, {"old-*", "old-a old-b"}, {"+old-a", "a b c old-a"}, {"+a", "a b c"}, {"-b", "a c"}, {"-*", ""},
		{"^c,old-b", "c old-b a b"}, {"^unknown", "a b c"}, {"unknown", ""}, {"a,unknown,a", "a"}, {"", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(parseAlgorithms(tt.value).apply(defaults, supported), " "); got != tt.want {
			t.Errorf("%q: got %q; want %q", tt.value, got, tt.want)
		}
	}
}

// lookupText returns the settings of host "a" by a file of the given text.
func lookupText(t *testing.T, text string) (*settings, error) {
	t.Helper()
	c, _, err := configOf(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return c.lookup(t.Context(), hostfile.Host{Name: "a"}, lookupOptions{})
}

func TestHostKeyAlgorithmsOfConfig(t *testing.T) {
	known := []*knownKey{{algo: ssh.KeyAlgoECDSA256}}
	tests := []struct{ text, want string }{
		{"", "ecdsa-sha2-nistp256 ssh-ed25519"},
		{"HostKeyAlgorithms ssh-ed25519,ecdsa-sha2-nistp256", "ssh-ed25519 ecdsa-sha2-nistp256"},
		{"HostKeyAlgorithms -ecdsa*", "ssh-ed25519 rsa-sha2-512"},
		{"HostKeyAlgorithms ^rsa-sha2-256", "rsa-sha2-256 ssh-ed25519-cert-v01@openssh.com"},
		{"HostKeyAlgorithms +ssh-rsa", "ecdsa-sha2-nistp256 ssh-ed25519"},
	}
	for _, tt := range tests {
		s, err := lookupText(t, tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.algorithms.hostKeyAlgorithms(known); strings.Join(got[:2], " ") != tt.want {
			t.Errorf("%s: got %v; want first %s", tt.text, got, tt.want)
		}
	}
}

func TestAlgorithmProblems(t *testing.T) {
	for text, want := range map[string]string{
		"Ciphers nothing":                   `Ciphers nothing: gorun has none of these; unknown algorithm "nothing"`,
		"MACs hmac-sha1-96-etm@openssh.com": "gorun has none of these",
		"MACs -*":                           "MACs -*: gorun has none of these",
		"RequiredRSASize x":                 `bad RequiredRSASize "x"`,
		"AddressFamily inet7":               `bad AddressFamily "inet7": want any, inet or inet6`,
		"CASignatureAlgorithms dsa":         "CASignatureAlgorithms dsa: gorun has none of these",
	} {
		if _, err := lookupText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want %q", text, err, want)
		}
	}
}

func TestAcceptedAlgorithms(t *testing.T) {
	_, key := newRSA(t)
	pub := key.PublicKey()
	cert := &ssh.Certificate{Key: pub}
	for text, want := range map[string]string{
		"":                                      "rsa-sha2-256 rsa-sha2-512 / rsa-sha2-256 rsa-sha2-512",
		"PubkeyAcceptedAlgorithms rsa-sha2-512": "rsa-sha2-512 / ",
		"PubkeyAcceptedKeyTypes rsa-sha2-256-cert-v01@openssh.com":   " / rsa-sha2-256",
		"PubkeyAcceptedAlgorithms -rsa*":                             " / ",
		"PubkeyAcceptedAlgorithms ssh-ed25519,rsa-sha2-512*,nothing": "rsa-sha2-512 / rsa-sha2-512",
	} {
		s, err := lookupText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(s.algorithms.accepts(pub, signatures(pub)), " ") + " / " + strings.Join(s.algorithms.accepts(cert, signatures(cert)), " ")
		if got != want {
			t.Errorf("%s: got %s; want %s", text, got, want)
		}
	}
}

// What is chosen is what both ends then use.
func TestDialAlgorithms(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.config.Ciphers = []string{ssh.CipherAES256CTR, ssh.CipherAES128GCM}
	s.start()
	for text, want := range map[string]string{"Ciphers aes256-ctr\nMACs hmac-sha2-256\nKexAlgorithms curve25519-sha256": "", "Ciphers chacha20*": "no common algorithm"} {
		_, err := dial(t, fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, text) }), s.host())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v; want %q", text, err, want)
		}
	}
}

func TestPubkeyAcceptedAlgorithms(t *testing.T) {
	home, dir := homeWithSSH(t)
	s := keyServer(t, writeKey(t, dir+"/id_ed25519"))
	d := fakeDialer(t, func(o *Options) { o.Home, o.Config = home, sshConfigFile(t, "PubkeyAcceptedAlgorithms rsa*") })
	if _, err := dial(t, d, s.host()); err == nil || !strings.Contains(err.Error(), "ed25519: PubkeyAcceptedAlgorithms leaves it out") {
		t.Errorf("got %v; want the key left out", err)
	}
}

func TestHostKeyRules(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	_, s.hostKey = newRSA(t)
	s.start()
	home, dir := homeWithSSH(t)
	write(t, dir+"/known_hosts", "", 0o600)
	for text, want := range map[string]string{
		"":                                     "is not known",
		"NoHostAuthenticationForLocalhost yes": "",
		"NoHostAuthenticationForLocalhost yes\nHostKeyAlias x": "is not known",
		"RequiredRSASize 4096":                                 "RequiredRSASize wants 4096",
	} {
		d := fakeDialer(t, func(o *Options) { o.Home, o.AcceptNewHostKeys, o.Config = home, false, sshConfigFile(t, text) })
		_, err := dial(t, d, s.host())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v; want %q", text, err, want)
		}
	}
}

func TestAddressFamily(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.2")}
	for family, want := range map[string]int{"any": 3, "v4": 2, "v6": 1} {
		got, err := (&settings{family: family}).ofFamily(addrs)
		if err != nil || len(got) != want {
			t.Errorf("%s: got %v, %v; want %d", family, got, err, want)
		}
	}
	if _, err := (&settings{family: "v6", hostname: "a"}).ofFamily(addrs[:1]); err == nil {
		t.Error("got no error for a host without an address of the family")
	}
}

func TestBind(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0").start()
	for text, want := range map[string]string{
		"BindAddress 127.0.0.3": "", "BindInterface lo": "", "BindAddress ::1": "there is no address of its family",
		"BindInterface none0": "BindInterface none0: ", "BindAddress 192.0.2.1": "cannot assign",
	} {
		_, err := dial(t, fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, text) }), s.host())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v; want %q", text, err, want)
		}
	}
	st := settings{bindInterface: "lo"}
	own, err := st.ownAddrs(t.Context(), 0)
	if err != nil || !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("lo has %v, %v; want 127.0.0.1 among them", own, err)
	}
}
