package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/hostfile"
)

func fifo(t *testing.T, name string) {
	t.Helper()
	os.Remove(name)
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good"), "12345", 0o600)
	write(t, filepath.Join(dir, "long"), "123456", 0o600)
	fifo(t, filepath.Join(dir, "fifo"))
	os.Symlink("loop", filepath.Join(dir, "loop"))
	tests := []struct {
		name, file string
		want       error
	}{
		{"good", "good", nil},
		{"long", "long", errTooLong},
		{"fifo", "fifo", errNotRegular},
		{"device", "/dev/zero", errNotRegular},
		{"directory", ".", syscall.EISDIR},
		{"loop", "loop", syscall.ELOOP},
		{"missing", "none", fs.ErrNotExist},
		{"below-a-file", "good/x", syscall.ENOTDIR},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.file
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			data, _, err := readFile(name, 5)
			if !errors.Is(err, tt.want) || err == nil && string(data) != "12345" {
				t.Errorf("got %q, %v; want %v", data, err, tt.want)
			}
		})
	}
}

// TestBlockingFiles: a FIFO in the place of any of ssh's files ends a dial with an error
// that names it, or is no key; it never holds it up.
func TestBlockingFiles(t *testing.T) {
	tests := []struct{ name, file, config, want string }{
		{"config", "config", "", ".ssh/config: not a regular file"},
		{"include", "more", "Include more", ".ssh/more: not a regular file"},
		{"known-hosts", "known_hosts", "", ".ssh/known_hosts: not a regular file"},
		{"key", "id_ed25519", "", ".ssh/id_ed25519: not a regular file"},
		{"public-key", "id_rsa.pub", "", "no key to offer"},
		{"identity-file", "mine", "IdentityFile ~/.ssh/mine", ".ssh/mine: not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, dir := homeWithSSH(t)
			write(t, filepath.Join(dir, "config"), tt.config+"\n", 0o600)
			fifo(t, filepath.Join(dir, tt.file))
			d := fakeDialer(t, func(o *Options) { o.Home, o.Config = home, nil })
			if _, err := dial(t, d, keyServer(t).host()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
			for _, h := range []hostfile.Host{{Name: "localhost"}, {Name: "localhost", Line: 1}} {
				mustDial(t, d, h).Close() // needs none of them
			}
		})
	}
}

// TestLocalAsksNoConfig: ssh_config sends a written name elsewhere, but not a job without hosts.
func TestLocalAsksNoConfig(t *testing.T) {
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, "Host localhost", "ProxyUseFdpass yes", "Port 9") })
	mustDial(t, d, hostfile.Host{Name: "localhost"}).Close()
	if _, err := dial(t, d, hostfile.Host{Name: "localhost", Line: 1}); err == nil || !strings.Contains(err.Error(), "ProxyUseFdpass") {
		t.Errorf("a name from a hostfile: got %v; want what ssh_config says", err)
	}
}

// TestDeadFileServer: while a file cannot be read at all, the user can still leave.
func TestDeadFileServer(t *testing.T) {
	cause := errors.New("interrupted")
	dead := make(chan struct{})
	t.Cleanup(func() { close(dead) })
	loggedIn := make(chan struct{}) // known_hosts has been written
	tests := []struct {
		name string
		hold func(d *Dialer) // what holds up readers for ever
	}{
		{"config", func(d *Dialer) { d.config = func() (*sshConfig, error) { <-dead; return nil, cause } }},
		{"known-hosts", func(d *Dialer) { d.hosts.turn.Lock(); go func() { <-dead; d.hosts.turn.Unlock() }() }},
		{"keys", func(d *Dialer) { d.keys.turn.Lock(); go func() { <-dead; d.keys.turn.Unlock() }() }},
		{"binary", func(d *Dialer) { d.ship.get = func() (*binary, error) { close(loggedIn); <-dead; return nil, cause } }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := fakeDialer(t, nil)
			tt.hold(d)
			ctx, cancel := context.WithCancelCause(t.Context())
			s := newFakeServer(t, "127.0.0.1:0")
			s.start()
			done := make(chan error, 1)
			go func() { _, err := d.Dial(ctx, s.host()); done <- err }()
			waitFor(t, "the dial to read", func() bool { return tt.name == "config" || s.count() > 0 })
			if tt.name == "binary" {
				<-loggedIn
			}
			cancel(cause)
			if err := <-done; !errors.Is(err, cause) {
				t.Errorf("got %v; want %v", err, cause)
			}
			d.Warnings()
			d.Close()
		})
	}
}

