package preflight

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// hca returns a wreck of a host's HCA k.
func hca(k int, wreck func(d *facts.HCA)) func(h *Host) {
	return func(h *Host) { wreck(&h.Facts.RDMA.Devices[k]) }
}

// port returns a wreck of the port of HCA k.
func port(k int, wreck func(p *facts.Port)) func(h *Host) {
	return func(h *Host) { wreck(&h.Facts.RDMA.Devices[k].Ports[0]) }
}

func down(p *facts.Port) { p.State, p.Phys = "DOWN", "Polling" }

func both(wrecks ...func(h *Host)) func(h *Host) {
	return func(h *Host) {
		for _, wreck := range wrecks {
			wreck(h)
		}
	}
}

// storage adds an Ethernet HCA of a storage network, which is up or down.
func storage(state string) func(h *Host) {
	return func(h *Host) {
		h.Facts.RDMA.Devices = append(h.Facts.RDMA.Devices, facts.HCA{
			Name: "mlx5_8", BDF: "0000:f4:00.0", Type: "MT4125", Uverbs: "/dev/infiniband/uverbs8",
			Ports: []facts.Port{{Num: 1, State: state, Phys: "LinkUp", Rate: 100, Layer: ethernet}},
		})
	}
}

func loseHCA(k int) func(h *Host) {
	return func(h *Host) {
		d := &h.Facts.RDMA
		d.Devices = append(d.Devices[:k:k], d.Devices[k+1:]...)
		h.Facts.GPU.Topo = ""
	}
}

// nameHCAs gives the HCAs other names, also in the legend of nvidia-smi topo -m.
func nameHCAs(pattern string, first int) func(h *Host) {
	return func(h *Host) {
		for k := range h.Facts.RDMA.Devices {
			d := &h.Facts.RDMA.Devices[k]
			old := fmt.Sprintf("  NIC%d: %s\n", k, d.Name)
			d.Name = fmt.Sprintf(pattern, first+k)
			h.Facts.GPU.Topo = strings.Replace(h.Facts.GPU.Topo, old, fmt.Sprintf("  NIC%d: %s\n", k, d.Name), 1)
		}
	}
}

func noTopo(h *Host) { h.Facts.GPU.Topo = "" }

