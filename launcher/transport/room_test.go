package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

// room makes a Dialer's Room with the limit on open files that this process has.
func room() error {
	config := "Host j*\nProxyJump gate\nHost c*\nProxyCommand x\n"
	name := os.TempDir() + fmt.Sprintf("/gorun-room-%d", os.Getpid())
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		return err
	}
	defer os.Remove(name)
	for _, tt := range []struct {
		kind string
		n    int
	}{{"h", 30}, {"h", 100}, {"c", 30}, {"j", 100}} {
		d, err := New(Options{Home: "/nonexistent", Config: []string{name}, Fanout: 64})
		if err != nil {
			return err
		}
		var hosts []hostfile.Host
		for i := range tt.n {
			hosts = append(hosts, hostfile.Host{Name: fmt.Sprintf("%s%d", tt.kind, i), Line: 1})
		}
		err = d.Room(hosts)
		fmt.Printf("%s%d fanout %d %v\n", tt.kind, tt.n, cap(d.slots), err)
		d.Close()
	}
	return nil
}

// Room counts what the hosts need, which is next to nothing behind a jump host.
func TestRoom(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]string{
		"64": "h30 fanout 2 <nil>\n" +
			"h100 fanout 64 connections to 100 hosts need about 128 open files here, and 64 is the limit\n" +
			"c30 fanout 64 connections to 30 hosts need about 148 open files here, and 64 is the limit\n" +
			"j100 fanout 9 <nil>\n",
		"4096": "h30 fanout 64 <nil>\nh100 fanout 64 <nil>\nc30 fanout 64 <nil>\nj100 fanout 64 <nil>\n",
	} {
		out, err := exec.Command("sh", "-c", "ulimit -S -n 32; ulimit -n "+limit+"; exec "+shellQuote(self)+" room").CombinedOutput()
		if string(out) != want || err != nil {
			t.Errorf("ulimit -n %s: got\n%s%v\nwant\n%s", limit, out, err, want)
		}
	}
}

func TestPassing(t *testing.T) {
	host := func(err error) error { return &HostError{Host: "a", Err: err} }
	for _, err := range []error{
		syscall.ECONNREFUSED, &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, &net.DNSError{IsNotFound: true}, &TimeoutError{},
		&DroppedError{err: io.EOF}, addrErrors{syscall.ETIMEDOUT}, &JumpError{Err: host(syscall.ECONNREFUSED)},
		&ForwardError{Text: "No route to host"}, &ProxyError{Exit: &ExitError{Status: 1}}, fmt.Errorf("key exchange: %w", io.EOF),
	} {
		if !Passing(host(err)) {
			t.Errorf("%T %v does not pass; want it to", err, err)
		}
	}
	for _, err := range []error{
		&ConfigError{}, &HostKeyError{}, &AuthError{}, &DroppedError{Text: "220 smtp"}, &ForwardError{Prohibited: true}, errors.New("other"),
		&ProxyError{Exit: &ExitError{Status: 127}}, &JumpError{Err: host(&AuthError{})}, forwardFailure(&ssh.OpenChannelError{Reason: ssh.Prohibited}, forwardAddr{}),
	} {
		if Passing(host(err)) {
			t.Errorf("%T %v passes; want it not to", err, err)
		}
	}
}

// The failure of a jump host is shared by those who ask at the time, and forgotten by
// those who come back later.
func TestJumpFailureForgotten(t *testing.T) {
	s := newFakeServer(t, "127.0.0.1:0")
	s.greeting = func(_ net.Conn, n int) bool { return n > 1 }
	s.config.NoClientAuth = true
	s.start()
	config := append(behind(t, 2, "a"), strings.Replace(jumpHost("a", s), "Host a", "Host a\nHostKeyAlias x", 1))
	d := fakeDialer(t, func(o *Options) { o.Config = sshConfigFile(t, config...) })
	j := &jump{name: "a", done: make(chan struct{}), gone: make(chan struct{}), err: &JumpError{Host: "a", Err: syscall.ECONNREFUSED}}
	close(j.done)
	close(j.gone)
	d.jumps.open["a"] = j // it has failed long ago
	if _, errs := dialMany(t, d, 2); errors.Join(errs...) != nil {
		t.Error(errs)
	}
}
