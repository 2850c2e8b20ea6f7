package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	classRDMA  = "/sys/class/infiniband/"
	classVerbs = "/sys/class/infiniband_verbs"
	maxPorts   = 64 // of a device
)

// collectRDMA reads /sys/class/infiniband. Counters are read only in Full: each costs a
// command to the device, and one look at them says nothing, for they saturate.
func collectRDMA(o Order) func(context.Context, *source, *Host) error {
	return func(ctx context.Context, s *source, h *Host) error {
		r := &h.RDMA
		r.Modules = modules(s)
		r.PeerMem = peerMem(s, r.Modules)
		r.DMABuf = dmaBuf(s)
		r.Perftest = s.program("ib_write_bw")
		r.ABI = brief(s.text("/sys/class/infiniband_mad/abi_version"))
		uverbs := uverbsOf(s)
		for _, name := range s.list(classRDMA) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			r.Devices = append(r.Devices, hca(s, name, uverbs))
		}
		slices.SortFunc(r.Devices, comparePCI)
		if o.Full {
			return watchCounters(ctx, s, r.Devices, o.Growth, pause)
		}
		return nil
	}
}

// comparePCI has devices in the order of their PCI addresses, those without one last, as
// NCCL has them: by the last part of their paths, whatever bridges are above
// (ncclIbCompareDevs).
func comparePCI(a, b HCA) int {
	switch {
	case a.BDF != "" && b.BDF == "":
		return -1
	case a.BDF == "" && b.BDF != "":
		return 1
	}
	// A domain has four digits or more; all else is as wide everywhere.
	return cmp.Or(cmp.Compare(len(a.BDF), len(b.BDF)), cmp.Compare(a.BDF, b.BDF), compareNames(a.Name, b.Name))
}

// compareNames has mlx5_2 before mlx5_10.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")),
		cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// moduleNames are those of which checks want to know.
func moduleNames() []string {
	return []string{"mlx4_core", "mlx4_ib", "mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm",
		"rdma_rxe", "siw", "irdma", "bnxt_re", "hfi1", "qedr", "efa", "nvidia", "nvidia_peermem", "nv_peer_mem", "gdrdrv"}
}

func modules(s *source) map[string]string {
	out := map[string]string{}
	for _, name := range moduleNames() {
		if s.exists("/sys/module/" + name) {
			out[name] = brief(s.text("/sys/module/" + name + "/version"))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// peerMem looks where NCCL does for a module that lets HCAs reach the memory of GPUs.
func peerMem(s *source, loaded map[string]string) bool {
	_, a := loaded["nvidia_peermem"]
	_, b := loaded["nv_peer_mem"]
	const dir = "/sys/kernel/mm/memory_peers/"
	return a || b || s.exists(dir+"nv_mem/version") || s.exists(dir+"nv_mem_nc/version")
}

// dmaBuf says whether HCAs can reach the memory of GPUs without such a module: it takes
// the open GPU driver and a kernel of 5.12 or later.
func dmaBuf(s *source) string {
	driver := s.text("/proc/driver/nvidia/version")
	if driver == "" {
		return ""
	}
	if strings.Contains(driver, "Open Kernel Module") && kernelAtLeast(s.text("/proc/sys/kernel/osrelease"), 5, 12) {
		return "yes"
	}
	return "no"
}

func kernelAtLeast(release string, major, minor int) bool {
	a, rest, _ := strings.Cut(release, ".")
	b := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}

// uverbsOf returns the number of the uverbs file of each device.
func uverbsOf(s *source) map[string]int {
	out := map[string]int{}
	for _, n := range s.numbered(classVerbs, "uverbs") {
		if name := s.text(fmt.Sprintf("%s/uverbs%d/ibdev", classVerbs, n)); name != "" {
			out[name] = n
		}
	}
	return out
}

func hca(s *source, name string, uverbs map[string]int) HCA {
	dir := classRDMA + name
	d := HCA{Name: plain(name, 64), NUMA: -1}
	d.Firmware, d.Type, d.Board = brief(s.text(dir+"/fw_ver")), brief(s.text(dir+"/hca_type")), brief(s.text(dir+"/board_id"))
	d.GUID, d.ImageGUID = brief(s.text(dir+"/node_guid")), brief(s.text(dir+"/sys_image_guid"))
	d.Parent = brief(s.text(dir + "/parent"))
	if device := s.real(dir + "/device"); device != "" {
		d.Path = strings.TrimPrefix(device, "/sys/devices/")
		d.BDF = bdfOf(device)
		d.Virtual = s.exists(device+"/physfn") || virtualFunction(s.text(device+"/vendor"), s.text(device+"/device"))
		if n, ok := s.number(device + "/numa_node"); ok && n >= 0 && n < 1<<16 {
			d.NUMA = int(n)
		}
		d.Speed = s.linkSpeed(device + "/current_link_speed")
		d.Width, d.MaxWidth = s.linkWidth(device+"/current_link_width"), s.linkWidth(device+"/max_link_width")
	}
	d.Uverbs, d.Open = openUverbs(s, name, uverbs)
	ports := s.numbered(dir+"/ports", "")
	for _, n := range ports[:min(len(ports), maxPorts)] {
		d.Ports = append(d.Ports, port(s, dir, n, d.Parent))
	}
	return d
}

// virtualFunction reports whether a PCI device is a virtual function of a ConnectX by its
// identity: a virtual machine that has been given it sees no physical one above.
func virtualFunction(vendor, device string) bool {
	return vendor == "0x15b3" && slices.Contains([]string{
		"0x1002", "0x1004", // ConnectX-2 and 3
		"0x1012", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", // Connect-IB to ConnectX-6
		"0x101e", // those after it
	}, device)
}

// openUverbs opens a device as a program does that uses it, and closes it again: rights
// alone do not tell what a container's rules for devices allow.
func openUverbs(s *source, name string, uverbs map[string]int) (file, trouble string) {
	n, ok := uverbs[name]
	if !ok {
		return "", "there is no uverbs device: is ib_uverbs loaded?"
	}
	file = fmt.Sprintf("/dev/infiniband/uverbs%d", n)
	fd, err := unix.Open(s.at(file), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return file, reason(err)
	}
	unix.Close(fd)
	return file, ""
}
