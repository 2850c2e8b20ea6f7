package topo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPU is a GPU of a host. Index is nvidia-smi's, by which all methods of View name a GPU.
type GPU struct {
	Index int
	UUID  string
	Device
	MIG bool // split into parts, which have no NVLink whatever the matrix says of the whole

	// FabricCluster and FabricClique name the NVLink domain that the GPU is in together with those
	// of other hosts: clusterUuid and cliqueId of nvidia-smi. None, "N/A" and zeros mean none.
	FabricCluster, FabricClique string
}

// Port is a port of a NIC.
type Port struct {
	Number int
	Active bool    // state 4: ACTIVE
	Layer  string  // link_layer: "InfiniBand" or "Ethernet"; "" unknown
	Rate   float64 // Gb/s, which sysfs also tells of ports that are down; 0 unknown
}

// NIC is an RDMA device of a host.
type NIC struct {
	Name string // as below /sys/class/infiniband
	Device
	Ports    []Port // nil: not known
	Excluded string // why the caller will not have it used, as a sentence part; "" it may be used

	// Usable and Reason are set by New: whether ranks should use this NIC, and if not, why.
	Usable bool
	Reason string
}

// Source says where an answer comes from.
type Source string

// The sources of answers.
const (
	FromNowhere Source = ""
	FromMatrix  Source = "nvidia-smi"
	FromTree    Source = "PCI tree"
)

// Evidence is what is known of a pair of devices.
type Evidence struct {
	A, B         string // "GPU0", "mlx5_3"
	Link         Link   // the answer
	Source       Source // where Link comes from
	Matrix, Tree Link   // what each says; Unknown if nothing
}

// Contradicts reports whether both sources know the way by PCIe and differ on it.
func (e Evidence) Contradicts() bool {
	return e.Matrix.Known() && e.Tree.Known() && e.Matrix.Kind != NV && e.Matrix.Kind != e.Tree.Kind
}

// String says what each source says.
func (e Evidence) String() string {
	return fmt.Sprintf("%s and %s: nvidia-smi says %s, the PCI tree %s", e.A, e.B, e.Matrix, e.Tree)
}

// View is what is known of one host's devices, from all sources. It does not change and may be
// used by several goroutines. Methods name GPUs by Index; of a GPU that is not there, all is Unknown.
type View struct {
	GPUs   []GPU // by Index
	NICs   []NIC // in PCI order; if some have no address, in that of the matrix and then as given
	Matrix *Matrix
	Notes  []string // sentences on what is odd about the input, with the matrix's own

	gpuAt, nicAt   map[int]int    // GPU Index -> row of the matrix, NIC position -> column; absent: not in it
	position       map[int]int    // GPU Index -> position in GPUs
	named          map[string]int // NIC name -> position in NICs
	gpuPlace       []place
	nicPlace       []place
	muteMatrix     bool // it says SYS of each GPU and NIC, and the tree knows better
	gpuGPU, gpuNIC [][]Link
}

// New merges what sysfs says of a host's GPUs and NICs with the matrix of nvidia-smi, of which any
// may be nil, for not known: without GPUs or NICs those of the matrix are taken. An empty slice
// that is not nil means that there are none. A matrix that Check refuses is left out, with a note.
// New keeps none of the slices, but it keeps m.
func New(gpus []GPU, nics []NIC, m *Matrix) *View {
	v := &View{Matrix: m, gpuAt: map[int]int{}, nicAt: map[int]int{}, position: map[int]int{}, named: map[string]int{}}
	if m != nil {
		for _, note := range m.Notes {
			v.Notes = append(v.Notes, strings.Join(strings.Fields(plain(note)), " "))
		}
		if err := m.Check(); err != nil {
			v.note("The matrix of nvidia-smi was not believed: %v.", err)
			v.Matrix = nil
		}
	}
	v.addGPUs(gpus)
	v.addNICs(nics)
	v.muteMatrix = v.saysNothingOfNICs()
	v.gpuGPU = v.table(len(v.GPUs), func(i, j int) Link { return v.gpuPair(i, j).Link })
	v.gpuNIC = v.table(len(v.NICs), func(i, j int) Link { return v.nicPair(i, j).Link })
	return v
}

func (v *View) table(columns int, cell func(i, j int) Link) [][]Link {
	t := make([][]Link, len(v.GPUs))
	for i := range t {
		t[i] = make([]Link, columns)
		for j := range t[i] {
			t[i][j] = cell(i, j)
		}
	}
	return t
}

func (v *View) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// saysNothingOfNICs reports whether the matrix has SYS for every GPU and NIC while the tree tells
// some apart: that is so on Grace, where each device hangs in a PCI domain of its own.
func (v *View) saysNothingOfNICs() bool {
	better := false
	for i := range v.GPUs {
		for j := range v.NICs {
			e := v.nicPair(i, j)
			if e.Matrix.Known() && e.Matrix.Kind != SYS {
				return false
			}
			better = better || e.Matrix.Known() && e.Tree.Within(NODE)
		}
	}
	if better {
		v.note("The matrix of nvidia-smi says SYS of each GPU and NIC; the PCI tree knows better and was asked instead.")
	}
	return better
}

