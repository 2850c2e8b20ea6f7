package preflight

import (
	"fmt"
	"strings"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

func roceFirings() []firing {
	keep := func(k int, indexes ...int) func(h *Host) {
		return port(k, func(p *facts.Port) {
			var kept []facts.GID
			for _, g := range p.GIDs {
				for _, i := range indexes {
					if g.Index == i {
						kept = append(kept, g)
					}
				}
			}
			p.GIDs = kept
		})
	}
	every := func(of func(k int) func(h *Host)) func(h *Host) {
		return func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				of(k)(h)
			}
		}
	}
	// move gives rail k of a host an address in another network.
	move := func(k int, addr string) func(h *Host) {
		return func(h *Host) {
			iface(fmt.Sprintf("rail%d", k), func(i *facts.Interface) { i.Addrs = []string{addr} })(h)
			ip, _, _ := strings.Cut(addr, "/")
			port(k, func(p *facts.Port) { p.GIDs[2].GID, p.GIDs[3].GID = "::ffff:"+ip, "::ffff:"+ip })(h)
		}
	}
	mtu := func(h *Host) {
		port(3, func(p *facts.Port) { p.MTU = 1024 })(h)
		iface("rail3", func(i *facts.Interface) { i.MTU = 1500 })(h)
	}
	return []firing{
		{check: "rdma-gid", name: "no-ipv4", build: factstest.RoCE, wreck: on(1, keep(3, 0, 1)), verdict: NoHost, blamed: "gpu02", title: "gpu02 uses GIDs of kind RoCE v2, RoCE v1 link-local, the others use RoCE v2"},
		{check: "rdma-gid", name: "empty-at-index", build: factstest.RoCE, wreck: func(in *Input) { all(set("NCCL_IB_GID_INDEX", "3"))(in); on(1, keep(3, 0, 1, 2))(in) },
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has nothing at NCCL_IB_GID_INDEX=3: mlx5_3", remedy: "leave NCCL_IB_GID_INDEX unset"},
		{check: "rdma-gid", name: "index-nowhere", build: factstest.RoCE, wreck: all(set("NCCL_IB_GID_INDEX", "9")), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "rdma-gid", name: "no-gid", build: factstest.RoCE, wreck: on(1, keep(3)), verdict: NoHost, blamed: "gpu02", title: "without a GID"},
		{check: "rdma-gid", name: "v1-by-index", build: factstest.RoCE, wreck: all(set("NCCL_IB_GID_INDEX", "2")), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "RoCE v1 passes no router"},
		{check: "rdma-gid", name: "link-local-everywhere", build: factstest.RoCE, wreck: all(every(func(k int) func(h *Host) { return keep(k, 0, 1) })),
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "has an IPv4 address"},
		{check: "rdma-gid", name: "old-nccl", build: factstest.RoCE, wreck: all(func(h *Host) { h.Facts.NCCL[0].Version = "2.18.5" }),
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "NCCL 2.18.5 takes entry 0 of the table", remedy: "set NCCL_IB_GID_INDEX=3"},
		{check: "rdma-gid", name: "other-order", build: factstest.RoCE, wreck: on(1, port(2, func(p *facts.Port) { p.GIDs[2].Index, p.GIDs[3].Index = 5, 4 }))},
		{check: "rdma-subnet", name: "swapped", build: factstest.RoCE, wreck: on(1, both(move(3, "10.104.9.9/16"), move(4, "10.103.9.9/16"))),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has HCA ports in other networks than most hosts", evidence: "mlx5_3 (rail 3) in 10.104.0.0/16, others in 10.103.0.0/16, as is their rail 4", remedy: "swapped cables"},
		{check: "rdma-subnet", name: "stray", build: factstest.RoCE, wreck: on(1, move(3, "192.168.9.9/24")), verdict: NoHost, blamed: "gpu02"},
		{check: "rdma-subnet", name: "behind-another-switch", build: factstest.RoCE, wreck: on(1, every(func(k int) func(h *Host) { return move(k, fmt.Sprintf("10.%d.9.9/16", 200+k)) })),
			verdict: Warn, blamed: "gpu02"},
		{check: "rdma-subnet", name: "stray-but-routed", build: factstest.RoCE, wreck: on(1, both(move(3, "192.168.9.9/24"), func(h *Host) {
			h.Facts.Net.Routes = append(h.Facts.Net.Routes, facts.Route{Prefix: "10.103.0.0/16", Via: "192.168.9.1", Interface: "rail3"})
		}))},
		{check: "rdma-subnet", name: "two-hosts", hosts: 2, build: factstest.RoCE, wreck: on(1, both(move(3, "192.168.9.9/24"), func(h *Host) { h.Facts.Net.Routes = nil })),
			verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in the networks of their rails"},
		{check: "rdma-subnet", name: "routed-to-the-host", build: factstest.RoCE, wreck: func(in *Input) {
			for i := range in.Hosts {
				on(i, every(func(k int) func(h *Host) { return move(k, fmt.Sprintf("10.200.%d.%d/31", k, 2*i)) }))(in)
			}
		}},
		{check: "rdma-subnet", name: "fabric", wreck: on(1, port(0, func(p *facts.Port) { p.GIDs[0].GID = "fec0::1" })), verdict: NoHost, blamed: "gpu02", remedy: "same fabric"},
		{check: "rdma-cross", name: "crossed", build: factstest.RoCE, wreck: all(set("NCCL_CROSS_NIC", "1")), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04",
			title: "cannot reach each other, and NCCL_CROSS_NIC=1: mlx5_0 has no way to 10.101.0.0/16"},
		{check: "rdma-mtu", name: "odd", build: factstest.RoCE, wreck: on(1, mtu), verdict: Warn, blamed: "gpu02", title: "mlx5_3 active MTU 1024, interface MTU 1500, others active MTU 4096, interface MTU 9000"},
		{check: "rdma-mtu", name: "two-hosts", hosts: 2, build: factstest.RoCE, wreck: on(1, mtu), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "rdma-mtu", name: "one-host", hosts: 1, build: factstest.RoCE, wreck: on(0, mtu), verdict: Warn, blamed: "gpu01"},
	}
}
