package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainAddress = `Two hosts with one IP address in one network answer in turn, so that connections go to the wrong host or break. ` +
	`The addresses of all interfaces that lead to other hosts are compared; loopback, link-local addresses, container bridges and the like are the same everywhere, which is normal. ` +
	`If the address is one that ranks use, the job cannot run, and both hosts are named, as nobody knows who is right. ` +
	`Other addresses that two hosts share are a warning, unless most hosts have it: then it is of a network inside of each host (to its BMC or DPU). ` +
	`Hosts that are one machine by their boot ID are the matter of host-identity.`

func checkAddress(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	hosts, unknown := v.split(v.reached, facts.ItemNet)
	have, order := map[string][]int{}, []string(nil)
	for _, i := range hosts {
		for _, a := range addrsOut(&v.Hosts[i]) {
			if have[a] == nil {
				order = append(order, a)
			}
			if n := len(have[a]); n == 0 || have[a][n-1] != i {
				have[a] = append(have[a], i)
			}
		}
	}
	found = unknown
	for _, a := range order {
		if same := v.different(have[a]); len(same) > 1 {
			found = append(found, v.addressTwice(a, same, len(hosts))...)
		}
	}
	return found, fmt.Sprintf("%d addresses, all different", len(order)), ""
}

// addrsOut lists the addresses of h that are of networks with other hosts, and that which
// ranks use.
func addrsOut(h *Host) []string {
	var all []string
	if h.Facts.Addr != "" && !isLoopback(h.Facts.Addr) {
		all = append(all, h.Facts.Addr)
	}
	for k := range h.Facts.Net.Interfaces {
		i := &h.Facts.Net.Interfaces[k]
		if inside(h, i) {
			continue
		}
		for _, p := range globalAddrs(i) {
			if a := p.Addr().String(); a != h.Facts.Addr {
				all = append(all, a)
			}
		}
	}
	return all
}

// different leaves out hosts that are the same machine as one before.
func (v *view) different(hosts []int) []int {
	if len(hosts) < 2 {
		return hosts
	}
	var out []int
	boots := map[string]bool{}
	for _, i := range hosts {
		boot := v.Hosts[i].Facts.System.BootID
		if boot == "" || !boots[boot] {
			out = append(out, i)
		}
		boots[boot] = true
	}
	return out
}

func (v *view) addressTwice(addr string, hosts []int, of int) []Finding {
	verdict, remedy := Warn, "give each of HOST an address of its own"
	var n notes
	for _, i := range hosts {
		h := &v.Hosts[i]
		if h.Facts.Addr == addr {
			verdict = NoCluster
		}
		n.add(i, ifaceOf(h, addr)+", boot ID "+clip(h.Facts.System.BootID, 12))
	}
	if verdict == Warn && of >= 3 && 2*len(hosts) > of {
		return nil
	}
	if verdict == NoCluster {
		remedy += v.orWithout(hosts)
	}
	return []Finding{v.finding(verdict, hosts, fmt.Sprintf("%s have one address, %s", v.fold(hosts), addr), remedy, n.lines(v))}
}

// ifaceOf names the interface and hardware address behind an address of h.
func ifaceOf(h *Host, addr string) string {
	for k := range h.Facts.Net.Interfaces {
		if i := &h.Facts.Net.Interfaces[k]; hasAddr(i, addr) {
			return phrase(i.Name, i.MAC)
		}
	}
	return "no interface has it"
}

const explainMAC = `Virtual machines that were copied can have one hardware (MAC) address; in one network switches then send packets of one to the other, by turns. ` +
	`The interfaces by which ranks meet are compared, not those of networks inside of hosts, whose addresses are often the same by design. ` +
	`It is a warning, as the hosts may be in different networks. ` +
	`Give the virtual machine a new address in its definition, and remove copies of it from its network configuration.`

func checkMAC(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	hosts, unknown := v.split(v.reached, facts.ItemNet)
	have, order := map[string][]int{}, []string(nil)
	for i, iface := range v.rankInterfaces(hosts) {
		if mac := strings.ToLower(iface.MAC); strings.Trim(mac, "0:") != "" {
			have[mac] = append(have[mac], i)
		}
	}
	for mac := range have {
		slices.Sort(have[mac])
		order = append(order, mac)
	}
	slices.Sort(order)
	found = unknown
	for _, mac := range order {
		if same := v.different(have[mac]); len(same) > 1 {
			found = append(found, v.finding(Warn, same, fmt.Sprintf("%s have one hardware address, %s", v.fold(same), mac), "give each of HOST a hardware address of its own", nil))
		}
	}
	return found, "hardware addresses are all different", ""
}

