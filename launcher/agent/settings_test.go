package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// newTestSettler returns a settler of a host that has only what the test writes into the
// directories etc and home below dir, and a channel of what it tells after hello.
func newTestSettler(t *testing.T, session ...string) (s *settler, dir string, told chan wire.Settings) {
	dir = t.TempDir()
	for _, d := range []string{"etc/profile.d", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	told = make(chan wire.Settings, 4)
	end := make(chan struct{})
	s = &settler{
		session: session, etc: dir + "/etc", home: dir + "/home", end: end, send: func(s wire.Settings) { told <- s },
		shell: loginShell{path: "/bin/sh", session: append(session, "HOME="+dir+"/home", "PATH="+os.Getenv("PATH")),
			mark: "gorun-0123", limit: 5 * time.Second, fork: func(f func()) { f() }},
	}
	t.Cleanup(func() {
		close(end)
		if s.done != nil {
			<-s.done
		}
	})
	return s, dir, told
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// brief writes settings in a line, without the test's directory.
func brief(s wire.Settings, dir string) string {
	parts := []string{strings.Join(texts(s.Session), " "), strings.Join(texts(s.Login), " "), s.Trouble}
	for _, f := range s.Files {
		parts = append(parts, fmt.Sprintf("%s %v %q%s", f.Path, f.User, f.Text, f.Trouble))
	}
	return strings.ReplaceAll(strings.Join(parts, "|"), dir, "")
}

func TestSettings(t *testing.T) {
	tests := []struct {
		name    string
		session []string
		files   map[string]string
		want    string
	}{
		{"nothing", nil, nil, "||"},
		{"session", []string{"NCCL_ALGO=Ring", "PATH=/bin", "NCCL_ALGO=Tree", "NCCL_CONF_FILE="}, nil, "NCCL_ALGO=Ring||"},
		{"host-file", nil, map[string]string{"etc/nccl.conf": "A=1\n"}, `|||/etc/nccl.conf false "A=1\n"`},
		{"both-files", nil, map[string]string{"etc/nccl.conf": "A=1", "home/.nccl.conf": "A=2"}, `|||/home/.nccl.conf true "A=2"|/etc/nccl.conf false "A=1"`},
		{"conf-file", []string{"NCCL_CONF_FILE=/dev/null"}, map[string]string{"home/.nccl.conf": "A=2"}, "||"},
		{"large", nil, map[string]string{"etc/nccl.conf": strings.Repeat("#", maxConf+1)}, `|||/etc/nccl.conf false ""has 65537 bytes, more than the 65536 that gorun reads`},
		{"quiet-profile", nil, map[string]string{"home/.profile": "# NCCL_ALGO\nexport A=1\n"}, "||"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, dir, _ := newTestSettler(t, tt.session...)
			for name, text := range tt.files {
				put(t, filepath.Join(dir, name), text)
			}
			s.start()
			first := <-s.first
			close(s.greeted)
			if first.now == nil || first.more || brief(*first.now, dir) != tt.want {
				t.Errorf("got %+v; want %s and no more", first, tt.want)
			}
		})
	}
}

// A shell is run when its profile files set such names; what it finds comes later.
func TestSettingsOfLoginShell(t *testing.T) {
	s, dir, told := newTestSettler(t, "NCCL_PROTO=LL", "NCCL_ALGO=Tree")
	put(t, dir+"/home/.profile", "echo welcome\nexport NCCL_ALGO=Ring NCCL_CONF_FILE=$HOME/conf\n")
	put(t, dir+"/home/conf", "B=1\n")
	s.start()
	if first := <-s.first; first.now == nil || !first.more {
		t.Errorf("got %+v; want that more follows", first)
	}
	select {
	case early := <-told:
		t.Errorf("got %+v before hello was sent", early)
	case <-time.After(100 * time.Millisecond):
	}
	close(s.greeted)
	want := `NCCL_PROTO=LL NCCL_ALGO=Tree|NCCL_ALGO=Ring||/home/conf true "B=1\n"`
	if got := brief(<-told, dir); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	put(t, dir+"/home/other", "")
	s.asks <- wire.Ask{ConfFile: wire.Bytes("other"), Dir: wire.Bytes(dir + "/home")}
	if got := brief(<-told, dir); got != `NCCL_PROTO=LL NCCL_ALGO=Tree|NCCL_ALGO=Ring||/home/other true ""` {
		t.Errorf("got %s; want the empty file", got)
	}
	s.asks <- wire.Ask{ConfFile: wire.Bytes("gone"), Dir: wire.Bytes(dir + "/home")}
	if got := brief(<-told, dir); got != "NCCL_PROTO=LL NCCL_ALGO=Tree|NCCL_ALGO=Ring|" {
		t.Errorf("got %s; want it without the file", got)
	}
}

// Whatever the profile does, the look at it ends, and nothing that it started is left.
func TestLoginShellTrouble(t *testing.T) {
	tests := map[string]struct{ profile, want string }{
		"hangs":    {"sleep 1000", "/bin/sh did not begin within 300ms"},
		"exits":    {"exit 3", "/bin/sh ended before it had read all of its profile files, or cannot run cat"},
		"floods":   {"exec cat /dev/zero", "/bin/sh printed more than 1048576 bytes"},
		"daemon":   {"setsid sleep 2 &", ""},
		"no-shell": {"", "/nowhere cannot be run: no such file or directory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, dir, _ := newTestSettler(t)
			put(t, dir+"/home/.profile", tt.profile+"\n")
			s.shell.limit = 5 * time.Second
			if name == "hangs" {
				s.shell.limit = 300 * time.Millisecond
			}
			if name == "no-shell" {
				s.shell.path = "/nowhere"
			}
			_, err := s.shell.environ(t.Context())
			if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
				t.Errorf("got %v; want %q", err, tt.want)
			}
			if got := children(); name != "daemon" && len(got) > 0 { // a daemon is adopted by who is a subreaper
				t.Errorf("children %v are left", got)
			}
		})
	}
}

