package launcher

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

func TestOffer(t *testing.T) {
	cores := &wire.Hello{Cores: 4}
	gpus := &wire.Hello{Cores: 64, GPUs: 8}
	tests := []struct {
		name  string
		host  hostfile.Host
		hello *wire.Hello
		want  Offer // without the name
		ok    bool
	}{
		{"line", hostfile.Host{Slots: 3, MaxSlots: 5, File: "hosts", Line: 7}, nil, Offer{Slots: 3, Limit: 3, Max: 5, Origin: "hosts:7"}, true},
		{"list", hostfile.Host{Slots: 1, File: "-H", Line: 2}, gpus, Offer{Slots: 1, Limit: 1, Origin: "-H item 2"}, true},
		{"no-slots", hostfile.Host{Slots: 0, File: "hosts", Line: 1}, cores, Offer{Origin: "hosts:1"}, true},
		{"not-known", hostfile.Host{Slots: -1, File: "hosts", Line: 1}, nil, Offer{Slots: -1, Limit: -1, Origin: "hosts:1"}, false},
		{"cores", hostfile.Host{Slots: -1}, cores, Offer{Slots: 4, Limit: 4, Origin: "4 cores"}, true},
		{"gpus", hostfile.Host{Slots: -1}, gpus, Offer{Slots: 8, Limit: 8, Origin: "8 GPUs"}, true},
		{"max-below-cores", hostfile.Host{Slots: -1, MaxSlots: 2}, cores, Offer{Slots: 2, Limit: 2, Max: 2, Origin: "4 cores"}, true},
		{"this-machine", hostfile.Host{Slots: -1, File: thisMachine}, cores, Offer{Slots: 4, Limit: localSlots, Origin: "4 cores, shared by up to 64 ranks"}, true},
		{"this-machine-with-gpus", hostfile.Host{Slots: -1, File: thisMachine}, gpus, Offer{Slots: 8, Limit: 8, Origin: "8 GPUs"}, true},
		{"this-big-machine", hostfile.Host{Slots: -1, File: thisMachine}, &wire.Hello{Cores: 96}, Offer{Slots: 96, Limit: 96, Origin: "96 cores"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := offer(tt.host, tt.hello); got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func hostsOf(slots ...int) []hostfile.Host {
	var out []hostfile.Host
	for i, n := range slots {
		out = append(out, hostfile.Host{Name: string(rune('a' + i)), Slots: n, File: "hosts", Line: i + 1})
	}
	return out
}

func TestNeededHosts(t *testing.T) {
	tests := []struct {
		name string
		job  Job
		want string // names; "" for a SlotsError
	}{
		{"this-machine", Job{Apps: []App{{NP: 2}}}, "localhost"},
		{"all", Job{Apps: []App{{}}, Hosts: hostsOf(1, 1, 1)}, "a b c"},
		{"only-those-with-ranks", Job{Apps: []App{{NP: 3}}, Hosts: hostsOf(2, 2, 2)}, "a b"},
		{"not-those-without-slots", Job{Apps: []App{{}}, Hosts: hostsOf(2, 0, 2)}, "a c"},
		{"all-if-one-is-to-tell", Job{Apps: []App{{NP: 1}}, Hosts: hostsOf(2, 2, -1)}, "a b c"},
		{"by-ppn", Job{Apps: []App{{NP: 3}}, PerHost: 1, Hosts: hostsOf(2, 2, 2, 2)}, "a b c"},
		{"oversubscribed", Job{Apps: []App{{NP: 5}}, Oversubscribe: true, Hosts: hostsOf(2, 0, 2)}, "a c"},
		{"too-many", Job{Apps: []App{{NP: 5}}, Hosts: hostsOf(2, 2)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := tt.job.neededHosts()
			var names []string
			for _, h := range hosts {
				names = append(names, h.Name)
			}
			if _, refused := errors.AsType[*SlotsError](err); strings.Join(names, " ") != tt.want || refused != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", names, err, tt.want)
			}
		})
	}
}

// peersOf makes hosts a, b, … with the given ssh server addresses, which their
// interfaces have; "" is the local host, with address 10.0.0.100.
func peersOf(servers ...string) []peer {
	var out []peer
	for i, s := range servers {
		own := s
		if s == "" {
			own = "10.0.0.100"
		}
		hello := &wire.Hello{SSHServer: s, Port: 20000 + i, Interfaces: []wire.Interface{{Name: "eth0", Addrs: []string{own}}}}
		out = append(out, peer{name: string(rune('a' + i)), hello: hello, local: s == ""})
	}
	return out
}

// withAux gives hosts another interface in front, and those that were reached by loopback
// an address of their own.
func withAux(peers []peer) []peer {
	for i := range peers {
		h := peers[i].hello
		if strings.HasPrefix(h.SSHServer, "127.") {
			h.Interfaces[0].Addrs = []string{fmt.Sprintf("10.0.0.%d", 100+i)}
		}
		h.Interfaces = append([]wire.Interface{{Name: "aux0", Addrs: []string{fmt.Sprintf("192.168.9.%d", 100+i)}}}, h.Interfaces...)
	}
	return peers
}

// evenly is a layout of so many ranks on each host.
func evenly(counts ...int) Layout {
	l := Layout{Count: counts}
	for h, n := range counts {
		for local := range n {
			l.Ranks = append(l.Ranks, Place{Host: h, Local: local})
		}
	}
	return l
}

func TestSurvey(t *testing.T) {
	tests := []struct {
		name        string
		peers       []peer
		layout      Layout
		iface, spec string
		addrs       string // "host: error" for hosts that have none
	}{
		{"two", peersOf("10.0.0.1", "10.0.0.2"), evenly(1, 1), "", "", "10.0.0.1 10.0.0.2"},
		{"one-host", peersOf("10.0.0.1"), evenly(2), "", "", "127.0.0.1"},
		{"one-host-by-interface", peersOf("10.0.0.1"), evenly(2), "eth0", "", "10.0.0.1"},
		{"one-used", peersOf("10.0.0.1", "10.0.0.2"), evenly(0, 2), "", "", " 127.0.0.1"},
		{"local-too", peersOf("10.0.0.1", ""), evenly(1, 1), "", "", "10.0.0.1 10.0.0.100"},
		{"one-tells-nothing", withAux(peersOf("10.0.0.1", "127.0.1.1")), evenly(1, 1), "", "", "10.0.0.1 10.0.0.101"},
		{"none-tells-anything", withAux(peersOf("127.0.1.1", "127.0.1.1")), evenly(1, 1), "", "", "192.168.9.100 192.168.9.101"},
		{"no-such-interface", peersOf("10.0.0.1", "10.0.0.2"), evenly(1, 1), "ib0", "", "a: no interface fits --interface ib0; there are eth0"},
		{"nccl-interface", peersOf("10.0.0.1", "10.0.0.2"), evenly(1, 1), "", "eth", "10.0.0.1 10.0.0.2"},
		{"no-nccl-interface", peersOf("10.0.0.1", "10.0.0.2"), evenly(1, 1), "", "ib", "a: no interface fits NCCL_SOCKET_IFNAME=ib; there are eth0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := survey(tt.peers, tt.layout, tt.iface, tt.spec)
			got := strings.Join(s.addrs, " ")
			if e, ok := errors.AsType[*HostsError](err); ok {
				got = fmt.Sprintf("%s: %v", e.Hosts[0].Host, e.Hosts[0].Err)
				if len(e.Hosts) != 2 || e.Good != 0 {
					t.Errorf("got %+v; want both hosts", e)
				}
			}
			if got != tt.addrs {
				t.Errorf("got %q; want %q", got, tt.addrs)
			}
			for i, n := range tt.layout.Count {
				if want := 20000 + i; err == nil && n > 0 && s.ports[i] != want {
					t.Errorf("port of host %d: got %d; want %d", i, s.ports[i], want)
				}
			}
		})
	}
}

// The local host has no ssh connection of the job's; one that its user came by says
// nothing about the way to the other hosts.
func TestSurveyOfTheLocalHost(t *testing.T) {
	peers := peersOf("127.0.0.9", "")
	peers[1].hello.SSHServer = "192.0.2.7"
	peers[1].hello.Interfaces = append([]wire.Interface{{Name: "pub0", Addrs: []string{"192.0.2.7"}}}, peers[1].hello.Interfaces...)
	if got := routeTo(peers, 1); got != "" {
		t.Errorf("route to a loopback address: got %q; want none", got)
	}
	peers[0].hello.SSHServer = outside(t)
	want := routeTo(peers, 1)
	peers[1].hello.Interfaces = append(peers[1].hello.Interfaces, wire.Interface{Name: "out0", Addrs: []string{want}})
	s, err := survey(peers, evenly(1, 1), "", "eth")
	if err != nil || s.addrs[1] != "10.0.0.100" {
		t.Errorf("by NCCL's name: got %v, %v", s.addrs, err)
	}
	peers[0].hello.Interfaces[0].Addrs = []string{"10.0.0.1"}
	s, err = survey(peers, evenly(1, 1), "", "")
	if err != nil || s.addrs[1] != want {
		t.Errorf("got %v, %v; want %s, on the way to the other host", s.addrs, err, want)
	}
}

// outside returns an address of this machine that is not loopback.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has only loopback addresses")
	return ""
}

// An address by which a host is not reached is nobody's but for want of another, and is
// told wherever it comes from.
func TestSurveyOfAddressesThatMislead(t *testing.T) {
	const itself, others = ", by which other hosts reach only themselves", "; MASTER_ADDR and GORUN_HOST_ADDR are another interface's"
	tests := []struct {
		name        string
		own         string // NCCL_SOCKET_IFNAME of the second host
		iface, spec string
		addrs       string
		notes       []string
	}{
		{"none", "", "", "", "10.0.0.1 10.0.0.2", nil},
		{"host", "lo", "", "", "10.0.0.1 10.0.0.2", []string{"b: NCCL_SOCKET_IFNAME=lo means 127.0.0.1" + itself + ": NCCL hangs" + others}},
		{"host-beside-job", "=lo", "", "eth", "10.0.0.1 10.0.0.2", []string{"b: NCCL_SOCKET_IFNAME==lo means 127.0.0.1" + itself + ": NCCL hangs" + others}},
		{"host-and-a-better-one", "lo,eth0", "", "", "10.0.0.1 10.0.0.2", []string{"b: NCCL_SOCKET_IFNAME=lo,eth0 means 127.0.0.1" + itself + ": NCCL hangs" + others}},
		{"told-before", "", "", "lo", "10.0.0.1 10.0.0.2", nil},
		{"job", "", "", "lo,eth", "10.0.0.1 10.0.0.2", []string{"a, b: NCCL_SOCKET_IFNAME=lo,eth means 127.0.0.1" + itself + ": NCCL hangs" + others}},
		{"bridge-of-each", "", "", "docker", "10.0.0.1 10.0.0.2", []string{"a, b: NCCL_SOCKET_IFNAME=docker means 172.17.0.1" + itself + ": NCCL hangs" + others}},
		{"interface", "", "lo", "", "10.0.0.1 10.0.0.2", []string{"a, b: --interface lo means 127.0.0.1" + itself + others}},
		{"interface-of-its-own", "lo", "eth0", "", "10.0.0.1 10.0.0.2", nil},
		{"interface-with-another", "", "two0", "", "10.1.0.1 10.1.0.2", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			peers := peersOf("10.0.0.1", "10.0.0.2")
			for i := range peers {
				h := peers[i].hello
				h.Interfaces = append([]wire.Interface{
					{Name: "lo", Addrs: []string{"127.0.0.1", "::1"}}, {Name: "docker0", Addrs: []string{"172.17.0.1"}},
					{Name: "two0", Addrs: []string{"127.0.0.2", fmt.Sprintf("10.1.0.%d", i+1)}},
				}, h.Interfaces...)
			}
			peers[1].ifname = tt.own
			s, err := survey(peers, evenly(1, 1), tt.iface, tt.spec)
			if got := strings.Join(s.addrs, " "); got != tt.addrs || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, tt.addrs)
			}
			if !slices.Equal(s.notes, tt.notes) {
				t.Errorf("got notes %q; want %q", s.notes, tt.notes)
			}
		})
	}
	same := peersOf("10.0.2.100", "10.0.2.100") // each in a network of its own, as containers are
	s, err := survey(same, evenly(1, 1), "", "")
	if want := []string{"a, b: there is no other address than 10.0.2.100" + itself}; err != nil || s.addrs[0] != "10.0.2.100" || !slices.Equal(s.notes, want) {
		t.Errorf("one address for all: got %v, %q, %v; want it, and %q", s.addrs, s.notes, err, want)
	}
	for i := range same { // on one machine, whose network they have
		same[i].hello.BootID = "boot"
	}
	if s, err := survey(same, evenly(1, 1), "", ""); err != nil || s.notes != nil {
		t.Errorf("one machine: got %q, %v; want no warning", s.notes, err)
	}
}

