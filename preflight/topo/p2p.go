package topo

import (
	"slices"
	"strings"
)

// StatusOK is the status of a pair of GPUs whose driver lets one read the other's memory.
const StatusOK = "OK"

// statuses are the words of nvidia-smi for a pair of GPUs. Those after OK: chipset, GPU or
// topology not supported, not supported at all, disabled by a registry key, unknown.
var statuses = []string{StatusOK, "CNS", "GNS", "TNS", "NS", "DR", "U"}

// P2P is what `nvidia-smi topo -p2p` prints: whether GPUs may access each other's memory.
// Its zero value knows of no GPU.
type P2P struct {
	at    map[int]int // row and column of the GPU with that index
	cells [][]string
}

// Status returns nvidia-smi's word for what the first GPU may do with the second, by their
// indexes: StatusOK, or one such as "CNS"; "" if the matrix has not both, or they are one.
func (p P2P) Status(from, to int) string {
	y, ok := p.at[from]
	x, has := p.at[to]
	if !ok || !has || x == y {
		return ""
	}
	return p.cells[y][x]
}

// ParseP2P reads the output of `nvidia-smi topo -p2p` for any capability. Colours, text before
// and after, and blanks in place of tabs are understood. A matrix that is cut or damaged, or that
// has a word that is not known, is a *SyntaxError and never a guess.
func ParseP2P(text string) (P2P, error) {
	lines := strings.Split(plain(text), "\n")
	head := slices.IndexFunc(lines, namesGPUs)
	if head < 0 {
		return P2P{}, syntax(0, firstLine(lines), "no line that names GPUs only")
	}
	names := strings.Fields(lines[head])
	if len(names) > maxGPUs {
		return P2P{}, syntax(head+1, "", "%d GPUs; at most %d are believable", len(names), maxGPUs)
	}
	p := P2P{at: map[int]int{}}
	for i, name := range names {
		n, _ := gpuNumber(name)
		if _, twice := p.at[n]; twice {
			return P2P{}, syntax(head+1, name, "named twice")
		}
		p.at[n] = i
	}
	for i := head + 1; i < len(lines) && len(p.cells) < len(names); i++ {
		words := strings.Fields(lines[i])
		if len(words) == 0 {
			continue
		}
		if msg := p.wrong(words, names); msg != "" {
			return P2P{}, syntax(i+1, lines[i], "%s", msg)
		}
		p.cells = append(p.cells, words[1:])
	}
	if n := len(p.cells); n < len(names) {
		return P2P{}, syntax(len(lines), "", "the matrix ends before the row of %s", names[n])
	}
	return p, nil
}

func namesGPUs(line string) bool {
	words := strings.Fields(line)
	return len(words) > 0 && !slices.ContainsFunc(words, func(s string) bool {
		_, gpu := gpuNumber(s)
		return !gpu
	})
}

// wrong says what is wrong with the words of the next row; "" if nothing is.
func (p P2P) wrong(words, names []string) string {
	y := len(p.cells)
	switch {
	case words[0] != names[y]:
		return "not the row of " + names[y]
	case len(words) != len(names)+1:
		return "the row has not a cell for each GPU"
	}
	for x, word := range words[1:] {
		switch {
		case (x == y) != (word == "X"):
			return "X belongs where a GPU and itself meet"
		case x != y && !slices.Contains(statuses, word):
			return "the cell of " + names[x] + " is no known status"
		}
	}
	return ""
}
