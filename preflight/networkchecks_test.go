package preflight

import (
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
	"gorun/preflight/probe"
)

// fail makes the links from host i to host j bad.
func fail(in *Input, i, j int, kind probe.Failure) {
	for k := range in.Hosts[i].Links {
		if in.Hosts[i].Links[k].Host == j {
			in.Hosts[i].Links[k] = probe.Link{Host: j, Failure: kind, Text: "no answer within 3s"}
		}
	}
}

// deaf makes all links to host j bad.
func deaf(in *Input, j int, kind probe.Failure) {
	for i := range in.Hosts {
		fail(in, i, j, kind)
	}
}

func set(name, value string) func(h *Host) {
	return func(h *Host) { h.Settings = map[string]string{name: value} }
}

// iface returns a wreck of a host's interface.
func iface(name string, wreck func(i *facts.Interface)) func(h *Host) {
	return func(h *Host) {
		for k := range h.Facts.Net.Interfaces {
			if h.Facts.Net.Interfaces[k].Name == name {
				wreck(&h.Facts.Net.Interfaces[k])
			}
		}
	}
}

// before puts an interface in front of eth0.
func before(i facts.Interface) func(h *Host) {
	return func(h *Host) {
		n := &h.Facts.Net
		n.Interfaces = append([]facts.Interface{n.Interfaces[0], i}, n.Interfaces[1:]...)
	}
}

// rename gives eth0 another name.
func rename(name string) func(h *Host) {
	return func(h *Host) {
		iface("eth0", func(i *facts.Interface) { i.Name = name })(h)
		for k := range h.Facts.Net.Routes {
			if h.Facts.Net.Routes[k].Interface == "eth0" {
				h.Facts.Net.Routes[k].Interface = name
			}
		}
	}
}

func usb(addr string) facts.Interface {
	return facts.Interface{Name: "enx0", Kind: "physical", Type: 1, Up: true, Running: true, MTU: 1500, MAC: "be:3a:f2:b6:05:9f", Addrs: []string{addr}}
}

