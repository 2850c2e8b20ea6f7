package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Only what the job made, was seen to map, and nobody uses any more is removed.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	p := newPlan(t)
	base := shmDir + "/gorun-test-" + p.JobID
	ours, old, used, unseen := base+" ours", base+"-old", base+"-used", base+"-unseen"
	t.Cleanup(func() {
		for _, path := range []string{ours, old, used, unseen} {
			os.Remove(path)
		}
	})
	write(t, old, "", 0o600)
	h := startAgent(t, launch{})
	q := newPlan(t, self("shm", ours, old, used), sh(": >"+unseen+"; exec sleep 1000"))
	h.run(q)
	h.pid(0, "stubborn ")
	eventually(t, "the file of rank 1", func() bool { return exists(unseen) })
	f, err := os.Open(used)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	h.stop(0)
	for path, want := range map[string]bool{ours: false, old: true, used: true, unseen: true} {
		if exists(path) != want {
			t.Errorf("%s is there: %v; want %v", path, !want, want)
		}
	}
}

// Files are found while the ranks run: one that ends by itself leaves no trace in /proc.
func TestSharedMemoryOfEndedRank(t *testing.T) {
	t.Parallel()
	p := newPlan(t)
	path := shmDir + "/gorun-test-" + p.JobID
	t.Cleanup(func() { os.Remove(path) })
	h := startAgent(t, launch{})
	p = newPlan(t, self("shm", path))
	pids := h.run(p)
	h.pid(0, "stubborn ")
	eventually(t, "the list", func() bool { return len(readShmList(jobDir(p.JobID))) == 1 })
	unix.Kill(pids[0], unix.SIGKILL)
	h.exit(0)
	h.stop(time.Minute)
	if exists(path) {
		t.Errorf("%s is left", path)
	}
}

func TestParseMap(t *testing.T) {
	id := func(major, minor uint32, ino uint64) fileID { return fileID{unix.Mkdev(major, minor), ino} }
	tests := []struct {
		name, line string
		want       sharedFile
		ok         bool
	}{
		{"plain", "7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42                         /dev/shm/nccl-x", sharedFile{"/dev/shm/nccl-x", id(0, 0x1b, 42)}, true},
		{"blanks", "1000-2000 rw-s 00001000 08:102 7 /dev/shm/a b", sharedFile{"/dev/shm/a b", id(8, 0x102, 7)}, true},
		{"newline", `1000-2000 rw-s 00001000 00:1b 7 /dev/shm/a\012b`, sharedFile{"/dev/shm/a\nb", id(0, 0x1b, 7)}, true},
		{"deleted", "1000-2000 rw-s 00001000 00:1b 7 /dev/shm/a (deleted)", sharedFile{}, false},
		{"elsewhere", "1000-2000 r-xp 00001000 00:1b 7 /usr/dev/shm/a", sharedFile{}, false},
		{"bad-inode", "1000-2000 r-xp 00001000 00:1b x /dev/shm/a", sharedFile{}, false},
		{"short", " /dev/shm/a", sharedFile{}, false},
		{"empty", "", sharedFile{}, false},
	}
	for _, tt := range tests {
		got, ok := parseMap(tt.line)
		if ok != tt.ok {
			t.Errorf("%s: ok %v; want %v", tt.name, ok, tt.ok)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(sharedFile{}, fileID{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A job directory that somebody else has made is not believed: a sweep neither removes
// the files of ours that it names, nor waits for what stands in the list's place.
func TestForeignShmList(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("needs root to make another user's directory")
	}
	t.Parallel()
	for _, kind := range []string{"file", "fifo"} {
		id := newPlan(t).JobID
		dir, precious := jobDir(id), shmDir+"/gorun-test-"+id
		write(t, precious, "", 0o600)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f, _, _ := statFile(precious)
		if kind == "file" {
			write(t, dir+"/"+shmList, fmt.Sprintf("%d %d %q\n", f.dev, f.ino, precious), 0o644)
		} else if err := unix.Mkfifo(dir+"/"+shmList, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		_, err := Sweep(t.Context(), id)
		if err == nil || !strings.Contains(err.Error(), "is no directory of ours") {
			t.Errorf("%s: got %v; want the directory told", kind, err)
		}
		if !exists(precious) || !exists(dir) {
			t.Errorf("%s: a file of ours, or the foreign directory, was removed", kind)
		}
		os.Remove(precious)
		os.RemoveAll(dir)
	}
}

func TestReadShmList(t *testing.T) {
	dir := t.TempDir()
	w := &shmWatch{list: dir + "/" + shmList, seen: map[fileID]string{}}
	path := shmDir + "/gorun-test-" + newPlan(t).JobID + " \"\n"
	write(t, path, "", 0o600)
	defer os.Remove(path)
	id, _, _ := statFile(path)
	f := sharedFile{path, id}
	for range 2 {
		w.note(f)
		w.note(sharedFile{path, fileID{id.dev, id.ino + 1}}) // has been replaced
	}
	b, _ := os.ReadFile(w.list)
	write(t, w.list, string(b)+"1 2 \"/etc/passwd\"\nnonsense\n3 4 \"/dev/shm/x", 0o600)
	want := []sharedFile{f}
	if diff := cmp.Diff(want, readShmList(dir), cmp.AllowUnexported(sharedFile{}, fileID{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := removeShared([]sharedFile{{path, fileID{id.dev, id.ino + 1}}}); left != nil || !exists(path) {
		t.Errorf("a file that is another one by now was removed, or left: %v", left)
	}
}
