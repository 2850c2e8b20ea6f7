// Package topo says how the GPUs and NICs of a host are connected, and what follows from it:
// which GPUs share NVLink, which NIC is near which GPU, which GPUs belong together in a
// tensor-parallel group, and which hosts form one NVLink domain.
//
// All of it is a function of text and values: what `nvidia-smi topo -m` printed and, independently
// of that, where the kernel says each device hangs in the PCI tree. Topo reads no file and runs no
// program. What is not known is Unknown, and input that cannot be trusted is an error: a guess
// would place ranks wrongly without anybody being told.
package topo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the class of a path between two devices, in the words of nvidia-smi, from near to far.
// The zero Kind is none of them and means that nobody has said anything.
type Kind uint8

// The kinds, so that a smaller one is nearer. Unknown is the farthest: whoever asks for at most
// some distance is never answered yes by a path that nobody knows.
const (
	Self    Kind = iota + 1 // the device itself
	NV                      // NVLink
	PIX                     // at most one PCIe switch
	PXB                     // several PCIe switches, no host bridge
	PHB                     // one PCIe host bridge
	NODE                    // several host bridges of one NUMA node
	SYS                     // the link between NUMA nodes
	Unknown                 // not known
)

var kindNames = [...]string{Self: "X", NV: "NV", PIX: "PIX", PXB: "PXB", PHB: "PHB", NODE: "NODE", SYS: "SYS", Unknown: "unknown"}

// String returns nvidia-smi's word, or "unknown".
func (k Kind) String() string {
	if k < Self || k > Unknown {
		return "unknown"
	}
	return kindNames[k]
}

// Within reports whether k is known and at most as far as far.
func (k Kind) Within(far Kind) bool { return k >= Self && k <= far && k < Unknown }

// Link is how two devices are connected. NVLinks is the number of bonded NVLinks, and 0 unless
// Kind is NV. The zero Link is Unknown. As JSON it is the text of String.
type Link struct {
	Kind    Kind
	NVLinks int
}

// maxNVLinks is far above what any GPU has. A larger number is two cells that were printed
// without a space between.
const maxNVLinks = 72

// Known reports whether anything is known of l.
func (l Link) Known() bool { return l.Kind >= Self && l.Kind < Unknown }

// Within reports whether l is known and at most as far as far.
func (l Link) Within(far Kind) bool { return l.Kind.Within(far) }

// String returns the cell of the matrix, as in "NV18" or "PIX"; "X" for a device itself.
func (l Link) String() string {
	if l.Kind == NV {
		return "NV" + strconv.Itoa(l.NVLinks)
	}
	return l.Kind.String()
}

// Compare returns a negative number if l is nearer than m, a positive one if it is farther. More
// NVLinks are nearer than fewer.
func (l Link) Compare(m Link) int {
	if c := cmp.Compare(l.rank(), m.rank()); c != 0 {
		return c
	}
	return cmp.Compare(m.NVLinks, l.NVLinks)
}

func (l Link) rank() Kind {
	if !l.Known() {
		return Unknown
	}
	return l.Kind
}

// MarshalText returns String, so that a Link in JSON is the cell of the matrix.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *Link) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "" || s == "unknown" {
		*l = Link{Kind: Unknown}
		return nil
	}
	got, rest, ok := cutCell(s)
	if !ok || rest != "" {
		return fmt.Errorf("bad link %q", s)
	}
	*l = got
	return nil
}

// cells are what a matrix has, longest first where one begins another. SOC is what SYS was called
// before 2017.
var cells = []struct {
	text string
	kind Kind
}{{"NODE", NODE}, {"SYS", SYS}, {"SOC", SYS}, {"PHB", PHB}, {"PXB", PXB}, {"PIX", PIX}, {"X", Self}}

// cutCell takes one cell from the front of s. What follows need not be separated: terminals that
// wrap lines glue cells together, and the words are known.
func cutCell(s string) (l Link, rest string, ok bool) {
	for _, c := range cells {
		if rest, ok := strings.CutPrefix(s, c.text); ok {
			return Link{Kind: c.kind}, rest, true
		}
	}
	digits, ok := strings.CutPrefix(s, "NV")
	if !ok {
		return Link{}, s, false
	}
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(digits[:end])
	if err != nil || n < 1 || n > maxNVLinks || digits[0] == '0' {
		return Link{}, s, false
	}
	return Link{Kind: NV, NVLinks: n}, digits[end:], true
}
