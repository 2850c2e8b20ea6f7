package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// labels writes the labels of hosts as "a rack=r1 switch=s/t domain=d".
func labels(hosts []Host) string {
	var all []string
	for _, h := range hosts {
		s := h.Name
		for _, l := range []struct{ key, value string }{{"rack", h.Rack}, {"switch", h.Switch}, {"domain", h.Domain}} {
			if l.value != "" {
				s += fmt.Sprintf(" %s=%s", l.key, l.value)
			}
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

func named(names ...string) []Host {
	var hosts []Host
	for _, n := range names {
		hosts = append(hosts, Host{Name: n, Slots: -1})
	}
	return hosts
}

func TestTopology(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		hosts      []Host
		want       string
		unnamed    string
	}{
		{"labels", "a rack=r1 switch=s1 # x\nb domain=d1\n", named("b", "a"), "b domain=d1; a rack=r1 switch=s1", ""},
		{"ranges", "n[01-02] rack=r1", named("n02", "n03"), "n02 rack=r1; n03", "n03"},
		{"letters-without-case", "GPU1 rack=r1", named("gpu1"), "gpu1 rack=r1", ""},
		{"over-the-hostfile", "a rack=r2", []Host{{Name: "a", Rack: "r1", Switch: "s1"}}, "a rack=r2 switch=s1", ""},
		{"slurm-tree", "SwitchName=s0 Nodes=dev[0-1]\nSwitchName=s1 Nodes=dev[2-3] LinkSpeed=100\nSwitchName=top Switches=s[0-1]\n",
			named("dev3", "dev0"), "dev3 switch=top/s1; dev0 switch=top/s0", ""},
		{"slurm-letters-comments-and-joined-lines", "# tree\nswitchname=s0 \\\n  nodes=a,b[1-2] # leaf\n\nSWITCHNAME=s1 SWITCHES=s0\r\n",
			named("a", "b2"), "a switch=s1/s0; b2 switch=s1/s0", ""},
		{"slurm-fat-tree", "SwitchName=l1 Nodes=a\nSwitchName=x Switches=l1\nSwitchName=y Switches=l1\n", named("a"), "a switch=x/l1", ""},
		{"slurm-blocks", "BlockName=b1 Nodes=a[1-2]\nBlockName=b2 Nodes=a[3-4]\nBlockSizes=2,4\n", named("a1", "a4"), "a1 domain=b1; a4 domain=b2", ""},
		{"slurm-backslash-at-the-end", `SwitchName=s0 Nodes=a\`, named("a"), "a switch=s0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topology, err := ParseTopology("topo", strings.NewReader(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			got, unnamed := topology.Label(tt.hosts)
			if labels(got) != tt.want || strings.Join(unnamed, " ") != tt.unnamed {
				t.Errorf("got %q, unnamed %q; want %q, %q", labels(got), unnamed, tt.want, tt.unnamed)
			}
		})
	}
}

func TestTopologyMistakes(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "topo: no hosts in it"},
		{"no-hosts", "SwitchName=a Switches=b\nSwitchName=b", "topo: no hosts in it"},
		{"label", "a racks=r1", `topo:1:3: "racks": unknown key`},
		{"slurm-key", "SwitchName=a Nodes=b\nSwitchName=c Node=d", `topo:2:1: "node=d": unknown key`},
		{"slurm-first-key", "SwitchName=a Nodes=b\nInclude=c", `topo:2:1: "include=c": unknown key`},
		{"slurm-blank-in-list", "SwitchName=a Nodes=b, c", `topo:1:1: "c": not a Key=value`},
		{"slurm-twice", "SwitchName=a Nodes=b\nSwitchName=a Nodes=c", `topo:2:1: "switchname=a": this switch is there twice`},
		{"slurm-two-leaves", "SwitchName=a Nodes=b\n\nSwitchName=c Nodes=b", `topo:3:1: "nodes=b": b is below a and below c`},
		{"slurm-missing-switch", "SwitchName=a Nodes=b\nSwitchName=c Switches=a,d", `topo:2:1: "switches=a,d": there is no switch "d"`},
		{"slurm-loop", "SwitchName=a Nodes=b\nSwitchName=c Switches=a,d\nSwitchName=d Switches=c", `topo:2:1: "switches=a,d": the switch "c" is below itself`},
		{"slurm-range", "SwitchName=a Nodes=b[2-1]", `topo:1:1: "2-1": bad range: start is after end`},
		{"slurm-name", "SwitchName=a Nodes=b@c", `topo:1:1: "nodes=b@c": "@" cannot be in a name`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseTopology("topo", strings.NewReader(tt.file))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v; want %s", err, tt.want)
			}
		})
	}
	if _, err := ParseTopologyFile("testdata/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v; want that there is no such file", err)
	}
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct{ name, hosts, want string }{
		{"nothing-said", "b\na\nc", "b a c"},
		{"racks", "a rack=2\nb rack=1\nc rack=2\nd rack=1", "a c b d"},
		{"switches-in-racks", "a rack=1 switch=s\nb rack=2 switch=s\nc rack=1 switch=t\nd rack=1 switch=s\ne rack=2 switch=s", "a d c b e"},
		{"levels-of-switches", "a switch=x/1\nb switch=y/1\nc switch=x/2\nd switch=y/1\ne switch=x/1", "a e c b d"},
		{"domains", "a domain=1\nb domain=2\nc domain=1\nd domain=2", "a c b d"},
		{"domains-in-racks", "a rack=1 domain=1\nb rack=2 domain=2\nc rack=1 domain=3\nd rack=1 domain=1", "a d c b"},
		{"domain-over-racks", "a rack=1 domain=1\nb rack=2 domain=2\nc rack=2 domain=1\nd rack=1", "a c d b"},
		{"some-without-labels", "a rack=1\nb\nc rack=1\nd", "a c b d"},
		{"a-label-that-is-no-other", "a switch=x\nb switch=x/1\nc switch=x", "a c b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := Parse("hosts", strings.NewReader(tt.hosts))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range Order(hosts) {
				got = append(got, hosts[i].Name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v; want %s", got, tt.want)
			}
		})
	}
}

// FuzzTopology checks that a topology file is refused in one line or gives hosts labels that
// can be printed, and that an order has each host once, those of a domain together.
func FuzzTopology(f *testing.F) {
	for _, s := range []string{
		"a rack=r1 switch=s1\nb domain=d1", "n[1-3] rack=r1 domain=x\nm rack=r1", "SwitchName=s0 Nodes=n[1-2]\nSwitchName=t Switches=s0",
		"BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2", "SwitchName=a Switches=a Nodes=n1", "switchname=s0 \\\n nodes=n1,n2 # x\\",
		"SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b", "SwitchName=", "SwitchName=\x1b Nodes=n1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		topology, err := ParseTopology("topo", strings.NewReader(text))
		if err != nil {
			checkFirst(t, err)
			return
		}
		hosts, _ := topology.Label(named("n1", "n2", "n3", "m", "a", "b"))
		if got := labels(hosts); strings.ContainsAny(got, "\n\x1b\x00") {
			t.Fatalf("got %q", got)
		}
		order := Order(hosts)
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5}) {
			t.Fatalf("got %v", order)
		}
		last := map[string]int{}
		for at, i := range order {
			d := hosts[i].Domain
			if before, ok := last[d]; ok && d != "" && before != at-1 {
				t.Fatalf("domain %q is not together: %v of %s", d, order, labels(hosts))
			}
			last[d] = at
		}
	})
}

func checkFirst(t *testing.T, err error) {
	t.Helper()
	if several, ok := errors.AsType[*SyntaxErrors](err); ok {
		err = several.First[0]
	}
	checkWellFormed(t, err)
}
