package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/topo"
)

// matrix reads what nvidia-smi topo -m printed; nil for nothing. Equal texts, as most
// hosts have, are read once.
func (v *view) matrix(text string) (*topo.Matrix, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if got, ok := v.matrices[text]; ok {
		return got.matrix, got.err
	}
	m, err := topo.ParseMatrix(text)
	got := parsed{&m, err}
	if err != nil {
		got.matrix = nil
	}
	v.matrices[text] = got
	return got.matrix, got.err
}

type parsed struct {
	matrix *topo.Matrix
	err    error
}

const explainDomain = `On GB200 and later, NVLink reaches from host to host inside a rack: the GPUs tell the domain (cluster UUID) and the part of it (clique) that they are in. ` +
	`All GPUs of one host must be in the same; else it is excluded, for NCCL then takes none of it for one domain. ` +
	`A single host that is in another domain than the majority is a warning, as is one that has no IMEX channel the job's user can open (/dev/nvidia-caps-imex-channels): its ranks reach the others by the network only. ` +
	`Several domains with two hosts or more each are racks, and only mentioned. ` +
	`Ask nvidia-imex-ctl -H -N, and make the channel: nvidia-modprobe -i 0.`

func checkDomain(v *view) (found []Finding, good, skip string) {
	all, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	if !slices.ContainsFunc(all, func(i int) bool { return multiHost(&v.Hosts[i].Facts) }) {
		if len(found) > 0 {
			return found, "", ""
		}
		return nil, "", "no host is in a multi-host NVLink domain"
	}
	t := v.tally()
	var whole []int
	for _, i := range all {
		h := &v.Hosts[i]
		if domains := domainsOf(h); strings.Contains(domains, " + ") {
			t.add(i, fault{verdict: v.exclude(), what: "has GPUs in several NVLink domains", evidence: []string{domains}, remedy: "on HOST: nvidia-smi -q | grep -A 4 Fabric; then reboot (needs root; stops other jobs on HOST)"})
			continue
		}
		whole = append(whole, i)
		if multiHost(&h.Facts) && len(h.Facts.GPU.IMEX) == 0 {
			t.add(i, fault{verdict: Warn, what: "has no IMEX channel that the job's user can open", remedy: "on HOST: nvidia-modprobe -i 0; systemctl status nvidia-imex (needs root)"})
		}
	}
	found = append(t.findings(), found...)
	groups := v.groups(whole, domainsOf)
	single := slices.ContainsFunc(groups, func(g group) bool { return len(g.hosts) == 1 })
	switch {
	case len(groups) < 2:
	case single || slices.ContainsFunc(groups, func(g group) bool { return g.value == noDomain }):
		found = append(found, v.odd(whole, contrast{of: domainsOf, verb: "is in", subject: "their NVLink domain", blame: Warn, differ: Warn, remedy: "on HOST: nvidia-smi -q | grep -A 4 Fabric; nvidia-imex-ctl -H -N"})...)
	default:
		found = append(found, v.finding(Info, whole, fmt.Sprintf("hosts are in %d NVLink domains", len(groups)), "", v.compared(groups)))
	}
	return found, fmt.Sprintf("%s in one NVLink domain", count(len(whole), "host")), ""
}

const noDomain = "no NVLink domain"

// domainsOf names the domains that a host's GPUs are in.
func domainsOf(h *Host) string {
	return kindsOf(h, func(d *facts.Device) string {
		if !inDomain(d) {
			return noDomain
		}
		return "NVLink domain " + d.FabricCluster + " clique " + d.FabricClique
	})
}

func inDomain(d *facts.Device) bool {
	return said(d.FabricCluster) && strings.Trim(d.FabricCluster, "0-") != ""
}

// multiHost reports whether a host's NVLinks reach other hosts.
func multiHost(h *facts.Host) bool {
	return slices.ContainsFunc(h.GPU.Devices, func(d facts.Device) bool { return inDomain(&d) })
}

const explainTopology = `What connects each GPU with each other GPU and with each RDMA NIC (NVLink, PCIe switch, host bridge, link between CPUs), and the NUMA node of each, is compared between hosts that have the same GPUs, with devices in PCI order. ` +
	`It is read from nvidia-smi topo -m and, independently, from the PCI tree. ` +
	`A host that differs from the majority runs slower, or by other NICs, with settings that suit the others; it is a warning that tells the first difference. ` +
	`Typical causes are a card in another slot, another BIOS setting, and a device that is missing. ` +
	`With two hosts, or without a majority, nobody is blamed.`

