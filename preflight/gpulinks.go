package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/topo"
)

const explainNVLink = `The NVLinks of each GPU that are up are compared with those of the same GPU on the majority of hosts that have the same GPUs. ` +
	`Without a majority they are compared with what the model has (18 on H100, H200 and B200, 12 on A100, 6 on V100; SXM boards only) and one GPU at least has. ` +
	`A GPU on a board with fewer excludes the host: NCCL fails at the start, or all ranks go at the pace of that link. ` +
	`If all GPUs have fewer than the model, it is a warning, for then it may be meant so (virtual machines); so is a GPU with bridges of which only some NVLinks are up, or fewer than elsewhere. ` +
	`Hosts with one GPU are not judged. ` +
	`The numbers are those of nvidia-smi nvlink -s. ` +
	`Restart the fabric manager (systemctl restart nvidia-fabricmanager), then the host.`

// nvlinkModels are the NVLinks of GPUs that always have them, by what their name contains.
// Longer names come before those that they contain.
var nvlinkModels = []struct {
	name  string
	links int
}{{"H200 NVL", 0}, {"H100 80GB HBM3", 18}, {"NVIDIA H200", 18}, {"NVIDIA H20", 18}, {"B200", 18}, {"B300", 18}, {"A100-SXM", 12}, {"V100-SXM2", 6}, {"V100-SXM3", 6}}

// modelLinks is how many NVLinks GPUs of that name have; 0 if that is not known.
func modelLinks(name string) int {
	for _, m := range nvlinkModels {
		if strings.Contains(name, m.name) {
			return m.links
		}
	}
	return 0
}

func checkNVLink(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs(facts.ItemGPUNVLink)
	if skip != "" {
		return found, "", skip
	}
	t := v.tally()
	for _, same := range v.groups(hosts, namesOf) {
		links := v.groups(same.hosts, linksOf)
		var usual []facts.Device
		if majority(links) {
			usual = v.Hosts[links[0].hosts[0]].Facts.GPU.Devices
		}
		for _, i := range same.hosts {
			if len(v.Hosts[i].Facts.GPU.Devices) > 1 {
				v.addLinks(t, i, usual, v.mostLinks(same.hosts))
			}
		}
		if good == "" {
			good = linksUp(&v.Hosts[links[0].hosts[0]])
		}
	}
	return append(t.findings(), found...), good, ""
}

// namesOf has the names of a host's GPUs, in their order.
func namesOf(h *Host) string {
	var b strings.Builder
	for _, d := range h.Facts.GPU.Devices {
		fmt.Fprintf(&b, "%q\n", d.Name)
	}
	return b.String()
}

// linksOf has the NVLinks that are up on a host's GPUs, in their order.
func linksOf(h *Host) string {
	var b strings.Builder
	for _, d := range h.Facts.GPU.Devices {
		fmt.Fprintln(&b, d.NVActive)
	}
	return b.String()
}

func linksUp(h *Host) string {
	return kindsOf(h, func(d *facts.Device) string {
		if d.NVActive < 0 {
			return "unknown"
		}
		return strconv.Itoa(d.NVActive)
	}) + " NVLinks are up on each GPU"
}

// mostLinks is the highest number of NVLinks that are up on a GPU of hosts.
func (v *view) mostLinks(hosts []int) (n int) {
	for _, i := range hosts {
		for k := range v.Hosts[i].Facts.GPU.Devices {
			n = max(n, v.Hosts[i].Facts.GPU.Devices[k].NVActive)
		}
	}
	return n
}

// addLinks adds what is wrong with a host's NVLinks. usual are the GPUs of a host that is
// like the majority; nil: there is none. most is how many are up on any GPU: where all
// have fewer than their model, they may be meant so.
func (v *view) addLinks(t *tally, host int, usual []facts.Device, most int) {
	const restart = "on HOST: systemctl restart nvidia-fabricmanager; then reboot (needs root; stops other jobs on HOST)"
	wanted := func(d *facts.Device) int { return min(modelLinks(d.Name), most) }
	if usual != nil {
		at := map[int]int{}
		for k, d := range v.Hosts[host].Facts.GPU.Devices {
			at[d.Index] = usual[k].NVActive
		}
		wanted = func(d *facts.Device) int { return at[d.Index] }
	}
	down := func(board bool) func(d *facts.Device) string {
		return func(d *facts.Device) string {
			soldered := modelLinks(d.Name) > 0 || len(v.Hosts[host].Facts.GPU.Switches) > 0
			return when(d.NVActive >= 0 && d.NVActive < wanted(d) && soldered == board, linksDown(d, wanted(d)))
		}
	}
	v.addGPUs(t, host, gpuFault{fault{verdict: v.exclude(), what: "has GPUs with NVLinks that are down", remedy: restart}, down(true)})
	v.addGPUs(t, host, gpuFault{fault{verdict: Warn, what: "has GPUs with fewer NVLinks than those of most hosts", remedy: "on HOST: nvidia-smi nvlink -s; look at the NVLink bridges"}, down(false)})
	v.addGPUs(t, host, gpuFault{fault{verdict: Warn, what: "has GPUs with fewer NVLinks than their model has", remedy: "on HOST: nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager"}, func(d *facts.Device) string {
		less := d.NVActive >= wanted(d) && d.NVActive >= 0 && d.NVActive < modelLinks(d.Name)
		return when(less, fmt.Sprintf("%d NVLinks are up; %s has %d", d.NVActive, d.Name, modelLinks(d.Name)))
	}})
	v.addGPUs(t, host, gpuFault{fault{verdict: Warn, what: "has GPUs of which only some NVLinks are up", remedy: "on HOST: nvidia-smi nvlink -s; reseat the NVLink bridges"}, func(d *facts.Device) string {
		some := usual == nil && modelLinks(d.Name) == 0 && d.NVActive > 0 && len(d.NVDown) > 0
		return when(some, linksDown(d, d.NVLinks))
	}})
}

