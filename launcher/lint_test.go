package launcher

import (
	"fmt"
	"strings"
	"testing"

	"gorun/envsync"
	"gorun/launcher/wire"
)

func TestPrefixNotes(t *testing.T) {
	ifaces := func(names ...string) *wire.Hello {
		h := &wire.Hello{}
		for _, n := range names {
			h.Interfaces = append(h.Interfaces, wire.Interface{Name: n})
		}
		return h
	}
	many := ifaces("lo", "eth0", "eth1", "eth10", "bond0", "bond0.2093")
	tests := []struct {
		name, spec string
		peers      []peer
		want       string
	}{
		{"unset", "", []peer{{name: "a", hello: many}}, ""},
		{"only-a-prefix", "eth", []peer{{name: "a", hello: many}}, ""},
		{"alone", "eth0,eth10", []peer{{name: "a", hello: many}}, ""},
		{"exact", "=eth1", []peer{{name: "a", hello: many}}, ""},
		{"excluded", "^eth1", []peer{{name: "a", hello: many}}, ""},
		{"both-listed", "eth1,eth10", []peer{{name: "a", hello: many}}, ""},
		{"another", "eth1", []peer{{name: "a", hello: many}, {name: "b", hello: ifaces("eth1")}, {name: "c", hello: many}},
			"a, c: NCCL_SOCKET_IFNAME=eth1 means eth10, too, as names are prefixes; the value =eth1 means no other"},
		{"vlan", "ib0,bond0", []peer{{name: "a", hello: many}}, "a: NCCL_SOCKET_IFNAME=ib0,bond0 means bond0.2093, too, as names are prefixes; the value =ib0,bond0 means no other"},
		{"own", "eth0", []peer{{name: "a", hello: many, ifname: "eth1"}, {name: "b", hello: many}}, "a: NCCL_SOCKET_IFNAME=eth1 means eth10, too, as names are prefixes; the value =eth1 means no other"},
		{"unused-host", "eth1", []peer{{name: "a", hello: ifaces("eth1")}, {name: "b", hello: ifaces("eth1")}, {name: "c", hello: ifaces("eth1")}, {name: "idle", hello: many}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(prefixNotes(tt.peers, Layout{Count: []int{1, 1, 1, 0}}, tt.spec), "\n")
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// What is found in the variables of all, of a program and of hosts comes once.
func TestLintOfAJob(t *testing.T) {
	own := []envsync.Var{{Name: "NCCL_IB_HCA", Value: "mlx5 0", Origin: "f:2"}, {Name: "NCCL_HOSTID", Value: "x", Origin: "f:3"}}
	job := Job{
		Hosts: hostsOf(1, 1, 1), HostEnv: map[string][]envsync.Var{"a": own, "b": own, "c": own},
		Env:  envsync.Policy{Set: set("NCCL_MIN_CTAS=8", "NCCL_NTHREADS=many")},
		Apps: []App{{Args: []string{"p"}, NP: 1, Set: set("NCCL_MAX_CTAS=4")}, {Args: []string{"q"}, NP: 1}},
	}
	env, _, err := job.build()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range job.lint(env) {
		got = append(got, fmt.Sprint(f.Var.Name, " ", f.Wrong))
	}
	if want := "NCCL_HOSTID false, NCCL_MAX_CTAS false, NCCL_NTHREADS true, NCCL_MIN_CTAS false, NCCL_IB_HCA true"; strings.Join(got, ", ") != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if _, _, err := job.environment(); fmt.Sprintf("%T", err) != "*envsync.LintError" {
		t.Errorf("got %v", err)
	}
}

// Hosts that NCCL takes for one are found, whatever gives them one name.
func TestLintOfHostIDs(t *testing.T) {
	id := func(value string) []envsync.Var {
		return []envsync.Var{{Name: "NCCL_HOSTID", Value: value, Origin: "f:3"}}
	}
	tests := []struct {
		name string
		set  []string
		own  map[string][]envsync.Var
		want string
	}{
		{"all", []string{"NCCL_HOSTID=x"}, nil, "NCCL_HOSTID=x (-x): all hosts get the same, and NCCL takes them for one host"},
		{"some", nil, map[string][]envsync.Var{"b": id("x"), "c": id("x")}, "NCCL_HOSTID=x (f:3): b,c get the same, and NCCL takes them for one host"},
		{"each-its-own", nil, map[string][]envsync.Var{"a": id("x"), "b": id("y"), "c": id("z")}, ""},
		{"one", nil, map[string][]envsync.Var{"b": id("x")}, ""},
		{"empty", []string{"NCCL_HOSTID="}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := Job{Hosts: hostsOf(1, 1, 1), HostEnv: tt.own, Env: envsync.Policy{Set: set(tt.set...)}, Apps: []App{{Args: []string{"p"}}}}
			env, _, err := job.build()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range job.lint(env) {
				got = append(got, f.String())
				if f.Wrong {
					t.Errorf("%s: got an error; want a warning", f)
				}
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// An address of lo is not taken because a list of exclusions has forgotten it.
func TestAddressBesidesLo(t *testing.T) {
	h := wire.Hello{Interfaces: []wire.Interface{{Name: "lo", Addrs: []string{"127.0.0.1"}}, {Name: "docker0", Addrs: []string{"172.17.0.1"}}, {Name: "eth0", Addrs: []string{"10.0.0.1"}}}}
	for spec, want := range map[string]string{"^docker0": "10.0.0.1", "^docker,eth": "", "lo": "127.0.0.1"} {
		if got, _ := hostAddr(h, "", spec, nil); got != want {
			t.Errorf("%s: got %q; want %q", spec, got, want)
		}
	}
}
