package launcher

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// tree makes files: a name that ends in / is a directory, "name -> target" a symbolic
// link, a name that ends in * is executable.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name, target, link := strings.Cut(n, " -> ")
		path, exec := strings.CutSuffix(filepath.Join(dir, name), "*")
		mode := os.FileMode(0o644)
		if exec {
			mode = 0o755
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.Mkdir(path, 0o755)
		default:
			err = os.WriteFile(path, []byte(name), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loaded writes a cargo as "name <path*", one word a file.
func loaded(c *cargo, dir string) []string {
	var out []string
	for _, f := range c.files {
		s := f.name + "<" + strings.TrimPrefix(f.path, dir+"/")
		for mark, is := range map[string]bool{"*": f.exec, "/": f.empty} {
			if is {
				s += mark
			}
		}
		if !f.needed && !f.empty {
			s += "?"
		}
		out = append(out, s)
	}
	return out
}

func TestLoadCargo(t *testing.T) {
	dir := tree(t, "here/prog*", "here/cfg", "here/link -> cfg", "here/data/a", "here/data/deep/b*", "here/data/none/", "here/data/up -> ../cfg",
		"here/data/dir -> deep", "there/tool*", "there/x", "here/loop/on -> ../loop", "here/gone -> nowhere", "here/pipes/", "here/plain", "here/a/b", "there/a", "here/x")
	if err := syscall.Mkfifo(dir+"/here/pipes/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", dir+"/here/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("PATH", dir+"/there")
	here := dir + "/here"
	tests := map[string]struct {
		bcast   string // program
		preload []string
		want    string
		err     string
	}{
		"nothing":           {},
		"program":           {"./prog", nil, "prog<here/prog*?", ""},
		"program-in-path":   {"tool", nil, "tool<there/tool*?", ""},
		"program-elsewhere": {"../there/tool", nil, "tool<there/tool*?", ""},
		"program-by-link":   {dir + "/here/prog", nil, "prog<here/prog*?", ""},
		"file":              {"", []string{"cfg"}, "cfg<here/cfg", ""},
		"twice":             {"", []string{"cfg", "./cfg", here + "/cfg"}, "cfg<here/cfg", ""},
		"program-and-file":  {"./prog", []string{"prog"}, "prog<here/prog*", ""},
		"link":              {"", []string{"link"}, "link<here/link", ""},
		"deep":              {"", []string{"data/deep/b"}, "data/deep/b<here/data/deep/b*", ""},
		"outside":           {"", []string{"../there/x"}, "x<there/x", ""},
		"directory": {"", []string{"data/"},
			"data/a<here/data/a data/deep/b<here/data/deep/b* data/dir/b<here/data/dir/b* data/none<here/data/none/ data/up<here/data/up", ""},

		"no-program":         {"./nosuch", nil, "", `--bcast: program "./nosuch": no such file or directory`},
		"no-program-in-path": {"nosuch", nil, "", `--bcast: program "nosuch": executable file not found in $PATH`},
		"program-directory":  {"./data", nil, "", `--bcast: program "./data": is a directory`},
		"not-executable":     {"./plain", nil, "", `--bcast: program "./plain": permission denied (not executable)`},
		"missing":            {"", []string{"nosuch"}, "", `--preload "nosuch": no such file or directory`},
		"dangling":           {"", []string{"gone"}, "", `--preload "gone": no such file or directory`},
		"pipe":               {"", []string{"pipes/fifo"}, "", `--preload "pipes/fifo": is a pipe, not a file or a directory`},
		"pipe-below":         {"", []string{"pipes"}, "", `--preload "` + here + `/pipes/fifo": is a pipe, not a file or a directory`},
		"socket":             {"", []string{"socket"}, "", `--preload "socket": is a socket, not a file or a directory`},
		"device":             {"", []string{"/dev/null"}, "", `--preload "/dev/null": is a device, not a file or a directory`},
		"loop":               {"", []string{"loop"}, "", `--preload "` + here + `/loop/on": a symbolic link leads back to a directory that it is in`},
		"names-collide":      {"", []string{"x", "../there/x"}, "", `--preload "` + dir + `/there/x": it would have the same name on the hosts as "` + here + `/x": "x"`},
		"file-for-directory": {"", []string{"../there/a", "a/b"}, "", `--preload "` + here + `/a/b": "` + dir + `/there/a" has the name of its directory on the hosts, "a"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := Job{Apps: []App{{Args: []string{"prog"}}}, Preload: tt.preload}
			if tt.bcast != "" {
				job.Bcast, job.Apps[0].Args[0] = true, tt.bcast
			}
			c, err := loadCargo(job, here)
			switch {
			case tt.err != "":
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v; want %s", err, tt.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			case c == nil:
				if tt.want != "" {
					t.Errorf("got nothing; want %s", tt.want)
				}
				return
			}
			got := loaded(c, dir)
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %s; want %s", s, tt.want)
			}
		})
	}
}

func TestTooManyFiles(t *testing.T) {
	c := &cargo{files: make([]freight, maxFreight)}
	if err := c.put(freight{name: "one-more"}); err == nil {
		t.Error("there is no limit")
	}
}

// carried is a courier's work: what it sent of the file of that content.
func carried(t *testing.T, path string, size int, change func()) ([]byte, error) {
	t.Helper()
	c, err := loadCargo(Job{Apps: []App{{Args: []string{"prog"}}}, Preload: []string{path}}, filepath.Dir(path))
	if err == nil {
		err = c.read(context.Background(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	change()
	r, w := io.Pipe()
	send := wire.NewSender(w)
	k := newCourier(c, send)
	done := make(chan error, 1)
	go func() {
		done <- k.run(&wire.Want{Files: []int{0}, Credit: bcast.PieceSize + 100})
		w.Close()
		send.Close()
	}()
	var got []byte
	for in := wire.NewReader(r, 0); ; {
		f, err := in.Read()
		if err != nil {
			return got, <-done
		}
		got = append(got, f.Payload...)
		k.grant(len(f.Payload))
	}
}

func TestCourier(t *testing.T) {
	const size = 3*bcast.PieceSize + 5
	content := []byte(strings.Repeat("0123456789abcde\n", size/16+1)[:size])
	write := func(path string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		change func(path string)
		err    string
	}{
		"as-it-was": {func(string) {}, ""},
		"changed":   {func(p string) { write(p, append(slices.Clone(content[:size-1]), '!')) }, "was changed while it was sent"},
		"shorter":   {func(p string) { write(p, content[:size-1]) }, "was changed while it was sent"},
		"removed":   {func(p string) { os.Remove(p) }, "no such file or directory"},
		"pipe":      {func(p string) { os.Remove(p); syscall.Mkfifo(p, 0o600) }, "was changed while it was sent"},
		"touched":   {func(p string) { os.Chtimes(p, time.Now(), time.Now()) }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/file"
			write(path, content)
			got, err := carried(t, path, size, func() { tt.change(path) })
			if tt.err == "" {
				if n := bcast.Pieces(size) * bcast.HashSize; err != nil || string(got[n:]) != string(content) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v; want %q of %s", err, tt.err, path)
			}
		})
	}
}

// TestSlowHosts: couriers whose hosts take nothing hold no memory and do not hold up
// another.
func TestSlowHosts(t *testing.T) {
	path := t.TempDir() + "/file"
	if err := os.WriteFile(path, make([]byte, 2*bcast.PieceSize), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadCargo(Job{Apps: []App{{Args: []string{"prog"}}}, Preload: []string{path}}, "/")
	if err == nil {
		err = c.read(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	send := wire.NewSender(io.Discard)
	defer send.Close()
	ended := make(chan error)
	var slow []*courier
	for range 2 * mostReads {
		k := newCourier(c, send)
		slow = append(slow, k)
		go func() { ended <- k.run(&wire.Want{Files: []int{0}, Credit: 100}) }()
	}
	if err := newCourier(c, send).run(&wire.Want{Files: []int{0}, Credit: 1 << 30}); err != nil {
		t.Error(err)
	}
	for _, k := range slow {
		k.stop()
		if err := <-ended; !errors.Is(err, errDropped) {
			t.Errorf("got %v; want %v", err, errDropped)
		}
	}
	if n := len(c.room); n != 0 {
		t.Errorf("%d pieces are held for ever", n)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 1 << 30: "1.1 GB", 5e15: "5000.0 TB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: got %s; want %s", n, got, want)
		}
	}
}