func linksDown(d *facts.Device, most int) string {
	text := fmt.Sprintf("%d of %d NVLinks are up", d.NVActive, max(most, d.NVLinks))
	if len(d.NVDown) > 0 {
		text += ", down: " + numbers(d.NVDown)
	}
	return text
}

const explainP2P = `On boards with NVSwitches, and on other SXM boards of A100 and later, every GPU reaches every other by the same number of NVLinks. ` +
	`nvidia-smi topo -m shows it as NV and a number; SYS or NODE instead means that the NVLinks are down, even if each link looks well by itself. ` +
	`Such a host is excluded: NCCL fails, or goes over PCIe at a tenth of the speed. ` +
	`Where the majority of hosts shows the same, or all of a few virtual machines, it is a warning. ` +
	`A matrix that cannot be read, or that cannot show NVLink, makes this unknown. ` +
	`Restart the fabric manager, then the host. ` +
	`Where NVLink connects two GPUs that the job uses, nvidia-smi topo -p2p r must say OK: else the host is excluded, for NCCL's init fails on such a pair, probably because of the hardware (a warning with NCCL_IGNORE_DISABLED_P2P=1 or NCCL_P2P_DISABLE=1). ` +
	`GPUs without NVLink often have no OK, so that is a warning only where those of most hosts like it have one; drivers without that option and GPUs divided by MIG are not judged by it.`

func checkP2P(v *view) (found []Finding, good, skip string) {
	all, found, skip := v.withGPUs(facts.ItemGPUTopo)
	if skip != "" {
		return found, "", skip
	}
	var hosts []int
	trouble := map[int]string{}
	t := v.tally()
	for _, i := range all {
		if !switched(&v.Hosts[i].Facts) {
			continue
		}
		text, unknown := v.p2pTrouble(i)
		if unknown != "" {
			t.add(i, unknownFault(facts.ItemGPUTopo, unknown))
			continue
		}
		hosts = append(hosts, i)
		trouble[i] = text
	}
	some := v.addAccess(t, all, trouble)
	if len(hosts) == 0 && len(found) == 0 && len(t.kept) == 0 {
		if some {
			return nil, "GPUs that NVLink connects may access each other's memory", ""
		}
		return nil, "", "no host has GPUs that are all connected by NVLink"
	}
	bad := 0
	for _, text := range trouble {
		if text != "" {
			bad++
		}
	}
	for _, i := range hosts {
		verdict := v.exclude()
		if len(hosts) >= 3 && 2*bad > len(hosts) || bad == len(hosts) && virtualMachine(v.Hosts[i].Facts.System.Virtual) {
			verdict = Warn
		}
		if trouble[i] != "" {
			t.add(i, fault{
				verdict: verdict, what: "has GPUs that do not reach each other by NVLink", evidence: []string{trouble[i]},
				remedy: "on HOST: systemctl restart nvidia-fabricmanager; then reboot (needs root; stops other jobs on HOST)",
			})
		}
	}
	return append(t.findings(), found...), "every GPU reaches every other of its host by NVLink", ""
}

// switched reports whether all GPUs of a host should be connected alike by NVLink.
func switched(h *facts.Host) bool {
	if len(h.GPU.Devices) < 2 {
		return false
	}
	for k := range h.GPU.Devices {
		if d := &h.GPU.Devices[k]; d.MIG == "Enabled" || len(h.GPU.Switches) == 0 && modelLinks(d.Name) < 12 {
			return false
		}
	}
	return true
}