// rankInterfaces is, of each host, the interface by which its ranks meet the others.
func (v *view) rankInterfaces(hosts []int) map[int]*facts.Interface {
	m := v.meet(hosts)
	on := map[int]*facts.Interface{}
	for _, i := range hosts {
		iface := m.on[i]
		if v.given(i) != "" {
			iface = v.taken(i)
		}
		if iface != nil {
			on[i] = iface
		}
	}
	return on
}

const explainMTU = `The MTU is the largest packet that an interface sends. Hosts of one network should have one; if one differs, large packets to it or from it can get lost without a word, or are slow. ` +
	`The interface by which ranks meet is compared with that of most hosts. ` +
	`It is a warning; mtu-path says whether full-size packets really get lost. ` +
	`Set it with: ip link set DEVICE mtu BYTES, and in the host's network configuration.`

func checkMTU(v *view) (found []Finding, good, skip string) {
	if len(v.Hosts) < 2 {
		return nil, "", "the job has one host"
	}
	known, unknown := v.split(v.reached, facts.ItemNet)
	on := v.rankInterfaces(known)
	var hosts []int
	mtus := map[*Host]string{}
	for _, i := range known {
		if on[i] != nil && on[i].MTU > 0 {
			hosts = append(hosts, i)
			mtus[&v.Hosts[i]] = fmt.Sprintf("%d", on[i].MTU)
		}
	}
	found = append(unknown, v.odd(hosts, contrast{
		of: func(h *Host) string { return mtus[h] }, what: "MTU", subject: "the MTU of the interfaces that ranks use", blame: Warn, differ: Warn,
		remedy: "set the same MTU on all hosts: on HOST, ip link set DEVICE mtu BYTES (needs root)",
	})...)
	if len(hosts) > 0 {
		good = "MTU " + mtus[&v.Hosts[hosts[0]]]
	}
	return found, good, ""
}

const explainPorts = `Every rank listens and connects on ports that the kernel takes from net.ipv4.ip_local_port_range, but for those in ip_local_reserved_ports. ` +
	`If the range is small, a large job runs out of ports and fails with "Address already in use" or "Cannot assign requested address". ` +
	`A host needs about 64 for each of its ranks, and 1024 at least. ` +
	`A range that begins below 1024 takes ports that belong to services. ` +
	`Ranges may differ from host to host, but a firewall that is open for one range then blocks another, so that it is told. ` +
	`Set it by: sysctl -w net.ipv4.ip_local_port_range="32768 60999".`

// Ports that a host needs at least, and for each of its ranks.
const (
	leastPorts   = 1024
	portsPerRank = 64
)

func checkPorts(v *view) (found []Finding, good, skip string) {
	hosts, unknown := v.split(v.reached, facts.ItemNet)
	const remedy = `on HOST: sysctl -w net.ipv4.ip_local_port_range="32768 60999" (needs root)`
	t := v.tally()
	var told []int
	for _, i := range hosts {
		n := v.Hosts[i].Facts.Net
		if n.PortRange == [2]int{} {
			continue
		}
		told = append(told, i)
		free, need := freePorts(n), max(leastPorts, portsPerRank*v.ranksOn(i))
		switch {
		case free < need:
			t.add(i, fault{verdict: Warn, what: "has few ports for connections", which: fmt.Sprintf("%d of %s, %d are needed", free, portRange(&v.Hosts[i]), need), remedy: remedy})
		case n.PortRange[0] < leastPorts:
			t.add(i, fault{verdict: Warn, what: "uses ports of services for connections", which: portRange(&v.Hosts[i]), remedy: remedy})
		}
	}
	if len(told) == 0 {
		return unknown, "", emptySkip(unknown, "no host tells its range of ports")
	}
	found = append(unknown, t.findings()...)
	if len(found) == len(unknown) {
		found = append(found, v.odd(told, contrast{of: portRange, what: "local ports", blame: Info, differ: Info, remedy: "if a firewall is open for one range only, open it for all"})...)
	}
	return found, "local ports " + portRange(&v.Hosts[told[0]]), ""
}

func portRange(h *Host) string {
	r := h.Facts.Net.PortRange
	return fmt.Sprintf("%d-%d", r[0], r[1])
}

// freePorts counts the range without what is reserved: "8080,9000-9100".
func freePorts(n facts.Net) int {
	low, high := n.PortRange[0], n.PortRange[1]
	free := max(0, high-low+1)
	for part := range strings.SplitSeq(n.Reserved, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a := leadingNumber(from)
		b := a
		if isRange {
			b = leadingNumber(to)
		}
		if a > 0 {
			free -= max(0, min(b, high)-max(a, low)+1)
		}
	}
	return max(0, free)
}
