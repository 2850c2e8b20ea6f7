package launcher

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gorun/envsync"
	"gorun/hostfile"
)

// Mesh arranges the ranks of a job in a grid, the outermost axis first: along the last one
// ranks follow each other, so that they share a host as far as can be. nil: there is none.
type Mesh []Axis

// Axis is one axis of a Mesh.
type Axis struct {
	Name string // letters and digits, lower case, a letter first: "tp"
	Size int    // 0: as many as there are ranks for; of one axis at most
}

// Group is the ranks of a mesh that differ along one axis only: Size of them, each Step
// after the one before.
type Group struct{ First, Step, Size int }

// MeshError is that ranks cannot be arranged as a mesh says.
type MeshError struct {
	Text string // what is wrong, with the numbers
	Hint string // what to do; "": nothing is known
}

func (e *MeshError) Error() string { return e.Text }

// maxListed is up to how many ranks of a group are listed one by one.
const maxListed = 1024

// String writes m as --mesh reads it.
func (m Mesh) String() string {
	parts := make([]string, len(m))
	for i, a := range m {
		parts[i] = a.String()
	}
	return strings.Join(parts, ",")
}

func (a Axis) String() string {
	if a.Size == 0 {
		return a.Name + "=*"
	}
	return fmt.Sprintf("%s=%d", a.Name, a.Size)
}

// Multiple is what the number of ranks must be a multiple of: the product of the sizes that
// are given.
func (m Mesh) Multiple() int {
	n := 1
	for _, a := range m {
		n *= max(a.Size, 1)
	}
	return n
}

// Open reports whether an axis has no size yet.
func (m Mesh) Open() bool { return slices.ContainsFunc(m, func(a Axis) bool { return a.Size == 0 }) }

// Fit returns m for n ranks: with a size for each axis. The error is a *MeshError.
func (m Mesh) Fit(n int) (Mesh, error) {
	whole := m.Multiple()
	if !m.Open() {
		if whole != n {
			return nil, &MeshError{Text: fmt.Sprintf("--mesh %s has %s, and the job has %d", m, count(whole, "rank"), n)}
		}
		return m, nil
	}
	if n == 0 || n%whole != 0 {
		return nil, &MeshError{Text: fmt.Sprintf("--mesh %s needs a multiple of %s, and the job has %d", m, count(whole, "rank"), n)}
	}
	m = slices.Clone(m)
	for i := range m {
		if m[i].Size == 0 {
			m[i].Size = n / whole
		}
	}
	return m, nil
}

// step is by how much ranks next to each other along an axis differ.
func (m Mesh) step(axis int) int { return m[axis+1:].Multiple() }

// At is where rank is along an axis.
func (m Mesh) At(axis, rank int) int { return rank / m.step(axis) % m[axis].Size }

// Group returns the group of rank along an axis of m, all of whose axes have sizes.
func (m Mesh) Group(axis, rank int) Group {
	step := m.step(axis)
	return Group{First: rank - m.At(axis, rank)*step, Step: step, Size: m[axis].Size}
}

// Groups returns the groups along an axis by their first ranks.
func (m Mesh) Groups(axis int) []Group {
	var groups []Group
	for rank := range m.Multiple() {
		if m.At(axis, rank) == 0 {
			groups = append(groups, m.Group(axis, rank))
		}
	}
	return groups
}

// Rank returns the rank of g at a place from 0 on.
func (g Group) Rank(at int) int { return g.First + at*g.Step }

// String lists the ranks with commas between; of a group of more than 1024, as that could
// be longer than a variable may be, it writes the first, the last and the step: 0-65528/8.
func (g Group) String() string {
	if g.Size > maxListed {
		if g.Step == 1 {
			return fmt.Sprintf("%d-%d", g.First, g.Rank(g.Size-1))
		}
		return fmt.Sprintf("%d-%d/%d", g.First, g.Rank(g.Size-1), g.Step)
	}
	b := make([]byte, 0, 6*g.Size)
	for at := range g.Size {
		if at > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(g.Rank(at)), 10)
	}
	return string(b)
}

