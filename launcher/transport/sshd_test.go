package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

// skip skips a test that lacks what it needs; in CI it fails instead.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// sshd is a real OpenSSH server on this machine, in namespaces of its own, with users
// of its own: one for each login shell, all of them root.
type sshd struct {
	port int
	dir  string // seen as /mnt on the "host"
	cmd  *exec.Cmd
	args []string // of unshare
	home string   // of the client's user, with .ssh
	key  string   // private key that all users accept
}

// logins are the users: name, login shell.
var logins = [][2]string{
	{"bash", "/bin/bash"}, {"dash", "/bin/dash"}, {"tcsh", "/bin/tcsh"}, {"fish", "/usr/bin/fish"}, {"zsh", "/bin/zsh"},
	{"ash", "/mnt/bin/ash"}, {"rbash", "/bin/rbash"}, {"nologin", "/usr/sbin/nologin"}, {"alien", "/mnt/bin/alien"}, {"mute", "/mnt/bin/mute"},
}

// startSSHD starts a server. setup is shell text that is run on the "host" before
// sshd, extra are lines of sshd_config.
func startSSHD(t *testing.T, setup string, extra ...string) *sshd {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "needs root for namespaces")
	}
	for _, prog := range []string{"/usr/sbin/sshd", "unshare", "tcsh", "fish", "zsh", "busybox"} {
		if _, err := exec.LookPath(prog); err != nil {
			skip(t, "needs %s", prog)
		}
	}
	s := &sshd{dir: t.TempDir(), port: freePort(t)}
	os.Chmod(s.dir, 0o755)
	s.home = filepath.Join(t.TempDir(), "head")
	s.key = filepath.Join(s.home, ".ssh", "id_ed25519")
	os.MkdirAll(filepath.Dir(s.key), 0o700)
	pub := writeKey(t, s.key)
	write(t, filepath.Join(s.dir, "authorized_keys"), string(ssh.MarshalAuthorizedKey(pub)), 0o600)
	hostKey := writeKey(t, filepath.Join(s.dir, "hostkey"))
	s.know(t, hostKey)
	s.makeUsers(t)
	s.run(t, setup, extra)
	return s
}

func (s *sshd) know(t *testing.T, key ssh.PublicKey) {
	line := fmt.Sprintf("[127.0.0.1]:%d %s", s.port, ssh.MarshalAuthorizedKey(key))
	write(t, filepath.Join(s.home, ".ssh", "known_hosts"), line, 0o600)
}

func (s *sshd) makeUsers(t *testing.T) {
	passwd := "root:x:0:0:root:/root:/bin/sh\nsshd:x:105:65534::/run/sshd:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
	for _, u := range logins {
		home := filepath.Join(s.dir, "home", u[0])
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		passwd += fmt.Sprintf("%s:x:0:0::/mnt/home/%s:%s\n", u[0], u[0], u[1])
	}
	write(t, filepath.Join(s.dir, "passwd"), passwd, 0o644)
	bin := filepath.Join(s.dir, "bin")
	os.Mkdir(bin, 0o755)
	busybox, _ := exec.LookPath("busybox")
	os.Symlink(busybox, filepath.Join(bin, "ash"))
	write(t, filepath.Join(bin, "mute"), "#!/bin/sh\nexec sleep 60\n", 0o755)
	// A host of another architecture, as far as a script can tell.
	write(t, filepath.Join(bin, "uname"), "#!/bin/sh\ncase $1 in -m) echo aarch64;; *) echo Linux;; esac\n", 0o755)
	write(t, filepath.Join(bin, "alien"), "#!/bin/sh\nPATH=/mnt/bin:$PATH; export PATH; exec /bin/sh \"$@\"\n", 0o755)
}

func (s *sshd) run(t *testing.T, setup string, extra []string) {
	config := []string{
		fmt.Sprintf("ListenAddress 127.0.0.1:%d", s.port), "HostKey /mnt/hostkey", "AuthorizedKeysFile /mnt/authorized_keys",
		"UsePAM no", "PidFile none", "StrictModes no", "PermitRootLogin yes", "LogLevel ERROR", "UseDNS no", "PrintMotd no",
	}
	config = append(extra, config...) // the first of a kind wins
	write(t, filepath.Join(s.dir, "sshd_config"), strings.Join(config, "\n")+"\n", 0o600)
	script := fmt.Sprintf("set -e; mount --bind %s /mnt; mount -t tmpfs none /run; mkdir /run/sshd; mount --bind /mnt/passwd /etc/passwd; %s\nexec /usr/sbin/sshd -D -e -f /mnt/sshd_config", s.dir, setup)
	s.args = []string{"-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script}
	s.launch(t)
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
}

// restart makes sshd read its files again.
func (s *sshd) restart(t *testing.T) {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.launch(t)
}

func (s *sshd) launch(t *testing.T) {
	log := &tail{limit: 8 << 10}
	s.cmd = exec.Command("unshare", s.args...)
	s.cmd.Stderr = log
	s.cmd.WaitDelay = time.Second
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sshd: %s", log.String())
		}
	})
	waitFor(t, "sshd to listen", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (s *sshd) host(user string) hostfile.Host {
	return hostfile.Host{Name: "127.0.0.1", User: user, Port: s.port}
}

// dialer returns a Dialer for the server with the test program as gorun.
func (s *sshd) dialer(t *testing.T, change func(*Options)) *Dialer {
	t.Helper()
	opts := Options{Home: s.home, User: "bash", Self: testSelf(t), JobID: "job1", Config: []string{}, ConnectTimeout: 20 * time.Second}
	if change != nil {
		change(&opts)
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// cached lists what a user's cache holds.
func (s *sshd) cached(user string) []string {
	names, _ := filepath.Glob(filepath.Join(s.dir, "home", user, ".cache", "gorun", "*"))
	return names
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return priv, signer
}

// writeKey makes a new private key file.
func writeKey(t *testing.T, name string) ssh.PublicKey {
	t.Helper()
	priv, signer := newKey(t)
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(pem.EncodeToMemory(block)), 0o600)
	return signer.PublicKey()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dial dials and closes at the end of the test.
func dial(t *testing.T, d *Dialer, h hostfile.Host) (Link, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	link, err := d.Dial(ctx, h)
	if err == nil {
		t.Cleanup(func() { link.Close() })
	}
	return link, err
}

func mustDial(t *testing.T, d *Dialer, h hostfile.Host) Link {
	t.Helper()
	link, err := dial(t, d, h)
	if err != nil {
		t.Fatalf("dial %+v: %v", h, err)
	}
	return link
}