func (v *View) cell(i, j int, iok, jok bool) Link {
	if v.Matrix == nil || !iok || !jok {
		return Link{Kind: Unknown}
	}
	return v.Matrix.Cells[i][j]
}

func (v *View) gpuPair(i, j int) Evidence {
	a, aok := v.gpuAt[i]
	b, bok := v.gpuAt[j]
	e := Evidence{A: gpuName(v.GPUs[i].Index), B: gpuName(v.GPUs[j].Index), Matrix: v.cell(a, b, aok, bok)}
	if i == j {
		e.Link = Link{Kind: Self}
		e.Matrix, e.Tree = e.Link, e.Link
		return e
	}
	e.Tree = v.gpuPlace[i].distance(v.gpuPlace[j])
	if e.Matrix.Kind == NV && (v.GPUs[i].MIG || v.GPUs[j].MIG) {
		e.Matrix = Link{Kind: Unknown}
	}
	return e.decide(false)
}

func (v *View) nicPair(i, j int) Evidence {
	a, aok := v.gpuAt[i]
	b, bok := v.nicAt[j]
	e := Evidence{A: gpuName(v.GPUs[i].Index), B: v.NICs[j].Name, Matrix: v.cell(a, b, aok, bok)}
	e.Tree = v.gpuPlace[i].distance(v.nicPlace[j])
	return e.decide(v.muteMatrix)
}

func (e Evidence) decide(mute bool) Evidence {
	switch {
	case e.Matrix.Known() && !(mute && e.Tree.Known()):
		e.Link, e.Source = e.Matrix, FromMatrix
	case e.Tree.Known():
		e.Link, e.Source = e.Tree, FromTree
	default:
		e.Link, e.Source = Link{Kind: Unknown}, FromNowhere
	}
	return e
}

func gpuName(index int) string { return "GPU" + strconv.Itoa(index) }

// Between says how two GPUs are connected. Without NVLinkKnown, it is the way by PCIe.
func (v *View) Between(a, b int) Link {
	i, iok := v.position[a]
	j, jok := v.position[b]
	if !iok || !jok {
		return Link{Kind: Unknown}
	}
	return v.gpuGPU[i][j]
}

// ToNIC says how a GPU and the NIC of that name are connected.
func (v *View) ToNIC(gpu int, nic string) Link {
	i, iok := v.position[gpu]
	j, jok := v.named[nic]
	if !iok || !jok {
		return Link{Kind: Unknown}
	}
	return v.gpuNIC[i][j]
}

// Evidence returns an entry per pair of GPUs, each once, and per GPU and NIC, with all that is known.
func (v *View) Evidence() []Evidence {
	var all []Evidence
	for i := range v.GPUs {
		for j := i + 1; j < len(v.GPUs); j++ {
			all = append(all, v.gpuPair(i, j))
		}
		for j := range v.NICs {
			all = append(all, v.nicPair(i, j))
		}
	}
	return all
}

// Contradictions returns the pairs on which nvidia-smi and the PCI tree differ. A matrix that says
// nothing of any NIC is a note, not a contradiction.
func (v *View) Contradictions() []Evidence {
	return slices.DeleteFunc(v.Evidence(), func(e Evidence) bool {
		return !e.Contradicts() || v.muteMatrix && e.Source == FromTree
	})
}

// NVLinkKnown reports whether a pair of GPUs without NVLink in this View really has none, and if
// not, why that is not known.
func (v *View) NVLinkKnown() (known bool, why string) {
	switch {
	case v.Matrix == nil:
		return false, "there is no matrix of nvidia-smi, and the PCI tree does not show NVLink"
	case v.Matrix.PCIOnly:
		return false, "the matrix is that of nvidia-smi topo -mp, which does not show NVLink"
	case !v.Matrix.ShowsNVLink():
		return false, "the matrix shows no NVLink and its legend is missing, so it may be that of nvidia-smi topo -mp"
	}
	return true, ""
}

// numa names the NUMA node of the GPU at position i in a form to compare: the kernel's, else
// nvidia-smi's, else the CPUs near it; "" if nothing is known.
func (v *View) numa(i int) string {
	if n := v.GPUs[i].NUMA; n >= 0 {
		return strconv.Itoa(n)
	}
	row, ok := v.gpuAt[i]
	switch {
	case !ok:
		return ""
	case v.Matrix.NUMAAffinity[row] != "":
		return v.Matrix.NUMAAffinity[row]
	case v.Matrix.CPUAffinity[row] != "":
		return "cpus " + v.Matrix.CPUAffinity[row]
	}
	return ""
}

// apart reports whether the GPUs at two positions are known to be of different NUMA nodes.
func (v *View) apart(i, j int) bool {
	a, b := v.numa(i), v.numa(j)
	if a != "" && b != "" && strings.HasPrefix(a, "cpus ") == strings.HasPrefix(b, "cpus ") {
		return a != b
	}
	return v.gpuGPU[i][j].Kind == SYS
}
