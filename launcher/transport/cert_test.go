package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// signUser makes a certificate for a key and writes it to a file.
func signUser(t *testing.T, ca ssh.Signer, key ssh.PublicKey, file string, change func(*ssh.Certificate)) {
	t.Helper()
	cert := &ssh.Certificate{Key: key, CertType: ssh.UserCert, ValidPrincipals: []string{"u", "bash"}, ValidBefore: ssh.CertTimeInfinity}
	if change != nil {
		change(cert)
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	write(t, file, keyText(cert)+"\n", 0o644)
}

// certServer takes certificates of an authority, and no plain key.
func certServer(t *testing.T, ca ssh.PublicKey) *fakeServer {
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return samePub(k, ca) }}
	s := newFakeServer(t, "127.0.0.1:0")
	s.config = &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	return s.start()
}

func TestCertificates(t *testing.T) {
	_, ca := newKey(t)
	s := certServer(t, ca.PublicKey())
	priv, signer := newKey(t)
	socket := agentSocket(t, agent.AddedKey{PrivateKey: priv})
	old := func(c *ssh.Certificate) { c.ValidBefore = 1000000000 }
	tests := []struct {
		name   string
		config string // ~ is the home of the test
		make   func(dir string)
		want   string // in the error; "" for a login
	}{
		{"beside-the-key", "", func(dir string) { signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/id_ed25519-cert.pub", nil) }, ""},
		{"named", "IdentityFile ~/k\nCertificateFile ~/c", func(dir string) { signUser(t, ca, writeKey(t, dir+"/../k"), dir+"/../c", nil) }, ""},
		{"of-a-default-key", "CertificateFile ~/c", func(dir string) { signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/../c", nil) }, ""},
		{"key-in-the-agent", "CertificateFile ~/c\nIdentitiesOnly yes", func(dir string) { signUser(t, ca, signer.PublicKey(), dir+"/../c", nil) }, ""},
		{"key-in-the-agent-and-named", "CertificateFile ~/c\nIdentityFile ~/k", func(dir string) {
			write(t, dir+"/../k.pub", keyText(signer.PublicKey())+"\n", 0o644)
			signUser(t, ca, signer.PublicKey(), dir+"/../c", nil)
		}, ""},
		{"encrypted-key", "", func(dir string) {
			signUser(t, ca, encryptKey(t, dir+"/id_ed25519", "open"), dir+"/id_ed25519-cert.pub", nil)
		}, ""},
		{"named-instead", "CertificateFile ~/none", func(dir string) { signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/id_ed25519-cert.pub", nil) }, "/none: no certificate"},
		{"expired", "", func(dir string) { signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/id_ed25519-cert.pub", old) }, "id_ed25519-cert.pub ed25519-cert-v01@openssh.com: this certificate has expired on 2001-09-09 01:46 UTC"},
		{"of-a-host", "", func(dir string) {
			signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/id_ed25519-cert.pub", func(c *ssh.Certificate) { c.CertType = ssh.HostCert })
		}, "this certificate is for a host, not a user"},
		{"without-a-key", "CertificateFile ~/c", func(dir string) {
			_, stranger := newKey(t)
			signUser(t, ca, stranger.PublicKey(), dir+"/../c", nil)
		}, "there is no private key for this certificate"},
		{"no-keys-at-all", "PubkeyAuthentication no", func(dir string) { signUser(t, ca, writeKey(t, dir+"/id_ed25519"), dir+"/id_ed25519-cert.pub", nil) }, "no key is offered, for PubkeyAuthentication no ("},
		{"batch-mode", "BatchMode yes", func(dir string) {
			signUser(t, ca, encryptKey(t, dir+"/id_ed25519", "open"), dir+"/id_ed25519-cert.pub", nil)
		}, "encrypted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, dir := homeWithSSH(t)
			tt.make(dir)
			d := fakeDialer(t, func(o *Options) {
				o.Home, o.AgentSocket, o.Config = home, socket, sshConfigFile(t, tt.config)
				o.Prompt = func(string) ([]byte, error) { return []byte("open"), nil }
			})
			_, err := dial(t, d, s.host())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}

// Each host is offered the keys of the agent that ssh_config names for it.
func TestIdentityAgent(t *testing.T) {
	one, oneKey := newKey(t)
	two, twoKey := newKey(t)
	first, second := agentSocket(t, agent.AddedKey{PrivateKey: one}), agentSocket(t, agent.AddedKey{PrivateKey: two})
	env := map[string]string{"SSH_AUTH_SOCK": first, "SECOND": second}
	tests := []struct {
		name, config string
		key          ssh.PublicKey
		want         string
	}{
		{"default", "", oneKey.PublicKey(), ""},
		{"by-path", "IdentityAgent " + second, twoKey.PublicKey(), ""},
		{"by-variable", "IdentityAgent ${SECOND}", twoKey.PublicKey(), ""},
		{"by-old-variable", "IdentityAgent $SECOND", twoKey.PublicKey(), ""},
		{"by-name", "IdentityAgent SSH_AUTH_SOCK", oneKey.PublicKey(), ""},
		{"none", "IdentityAgent none", oneKey.PublicKey(), "no key to offer"},
		{"missing", "IdentityAgent /no/agent", oneKey.PublicKey(), "not offered ssh-agent: dial unix /no/agent"},
		{"unset-variable", "IdentityAgent $THIRD", oneKey.PublicKey(), "IdentityAgent: the environment variable THIRD is not set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := fakeDialer(t, func(o *Options) {
				o.AgentSocket, o.Config = first, sshConfigFile(t, tt.config)
				o.getenv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
			})
			_, err := dial(t, d, keyServer(t, tt.key).host())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}

// TestRealAgent logs in to a real sshd with keys and certificates of ssh-keygen in a real ssh-agent.
func TestRealAgent(t *testing.T) {
	for _, prog := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(prog); err != nil {
			skip(t, "needs %s", prog)
		}
	}
	dir := t.TempDir()
	keygen := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
		}
	}
	keygen("-t", "ed25519", "-N", "", "-f", dir+"/ca")
	keygen("-t", "ecdsa", "-N", "", "-C", "signed", "-f", dir+"/key")
	keygen("-s", dir+"/ca", "-I", "me", "-n", "bash", "-V", "+1h", dir+"/key.pub")
	ca, err := os.ReadFile(dir + "/ca.pub")
	if err != nil {
		t.Fatal(err)
	}
	s := startSSHD(t, "echo '"+strings.TrimSpace(string(ca))+"' > /mnt/ca.pub", "TrustedUserCAKeys /mnt/ca.pub", "AuthorizedKeysFile none")
	socket := dir + "/agent"
	keeper := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keeper.Process.Kill(); keeper.Wait() })
	waitFor(t, "ssh-agent", func() bool { _, err := os.Stat(socket); return err == nil })
	add := exec.Command("ssh-add", "-q", dir+"/key") // and its certificate
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v\n%s", err, out)
	}
	for name, change := range map[string]func(*Options){
		"agent": func(o *Options) { o.AgentSocket = socket },
		"files": func(o *Options) { o.Config = sshConfigFile(t, "IdentityFile "+dir+"/key") },
		"certificate-file": func(o *Options) {
			o.Config = sshConfigFile(t, "IdentityAgent "+socket, "IdentitiesOnly yes", "CertificateFile "+dir+"/key-cert.pub")
		},
	} {
		if got := ask(t, mustDial(t, s.dialer(t, change), s.host("bash")), "ping"); got != "ping" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	_, err = dial(t, s.dialer(t, func(o *Options) {
		o.Config = sshConfigFile(t, "IdentityAgent "+socket, "IdentitiesOnly yes", "IdentityFile none", "CertificateFile "+dir+"/key-cert.pub")
	}), s.host("dash"))
	if auth, ok := errors.AsType[*AuthError](err); !ok || len(auth.Offered) != 1 {
		t.Errorf("a certificate for another user: got %v; want it offered, and refused", err)
	}
}

// touchAgent is an ssh-agent with a FIDO key that is always touched.
type touchAgent struct {
	agent.Agent
	key ed25519.PrivateKey
	pub []byte
}

const touchApplication = "ssh:"

func newTouchAgent(t *testing.T) *touchAgent {
	key, _ := newKey(t)
	pub := ssh.Marshal(struct {
		Type string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, key.Public().(ed25519.PublicKey), touchApplication})
	return &touchAgent{agent.NewKeyring(), key, pub}
}

func (a *touchAgent) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: ssh.KeyAlgoSKED25519, Blob: a.pub, Comment: "token"}}, nil
}

func (a *touchAgent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	if !bytes.Equal(key.Marshal(), a.pub) {
		return nil, errors.New("no such key")
	}
	app, digest := sha256.Sum256([]byte(touchApplication)), sha256.Sum256(data)
	rest := []byte{1, 0, 0, 0, 7} // the user was there; a counter
	signed := append(append(app[:], rest...), digest[:]...)
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(a.key, signed), Rest: rest}, nil
}

// A real sshd takes the signature of a FIDO key that ssh-agent has; its file cannot be used.
func TestRealFIDO(t *testing.T) {
	a := newTouchAgent(t)
	pub, err := ssh.ParsePublicKey(a.pub)
	if err != nil {
		t.Fatal(err)
	}
	s := startSSHD(t, "echo '"+keyText(pub)+"' > /mnt/fido", "AuthorizedKeysFile /mnt/fido")
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { agent.ServeAgent(a, c); c.Close() }()
		}
	}()
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(home+"/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	known, _ := os.ReadFile(s.home + "/.ssh/known_hosts")
	write(t, home+"/.ssh/known_hosts", string(known), 0o600)
	write(t, home+"/.ssh/id_ed25519_sk", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END OPENSSH PRIVATE KEY-----\n", 0o600)
	write(t, home+"/.ssh/id_ed25519_sk.pub", keyText(pub)+"\n", 0o644)
	for _, only := range []string{"yes", "no"} {
		d := s.dialer(t, func(o *Options) {
			o.Home, o.AgentSocket, o.Config = home, socket, sshConfigFile(t, "IdentitiesOnly "+only)
		})
		if got := ask(t, mustDial(t, d, s.host("bash")), "ping"); got != "ping" {
			t.Errorf("IdentitiesOnly %s: got %q", only, got)
		}
	}
	_, err = dial(t, s.dialer(t, func(o *Options) { o.Home = home }), s.host("bash"))
	if want := "a FIDO key can only be used through ssh-agent"; err == nil || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v; want %q", err, want)
	}
}
