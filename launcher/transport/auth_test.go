package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyServer takes some keys and counts what it is offered.
func keyServer(t *testing.T, good ...ssh.PublicKey) *fakeServer {
	t.Helper()
	s := newFakeServer(t, "127.0.0.1:0")
	s.config = &ssh.ServerConfig{MaxAuthTries: 6, PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		for _, g := range good {
			if bytes.Equal(g.Marshal(), key.Marshal()) {
				return nil, nil
			}
		}
		return nil, errors.New("not this one")
	}}
	return s.start()
}

// agentSocket runs an ssh-agent with keys and returns its socket.
func agentSocket(t *testing.T, keys ...agent.AddedKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { agent.ServeAgent(ring, c); c.Close() })
		}
	})
	t.Cleanup(func() { l.Close() })
	return name
}

// encryptKey writes an encrypted private key file.
func encryptKey(t *testing.T, name, passphrase string) ssh.PublicKey {
	t.Helper()
	priv, signer := newKey(t)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(priv, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(pem.EncodeToMemory(block)), 0o600)
	return signer.PublicKey()
}

// encryptOldKey writes an encrypted private key file in the format of old, which hides
// the public key and costs less to open, and with pub that key beside it.
func encryptOldKey(t *testing.T, name, passphrase string, pub bool) ssh.PublicKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	//lint:ignore SA1019 users have such keys
	block, err := x509.EncryptPEMBlock(rand.Reader, "EC PRIVATE KEY", der, []byte(passphrase), x509.PEMCipherAES128)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(pem.EncodeToMemory(block)), 0o600)
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if pub {
		write(t, name+".pub", keyText(signer.PublicKey()), 0o644)
	}
	return signer.PublicKey()
}

func homeWithSSH(t *testing.T) (home, dir string) {
	t.Helper()
	home = t.TempDir()
	dir = filepath.Join(home, ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return home, dir
}

func TestLogin(t *testing.T) {
	t.Parallel()
	priv1, sign1 := newKey(t)
	priv2, sign2 := newKey(t)
	home, dir := homeWithSSH(t)
	file := writeKey(t, filepath.Join(dir, "id_ed25519"))
	named := writeKey(t, filepath.Join(dir, "named"))
	write(t, filepath.Join(dir, "half.pub"), keyText(sign2.PublicKey()), 0o644)
	write(t, filepath.Join(dir, "halfkey"), keyText(sign2.PublicKey()), 0o644)
	legacy := filepath.Join(dir, "legacy")
	writeKey(t, legacy)
	agentKeys := agentSocket(t, agent.AddedKey{PrivateKey: priv1, Comment: "first"}, agent.AddedKey{PrivateKey: priv2, Comment: "second"})

	tests := []struct {
		name   string
		good   ssh.PublicKey
		config []string
		socket string
		want   string // key that must be in the error when it fails; "" for success
	}{
		{"default-file", file, nil, "", ""},
		{"agent", sign1.PublicKey(), nil, agentKeys, ""},
		{"agent-second", sign2.PublicKey(), nil, agentKeys, ""},
		{"identity-file", named, []string{"IdentityFile ~/.ssh/named"}, "", ""},
		{"identity-file-hides-default", file, []string{"IdentityFile ~/.ssh/named"}, "", "named ed25519"},
		{"identities-only", sign1.PublicKey(), []string{"IdentitiesOnly yes"}, agentKeys, "id_ed25519 ed25519"},
		{"identities-only-by-pub", sign2.PublicKey(), []string{"IdentitiesOnly yes", "IdentityFile ~/.ssh/half"}, agentKeys, ""},
		{"identities-only-public-file", sign2.PublicKey(), []string{"IdentitiesOnly yes", "IdentityFile ~/.ssh/halfkey"}, agentKeys, ""},
		{"pub-without-agent", sign2.PublicKey(), []string{"IdentityFile ~/.ssh/half"}, "", "half ed25519: only its public half is here"},
		{"missing-identity", file, []string{"IdentityFile ~/.ssh/none"}, "", "none: no such file"},
		{"no-agent-there", sign1.PublicKey(), nil, filepath.Join(dir, "nosocket"), "ssh-agent: dial unix"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := keyServer(t, tt.good)
			d := fakeDialer(t, func(o *Options) {
				o.Home, o.AgentSocket = home, tt.socket
				if tt.config != nil {
					o.Config = sshConfigFile(t, tt.config...)
				}
			})
			_, err := dial(t, d, s.host())
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v; want success", err)
				}
				return
			}
			if _, ok := errors.AsType[*AuthError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want an AuthError with %q", err, tt.want)
			}
		})
	}
}

