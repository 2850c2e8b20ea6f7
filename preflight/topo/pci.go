package topo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Device is a PCI device of a host as sysfs shows it.
type Device struct {
	BDF  string // its address, in any form that CanonicalBDF knows
	Path string // what /sys/bus/pci/devices/BDF points to, as in "/sys/devices/pci0000:40/0000:40:01.0"
	NUMA int    // numa_node; -1: the kernel does not know
	// Class, Vendor and Dev are the numbers of the files class, vendor and device, 0 if unknown.
	Class, Vendor, Dev uint32
}

// bdf is an address as numbers, for comparison in PCI order.
type bdf struct {
	domain       uint64
	bus, dev, fn uint64
}

// CanonicalBDF returns a PCI address as sysfs writes it, "0000:17:00.0", from that form, from
// nvidia-smi's "00000000:17:00.0", or from "17:00.0". It reports whether s is an address.
func CanonicalBDF(s string) (string, bool) {
	b, ok := parseBDF(s)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", b.domain, b.bus, b.dev, b.fn), true
}

func parseBDF(s string) (b bdf, ok bool) {
	addr, fn, ok := strings.Cut(s, ".")
	if !ok {
		return bdf{}, false
	}
	parts := strings.Split(addr, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return bdf{}, false
	}
	for _, f := range []struct {
		to         *uint64
		text       string
		chars, max int
	}{{&b.domain, parts[0], 8, 0xffffffff}, {&b.bus, parts[1], 2, 0xff}, {&b.dev, parts[2], 2, 0x1f}, {&b.fn, fn, 1, 7}} {
		n, err := strconv.ParseUint(f.text, 16, 64)
		if err != nil || len(f.text) > f.chars || n > uint64(f.max) {
			return bdf{}, false
		}
		*f.to = n
	}
	return b, true
}

func (b bdf) compare(c bdf) int {
	return cmp.Or(cmp.Compare(b.domain, c.domain), cmp.Compare(b.bus, c.bus), cmp.Compare(b.dev, c.dev), cmp.Compare(b.fn, c.fn))
}

// Distance says how a and b are connected by the PCI tree alone, in NVIDIA's classes: PIX and PXB
// below one root port, with one or more switches between, PHB below one host bridge, NODE below
// several of one NUMA node, SYS across NUMA nodes. NVLink is not in the tree. Two functions of one
// device are PIX to each other. A device without a path, as a virtual one has none, is Unknown to
// all others, and so are devices of different host bridges unless both NUMA nodes are known.
func Distance(a, b Device) Link { return placeOf(a).distance(placeOf(b)) }

// place is a Device taken apart, for a host has many pairs of few devices.
type place struct {
	addr  bdf
	known bool // addr is
	parts []string
	numa  int
}

func placeOf(d Device) place {
	p := place{parts: components(d.Path), numa: d.NUMA}
	p.addr, p.known = parseBDF(d.BDF)
	return p
}

func (p place) distance(q place) Link {
	if p.known && q.known && p.addr == q.addr {
		return Link{Kind: Self}
	}
	if len(p.parts) == 0 || len(q.parts) == 0 {
		return Link{Kind: Unknown}
	}
	n := 0
	for n < len(p.parts) && n < len(q.parts) && p.parts[n] == q.parts[n] {
		n++
	}
	switch {
	case n == len(p.parts) && n == len(q.parts):
		return Link{Kind: Self}
	case n > 0 && isBridge(p.parts[n-1]):
		return Link{Kind: belowBridge(p.parts[n:], q.parts[n:])}
	case n > 0 && strings.HasPrefix(p.parts[n-1], "pci"):
		return Link{Kind: PHB}
	case p.numa < 0 || q.numa < 0:
		return Link{Kind: Unknown}
	case p.numa == q.numa:
		return Link{Kind: NODE}
	}
	return Link{Kind: SYS}
}

// components returns the parts of a path below /sys/devices; none if it is not that of a PCI device.
func components(path string) []string {
	rest, ok := strings.CutPrefix(path, "/sys/devices/")
	if !ok {
		return nil
	}
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	// What is below a device, such as virtio0 or net/eth0, is the device.
	for len(parts) > 0 && !isBridge(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	return parts
}

func isBridge(part string) bool {
	_, ok := parseBDF(part)
	return ok && strings.Count(part, ":") == 2
}

// belowBridge classes two devices by what is between them and the bridge above both. Each switch
// is an upstream port and below it a downstream port: from its own, a device passes one more port.
func belowBridge(p, q []string) Kind {
	if bridges(p) > 1 || bridges(q) > 1 {
		return PXB
	}
	return PIX
}

func bridges(below []string) int {
	n := 0
	for _, part := range below {
		if isBridge(part) {
			n++
		}
	}
	return max(0, n-1) // the last is the device
}
