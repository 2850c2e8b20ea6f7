package transport

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/hostfile"
)

func TestLocalNames(t *testing.T) {
	hostname, _ := os.Hostname()
	d := fakeDialer(t, func(o *Options) {
		o.Config = sshConfigFile(t, "Host moved", "  HostName localhost", "Host *", "  ProxyUseFdpass yes", "  Port 2222")
	})
	for _, name := range []string{"", "localhost", "127.0.0.1", "::1", hostname} {
		l, err := dial(t, d, hostfile.Host{Name: name})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := ask(t, l, "hello you"); got != "hello you" {
			t.Errorf("%q: got %q; want the line back", name, got)
		}
	}
	for _, h := range []hostfile.Host{{Name: "localhost", Port: 22}, {Name: "localhost", User: "u"}, {Name: "moved"}} {
		_, err := dial(t, d, h)
		if _, ok := errors.AsType[*ConfigError](err); !ok {
			t.Errorf("%+v: got %v; want ssh to be used, and ProxyUseFdpass to be told", h, err)
		}
	}
}

func TestLocalLink(t *testing.T) {
	for name, self := range map[string]string{"script": testSelf(t), "proc-self-exe": "/proc/self/exe"} {
		t.Run(name, func(t *testing.T) {
			d := fakeDialer(t, func(o *Options) { o.Self = self })
			l := mustDial(t, d, hostfile.Host{Name: "localhost"})
			pid, pgrp, _ := strings.Cut(ask(t, l, "pgrp"), " ")
			if pid != pgrp || pid == strconv.Itoa(syscall.Getpgrp()) {
				t.Errorf("pid %s, process group %s; want a group of its own", pid, pgrp)
			}
			if got := ask(t, l, "args"); got != "" {
				t.Errorf("arguments: got %q; want none", got)
			}
			ask(t, l, "stderr oh\x1b[31mno")
			waitFor(t, "stderr", func() bool { return l.Stderr() == "oh?[31mno" })
			out, err := l.Run(t.Context(), "agent", "sweep", "job1")
			if err != nil || string(out) != "swept job1\n" {
				t.Errorf("Run: got %q, %v", out, err)
			}
			var names []string
			for _, p := range l.Timeline() {
				names = append(names, p.Name)
			}
			if got := strings.Join(names, " "); got != "agent ready" {
				t.Errorf("timeline: got %s; want agent ready", got)
			}
			l.Write([]byte("exit 7\n"))
			var exit *ExitError
			if err := l.Wait(t.Context()); !errors.As(err, &exit) || exit.Status != 7 {
				t.Errorf("Wait: got %v; want exit status 7", err)
			}
		})
	}
}

func TestLocalClose(t *testing.T) {
	d := fakeDialer(t, nil)
	l := mustDial(t, d, hostfile.Host{})
	blocked := make(chan error, 1)
	go func() {
		_, err := l.Read(make([]byte, 1))
		blocked <- err
	}()
	l.Close()
	l.Close()
	select {
	case err := <-blocked:
		if err == nil {
			t.Error("read: got no error after Close")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close did not end a read")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		t.Errorf("Wait: got %v; want the agent to end by itself", err)
	}
}

func TestLocalFailures(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n"+text, 0o755)
		return filepath.Join(dir, name)
	}
	write(t, filepath.Join(dir, "plain"), "x", 0o644)
	tests := []struct{ name, self, want string }{
		{"missing", filepath.Join(dir, "none"), "no such file"},
		{"not-executable", filepath.Join(dir, "plain"), "permission denied"},
		{"ends", script("ends", "echo out; echo oops >&2; exit 3"), `gorun's agent on this machine ended (exit status 3) before it spoke; it printed "oops"`},
		{"killed", script("killed", "kill -9 $$"), "(killed by SIGKILL)"},
		{"silent", script("silent", "exec sleep 60"), "gorun's agent was started on this machine, but did not speak in 1s"},
		{"other-version", script("version", `echo "@gorun-$2 agent 99"; exec cat`), `the agent says "agent 99", want "agent 1"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := fakeDialer(t, func(o *Options) {
				if o.Self = tt.self; tt.name == "silent" {
					o.ConnectTimeout = time.Second
				}
			})
			_, err := dial(t, d, hostfile.Host{Name: "localhost"})
			e := hostError(t, err)
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "ssh") || e.Addr != "" {
				t.Errorf("got %v; want %q, and no word of ssh", err, tt.want)
			}
		})
	}
}

// TestLocalRunWithoutFile: what must be swept is swept also when gorun's file has been replaced.
func TestLocalRunWithoutFile(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gorun")
	write(t, file, string(data), 0o755)
	out, err := exec.Command(file, "vanish").CombinedOutput()
	if got := string(out); err != nil || got != "swept job7\n" {
		t.Errorf("got %q, %v; want the sweep", got, err)
	}
}

func TestDialNeeds(t *testing.T) {
	if _, err := New(Options{JobID: "a b"}); err == nil {
		t.Error("a job id with a blank: got no error")
	}
	for _, opts := range []Options{{JobID: "x"}, {Self: "/bin/true"}} {
		d, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Dial(t.Context(), hostfile.Host{}); err == nil {
			t.Errorf("%+v: got no error", opts)
		}
		d.Close()
	}
}