func TestKeyOrder(t *testing.T) {
	_, dir := homeWithSSH(t)
	priv1, _ := newKey(t)
	priv2, sign2 := newKey(t)
	writeKey(t, filepath.Join(dir, "named"))
	encryptOldKey(t, filepath.Join(dir, "locked"), "x", true)
	write(t, filepath.Join(dir, "two.pub"), keyText(sign2.PublicKey()), 0o644)
	socket := agentSocket(t, agent.AddedKey{PrivateKey: priv1, Comment: "one"}, agent.AddedKey{PrivateKey: priv2, Comment: "two"})
	k := newKeyring(Options{ConnectTimeout: time.Second, Prompt: func(string) ([]byte, error) { return nil, nil }})
	defer k.close()
	for _, tt := range []struct {
		name     string
		explicit bool
		want     string
	}{
		{"named", true, "ssh-agent (two) named ssh-agent (one) locked"},
		{"default", false, "ssh-agent (two) ssh-agent (one) named locked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &settings{explicit: tt.explicit, agent: socket}
			for _, name := range []string{"locked", "named", "two", "absent"} {
				s.identities = append(s.identities, filepath.Join(dir, name))
			}
			keys, skipped := k.candidates(s)
			var got []string
			for _, id := range keys {
				got = append(got, strings.TrimPrefix(id.source, dir+"/"))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v; want %s", got, tt.want)
			}
			if absent := len(skipped) == 1; absent != tt.explicit {
				t.Errorf("skipped: got %v; want the absent file only if the user named it", skipped)
			}
		})
	}
}

func TestServerWantsMore(t *testing.T) {
	home, dir := homeWithSSH(t)
	pub := writeKey(t, filepath.Join(dir, "id_ed25519"))
	password := func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }
	t.Run("password-only", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0")
		s.config = &ssh.ServerConfig{PasswordCallback: password}
		s.start()
		_, err := dial(t, fakeDialer(t, func(o *Options) { o.Home = home }), s.host())
		if e, ok := errors.AsType[*AuthError](err); !ok || len(e.Offered) != 0 || strings.Join(e.Methods, ",") != "password" {
			t.Errorf("got %v; want an AuthError: nothing offered, the server takes password", err)
		}
	})
	t.Run("key-and-password", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0")
		s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), pub.Marshal()) {
				return nil, errors.New("no")
			}
			return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{PasswordCallback: password}}
		}}
		s.start()
		_, err := dial(t, fakeDialer(t, func(o *Options) { o.Home = home }), s.host())
		if e, ok := errors.AsType[*AuthError](err); !ok || !e.Partial || strings.Join(e.Methods, ",") != "password" {
			t.Errorf("got %v; want an AuthError: partial, the server takes password", err)
		}
	})
	t.Run("connection-lost", func(t *testing.T) {
		s := newFakeServer(t, "127.0.0.1:0")
		s.config = &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				c.Close()
			}
			return nil, nil
		}}
		s.start()
		_, err := dial(t, fakeDialer(t, func(o *Options) { o.Home = home }), s.host())
		if _, ok := errors.AsType[*AuthError](err); ok || !strings.Contains(err.Error(), "closed the connection during the login") {
			t.Errorf("got %v; want a lost connection, not a refusal", err)
		}
	})
}

// asker answers prompts from a list.
type asker struct {
	mu      sync.Mutex
	answers []string
	asked   []string
	delay   time.Duration
}

func (a *asker) prompt(text string) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, text)
	time.Sleep(a.delay)
	if len(a.answers) == 0 {
		return nil, errors.New("no more answers")
	}
	answer := a.answers[0]
	a.answers = a.answers[1:]
	return []byte(answer), nil
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		write   func(t *testing.T, name string) ssh.PublicKey
		answers []string
		asked   int
		want    string // error; "" for success
	}{
		{"openssh", func(t *testing.T, name string) ssh.PublicKey { return encryptKey(t, name, "sesame") }, []string{"sesame"}, 1, ""},
		{"old-format", oldKey(true), []string{"sesame"}, 1, ""},
		{"old-format-alone", oldKey(false), []string{"sesame"}, 1, ""},
		{"second-time", oldKey(true), []string{"x", "sesame"}, 2, ""},
		{"never-right", oldKey(true), []string{"x", "y", "z", "sesame"}, 3, "signing failed: the passphrase was wrong"},
		{"never-right-alone", oldKey(false), []string{"x", "y", "z", "sesame"}, 3, "the passphrase was wrong"},
		{"empty", oldKey(true), []string{""}, 1, "no passphrase was given"},
		{"prompt-fails", oldKey(true), nil, 1, "passphrase: no more answers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, dir := homeWithSSH(t)
			s := keyServer(t, tt.write(t, filepath.Join(dir, "id_ecdsa")))
			a := &asker{answers: tt.answers, delay: 20 * time.Millisecond}
			d := fakeDialer(t, func(o *Options) { o.Home, o.Prompt, o.ConnectTimeout = home, a.prompt, 30*time.Second })
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					l, err := d.Dial(t.Context(), s.host())
					if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
						t.Errorf("got %v; want %q", err, tt.want)
					}
					if err == nil {
						l.Close()
					}
				})
			}
			wg.Wait()
			if len(a.asked) != tt.asked {
				t.Errorf("asked %d times; want %d: %q", len(a.asked), tt.asked, a.asked)
			}
		})
	}
}

