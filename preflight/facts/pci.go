package facts

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxPCI    = 4096 // devices that are told
	configLen = 4096 // of a device's configuration space
)

// collectPCI fills h.PCI: GPUs and NVSwitches of NVIDIA, HCAs and network cards, and the
// bridges above them. ACS can be read by root only.
func collectPCI(ctx context.Context, src *source, h *Host) error {
	if !src.exists("/sys/bus") {
		return errors.New("/sys is not mounted")
	}
	found := map[string]bool{}
	for _, d := range src.pciIdentities() {
		if !d.isGPU() && !d.isSwitch() && !d.isNetwork() {
			continue
		}
		found[d.BDF] = true
		for _, bridge := range bridgesAbove(src.devicePath(pciDir + d.BDF)) {
			found[bridge] = true
		}
	}
	var all []PCIDevice
	for bdf := range found {
		if ctx.Err() != nil {
			return fmt.Errorf("the PCI bus: %w", context.Cause(ctx))
		}
		if len(all) < maxPCI {
			all = append(all, src.pciDevice(bdf))
		}
	}
	slices.SortFunc(all, func(a, b PCIDevice) int { return cmp.Compare(a.BDF, b.BDF) })
	h.PCI.Devices = all
	h.PCI.IOMMU = src.iommu(all)
	return nil
}

// bridgesAbove lists the devices in a path below /sys/devices, but for the last.
func bridgesAbove(path string) []string {
	var out []string
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if bdf := parseBDF(part); bdf == part {
			out = append(out, bdf)
		}
	}
	return out
}

// pciDevice is what the kernel says of a device.
func (s *source) pciDevice(bdf string) PCIDevice {
	dir := pciDir + bdf
	d := PCIDevice{BDF: bdf, Path: s.devicePath(dir), NUMA: -1}
	if n, ok := s.number(dir + "/numa_node"); ok {
		d.NUMA = int(max(-1, n))
	}
	class, _ := s.number(dir + "/class")
	vendor, _ := s.number(dir + "/vendor")
	device, _ := s.number(dir + "/device")
	d.Class, d.Vendor, d.Device = uint32(class), uint16(vendor), uint16(device)
	d.Width, d.MaxWidth = s.linkWidth(dir+"/current_link_width"), s.linkWidth(dir+"/max_link_width")
	d.Speed, d.MaxSpeed = s.linkSpeed(dir+"/current_link_speed"), s.linkSpeed(dir+"/max_link_speed")
	if d.Class>>8 == 0x0604 {
		// Only that of bridges counts.
		config, _ := s.read(dir+"/config", configLen)
		d.ACS = parseACS(config)
	}
	return d
}

// linkWidth is a number of lanes; 0 if none is told. A device that has gone has 255 (the
// kernel's 0xff, of which it takes six bits: 63).
func (s *source) linkWidth(path string) int {
	n, err := strconv.Atoi(s.text(path))
	if err != nil || n < 0 || n > 32 {
		return 0
	}
	return n
}

// linkSpeed is as the kernel writes it, "16.0 GT/s PCIe"; "" if it does not know.
func (s *source) linkSpeed(path string) string {
	if text := brief(s.text(path)); !strings.HasPrefix(text, "Unknown") {
		return text
	}
	return ""
}

// Access Control Services, in a device's extended configuration space.
const (
	extendedStart = 0x100
	capabilityACS = 0x000d
	acsControl    = 6
	acsRedirect   = 1<<2 | 1<<3 // requests, and completions, of a peer go through the root
)

// parseACS reads a configuration space: "on" if traffic between peers is redirected,
// "off" if not, "" if that is not readable or the device has no such capability.
func parseACS(config []byte) string {
	config = config[:min(len(config), configLen)]
	// Each capability is four bytes at least, so a list that is longer is a loop.
	for at, n := extendedStart, 0; at >= extendedStart && at+acsControl+2 <= len(config) && n < configLen/4; n++ {
		header := binary.LittleEndian.Uint32(config[at:])
		if header == 0 || header == 0xffffffff {
			return ""
		}
		if header&0xffff == capabilityACS {
			if binary.LittleEndian.Uint16(config[at+acsControl:])&acsRedirect != 0 {
				return "on"
			}
			return "off"
		}
		at = int(header>>20) &^ 3
	}
	return ""
}

// iommu says whether devices' addresses are translated: by the groups of those given, or
// by those of all where these have none.
func (s *source) iommu(devices []PCIDevice) string {
	types := map[string]bool{}
	for _, d := range devices {
		group := pciDir + d.BDF + "/iommu_group"
		if d.Class>>8 != 0x0604 && s.exists(group) {
			types[s.text(group+"/type")] = true
		}
	}
	if len(types) == 0 {
		if len(s.list("/sys/kernel/iommu_groups"))+len(s.list("/sys/class/iommu")) == 0 {
			return "off"
		}
		types[""] = true
	}
	passthrough := strings.Contains(" "+s.text("/proc/cmdline")+" ", " iommu=pt ") || strings.Contains(s.text("/proc/cmdline"), "iommu.passthrough=1")
	for kind := range types {
		if kind != "identity" && (kind != "" || !passthrough) {
			return "on"
		}
	}
	return "passthrough"
}
