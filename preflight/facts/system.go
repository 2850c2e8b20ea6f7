package facts

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

const maxCmdline = 4096 // bytes of the kernel's command line

// collectSystem reads what the host is as a whole.
func collectSystem(o Order) func(context.Context, *source, *Host) error {
	return func(ctx context.Context, s *source, h *Host) error {
		y := &h.System
		y.Hostname, y.Kernel = s.text("/proc/sys/kernel/hostname"), s.text("/proc/sys/kernel/osrelease")
		y.BootID = s.text("/proc/sys/kernel/random/boot_id")
		y.OS, y.Arch, y.Libc = osName(s), runtime.GOARCH, libc(s)
		y.Cmdline = plain(s.text("/proc/cmdline"), maxCmdline)
		y.Virtual = virtual(s)
		y.Uptime, y.Load = firstFloat(s.text("/proc/uptime")), firstFloat(s.text("/proc/loadavg"))
		y.CPUs, y.Cores = cpus(s)
		y.Memory, y.Available = parseMeminfo(s.text("/proc/meminfo"))
		y.NUMA = numaNodes(s)
		y.UID = unix.Getuid()
		y.User = cmp.Or(userNames(s)[y.UID], brief(os.Getenv("USER")), strconv.Itoa(y.UID))
		y.OFED, y.RDMACore = ofed(s), rdmaCore(s)
		y.CgroupMax, y.CgroupNow = pidsMax(s)
		y.Stuck = stuck(ctx, s, o.Full, y.Load)
		if y.Hostname == "" || y.Kernel == "" {
			return errors.New("/proc is not mounted or cannot be read")
		}
		return context.Cause(ctx)
	}
}

// osName is PRETTY_NAME of os-release.
func osName(s *source) string {
	text := cmp.Or(s.text("/etc/os-release"), s.text("/usr/lib/os-release"))
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return brief(strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return ""
}

func firstFloat(text string) float64 {
	first, _, _ := strings.Cut(text, " ")
	f, err := strconv.ParseFloat(first, 64)
	if err != nil || f < 0 || f > 1e12 {
		return 0
	}
	return f
}

// parseMeminfo returns bytes.
func parseMeminfo(text string) (total, available int64) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil || n < 0 || n > 1<<50 {
			continue
		}
		switch name {
		case "MemTotal":
			total = n << 10
		case "MemAvailable":
			available = n << 10
		}
	}
	return total, available
}

// cpus counts the logical CPUs of the machine, and the cores of which this process may
// use one at least.
func cpus(s *source) (logical, cores int) {
	const dir = "/sys/devices/system/cpu/"
	logical = len(parseList(s.text(dir + "online")))
	var may unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil {
		return cmp.Or(logical, runtime.NumCPU()), 0
	}
	seen := map[int]bool{}
	for cpu := range len(may) * 64 {
		if !may.IsSet(cpu) || seen[cpu] {
			continue
		}
		cores++
		for _, sibling := range parseList(s.text(dir + "cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list")) {
			seen[sibling] = true
		}
	}
	return cmp.Or(logical, runtime.NumCPU()), cores
}

// parseList reads a list as the kernel writes it: "0-3,8". What is wrong in it is left
// out.
func parseList(text string) (out []int) {
	const most = 1 << 14
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		a, b, isRange := strings.Cut(part, "-")
		first, err1 := strconv.Atoi(a)
		last, err2 := first, error(nil)
		if isRange {
			last, err2 = strconv.Atoi(b)
		}
		if err1 != nil || err2 != nil || first < 0 || last > most {
			continue
		}
		for n := first; n <= last && len(out) < most; n++ {
			out = append(out, n)
		}
	}
	return out
}

// numaNodes returns the nodes that have CPUs: memory of GPUs and of other devices makes
// nodes, too.
func numaNodes(s *source) (out []NUMA) {
	const dir = "/sys/devices/system/node"
	for _, id := range s.numbered(dir, "node") {
		if list := s.text(dir + "/node" + strconv.Itoa(id) + "/cpulist"); list != "" {
			out = append(out, NUMA{id, brief(list)})
		}
	}
	return out
}

// virtual names the container or hypervisor that is seen.
func virtual(s *source) string {
	var parts []string
	if c := container(s); c != "" {
		parts = append(parts, c)
	}
	if m := machine(s); m != "" {
		parts = append(parts, m)
	}
	return strings.Join(parts, " in ")
}

func container(s *source) string {
	cgroup := s.text("/proc/self/cgroup")
	switch {
	case strings.Contains(cgroup, "/kubepods"), s.exists("/var/run/secrets/kubernetes.io"):
		return "kubernetes"
	case strings.Contains(cgroup, "/docker"), s.exists("/.dockerenv"):
		return "docker"
	case strings.Contains(cgroup, "/libpod"), s.exists("/run/.containerenv"):
		return "podman"
	case strings.Contains(cgroup, "/lxc"):
		return "lxc"
	}
	return brief(s.text("/run/systemd/container"))
}

// machine says that this is a virtual machine: processors tell, on x86; elsewhere its
// maker's name does.
func machine(s *source) string {
	maker := brief(s.text("/sys/class/dmi/id/sys_vendor"))
	first, _ := s.read("/proc/cpuinfo", 4096)
	flags, _, _ := strings.Cut(afterLine(string(first), "flags"), "\n")
	known := maker == "QEMU" || strings.HasPrefix(maker, "VMware") || maker == "Xen"
	if !strings.Contains(flags+" ", " hypervisor ") && !known {
		return ""
	}
	if maker == "" {
		return "virtual machine"
	}
	return "virtual machine (" + maker + ")"
}

// afterLine is the text from the line on that begins with start.
func afterLine(text, start string) string {
	if strings.HasPrefix(text, start) {
		return text
	}
	_, after, _ := strings.Cut(text, "\n"+start)
	return after
}

// plain is at most max bytes of text, without what is not printable.
func plain(text string, max int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text[:min(len(text), max)])
}