func oldKey(pub bool) func(t *testing.T, name string) ssh.PublicKey {
	return func(t *testing.T, name string) ssh.PublicKey { return encryptOldKey(t, name, "sesame", pub) }
}

func TestPassphraseNotAskedInVain(t *testing.T) {
	home, dir := homeWithSSH(t)
	encryptOldKey(t, filepath.Join(dir, "id_ecdsa"), "sesame", true)
	a := &asker{}
	s := keyServer(t)
	_, err := dial(t, fakeDialer(t, func(o *Options) { o.Home, o.Prompt = home, a.prompt }), s.host())
	if e, ok := errors.AsType[*AuthError](err); !ok || len(e.Offered) != 1 || len(a.asked) != 0 {
		t.Errorf("got %v, asked %q; want the key offered and no question, for the server refuses it", err, a.asked)
	}
	_, err = dial(t, fakeDialer(t, func(o *Options) { o.Home = home }), s.host())
	if e, ok := errors.AsType[*AuthError](err); !ok || len(e.Skipped) != 1 || !strings.Contains(err.Error(), "encrypted, and there is no terminal") {
		t.Errorf("without Prompt: got %v; want the key skipped", err)
	}
}

// TestSlowPassphrase: the time of the user is not the hosts'.
func TestSlowPassphrase(t *testing.T) {
	t.Parallel()
	home, dir := homeWithSSH(t)
	pub := encryptOldKey(t, filepath.Join(dir, "id_ecdsa"), "sesame", true)
	s := keyServer(t, pub)
	a := &asker{answers: []string{"sesame"}, delay: 2500 * time.Millisecond}
	d := fakeDialer(t, func(o *Options) { o.Home, o.Prompt, o.ConnectTimeout = home, a.prompt, 2*time.Second })
	if _, err := dial(t, d, s.host()); err != nil {
		t.Error(err)
	}
}

func TestUnprotectedKey(t *testing.T) {
	home, dir := homeWithSSH(t)
	name := filepath.Join(dir, "id_ed25519")
	pub := writeKey(t, name)
	os.Chmod(name, 0o644)
	_, err := dial(t, fakeDialer(t, func(o *Options) { o.Home = home }), keyServer(t, pub).host())
	if err == nil || !strings.Contains(err.Error(), "id_ed25519: others may read it (mode 0644)") {
		t.Errorf("got %v; want the key refused for its mode", err)
	}
	if os.Chown(name, 65534, 65534) != nil {
		skip(t, "needs root to give a key away")
	}
	mustDial(t, fakeDialer(t, func(o *Options) { o.Home = home }), keyServer(t, pub).host()) // its mode is its owner's affair
}

// stubbornAgent is an ssh-agent of which hangs says which requests, by their type, it
// never answers.
func stubbornAgent(t *testing.T, hangs func(request byte) bool, keys ...agent.AddedKey) string {
	t.Helper()
	inner := agentSocket(t, keys...)
	name := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				to, err := net.Dial("unix", inner)
				if err != nil {
					return
				}
				defer to.Close()
				wg.Go(func() { io.Copy(c, to) })
				for {
					var head [5]byte
					if _, err := io.ReadFull(c, head[:]); err != nil {
						return
					}
					body := make([]byte, int(head[2])<<8+int(head[3])-1)
					if _, err := io.ReadFull(c, body); err != nil {
						return
					}
					if !hangs(head[4]) {
						to.Write(append(head[:], body...))
					}
				}
			})
		}
	})
	return name
}

const agentSign = 13 // type of a request to ssh-agent for a signature

