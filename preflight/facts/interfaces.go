package facts

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"strings"
)

const classNet = "/sys/class/net/"

// collectNet reads the IP network of this process's namespace, but for names.
func collectNet(ctx context.Context, s *source, h *Host) error {
	n := &h.Net
	n.PortRange = parsePortRange(s.text("/proc/sys/net/ipv4/ip_local_port_range"))
	n.Reserved = plain(s.text("/proc/sys/net/ipv4/ip_local_reserved_ports"), maxFile)
	n.Routes = routes(s)
	n.Firewall = firewall(s)
	answer, err := askKernel()
	if err != nil {
		return err
	}
	n.Interfaces, err = parseLinks(answer)
	for i := range n.Interfaces {
		describe(s, &n.Interfaces[i])
	}
	return cmp.Or(err, context.Cause(ctx))
}

// describe adds what only the device tree says.
func describe(s *source, n *Interface) {
	dir := classNet + n.Name
	if strings.Contains(n.Name, "/") || n.Kind == "loopback" {
		return
	}
	if n.Kind == "" || n.Kind == "infiniband" {
		device := s.real(dir + "/device")
		n.BDF = bdfOf(device)
		n.Driver = brief(path.Base(cmp.Or(s.link(dir+"/device/driver"), " ")))
		if n.Kind == "" {
			n.Kind = physical(device)
		}
	}
	if n.Kind == "physical" || n.Kind == "infiniband" || n.Kind == "bond" {
		// It is not to be read, or -1, while the link is down.
		if mbps, ok := s.number(dir + "/speed"); ok && mbps > 0 && mbps < 1<<31 {
			n.Speed = int(mbps)
		}
	}
}

// physical tells real devices and those of a virtual machine, which are on a bus, from
// others.
func physical(device string) string {
	if device == "" || strings.HasPrefix(device, "/sys/devices/virtual/") {
		return "virtual"
	}
	return "physical"
}

// bdfOf is the PCI device that a path in the device tree is of or below, such as a
// virtio device; "" if it is none.
func bdfOf(device string) string {
	pci := regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	for ; device != "/" && device != "." && device != ""; device = path.Dir(device) {
		if base := path.Base(device); pci.MatchString(base) {
			return base
		}
	}
	return ""
}

// firewall names one whose service is seen to be active: its rules are root's to read,
// but systemd leaves a link for each of its services.
func firewall(s *source) string {
	const running = "/run/systemd/units/invocation:"
	enabled := regexp.MustCompile(`(?m)^ENABLED=yes`)
	switch {
	case s.exists(running + "firewalld.service"):
		return "firewalld"
	case enabled.MatchString(s.text("/etc/ufw/ufw.conf")):
		return "ufw"
	case s.exists(running + "nftables.service"):
		return "nftables"
	case s.exists(running + "iptables.service"), s.exists(running + "netfilter-persistent.service"):
		return "iptables"
	}
	return ""
}
