package preflight

import (
	"fmt"
	"slices"

	"gorun/preflight/probe"
)

const explainRDMATraffic = `Where perftest is installed, each host has ib_write_bw send to the next host's for a second, on every HCA port that NCCL would use, with the GID, service level and traffic class that NCCL would use; so each port sends once and receives once. ` +
	`The two programs meet over TCP, at the address that ranks use; that they do not is told as unknown, as it says nothing of RDMA. ` +
	`A program that cannot use its own device tells why: an HCA that the user may not open, or memory that may not be locked; its host is excluded. ` +
	`If both ends are ready and nothing arrives (a retry counter exceeded, no message within a second), a switch, a cable, a GID, a partition or a lossless class is wrong. ` +
	`A host is excluded if a port of it carries nothing with either of its two partners, and each partner does with somebody; if only one way fails, both its hosts are named, as nobody knows who is wrong. ` +
	`Hosts without perftest are left out. ` +
	`Try it by hand: ib_write_bw -d DEVICE on one host, ib_write_bw -d DEVICE HOST on the other.`

func checkRDMATraffic(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	switch {
	case len(v.Hosts) < 2:
		return nil, "", "the job has one host"
	case skip != "":
		return nil, "", skip
	}
	all := f.railWays()
	lack := f.withoutPerftest()
	if len(all) == 0 {
		if lack == "" {
			lack = "no RDMA traffic was tried"
		}
		return nil, "", lack
	}
	found = append(f.untriedRails(all), f.deadDevices(all)...)
	found = append(found, f.lostRails(all)...)
	carried := 0
	for _, w := range all {
		if w.link.Failure == "" {
			carried++
		}
	}
	good = count(carried, "rail") + " between hosts carried data"
	if lack != "" {
		good += "; " + lack
	}
	return found, good, ""
}

// untriedRails finds hosts that could not try all rails.
func (f fabric) untriedRails(all []railWay) []Finding {
	t := f.tally()
	for _, w := range all {
		switch w.link.Failure {
		case "", probe.Device, probe.Lost:
		default:
			t.add(w.from, fault{
				verdict: Unknown, what: "could not try RDMA on all rails", which: w.link.From,
				evidence: []string{fmt.Sprintf("%s -> %s %s: %s", w.link.From, f.Hosts[w.to].Name, w.link.To, w.link.Text)},
			})
		}
	}
	return t.findings()
}

// deadDevices finds devices that cannot be used, whatever the network is like.
func (f fabric) deadDevices(all []railWay) []Finding {
	t := f.tally()
	for _, at := range f.reached {
		var told []string
		for _, w := range all {
			host := w.from
			if w.link.There {
				host = w.to
			}
			name := w.device(host)
			if w.link.Failure != probe.Device || host != at || slices.Contains(told, name) {
				continue
			}
			told = append(told, name)
			t.add(at, fault{
				verdict: f.rdmaVerdict(NoHost), what: "has HCAs that a program cannot use", which: name,
				remedy:   "on HOST, as the user of the job: ulimit -l; ibv_devinfo -v; ib_write_bw -d DEVICE",
				evidence: []string{name + ": " + w.link.Text},
			})
		}
	}
	return t.findings()
}

const lostRemedy = "look at cable, switch port, GID, partition and flow control of these ports; by hand: ib_write_bw -d DEVICE on one host, ib_write_bw -d DEVICE HOST on the other"

// lostRails finds rails on which nothing arrives.
func (f fabric) lostRails(all []railWay) (found []Finding) {
	tried := slices.DeleteFunc(slices.Clone(all), func(w railWay) bool { return w.link.Failure != "" && w.link.Failure != probe.Lost })
	t := f.tally()
	var most, rest []railWay
	for _, ways := range byPlace(tried) {
		b := blameRails(ways, func(w railWay) bool { return w.link.Failure == probe.Lost })
		for k, i := range b.hosts {
			x := fault{verdict: f.rdmaVerdict(NoHost), what: "has HCA ports that no RDMA comes through", which: b.ways[k][0].device(i), remedy: lostRemedy}
			for _, w := range b.ways[k] {
				x.evidence = append(x.evidence, f.tellRail(w, w.link.Text))
			}
			t.add(i, x)
		}
		if b.most {
			most = append(most, b.rest...)
		} else {
			rest = append(rest, b.rest...)
		}
	}
	found = t.findings()
	if len(most) > 0 {
		title := fmt.Sprintf("RDMA does not come through on most rails between hosts: %d of %d", len(most), len(tried))
		found = append(found, f.lostWays(most, title))
	}
	if len(rest) > 0 {
		title := fmt.Sprintf("RDMA does not come through on %s between hosts", count(len(rest), "rail"))
		found = append(found, f.lostWays(rest, title))
	}
	return found
}

func (f fabric) lostWays(ways []railWay, title string) Finding {
	var lines []string
	for _, w := range ways {
		lines = append(lines, f.tellRail(w, w.link.Text))
	}
	hosts := endsOf(ways)
	if len(hosts) == 2 {
		title += ": " + f.fold(hosts)
	}
	return f.finding(f.rdmaVerdict(NoCluster), hosts, title, lostRemedy+f.orWithout(hosts), cut(lines))
}

// endsOf lists the hosts at the ends of ways, in the job's order.
func endsOf(ways []railWay) []int {
	var hosts []int
	for _, w := range ways {
		hosts = append(hosts, w.from, w.to)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