// TestHangingAgent: an ssh-agent that does not answer costs time, but no host.
func TestHangingAgent(t *testing.T) {
	t.Parallel()
	home, dir := homeWithSSH(t)
	s := keyServer(t, writeKey(t, filepath.Join(dir, "id_ed25519")))
	socket := stubbornAgent(t, func(byte) bool { return true })
	d := fakeDialer(t, func(o *Options) { o.Home, o.AgentSocket, o.ConnectTimeout = home, socket, 4*time.Second })
	for range 2 {
		if _, err := dial(t, d, s.host()); err != nil {
			t.Errorf("got %v; want the key file used", err)
		}
	}
	other := keyServer(t)
	_, err := dial(t, d, other.host())
	if err == nil || !strings.Contains(err.Error(), "not offered ssh-agent: no answer in 1s") {
		t.Errorf("got %v; want it to tell of ssh-agent", err)
	}
}

// TestAgentThatDoesNotSign: the hosts' time is spent, and the error says on what.
func TestAgentThatDoesNotSign(t *testing.T) {
	t.Parallel()
	priv, signer := newKey(t)
	s := keyServer(t, signer.PublicKey())
	socket := stubbornAgent(t, func(r byte) bool { return r == agentSign }, agent.AddedKey{PrivateKey: priv})
	d := fakeDialer(t, func(o *Options) { o.AgentSocket, o.ConnectTimeout = socket, 3*time.Second })
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			_, err := d.Dial(t.Context(), s.host())
			if timeout, ok := errors.AsType[*TimeoutError](err); !ok || !strings.Contains(timeout.Reached, "ssh-agent did not sign") {
				t.Errorf("got %v; want a timeout that tells of ssh-agent", err)
			}
		})
	}
	wg.Wait()
}

// TestAgentAfterAPause: the connection to ssh-agent is good for as long as it is needed.
func TestAgentAfterAPause(t *testing.T) {
	t.Parallel()
	priv, signer := newKey(t)
	socket := agentSocket(t, agent.AddedKey{PrivateKey: priv})
	k := newKeyring(Options{ConnectTimeout: 3 * time.Second})
	defer k.close()
	ids, err := k.agent(socket).keys()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3100 * time.Millisecond)
	sig, err := ids[0].signer.(*agentKey).sign(t.Context(), rand.Reader, []byte("x"), ssh.KeyAlgoED25519)
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.PublicKey().Verify([]byte("x"), sig); err != nil {
		t.Error(err)
	}
}

// TestAgentCertificate: a certificate in ssh-agent is used like a key.
func TestAgentCertificate(t *testing.T) {
	_, ca := newKey(t)
	ed, edSigner := newKey(t)
	rsaKey, rsaSigner := newRSA(t)
	for name, key := range map[string]struct {
		private any
		public  ssh.PublicKey
	}{"ed25519": {ed, edSigner.PublicKey()}, "rsa": {rsaKey, rsaSigner.PublicKey()}} {
		t.Run(name, func(t *testing.T) {
			cert := &ssh.Certificate{Key: key.public, CertType: ssh.UserCert, ValidPrincipals: []string{"u"}, ValidBefore: ssh.CertTimeInfinity}
			if err := cert.SignCert(rand.Reader, ca); err != nil {
				t.Fatal(err)
			}
			checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return samePub(k, ca.PublicKey()) }}
			s := newFakeServer(t, "127.0.0.1:0")
			s.config = &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
			s.start()
			socket := agentSocket(t, agent.AddedKey{PrivateKey: key.private, Certificate: cert, Comment: "signed"})
			if _, err := dial(t, fakeDialer(t, func(o *Options) { o.AgentSocket = socket }), s.host()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRSA: of several host keys known_hosts has the RSA one, and the user's key is RSA
// too. Neither may be used with SHA-1.
func TestRSA(t *testing.T) {
	_, hostKey := newRSA(t)
	userKey, user := newRSA(t)
	s := newFakeServer(t, "127.0.0.1:0")
	s.config = &ssh.ServerConfig{
		PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if samePub(key, user.PublicKey()) {
				return nil, nil
			}
			return nil, errors.New("no")
		},
	}
	s.config.AddHostKey(hostKey)
	s.start() // adds another
	home, dir := homeWithSSH(t)
	write(t, filepath.Join(dir, "known_hosts"), knownName(&settings{hostname: "127.0.0.1", port: s.port()})+" "+keyText(hostKey.PublicKey())+"\n", 0o600)
	for name, socket := range map[string]string{"agent": agentSocket(t, agent.AddedKey{PrivateKey: userKey}), "file": ""} {
		if name == "file" {
			block, err := ssh.MarshalPrivateKey(userKey, "")
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "id_rsa"), string(pem.EncodeToMemory(block)), 0o600)
		}
		d := fakeDialer(t, func(o *Options) { o.Home, o.AgentSocket, o.AcceptNewHostKeys = home, socket, false })
		if _, err := dial(t, d, s.host()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
