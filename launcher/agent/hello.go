package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// hello describes this host. It reads a few files of /proc and /sys and forks
// nothing: all agents of a job do this before its first rank can be placed.
func hello(environ []string, port int) *wire.Hello {
	connection, _ := lookup(environ, "SSH_CONNECTION")
	client, server := sshAddrs(connection)
	cores, gpus := Capacity()
	return &wire.Hello{
		PID: os.Getpid(), UID: os.Getuid(),
		Hostname: nodename(), BootID: readLine("/proc/sys/kernel/random/boot_id"),
		Cores: cores, GPUs: gpus,
		Interfaces: interfaces(), SSHServer: server, RouteAddr: routeAddr(client),
		Port: port,
	}
}

// Capacity counts what this host's slots are made of when nobody has said how many it
// has: the physical cores that this process may run on, and the GPUs.
func Capacity() (cores, gpus int) {
	return physicalCores("/sys/devices/system/cpu", affinity()), countGPUs("/proc/driver/nvidia/gpus")
}

// lookup returns the value of name in a list of NAME=value, of the first if there
// are several, as getenv does.
func lookup(environ []string, name string) (value string, ok bool) {
	for _, v := range environ {
		if value, ok = strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func nodename() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Nodename[:])
}

// readLine returns a small file's text without blanks around it, "" without the file.
func readLine(path string) string {
	var buf [256]byte
	n, _ := readInto(path, buf[:])
	return strings.TrimSpace(string(buf[:n]))
}

// countGPUs counts the GPUs that the NVIDIA driver shows; in a container, those given to it.
func countGPUs(dir string) int {
	entries, _ := os.ReadDir(dir)
	return len(entries)
}

// affinity lists the CPUs that this process may run on.
func affinity() []int {
	var mask [1024]uint64 // package unix knows 1024 CPUs only, and Linux refuses a mask that is too short
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return nil
	}
	var out []int
	for i := range int(n) * 8 {
		if mask[i/64]>>(i%64)&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// physicalCores counts the cores behind cpus: hardware threads of one core count
// once. sys is the directory that has cpu0 and so on; a CPU it does not describe is
// a core of its own.
func physicalCores(sys string, cpus []int) int {
	known := map[int]bool{}
	cores := 0
	for _, c := range cpus {
		if known[c] {
			continue
		}
		cores++
		siblings, _ := parseList(readLine(fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", sys, c)))
		for _, s := range siblings {
			known[s] = true
		}
	}
	return max(cores, 1)
}

// maxList bounds what parseList expands.
const maxList = 1 << 16

// parseList reads the kernel's list format: "0-3,8".
func parseList(s string) ([]int, bool) {
	var out []int
	for item := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(item, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b >= maxList {
			return nil, false
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
		if len(out) > maxList {
			return nil, false
		}
	}
	return out, true
}
