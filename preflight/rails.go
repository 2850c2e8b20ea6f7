package preflight

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/preflight/facts"
)

// Link layers, as sysfs writes them.
const (
	infiniBand = "InfiniBand"
	ethernet   = "Ethernet"
)

// rail is a port of an HCA. Its place among the rails of its host is what NCCL pairs it
// by with those of other hosts, whatever the HCA is called there.
type rail struct {
	hca  *facts.HCA
	port *facts.Port
}

// name is the HCA's, with the port if it has several.
func (r rail) name() string {
	if len(r.hca.Ports) == 1 {
		return r.hca.Name
	}
	return fmt.Sprintf("%s:%d", r.hca.Name, r.port.Num)
}

// active reports whether NCCL would use the port: it skips all others silently.
func (r rail) active() bool { return r.port.State == "ACTIVE" && r.port.Layer != "" }

// unusable reports whether the port is of a kind that NCCL has no use for without a
// plugin, such as EFA.
func unusable(p *facts.Port) bool {
	return p.Layer != infiniBand && p.Layer != ethernet && p.Layer != ""
}

// hasPorts reports whether h has HCAs with ports for NCCL.
func hasPorts(h *Host) bool {
	for _, d := range h.Facts.RDMA.Devices {
		for k := range d.Ports {
			if !unusable(&d.Ports[k]) {
				return true
			}
		}
	}
	return false
}

// speed is the port's rate for people: "400 Gb/s".
func (r rail) speed() string { return gbps(r.port.Rate) }

func gbps(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) + " Gb/s" }

// chosen lists the ports that NCCL_IB_HCA leaves, in any state, in the order of the PCI
// bus, which is NCCL's.
func chosen(h *Host) []rail {
	names := parseNCCLNames(h.Settings["NCCL_IB_HCA"])
	var all []rail
	for i := range h.Facts.RDMA.Devices {
		hca := &h.Facts.RDMA.Devices[i]
		for k := range hca.Ports {
			if !unusable(&hca.Ports[k]) && names.match(hca.Name, hca.Ports[k].Num) {
				all = append(all, rail{hca, &hca.Ports[k]})
			}
		}
	}
	return all
}

// inUse lists the ports that NCCL would use.
func inUse(h *Host) []rail {
	var up []rail
	for _, r := range chosen(h) {
		if r.active() {
			up = append(up, r)
		}
	}
	return up
}

// off reports whether the settings keep NCCL from RDMA.
func off(h *Host) bool {
	n, _ := strconv.ParseInt(strings.TrimSpace(h.Settings["NCCL_IB_DISABLE"]), 0, 64)
	return n != 0 || strings.EqualFold(h.Settings["NCCL_NET"], "Socket")
}

// fabric is the RDMA network as the checks of area "rdma" see it.
type fabric struct {
	*view
	hosts   []int           // whose HCAs are known, and would be used
	none    []int           // that have no HCA for NCCL
	off     []int           // whose HCAs the settings leave unused
	unknown []Finding       // of hosts whose HCAs are not known
	layer   string          // that carries the most; ports of the other are a matter of their own
	count   int             // ports of layer on most hosts, or on the host that has the most
	total   int             // the same of ports of any layer
	byHost  map[int][]rail  // of layer, in use
	up      map[string]bool // names of ports of layer that are active on a host that has count of them
}

// fabric collects what is compared; skip says why there is nothing.
func (v *view) fabric() (f fabric, skip string) {
	f = fabric{view: v, layer: infiniBand}
	known, unknown := v.split(v.reached, facts.ItemRDMA)
	f.unknown = unknown
	weight := map[string]float64{}
	for _, i := range known {
		h := &v.Hosts[i]
		switch {
		case !hasPorts(h):
			f.none = append(f.none, i)
			continue
		case off(h):
			f.off = append(f.off, i)
			continue
		}
		f.hosts = append(f.hosts, i)
		for _, r := range inUse(h) {
			weight[r.port.Layer] += max(r.port.Rate, 1)
		}
	}
	if weight[ethernet] > weight[infiniBand] {
		f.layer = ethernet
	}
	f.count = f.usual(func(all []rail) int { return len(onLayer(all, f.layer)) })
	f.total = f.usual(func(all []rail) int { return len(all) })
	f.byHost, f.up = map[int][]rail{}, map[string]bool{}
	for _, i := range f.hosts {
		f.byHost[i] = onLayer(inUse(&v.Hosts[i]), f.layer)
	}
	for _, i := range f.complete() {
		for _, r := range f.rails(i) {
			f.up[r.name()] = true
		}
	}
	switch {
	case len(f.hosts) > 0 || len(unknown) > 0:
		return f, ""
	case len(f.off) > 0:
		return f, "the settings keep NCCL from RDMA"
	}
	return f, "no host has an InfiniBand or RoCE device"
}

// usual is how many ports n counts on most hosts; without a majority the most that it
// counts on any.
func (f fabric) usual(n func([]rail) int) int {
	counts, highest := map[int]int{}, 0
	for _, i := range f.hosts {
		k := n(inUse(&f.Hosts[i]))
		counts[k]++
		highest = max(highest, k)
	}
	if k, ok := most(counts); ok {
		return k
	}
	return highest
}

// rails lists the ports of host i that NCCL would use and that are of the main layer.
func (f fabric) rails(i int) []rail { return f.byHost[i] }

// complete lists the hosts that have as many rails as most, so that the rails of one can
// be compared with those of another by their place.
func (f fabric) complete() []int {
	var hosts []int
	for _, i := range f.hosts {
		if f.count > 0 && len(f.rails(i)) == f.count {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// rdmaVerdict softens what keeps ranks from RDMA where nothing needs it: a job on one host,
// or without GPUs.
func (v *view) rdmaVerdict(verdict Verdict) Verdict {
	if (verdict == NoHost || verdict == NoCluster) && (len(v.Hosts) == 1 || !v.Job.GPU) {
		return Warn
	}
	return verdict
}

func onLayer(all []rail, layer string) []rail {
	var out []rail
	for _, r := range all {
		if r.port.Layer == layer {
			out = append(out, r)
		}
	}
	return out
}

// eachRail calls what for every rail of the main layer, host by host.
func (f fabric) eachRail(what func(host int, r rail)) {
	for _, i := range f.hosts {
		for _, r := range f.rails(i) {
			what(i, r)
		}
	}
}

// most returns the value that more than half of at least three have.
func most[T comparable](counts map[T]int) (value T, ok bool) {
	total := 0
	for _, n := range counts {
		total += n
	}
	for x, n := range counts {
		if total >= 3 && 2*n > total {
			return x, true
		}
	}
	return value, false
}
