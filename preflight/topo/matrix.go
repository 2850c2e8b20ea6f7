package topo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Matrix is what `nvidia-smi topo -m` prints. Rows and columns are the same devices in the same
// order, GPUs first. Cells is complete, symmetric and has Self on its diagonal, for ParseMatrix
// refuses everything else.
type Matrix struct {
	// Columns are the names in the matrix, as "GPU0" and "NIC3". Names are the same but for NICs
	// that a legend names, as "mlx5_3"; a NIC whose name is not known keeps that of its column.
	Columns, Names []string
	GPUs           int // how many of them are GPUs
	Cells          [][]Link

	// CPUAffinity, NUMAAffinity and GPUNUMA have an entry per GPU as printed, "" if it is not known.
	// The CPU list is cut to the CPUs that the caller may use. NUMAAffinity may be a list.
	CPUAffinity, NUMAAffinity, GPUNUMA []string

	// PCIOnly tells that the matrix cannot show NVLink: it is that of `nvidia-smi topo -mp`.
	PCIOnly bool
	// Legend tells that the explanation of the words was there, without which nobody can know
	// whether a matrix without NVLink is one of PCIe only.
	Legend bool
	// Notes are sentences on what was in the text and not believed.
	Notes []string
}

// These are far above what any host has, and keep hostile input from costing memory and time.
const maxDevices, maxGPUs = 256, 64

// SyntaxError is input that is not a matrix of nvidia-smi, or a damaged one.
type SyntaxError struct {
	Line int    // from 1; 0: the text as a whole
	Text string // the offending text, shortened and free of control characters
	Msg  string // what is wrong with it
}

func (e *SyntaxError) Error() string {
	s := "nvidia-smi topo"
	if e.Line > 0 {
		s += " line " + strconv.Itoa(e.Line)
	}
	if e.Text != "" {
		s += fmt.Sprintf(": %q", e.Text)
	}
	return s + ": " + e.Msg
}

func syntax(line int, text, format string, args ...any) *SyntaxError {
	text = strings.TrimSpace(text)
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return &SyntaxError{Line: line, Text: text, Msg: fmt.Sprintf(format, args...)}
}

// ParseMatrix reads the output of `nvidia-smi topo -m` or `topo -mp` of any version. Colours, text
// before and after, blanks in place of tabs and cells without a space between are understood.
// A matrix that is cut, damaged or not symmetric is a *SyntaxError and never a guess; what can be
// left out without harm, such as a legend that is not believable, is told in Notes.
func ParseMatrix(text string) (Matrix, error) {
	lines := strings.Split(plain(text), "\n")
	head, err := findHeader(lines)
	if err != nil {
		return Matrix{}, err
	}
	m, at, err := parseRows(lines, head)
	if err != nil {
		return Matrix{}, err
	}
	if err := m.checkShape(at); err != nil {
		return Matrix{}, err
	}
	if err := m.parseLegend(lines, at[len(at)-1]); err != nil {
		return Matrix{}, err
	}
	if m.numaOff() {
		m.note("All GPUs are of one NUMA node and no path crosses nodes: if the machine has several sockets, its kernel runs with numa=off or its firmware hides the nodes, and of the paths by PCIe only PIX and PXB can be trusted.")
	}
	if a, b := m.missesNVLink(); a != "" {
		m.note("%s and %s are of one NUMA node and yet reach each other by SYS only, which GPUs on PCIe never do: their NVLinks are down or not shown.", a, b)
	}
	return m, nil
}

var ansi = pattern("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_]|\\([0-9A-Za-z])")

// plain removes colours and everything else that only a terminal would see.
func plain(text string) string {
	text = ansi().ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\u00a0':
			return ' '
		case r == '\r', r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}

func (m *Matrix) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// checkShape refuses what no nvidia-smi has ever printed; at has the line of each row.
func (m *Matrix) checkShape(at []int) error {
	for i, row := range m.Cells {
		for j, c := range row {
			if msg := m.wrong(i, j, c); msg != "" {
				return syntax(at[i], m.Columns[i]+" "+m.Columns[j], "%s", msg)
			}
		}
	}
	return nil
}

