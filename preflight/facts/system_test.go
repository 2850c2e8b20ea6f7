package facts

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSystem(t *testing.T) {
	s := tree(t, map[string]string{
		"/proc/sys/kernel/hostname": "gpu01\n", "/proc/sys/kernel/osrelease": "5.15.0-1053\n", "/proc/sys/kernel/random/boot_id": "5d0a7c1e\n",
		"/etc/os-release": "NAME=Ubuntu\nPRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\n", "/proc/cmdline": "ro numa=off\n", "/proc/uptime": "864000.11 1.0\n",
		"/proc/loadavg": "0.20 0.1 0.1 1/2 3\n", "/sys/devices/system/cpu/online": "0-191\n",
		"/proc/meminfo":                           "MemTotal:       2113469440 kB\nMemFree: 1 kB\nMemAvailable:   2000000000 kB\n",
		"/sys/devices/system/node/node0/cpulist":  "0-95\n",
		"/sys/devices/system/node/node1/cpulist":  "96-191\n",
		"/sys/devices/system/node/node2/cpulist":  "\n",
		"/sys/devices/system/node/node10/cpulist": "\n",
		"/sys/module/mlx5_core/version":           "24.10-1.1.4\n",
		"/lib/x86_64-linux-gnu/libc-2.31.so":      "", "/lib/x86_64-linux-gnu/libc.so.6": "-> libc-2.31.so",
		"/usr/lib64/libibverbs.so.1": "-> libibverbs.so.1.14.39.0", "/usr/lib64/libibverbs.so.1.14.39.0": "",
	})
	var h Host
	if err := collectSystem(Order{})(t.Context(), s, &h); err != nil {
		t.Fatal(err)
	}
	got := h.System
	got.Cores, got.UID, got.User, got.Arch = 0, 0, "", ""
	want := System{
		Hostname: "gpu01", BootID: "5d0a7c1e", Kernel: "5.15.0-1053", OS: "Ubuntu 22.04.4 LTS", Libc: "glibc 2.31", Cmdline: "ro numa=off",
		Uptime: 864000.11, CPUs: 192, Memory: 2113469440 << 10, Available: 2000000000 << 10, Load: 0.2, OFED: "24.10-1.1.4", RDMACore: "39.0",
		NUMA: []NUMA{{0, "0-95"}, {1, "96-191"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSystemWithoutProc(t *testing.T) {
	var h Host
	if err := collectSystem(Order{})(t.Context(), tree(t, nil), &h); err == nil {
		t.Error("got no error; want one that names /proc")
	}
}

func TestVirtual(t *testing.T) {
	const guest = "processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n\nprocessor : 1\n"
	for _, test := range []struct {
		name, want string
		files      map[string]string
	}{
		{"bare", "", map[string]string{"/proc/cpuinfo": "flags : fpu\n", "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}},
		{"guest", "virtual machine (QEMU)", map[string]string{"/proc/cpuinfo": guest, "/sys/class/dmi/id/sys_vendor": "QEMU\n"}},
		{"bare-in-a-cloud", "", map[string]string{"/proc/cpuinfo": "flags : fpu\n", "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}},
		{"unnamed", "virtual machine", map[string]string{"/proc/cpuinfo": guest}},
		{"docker", "docker in virtual machine", map[string]string{"/proc/cpuinfo": guest, "/.dockerenv": ""}},
		{"podman", "podman", map[string]string{"/run/.containerenv": ""}},
		{"kubernetes", "kubernetes", map[string]string{"/proc/self/cgroup": "11:pids:/kubepods/besteffort/pod1/x\n"}},
		{"systemd", "systemd-nspawn", map[string]string{"/run/systemd/container": "systemd-nspawn\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := virtual(tree(t, test.files)); got != test.want {
				t.Errorf("got %q; want %q", got, test.want)
			}
		})
	}
}

func TestPidsMax(t *testing.T) {
	const v2, v1 = "29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "30 22 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	for _, test := range []struct {
		name       string
		files      map[string]string
		limit, now int64
	}{
		{"tightest-above", map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n",
			"/sys/fs/cgroup/user.slice/user-1000.slice/pids.max": "1000\n", "/sys/fs/cgroup/user.slice/user-1000.slice/pids.current": "900\n",
			"/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/pids.max": "max\n", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/pids.current": "20\n",
			"/sys/fs/cgroup/user.slice/pids.max": "500000\n", "/sys/fs/cgroup/user.slice/pids.current": "901\n",
		}, 1000, 900},
		{"no-limit", map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/pids.max": "max\n", "/sys/fs/cgroup/a/pids.current": "1\n",
		}, 0, 0},
		{"older-kind", map[string]string{
			"/proc/self/mountinfo": v2 + v1, "/proc/self/cgroup": "9:cpu,cpuacct:/b\n8:pids:/a\n0::/c\n",
			"/sys/fs/cgroup/pids/a/pids.max": "64\n", "/sys/fs/cgroup/pids/a/pids.current": "7\n",
		}, 64, 7},
		{"part-is-mounted", map[string]string{
			"/proc/self/mountinfo": "29 22 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "/proc/self/cgroup": "0::/docker/x/y\n",
			"/sys/fs/cgroup/y/pids.max": "5\n", "/sys/fs/cgroup/y/pids.current": "1\n",
		}, 5, 1},
		{"other-namespace", map[string]string{
			"/proc/self/mountinfo": "29 22 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "/proc/self/cgroup": "0::/../y\n",
			"/sys/fs/cgroup/pids.max": "5\n", "/sys/fs/cgroup/pids.current": "1\n",
		}, 5, 1},
		{"nothing", nil, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if limit, now := pidsMax(tree(t, test.files)); limit != test.limit || now != test.now {
				t.Errorf("got %d, %d; want %d, %d", limit, now, test.limit, test.now)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	const tail = " 1 1 1 0 -1 %FLAGS 0 0 0 0 3 4 0 0 20 0 1 0 555 0 0\n"
	user, kernel := strings.ReplaceAll(tail, "%FLAGS", "4194304"), strings.ReplaceAll(tail, "%FLAGS", "2129984")
	s := tree(t, map[string]string{
		"/proc/10/stat": "10 (a) b) (c) D" + user, "/proc/10/wchan": "nfs_wait_bit_killable", "/proc/11/stat": "11 (kworker/0:1) D" + kernel,
		"/proc/12/stat": "12 (sh) S" + user, "/proc/13/stat": "13 (sh", "/proc/self/stat": "10 (x) D" + user,
		"/etc/passwd": "me:x:" + uid() + ":0::/:/bin/sh\n",
	})
	got := stuck(t.Context(), s, false, 1)
	if diff := cmp.Diff([]Process{{PID: 10, Name: "a) b) (c", User: "me", State: "D", Wait: "nfs_wait_bit_killable"}}, got); diff != "" {
		t.Error(diff)
	}
	if got := stuck(t.Context(), s, false, 0.1); got != nil {
		t.Errorf("got %v; want no look at a host without load", got)
	}
}

func uid() string { return users{}.name(os.Getuid()) }

func TestParseList(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []int
	}{
		{"ranges", "0-2,8\n", []int{0, 1, 2, 8}},
		{"empty", "", nil},
		{"broken", "x,3-1,4-,-5,7", []int{7}},
		{"endless", "0-999999999999", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parseList(test.text); !slices.Equal(got, test.want) {
				t.Errorf("got %v; want %v", got, test.want)
			}
		})
	}
}

func TestLibc(t *testing.T) {
	if got := scanVersion(strings.NewReader(strings.Repeat("x", 64<<10-10) + "stable release version 2.36.\nCopyright")); got != "2.36" {
		t.Errorf("got %q; want 2.36, also across two reads", got)
	}
	if got := scanVersion(strings.NewReader("")); got != "" {
		t.Errorf("got %q; want nothing", got)
	}
	s := tree(t, map[string]string{"/lib64/libc.so.6": "no library"})
	if got := libc(s); got != "glibc" {
		t.Errorf("got %q; want glibc without a version", got)
	}
	if got := libc(tree(t, map[string]string{"/lib/ld-musl-x86_64.so.1": ""})); got != "musl" {
		t.Errorf("got %q; want musl", got)
	}
}

func TestVersionsOfDrivers(t *testing.T) {
	for name, want := range map[string]string{"libibverbs.so.1.14.44.0": "44.0", "libibverbs.so.1.14.2410mlnx54.0": "2410mlnx54.0", "libibverbs.so.1": "", "libibverbs.so.1.1": ""} {
		if got := verbsVersion(name); got != want {
			t.Errorf("%s: got %q; want %q", name, got, want)
		}
	}
	if got := ofed(tree(t, map[string]string{"/sys/module/mlx5_core/version": "5.0-0\n"})); got != "" {
		t.Errorf("got %q; want nothing of the kernel's own driver", got)
	}
}

func TestLimits(t *testing.T) {
	if finite(1<<64-1) != -1 || finite(65536) != 65536 {
		t.Errorf("got %d and %d; want -1 and 65536", finite(1<<64-1), finite(65536))
	}
	s := hostSource()
	if n := threads(t.Context(), s, os.Getuid()); n < 2 {
		t.Errorf("got %d threads of this user; want those of this test at least", n)
	}
}

func FuzzStat(f *testing.F) {
	f.Add("10 (a) b) D 1 1 1 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 1 0 555 0 0")
	f.Fuzz(func(_ *testing.T, text string) {
		parseStat(text)
		parsePasswd(text)
		parseList(text)
		parseMeminfo(text)
		firstFloat(text)
	})
}

func TestMayLock(t *testing.T) {
	for name, row := range map[string]struct {
		status string
		want   bool
	}{
		"root":      {"Uid:\t0\nCapEff:\t000001ffffffffff\n", true},
		"container": {"CapEff:\t00000000a80425fb\n", false},
		"user":      {"CapEff:\t0000000000000000\n", false},
		"broken":    {"CapEff:\tx\n", false},
		"nothing":   {"", false},
	} {
		if got := mayLock(row.status); got != row.want {
			t.Errorf("%s: got %v; want %v", name, got, row.want)
		}
	}
}
