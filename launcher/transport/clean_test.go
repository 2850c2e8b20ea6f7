package transport

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/hostfile"
)

// filled makes a home with full caches: of the programs one is being run, and one is that
// with the inode that is returned; of the contents one is in a job's directory. A job that
// began after all this has no content yet, if there is one.
func filled(t *testing.T, home string, job time.Duration) (elsewhere uint64) {
	t.Helper()
	programs, files := cacheOf(home), filepath.Join(home, ".cache", "gorun-files")
	dir := filepath.Join(files, "job-j.0")
	os.MkdirAll(programs, 0o700)
	os.MkdirAll(dir, 0o700)
	for _, name := range []string{"gorun-old", "gorun-elsewhere", "tmp.x", "notes"} {
		write(t, filepath.Join(programs, name), "", 0o700)
	}
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	running := filepath.Join(programs, "gorun-running")
	write(t, running, string(sleep), 0o700)
	cmd := exec.Command(running, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for _, name := range []string{"blob-a", "blob-b", "blob-c-x"} {
		write(t, filepath.Join(files, name), "", 0o400)
	}
	if err := os.Link(filepath.Join(files, "blob-c-x"), filepath.Join(dir, "blob-of-the-users")); err != nil {
		t.Fatal(err)
	}
	list := dir + ".list"
	write(t, list, "", 0o600)
	at := time.Now().Add(-job)
	os.Chtimes(list, at, at)
	info, err := os.Stat(filepath.Join(programs, "gorun-elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	return inode(t, info)
}

// What is in use is kept, by whatever shells a host has.
func TestCleanKeepsTheUsed(t *testing.T) {
	for _, row := range []struct {
		login, sh string
		job       time.Duration // since one was last seen to bring its files
	}{
		{"sh", "", 48 * time.Hour},
		{"tcsh", "dash", 48 * time.Hour},
		{"fish", "bash", 48 * time.Hour},
		{"zsh", "busybox sh", 48 * time.Hour},
		{"sh", "", time.Minute},
		{"bash", "busybox sh", time.Minute},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprint(row.login, "-", row.sh, "-", row.job), " ", "-"), func(t *testing.T) {
			needPrograms(t, row.login, cmp.Or(row.sh, "sh"))
			home := t.TempDir()
			other := filled(t, home, row.job)
			h := shellHost{login: row.login, sh: row.sh, env: pathEnv(home)}.serve(t).host()
			d := fakeDialer(t, nil)
			uses, err := d.InUse(t.Context(), h)
			info, _ := os.Stat(filepath.Join(cacheOf(home), "gorun-running"))
			if err != nil || !slices.Equal(uses, []uint64{inode(t, info)}) {
				t.Errorf("in use: got %v, %v; want the inode of what runs", uses, err)
			}
			if n := len(listDir(t, cacheOf(home))); n != 5 {
				t.Errorf("%d files are left by a look; want all 5", n)
			}
			want := Cleaned{Programs: 1, Running: 1, Elsewhere: 1, Files: 2, Used: 1}
			blobs := []string{"blob-c-x", "job-j.0", "job-j.0.list"}
			if row.job < time.Hour {
				want.Files, want.Used, blobs = 0, 3, append([]string{"blob-a", "blob-b"}, blobs...)
			}
			got, err := d.Clean(t.Context(), h, append(uses, other))
			if err != nil || got != want {
				t.Errorf("clean: got %+v, %v; want %+v", got, err, want)
			}
			if got, want := listDir(t, cacheOf(home)), []string{"gorun-elsewhere", "gorun-running", "notes"}; !slices.Equal(got, want) {
				t.Errorf("programs: got %v; want %v", got, want)
			}
			if got := listDir(t, filepath.Join(home, ".cache", "gorun-files")); !slices.Equal(got, blobs) {
				t.Errorf("files: got %v; want %v", got, blobs)
			}
		})
	}
}

// What nobody uses goes, here as elsewhere, and the directories with it; to clean a second
// time, or where nothing ever was, is no error.
func TestCleanAll(t *testing.T) {
	for _, row := range []struct{ login, sh string }{{"local", ""}, {"sh", ""}, {"tcsh", "dash"}, {"fish", "busybox sh"}} {
		t.Run(row.login, func(t *testing.T) {
			d := fakeDialer(t, func(o *Options) { o.Home = filepath.Join(o.Home, "a[b c") })
			h, home := hostfile.Host{Name: "localhost"}, d.opts.Home
			if row.login != "local" {
				needPrograms(t, row.login, cmp.Or(row.sh, "sh"))
				home = t.TempDir()
				h = shellHost{login: row.login, sh: row.sh, env: pathEnv(home)}.serve(t).host()
			}
			files := filepath.Join(home, ".cache", "gorun-files")
			os.MkdirAll(cacheOf(home), 0o700)
			os.MkdirAll(files, 0o700)
			for _, name := range []string{"gorun-1", "gorun-2", "tmp.new"} {
				write(t, filepath.Join(cacheOf(home), name), "", 0o700)
			}
			write(t, filepath.Join(files, "blob-1"), "", 0o400)
			for _, want := range []Cleaned{{Programs: 2, Files: 1}, {}} {
				if got, err := d.Clean(t.Context(), h, nil); err != nil || got != want {
					t.Errorf("got %+v, %v; want %+v", got, err, want)
				}
			}
			if left := listDir(t, filepath.Join(home, ".cache")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Where one cannot see what runs nothing is removed; nor is it said that something was
// where the host says nothing.
func TestCleanBlind(t *testing.T) {
	home := t.TempDir()
	os.MkdirAll(cacheOf(home), 0o700)
	write(t, filepath.Join(cacheOf(home), "gorun-1"), "", 0o700)
	for _, row := range []struct {
		name, want string
		shell      func(ch ssh.Channel, command string) uint32
	}{
		{"no-proc", "cannot see here which programs run", nil},
		{"silent", "did not say what it has removed", func(ssh.Channel, string) uint32 { return 0 }},
		{"nonsense", "did not say what it has removed", func(ch ssh.Channel, command string) uint32 {
			_, nonce, _ := strings.Cut(command, "n=")
			fmt.Fprintf(ch, "@gorun-%s done 1 2 x\n", nonce[:32])
			return 0
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newFakeServer(t, "127.0.0.1:0")
			s.shell = row.shell
			if row.shell == nil {
				real := shellHost{login: "sh", env: pathEnv(home), wg: &s.wg}
				s.shell = func(ch ssh.Channel, command string) uint32 {
					return real.run(ch, strings.ReplaceAll(command, "/proc", "/nonexistent"))
				}
			}
			_, err := fakeDialer(t, nil).Clean(t.Context(), s.start().host(), nil)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v; want %q", err, row.want)
			}
		})
	}
	if got := listDir(t, cacheOf(home)); !slices.Equal(got, []string{"gorun-1"}) {
		t.Errorf("left: %v; want what was there", got)
	}
}

func FuzzParseClean(f *testing.F) {
	mark := "@gorun-" + testNonce + " "
	f.Add(mark + "uses 12\nnoise " + mark + "done 1 2 3 4 5\n")
	f.Add(mark + "done 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseClean([]byte(text), testNonce)
		if err == nil && !strings.Contains(text, mark+"done ") {
			t.Errorf("got %+v of %q; want an error", r, text)
		}
	})
}

func inode(t *testing.T, info os.FileInfo) uint64 {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no inode")
	}
	return st.Ino
}
