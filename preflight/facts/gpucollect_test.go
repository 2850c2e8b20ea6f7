package facts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const openVersion = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)  Tue Mar  5 22:15:33 UTC 2024\nGCC version:  gcc version 12.3.0\n"

// gpuTree is a host with two GPUs, one of them with what a driver shows, and nvidia-smi.
func gpuTree(more map[string]string) map[string]string {
	files := map[string]string{
		"proc/driver/nvidia/version":                                 openVersion,
		"proc/driver/nvidia/gpus/0000:1b:00.0/information":           "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-12345678-aaaa-bbbb-cccc-0123456789ab\nVideo BIOS: \t 96.00.74.00.01\nDevice Minor: \t 0\n",
		"proc/driver/nvidia/gpus/0000:43:00.0/information":           "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nVideo BIOS: \t ??.??.??.??.??\nDevice Minor: \t 1\n",
		"usr/bin/nvidia-smi":                                         "#!/bin/sh\n",
		"etc/passwd":                                                 "root:x:0:0:root:/root:/bin/sh\n",
		"proc/4711/comm":                                             "python3.11\n",
		"dev/nvidia0":                                                "",
		"dev/nvidia1":                                                "",
		"dev/nvidiactl":                                              "",
		"dev/nvidia-caps-imex-channels/channel0":                     "",
		"sys/bus/pci/devices/0000:1b:00.0":                           "-> ../../../devices/pci0000:15/0000:15:01.0/0000:1b:00.0",
		"sys/bus/pci/devices/0000:43:00.0":                           "-> ../../../devices/pci0000:3d/0000:43:00.0",
		"sys/devices/pci0000:15/0000:15:01.0/class":                  "0x060400\n",
		"sys/devices/pci0000:3d/0000:43:00.0/class":                  "0x030200\n",
		"sys/devices/pci0000:3d/0000:43:00.0/vendor":                 "0x10de\n",
		"sys/devices/pci0000:3d/0000:43:00.0/numa_node":              "1\n",
		"sys/devices/pci0000:15/0000:15:01.0/vendor":                 "0x8086\n",
		"sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/":          "",
		"sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/class":     "0x030200\n",
		"sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/vendor":    "0x10de\n",
		"sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/numa_node": "0\n",
	}
	maps.Copy(files, more)
	return files
}

// answer makes src run programs that print out and end with err.
func answer(src *source, out string, err error) *[]string {
	var runs []string
	src.run = func(_ context.Context, name string, args ...string) ([]byte, error) {
		runs = append(runs, strings.Join(append([]string{name}, args...), " "))
		return []byte(out), err
	}
	return &runs
}