func rdmaUseFirings() []firing {
	noHCA := func(h *Host) { h.Facts.RDMA = facts.RDMA{}; noTopo(h) }
	value := func(v string) func(in *Input) { return all(set("NCCL_IB_HCA", v)) }
	threeNames := func(in *Input) {
		on(1, nameHCAs("mlx5_%d", 4))(in)
		on(2, nameHCAs("ibp%ds0", 12))(in)
	}
	return []firing{
		{check: "rdma-used", name: "one-without", wreck: on(1, noHCA), verdict: NoHost, blamed: "gpu02", title: "gpu02 has no HCA, other hosts do"},
		{check: "rdma-used", name: "head-without-gpus", wreck: on(1, func(h *Host) { noHCA(h); h.Facts.GPU, h.Facts.PCI = facts.GPU{}, facts.PCI{} }), verdict: Warn, blamed: "gpu02"},
		{check: "rdma-used", name: "most-without", wreck: func(in *Input) { on(1, noHCA)(in); on(2, noHCA)(in); on(3, noHCA)(in) },
			verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", remedy: "NCCL_IB_DISABLE=1"},
		{check: "rdma-used", name: "off-on-all", wreck: all(set("NCCL_IB_DISABLE", "1")), verdict: Info, blamed: "gpu01 gpu02 gpu03 gpu04", title: "ranks will use sockets", evidence: "NCCL_IB_DISABLE=1"},
		{check: "rdma-used", name: "off-on-one", wreck: on(1, set("NCCL_NET", "Socket")), verdict: NoCluster, blamed: "gpu02", title: "gpu02 has RDMA switched off"},
		{check: "rdma-used", name: "unknown", wreck: unknownOn(1, facts.ItemRDMA), verdict: Unknown, blamed: "gpu02"},
		{check: "rdma-port", name: "efa", wreck: all(func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				port(k, func(p *facts.Port) { p.Layer = "Unspecified" })(h)
			}
		})},
		{check: "rdma-list", name: "fits", wreck: value("mlx5_0,mlx5_1")},
		{check: "rdma-list", name: "missing-on-one", wreck: func(in *Input) { on(2, nameHCAs("rocep%d", 0))(in); value("mlx5")(in) },
			verdict: NoHost, blamed: "gpu03", title: "gpu03 lacks HCAs that NCCL_IB_HCA=mlx5 names", evidence: "no mlx5; it has rocep0, rocep1", remedy: "leave NCCL_IB_HCA unset"},
		{check: "rdma-list", name: "three-namings", hosts: 3, wreck: func(in *Input) {
			threeNames(in)
			value("=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7")(in)
		}, verdict: NoCluster, blamed: "gpu02 gpu03", remedy: "leave NCCL_IB_HCA unset"},
		{check: "rdma-list", name: "three-namings-with-storage", hosts: 3, wreck: func(in *Input) {
			threeNames(in)
			all(storage("ACTIVE"))(in)
			in.Hosts[1].Facts.RDMA.Devices[8].Name = "mlx5_12"
			value("=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7")(in)
		}, verdict: NoCluster, blamed: "gpu02 gpu03", remedy: "by [[host]]"},
		{check: "rdma-list", name: "three-namings-unset", hosts: 3, wreck: threeNames},
		{check: "rdma-list", name: "prefix-takes-more", wreck: func(in *Input) {
			all(both(nameHCAs("mlx5_%d", 1), hca(7, func(d *facts.HCA) { d.Name = "mlx5_10" })))(in)
			value("mlx5_1")(in)
		},
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "takes than it names: mlx5_10", remedy: "write NCCL_IB_HCA='=mlx5_1' (exactly mlx5_1)"},
		{check: "rdma-count", name: "one-less", wreck: on(1, loseHCA(3)), verdict: NoHost, blamed: "gpu02", title: "gpu02 has 7 InfiniBand ports, the others have 8 InfiniBand ports"},
		{check: "rdma-count", name: "two-hosts", hosts: 2, wreck: on(1, loseHCA(3)), verdict: NoCluster, blamed: "gpu01 gpu02", title: "hosts differ in how many HCA ports they have"},
		{check: "rdma-count", name: "no-gpus", wreck: func(in *Input) { on(1, loseHCA(3))(in); in.Job.GPU = false }, verdict: Warn, blamed: "gpu02"},
		{check: "rdma-layer", name: "ethernet-on-one", wreck: on(1, port(2, func(p *facts.Port) { p.Layer, p.LID, p.SMLID = ethernet, 0, 0 })),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 uses 7 InfiniBand ports and 1 Ethernet port, the others use 8 InfiniBand ports"},
		{check: "rdma-layer", name: "two-hosts", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.RDMA.Devices = factstest.RoCE("gpu02", 1).RDMA.Devices }),
			verdict: NoCluster, blamed: "gpu01 gpu02", title: "hosts differ in the kind of their RDMA network"},
		{check: "rdma-layer", name: "storage-up-on-one", wreck: on(1, storage("ACTIVE")), verdict: Warn, blamed: "gpu02", title: "side by side"},
		{check: "rdma-layer", name: "storage-up", wreck: all(storage("ACTIVE")), verdict: Info, blamed: "gpu01 gpu02 gpu03 gpu04",
			title: "side by side", evidence: "mlx5_8 Ethernet 100 Gb/s", remedy: "-x NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7' (exactly these)"},
		{check: "rdma-layer", name: "storage-left-out", wreck: all(both(storage("ACTIVE"), set("NCCL_IB_HCA", "^mlx5_8")))},
		{check: "rdma-layer", name: "storage-down", wreck: all(storage("DOWN"))},
	}
}