func TestDeadFileServerInTime(t *testing.T) {
	dead := make(chan struct{})
	t.Cleanup(func() { close(dead) })
	d := fakeDialer(t, func(o *Options) { o.ConnectTimeout = 100 * time.Millisecond })
	d.config = func() (*sshConfig, error) { <-dead; return nil, errors.New("late") }
	_, err := dial(t, d, hostfile.Host{Name: "gpu1"})
	if _, ok := errors.AsType[*TimeoutError](err); !ok || !strings.Contains(err.Error(), "a file in ~/.ssh") {
		t.Errorf("got %v; want a timeout that tells of files", err)
	}
}

// TestUnreadableFiles: as with ssh, they count as empty, and the user is told. Unlike ssh,
// no new key is trusted then.
func TestUnreadableFiles(t *testing.T) {
	home, dir := homeWithSSH(t)
	pub := writeKey(t, filepath.Join(dir, "id_ed25519"))
	for _, name := range []string{"config", "known_hosts"} { // root may read all files
		os.Symlink(name, filepath.Join(dir, name))
	}
	d := fakeDialer(t, func(o *Options) { o.Home, o.Config, o.AcceptNewHostKeys = home, nil, false })
	s := keyServer(t, pub)
	_, err := dial(t, d, s.host())
	e := hostError(t, err)
	const why = "too many levels of symbolic links"
	want := fmt.Sprintf("[%[1]s/config: %[2]s %[1]s/known_hosts: %[2]s]", dir, why)
	if key, ok := errors.AsType[*HostKeyError](err); !ok || key.Problem != HostKeyUnknown || fmt.Sprint(e.Unread) != want {
		t.Errorf("got %v, unread %s; want an unknown key, and %s", err, e.Unread, want)
	}
	if !strings.Contains(err.Error(), "known_hosts: "+why) {
		t.Errorf("got %v; want it to tell why", err)
	}
	d = fakeDialer(t, func(o *Options) { o.Home, o.Config, o.AcceptNewHostKeys = home, nil, true })
	_, err = dial(t, d, s.host())
	if key, ok := errors.AsType[*HostKeyError](err); !ok || key.Problem != HostKeyUnknown || !strings.Contains(err.Error(), "known_hosts, which cannot be read, may know another") {
		t.Errorf("accepting new keys: got %v; want a refusal for the file", err)
	}
	write(t, filepath.Join(dir, "known_hosts2"), fmt.Sprintf("[127.0.0.1]:%d %s\n", s.port(), keyText(s.hostKey.PublicKey())), 0o600)
	d = fakeDialer(t, func(o *Options) { o.Home, o.Config, o.AcceptNewHostKeys = home, nil, false })
	mustDial(t, d, s.host())
	if ws := d.Warnings(); len(ws) != 2 || ws[1] != "cannot read "+dir+"/known_hosts: "+why+"; it counts as empty, as with ssh" {
		t.Errorf("warnings: got %q", ws)
	}
}

func TestUnreadableInclude(t *testing.T) {
	home, dir := homeWithSSH(t)
	os.Symlink("gone", filepath.Join(dir, "dangling"))
	os.Symlink("loop", filepath.Join(dir, "loop"))
	for _, tt := range []struct{ config, want string }{{"Include dangling", "<nil>"}, {"Include loop", "loop: too many levels"}} {
		write(t, filepath.Join(dir, "config"), tt.config+"\n", 0o600)
		_, err := loadConfig(Options{Home: home}, testWorld(), func(name string, err error) { t.Errorf("unread %s: %v", name, err) })
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got %v; want %s, as ssh does", tt.config, err, tt.want)
		}
	}
}

// TestIncludeFan: files that include each other several times end in an error, not in a full memory.
func TestIncludeFan(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"files", "", "more than 1000 files are included"},
		{"bytes", strings.Repeat("#\n", maxConfig/100), "more than 8388608 bytes are to be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home, dir := homeWithSSH(t)
			for i := range 15 {
				write(t, filepath.Join(dir, fmt.Sprint("f", i)), fmt.Sprintf("Include f%[1]d f%[1]d f%[1]d\n%[2]s", i+1, tt.text), 0o600)
			}
			write(t, filepath.Join(dir, "config"), "Include f0\n", 0o600)
			if _, err := loadConfig(Options{Home: home}, testWorld(), noFile); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
}