func TestGPUsLentToVirtualMachines(t *testing.T) {
	src := tree(t, gpuTree(map[string]string{"sys/devices/pci0000:3d/0000:43:00.0/driver": "-> ../../../bus/pci/drivers/vfio-pci"}))
	if got, want := src.lookNVIDIA().gpus, []string{"0000:1b:00.0"}; !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestCollectGPU(t *testing.T) {
	src := tree(t, gpuTree(nil))
	src.access = func(path string, _ uint32) error {
		if strings.HasSuffix(path, "nvidia1") || strings.HasSuffix(path, "nvidiactl") {
			return os.ErrPermission
		}
		return nil
	}
	out := strings.ReplaceAll(string(report(t, "h100-sxm-550.xml")), "00000000:52", "00000000:1b")
	runs := answer(src, out, nil)
	var h Host
	if err := collectGPU(t.Context(), src, &h); err != nil {
		t.Fatal(err)
	}
	g := h.GPU
	if want := []string{"/usr/bin/nvidia-smi -q -x"}; !slices.Equal(*runs, want) {
		t.Errorf("ran %q; want %q", *runs, want)
	}
	if g.Driver != "550.54.15" || !g.Open || g.CUDA != "12.4" || g.SMI != "/usr/bin/nvidia-smi" || g.SMIExit != 0 || len(g.Devices) != 8 {
		t.Errorf("got %+v", g)
	}
	if !slices.Equal(g.PCI, []string{"0000:1b:00.0", "0000:43:00.0"}) || g.Switches != nil {
		t.Errorf("PCI: got %v and %v", g.PCI, g.Switches)
	}
	if !slices.Equal(g.DevFiles, []int{0}) || !slices.Equal(g.Denied, []string{"/dev/nvidia1", "/dev/nvidiactl"}) {
		t.Errorf("files: got %v, denied %v", g.DevFiles, g.Denied)
	}
	if want := []string{"/dev/nvidia-caps-imex-channels/channel0"}; !slices.Equal(g.IMEX, want) {
		t.Errorf("IMEX: got %v; want %v", g.IMEX, want)
	}
	d := g.Devices[2]
	if d.NUMA != 0 || d.Path != "pci0000:15/0000:15:01.0/0000:1b:00.0" {
		t.Errorf("GPU 2: got %+v", d)
	}
	if d.Users[0].User != strings.TrimSpace(owner(t)) || d.Users[1].User != "" {
		t.Errorf("users: got %+v", d.Users)
	}
	if d := g.Devices[7]; d.NUMA != -1 || d.Path != "" {
		t.Errorf("a GPU that is not on the bus: got %+v", d)
	}
}

// owner is the name that the tests' own files have by the tree's /etc/passwd.
func owner(t *testing.T) string {
	t.Helper()
	if os.Getuid() == 0 {
		return "root"
	}
	return strconv.Itoa(os.Getuid())
}

func TestCollectGPUFailures(t *testing.T) {
	exit := func(code int, text string) error { return &exitError{"nvidia-smi", code, text} }
	lost := string(report(t, "h100-sxm-550-fallen.xml"))
	src := tree(t, gpuTree(nil))
	for _, test := range []struct {
		name, out string
		fail      error
		err       string
		exit      int
		text      string
		gpus      int
	}{
		{"driver-not-loaded", "", exit(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."), "", 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 0},
		{"no-devices", "No devices were found\n", exit(6, "No devices were found"), "", 6, "No devices were found", 0},
		{"no-permission", "", exit(4, ""), "nvidia-smi ended with code 4: this user has no permission", 4, "this user has no permission", 2},
		{"power-cable", "", exit(8, ""), "nvidia-smi ended with code 8: a GPU's power cables are not attached properly", 8, "a GPU's power cables are not attached properly", 2},
		{"interrupt", "", exit(10, ""), "nvidia-smi ended with code 10: the kernel found a problem with a GPU's interrupt", 10, "the kernel found a problem with a GPU's interrupt", 2},
		{"no-library", "", exit(12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."), "nvidia-smi ended with code 12: NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 2},
		{"versions-differ", "Failed to initialize NVML: Driver/library version mismatch\n", exit(18, "Failed to initialize NVML: Driver/library version mismatch"), "nvidia-smi ended with code 18: Failed to initialize NVML: Driver/library version mismatch", 18, "Failed to initialize NVML: Driver/library version mismatch", 2},
		{"info-rom", string(report(t, "h100-sxm-550-inforom.xml")), exit(14, "<?xml"), "", 14, "WARNING: infoROM is corrupted at gpu 0000:43:00.0", 2},
		{"fallen-off", lost, exit(15, "Unable"), "", 15, "Unable to determine the device handle for GPU4: 0000:9D:00.0: Unknown Error", 7},
		{"fallen-off-no-report", "", exit(15, "Unable to determine the device handle for GPU 0000:9D:00.0: GPU is lost."), "nvidia-smi ended with code 15: Unable to determine the device handle for GPU 0000:9D:00.0: GPU is lost.", 15, "Unable to determine the device handle for GPU 0000:9D:00.0: GPU is lost.", 2},
		{"crash", lost[:20000], exit(139, ""), "nvidia-smi was ended by segmentation fault", 139, "Unable to determine the device handle for GPU4: 0000:9D:00.0: Unknown Error", 2},
		{"breaks-off", lost[:20000], nil, "nvidia-smi's report: it breaks off", 0, "Unable to determine the device handle for GPU4: 0000:9D:00.0: Unknown Error", 2},
		{"not-started", "", errors.New("nvidia-smi: exec format error"), "nvidia-smi: exec format error", 0, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer(src, test.out, test.fail)
			var h Host
			err := collectGPU(t.Context(), src, &h)
			if got := fmt.Sprint(err); got != test.err && (err != nil || test.err != "") && !(test.name == "breaks-off" && err != nil) {
				t.Errorf("error: got %q; want %q", got, test.err)
			}
			if h.GPU.SMIExit != test.exit || h.GPU.SMIText != test.text {
				t.Errorf("got exit %d, text %q; want %d, %q", h.GPU.SMIExit, h.GPU.SMIText, test.exit, test.text)
			}
			if len(h.GPU.Devices) != test.gpus {
				t.Errorf("got %d GPUs; want %d", len(h.GPU.Devices), test.gpus)
			}
		})
	}
}

func TestCollectGPUFromProc(t *testing.T) {
	files := gpuTree(nil)
	delete(files, "usr/bin/nvidia-smi")
	src := tree(t, files)
	var h Host
	err := collectGPU(t.Context(), src, &h)
	if err == nil || err.Error() != "nvidia-smi is not installed" {
		t.Errorf("got %v; want that nvidia-smi is not installed", err)
	}
	d := h.GPU.Devices
	if len(d) != 2 || d[0].UUID != "GPU-12345678-aaaa-bbbb-cccc-0123456789ab" || d[0].Minor != 0 || d[0].MemTotal != -1 || d[1].Index != 1 || d[1].UUID != "" || d[1].Name != "" {
		t.Errorf("got %+v", d)
	}
}

func TestCollectGPUNothing(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no-gpu":          {"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n", "usr/bin/nvidia-smi": "#!", "etc/systemd/system/nvidia-fabricmanager.service": ""},
		"sound-of-nvidia": {"sys/bus/pci/devices/0000:00:02.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:00:02.1/class": "0x040300\n", "usr/bin/nvidia-smi": "#!"},
		"nothing-at-all":  {"proc/": ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := tree(t, files)
			var h Host
			for _, collect := range []func(context.Context, *source, *Host) error{collectGPU, collectTopo, collectNVLink, collectFabric} {
				if err := collect(t.Context(), src, &h); err != nil {
					t.Error(err)
				}
			}
			h.GPU.Visible = nil
			if fmt.Sprintf("%+v", h) != fmt.Sprintf("%+v", Host{}) {
				t.Errorf("got %+v", h)
			}
		})
	}
}

func TestCollectGPUWithoutDriver(t *testing.T) {
	src := tree(t, map[string]string{"sys/bus/pci/devices/0000:41:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:41:00.0/class": "0x030000\n"})
	var h Host
	for _, collect := range []func(context.Context, *source, *Host) error{collectGPU, collectTopo, collectNVLink} {
		if err := collect(t.Context(), src, &h); err != nil {
			t.Errorf("got %v; want that nothing is unknown", err)
		}
	}
	if h.GPU.Driver != "" || h.GPU.Devices != nil || len(h.GPU.PCI) != 1 {
		t.Errorf("got %+v", h.GPU)
	}
}

// A program that ignores signals and has children is ended, and what is in state D is
// looked for.
func TestCollectGPUHangs(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	files := gpuTree(map[string]string{
		"usr/bin/nvidia-smi":      "#!/bin/sh\ntrap '' TERM INT HUP\nsleep 60 &\necho $$ $! > " + pids + "\necho '<?xml version=\"1.0\" ?>'\nwait\nsleep 60\n",
		"proc/812/stat":           "812 (nvidia-smi) D 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 1 0 20000 0\n",
		"proc/812/wchan":          "rwsem_down_write_slowpath",
		"proc/813/stat":           "813 (pt main) (thread) S 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 2 0 20000 0\n",
		"proc/813/fd/7":           "-> /dev/nvidia3",
		"proc/813/task/813/stat":  "813 (pt main) (thread) S 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 2 0 20000 0\n",
		"proc/813/task/820/stat":  "820 (pt main) (thread) D 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 2 0 20000 0\n",
		"proc/813/task/820/wchan": "os_acquire_rwlock_write",
		"proc/814/stat":           "814 (dd) D 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 1 0 20000 0\n",
		"proc/815/stat":           "815 (nvidia-smi) Z 1 812 812 0 -1 4194560 0 0 0 0 3 4 0 0 20 0 1 0 20000 0\n",
		"proc/816/stat":           "816 (torn",
	})
	src := tree(t, files)
	src.run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		return runProgram(ctx, src.at(name), args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
	defer cancel()
	begin := time.Now()
	var h Host
	err := collectGPU(ctx, src, &h)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if err == nil || err.Error() != "nvidia-smi: no answer in 600ms" {
		t.Errorf("got %v; want no answer in 600ms", err)
	}
	if len(h.GPU.Devices) != 2 {
		t.Errorf("got %d GPUs; want the driver's 2", len(h.GPU.Devices))
	}
	me := owner(t)
	want := []Process{{812, "nvidia-smi", me, "D", "rwsem_down_write_slowpath"}, {813, "pt main) (thread", me, "D", "os_acquire_rwlock_write"}}
	if !slices.Equal(h.GPU.Hung, want) {
		t.Errorf("hung: got %+v; want %+v", h.GPU.Hung, want)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(pid)
		awaitGone(t, n)
	}
}

// An nvidia-smi that has never ended is told at once, and no other is started.
func TestCollectGPUHasHung(t *testing.T) {
	t.Parallel()
	const rest = " 1 812 812 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 "
	files := func(stat string) map[string]string {
		return gpuTree(map[string]string{"proc/uptime": "1000.51 3999.00\n", "proc/812/comm": "nvidia-smi\n", "proc/812/stat": stat})
	}
	src := tree(t, files("812 (nvidia-smi) D"+rest+"20000 0\n"))
	var h Host
	const want = "nvidia-smi, process 812, hangs in the driver; no other one was started"
	if err := collectGPU(t.Context(), src, &h); err == nil || err.Error() != want || len(h.GPU.Hung) != 1 || h.GPU.Hung[0].PID != 812 {
		t.Errorf("got %v, hung %+v; want %q", err, h.GPU.Hung, want)
	}
	for name, stat := range map[string]string{
		"started-just-now": "812 (nvidia-smi) D" + rest + "99000 0\n",
		"sleeps":           "812 (nvidia-smi) S" + rest + "20000 0\n",
		"torn":             "812 (nvidia-smi) D 1",
	} {
		t.Run(name, func(t *testing.T) {
			src := tree(t, files(stat))
			runs := answer(src, "", &exitError{"nvidia-smi", 9, ""})
			if err := collectTopo(t.Context(), src, &h); err != nil || len(*runs) != 1 {
				t.Errorf("got %v, runs %q; want one run", err, *runs)
			}
		})
	}
}

func TestCollectTopo(t *testing.T) {
	src := tree(t, gpuTree(nil))
	runs := answer(src, "\tGPU0\tCPU Affinity\nGPU0\t X \t0-47\xff\n", nil)
	var h Host
	if err := collectTopo(t.Context(), src, &h); err != nil {
		t.Fatal(err)
	}
	if want := "\tGPU0\tCPU Affinity\nGPU0\t X \t0-47\n"; h.GPU.Topo != want || (*runs)[0] != "/usr/bin/nvidia-smi topo -m" {
		t.Errorf("got %q from %q; want %q", h.GPU.Topo, *runs, want)
	}
	answer(src, "half", &exitError{"nvidia-smi", 255, "Unknown Error"})
	h = Host{}
	if err := collectTopo(t.Context(), src, &h); err == nil || h.GPU.Topo != "" {
		t.Errorf("got %q, %v; want an error and no matrix", h.GPU.Topo, err)
	}
}

func TestCollectP2P(t *testing.T) {
	const matrix = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"
	one := map[string]string{"sys/devices/pci0000:3d/0000:43:00.0/driver": "-> ../../../bus/pci/drivers/vfio-pci"}
	for _, row := range []struct {
		name string
		tree map[string]string
		fail error
		want string
		runs int
	}{
		{"two-gpus", nil, nil, matrix, 2},
		{"old-driver", nil, &exitError{"nvidia-smi", 2, "Invalid combination of input arguments."}, "", 2},
		{"one-gpu", one, nil, "", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			src := tree(t, gpuTree(row.tree))
			var runs []string
			src.run = func(_ context.Context, _ string, args ...string) ([]byte, error) {
				runs = append(runs, strings.Join(args, " "))
				if args[1] == "-p2p" {
					return []byte(matrix), row.fail
				}
				return []byte("\tGPU0\n"), nil
			}
			var h Host
			if err := collectTopo(t.Context(), src, &h); err != nil || h.GPU.Topo != "\tGPU0\n" {
				t.Errorf("got %q, %v; want the matrix", h.GPU.Topo, err)
			}
			if h.GPU.P2P != row.want || len(runs) != row.runs || row.runs == 2 && runs[1] != "topo -p2p r" {
				t.Errorf("got %q from %q; want %q from %d runs", h.GPU.P2P, runs, row.want, row.runs)
			}
		})
	}
}

func TestParseDriverVersion(t *testing.T) {
	for text, want := range map[string]string{
		openVersion: "550.54.15 true",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.223.02  Sat Oct  7 15:39:11 UTC 2023\nGCC version:  gcc version 9.4.0\n": "470.223.02 false",
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.124.06  Release Build":                                         "570.124.06 true",
		"":                   " false",
		"GCC version: 9.4.0": " false",
	} {
		version, open := parseDriverVersion(text)
		if got := fmt.Sprint(version, " ", open); got != want {
			t.Errorf("%q: got %q; want %q", text, got, want)
		}
	}
}

func TestConfined(t *testing.T) {
	for text, want := range map[string]bool{
		"0::/system.slice/slurmstepd.scope/job_123/step_extern/user/task_0\n": true,
		"5:devices:/slurm/uid_1000/job_7/step_0\n":                            true,
		"0::/user.slice/user-1000.slice/session-3.scope\n":                    false,
		"": false,
	} {
		if got := confined(text); got != want {
			t.Errorf("%q: got %v; want %v", text, got, want)
		}
	}
}