// vars are what a rank is told of its place in m.
func (m Mesh) vars(rank int) []envsync.Var {
	if m == nil {
		return nil
	}
	vars := []envsync.Var{{Name: "GORUN_MESH", Value: m.String(), Origin: envsync.FromGorun}}
	for i, a := range m {
		g := m.Group(i, rank)
		for _, v := range []struct{ what, value string }{
			{"RANK", strconv.Itoa(m.At(i, rank))}, {"SIZE", strconv.Itoa(a.Size)}, {"GROUP", g.String()},
		} {
			vars = append(vars, envsync.Var{Name: envsync.MeshName(a.Name, v.what), Value: v.value, Origin: envsync.FromGorun})
		}
	}
	return vars
}

// Near is the axis whose groups are to share a host or an NVLink domain: the last, unless its
// name says that it is for data-parallel copies, or there is no other; -1: none.
func (m Mesh) Near() int {
	last := len(m) - 1
	if last < 0 || m[last].Size < 2 || slices.Contains([]string{"dp", "ddp", "fsdp", "data", "batch", "replica"}, m[last].Name) {
		return -1
	}
	return last
}

// arrange makes the mesh of a layout of the job's ranks by slots. Without a number of ranks,
// it is as many as the mesh has room for.
func (j Job) arrange(l Layout, offers []Offer) (Layout, error) {
	n, whole := l.Size(), j.Mesh.Multiple()
	if j.Apps[0].NP == 0 && j.Mesh.Open() {
		if n < whole {
			return l, &MeshError{fmt.Sprintf("--mesh %s needs at least %s, and the hosts offer %s", j.Mesh, count(whole, "rank"), count(n, "slot")), ""}
		}
		if n%whole != 0 {
			j.Apps = slices.Clone(j.Apps)
			j.Apps[0].NP = n - n%whole
			var err error
			if l, err = j.layRanks(offers); err != nil {
				return l, err
			}
		}
	}
	m, err := j.Mesh.Fit(l.Size())
	if err != nil {
		return l, err
	}
	l.Mesh = m
	return l, j.torn(l, offers)
}

// torn is the error that a group which would fit on a host lies on several.
func (j Job) torn(l Layout, offers []Offer) error {
	axis := l.Mesh.Near()
	if axis < 0 {
		return nil
	}
	a := l.Mesh[axis]
	for _, g := range l.Mesh.Groups(axis) {
		hosts := l.hostsOf(g)
		if len(hosts) < 2 || oneDomain(hosts, offers) {
			continue
		}
		roomy := slices.ContainsFunc(hosts, func(h int) bool { return max(l.Count[h], offers[h].Slots) >= a.Size })
		i := slices.IndexFunc(hosts, func(h int) bool { return l.Count[h]%a.Size != 0 })
		if !roomy || i < 0 {
			continue
		}
		o, n := offers[hosts[i]], l.Count[hosts[i]]
		what := count(n, "rank") + " on "
		if n == o.Slots {
			what = count(n, "slot") + " of "
		}
		e := &MeshError{Text: fmt.Sprintf("%s does not divide the %s%s: the group of ranks %d to %d would span %s", a, what, o.Name, g.First, g.Rank(g.Size-1), count(len(hosts), "host"))}
		switch fits := n - n%a.Size; {
		case j.MapBy == ByNode:
			e.Hint = "without --map-by node a host is filled before the next one gets a rank"
		case fits > 0:
			e.Hint = fmt.Sprintf("slots=%d for %s in the hostfile, or -ppn %d, keeps groups on their hosts", fits, o.Name, fits)
		default:
			e.Hint = fmt.Sprintf("leave %s out by --exclude %s", o.Name, o.Name)
		}
		return e
	}
	return nil
}

