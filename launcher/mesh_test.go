package launcher

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorun/envsync"
)

func axes(s string) Mesh {
	var m Mesh
	for part := range strings.SplitSeq(s, ",") {
		name, size, _ := strings.Cut(part, "=")
		a := Axis{Name: name}
		if size != "*" {
			fmt.Sscan(size, &a.Size)
		}
		m = append(m, a)
	}
	return m
}

func TestMeshGroups(t *testing.T) {
	for _, tt := range []struct {
		mesh string
		rank int
		want string
	}{
		{"dp=2,pp=2,tp=2", 0, "dp 0 of 0,4; pp 0 of 0,2; tp 0 of 0,1"},
		{"dp=2,pp=2,tp=2", 3, "dp 0 of 3,7; pp 1 of 1,3; tp 1 of 2,3"},
		{"dp=2,pp=2,tp=2", 6, "dp 1 of 2,6; pp 1 of 4,6; tp 0 of 6,7"},
		{"dp=4,pp=2,tp=8", 13, "dp 0 of 13,29,45,61; pp 1 of 5,13; tp 5 of 8,9,10,11,12,13,14,15"},
		{"tp=3", 1, "tp 1 of 0,1,2"},
		{"a=1,b=2,c=1", 1, "a 0 of 1; b 1 of 0,1; c 0 of 1"},
	} {
		t.Run(fmt.Sprintf("%s-rank-%d", strings.ReplaceAll(tt.mesh, ",", "-"), tt.rank), func(t *testing.T) {
			m := axes(tt.mesh)
			var parts []string
			for i, a := range m {
				parts = append(parts, fmt.Sprintf("%s %d of %s", a.Name, m.At(i, tt.rank), m.Group(i, tt.rank)))
			}
			if got := strings.Join(parts, "; "); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

// Along each axis the groups are a partition of the ranks, and every rank of one is told the
// same.
func TestMeshGroupsArePartitions(t *testing.T) {
	m := axes("a=3,b=4,c=2,d=5")
	for axis := range m {
		seen := map[int]bool{}
		for _, g := range m.Groups(axis) {
			for at := range g.Size {
				rank := g.Rank(at)
				if seen[rank] || m.At(axis, rank) != at || m.Group(axis, rank) != g {
					t.Fatalf("axis %d: rank %d is %d of %+v; want %d of %+v, once", axis, rank, m.At(axis, rank), m.Group(axis, rank), at, g)
				}
				seen[rank] = true
			}
		}
		if len(seen) != m.Multiple() {
			t.Errorf("axis %d: got %d ranks; want %d", axis, len(seen), m.Multiple())
		}
	}
}

func TestMeshVars(t *testing.T) {
	var got []string
	for _, v := range axes("dp=2,tp=2").vars(1) {
		got = append(got, v.Name+"="+v.Value)
		if !envsync.RankName(v.Name) || !envsync.Leftover(v.Name) {
			t.Errorf("%s would be inherited", v.Name)
		}
	}
	want := "GORUN_MESH=dp=2,tp=2 GORUN_DP_RANK=0 GORUN_DP_SIZE=2 GORUN_DP_GROUP=1,3 GORUN_TP_RANK=1 GORUN_TP_SIZE=2 GORUN_TP_GROUP=0,1"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s; want %s", s, want)
	}
	if got := Mesh(nil).vars(0); got != nil {
		t.Errorf("got %v without a mesh", got)
	}
}

// The largest job's groups fit into variables.
func TestMeshVarsOfManyRanks(t *testing.T) {
	for _, tt := range []struct{ mesh, want string }{
		{"dp=8192,tp=8", "GORUN_DP_GROUP=7-65535/8"},
		{"dp=65536", "GORUN_DP_GROUP=0-65535"},
		{"dp=64,tp=1024", "GORUN_TP_GROUP=64512,64513,"},
	} {
		m := axes(tt.mesh)
		vars := m.vars(MaxRanks - 1)
		if err := envsync.CheckSize(nil, texts(vars)); err != nil {
			t.Errorf("%s: %v", tt.mesh, err)
		}
		if got := strings.Join(texts(vars), " "); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %.200s; want %s in it", tt.mesh, got, tt.want)
		}
	}
}

func TestPlaceInMesh(t *testing.T) {
	for _, tt := range []struct {
		name    string
		slots   []int
		domains string // a letter for each host, "-" for none
		mesh    string
		np, ppn int
		want    string // the mesh, and the hosts of the ranks
		err     string
		costs   string
	}{
		{name: "whole", slots: []int{4, 4}, mesh: "dp=2,pp=2,tp=2", np: 8, want: "dp=2,pp=2,tp=2: a a a a b b b b"},
		{name: "open", slots: []int{4, 4}, mesh: "dp=*,tp=4", want: "dp=2,tp=4: a a a a b b b b"},
		{name: "open-with-np", slots: []int{4, 4}, mesh: "dp=*,tp=2", np: 4, want: "dp=2,tp=2: a a a a"},
		{name: "open-in-the-middle", slots: []int{4}, mesh: "dp=2,pp=*,tp=2", want: "dp=2,pp=1,tp=2: a a a a"},
		{name: "open-with-slots-left", slots: []int{7}, mesh: "dp=*,tp=2", want: "dp=3,tp=2: a a a a a a", costs: "1 slot of 7 not used: --mesh dp=*,tp=2 takes multiples of 2"},
		{name: "open-on-ppn", slots: []int{7, 7}, ppn: 6, mesh: "dp=*,tp=2", want: "dp=6,tp=2: a a a a a a b b b b b b"},
		{name: "open-too-few", slots: []int{2, 1}, mesh: "dp=*,tp=4", err: "--mesh dp=*,tp=4 needs at least 4 ranks, and the hosts offer 3 slots"},
		{name: "open-and-np-contradict", slots: []int{8}, np: 6, mesh: "dp=*,tp=4", err: "--mesh dp=*,tp=4 needs a multiple of 4 ranks, and the job has 6"},
		{name: "np-contradicts", slots: []int{8}, np: 8, mesh: "dp=2,tp=2", err: "--mesh dp=2,tp=2 has 4 ranks, and the job has 8"},
		{name: "seven-slots", slots: []int{8, 7, 8}, mesh: "dp=*,tp=2",
			err: "tp=2 does not divide the 7 slots of b: the group of ranks 14 to 15 would span 2 hosts"},
		{name: "seven-slots-on-one", slots: []int{7, 7}, np: 14, mesh: "dp=7,tp=2",
			err: "tp=2 does not divide the 7 slots of a: the group of ranks 6 to 7 would span 2 hosts"},
		{name: "part-of-a-host", slots: []int{4, 4}, np: 6, mesh: "dp=2,tp=3", err: "tp=3 does not divide the 4 slots of a: the group of ranks 3 to 5 would span 2 hosts"},
		{name: "too-small-a-host", slots: []int{4, 2, 4, 2}, np: 8, mesh: "dp=2,tp=4", err: "tp=4 does not divide the 2 slots of b: the group of ranks 4 to 7 would span 2 hosts"},
		{name: "over-hosts", slots: []int{4, 4, 4, 4}, mesh: "dp=*,tp=8", want: "dp=2,tp=8: a a a a b b b b c c c c d d d d",
			costs: "2 of 2 groups of tp=8 lie on 2 hosts that no NVLink domain is known to connect: what they exchange goes over the network"},
		{name: "over-some-hosts", slots: []int{8, 4, 4}, mesh: "dp=*,tp=8", want: "dp=2,tp=8: a a a a a a a a b b b b c c c c",
			costs: "1 of 2 groups of tp=8 lies on up to 2 hosts that no NVLink domain is known to connect: what they exchange goes over the network"},
		{name: "over-hosts-of-a-domain", slots: []int{4, 4, 4, 4}, domains: "xxyy", mesh: "dp=*,tp=8", want: "dp=2,tp=8: a a a a b b b b c c c c d d d d"},
		{name: "over-two-domains", slots: []int{2, 2, 2, 2}, domains: "xyyy", mesh: "dp=*,tp=4", want: "dp=2,tp=4: a a b b c c d d",
			costs: "1 of 2 groups of tp=4 lies on 2 hosts that no NVLink domain is known to connect: what they exchange goes over the network"},
		{name: "odd-in-a-domain", slots: []int{3, 3}, domains: "xx", mesh: "dp=*,tp=2", want: "dp=3,tp=2: a a a b b b"},
		{name: "data-parallel-last", slots: []int{3, 3}, np: 6, mesh: "tp=3,dp=2", want: "tp=3,dp=2: a a a b b b"},
		{name: "data-parallel-alone", slots: []int{3, 3}, mesh: "dp=*", want: "dp=6: a a a b b b"},
		{name: "too-many", slots: []int{2, 2}, np: 8, mesh: "dp=4,tp=2", err: "need 8 slots, hosts offer 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			offers := offersOf(tt.slots...)
			for i, d := range strings.Trim(tt.domains, "-") {
				offers[i].Domain = string(d)
			}
			job := Job{Apps: []App{{Args: []string{"app"}, NP: tt.np}}, PerHost: tt.ppn, Mesh: axes(tt.mesh)}
			l, err := job.Place(offers)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v; want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Mesh.String() + ": " + show(l, offers); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
			if got := strings.Join(job.meshWarnings(l, offers, 0), "\n"); got != tt.costs {
				t.Errorf("got costs %q; want %q", got, tt.costs)
			}
		})
	}
}

// What is to be done is said with the error.
func TestMeshHints(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		slots      []int
		mesh       string
	}{
		{"slots", "slots=6 for b in the hostfile, or -ppn 6, keeps groups on their hosts", []int{8, 7, 8, 8}, "dp=*,tp=2"},
		{"leave-out", "leave b out by --exclude b", []int{4, 2, 4, 2}, "dp=*,tp=4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Job{Apps: []App{{Args: []string{"app"}}}, Mesh: axes(tt.mesh)}.Place(offersOf(tt.slots...))
			e, ok := errors.AsType[*MeshError](err)
			if !ok || e.Hint != tt.want {
				t.Errorf("got %#v; want %s", err, tt.want)
			}
		})
	}
}

func TestMeshTable(t *testing.T) {
	offers := offersOf(8, 8)
	l, err := Job{Apps: []App{{Args: []string{"app"}}}, Mesh: axes("dp=*,pp=2,tp=2")}.Place(offers)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	printMesh(&b, l, offers)
	want := `
mesh dp=4,pp=2,tp=2
axis  size  hosts of a group  group of rank 0
dp    4     2                 0,4,8,12
pp    2     1                 0,2
tp    2     1                 0,1
`
	if b.String() != want {
		t.Errorf("got %s; want %s", b.String(), want)
	}
}