func rdmaPortFirings() []firing {
	virtual := func(h *Host) {
		both(port(0, down), hca(0, func(d *facts.HCA) { d.Virtual = true }))(h)
	}
	waits := port(1, func(p *facts.Port) { p.State, p.LID, p.SMLID = "INIT", 0, 0 })
	rate := func(r float64) func(h *Host) { return port(2, func(p *facts.Port) { p.Rate = r }) }
	return []firing{
		{check: "rdma-port", name: "polling", wreck: on(1, port(5, down)), verdict: NoHost, blamed: "gpu02", title: "gpu02 has HCA ports that are DOWN (Polling), not ACTIVE: mlx5_5", remedy: "cable of mlx5_5 on gpu02"},
		{check: "rdma-port", name: "disabled", build: factstest.RoCE, wreck: on(1, port(5, func(p *facts.Port) { p.State, p.Phys = "DOWN", "Disabled" })), verdict: NoHost, blamed: "gpu02", remedy: "ip link set"},
		{check: "rdma-port", name: "of-two-hosts", hosts: 2, wreck: on(1, port(5, down)), verdict: NoCluster, blamed: "gpu01 gpu02", evidence: "gpu02: mlx5_5 DOWN (Polling)"},
		{check: "rdma-port", name: "of-one-host", hosts: 1, wreck: on(0, port(5, down)), verdict: Info, blamed: "gpu01", evidence: "mlx5_5 DOWN"},
		{check: "rdma-port", name: "none-up", hosts: 1, wreck: on(0, func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				port(k, down)(h)
			}
		}), verdict: Warn, blamed: "gpu01", title: "gpu01 has no ACTIVE HCA port"},
		{check: "rdma-port", name: "virtual", wreck: on(1, virtual), verdict: NoHost, blamed: "gpu02", title: "DOWN (Polling), not ACTIVE: mlx5_0", remedy: "mlx5_0 is a virtual function: on the machine below gpu02, let the virtual function's port follow the real one: ip link set PF vf N state auto"},
		{check: "rdma-port", name: "left-out", wreck: func(in *Input) { all(set("NCCL_IB_HCA", "^mlx5_5"))(in); on(1, port(5, down))(in) }, verdict: Info, blamed: "gpu02"},
		{check: "rdma-port", name: "down-everywhere", wreck: all(port(5, down))},
		{check: "rdma-port", name: "storage-down-on-one", wreck: func(in *Input) { all(storage("DOWN"))(in) }},
		{check: "rdma-sm", name: "one-waits", wreck: on(1, waits), verdict: NoHost, blamed: "gpu02", title: "gpu02 has InfiniBand ports without a subnet manager: mlx5_1 INIT (LinkUp)"},
		{check: "rdma-sm", name: "virtual-waits", wreck: on(1, both(waits, hca(1, func(d *facts.HCA) { d.Virtual = true }))), verdict: NoHost, blamed: "gpu02", title: "a virtual function", remedy: "policy Follow"},
		{check: "rdma-sm", name: "no-sm", wreck: on(1, port(2, func(p *facts.Port) { p.SMLID = 0 })), verdict: NoHost, blamed: "gpu02", title: "mlx5_2 LID 11, subnet manager's LID 0"},
		{check: "rdma-sm", name: "virtual-works-without", wreck: all(both(port(2, func(p *facts.Port) { p.SMLID = 0 }), hca(2, func(d *facts.HCA) { d.Virtual = true }))),
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "rdma-sm", name: "all-wait", wreck: all(func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				port(k, func(p *facts.Port) { p.State, p.LID, p.SMLID = "INIT", 0, 0 })(h)
			}
		}), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", remedy: "opensm"},
		{check: "rdma-rate", name: "half", wreck: on(1, rate(200)), verdict: Warn, blamed: "gpu02", title: "slower than those of most hosts: mlx5_2 at 200 Gb/s, others 400 Gb/s"},
		{check: "rdma-rate", name: "quarter", wreck: on(1, rate(100)), verdict: NoHost, blamed: "gpu02"},
		{check: "rdma-rate", name: "older-model", wreck: on(1, both(rate(100), hca(2, func(d *facts.HCA) { d.Type = "MT4121" }))), verdict: Warn, blamed: "gpu02"},
		{check: "rdma-rate", name: "two-hosts", hosts: 2, wreck: on(1, rate(100)), verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in the rate", evidence: "mlx5_2 100 Gb/s"},
		{check: "rdma-rate", name: "one-host", hosts: 1, wreck: on(0, rate(100)), verdict: Warn, blamed: "gpu01", title: "at different rates"},
		{check: "rdma-rate", name: "same-everywhere", wreck: all(rate(100))},
		{check: "rdma-rate", name: "old-rate-of-a-port-that-is-down", wreck: all(both(rate(10), port(2, down)))},
		{check: "rdma-pkey", name: "odd", wreck: on(1, port(0, func(p *facts.Port) { p.PKeys = []string{"0x8001"} })), verdict: NoHost, blamed: "gpu02", title: "gpu02 has partition key 0x8001, 0xffff"},
		{check: "rdma-pkey", name: "one-is-limited", wreck: on(1, port(0, func(p *facts.Port) { p.PKeys = []string{"0x7fff"} }))},
		{check: "rdma-pkey", name: "one-is-full", wreck: func(in *Input) {
			for i := range in.Hosts[1:] {
				on(i+1, port(0, func(p *facts.Port) { p.PKeys = []string{"0x7fff"} }))(in)
			}
		}, verdict: NoHost, blamed: "gpu02 gpu03 gpu04"},
		{check: "rdma-pkey", name: "limited", wreck: all(func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				port(k, func(p *facts.Port) { p.PKeys = []string{"0x7fff"} })(h)
			}
		}), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", title: "limited members"},
	}
}