// hostsOf lists the hosts of a group, each once: in a mesh those of a host follow each other.
func (l Layout) hostsOf(g Group) []int {
	var hosts []int
	for at := range g.Size {
		if h := l.Ranks[g.Rank(at)].Host; at == 0 || h != hosts[len(hosts)-1] {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// oneDomain reports whether NVLink connects these hosts, as far as is known.
func oneDomain(hosts []int, offers []Offer) bool {
	d := offers[hosts[0]].Domain
	return d != "" && !slices.ContainsFunc(hosts, func(h int) bool { return offers[h].Domain != d })
}

// spans is how many hosts the groups along an axis lie on, at least and at most, and how many
// of them lie on several that no NVLink domain connects.
func (l Layout) spans(axis int, offers []Offer) (least, most, far int) {
	for i, g := range l.Mesh.Groups(axis) {
		hosts := l.hostsOf(g)
		if n := len(hosts); i == 0 || n < least {
			least = n
		}
		most = max(most, len(hosts))
		if len(hosts) > 1 && !oneDomain(hosts, offers) {
			far++
		}
	}
	return least, most, far
}

// Costs are warnings of a mesh whose groups are farther apart than they should be, as far as
// hosts tell that: what is inside them is not known here.
func (l Layout) Costs(offers []Offer) []string {
	axis := l.Mesh.Near()
	if axis < 0 {
		return nil
	}
	least, most, far := l.spans(axis, offers)
	if far == 0 {
		return nil
	}
	hosts := strconv.Itoa(most)
	if least != most {
		hosts = fmt.Sprintf("up to %d", most)
	}
	groups := len(l.Mesh.Groups(axis))
	return []string{fmt.Sprintf("%d of %s of %s %s on %s hosts that no NVLink domain is known to connect: what they exchange goes over the network",
		far, count(groups, "group"), l.Mesh[axis], lie(far), hosts)}
}

func lie(n int) string {
	if n == 1 {
		return "lies"
	}
	return "lie"
}

// unplaced says how many slots stay free as a mesh has no room for them, beside those of
// hosts that were not needed; "" for none.
func (j Job) unplaced(l Layout, offers []Offer, unneeded int) string {
	if j.Mesh == nil || j.Apps[0].NP != 0 {
		return ""
	}
	slots := unneeded
	for _, o := range offers {
		slots += j.wanted(o)
	}
	free := slots - l.Size()
	if free <= 0 {
		return ""
	}
	return fmt.Sprintf("%s of %d not used: --mesh %s takes multiples of %d", count(free, "slot"), slots, j.Mesh, j.Mesh.Multiple())
}

// maxGroupText is how much of a group's ranks a table shows, in bytes.
const maxGroupText = 40

// wanted is how many ranks o gets where nobody has said how many the job has.
func (j Job) wanted(o Offer) int {
	if j.PerHost > 0 && o.Slots > 0 {
		return j.PerHost
	}
	return max(o.Slots, 0)
}

// unneeded counts the slots of hosts of the job's list that are not among those needed.
func (j Job) unneeded(needed []hostfile.Host) int {
	slots, in := 0, map[string]bool{}
	for _, h := range needed {
		in[h.Name] = true
	}
	for _, h := range j.Hosts {
		if o, ok := offer(h, nil); ok && !in[h.Name] {
			slots += j.wanted(o)
		}
	}
	return slots
}

// meshWarnings are what is to be known of the mesh of l before its ranks start. Unneeded
// slots are those of hosts that the job goes without.
func (j Job) meshWarnings(l Layout, offers []Offer, unneeded int) []string {
	lines := l.Costs(offers)
	if text := j.unplaced(l, offers, unneeded); text != "" {
		lines = append(lines, text)
	}
	return lines
}

// devices are the GPUs that a rank at place may use, if that is decided.
func (p *planner) devices(place Place) []envsync.Var {
	values := p.job.Visible[p.hosts[place.Host]]
	if len(values) == 0 {
		return nil
	}
	return []envsync.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: values[min(place.Local, len(values)-1)], Origin: envsync.FromGorun}}
}

// printMesh writes a table of the mesh.
func printMesh(w io.Writer, l Layout, offers []Offer) {
	if l.Mesh == nil {
		return
	}
	fmt.Fprintf(w, "\nmesh %s\n", l.Mesh)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "axis\tsize\thosts of a group\tgroup of rank 0")
	for i, a := range l.Mesh {
		least, most, _ := l.spans(i, offers)
		hosts := strconv.Itoa(least)
		if most != least {
			hosts += fmt.Sprintf("-%d", most)
		}
		g := l.Mesh.Group(i, 0)
		group := g.String()
		if len(group) > maxGroupText {
			group = fmt.Sprintf("%d,%d,...,%d", g.First, g.Rank(1), g.Rank(g.Size-1))
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", a.Name, a.Size, hosts, group)
	}
	t.Flush()
}
