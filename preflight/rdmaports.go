package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const explainRDMAPort = `NCCL silently skips a port that is not ACTIVE, and the job then hangs or is slow, because other hosts have more ports. ` +
	`The state and the physical state come from /sys/class/infiniband. Polling means that nothing answers at the other end: a cable, a transceiver or the switch's port. ` +
	`Disabled means that the port was switched off. The rate of a port that is not ACTIVE is an old one, and is not looked at. ` +
	`A host is excluded if it has fewer ACTIVE ports than most hosts, and has ports that could make up for that. ` +
	`Ports that are down on every host alike, and ports that NCCL_IB_HCA leaves out, do no harm; the latter are told if they are up on most hosts. ` +
	`Leaving a broken port out with NCCL_IB_HCA=^NAME must be done on all hosts, for the same place on the PCI bus.`

func checkRDMAPort(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	t := v.tally()
	var short []int
	for _, i := range f.hosts {
		if idle := f.down(i); len(idle) > 0 && f.lackOf(i) > 0 {
			short = append(short, i)
			for _, r := range idle {
				t.add(i, f.portFault(r, NoHost))
			}
		}
	}
	switch {
	case f.count == 0 && len(f.hosts) > 0:
		found = append(found, f.nothingUp()...)
	case len(short) > 0 && !f.blame():
		found = append(found, f.portsDiffer(short))
	case len(f.hosts) == 1:
		found = append(found, f.spareDown(f.hosts[0])...)
	default:
		found = append(t.findings(), f.unusedDown()...)
	}
	good = count(f.count, "ACTIVE port")
	return append(f.unknown, found...), good, ""
}

// blame reports whether a host with fewer ports than count may be called wrong.
func (f fabric) blame() bool { return len(f.hosts) >= 3 && 2*len(f.complete()) > len(f.hosts) }

// down lists the idle ports of host i that do not only wait for a subnet manager, if host
// i lacks some.
func (f fabric) down(i int) []rail {
	idle := f.idle(i)
	if len(idle) < f.lackOf(i) {
		return nil
	}
	return slices.DeleteFunc(idle, rail.waits)
}

// waits reports whether the port waits for a subnet manager: the link is up.
func (r rail) waits() bool {
	return r.port.Layer == infiniBand && (strings.HasPrefix(r.port.State, "INIT") || strings.HasPrefix(r.port.State, "ARMED"))
}

// condition writes the port's state for people: "DOWN (Polling)".
func (r rail) condition() string {
	text := r.port.State
	if r.port.Phys != "" {
		text += " (" + r.port.Phys + ")"
	}
	return text
}

// state writes the port with its state: "mlx5_5 DOWN (Polling)".
func (r rail) state() string {
	text := r.name() + " " + r.condition()
	if r.hca.Virtual {
		text += ", a virtual function"
	}
	return text
}

func (f fabric) portFault(r rail, verdict Verdict) fault {
	remedy := "reseat or replace the cable of WHICH on HOST, and look at the switch's port; until then leave HOST out"
	switch {
	case r.hca.Virtual:
		remedy = "WHICH is a virtual function: on the machine below HOST, let the virtual function's port follow the real one: ip link set PF vf N state auto (needs root)"
	case strings.HasPrefix(r.port.Phys, "Disabled") && r.port.Layer == ethernet:
		remedy = "on HOST: ip link set DEVICE up for the interface of WHICH (needs root)"
	case strings.HasPrefix(r.port.Phys, "Disabled"):
		remedy = "switch the port on: ibportstate for WHICH on HOST and its switch's port (needs root)"
	}
	return fault{verdict: f.rdmaVerdict(verdict), what: "has HCA ports that are " + r.condition() + ", not ACTIVE", which: r.name(), remedy: remedy}
}

// nothingUp is the finding that no host has an ACTIVE port.
func (f fabric) nothingUp() []Finding {
	var hosts []int
	var n notes
	for _, i := range f.hosts {
		for _, r := range chosen(&f.Hosts[i]) {
			if !r.waits() {
				hosts = append(hosts, i)
				n.add(i, r.state())
			}
		}
	}
	if hosts = slices.Compact(hosts); len(hosts) == 0 {
		return nil
	}
	return []Finding{f.finding(Warn, hosts, f.say(hosts, "has no ACTIVE HCA port: ranks would use sockets"), "look at cables and switches; if sockets are meant, set NCCL_IB_DISABLE=1", n.lines(f.view))}
}

