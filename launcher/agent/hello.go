package agent

import (
	"os"
	"strings"

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
		Interfaces: interfaces(), SSHServer: server, RouteAddr: routeAddr(client), OutAddr: outAddr(),
		Port: port,
	}
}

// Capacity counts what this host's slots are made of when nobody has said how many it
// has: the physical cores that this process may run on, and the GPUs.
func Capacity() (cores, gpus int) {
	return physicalCores(os.DirFS(systemDir), affinity()), countGPUs("/proc/driver/nvidia/gpus")
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
