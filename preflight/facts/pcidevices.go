package facts

import (
	"path"
	"strconv"
	"strings"
)

// pciDir is where the kernel lists PCI devices.
const pciDir = "/sys/bus/pci/devices/"

const nvidiaVendor = 0x10de

// isGPU reports whether d is a GPU of NVIDIA: a display controller.
func (d *PCIDevice) isGPU() bool { return d.Vendor == nvidiaVendor && d.Class>>16 == 0x03 }

// isSwitch reports whether d is an NVSwitch: a bridge of class "other" of NVIDIA.
func (d *PCIDevice) isSwitch() bool { return d.Vendor == nvidiaVendor && d.Class>>8 == 0x0680 }

// isNetwork reports whether d is a network card or an HCA.
func (d *PCIDevice) isNetwork() bool { return d.Class>>16 == 0x02 }

// readBus lists the devices on the bus, in order, by what they are alone.
func (s *source) readBus() []PCIDevice {
	var out []PCIDevice
	for _, bdf := range s.list(pciDir) {
		d := PCIDevice{BDF: strings.ToLower(bdf), NUMA: -1}
		class, _ := s.number(pciDir + bdf + "/class")
		vendor, _ := s.number(pciDir + bdf + "/vendor")
		d.Class, d.Vendor = uint32(class), uint16(vendor)
		out = append(out, d)
	}
	return out
}

// nvidia is what of NVIDIA is on this host, without asking its driver.
type nvidia struct {
	gpus     []string // BDFs
	switches []string
	driver   string // version of the one that is loaded
	open     bool   // it is the open kernel module
	procfs   bool   // /proc/driver/nvidia is there
	wsl      bool   // a GPU that Windows lends
}

// lookNVIDIA finds it out.
func (s *source) lookNVIDIA() nvidia {
	var n nvidia
	for _, d := range s.pciIdentities() {
		switch {
		case d.isGPU() && path.Base(s.link(pciDir+d.BDF+"/driver")) == "vfio-pci":
			// It is lent to a virtual machine.
		case d.isGPU():
			n.gpus = append(n.gpus, d.BDF)
		case d.isSwitch():
			n.switches = append(n.switches, d.BDF)
		}
	}
	n.procfs = s.exists("/proc/driver/nvidia")
	n.wsl = s.exists("/dev/dxg") && s.exists("/usr/lib/wsl/lib/nvidia-smi")
	n.driver, n.open = parseDriverVersion(s.text("/proc/driver/nvidia/version"))
	if n.driver == "" {
		n.driver = s.text("/sys/module/nvidia/version")
	}
	return n
}

// any reports whether there is anything.
func (n nvidia) any() bool { return len(n.gpus)+len(n.switches) > 0 || n.procfs || n.wsl }

// parseDriverVersion reads the first line of /proc/driver/nvidia/version:
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (...)
func parseDriverVersion(text string) (version string, open bool) {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "NVRM version:") {
		return "", false
	}
	for word := range strings.FieldsSeq(line) {
		major, rest, ok := strings.Cut(word, ".")
		if _, err := strconv.Atoi(major); ok && err == nil && rest != "" {
			return word, strings.Contains(line, "Open Kernel Module")
		}
	}
	return "", strings.Contains(line, "Open Kernel Module")
}

// parseBDF turns an address as NVIDIA's programs write it, "00000000:9B:00.0" or
// "PCI:0000:9b:00", into the kernel's "0000:9b:00.0"; "" if it is none.
func parseBDF(text string) string {
	text = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "pci:")
	domain, rest, ok := strings.Cut(text, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	slot, function, dotted := strings.Cut(rest, ".")
	if !dotted {
		function = "0"
	}
	d, err := strconv.ParseUint(domain, 16, 32)
	if !ok || !ok2 || err != nil || !isHex(bus, 2) || !isHex(slot, 2) || !isHex(function, 1) {
		return ""
	}
	digits := strconv.FormatUint(d, 16)
	// VMD and others have domains of more than four digits.
	return strings.Repeat("0", max(0, 4-len(digits))) + digits + ":" + bus + ":" + slot + "." + function
}

func isHex(text string, digits int) bool {
	_, err := strconv.ParseUint(text, 16, 32)
	return len(text) == digits && err == nil
}