func rdmaHostFirings() []firing {
	lines := func(lines ...string) func(h *Host) { return func(h *Host) { h.Facts.Kernel.Lines = lines } }
	limited := func(h *Host) {
		lines("mlx5_core " + h.Facts.RDMA.Devices[0].BDF + ": 126.016 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x4 link at 0000:10:01.0")(h)
	}
	memlock := func(n int64) func(h *Host) { return func(h *Host) { h.Facts.Limits.Memlock = n } }
	direct := func(peer bool, dma string) func(h *Host) {
		return func(h *Host) { h.Facts.RDMA.PeerMem, h.Facts.RDMA.DMABuf = peer, dma }
	}
	delta := func(name string) func(h *Host) {
		return port(4, func(p *facts.Port) { p.Delta = map[string]uint64{name: 3, "port_xmit_data": 9} })
	}
	return []firing{
		{check: "rdma-open", name: "denied", wreck: on(1, hca(0, func(d *facts.HCA) { d.Open = "/dev/infiniband/uverbs0: permission denied" })),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 has HCAs that ranks cannot open", evidence: "mlx5_0: permission denied", remedy: "chmod 0666"},
		{check: "rdma-open", name: "not-loaded", wreck: on(1, func(h *Host) {
			delete(h.Facts.RDMA.Modules, "ib_uverbs")
			h.Facts.RDMA.Devices[0].Uverbs, h.Facts.RDMA.Devices[0].Open = "", "there is no uverbs device: is ib_uverbs loaded?"
		}), verdict: NoHost, blamed: "gpu02", remedy: "modprobe ib_uverbs"},
		{check: "rdma-memlock", name: "small", wreck: on(1, memlock(64<<10)), verdict: NoHost, blamed: "gpu02", title: "gpu02 allows ranks to lock only 64 KiB of memory"},
		{check: "rdma-memlock", name: "some", wreck: on(1, memlock(8<<30)), verdict: Warn, blamed: "gpu02"},
		{check: "rdma-memlock", name: "an-eighth-of-the-memory", wreck: all(memlock(256 << 30))},
		{check: "rdma-memlock", name: "root", wreck: all(func(h *Host) { memlock(64 << 10)(h); h.Facts.Limits.LockAny = true })},
		{check: "rdma-memlock", name: "no-port-in-use", wreck: all(func(h *Host) {
			memlock(64 << 10)(h)
			for k := range h.Facts.RDMA.Devices {
				port(k, down)(h)
			}
		})},
		{check: "rdma-memlock", name: "without-rdma", build: factstest.Plain, wreck: on(1, memlock(64<<10))},
		{check: "rdma-memlock", name: "unknown", wreck: unknownOn(1, facts.ItemLimits), verdict: Unknown, blamed: "gpu02"},
		{check: "gpudirect", name: "odd", wreck: on(1, direct(false, "no")), verdict: Warn, blamed: "gpu02", title: "gpu02 has no GPUDirect RDMA", remedy: "modprobe nvidia-peermem"},
		{check: "gpudirect", name: "half", wreck: func(in *Input) { on(1, direct(false, "no"))(in); on(2, direct(false, "no"))(in) }, verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "gpudirect", name: "none", wreck: all(direct(false, "no")), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "through the host's memory"},
		{check: "gpudirect", name: "dma-buf-on-one", wreck: on(1, direct(false, "yes"))},
		{check: "gpudirect", name: "not-known", wreck: on(1, direct(false, "")), verdict: Unknown, blamed: "gpu02"},
		{check: "rdma-firmware", name: "odd", wreck: on(1, hca(1, func(d *facts.HCA) { d.Firmware = "28.39.1002" })), verdict: Warn, blamed: "gpu02",
			title: "gpu02 has HCAs MT4129 MT_0000000838 28.39.1002, MT4129 MT_0000000838 28.41.1000, the others have"},
		{check: "rdma-firmware", name: "two", hosts: 2, wreck: on(1, hca(1, func(d *facts.HCA) { d.Firmware = "28.39.1002" })), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "rdma-pcie", name: "narrow", wreck: on(1, hca(7, func(d *facts.HCA) { d.Width = 8 })), verdict: Warn, blamed: "gpu02", title: "mlx5_7 PCIe x8 of x16, others x16"},
		{check: "rdma-pcie", name: "slow", wreck: on(1, hca(7, func(d *facts.HCA) { d.Speed = "16.0 GT/s PCIe" })), verdict: Warn, blamed: "gpu02", title: "mlx5_7 16.0 GT/s PCIe, others 32.0 GT/s PCIe"},
		{check: "rdma-pcie", name: "narrow-by-design", wreck: all(func(h *Host) {
			for k := range h.Facts.RDMA.Devices {
				h.Facts.RDMA.Devices[k].Width = 8
			}
		})},
		{check: "rdma-kernel", name: "power", wreck: on(1, func(h *Host) {
			lines("mlx5_core " + h.Facts.RDMA.Devices[2].BDF + ": Detected insufficient power on the PCIe slot (27W).")(h)
		}), verdict: Warn, blamed: "gpu02", title: "too little power", evidence: "(27W)"},
		{check: "rdma-kernel", name: "heat", wreck: on(1, func(h *Host) {
			lines("mlx5_core " + h.Facts.RDMA.Devices[2].BDF + ": Port module event[error]: module 0, Cable error, High Temperature")(h)
		}), verdict: Warn, blamed: "gpu02", title: "too hot"},
		{check: "rdma-kernel", name: "peermem", wreck: on(1, lines("nvidia_peermem: ERROR detected invalid context, skipping further processing")), verdict: Warn, blamed: "gpu02", title: "nvidia_peermem"},
		{check: "rdma-kernel", name: "limited", wreck: on(1, limited), verdict: Warn, blamed: "gpu02", title: "limited PCIe bandwidth"},
		{check: "rdma-kernel", name: "limited-by-design", wreck: all(limited)},
		{check: "rdma-kernel", name: "not-readable", wreck: all(func(h *Host) { h.Facts.Unknown = map[string]string{facts.ItemKernel: "permission denied"} }), also: "gpu01 gpu02 gpu03 gpu04"},
		{check: "rdma-kernel", name: "other-card", wreck: on(1, lines("mlx5_core 0000:f1:00.0: Detected insufficient power on the PCIe slot (27W)."))},
		{check: "rdma-counters", name: "link-down", wreck: on(1, delta("link_downed")), verdict: NoHost, blamed: "gpu02", title: "mlx5_4: link_downed +3"},
		{check: "rdma-counters", name: "symbols", wreck: on(1, delta("symbol_error")), verdict: Warn, blamed: "gpu02"},
		{check: "rdma-counters", name: "old-errors", wreck: all(port(0, func(p *facts.Port) { p.Counters["link_downed"] = 255 }))},
		{check: "rdma-counters", name: "traffic-only", wreck: all(delta("port_rcv_data"))},
	}
}

func rdmaFirings() []firing {
	return append(append(append(rdmaUseFirings(), rdmaPortFirings()...), roceFirings()...), rdmaHostFirings()...)
}

func TestRDMAChecksFire(t *testing.T) {
	runFirings(t, rdmaFirings())
	checkTables(t, "rdma", append(rdmaFirings(), rdmaTrafficFirings()...))
}

func TestRDMAGIDIndex(t *testing.T) {
	port := factstest.RoCE("a", 0).RDMA.Devices[0].Ports[0]
	v6 := port
	v6.GIDs = append(append([]facts.GID(nil), port.GIDs...), facts.GID{Index: 4, GID: "2001:db8::1", Type: "IB/RoCE v1"}, facts.GID{Index: 5, GID: "2001:db8::1", Type: "RoCE v2"})
	for _, row := range []struct {
		name string
		set  map[string]string
		port facts.Port
		want int
	}{
		{"default", nil, port, 3},
		{"index", map[string]string{"NCCL_IB_GID_INDEX": "1"}, port, 1},
		{"index-auto", map[string]string{"NCCL_IB_GID_INDEX": "-1"}, port, 3},
		{"version-1", map[string]string{"NCCL_IB_ROCE_VERSION_NUM": "1"}, port, 2},
		{"v6", map[string]string{"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, v6, 5},
		{"v6-without", map[string]string{"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, port, 0},
		{"range", map[string]string{"NCCL_IB_ADDR_RANGE": "10.100.0.0/16"}, port, 3},
		{"range-of-others", map[string]string{"NCCL_IB_ADDR_RANGE": "172.16.0.0/12"}, port, 0},
		{"range-of-other-family", map[string]string{"NCCL_IB_ADDR_RANGE": "2001:db8::/32"}, port, 3},
		{"only-v2-first", nil, facts.Port{Layer: ethernet, GIDs: []facts.GID{{Index: 1, GID: "::ffff:10.0.0.1", Type: "RoCE v2"}, {Index: 2, GID: "::ffff:10.0.0.1", Type: "RoCE v1"}}}, 1},
		{"infiniband", map[string]string{"NCCL_IB_GID_INDEX": "3"}, facts.Port{Layer: infiniBand}, 0},
		{"nothing", nil, facts.Port{Layer: ethernet}, 0},
		{"rxe", nil, facts.Port{Layer: ethernet, GIDs: []facts.GID{{Index: 0, GID: "fe80::68a1:fcff:fe93:c62e", Type: "RoCE v2"}, {Index: 1, GID: "::ffff:10.77.0.1", Type: "RoCE v2"}}}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := gidSettings(row.set).choose(&row.port); got != row.want {
				t.Errorf("got %d; want %d", got, row.want)
			}
		})
	}
}

// ibstat reads what ibstat has printed, as far as checks need it.
func ibstat(t *testing.T, name string) []facts.HCA {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{"Active": "ACTIVE", "Down": "DOWN", "Initializing": "INIT"}
	var all []facts.HCA
	var p *facts.Port
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if k, v, ok := strings.Cut(strings.Trim(key, "':"), " "); ok && value == "" {
			key, value = k, strings.Trim(v, "'")
		}
		n, _ := strconv.Atoi(value)
		switch last := len(all) - 1; key {
		case "CA":
			all = append(all, facts.HCA{Name: value, BDF: fmt.Sprintf("0000:%02x:00.0", len(all)+1)})
		case "CA type":
			all[last].Type = value
		case "Firmware version":
			all[last].Firmware = value
		case "Port":
			all[last].Ports = append(all[last].Ports, facts.Port{Num: n})
			p = &all[last].Ports[len(all[last].Ports)-1]
		case "State":
			p.State = states[value]
		case "Physical state":
			p.Phys = value
		case "Rate":
			p.Rate = float64(n)
		case "Base lid":
			p.LID = n
		case "SM lid":
			p.SMLID = n
		case "Link layer":
			p.Layer = value
		}
		if len(all) > 0 {
			all[len(all)-1].Uverbs = "/dev/infiniband/uverbs0"
		}
	}
	return all
}

func TestRDMAOfRealHosts(t *testing.T) {
	real := func(name string) func(h *Host) {
		return func(h *Host) {
			h.Facts.RDMA.Devices = ibstat(t, name)
			for _, d := range h.Facts.RDMA.Devices {
				for k := range d.Ports {
					d.Ports[k].PKeys = []string{"0xffff"}
				}
			}
		}
	}
	runFirings(t, []firing{
		{check: "rdma-layer", name: "dell", wreck: all(real("ibstat-dell.txt")), verdict: Info, blamed: "gpu01 gpu02 gpu03 gpu04",
			evidence: "7 InfiniBand ports and 1 Ethernet port: mlx5_7 Ethernet 100 Gb/s", remedy: "-x NCCL_IB_HCA='=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_10,mlx5_11' (exactly these)"},
		{check: "rdma-count", name: "dell-storage-left-out", wreck: all(both(real("ibstat-dell.txt"), set("NCCL_IB_HCA", "^mlx5_1,mlx5_2,mlx5_7")))},
		{check: "rdma-port", name: "mlx4-all-down", wreck: all(real("ibstat-mlx4.txt")), verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", evidence: "mlx4_0:1 DOWN (Polling)"},
	})
}