func nameFirings() []firing {
	// every host looks up gpu03.
	lookup := func(addr string) func(h *Host) {
		return func(h *Host) {
			h.Facts.Net.Names = append(h.Facts.Net.Names, facts.NameAddr{Name: "shared", Addrs: []string{addr}})
		}
	}
	unresolved := func(h *Host) {
		h.Facts.Net.Names = append(h.Facts.Net.Names, facts.NameAddr{Name: "shared", Trouble: "no such host"})
	}
	return []firing{
		{check: "names", name: "odd", wreck: func(in *Input) { all(lookup("10.0.0.3"))(in); in.Hosts[1].Facts.Net.Names[1].Addrs[0] = "10.0.9.9" },
			verdict: Warn, blamed: "gpu02", title: "gpu02 knows names by other addresses than most hosts: shared is 10.0.9.9, elsewhere 10.0.0.3"},
		{check: "names", name: "two-hosts", hosts: 2, wreck: func(in *Input) { on(0, lookup("10.0.0.3"))(in); on(1, lookup("10.0.0.4"))(in) },
			verdict: Warn, blamed: "gpu01 gpu02", title: `hosts differ in what "shared" means`},
		{check: "names", name: "one-does-not-know", wreck: func(in *Input) { all(lookup("10.0.0.3"))(in); in.Hosts[2].Facts.Net.Names = nil; on(2, unresolved)(in) },
			verdict: Warn, blamed: "gpu03", title: "gpu03 does not know names that other hosts know: shared"},
		{check: "names", name: "nobody-knows", wreck: all(unresolved)},
		{check: "names", name: "own-name-is-loopback", wreck: func(in *Input) {
			all(func(h *Host) { h.Facts.Net.Names[0].Addrs = []string{"127.0.1.1"} })(in)
			for i := range in.Hosts[1:] {
				in.Hosts[i+1].Facts.Net.Names = append(in.Hosts[i+1].Facts.Net.Names, facts.NameAddr{Name: "gpu01", Addrs: []string{"10.0.0.1"}})
			}
		}},
		{check: "names", name: "own-name-by-all-addresses", wreck: func(in *Input) {
			for i := range in.Hosts {
				h := &in.Hosts[i].Facts.Net
				h.Names = nil
				for k, other := range in.Hosts {
					addrs := []string{other.Facts.Addr}
					if k == i {
						addrs = []string{"172.17.0.1", other.Facts.Addr, "fe80::1"}
					}
					h.Names = append(h.Names, facts.NameAddr{Name: other.Name, Addrs: addrs})
				}
			}
		}},
		{check: "names", name: "known-to-itself-only", wreck: func(in *Input) {
			for i := range in.Hosts {
				for k, other := range in.Hosts {
					if k != i {
						in.Hosts[i].Facts.Net.Names = append(in.Hosts[i].Facts.Net.Names, facts.NameAddr{Name: other.Name, Trouble: noSuchHost})
					}
				}
			}
		}},
		{check: "names", name: "no-answer-in-time", wreck: func(in *Input) {
			all(lookup("10.0.0.3"))(in)
			in.Hosts[1].Facts.Net.Names[1] = facts.NameAddr{Name: "shared", Trouble: "no answer in 1s"}
		}},
		{check: "names", name: "other-machine", wreck: func(in *Input) {
			all(func(h *Host) {
				h.Facts.Net.Names = append(h.Facts.Net.Names, facts.NameAddr{Name: "gpu03", Addrs: []string{"10.0.0.3"}})
			})(in)
			in.Hosts[1].Facts.Net.Names[1].Addrs[0] = "10.0.0.4"
		}, verdict: Warn, blamed: "gpu02", title: "gpu03 is 10.0.0.4, elsewhere 10.0.0.3"},
		{check: "names", name: "unknown", wreck: unknownOn(1, facts.ItemNames), verdict: Unknown, blamed: "gpu02"},
		{check: "own-name", name: "loopback", wreck: on(3, func(h *Host) { h.Facts.Net.OwnName = []string{"127.0.1.1"} }),
			verdict: Warn, blamed: "gpu04", title: "gpu04 finds a loopback address under the own host name: gpu04 is 127.0.1.1", remedy: "/etc/hosts"},
		{check: "own-name", name: "loopback-on-one-host", hosts: 1, wreck: on(0, func(h *Host) { h.Facts.Net.OwnName = []string{"127.0.1.1"} })},
		{check: "own-name", name: "as-debian-has-it", wreck: all(func(h *Host) { h.Facts.Net.OwnName = []string{"127.0.1.1"} }), verdict: Info, blamed: "gpu01 gpu02 gpu03 gpu04"},
		{check: "own-name", name: "not-known", wreck: on(3, func(h *Host) { h.Facts.Net.OwnName = nil }), verdict: Info, blamed: "gpu04"},
		{check: "address", name: "twice", wreck: func(in *Input) {
			in.Hosts[2].Facts.Addr = in.Hosts[1].Facts.Addr
			in.Hosts[2].Facts.Net.Interfaces[1].Addrs[0] = in.Hosts[1].Facts.Net.Interfaces[1].Addrs[0]
		}, verdict: NoCluster, blamed: "gpu02 gpu03", title: "gpu[02-03] have one address, 10.0.0.2", evidence: "eth0 02:00:00:02:00:00", remedy: "; or go on without one of both, which --drop-bad cannot choose: --exclude gpu02, or --exclude gpu03"},
		{check: "address", name: "twice-beside", wreck: func(in *Input) {
			on(0, before(usb("192.168.5.1/24")))(in)
			on(1, before(usb("192.168.5.1/24")))(in)
			all(set("NCCL_SOCKET_IFNAME", "=eth0"))(in)
		}, verdict: Warn, blamed: "gpu01 gpu02", title: "192.168.5.1"},
		{check: "address", name: "inside-of-each", wreck: func(in *Input) {
			all(before(usb("192.168.5.1/24")))(in)
			all(set("NCCL_SOCKET_IFNAME", "=eth0"))(in)
		}},
		{check: "mac", name: "copied", wreck: on(1, iface("eth0", func(i *facts.Interface) { i.MAC = "02:00:00:00:00:00" })),
			verdict: Warn, blamed: "gpu01 gpu02", title: "gpu[01-02] have one hardware address, 02:00:00:00:00:00"},
		{check: "mac", name: "of-bmc", wreck: all(before(usb("169.254.3.1/16")))},
	}
}

