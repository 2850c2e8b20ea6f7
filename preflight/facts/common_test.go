package facts

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Items look at the bus and at the mounts once, and one that has a mount of its own to look for
// finds what came later.
func TestCommon(t *testing.T) {
	src := tree(t, map[string]string{
		"sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
		"proc/self/mountinfo":                    "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 22 0:45 / /auto rw - autofs map rw\n",
	})
	src.common = newCommon(&source{root: src.root, access: access})
	other := &source{root: src.root, access: access, common: src.common}
	device := src.pciIdentities()
	table := src.mountTable()
	if len(device) != 1 || len(table) != 2 {
		t.Fatalf("got %d devices and %d mounts; want 1 and 2", len(device), len(table))
	}
	later := "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n40 22 0:45 / /auto rw - autofs map rw\n41 40 0:46 / /auto/home rw - nfs nas:/home rw\n"
	if err := os.WriteFile(src.root+"/proc/self/mountinfo", []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(src.root + "/sys"); err != nil {
		t.Fatal(err)
	}
	if got := len(other.pciIdentities()); got != 1 {
		t.Errorf("got %d devices of the other item; want 1", got)
	}
	if got := len(other.mountTable()); got != 2 {
		t.Errorf("got %d mounts of the other item; want 2", got)
	}
	alone := &source{root: src.root, access: access}
	if devices, mounts := len(alone.pciIdentities()), len(alone.mountTable()); devices != 0 || mounts != 3 {
		t.Errorf("got %d devices and %d mounts of an item with nothing in common; want 0 and 3", devices, mounts)
	}
	for _, tt := range []struct {
		dir    string
		minor  uint32
		major  uint32
		source string
	}{{"/tmp", 1, 254, "/dev/vda1"}, {"/auto/home/user", 46, 0, "nas:/home"}, {"/auto/home/user", 99, 0, "nas:/home"}} {
		if m, ok := other.mountAt(tt.dir, unix.Mkdev(tt.major, tt.minor)); !ok || m.source != tt.source {
			t.Errorf("%s: got %+v, %v; want what %s holds", tt.dir, m, ok, tt.source)
		}
	}
}

// What sysfs gives in less than a page is all; other files are read until nothing comes.
func TestReadSize(t *testing.T) {
	long := strings.Repeat("x", 5000)
	src := tree(t, map[string]string{"sys/a": long, "proc/a": long, "sys/page": long[:4096], "sys/few": "x"})
	for path, want := range map[string]int{"/sys/a": 5000, "/proc/a": 5000, "/sys/page": 4096, "/sys/few": 1} {
		if got, err := src.read(path, maxFile); len(got) != want || err != nil {
			t.Errorf("%s: got %d bytes, %v; want %d", path, len(got), err, want)
		}
	}
}