// wrong says what is wrong with a cell; "" if nothing is.
func (m *Matrix) wrong(i, j int, c Link) string {
	switch back := m.Cells[j][i]; {
	case (i == j) != (c.Kind == Self):
		return fmt.Sprintf("%s where only a device and itself may meet as X", c)
	case c != back:
		return fmt.Sprintf("%s in one direction and %s in the other", c, back)
	case c.Kind == NV && (i >= m.GPUs || j >= m.GPUs):
		return fmt.Sprintf("%s between devices that are not both GPUs", c)
	}
	return ""
}

// Check reports whether m is whole: all that ParseMatrix returns is, what comes from elsewhere,
// as from a file, may not be. The error is a *SyntaxError without a line.
func (m *Matrix) Check() error {
	n := len(m.Columns)
	if m.GPUs < 1 || m.GPUs > min(n, maxGPUs) || n > maxDevices || len(m.Names) != n || len(m.Cells) != n ||
		len(m.CPUAffinity) != m.GPUs || len(m.NUMAAffinity) != m.GPUs || len(m.GPUNUMA) != m.GPUs {
		return syntax(0, "", "the matrix has not the size that it says")
	}
	for i, row := range m.Cells {
		if !deviceName().MatchString(m.Columns[i]) || !deviceName().MatchString(m.Names[i]) {
			return syntax(0, strconv.Quote(m.Columns[i]+" "+m.Names[i]), "not the name of a GPU or NIC")
		}
		if _, gpu := gpuNumber(m.Columns[i]); len(row) != n || gpu != (i < m.GPUs) {
			return syntax(0, m.Columns[i], "a row of the matrix is not whole")
		}
	}
	return m.checkShape(make([]int, n))
}

// Index returns the row and column of the device of that name, as in Names or Columns; -1 if the
// matrix has none.
func (m *Matrix) Index(name string) int {
	if i := slices.Index(m.Names, name); i >= 0 {
		return i
	}
	return slices.Index(m.Columns, name)
}

// HasNVLink reports whether the matrix shows NVLink anywhere.
func (m *Matrix) HasNVLink() bool {
	return slices.ContainsFunc(m.Cells, func(row []Link) bool {
		return slices.ContainsFunc(row, func(l Link) bool { return l.Kind == NV })
	})
}

// ShowsNVLink reports whether a pair without NVLink in m really has none. It is false of a matrix
// of PCIe only and of one without NVLink whose legend is missing, which may be one.
func (m *Matrix) ShowsNVLink() bool {
	return m.HasNVLink() || m.Legend && !m.PCIOnly
}

// numaOff reports whether a machine large enough for several NUMA nodes shows but one. Some with
// eight GPUs have one socket, so it is a suspicion.
func (m *Matrix) numaOff() bool {
	if m.GPUs < 8 {
		return false
	}
	node := false
	for _, row := range m.Cells {
		for _, c := range row {
			if c.Kind == SYS {
				return false
			}
			node = node || c.Kind == NODE
		}
	}
	for _, s := range m.NUMAAffinity {
		if s != m.NUMAAffinity[0] {
			return false
		}
	}
	return node
}

// missesNVLink returns two GPUs of one NUMA node with SYS between them. That is what nvidia-smi has
// been seen to print of GPUs whose NVLinks were down (deepseek-ai/DeepEP#128).
func (m *Matrix) missesNVLink() (a, b string) {
	for i := range m.GPUs {
		for j := i + 1; j < m.GPUs; j++ {
			if m.Cells[i][j].Kind == SYS && m.NUMAAffinity[i] != "" && m.NUMAAffinity[i] == m.NUMAAffinity[j] {
				return m.Columns[i], m.Columns[j]
			}
		}
	}
	return "", ""
}

// gpuNumber returns n of "GPUn".
func gpuNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "GPU")
	if !ok || len(digits) > 4 || digits == "" || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && digits[0] != '+' && digits[0] != '-'
}