func TestLoginShellIsCut(t *testing.T) {
	s, dir, _ := newTestSettler(t)
	put(t, dir+"/home/.profile", "sleep 1000\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.shell.environ(ctx); err == nil || len(children()) > 0 {
		t.Errorf("got %v, children %v; want an error and none", err, children())
	}
}

func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/file", "text")
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	os.Symlink("loop", dir+"/loop")
	for name, want := range map[string]string{
		"file": "text <nil>", "none": " <nil>", "file/below": " <nil>", "pipe": " is no regular file", ".": " is a directory",
		"loop": " cannot be read: too many levels of symbolic links",
	} {
		text, err := readSmall(dir+"/"+name, 100)
		if got := fmt.Sprintf("%s %v", text, err); got != want {
			t.Errorf("%s: got %q; want %q", name, got, want)
		}
	}
	if text, err := readSmall("/proc/self/comm", 100); err != nil || len(text) == 0 {
		t.Errorf("a file without a size: got %q, %v", text, err)
	}
}

func TestSpeaksOfNCCL(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "export A=1\n": false, "# NCCL_ALGO=Ring": false, "export NCCL_ALGO=Ring": true, "  setenv NCCL_ALGO Ring": true,
		"module load nccl": true, "\tml gcc": true, "html x": false, "module() {": false,
	} {
		if got := speaksOfNCCL([]byte(text)); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(dir+"/profile.d", 0o700)
	put(t, dir+"/profile.d/x.sh", "")
	for shell, want := range map[string]string{"/bin/bash": "/h/.bash_profile", "/usr/bin/zsh": "/h/.zprofile", "/bin/tcsh": "/h/.login",
		"/usr/bin/fish": "/h/.config/fish/config.fish", "/odd/shell": "/h/.profile"} {
		got := profiles(dir, "/h", shell)
		if !slices.Contains(got, want) || !slices.Contains(got, dir+"/profile.d/x.sh") {
			t.Errorf("%s: got %v", shell, got)
		}
	}
}

func FuzzBetween(f *testing.F) {
	f.Add([]byte("noise mark\nA=1\x00B=2\x00mark\n"), "mark\n")
	f.Add([]byte("mark\nmark\n"), "mark\n")
	f.Fuzz(func(t *testing.T, text []byte, mark string) {
		environ, _ := between(text, mark)
		for _, e := range environ {
			if !strings.Contains(e, "=") || strings.Contains(e, "\x00") {
				t.Fatalf("got %q", e)
			}
		}
	})
}
