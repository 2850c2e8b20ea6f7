package launcher

import (
	"net/netip"
	"strings"
	"testing"

	"gorun/launcher/wire"
)

func TestHostAddr(t *testing.T) {
	ifaces := []wire.Interface{
		{Name: "lo", Addrs: []string{"127.0.0.1", "::1"}},
		{Name: "docker0", Addrs: []string{"172.17.0.1"}},
		{Name: "eth0", Addrs: []string{"fe80::1", "10.0.0.5", "2001:db8::5"}},
		{Name: "ib0", Addrs: []string{"192.168.1.5"}},
		{Name: "six0", Addrs: []string{"fe80::2", "2001:db8::6"}},
	}
	tests := []struct {
		name, server, route, iface, spec string
		others, out                      string
		want                             string // "" for an error
	}{
		{name: "ssh-server-address", server: "10.0.0.5", want: "10.0.0.5"},
		{name: "ssh-through-a-proxy", server: "127.0.0.1", route: "10.0.0.5", want: "10.0.0.5"},
		{name: "ssh-server-behind-nat", server: "203.0.113.9", route: "192.168.1.5", want: "192.168.1.5"},
		{name: "mapped-ipv4", server: "::ffff:10.0.0.5", want: "10.0.0.5"},
		{name: "link-local-server", server: "fe80::1", route: "192.168.1.5", want: "192.168.1.5"},
		{name: "server-with-zone", server: "fe80::1%eth0", want: "10.0.0.5"},
		{name: "nothing-known", want: "10.0.0.5"},
		{name: "default-route", out: "192.168.1.5", want: "192.168.1.5"},
		{name: "default-route-unknown", out: "203.0.113.9", want: "10.0.0.5"},
		{name: "network-of-others", others: "192.168.1.7", out: "10.0.0.5", want: "192.168.1.5"},
		{name: "network-of-most-in-common", others: "192.168.1.7 10.9.0.1", want: "192.168.1.5"},
		{name: "network-of-others-by-ipv6", others: "2001:db8::7", want: "2001:db8::6"},
		{name: "nothing-in-common", others: "203.0.113.9 fd00::1", out: "192.168.1.5", want: "192.168.1.5"},
		{name: "others-are-behind-docker", others: "172.17.0.2", want: "10.0.0.5"},
		{name: "others-have-the-same", others: "10.0.0.5 192.168.1.7", want: "192.168.1.5"},
		{name: "connection-before-others", server: "10.0.0.5", others: "192.168.1.7", want: "10.0.0.5"},
		{name: "own-name-is-loopback", server: "127.0.1.1", route: "127.0.0.1", others: "192.168.1.7", want: "192.168.1.5"},
		{name: "interface-flag", server: "10.0.0.5", iface: "ib0", want: "192.168.1.5"},
		{name: "interface-flag-is-exact", iface: "ib"},
		{name: "interface-flag-before-nccl", iface: "ib0", spec: "eth", want: "192.168.1.5"},
		{name: "nccl-prefix", server: "10.0.0.5", spec: "ib", want: "192.168.1.5"},
		{name: "nccl-exact", spec: "=eth0", want: "10.0.0.5"},
		{name: "nccl-exact-misses", spec: "=eth"},
		{name: "nccl-exclude", spec: "^docker,lo", want: "10.0.0.5"},
		{name: "nccl-list", spec: "xx,ib0", want: "192.168.1.5"},
		{name: "nccl-loopback-by-name", spec: "lo", want: "127.0.0.1"},
		{name: "ipv6-only-interface", iface: "six0", want: "2001:db8::6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := wire.Hello{Interfaces: ifaces, SSHServer: tt.server, RouteAddr: tt.route, OutAddr: tt.out}
			got, err := hostAddr(h, tt.iface, tt.spec, addrsFrom(tt.others))
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// addrsFrom reads addresses with blanks between.
func addrsFrom(text string) []netip.Addr {
	var out []netip.Addr
	for f := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParseAddr(f))
	}
	return out
}

// NCCL's grammar, as its documentation and src/misc/socket.cc have it.
func TestParseIfnames(t *testing.T) {
	tests := []struct {
		spec   string
		match  string
		others string
	}{
		{"eth", "eth eth0 eth1", "ib0 aeth"},
		{"=eth0", "eth0", "eth01 eth1 eth"},
		{"eth,ib", "eth0 ib0", "lo"},
		{"^docker", "eth0 lo", "docker0"},
		{"^=docker0,lo", "docker00 eth0 lo1", "docker0 lo"},
		{"", "eth0 lo", ""},
		{"^", "eth0", ""},
		{",,eth0,", "eth0 eth01", "lo"},
		{"=^eth0", "^eth0", "eth0"},
	}
	for _, tt := range tests {
		f := parseIfnames(tt.spec)
		for name := range strings.FieldsSeq(tt.match) {
			if !f.match(name) {
				t.Errorf("%q does not match %s", tt.spec, name)
			}
		}
		for name := range strings.FieldsSeq(tt.others) {
			if f.match(name) {
				t.Errorf("%q matches %s", tt.spec, name)
			}
		}
	}
}

func FuzzParseIfnames(f *testing.F) {
	for _, spec := range []string{"eth0", "^docker,lo", "=ib0,ib1", "^=x", "", ",", "=", "^^"} {
		f.Add(spec, "eth0")
	}
	f.Fuzz(func(t *testing.T, spec, iface string) {
		names := parseIfnames(spec)
		for _, n := range names.names {
			if n == "" || strings.Contains(n, ",") {
				t.Errorf("%q: name %q", spec, n)
			}
		}
		exact := parseIfnames("=" + iface)
		if iface != "" && !strings.Contains(iface, ",") && !exact.match(iface) {
			t.Errorf("%q does not match itself", iface)
		}
		if rest, ok := strings.CutPrefix(spec, "^"); !ok && len(names.names) > 0 && parseIfnames("^"+spec).match(iface) == names.match(iface) {
			t.Errorf("%q and its opposite agree on %q", spec, iface)
		} else if ok && parseIfnames(rest).exclude && !strings.HasPrefix(rest, "^") {
			t.Errorf("%q excludes", rest)
		}
		// Whatever is asked for, an address that is chosen is one that is there.
		hello := wire.Hello{Interfaces: []wire.Interface{{Name: iface, Addrs: []string{"fe80::1", "10.0.0.1", spec}}}}
		if addr, err := hostAddr(hello, "", spec, addrsFrom("10.0.0.2 fd00::1")); err == nil && addr != "10.0.0.1" && addr != spec {
			t.Errorf("got address %q", addr)
		}
	})
}
