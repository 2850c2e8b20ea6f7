package launcher

import (
	"slices"
	"strings"
	"testing"

	"gorun/envsync"
)

func TestPython(t *testing.T) {
	for args, want := range map[string]bool{
		"python train.py": true, "python3": true, "/opt/conda/bin/python3.11 -u x.py": true, "./train.py": true,
		"apptainer exec --nv img.sif python3 train.py": true, "numactl -N 0 python train.py": true,
		"./train": false, "pythonic": false, "python-config": false, "./app settings.py": false, "bash run.sh": false, "hostname": false,
	} {
		if got := (App{Args: strings.Fields(args)}).python(); got != want {
			t.Errorf("%s: got %v; want %v", args, got, want)
		}
	}
}

// What ranks get that nobody has set, by what was asked for.
func TestLack(t *testing.T) {
	python := []App{{Args: []string{"python3", "train.py"}}}
	const both = "GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1"
	tests := []struct {
		name   string
		change func(p *planner)
		want   [2]string // of rank 0 and of rank 2, which is alone on its host
	}{
		{"several-hosts", func(*planner) {}, [2]string{"GLOO_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=ib0"}},
		{"python", func(p *planner) { p.job.Apps = python }, [2]string{both, "GLOO_SOCKET_IFNAME=ib0"}},
		{"bound", func(p *planner) { p.job.Apps, p.job.BindTo = python, BindCore }, [2]string{"GLOO_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=ib0"}},
		{"asked-for", func(p *planner) {
			p.job.Apps = python
			p.env.job = []envsync.Var{{Name: ompThreads, Value: "4"}, {Name: glooInterface, Value: ""}}
		}, [2]string{}},
		{"asked-for-on-a-host", func(p *planner) {
			p.env.hosts = map[string][]envsync.Var{"c": {{Name: glooInterface, Value: "eth1"}}}
		}, [2]string{"GLOO_SOCKET_IFNAME=eth0", ""}},
		{"asked-for-by-the-program", func(p *planner) { p.env.apps = [][]envsync.Var{{{Name: glooInterface, Value: "eth1"}}} }, [2]string{}},
		{"loopback", func(p *planner) { p.site.ifaces = make([]string, 3) }, [2]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := testPlanner()
			tt.change(p)
			for i, rank := range []int{0, 2} {
				if got := strings.Join(texts(p.lack(rank)), " "); got != tt.want[i] {
					t.Errorf("rank %d: got %q; want %q", rank, got, tt.want[i])
				}
			}
		})
	}
	p := testPlanner()
	p.lay(evenly(3))
	if got := p.lack(0); got != nil {
		t.Errorf("on one host: got %q; want nothing", got)
	}
}

// A user may say where ranks meet; what he leaves out, or leaves empty, is gorun's.
func TestMeeting(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"", "MASTER_ADDR=10.0.0.1 MASTER_PORT=20001 hold try 10.0.0.1:20001"},
		{"MASTER_PORT=29500", "MASTER_ADDR=10.0.0.1"},
		{"MASTER_ADDR=gpu1", "MASTER_PORT=20001 hold"},
		{"MASTER_ADDR= MASTER_PORT=", "MASTER_ADDR=10.0.0.1 MASTER_PORT=20001 hold try 10.0.0.1:20001"},
		{"MASTER_ADDR=gpu1 MASTER_PORT=29500", ""},
	} {
		p := testPlanner()
		for _, entry := range strings.Fields(tt.given) {
			name, value, _ := strings.Cut(entry, "=")
			p.env.job = append(p.env.job, envsync.Var{Name: name, Value: value})
		}
		got := slices.DeleteFunc(texts(p.rankEnv(2)), func(e string) bool { return !strings.HasPrefix(e, "MASTER_") })
		if p.plan(0).HoldPort {
			got = append(got, "hold")
		}
		for h := range p.hosts {
			if place := p.plan(h).Meet; place != "" && h > 0 {
				got = append(got, "try "+place)
				break
			} else if place != "" {
				t.Errorf("with %q: rank 0's own host tries %s", tt.given, place)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("with %q: got %q; want %q", tt.given, s, tt.want)
		}
	}
}

func TestCheckLacked(t *testing.T) {
	if err := checkLacked([]string{glooInterface, ompThreads}); err != nil {
		t.Errorf("got %v", err)
	}
	for _, names := range [][]string{{"PATH"}, {""}, slices.Repeat([]string{ompThreads}, maxLacked+1)} {
		if checkLacked(names) == nil {
			t.Errorf("%d names like %q are accepted", len(names), names[0])
		}
	}
}

func TestLintMasterAddr(t *testing.T) {
	for value, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.1.1": true, "::1": true, "0.0.0.0": true, "::ffff:127.0.0.1": true,
		"gpu1": false, "10.0.0.1": false, "": false, "127": false,
	} {
		for hosts, finds := range map[int]bool{1: false, 2: want} {
			job := Job{Hosts: hostsOf(slices.Repeat([]int{1}, hosts)...), Apps: []App{{Args: []string{"a"}, Set: []envsync.Setting{{Flag: "-x", Text: "MASTER_ADDR=" + value}}}}}
			env, _, err := job.build()
			if err != nil {
				t.Fatal(err)
			}
			if got := job.lint(env); (len(got) == 1) != finds {
				t.Errorf("%q on %d hosts: got %v; want a finding: %v", value, hosts, got, finds)
			}
		}
	}
}
func TestMeetElsewhere(t *testing.T) {
	peers := append(withAux(peersOf("10.0.0.1", "10.0.0.2")), peer{name: "c"})
	warning := func(addr string) string {
		return environment{job: []envsync.Var{{Name: "MASTER_ADDR", Value: addr}}}.meetElsewhere(peers, 0)
	}
	for _, addr := range []string{"", "a", "10.0.0.1", "192.168.9.100", "elsewhere", "10.0.0.9", "c"} {
		if got := warning(addr); got != "" {
			t.Errorf("%q: got %q; want no warning", addr, got)
		}
	}
	for _, addr := range []string{"b", "10.0.0.2", "192.168.9.101", "::ffff:10.0.0.2"} {
		if got, want := warning(addr), "MASTER_ADDR="+addr+" means b, and rank 0 is on a: "; !strings.HasPrefix(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}
