package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorun/preflight/facts/factstest"
	"gorun/preflight/probe"
)

// runFirings is TestChecksFire for other tables. Rows of one host and of two are softened
// as Judge does.
func runFirings(t *testing.T, rows []firing) {
	for _, row := range rows {
		t.Run(row.check+"/"+row.name, func(t *testing.T) {
			build, n := row.build, row.hosts
			if build == nil {
				build = factstest.H100
			}
			if n == 0 {
				n = 4
			}
			in := cluster(build, n)
			row.wreck(&in)
			row.compare(t, Judge(in))
		})
	}
}

// checkTables makes sure that every check of an area has a row that makes it fire.
func checkTables(t *testing.T, area string, rows []firing) {
	for _, c := range Checks() {
		if c.Area != area {
			continue
		}
		fires := slices.ContainsFunc(rows, func(r firing) bool { return r.check == c.ID && r.verdict != "" && r.verdict != Unknown })
		if !fires {
			t.Errorf("check %q: no test makes it fire", c.ID)
		}
		if n := strings.Count(c.Explain, ". ") + 1; n < 3 || n > 9 {
			t.Errorf("check %q: got %d sentences that explain it; want 3 to 8", c.ID, n)
		}
	}
}

// linked adds what a full probe finds between healthy hosts; ring, a quick one.
func linked(in *Input) {
	n := len(in.Hosts)
	for i := range in.Hosts {
		in.Hosts[i].Links = nil
		for j := range n {
			if i != j {
				in.Hosts[i].Links = append(in.Hosts[i].Links, goodLink(i, j))
			}
		}
	}
}

func ring(in *Input) {
	n := len(in.Hosts)
	for i := range in.Hosts {
		for _, j := range []int{(i + 1) % n, (i + n - 1) % n} {
			if j != i && !slices.ContainsFunc(in.Hosts[i].Links, func(l probe.Link) bool { return l.Host == j }) {
				in.Hosts[i].Links = append(in.Hosts[i].Links, probe.Link{Host: j, Connect: 200e3, MTU: 1500})
			}
		}
	}
}

func goodLink(i, j int) probe.Link {
	noise := (i*7 + j*13) % 10
	return probe.Link{
		Host: j, Connect: 90e3, Latency: 40e3 + time.Duration(1e3*noise), Median: 50e3, MTU: 1500,
		BytesPerSecond: 2.9e9 + 1e7*float64(noise),
	}
}

// quiet are healthy clusters, with links and without.
func TestNetworkChecksAreSilent(t *testing.T) {
	builds := map[string]builder{"h100": factstest.H100, "roce": factstest.RoCE, "plain": factstest.Plain}
	for name, build := range builds {
		for _, n := range []int{0, 1, 2, 3, 4, 16} {
			for kind, link := range map[string]func(*Input){"none": func(*Input) {}, "ring": ring, "full": linked} {
				t.Run(fmt.Sprintf("%s-%d-%s", name, n, kind), func(t *testing.T) {
					in := cluster(build, n)
					link(&in)
					for _, f := range Judge(in).Findings {
						t.Errorf("got %+v", f)
					}
				})
			}
		}
	}
}

func TestNetworkGoodTexts(t *testing.T) {
	for _, row := range []struct {
		build    builder
		id, want string
	}{
		{factstest.H100, "rdma-count", "8 ports of 400 Gb/s InfiniBand on each host"},
		{factstest.RoCE, "rdma-gid", "NCCL will use GID 3 (RoCE v2) on each HCA"},
		{factstest.RoCE, "rdma-subnet", "8 networks, 10.100.0.0/16 to 10.107.0.0/16"},
		{factstest.H100, "interface", "eth0 in 10.0.0.0/16; NCCL_SOCKET_IFNAME='=eth0' (exactly eth0) holds on all hosts"},
		{factstest.H100, "connect", "240 connections between hosts"},
		{factstest.H100, "latency", "round trips of 44µs"},
		{factstest.Plain, "bandwidth", "2950 MB/s typical of one connection"},
	} {
		in := cluster(row.build, 16)
		linked(&in)
		r := Judge(in)
		for _, c := range r.Checks {
			if slices.Contains([]string{"network", "rdma", "speed"}, c.Area) {
				t.Logf("%-14s %-8s %s", c.ID, c.Verdict, c.Text)
				if c.Text == "" {
					t.Errorf("%s: it says nothing when all is well", c.ID)
				}
			}
			if c.ID == row.id && c.Text != row.want {
				t.Errorf("%s: got %q; want %q", c.ID, c.Text, row.want)
			}
		}
	}
}
