package report

import (
	"fmt"
	"slices"
	"time"

	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// checks are some of each area, with what they say where all is well.
var checks = []preflight.Result{
	{ID: "ssh", Area: "hosts", Title: "every host can be reached", Text: "in 0.3 s"},
	{ID: "names", Area: "hosts", Title: "names mean the same on every host"},
	{ID: "clock", Area: "hosts", Title: "clocks agree", Text: "within 12 ms"},
	{ID: "interface", Area: "network", Title: "one network interface reaches every host", Text: "eth0 in 10.0.0.0/16; NCCL_SOCKET_IFNAME='=eth0' (exactly eth0) holds on all hosts"},
	{ID: "ports", Area: "network", Title: "hosts reach each other on ephemeral ports, both ways"},
	{ID: "mtu", Area: "network", Title: "packets of full size arrive", Text: "1500 bytes"},
	{ID: "hca-set", Area: "rdma", Title: "every host has the same HCAs", Text: "8 × MT4129"},
	{ID: "hca-port", Area: "rdma", Title: "every port is active", Text: "8 × 400 Gb/s InfiniBand"},
	{ID: "gid", Area: "rdma", Title: "every port has a RoCE v2 GID"},
	{ID: "gpu-count", Area: "gpu", Title: "every host has the same GPUs", Text: "8 × NVIDIA H100 80GB HBM3"},
	{ID: "xid", Area: "gpu", Title: "no GPU has told of an error since boot"},
	{ID: "gpu-free", Area: "gpu", Title: "nobody else uses the GPUs"},
	{ID: "nvlink", Area: "gpu", Title: "every NVLink runs", Text: "18 of each GPU"},
	{ID: "memlock", Area: "system", Title: "ranks may lock memory", Text: "unlimited"},
	{ID: "shm", Area: "system", Title: "/dev/shm has room", Text: "1.0 TiB free"},
	{ID: "program", Area: "software", Title: "every host runs the same program", Text: "./train, sha256 9f86d081884c"},
	{ID: "libnccl", Area: "software", Title: "every host has the same libnccl", Text: "2.21.5"},
	{ID: "latency", Area: "speed", Title: "no link is slow", Text: "median 21 µs"},
	{ID: "bandwidth", Area: "speed", Title: "no link is narrow", Text: "median 23 GB/s"},
}

var (
	oneBad = preflight.Finding{Check: "gpu-count", Title: "gpu02 has 7 GPUs, the others have 8", Verdict: preflight.NoHost, Hosts: []string{"gpu02"},
		Evidence: []string{"gpu02: 0000:9b:00.0 is not there", "gpu02: XID 79 of 0000:9b:00.0, 3 h 12 min ago: GPU has fallen off the bus"},
		Remedy:   "reboot gpu02 (needs root; stops other jobs on gpu02); if the GPU does not come back, have it replaced"}
	warning = preflight.Finding{Check: "program", Title: "/etc/nccl.conf sets variables on 2 hosts", Verdict: preflight.Warn, Hosts: []string{"gpu01", "gpu03"},
		Evidence: []string{"gpu01: NCCL_DEBUG=INFO", "gpu03: NCCL_DEBUG=INFO MY_API_TOKEN=hunter2"}, Remedy: "remove the lines, or pass the same with -x"}
	noGo = preflight.Finding{Check: "names", Title: "gpu00 and gpu01 both say they are host \"gpu\" with boot ID 5d0a7c1e: NCCL would take them for one", Verdict: preflight.NoCluster, Hosts: []string{"gpu00", "gpu01"},
		Remedy: "set different host names, or NCCL_HOSTID"}
	notKnown = preflight.Finding{Check: "xid", Title: "the kernel log cannot be read on 4 hosts, so errors of GPUs are not known", Verdict: preflight.Unknown, Hosts: hostNames(4), Evidence: []string{"dmesg: read kernel buffer failed: Operation not permitted"},
		Remedy: "sysctl kernel.dmesg_restrict=0 (needs root)"}
)

func hostNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("gpu%0*d", max(2, len(fmt.Sprint(n-1))), i))
	}
	return names
}