func testPlanner() *planner {
	env := []envsync.Var{{Name: "NCCL_DEBUG", Value: "INFO", Origin: "-x"}, {Name: "BIN", Value: "\xff\n", Origin: "-x"}}
	p := &planner{
		hosts: []string{"a", "b", "c"},
		job: Job{
			Apps: []App{{Args: []string{"/bin/a", "x y", "\xff"}}}, Dir: "/work dir", Prefix: "/opt/m p/", Backend: "cpu", Stdin: 2,
			LostAfter: 30 * time.Second, Grace: 5 * time.Second,
		},
		id: "0123456789abcdef", secret: []byte("secret"),
		site: site{addrs: []string{"10.0.0.1", "", "10.0.0.3"}, ifaces: []string{"eth0", "", "ib0"}, ports: []int{20001, 0, 20003}},
		env:  environment{job: env, apps: make([][]envsync.Var, 1)},
	}
	p.lay(evenly(2, 0, 1))
	return p
}

func TestPlan(t *testing.T) {
	p := testPlanner()
	first, second := p.plan(0), p.plan(2)
	got := *second
	got.Ranks, got.Env = nil, nil
	want := wire.Plan{
		JobID: "0123456789abcdef", Secret: []byte("secret"), Size: 3, Nodes: 2, Node: 1,
		PMI:     &wire.PMI{Mapping: "(vector,(0,1,2),(1,1,1))"},
		Prepend: bytesOf([]string{"PATH=/opt/m p/bin", "LD_LIBRARY_PATH=/opt/m p/lib"}),
		Dir:     wire.Bytes("/work dir"), Credit: streamCredit(3), Meet: "10.0.0.1:20001", LostAfter: 30 * time.Second, Grace: 5 * time.Second,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("plan of the second host (-want +got):\n%s", d)
	}
	if !first.HoldPort || first.Node != 0 || len(first.Ranks) != 2 || len(second.Ranks) != 1 {
		t.Errorf("plan of the first host: got %+v", first)
	}
	if got := fmt.Sprintf("%q", first.Env); got != `["NCCL_DEBUG=INFO" "BIN=\xff\n"]` {
		t.Errorf("environment: got %s", got)
	}
	r := second.Ranks[0]
	if got := fmt.Sprintf("%d %q %v", r.Rank, r.Args, r.Stdin); got != `2 ["/bin/a" "x y" "\xff"] true` {
		t.Errorf("rank: got %s", got)
	}
	if first.Ranks[0].Stdin || first.Ranks[1].Rank != 1 {
		t.Errorf("first host's ranks: got %+v", first.Ranks)
	}
}

