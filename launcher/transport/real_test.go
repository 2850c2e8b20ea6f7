package transport

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// TestLoginShells: users of a real sshd, with dot files that talk.
func TestLoginShells(t *testing.T) {
	s := startSSHD(t, "", "PrintLastLog yes", "Banner /mnt/banner")
	write(t, filepath.Join(s.dir, "banner"), "Authorized use only\x1b[5m\n", 0o644)
	dots := map[string]string{
		"bash": ".bashrc", "tcsh": ".cshrc", "fish": ".config/fish/config.fish", "zsh": ".zshenv", "dash": ".profile", "ash": ".profile",
	}
	d := s.dialer(t, nil)
	for user, dot := range dots {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(s.dir, "home", user, dot)
			os.MkdirAll(filepath.Dir(name), 0o700)
			write(t, name, "echo 'Welcome to the farm'\nprintf 'no newline here'\necho trouble >&2\n", 0o600)
			for _, first := range []bool{true, false} {
				l := mustDial(t, d, s.host(user))
				if got := ask(t, l, "hello there"); got != "hello there" {
					t.Errorf("got %q; want the line back", got)
				}
				if got := ask(t, l, "umask"); got != "0022" {
					t.Errorf("umask: got %s; want 0022", got)
				}
				if got := strings.Contains(fmt.Sprint(l.Timeline()), "install"); got != first {
					t.Errorf("installed: got %v; want %v", got, first)
				}
				ask(t, l, "stderr some words")
				waitFor(t, "stderr", func() bool { return strings.HasSuffix(l.Stderr(), "some words") })
				if out, err := l.Run(t.Context(), "agent", "sweep", "job1"); err != nil || !strings.Contains(string(out), "swept job1") {
					t.Errorf("Run: got %q, %v", out, err)
				}
				io.WriteString(l, "exit 5\n")
				if _, err := io.ReadAll(l); err != nil {
					t.Errorf("end of the stream: %v", err)
				}
				var exit *ExitError
				if err := l.Wait(t.Context()); !errors.As(err, &exit) || exit.Status != 5 {
					t.Errorf("Wait: got %v; want exit status 5", err)
				}
			}
			if got := len(s.cached(user)); got != 1 {
				t.Errorf("cached files: got %v; want one", s.cached(user))
			}
		})
	}
}

// TestSweepAfterKill: the connection outlives the agent.
func TestSweepAfterKill(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "")
	l := mustDial(t, s.dialer(t, nil), s.host("bash"))
	pid, _, _ := strings.Cut(ask(t, l, "pgrp"), " ")
	out, err := l.Run(t.Context(), "agent", "sweep", "job1") // also while the agent lives
	if err != nil || string(out) != "swept job1\n" {
		t.Errorf("Run beside the agent: got %q, %v", out, err)
	}
	killer := mustDial(t, s.dialer(t, func(o *Options) { o.Self = killSelf(t) }), s.host("bash"))
	ask(t, killer, "kill "+pid)
	if _, err := io.ReadAll(l); err != nil {
		t.Errorf("end of the stream: %v", err)
	}
	var exit *ExitError
	if err := l.Wait(t.Context()); !errors.As(err, &exit) || exit.Signal != "KILL" {
		t.Errorf("Wait: got %v; want killed by SIGKILL", err)
	}
	if out, err := l.Run(t.Context(), "agent", "sweep", "job1"); err != nil || string(out) != "swept job1\n" {
		t.Errorf("Run after the agent: got %q, %v", out, err)
	}
}

// killSelf is a stand-in that can kill.
func killSelf(t *testing.T) string {
	name := scriptSelf(t, "kills")
	text, _ := os.ReadFile(name)
	write(t, name, strings.Replace(string(text), "\texit) ", "\tkill) kill -9 $r; echo ok;;\n\texit) ", 1), 0o755)
	return name
}

// TestOneSession: a server that allows one session at a time is enough for the first
// contact, and for a sweep.
func TestOneSession(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "", "MaxSessions 1")
	for _, user := range []string{"bash", "tcsh"} {
		l := mustDial(t, s.dialer(t, nil), s.host(user))
		io.WriteString(l, "exit 5\n")
		var exit *ExitError
		if err := l.Wait(t.Context()); !errors.As(err, &exit) {
			t.Errorf("Wait: got %v; want exit status 5", err)
		}
		if out, err := l.Run(t.Context(), "agent", "sweep", "job1"); err != nil || string(out) != "swept job1\n" {
			t.Errorf("Run after the agent: got %q, %v", out, err)
		}
	}
}

