package facts

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// fabricComm is the name of the fabric manager's process, cut as the kernel cuts names.
const fabricComm = "nv-fabricmanage"

// collectFabric fills h.GPU.Fabric: whether the fabric manager is installed and runs, from
// files and /proc. Its version is asked of the program itself.
func collectFabric(ctx context.Context, src *source, h *Host) error {
	if !src.lookNVIDIA().any() {
		return nil
	}
	f := &h.GPU.Fabric
	program := src.program("nv-fabricmanager")
	f.Installed = program != "" || src.unitFile("nvidia-fabricmanager.service")
	f.Running = slices.ContainsFunc(src.numbered("/proc", ""), func(pid int) bool {
		return src.comm(pid) == fabricComm
	})
	if program != "" {
		f.Version = src.fabricVersion(ctx, program)
	}
	if f.Installed && !f.Running && !src.exists("/proc/1") {
		return errors.New("this user may not see other users' processes (hidepid)")
	}
	return nil
}

// unitFile reports whether systemd has a unit, without asking it.
func (s *source) unitFile(name string) bool {
	return slices.ContainsFunc([]string{"/etc/systemd/system/", "/run/systemd/system/", "/usr/local/lib/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/"},
		func(dir string) bool { return s.exists(dir + name) })
}

// fabricVersion asks the fabric manager, which says "Fabric Manager version is : 550.54.15";
// "" if it does not.
func (s *source) fabricVersion(ctx context.Context, program string) string {
	ctx, cancel := within(ctx)
	defer cancel()
	out, err := s.run(ctx, program, "--version")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	_, version, _ := strings.Cut(line, ":")
	return brief(version)
}
