package facts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const someMounts = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64
40 22 0:45 / /shared rw,relatime shared:20 - nfs4 nas:/export rw,vers=4.2
41 22 0:46 /projects/a\040b /data rw,relatime - nfs nas:/ rw
42 22 0:47 / /lustre ro,relatime - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/fs0 rw,flock
43 22 0:48 / /gpfs rw - gpfs gpfs0 rw
44 22 0:49 / /host rw - virtiofs share0 rw
45 40 0:50 / /shared/scratch rw - ext4 /dev/nvme0n1 rw
46 22 0:51 / /etc/hidden rw - tmpfs one rw
47 22 0:52 / /etc/hidden rw - tmpfs two rw
broken
48 22 0:52 /
49 22 0:52 / relative rw - tmpfs x rw
`

func TestMounts(t *testing.T) {
	mounts := parseMounts(someMounts)
	if got, want := len(mounts), 10; got != want {
		t.Fatalf("got %d mounts; want %d", got, want)
	}
	for _, test := range []struct{ name, dir, source, id string }{
		{"root", "/", "/dev/vda1", ""},
		{"no-name-in-common", "/sharedx", "/dev/vda1", ""},
		{"nfs", "/shared", "nas:/export", "nfs nas:/export"},
		{"nfs-below", "/shared/job/a", "nas:/export", "nfs nas:/export/job/a"},
		{"nfs-part", "/data/x", "nas:/", "nfs nas:/projects/a b/x"},
		{"lustre", "/lustre/x", "10.0.0.1@o2ib:10.0.0.2@o2ib:/fs0", "lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/fs0/x"},
		{"gpfs", "/gpfs/x", "gpfs0", "gpfs gpfs0 /x"},
		{"virtiofs", "/host/x", "share0", ""},
		{"disk-in-nfs", "/shared/scratch/x", "/dev/nvme0n1", ""},
		{"hidden", "/etc/hidden", "two", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, ok := mountOf(mounts, test.dir)
			if !ok || m.source != test.source || m.identity(test.dir) != test.id {
				t.Errorf("got %q, %q; want %q, %q", m.source, m.identity(test.dir), test.source, test.id)
			}
		})
	}
}

func FuzzMounts(f *testing.F) {
	f.Add(someMounts, "/shared/x")
	f.Add(`1 1 0:1 \ \040\04 rw - a b`, "/")
	f.Fuzz(func(t *testing.T, text, dir string) {
		mounts := parseMounts(text)
		if m, ok := mountOf(mounts, dir); ok {
			m.identity(dir)
		}
		pidsGroup(mounts, text)
	})
}

func TestDirectories(t *testing.T) {
	root := t.TempDir()
	s := hostSource()
	for _, test := range []struct {
		name, path string
		want       Disk
	}{
		{"there", root, Disk{Writable: true}},
		{"missing", root + "/none", Disk{Missing: true}},
		{"below-a-file", "/etc/passwd/x", Disk{Missing: true}},
		{"loop", root + "/loop", Disk{Trouble: "too many levels of symbolic links"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "loop" {
				if err := os.Symlink("loop", test.path); err != nil {
					t.Fatal(err)
				}
			}
			got := lookAtDisk(s, Disk{Use: DiskTmp, Path: test.path})
			if got.Missing != test.want.Missing || got.Trouble != test.want.Trouble || got.Writable != test.want.Writable {
				t.Errorf("got %+v; want %+v", got, test.want)
			}
			if test.want.Writable && (got.Size == 0 || got.Type == "") {
				t.Errorf("got %+v; want a size and a file system", got)
			}
		})
	}
	if left, _ := os.ReadDir(root); len(left) != 1 {
		t.Errorf("got %v left; want nothing but the link", left)
	}
}

func TestOrderNamesTheWorkingDirectory(t *testing.T) {
	t.Setenv("HOME", "/home/nobody-has-this")
	var h Host
	if err := collectDisks(Order{Dir: t.TempDir()})(t.Context(), hostSource(), &h); err != nil {
		t.Fatal(err)
	}
	var uses []string
	for _, d := range h.Disks {
		uses = append(uses, fmt.Sprint(d.Use, " ", d.Missing))
	}
	if diff := cmp.Diff([]string{"shm false", "tmp false", "work false", "home true"}, uses); diff != "" {
		t.Error(diff)
	}
}

func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no answer in 1s"))
		defer cancel()
		never := make(chan struct{})
		defer func() {
			close(never)
			synctest.Wait()
		}()
		got, err := lookAtDisks(ctx, []Disk{{Path: "/shared"}, {Path: "/tmp"}, {Path: "/odd"}}, func(d Disk) Disk {
			switch d.Path {
			case "/shared":
				<-never
			case "/odd":
				panic("odd")
			}
			d.Size = 1
			return d
		})
		want := []Disk{{Path: "/shared", Trouble: "no answer in 1s"}, {Path: "/tmp", Size: 1}, {Path: "/odd", Trouble: "gorun has a fault here: odd"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "/shared: no answer in 1s\n/odd: ") {
			t.Errorf("got %v; want an error that names both", err)
		}
	})
}

// shm has files in /dev/shm, of which a process maps one, in the namespaces that the
// links name.
func shm(t *testing.T, pidns, ipcns string) *source {
	s := tree(t, map[string]string{
		"/dev/shm/nccl-old": "left", "/dev/shm/nccl-mapped": "mapped", "/dev/shm/other": "", "/dev/shm/gorun-old": "", "/dev/shm/nccl-dir/": "",
		"/proc/self/ns/pid": "-> " + pidns, "/proc/self/ns/ipc": "-> " + ipcns, "/proc/7/maps": "", "/proc/8/maps": "",
	})
	var st unix.Stat_t
	if err := unix.Stat(s.at("/dev/shm/nccl-mapped"), &st); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("7f1c50000000-7f1c50001000 rw-s 00000000 %x:%x %d    /dev/shm/nccl-mapped\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	if err := os.WriteFile(s.at("/proc/7/maps"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStale(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, test := range []struct {
		name, pid, ipc string
		now            time.Time
		broken         bool
		want           []string
	}{
		{"host", initPID, initIPC, later, false, []string{"gorun-old", "nccl-old"}},
		{"container", "pid:[1]", "ipc:[1]", later, false, []string{"gorun-old", "nccl-old"}},
		{"memory-of-the-host", "pid:[1]", initIPC, later, false, nil},
		{"young", initPID, initIPC, time.Now(), false, nil},
		{"a-process-cannot-be-seen", initPID, initIPC, later, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := shm(t, test.pid, test.ipc)
			if test.broken {
				if err := os.MkdirAll(s.at("/proc/9"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			names, use := staleShm(t.Context(), s, test.now)
			slices.Sort(names)
			if !slices.Equal(names, test.want) || (use > 0) != (test.want != nil) {
				t.Errorf("got %v, %d bytes; want %v", names, use, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if names, _ := staleShm(ctx, shm(t, initPID, initIPC), later); names != nil {
		t.Errorf("got %v; want none without a look at all processes", names)
	}
}

// TestOpenFilesAreInUse looks at this process, and the real /dev/shm.
func TestOpenFilesAreInUse(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "nccl-test-")
	if err != nil {
		t.Skip("/dev/shm cannot be written to")
	}
	defer f.Close()
	defer os.Remove(f.Name())
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	used := map[fileID]bool{}
	hostSource().openFiles("/proc/self", used)
	if !used[fileID{st.Dev, st.Ino}] {
		t.Errorf("got %v; want the file that is open", used)
	}
}

func TestParseMap(t *testing.T) {
	for _, test := range []struct {
		name, line string
		inode      uint64
	}{
		{"mapped", "7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42    /dev/shm/nccl-x\n", 42},
		{"deleted", "7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 43    /dev/shm/nccl-x (deleted)\n", 43},
		{"elsewhere", "7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42    /tmp/dev/shm/x\n", 0},
		{"anonymous", "7f1c50000000-7f1c50001000 rw-p 00000000 00:00 0\n", 0},
		{"short", " /dev/shm/x", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if id, ok := parseMap(test.line); id.ino != test.inode || ok != (test.inode != 0) {
				t.Errorf("got %v, %v; want %d", id, ok, test.inode)
			}
		})
	}
}
