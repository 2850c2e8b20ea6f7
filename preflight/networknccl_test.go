package preflight

import (
	"testing"

	"gorun/preflight/facts"
)

func TestNetworkValueForAllHosts(t *testing.T) {
	for _, row := range []struct {
		name string
		all  []choice
		want string
	}{
		{"alike", []choice{{[]string{"eth0"}, []string{"lo"}}, {[]string{"eth0"}, []string{"lo", "ib0"}}}, "=eth0"},
		{"prefix", []choice{{[]string{"ens3"}, []string{"lo"}}, {[]string{"ens5"}, []string{"lo", "eth0"}}}, "ens"},
		{"list", []choice{{[]string{"ens3"}, []string{"lo", "ens5x"}}, {[]string{"eno1"}, []string{"lo"}}}, "=eno1,ens3"},
		{"exclusion", []choice{{[]string{"eth0"}, []string{"lo"}}, {[]string{"eth1"}, []string{"lo", "docker0"}}}, "eth"},
		{"swapped", []choice{{[]string{"eth0"}, []string{"eth1"}}, {[]string{"eth1"}, []string{"eth0"}}}, ""},
		{"nothing", []choice{{nil, []string{"eth1"}}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := oneValue(row.all); got != row.want {
				t.Errorf("got %q; want %q", got, row.want)
			}
		})
	}
}

func FuzzNetworkNCCLNames(f *testing.F) {
	for _, list := range []string{"", "eth", "=eth1", "^lo,docker", "^=eth1", "mlx5_0:1,mlx5_2", "^lo,^docker", "mlx5_0:99999999999999999999"} {
		f.Add(list, "eth1", "mlx5_0", 1)
	}
	f.Fuzz(func(t *testing.T, list, a, b string, port int) {
		parseNCCLNames(list).match(a, port)
		all := []choice{{[]string{a}, []string{b}}, {[]string{b}, []string{list}}}
		if value := oneValue(all); value != "" && !fits(value, all) {
			t.Errorf("got %q, which does not fit %q", value, all)
		}
		n := facts.Net{PortRange: [2]int{port, port + 100}, Reserved: list}
		if free := freePorts(n); free < 0 || free > 101 {
			t.Errorf("got %d free ports of 101", free)
		}
	})
}

func TestNetworkNCCLNames(t *testing.T) {
	for _, row := range []struct {
		list, name string
		port       int
		want       bool
	}{
		{"", "eth0", -1, true}, {"eth", "eth10", -1, true}, {"eth1", "eth10", -1, true}, {"=eth1", "eth10", -1, false},
		{"=eth1", "eth1", -1, true}, {"^lo,docker", "docker0", -1, false}, {"^lo,docker", "eth0", -1, true}, {"^=eth1", "eth10", -1, true},
		{"^lo,^docker", "docker0", -1, true}, {"mlx5_0:1,mlx5_2", "mlx5_0", 2, false}, {"mlx5_0:1", "mlx5_0", 1, true},
		{"^mlx5_0:2", "mlx5_0", 1, true}, {"^mlx5_0:2", "mlx5_0", 2, false}, {",,", "x", 1, true}, {"^", "x", 1, false}, {"mlx5_0:99999999999999999999", "mlx5_0", 1, false},
	} {
		if got := parseNCCLNames(row.list).match(row.name, row.port); got != row.want {
			t.Errorf("%q, %s:%d: got %v; want %v", row.list, row.name, row.port, got, row.want)
		}
	}
}