func checkTopology(v *view) (found []Finding, good, skip string) {
	all, found, skip := v.withGPUs(facts.ItemPCI, facts.ItemRDMA)
	if skip != "" {
		return found, "", skip
	}
	views := map[int]*topo.View{}
	prints := map[*Host]string{}
	t := v.tally()
	var hosts []int
	for _, i := range all {
		m, err := v.matrix(v.Hosts[i].Facts.GPU.Topo)
		if err != nil {
			t.add(i, unknownFault(facts.ItemGPUTopo, err.Error()))
			continue
		}
		if reason, ok := v.Hosts[i].Facts.Unknown[facts.ItemGPUTopo]; ok {
			t.add(i, unknownFault(facts.ItemGPUTopo, reason))
			continue
		}
		views[i] = topology(&v.Hosts[i].Facts, m)
		prints[&v.Hosts[i]] = views[i].Fingerprint()
		hosts = append(hosts, i)
	}
	found = append(found, t.findings()...)
	// That hosts have other GPUs, or another number of them, is said by other checks.
	for _, same := range v.groups(hosts, func(h *Host) string { return gpusOf(&h.Facts) }) {
		if groups := v.groups(same.hosts, func(h *Host) string { return prints[h] }); len(groups) > 1 {
			found = append(found, v.topologyDiffers(groups, views)...)
		}
	}
	return found, "connected alike on " + count(len(hosts), "host"), ""
}

func (v *view) topologyDiffers(groups []group, views map[int]*topo.View) []Finding {
	const remedy = "on HOST: nvidia-smi topo -m, and compare with another host"
	first := v.Hosts[groups[0].hosts[0]].Name
	explain := func(i int) string {
		return strings.ReplaceAll(views[i].Explain(views[groups[0].hosts[0]]), "the other host", first)
	}
	if !majority(groups) {
		var all []int
		var n notes
		for k, g := range groups {
			all = append(all, g.hosts...)
			text := "connected alike"
			if k > 0 {
				text = explain(g.hosts[0])
			}
			for _, i := range g.hosts {
				n.add(i, text)
			}
		}
		slices.Sort(all)
		return []Finding{v.finding(Warn, all, "hosts differ in how GPUs and NICs are connected", remedy, n.lines(v))}
	}
	t := v.tally()
	for _, g := range groups[1:] {
		why := explain(g.hosts[0])
		for _, i := range g.hosts {
			t.add(i, fault{verdict: Warn, what: "has GPUs and NICs connected otherwise than most hosts", evidence: []string{why}, remedy: remedy})
		}
	}
	return t.findings()
}

// topology is what connects a host's GPUs and NICs.
func topology(h *facts.Host, m *topo.Matrix) *topo.View {
	gpus := make([]topo.GPU, 0, len(h.GPU.Devices))
	for _, d := range h.GPU.Devices {
		gpus = append(gpus, topo.GPU{
			Index: d.Index, UUID: d.UUID, Device: topo.Device{BDF: d.BDF, Path: d.Path, NUMA: d.NUMA}, MIG: d.MIG == "Enabled",
			FabricCluster: d.FabricCluster, FabricClique: d.FabricClique,
		})
	}
	nics := make([]topo.NIC, 0, len(h.RDMA.Devices))
	for _, a := range h.RDMA.Devices {
		n := topo.NIC{Name: a.Name, Device: topo.Device{BDF: a.BDF, Path: a.Path, NUMA: a.NUMA}}
		for _, p := range a.Ports {
			n.Ports = append(n.Ports, topo.Port{Number: p.Num, Active: p.State == "ACTIVE", Layer: p.Layer, Rate: p.Rate})
		}
		nics = append(nics, n)
	}
	return topo.New(gpus, nics, m)
}

// Topology is what connects the GPUs and NICs of a host, as far as its facts tell. The error
// is that nvidia-smi's matrix cannot be read; what the PCI tree tells is returned with it.
func Topology(h *facts.Host) (*topo.View, error) {
	if strings.TrimSpace(h.GPU.Topo) == "" {
		return topology(h, nil), nil
	}
	m, err := topo.ParseMatrix(h.GPU.Topo)
	if err != nil {
		return topology(h, nil), err
	}
	return topology(h, &m), nil
}
