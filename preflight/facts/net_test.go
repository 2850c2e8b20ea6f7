package facts

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestInterfacesAreThoseThatGoFinds compares with package net on this host.
func TestInterfacesAreThoseThatGoFinds(t *testing.T) {
	answer, err := askKernel()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLinks(answer)
	if err != nil {
		t.Fatal(err)
	}
	want, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(n Interface) bool { return n.Name == w.Name })
		if i < 0 {
			t.Errorf("%s is missing", w.Name)
			continue
		}
		var addrs []string
		list, _ := w.Addrs()
		for _, a := range list {
			addrs = append(addrs, a.String())
		}
		slices.Sort(addrs)
		slices.Sort(got[i].Addrs)
		if got[i].MTU != w.MTU || got[i].Up != (w.Flags&net.FlagUp != 0) || !slices.Equal(got[i].Addrs, addrs) || got[i].MAC != w.HardwareAddr.String() && w.Flags&net.FlagLoopback == 0 {
			t.Errorf("got %+v; want %+v with %v", got[i], w, addrs)
		}
	}
}

func TestLinkKind(t *testing.T) {
	for _, test := range []struct {
		driver string
		arp    int
		flags  uint32
		want   string
	}{
		{"", unix.ARPHRD_LOOPBACK, unix.IFF_LOOPBACK, "loopback"},
		{"", unix.ARPHRD_ETHER, 0, ""},
		{"bridge", unix.ARPHRD_ETHER, 0, "bridge"},
		{"openvswitch", unix.ARPHRD_ETHER, 0, "bridge"},
		{"bond", unix.ARPHRD_ETHER, 0, "bond"},
		{"vlan", unix.ARPHRD_ETHER, 0, "vlan"},
		{"veth", unix.ARPHRD_ETHER, 0, "veth"},
		{"wireguard", unix.ARPHRD_NONE, 0, "tunnel"},
		{"tun", unix.ARPHRD_ETHER, 0, "tunnel"},
		{"", unix.ARPHRD_SIT, 0, "tunnel"},
		{"ipoib", unix.ARPHRD_INFINIBAND, 0, "infiniband"},
		{"", unix.ARPHRD_INFINIBAND, 0, "infiniband"},
		{"macvlan", unix.ARPHRD_ETHER, 0, "virtual"},
	} {
		t.Run(test.driver+"-"+test.want, func(t *testing.T) {
			if got := linkKind(test.driver, test.arp, test.flags); got != test.want {
				t.Errorf("got %q; want %q", got, test.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	s := tree(t, map[string]string{
		"/sys/devices/pci0000:00/0000:00:03.0/virtio2/": "", "/sys/bus/virtio/drivers/virtio_net/": "",
		"/sys/class/net/eth0/device":                          "-> ../../../devices/pci0000:00/0000:00:03.0/virtio2",
		"/sys/devices/pci0000:00/0000:00:03.0/virtio2/driver": "-> ../../../../bus/virtio/drivers/virtio_net",
		"/sys/class/net/eth0/speed":                           "25000\n", "/sys/class/net/dummy0/speed": "10\n", "/sys/class/net/bond0/speed": "-1\n",
	})
	for _, test := range []struct{ in, want Interface }{
		{Interface{Name: "eth0"}, Interface{Name: "eth0", Kind: "physical", BDF: "0000:00:03.0", Driver: "virtio_net", Speed: 25000}},
		{Interface{Name: "dummy0"}, Interface{Name: "dummy0", Kind: "virtual"}},
		{Interface{Name: "bond0", Kind: "bond"}, Interface{Name: "bond0", Kind: "bond"}},
		{Interface{Name: "../../etc"}, Interface{Name: "../../etc"}},
	} {
		t.Run(test.want.Name, func(t *testing.T) {
			got := test.in
			describe(s, &got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzLinks(f *testing.F) {
	answer, err := askKernel()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(answer.links, answer.addrs)
	f.Add([]byte{}, []byte{20, 0, 0, 0, 16, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, links, addrs []byte) {
		_, _ = parseLinks(netlink{links, addrs})
	})
}

const (
	someRoutes4 = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	100	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
down0	0000010A	00000000	0000	0	0	0	0000FFFF	0	0	0
*	0000020A	00000000	0200	0	0	0	0000FFFF	0	0	0
broken	0000
`
	someRoutes6 = `fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000001 00000000 00000003     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
`
)

func TestRoutes(t *testing.T) {
	s := tree(t, map[string]string{"/proc/net/route": someRoutes4, "/proc/net/ipv6_route": someRoutes6})
	want := []Route{
		{Prefix: "0.0.0.0/0", Via: "192.0.2.1", Interface: "eth0", Metric: 100},
		{Prefix: "192.0.2.0/24", Interface: "eth0"},
		{Prefix: "fd00::/64", Interface: "eth0", Metric: 256},
		{Prefix: "::/0", Via: "fd00::1", Interface: "eth0", Metric: 1024},
	}
	if diff := cmp.Diff(want, routes(s)); diff != "" {
		t.Error(diff)
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add(someRoutes4)
	f.Add(someRoutes6)
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range append(parseRoutes4(text), parseRoutes6(text)...) {
			if _, err := netip.ParsePrefix(r.Prefix); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

func TestParsePortRange(t *testing.T) {
	for text, want := range map[string][2]int{"32768\t60999\n": {32768, 60999}, "": {}, "9 1": {}, "1 99999": {}, "-1 5": {}} {
		if got := parsePortRange(text); got != want {
			t.Errorf("%q: got %v; want %v", text, got, want)
		}
	}
}

func TestFirewall(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"":          {"/etc/ufw/ufw.conf": "# ENABLED=yes\nENABLED=no\n"},
		"ufw":       {"/etc/ufw/ufw.conf": "ENABLED=yes\n"},
		"firewalld": {"/run/systemd/units/invocation:firewalld.service": "-> 0123"},
		"nftables":  {"/run/systemd/units/invocation:nftables.service": "-> 0123"},
		"iptables":  {"/run/systemd/units/invocation:netfilter-persistent.service": "-> 0123"},
	} {
		if got := firewall(tree(t, files)); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := func(ctx context.Context, name string) ([]netip.Addr, error) {
			switch name {
			case "two":
				return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
			case "none":
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			case "dead":
				return nil, &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
			case "odd":
				return nil, errors.New("server\nmisbehaving")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no answer in 1s"))
		defer cancel()
		names := []string{"two", "none", "dead", "odd"}
		want := []NameAddr{
			{"two", []string{"10.0.0.1", "10.0.0.2"}, ""}, {"none", nil, "no such host"}, {"dead", nil, "the name server does not answer"},
			{"odd", nil, "server misbehaving"},
		}
		for range 3 * lookups { // more than are looked up at a time
			names = append(names, "slow")
			want = append(want, NameAddr{"slow", nil, "no answer in 1s"})
		}
		if diff := cmp.Diff(want, resolveAll(ctx, names, by)); diff != "" {
			t.Error(diff)
		}
	})
}