func interfaceFirings() []firing {
	return []firing{
		{check: "interface", name: "missing", wreck: func(in *Input) { all(set("NCCL_SOCKET_IFNAME", "=eth0"))(in); on(2, rename("ens3"))(in) },
			verdict: NoHost, blamed: "gpu03", title: "gpu03 has no interface that NCCL_SOCKET_IFNAME='=eth0' matches", evidence: "it has ens3, docker0"},
		{check: "interface", name: "missing-everywhere", wreck: func(in *Input) { in.Job.Interface = "eth7" },
			verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", title: "gpu[01-04] have no interface that --interface eth7 matches"},
		{check: "interface", name: "down", wreck: func(in *Input) {
			in.Job.Interface = "eth0"
			on(1, iface("eth0", func(i *facts.Interface) { i.Up, i.Running = false, false }))(in)
		}, verdict: NoHost, blamed: "gpu02", title: "gpu02 has interface eth0 down, which --interface eth0 names", remedy: "on gpu02: ip link set eth0 up"},
		{check: "interface", name: "no-link", wreck: func(in *Input) {
			in.Job.Interface = "eth0"
			on(1, iface("eth0", func(i *facts.Interface) { i.Running = false }))(in)
		}, verdict: NoHost, blamed: "gpu02", title: "gpu02 has no link on interface eth0"},
		{check: "interface", name: "no-address", wreck: func(in *Input) {
			in.Job.Interface = "eth0"
			on(1, iface("eth0", func(i *facts.Interface) { i.Addrs = nil }))(in)
		}, verdict: NoHost, blamed: "gpu02", title: "gpu02 has no address on interface eth0"},
		{check: "interface", name: "docker-for-all", wreck: func(in *Input) {
			all(set("NCCL_SOCKET_IFNAME", "^lo,eth"))(in)
			all(iface("docker0", func(i *facts.Interface) { i.Running = true }))(in)
		}, verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04", title: "reach no other host by docker0"},
		{check: "interface", name: "nothing-leads-out", wreck: on(2, iface("eth0", func(i *facts.Interface) { i.Addrs = []string{"169.254.7.7/16"} })),
			verdict: NoHost, blamed: "gpu03", title: "gpu03 has no interface that leads to the other hosts"},
		{check: "interface", name: "nothing-leads-out-but-it-is-reached", wreck: func(in *Input) {
			on(2, iface("eth0", func(i *facts.Interface) { i.Addrs = []string{"169.254.7.7/16"} }))(in)
			in.Hosts[0].Links = []probe.Link{{Host: 2}}
		}, verdict: Warn, blamed: "gpu03"},
		{check: "interface", name: "bmc-of-two-hosts", hosts: 2, wreck: all(before(facts.Interface{
			Name: "enx0", Kind: "physical", Driver: "cdc_ether", Up: true, Running: true, Addrs: []string{"192.168.5.1/24"},
		})), verdict: Warn, blamed: "gpu01 gpu02", title: "NCCL would take first"},
		{check: "address", name: "bmc-of-two-hosts", hosts: 2, wreck: all(before(facts.Interface{
			Name: "enx0", Kind: "physical", Driver: "cdc_ether", Up: true, Running: true, Addrs: []string{"192.168.5.1/24"},
		}))},
		{check: "interface", name: "first-is-wrong", wreck: on(1, before(usb("192.168.5.1/24"))),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has an interface that NCCL would take first, but that other hosts cannot reach: enx0 192.168.5.1/24", remedy: "-x NCCL_SOCKET_IFNAME='=eth0' (exactly eth0)"},
		{check: "interface", name: "first-is-inside-of-each", wreck: all(before(usb("192.168.5.1/24"))),
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "NCCL would take first", remedy: "-x NCCL_SOCKET_IFNAME='=eth0' (exactly eth0)"},
		{check: "interface", name: "names-differ", wreck: func(in *Input) { on(1, rename("ens3"))(in); on(2, rename("eno1"))(in) }},
		{check: "interface", name: "names-differ-and-first-is-wrong", wreck: func(in *Input) {
			on(1, rename("ens3"))(in)
			on(0, before(usb("192.168.5.1/24")))(in)
		}, verdict: Warn, blamed: "gpu01", remedy: "-x NCCL_SOCKET_IFNAME='=ens3,eth0' (exactly these)"},
		{check: "interface", name: "other-network-without-route", wreck: func(in *Input) {
			in.Job.Interface = "eth0"
			on(1, iface("eth0", func(i *facts.Interface) { i.Addrs = []string{"10.9.0.2/16"} }))(in)
			in.Hosts[1].Facts.Addr, in.Hosts[1].Facts.Net.Routes = "10.9.0.2", nil
		}, verdict: Warn, blamed: "gpu02", title: "gpu02 has the interface in another network than other hosts, without a route"},
		{check: "interface", name: "routed", wreck: on(1, func(h *Host) {
			iface("eth0", func(i *facts.Interface) { i.Addrs = []string{"10.9.0.2/16"} })(h)
			h.Facts.Addr = "10.9.0.2"
		})},
		{check: "interface", name: "veth-of-a-container", wreck: all(iface("eth0", func(i *facts.Interface) { i.Kind = "veth" }))},
		{check: "interface", name: "unknown", wreck: unknownOn(1, facts.ItemNet), verdict: Unknown, blamed: "gpu02"},
		{check: "ports", name: "few", wreck: on(1, func(h *Host) { h.Facts.Net.PortRange = [2]int{50000, 50099} }),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has few ports for connections: 100 of 50000-50099, 1024 are needed", remedy: "sysctl -w"},
		{check: "ports", name: "reserved", wreck: on(1, func(h *Host) { h.Facts.Net.Reserved = "8080,30000-60000" }), verdict: Warn, blamed: "gpu02", title: "999 of 32768-60999"},
		{check: "ports", name: "low", wreck: on(1, func(h *Host) { h.Facts.Net.PortRange[0] = 80 }), verdict: Warn, blamed: "gpu02", title: "ports of services"},
		{check: "ports", name: "differ", wreck: on(1, func(h *Host) { h.Facts.Net.PortRange[0] = 20000 }), verdict: Info, blamed: "gpu02", title: "20000-60999"},
		{check: "mtu", name: "odd", wreck: on(1, iface("eth0", func(i *facts.Interface) { i.MTU = 9000 })),
			verdict: Warn, blamed: "gpu02", title: "gpu02 has MTU 9000, the others have 1500"},
		{check: "mtu", name: "two", hosts: 2, wreck: on(1, iface("eth0", func(i *facts.Interface) { i.MTU = 9000 })), verdict: Warn, blamed: "gpu01 gpu02"},
		{check: "mtu", name: "of-another-interface", wreck: on(1, iface("docker0", func(i *facts.Interface) { i.MTU = 9000 }))},
	}
}

func connectFirings() []firing {
	full := func(wreck func(in *Input)) func(in *Input) { return func(in *Input) { linked(in); wreck(in) } }
	quick := func(wreck func(in *Input)) func(in *Input) { return func(in *Input) { ring(in); wreck(in) } }
	lossy := func(in *Input, i, j int) {
		for k := range in.Hosts[i].Links {
			if l := &in.Hosts[i].Links[k]; l.Host == j || j < 0 {
				l.MTUFailed, l.MTU = true, 9000
			}
		}
	}
	return []firing{
		{check: "connect", name: "dropped-to-one-quick", wreck: quick(func(in *Input) { deaf(in, 1, probe.Dropped) }),
			verdict: NoHost, blamed: "gpu02", title: "no host reaches gpu02: dropped", evidence: "gpu01 -> gpu02: dropped, no answer within 3s (reverse ok)", remedy: "open tcp 32768-60999 on gpu02"},
		{check: "connect", name: "dropped-to-one-full", hosts: 16, wreck: full(func(in *Input) { deaf(in, 1, probe.Dropped) }), verdict: NoHost, blamed: "gpu02", evidence: "and 3 more"},
		{check: "connect", name: "from-one", wreck: full(func(in *Input) {
			for j := range in.Hosts {
				fail(in, 2, j, probe.Unreachable)
			}
		}), verdict: NoHost, blamed: "gpu03", title: "gpu03 reaches no other host: unreachable"},
		{check: "connect", name: "both-ways", hosts: 3, wreck: full(func(in *Input) {
			deaf(in, 2, probe.Dropped)
			fail(in, 2, 0, probe.Dropped)
			fail(in, 2, 1, probe.Dropped)
		}), verdict: NoHost, blamed: "gpu03", title: "connections to and from gpu03 fail", evidence: "(reverse too)"},
		{check: "connect", name: "two-neighbours", hosts: 8, wreck: quick(func(in *Input) { deaf(in, 4, probe.Rejected); deaf(in, 5, probe.Rejected) }),
			verdict: NoHost, blamed: "gpu05 gpu06", title: "no host reaches gpu[05-06]: rejected by a firewall"},
		{check: "connect", name: "most-of-one", hosts: 8, wreck: full(func(in *Input) {
			for i := range 5 {
				fail(in, i, 7, probe.Dropped)
			}
		}), verdict: NoHost, blamed: "gpu08"},
		{check: "connect", name: "one-pair", wreck: full(func(in *Input) { fail(in, 1, 3, probe.Refused) }),
			verdict: NoCluster, blamed: "gpu02 gpu04", title: "gpu02 -> gpu04: refused, nobody listens there (reverse ok)", remedy: "cannot choose: --exclude gpu02, or --exclude gpu04"},
		{check: "connect", name: "one-pair-both-ways", wreck: full(func(in *Input) { fail(in, 1, 3, probe.Dropped); fail(in, 3, 1, probe.Dropped) }),
			verdict: NoCluster, blamed: "gpu02 gpu04", title: "gpu02 -> gpu04: dropped, no answer comes (reverse too)", evidence: "gpu04 -> gpu02: ", remedy: "(needs root); or go on without one of both, which --drop-bad cannot choose: --exclude gpu02, or --exclude gpu04"},
		{check: "connect", name: "two-hosts", hosts: 2, wreck: quick(func(in *Input) { fail(in, 0, 1, probe.Rejected) }),
			verdict: NoCluster, blamed: "gpu01 gpu02", title: "gpu01 -> gpu02: rejected by a firewall (reverse ok)", remedy: "on gpu02 for the other hosts, in the firewall there and in the network's (needs root)"},
		{check: "connect", name: "all", hosts: 6, wreck: quick(func(in *Input) {
			for j := range in.Hosts {
				deaf(in, j, probe.Dropped)
			}
		}), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04 gpu05 gpu06", title: "most connections between hosts fail: 12 of 12"},
		{check: "connect", name: "proxy", wreck: quick(func(in *Input) { deaf(in, 1, probe.Closed) }), verdict: NoHost, blamed: "gpu02", title: "accepts and closes, as a proxy does", remedy: "side-car"},
		{check: "connect", name: "stranger", wreck: quick(func(in *Input) { deaf(in, 1, probe.Stranger) }), verdict: NoHost, blamed: "gpu02", title: "a stranger answers"},
		{check: "connect", name: "other-host", wreck: quick(func(in *Input) { deaf(in, 1, probe.OtherHost) }), verdict: NoHost, blamed: "gpu02", title: "another host answers"},
		{check: "connect", name: "not-tried", wreck: quick(func(in *Input) { fail(in, 1, 2, probe.Stopped) }), verdict: Unknown, blamed: "gpu02"},
		{check: "interface", name: "one-host-answers", build: factstest.Plain, wreck: func(in *Input) {
			for i := range in.Hosts[1:] {
				in.Hosts[1+i] = Host{Name: in.Hosts[1+i].Name, Unreached: "timed out"}
			}
			// A container, and gorun chooses no address where nobody is to be met.
			in.Hosts[0].Facts.Addr, in.Hosts[0].Facts.Net.Routes = "", nil
			iface("eth0", func(i *facts.Interface) { i.Kind = "veth" })(&in.Hosts[0])
		}},
		{check: "connect", name: "unreached-host", wreck: func(in *Input) {
			ring(in)
			deaf(in, 1, probe.Dropped)
			in.Hosts[1].Unreached = "timed out"
		}, also: "gpu02"},
		{check: "connect", name: "nonsense", wreck: func(in *Input) {
			in.Hosts[1].Links = []probe.Link{{Host: -1, Failure: probe.Dropped}, {Host: 99, Failure: probe.Dropped}, {Host: 1, Failure: probe.Dropped}}
		}},
		{check: "mtu-path", name: "to-one", wreck: quick(func(in *Input) {
			for i := range in.Hosts {
				lossy(in, i, 2)
			}
		}), verdict: NoHost, blamed: "gpu03", title: "packets of full size to gpu03 get lost", evidence: "gpu02 -> gpu03: small packets pass, those of 9000 bytes are lost"},
		{check: "mtu-path", name: "from-one", wreck: quick(func(in *Input) { lossy(in, 2, -1) }), verdict: NoHost, blamed: "gpu03", title: "packets of full size from gpu03"},
		{check: "mtu-path", name: "to-and-from-one", wreck: quick(func(in *Input) {
			lossy(in, 2, -1)
			for i := range in.Hosts {
				lossy(in, i, 2)
				for k := range in.Hosts[i].Links {
					if l := &in.Hosts[i].Links[k]; l.MTUFailed {
						l.Text = "as the probe says it"
					}
				}
			}
		}), verdict: NoHost, blamed: "gpu03", title: "packets of full size to and from gpu03 get lost", evidence: "gpu02 -> gpu03: as the probe says it (reverse too)"},
		{check: "mtu-path", name: "one-way", wreck: full(func(in *Input) { lossy(in, 2, 0) }), verdict: NoCluster, blamed: "gpu01 gpu03", title: "get lost on 1 way between hosts", remedy: "--exclude gpu01, or --exclude gpu03"},
		{check: "mtu-path", name: "all", wreck: quick(func(in *Input) {
			for i := range in.Hosts {
				lossy(in, i, -1)
			}
		}), verdict: NoCluster, blamed: "gpu01 gpu02 gpu03 gpu04"},
	}
}

func networkFirings() []firing {
	return append(append(nameFirings(), interfaceFirings()...), connectFirings()...)
}

func TestNetworkChecksFire(t *testing.T) {
	runFirings(t, networkFirings())
	checkTables(t, "network", networkFirings())
}
