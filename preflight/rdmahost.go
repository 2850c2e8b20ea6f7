package preflight

import (
	"slices"
	"strings"

	"gorun/preflight/facts"
)

const explainRDMAOpen = `A program uses an HCA through its file /dev/infiniband/uverbsN, and must be able to open it as the user that runs the ranks. ` +
	`The agent, which is that user, has tried. NCCL only warns of an HCA that it cannot open, and goes on with fewer than the other hosts have. ` +
	`Usual reasons are a container that was not given the device (docker run --device /dev/infiniband), or a mode of 0600 that udev should have made 0666. ` +
	`If there are no such files at all, the module ib_uverbs is not loaded.`

func checkRDMAOpen(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	t, opened := v.tally(), 0
	f.eachRail(func(i int, r rail) {
		_, loaded := v.Hosts[i].Facts.RDMA.Modules["ib_uverbs"]
		switch {
		case r.hca.Uverbs == "" && !loaded:
			t.add(i, fault{verdict: v.rdmaVerdict(NoHost), what: "has HCAs without a file to open them by", which: r.hca.Name, remedy: "on HOST: modprobe ib_uverbs (needs root)"})
		case r.hca.Open != "":
			t.add(i, fault{
				verdict: v.rdmaVerdict(NoHost), what: "has HCAs that ranks cannot open", which: r.hca.Name,
				remedy:   "on HOST: chmod 0666 /dev/infiniband/uverbs* and a udev rule that does so (needs root); in a container: --device /dev/infiniband",
				evidence: []string{r.hca.Name + ": " + strings.TrimPrefix(r.hca.Open, r.hca.Uverbs+": ")},
			})
		default:
			opened++
		}
	})
	return append(f.unknown, t.findings()...), count(opened, "HCA port") + " can be opened", ""
}

const explainRDMAMemlock = `RDMA reads and writes memory that is locked, and NCCL locks as much as it transfers. ` +
	`With a small limit it fails in ibv_reg_mr or ibv_create_qp with "Cannot allocate memory", often only after a while. ` +
	`The limit is that of the agent on the host, which has raised it as far as it may, and which ranks inherit: it is not always that of a login shell. ` +
	`It should be unlimited. Less than 1 GiB excludes the host, less than 64 GiB (or its memory) is a warning. ` +
	`A user who may lock memory without a limit (root outside of containers: CAP_IPC_LOCK) needs none. ` +
	`Set "* soft memlock unlimited" and "* hard memlock unlimited" in /etc/security/limits.conf; if that is not enough, LimitMEMLOCK=infinity for sshd or the service that starts the agent; for docker --ulimit memlock=-1.`

// Locked memory that NCCL needs in the smallest case, by far, and that is enough for all
// but the largest.
const (
	leastMemlock  = 1 << 30
	enoughMemlock = 64 << 30
)

func checkRDMAMemlock(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	using := slices.DeleteFunc(slices.Clone(f.hosts), func(i int) bool { return len(f.rails(i)) == 0 })
	known, unknown := v.split(using, facts.ItemLimits)
	t := v.tally()
	for _, i := range known {
		l, memory := &v.Hosts[i].Facts.Limits, v.Hosts[i].Facts.System.Memory
		limit := l.Memlock
		if limit < 0 || l.LockAny || limit >= leastMemlock && limit >= min(memory, enoughMemlock) {
			continue
		}
		x := fault{
			verdict: Warn, what: "allows ranks to lock only " + size(limit) + " of memory",
			remedy: "on HOST: memlock unlimited in /etc/security/limits.conf, or LimitMEMLOCK=infinity for sshd (needs root); docker: --ulimit memlock=-1",
		}
		if limit < leastMemlock {
			x.verdict = v.rdmaVerdict(NoHost)
		}
		t.add(i, x)
	}
	return append(append(f.unknown, unknown...), t.findings()...), "memlock is unlimited", ""
}

const explainGPUDirect = `With GPUDirect RDMA an HCA reads and writes GPU memory by itself; without it all data goes through the host's memory, at a fraction of the speed. ` +
	`NCCL needs the module nvidia_peermem (or nv_peer_mem), or DMA-BUF, which the open GPU driver offers on Linux 5.12 and later. ` +
	`If no host has either, the job is slow, which is a warning. ` +
	`If some hosts have it and others do not, all go at the pace of those that lack it; that is a warning, too, as NCCL decides for each end of a connection by itself. ` +
	`Only hosts with GPUs and HCAs are looked at.`

func checkGPUDirect(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	var hosts []int
	t := v.tally()
	for _, i := range f.hosts {
		h := &v.Hosts[i]
		switch {
		case len(h.Facts.GPU.Devices) == 0 || len(f.rails(i)) == 0:
		case direct(h) == "" && h.Facts.RDMA.DMABuf == "":
			t.add(i, fault{verdict: Unknown, what: "does not tell whether it has GPUDirect RDMA", which: "nvidia_peermem is not loaded, and DMA-BUF is not known", remedy: "on HOST: modprobe nvidia-peermem (needs root)"})
		default:
			hosts = append(hosts, i)
		}
	}
	unknown := append(f.unknown, t.findings()...)
	if len(hosts) == 0 {
		if len(unknown) == 0 {
			skip = "no host has both GPUs and HCAs in use"
		}
		return unknown, "", skip
	}
	has := func(h *Host) string {
		if direct(h) == "" {
			return "no GPUDirect RDMA"
		}
		return "GPUDirect RDMA"
	}
	const remedy = "on HOST: modprobe nvidia-peermem (needs root)"
	found = v.odd(hosts, contrast{of: has, subject: "GPUDirect RDMA", blame: Warn, differ: Warn, remedy: remedy})
	if len(found) == 0 && direct(&v.Hosts[hosts[0]]) == "" {
		found = append(found, v.finding(Warn, hosts, v.say(hosts, "has no GPUDirect RDMA: transfers go through the host's memory"), remedy, nil))
	}
	return append(unknown, found...), direct(&v.Hosts[hosts[0]]), ""
}

// direct says by what HCAs reach GPU memory; "" by nothing that is known.
func direct(h *Host) string {
	switch {
	case h.Facts.RDMA.PeerMem:
		return "nvidia_peermem"
	case h.Facts.RDMA.DMABuf == "yes" && intSetting(h.Settings, "NCCL_DMABUF_ENABLE", 1) != 0:
		return "DMA-BUF"
	}
	return ""
}