// TestBadDirectories: on this host no place but /dev/shm is any good.
func TestBadDirectories(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "mount -t tmpfs -o noexec none /tmp; mount -t tmpfs -o ro none /var/tmp; mount -t tmpfs none /dev/shm; "+
		"mount -t tmpfs -o size=16k none /mnt/home/bash")
	id := jobID(t)
	d := s.dialer(t, func(o *Options) { o.Self, o.JobID = scriptSelf(t, strings.Repeat("x", 200<<10)), id })
	l := mustDial(t, d, s.host("bash"))
	if got, want := ask(t, l, "args"), "--remove /dev/shm/gorun-agent-"+id; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if out, err := l.Run(t.Context(), "agent", "sweep", id); err != nil || !strings.Contains(string(out), "swept "+id) {
		t.Errorf("Run: got %q, %v", out, err)
	}

	s = startSSHD(t, "for d in /tmp /var/tmp /dev/shm /mnt/home/bash; do mount -t tmpfs -o size=16k none $d; done")
	d = s.dialer(t, func(o *Options) { o.Self, o.JobID = scriptSelf(t, strings.Repeat("x", 200<<10)), id })
	_, err := dial(t, d, s.host("bash"))
	hostError(t, err)
	e, ok := errors.AsType[*InstallError](err)
	if !ok || len(e.Places) != 4 || !strings.Contains(e.Places[3].Why, "disk full?") || !strings.Contains(e.Stderr, "No space left on device") {
		t.Errorf("got %v; want an InstallError that tells of four full disks", err)
	}
}

func TestRealRefusals(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "", "MaxAuthTries 3", "DenyUsers dash", "Match User tcsh", "ForceCommand echo not for you; exit 4", "Match User zsh", "AuthorizedKeysFile none", "Match User fish", "MaxSessions 0", "Match all")
	t.Run("nologin", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, nil), s.host("nologin"))
		if e, ok := errors.AsType[*ShellError](err); !ok || !strings.Contains(e.Output, "not available") {
			t.Errorf("got %v; want nologin's words", err)
		}
	})
	t.Run("rbash", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, nil), s.host("rbash"))
		if e, ok := errors.AsType[*ShellError](err); !ok || !strings.Contains(e.Stderr, "restricted") {
			t.Errorf("got %v; want rbash's words", err)
		}
	})
	t.Run("forced-command", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, nil), s.host("tcsh"))
		if e, ok := errors.AsType[*ShellError](err); !ok || e.Output != "not for you" {
			t.Errorf("got %v; want the forced command's words", err)
		}
	})
	t.Run("no-sessions", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, nil), s.host("fish"))
		if err == nil || !strings.Contains(err.Error(), "open failed") {
			t.Errorf("got %v; want a refused session", err)
		}
	})
	t.Run("other-architecture", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, nil), s.host("alien"))
		if e, ok := errors.AsType[*ArchError](err); !ok || e.GOARCH != "arm64" {
			t.Errorf("got %v; want an ArchError", err)
		}
	})
	t.Run("silent-shell", func(t *testing.T) {
		t.Parallel()
		_, err := dial(t, s.dialer(t, func(o *Options) { o.ConnectTimeout = 3 * time.Second }), s.host("mute"))
		if e, ok := errors.AsType[*TimeoutError](err); !ok || !strings.Contains(e.Reached, "the login shell did not start") {
			t.Errorf("got %v; want a timeout", err)
		}
	})
	t.Run("key-not-accepted", func(t *testing.T) {
		t.Parallel()
		for _, user := range []string{"zsh", "dash", "nobody-of-that-name"} {
			_, err := dial(t, s.dialer(t, nil), s.host(user))
			if e, ok := errors.AsType[*AuthError](err); !ok || len(e.Offered) != 1 || e.Offered[0].Source != s.key {
				t.Errorf("%s: got %v; want an AuthError with the key that was offered", user, err)
			}
		}
	})
	t.Run("too-many-keys", func(t *testing.T) {
		t.Parallel()
		var keys []agent.AddedKey
		for i := range 9 {
			priv, _ := newKey(t)
			keys = append(keys, agent.AddedKey{PrivateKey: priv, Comment: fmt.Sprintf("key %d\x1b[31m", i)})
		}
		d := s.dialer(t, func(o *Options) { o.AgentSocket = agentSocket(t, keys...) })
		_, err := dial(t, d, s.host("bash"))
		hostError(t, err)
		if e, ok := errors.AsType[*AuthError](err); !ok || len(e.Offered) < 3 || len(e.Offered) > 4 || !strings.Contains(err.Error(), "the server takes no more than") {
			t.Errorf("got %v; want the number of keys the server takes", err)
		}
		if !strings.Contains(err.Error(), "ssh-agent (key 0?[31m) ed25519") {
			t.Errorf("got %v; want the keys' comments, cleaned", err)
		}
		// The key that the user names is offered first.
		d = s.dialer(t, func(o *Options) {
			o.AgentSocket, o.Config = agentSocket(t, keys...), sshConfigFile(t, "IdentityFile "+s.key)
		})
		mustDial(t, d, s.host("bash"))
	})
}