// p2pTrouble tells which pairs of a host's GPUs are connected otherwise than most.
func (v *view) p2pTrouble(host int) (text, unknown string) {
	m, err := v.matrix(v.Hosts[host].Facts.GPU.Topo)
	switch {
	case err != nil:
		return "", err.Error()
	case m == nil:
		return "", "nvidia-smi topo -m printed nothing"
	case m.PCIOnly || !m.ShowsNVLink():
		return "", "the matrix of nvidia-smi topo cannot show NVLink"
	}
	links := map[topo.Link]int{}
	var best topo.Link
	for i := range m.GPUs {
		for j := range i {
			if l := m.Cells[i][j]; l.Kind == topo.NV {
				links[l]++
				if links[l] > links[best] {
					best = l
				}
			}
		}
	}
	var bad []string
	for i := range m.GPUs {
		for j := i + 1; j < m.GPUs; j++ {
			if l := m.Cells[i][j]; l != best || best.Kind != topo.NV {
				bad = append(bad, fmt.Sprintf("%s-%s %s", m.Columns[i], m.Columns[j], l))
			}
		}
	}
	if len(bad) == 0 {
		return "", ""
	}
	want := "NVLink"
	if best.Kind == topo.NV {
		want = best.String()
	}
	return fmt.Sprintf("nvidia-smi topo -m has no %s for %s: %s", want, count(len(bad), "pair"), strings.Join(bad[:min(len(bad), 6)], ", ")), ""
}

const explainFabric = `GPUs behind NVSwitches can use CUDA only after the fabric manager has set the NVLinks up: until then cuInit fails with "system not yet initialized". ` +
	`The state of each GPU's fabric is that of nvidia-smi -q, and must be "Completed" with status "Success". ` +
	`The service nvidia-fabricmanager must be installed and run on a host that has NVSwitches itself, in the driver's version; on GB200 and later it runs elsewhere, and in virtual machines without switches the hypervisor does it, so it is not asked for there, nor in containers. ` +
	`A host whose fabric is not set up is excluded; a manager that is missing although all GPUs say "Completed" is a warning.`

func checkFabric(v *view) (found []Finding, good, skip string) {
	hosts, found, skip := v.withGPUs()
	if skip != "" {
		return found, "", skip
	}
	t := v.tally()
	some := false
	for _, i := range hosts {
		h := &v.Hosts[i].Facts
		managed := len(h.GPU.Switches) > 0 && !multiHost(h)
		if managed && v.lacks(i, facts.ItemFabric) {
			t.add(i, unknownFault(facts.ItemFabric, h.Unknown[facts.ItemFabric]))
		} else if f, ok := v.managerFault(h); managed && ok {
			t.add(i, f)
		}
		v.addGPUs(t, i, gpuFault{fault{
			verdict: v.exclude(), what: "has GPUs whose NVLink fabric is not set up", remedy: "on HOST: systemctl restart nvidia-fabricmanager; then nvidia-smi -q | grep -A 4 Fabric (needs root; stops other jobs on HOST)",
		}, fabricTrouble})
		some = some || managed || slices.ContainsFunc(h.GPU.Devices, func(d facts.Device) bool { return said(d.FabricState) })
	}
	if !some && len(found) == 0 {
		return nil, "", "no host has an NVLink fabric"
	}
	return append(t.findings(), found...), "the fabric is set up on all GPUs", ""
}

// managerFault is what is wrong with the fabric manager. Where every GPU says that its
// fabric is set up, that is not in the way of a job; in a container the manager is the
// matter of the host below.
func (v *view) managerFault(h *facts.Host) (f fault, ok bool) {
	const needs = " (needs root; stops other jobs on HOST)"
	g, verdict := &h.GPU, v.exclude()
	if isSetUp(g.Devices) {
		verdict = Warn
	}
	switch {
	case container(h.System.Virtual) && !g.Fabric.Running:
	case !g.Fabric.Running && !g.Fabric.Installed:
		return fault{verdict: verdict, what: "has NVSwitches, but no fabric manager is installed", remedy: "on HOST: install nvidia-fabricmanager of driver version " + g.Driver + "; then systemctl enable --now nvidia-fabricmanager" + needs}, true
	case !g.Fabric.Running:
		return fault{verdict: verdict, what: "has a fabric manager that does not run", remedy: "on HOST: systemctl start nvidia-fabricmanager; journalctl -u nvidia-fabricmanager tells why it ended" + needs}, true
	case g.Fabric.Version != "" && g.Driver != "" && g.Fabric.Version != g.Driver:
		return fault{verdict: Warn, what: "has a fabric manager of another version than the driver", which: g.Fabric.Version + " with driver " + g.Driver, remedy: "on HOST: install nvidia-fabricmanager of version " + g.Driver + needs}, true
	}
	return fault{}, false
}

// isSetUp reports whether all GPUs say that their NVLink fabric is set up.
func isSetUp(all []facts.Device) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(d facts.Device) bool { return !strings.EqualFold(d.FabricState, "Completed") })
}

// said reports whether nvidia-smi has a value for a field.
func said(value string) bool {
	return value != "" && !strings.EqualFold(value, "N/A") && !strings.EqualFold(value, "Not Supported")
}

func fabricTrouble(d *facts.Device) string {
	switch {
	case said(d.FabricState) && !strings.EqualFold(d.FabricState, "Completed"):
		return "fabric state: " + d.FabricState
	case said(d.FabricStatus) && !strings.EqualFold(d.FabricStatus, "Success"):
		return "fabric status: " + d.FabricStatus
	}
	return ""
}
