package launcher

import (
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
		want                             string // "" for an error
	}{
		{name: "ssh-server-address", server: "10.0.0.5", want: "10.0.0.5"},
		{name: "ssh-through-a-proxy", server: "127.0.0.1", route: "10.0.0.5", want: "10.0.0.5"},
		{name: "ssh-server-behind-nat", server: "203.0.113.9", route: "192.168.1.5", want: "192.168.1.5"},
		{name: "mapped-ipv4", server: "::ffff:10.0.0.5", want: "10.0.0.5"},
		{name: "link-local-server", server: "fe80::1", route: "192.168.1.5", want: "192.168.1.5"},
		{name: "server-with-zone", server: "fe80::1%eth0", want: "10.0.0.5"},
		{name: "nothing-known", want: "10.0.0.5"},
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
			h := wire.Hello{Interfaces: ifaces, SSHServer: tt.server, RouteAddr: tt.route}
			got, err := hostAddr(h, tt.iface, tt.spec)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