func TestRealHostKeys(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "")
	known := filepath.Join(s.home, ".ssh", "known_hosts")
	good, _ := os.ReadFile(known)
	t.Run("unknown", func(t *testing.T) {
		os.Remove(known)
		_, err := dial(t, s.dialer(t, nil), s.host("bash"))
		if e, ok := errors.AsType[*HostKeyError](err); !ok || e.Problem != HostKeyUnknown {
			t.Errorf("got %v; want an unknown key", err)
		}
	})
	t.Run("accept-new", func(t *testing.T) {
		d := s.dialer(t, func(o *Options) { o.AcceptNewHostKeys = true })
		mustDial(t, d, s.host("bash"))
		if got, _ := os.ReadFile(known); string(got) != string(good) {
			t.Errorf("recorded %q; want %q", got, good)
		}
		if ws := d.Warnings(); len(ws) != 1 || !strings.Contains(ws[0], "recorded the keys of 1 new host in "+known) {
			t.Errorf("warnings: got %q", ws)
		}
		mustDial(t, s.dialer(t, nil), s.host("bash"))
	})
	t.Run("changed", func(t *testing.T) {
		_, other := newKey(t)
		write(t, known, strings.Replace(string(good), strings.Fields(string(good))[2], strings.Fields(keyText(other.PublicKey()))[1], 1), 0o600)
		_, err := dial(t, s.dialer(t, func(o *Options) { o.AcceptNewHostKeys = true }), s.host("bash"))
		if e, ok := errors.AsType[*HostKeyError](err); !ok || e.Problem != HostKeyChanged || e.File != known || e.Line != 1 {
			t.Errorf("got %v; want a changed key at %s:1", err, known)
		}
	})
	t.Run("known-by-another-type", func(t *testing.T) {
		ec := newECDSA(t)
		name := strings.Fields(string(good))[0]
		write(t, known, name+" "+keyText(ec.PublicKey())+"\n"+string(good), 0o600)
		mustDial(t, s.dialer(t, nil), s.host("bash"))
	})
	t.Run("certificate", func(t *testing.T) {
		_, ca := newKey(t)
		text, _ := os.ReadFile(filepath.Join(s.dir, "hostkey"))
		key, err := ssh.ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		cert := hostCert(t, ca, key, time.Now().Add(time.Hour), "127.0.0.1")
		c := startSSHD(t, "", "HostCertificate /mnt/hostkey-cert.pub", "HostKey /mnt/certkey")
		write(t, filepath.Join(c.dir, "certkey"), string(text), 0o600)
		write(t, filepath.Join(c.dir, "hostkey-cert.pub"), string(ssh.MarshalAuthorizedKey(cert)), 0o600)
		c.restart(t)
		write(t, filepath.Join(c.home, ".ssh", "known_hosts"), fmt.Sprintf("@cert-authority [127.0.0.1]:%d %s\n", c.port, keyText(ca.PublicKey())), 0o600)
		mustDial(t, c.dialer(t, nil), c.host("bash"))
	})
}

// TestMaxStartups: a server that drops logins at random gets all of them in the end.
func TestMaxStartups(t *testing.T) {
	t.Parallel()
	s := startSSHD(t, "", "MaxStartups 2:80:3")
	log := newCounter()
	d := s.dialer(t, func(o *Options) { o.Logger, o.ConnectTimeout = slog.New(log), time.Minute })
	mustDial(t, d, s.host("bash"))
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			l, err := d.Dial(t.Context(), s.host("bash"))
			if err != nil {
				t.Error(err)
				return
			}
			l.Close()
		})
	}
	wg.Wait()
	if log.of("trying again") == 0 {
		t.Error("no connection was dropped: this test shows nothing")
	}
}

// TestClientsSecrets: nothing of the environment travels in the command line.
func TestClientsSecrets(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	s := newFakeServer(t, "127.0.0.1:0").start()
	mustDial(t, fakeDialer(t, nil), s.host())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.commands) != 1 || strings.Contains(s.commands[0], "hunter2") {
		t.Errorf("commands: %q", s.commands)
	}
}