// portsDiffer is the finding that hosts have different numbers of ACTIVE ports, and too
// few were compared to blame those that are short.
func (f fabric) portsDiffer(short []int) Finding {
	var n notes
	for _, i := range f.hosts {
		n.add(i, count(len(f.rails(i)), "ACTIVE port"))
	}
	for _, i := range short {
		for _, r := range f.down(i) {
			n.add(i, r.state())
		}
	}
	remedy := "bring the ports up, or use as many on every host: NCCL_IB_HCA=^NAME for the same place on all hosts"
	return f.finding(f.rdmaVerdict(NoCluster), f.hosts, "hosts differ in how many HCA ports are ACTIVE", remedy, n.lines(f.view))
}

// spareDown tells of the ports of a single host that are down.
func (f fabric) spareDown(i int) []Finding {
	var n notes
	for _, r := range f.idle(i) {
		n.add(i, r.state())
	}
	if len(n.texts) == 0 {
		return nil
	}
	return []Finding{f.finding(Info, []int{i}, f.say([]int{i}, "has HCA ports that are not ACTIVE, which NCCL skips"), "", n.lines(f.view))}
}

// unusedDown tells of ports beside those that are compared which are down, but up on most
// hosts.
func (f fabric) unusedDown() []Finding {
	up := map[string]int{}
	f.eachOther(func(_ int, r rail) {
		if r.active() {
			up[r.name()]++
		}
	})
	t := f.tally()
	f.eachOther(func(i int, r rail) {
		if !r.active() && len(f.hosts) >= 3 && 2*up[r.name()] > len(f.hosts) {
			t.add(i, fault{verdict: Info, what: "has ports down that NCCL would not use, or not for the main network", which: r.state()})
		}
	})
	return t.findings()
}

// eachOther calls what for all ports but those that NCCL_IB_HCA leaves of the main layer.
func (f fabric) eachOther(what func(host int, r rail)) {
	for _, i := range f.hosts {
		h := &f.Hosts[i]
		names := parseNCCLNames(h.Settings["NCCL_IB_HCA"])
		for k := range h.Facts.RDMA.Devices {
			hca := &h.Facts.RDMA.Devices[k]
			for p := range hca.Ports {
				if r := (rail{hca, &hca.Ports[p]}); !unusable(r.port) && (r.port.Layer != f.layer || !names.match(hca.Name, r.port.Num)) {
					what(i, r)
				}
			}
		}
	}
}

const explainRDMASM = `An InfiniBand port carries nothing until a subnet manager has given it a number (LID). ` +
	`Its state stays INIT until then; a LID or a subnet manager's LID of 0 says the same, of a virtual function that is ACTIVE all the same it is a warning. For RoCE both are always 0, which is normal. ` +
	`If all ports of all hosts wait, no subnet manager runs: it is a service on a switch or on a host (opensm). ` +
	`If one host's ports wait, look at its switch's port and at the subnet manager's log. ` +
	`A virtual function also waits if the real port's administrator has not set its GUID and policy.`

func checkRDMASM(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	if f.layer != infiniBand {
		return f.unknown, "", "the RDMA network is not InfiniBand"
	}
	bad := map[int][]fault{}
	for _, i := range f.hosts {
		for _, r := range f.rails(i) {
			if r.port.LID == 0 || r.port.SMLID == 0 {
				bad[i] = append(bad[i], fault{verdict: virtualVerdict(r), which: fmt.Sprintf("%s LID %d, subnet manager's LID %d", r.name(), r.port.LID, r.port.SMLID)})
			}
		}
		if f.lackOf(i) > 0 || f.count == 0 {
			for _, r := range chosen(&v.Hosts[i]) {
				if r.waits() {
					bad[i] = append(bad[i], waitFault(r))
				}
			}
		}
	}
	t := v.tally()
	verdict, remedy := NoHost, "look at the switch's port for HOST, and at the subnet manager's log"
	if len(bad) == len(f.hosts) && len(bad) > 1 {
		verdict, remedy = NoCluster, "start a subnet manager, on the switch or with: systemctl start opensm (needs root)"
	}
	for _, i := range f.hosts {
		for _, x := range bad[i] {
			x.verdict, x.what, x.remedy = cmp.Or(x.verdict, v.rdmaVerdict(verdict)), "has InfiniBand ports without a subnet manager", cmp.Or(x.remedy, remedy)
			t.add(i, x)
		}
	}
	return append(f.unknown, t.findings()...), "every port has its LID", ""
}

// virtualVerdict is the verdict on a virtual function that works without LIDs of its own;
// "" of other ports.
func virtualVerdict(r rail) Verdict {
	if r.hca.Virtual {
		return Warn
	}
	return ""
}

func waitFault(r rail) fault {
	x := fault{which: r.state()}
	if r.hca.Virtual {
		x.remedy = "on the machine below HOST, give the virtual function its GUIDs and the policy Follow (needs root)"
	}
	return x
}
