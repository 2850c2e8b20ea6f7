package factstest

import (
	"fmt"
	"strings"

	"gorun/preflight/facts"
)

// hca is what HCA k of host i has with either kind of network.
func hca(i, k int, p facts.Port) facts.HCA {
	p.Num, p.State, p.Phys, p.Rate, p.RateText = 1, "ACTIVE", "LinkUp", 400, "400 Gb/sec (4X NDR)"
	p.Counters = map[string]uint64{"link_downed": 0, "symbol_error": 0, "port_rcv_errors": 0, "port_xmit_discards": 0, "out_of_sequence": 0, "port_xmit_data": 1 << 40, "port_rcv_data": 1 << 40}
	return facts.HCA{
		Name: fmt.Sprintf("mlx5_%d", k), BDF: nicBDF(k), Path: nicPath(k), NUMA: numa(k),
		Firmware: "28.41.1000", Type: "MT4129", Board: "MT_0000000838", GUID: quads(guid(i, k)), ImageGUID: quads(guid(i, k)),
		Uverbs: fmt.Sprintf("/dev/infiniband/uverbs%d", k), Speed: "32.0 GT/s PCIe", Width: 16, MaxWidth: 16,
		Ports: []facts.Port{p},
	}
}

func infiniband(i, k int) facts.HCA {
	return hca(i, k, facts.Port{
		Layer: "InfiniBand", LID: rails*i + k + 1, SMLID: 1, PKeys: []string{"0xffff"}, NetDevs: []string{fmt.Sprintf("ib%d", k)},
		GIDs: []facts.GID{{Index: 0, GID: "fe80::" + quads(guid(i, k)), Type: "IB/RoCE v1"}},
	})
}

func ethernet(i, k int) facts.HCA {
	name := railName(k)
	local, ip := fmt.Sprintf("fe80::ff:fe%02x:%x", k+1, i+1), "::ffff:"+addr(10, 100+k, i)
	return hca(i, k, facts.Port{
		Layer: "Ethernet", PKeys: []string{"0xffff"}, NetDevs: []string{name}, MTU: 4096,
		GIDs: []facts.GID{
			{Index: 0, GID: local, Type: "IB/RoCE v1", NetDev: name},
			{Index: 1, GID: local, Type: "RoCE v2", NetDev: name},
			{Index: 2, GID: ip, Type: "IB/RoCE v1", NetDev: name},
			{Index: 3, GID: ip, Type: "RoCE v2", NetDev: name},
		},
	})
}

func railName(k int) string { return fmt.Sprintf("rail%d", k) }

func guid(i, k int) string { return fmt.Sprintf("58a2e103%04x%04x", i+1, k+1) }

// quads writes a GUID as sysfs does.
func quads(guid string) string {
	return strings.Join([]string{guid[:4], guid[4:8], guid[8:12], guid[12:]}, ":")
}

// colons writes a GUID as the end of an InfiniBand interface's address.
func colons(guid string) string {
	var parts []string
	for at := 0; at < len(guid); at += 2 {
		parts = append(parts, guid[at:at+2])
	}
	return strings.Join(parts, ":")
}
