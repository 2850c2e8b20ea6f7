package facts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// collectGPU fills h.GPU from the PCI bus, /proc/driver/nvidia, /dev and nvidia-smi -q -x.
// Its error says why h.GPU.Devices may lack GPUs or what is known of them: the rest of
// h.GPU is known all the same. Without any GPU of NVIDIA no program is run.
func collectGPU(ctx context.Context, src *source, h *Host) error {
	g := &h.GPU
	if value, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		g.Visible = new(plain(value, 4096))
	}
	n := src.lookNVIDIA()
	if !n.any() {
		return nil
	}
	g.PCI, g.Switches, g.Driver, g.Open = n.gpus, n.switches, n.driver, n.open
	g.Confined = confined(src.text("/proc/self/cgroup"))
	src.devFiles(g)
	g.SMI = src.program("nvidia-smi")
	if g.SMI == "" {
		g.Devices = src.procDevices()
		if !n.procfs {
			return nil // no driver and no nvidia-smi: no GPU can be used, and that is known
		}
		return errors.New("nvidia-smi is not installed")
	}
	err := src.askSMI(ctx, g)
	if err != nil && len(g.Devices) == 0 {
		g.Devices = src.procDevices()
	}
	for i := range g.Devices {
		src.complete(&g.Devices[i])
	}
	return err
}

// confined reports whether a process whose /proc/PID/cgroup this is belongs to a job of a
// scheduler, which commonly hides the GPUs that the job did not ask for.
func confined(cgroup string) bool {
	return slices.ContainsFunc([]string{"slurm", "/pbs", "/lsf", "condor"}, func(word string) bool { return strings.Contains(cgroup, word) })
}

// askSMI runs nvidia-smi -q -x and takes what it says.
func (s *source) askSMI(ctx context.Context, g *GPU) error {
	if hung := s.hungSMI(ctx); hung != nil {
		g.Hung = s.hung()
		return errHangs(hung)
	}
	out, err := s.smi(ctx, "-q", "-x")
	log, parsed := parseSMI(out)
	g.Devices, g.CUDA, g.SMIText = log.devices, log.cuda, log.text
	if g.Driver == "" {
		g.Driver = log.driver
	}
	exit, ended := errors.AsType[*exitError](err)
	switch {
	case err == nil:
		return parsed
	case !ended:
		// It hangs, or could not be started.
		g.Hung = s.hung()
		return err
	}
	g.SMIExit, g.SMIText = exit.code, exit.text
	if log.text != "" {
		g.SMIText = log.text
	}
	if smiNothing(exit.code) || parsed == nil && len(log.devices) > 0 {
		// What it complains of is in SMIExit; the GPUs that it lists are known.
		return nil
	}
	return err
}

// devFiles says which of the driver's files this user may open. They are not opened: that
// may hang.
func (s *source) devFiles(g *GPU) {
	for _, n := range s.numbered("/dev", "nvidia") {
		path := "/dev/nvidia" + strconv.Itoa(n)
		if s.openable(path, unix.R_OK|unix.W_OK) == nil {
			g.DevFiles = append(g.DevFiles, n)
		} else {
			g.Denied = append(g.Denied, path)
		}
	}
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm"} {
		if s.exists(path) && s.openable(path, unix.R_OK|unix.W_OK) != nil {
			g.Denied = append(g.Denied, path)
		}
	}
	const channels = "/dev/nvidia-caps-imex-channels"
	for _, n := range s.numbered(channels, "channel") {
		path := channels + "/channel" + strconv.Itoa(n)
		if s.openable(path, unix.R_OK|unix.W_OK) == nil {
			g.IMEX = append(g.IMEX, path)
		}
	}
}

// complete adds to d what the kernel knows of it.
func (s *source) complete(d *Device) {
	if d.BDF != "" {
		dir := pciDir + d.BDF
		if n, ok := s.number(dir + "/numa_node"); ok {
			d.NUMA = int(n)
		}
		d.Path = s.devicePath(dir)
	}
	for i := range d.Users {
		u := &d.Users[i]
		u.User = s.owner(u.PID)
		if u.Name == "" {
			u.Name = s.comm(u.PID)
		}
	}
}

// devicePath is where a link in sysfs leads to, below /sys/devices.
func (s *source) devicePath(link string) string {
	path, ok := strings.CutPrefix(s.real(link), "/sys/devices/")
	if !ok {
		return ""
	}
	return path
}

// procDevices lists GPUs as the driver does in /proc, without asking it for more: by
// address, as nvidia-smi does.
func (s *source) procDevices() []Device {
	const dir = "/proc/driver/nvidia/gpus"
	var out []Device
	for _, name := range s.list(dir) {
		bdf := parseBDF(name)
		if bdf == "" || len(out) == maxGPUs {
			continue
		}
		d := newDevice()
		d.BDF, d.Index = bdf, len(out)
		for line := range strings.Lines(s.text(dir + "/" + name + "/information")) {
			key, value, _ := strings.Cut(line, ":")
			value = told(strings.TrimSpace(value))
			switch strings.TrimSpace(key) {
			case "Model":
				d.Name = value
			case "GPU UUID":
				d.UUID = knownUUID(value)
			case "Video BIOS":
				d.VBIOS = value
			case "Device Minor":
				d.Minor = int(amount(value))
			}
		}
		out = append(out, d)
	}
	return out
}

// knownUUID is a UUID, or "" as long as the driver has not asked the GPU for it: it then
// writes "GPU-????????-...".
func knownUUID(text string) string {
	if strings.Contains(text, "?") {
		return ""
	}
	return text
}

// collectTopo puts into h.GPU.Topo what nvidia-smi topo -m prints, and into h.GPU.P2P what
// its option -p2p r does, which older drivers lack: that it fails is no error.
func collectTopo(ctx context.Context, src *source, h *Host) error {
	out, err := src.ask(ctx, "topo", "-m")
	if err != nil {
		return err
	}
	h.GPU.Topo = strings.ToValidUTF8(string(out), "")
	if len(out) == 0 || len(src.lookNVIDIA().gpus) < 2 {
		return nil
	}
	if out, err = src.ask(ctx, "topo", "-p2p", "r"); err == nil {
		h.GPU.P2P = strings.ToValidUTF8(string(out), "")
	}
	return nil
}

// ask runs nvidia-smi for what collectGPU does not ask; where there is no GPU that can be
// used, or no nvidia-smi, it returns nothing: collectGPU says so.
func (s *source) ask(ctx context.Context, args ...string) ([]byte, error) {
	n := s.lookNVIDIA()
	if !n.any() || s.program("nvidia-smi") == "" {
		return nil, nil
	}
	if hung := s.hungSMI(ctx); hung != nil {
		return nil, errHangs(hung)
	}
	out, err := s.smi(ctx, args...)
	if exit, ok := errors.AsType[*exitError](err); ok && smiNothing(exit.code) {
		return nil, nil
	}
	return out, err
}

// errHangs says that an earlier nvidia-smi has never ended. Another one would hang beside
// it, and could not be killed either.
func errHangs(hung []Process) error {
	return fmt.Errorf("nvidia-smi, process %d, hangs in the driver; no other one was started", hung[0].PID)
}