// page is a page of n hosts with 8 slots each, of which these things were found.
func page(n int, s preflight.Shape, strict bool, found ...preflight.Finding) Page {
	p := Page{
		Report:    preflight.Report{Mode: preflight.Full, Hosts: hostNames(n), Checks: slices.Clone(checks), Findings: found},
		Generated: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Took: 3200 * time.Millisecond, Version: "0.9.0",
		Command: []string{"gorun", "--preflight-only", "-hostfile", "hosts", "-x", "API_TOKEN=hunter2"},
	}
	for i := range p.Report.Checks {
		judge(&p.Report.Checks[i], found)
	}
	s.Slots = slices.Repeat([]int{8}, n)
	p.Decision = preflight.Decide(p.Report, s, strict)
	next := 0
	for i, host := range p.Decision.Use {
		place := Place{Host: host}
		for range p.Decision.Slots[i] {
			place.Ranks = append(place.Ranks, next)
			next++
		}
		p.Layout = append(p.Layout, place)
	}
	return p
}

// judge gives a check the verdict of what it has found.
func judge(c *preflight.Result, found []preflight.Finding) {
	c.Verdict = preflight.OK
	if c.ID == "gid" {
		c.Verdict, c.Text = preflight.Skipped, "there is no RoCE"
	}
	order := []preflight.Verdict{preflight.NoCluster, preflight.NoHost, preflight.Warn, preflight.Unknown, preflight.Info}
	for _, f := range found {
		if f.Check != c.ID {
			continue
		}
		if c.Verdict == preflight.OK || slices.Index(order, f.Verdict) < slices.Index(order, c.Verdict) {
			c.Verdict = f.Verdict
		}
		c.Text, c.Hosts = "", map[string]preflight.Verdict{}
		for _, host := range f.Hosts {
			c.Hosts[host] = f.Verdict
		}
	}
}

// full adds to p what only Full has, and the hosts' facts.
func full(p Page) Page {
	n := len(p.Report.Hosts)
	for i, name := range p.Report.Hosts {
		h := factstest.H100(name, i)
		if slices.Contains(p.Decision.Exclude, name) {
			h.GPU.Devices = slices.Delete(h.GPU.Devices, 5, 6)
			h.GPU.Devices[2].NVActive = 17
			h.RDMA.Devices[3].Ports[0].State, h.RDMA.Devices[3].Ports[0].Phys = "DOWN", "Polling"
		}
		if i == n-1 {
			h.GPU, h.PCI, h.RDMA = facts.GPU{}, facts.PCI{}, facts.RDMA{}
		}
		p.Hosts = append(p.Hosts, h)
	}
	for y := range n {
		lat, bw := make([]float64, n), make([]float64, n)
		for x := range n {
			if x == y {
				continue
			}
			slow := 1 + float64((x*7+y*13)%10)/40 // what measurements differ by
			if x/32 != y/32 {
				slow *= 1.5 // another rack
			}
			if x == 1 || y == 1 {
				slow *= 4
			}
			lat[x], bw[x] = 21e-6*slow, 23e9/slow
		}
		p.Latency, p.Bandwidth = append(p.Latency, lat), append(p.Bandwidth, bw)
	}
	if n > 3 {
		p.Latency[0][3], p.Bandwidth[0][3] = 0, 0
	}
	return p
}

// pages are those that golden files exist of.
func pages() map[string]Page {
	many := []preflight.Finding{
		{Check: "ssh", Title: "gpu200 cannot be reached", Verdict: preflight.NoHost, Hosts: []string{"gpu200"}, Evidence: []string{"ssh: connect to host gpu200 port 22: No route to host"}, Remedy: "ssh -o BatchMode=yes gpu200 true"},
		{Check: "shm", Title: "/dev/shm is too small on 40 hosts", Verdict: preflight.NoHost, Hosts: hostNames(256)[100:140], Remedy: "mount -o remount,size=64G /dev/shm (needs root)"},
		{Check: "memlock", Title: "ranks may lock 64 KiB only on 12 hosts", Verdict: preflight.Warn, Hosts: hostNames(256)[3:15], Remedy: "set LimitMEMLOCK=infinity for sshd"},
	}
	for i := range 40 {
		many[1].Evidence = append(many[1].Evidence, fmt.Sprintf("gpu%d: 64 MiB", 100+i))
	}
	return map[string]Page{
		"healthy":         page(16, preflight.Shape{}, false),
		"one-bad":         page(4, preflight.Shape{Drop: true}, false, oneBad, warning),
		"one-bad-refused": page(4, preflight.Shape{}, false, oneBad),
		"no-go":           page(4, preflight.Shape{}, false, noGo, warning),
		"spare":           page(5, preflight.Shape{Spares: 1}, false, oneBad),
		"unknown":         page(4, preflight.Shape{}, false, notKnown),
		"unknown-strict":  page(4, preflight.Shape{}, true, notKnown),
		"many":            page(256, preflight.Shape{Drop: true, Multiple: 64}, false, many...),
	}
}