func TestRankEnv(t *testing.T) {
	p := testPlanner()
	env := texts(p.rankEnv(2))
	for _, want := range []string{
		"GORUN_RANK=2", "GORUN_SIZE=3", "GORUN_LOCAL_RANK=0", "GORUN_LOCAL_SIZE=1", "GORUN_NODE_RANK=1", "GORUN_NODES=2",
		"MASTER_ADDR=10.0.0.1", "MASTER_PORT=20001", "GORUN_HOST_ADDR=10.0.0.3", "GORUN_ENV_DIGEST=" + envsync.DigestOf(nil).String(), "GORUN_BACKEND=cpu",
		"GORUN_STORE=unix:/tmp/gorun-0123456789abcdef/store", "GORUN_JOB_ID=0123456789abcdef",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
}

func TestPlanOfSeveralPrograms(t *testing.T) {
	p := testPlanner()
	p.job.Apps = []App{{Args: []string{"one"}, NP: 1}, {Args: []string{"two"}, NP: 2}}
	p.job.Stdin = StdinAll
	p.job.Apps[1].Dir = "/two"
	p.env.apps = [][]envsync.Var{nil, {{Name: "X", Value: "2"}, {Name: "NCCL_ALGO", Value: "Ring"}}}
	p.env.hosts = map[string][]envsync.Var{"c": {{Name: "NCCL_IB_HCA", Value: "mlx5_1"}}}
	p.layout = Layout{Count: []int{2, 0, 1}, Ranks: []Place{{Host: 0}, {Host: 0, Local: 1, App: 1}, {Host: 2, App: 1}}}
	var got []string
	for _, h := range []int{0, 2} {
		for _, r := range p.plan(h).Ranks {
			env, digest := fmt.Sprintf("%s", r.Env), "?"
			for name, vars := range map[string][]string{"d1": nil, "d2": {"NCCL_ALGO=Ring"}, "d3": {"NCCL_IB_HCA=mlx5_1", "NCCL_ALGO=Ring"}} {
				if strings.Contains(env, "GORUN_ENV_DIGEST="+envsync.DigestOf(vars).String()) {
					digest = name
				}
			}
			got = append(got, fmt.Sprintf("%d:%s:%v:%s:%v:%s", r.Rank, r.Args[0], r.Stdin, r.Dir, strings.HasPrefix(env, "[X=2 "), digest))
		}
	}
	if want := "0:one:true::false:d1 1:two:true:/two:true:d2 2:two:true:/two:true:d3"; strings.Join(got, " ") != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestLookup(t *testing.T) {
	vars := []envsync.Var{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "A", Value: "3"}}
	if got := lookup(vars, "A") + lookup(vars, "B") + lookup(vars, "C"); got != "32" {
		t.Errorf("got %q; want the later A, B, and nothing for C", got)
	}
}

// What is so on one host comes behind the job map, for that host alone.
func TestPlanOfHostsOwn(t *testing.T) {
	p := testPlanner()
	p.env.hosts = map[string][]envsync.Var{"c": {{Name: "NCCL_IB_HCA", Value: "mlx5_1", Origin: "gorun.toml:3"}}}
	for h, want := range map[int]string{0: "NCCL_DEBUG=INFO,BIN=\xff\n", 2: "NCCL_DEBUG=INFO,BIN=\xff\n,NCCL_IB_HCA=mlx5_1"} {
		var got []string
		for _, v := range p.plan(h).Env {
			got = append(got, string(v))
		}
		if s := strings.Join(got, ","); s != want {
			t.Errorf("host %d: got %q; want %q", h, s, want)
		}
	}
}

func TestHostEnvironments(t *testing.T) {
	job := Job{
		Apps:    []App{{Args: []string{"a"}}},
		Env:     envsync.Policy{Environ: []string{"NCCL_IB_HCA=here"}, Config: []envsync.Setting{{Flag: "f:1", Text: "B=file"}}, Set: []envsync.Setting{{Flag: "-x", Text: "C=asked"}}},
		HostEnv: map[string][]envsync.Var{"h": {{Name: "NCCL_IB_HCA", Value: "1", Origin: "f:2"}, {Name: "B", Value: "2", Origin: "f:3"}, {Name: "C", Value: "3", Origin: "f:4"}}},
	}
	env, _, err := job.environment()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(texts(env.hosts["h"]), " "); got != "NCCL_IB_HCA=1 B=2" {
		t.Errorf("got %q; want what -x does not set", got)
	}
	job.HostEnv["h"][1].Value = strings.Repeat("x", envsync.MaxString)
	if _, _, err := job.environment(); err == nil {
		t.Error("got no error of a variable that no program can be given")
	}
}
