package topo

import (
	"slices"
	"strings"
)

// header is the line that names the columns.
type header struct {
	line    int // index into the lines
	names   []string
	gpus    int
	tails   []string // the columns after the devices: a subset of tailNames, in its order
	spacing bool     // columns are separated by blanks, not by tabs
}

var tailNames = []string{"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}

var (
	// A terminal that wraps lines glues names together: the known shapes of names part them again.
	gluedNames = pattern(`^(?:GPU\d+|NIC\d+|mlx\d+_(?:bond_)?\d+)+$`)
	knownName  = pattern(`GPU\d+|NIC\d+|mlx\d+_(?:bond_)?\d+`)
	deviceName = pattern(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
	tailColumn = pattern(`(CPU|NUMA)\s+Affinity|GPU\s+NUMA\s+ID`)
	startsGPU  = pattern(`^GPU\d`)
	listValue  = pattern(`^(?:N/A|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?)$`)
)

// findHeader looks for the line with the names of devices and "CPU Affinity".
func findHeader(lines []string) (header, error) {
	for i, line := range lines {
		at := tailColumn().FindStringIndex(line)
		if at == nil || !startsGPU().MatchString(strings.TrimSpace(line)) {
			continue
		}
		h := header{line: i, spacing: !strings.Contains(strings.TrimSpace(line), "\t")}
		for _, s := range tailColumn().FindAllString(line, -1) {
			h.tails = append(h.tails, strings.Join(strings.Fields(s), " "))
		}
		if left := strings.TrimSpace(tailColumn().ReplaceAllString(line[at[0]:], "")); left != "" {
			return header{}, syntax(i+1, left, "unknown column")
		}
		return h, h.setNames(line[:at[0]])
	}
	return header{}, syntax(0, firstLine(lines), "no line that names GPUs and has the column %q", tailNames[0])
}

func firstLine(lines []string) string {
	i := slices.IndexFunc(lines, func(s string) bool { return strings.TrimSpace(s) != "" })
	if i < 0 {
		return ""
	}
	return lines[i]
}

func (h *header) setNames(text string) error {
	at := h.line + 1
	for i, t := range h.tails {
		if i >= len(tailNames) || t != tailNames[i] {
			return syntax(at, t, "column is not where it belongs")
		}
	}
	for _, f := range strings.Fields(text) {
		if gluedNames().MatchString(f) {
			h.names = append(h.names, knownName().FindAllString(f, -1)...)
		} else {
			h.names = append(h.names, f)
		}
	}
	if len(h.names) > maxDevices {
		return syntax(at, "", "%d devices; at most %d are believable", len(h.names), maxDevices)
	}
	seen := map[string]bool{}
	for i, name := range h.names {
		if seen[name] {
			return syntax(at, name, "named twice")
		}
		seen[name] = true
		_, gpu := gpuNumber(name)
		switch {
		case gpu && h.gpus < i:
			return syntax(at, name, "a GPU after other devices")
		case gpu:
			h.gpus++
		case !deviceName().MatchString(name) || startsGPU().MatchString(name) || strings.HasPrefix(name, "MIG"):
			return syntax(at, name, "not the name of a GPU or NIC")
		}
	}
	if h.gpus > maxGPUs {
		return syntax(at, "", "%d GPUs; at most %d are believable", h.gpus, maxGPUs)
	}
	return nil
}

// parseRows reads a row per name and returns with them the line of each, from 1.
func parseRows(lines []string, h header) (m Matrix, at []int, err error) {
	m = Matrix{Columns: h.names, Names: slices.Clone(h.names), GPUs: h.gpus}
	for i := h.line + 1; i < len(lines) && len(m.Cells) < len(h.names); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
		case strings.HasPrefix(line, "MIG"):
			m.note("Line %d is of a part of a GPU (MIG), which has no links of its own; it was passed over.", i+1)
		default:
			if err := m.parseRow(i+1, lines[i], h); err != nil {
				return Matrix{}, nil, err
			}
			at = append(at, i+1)
		}
	}
	if len(m.Cells) < len(h.names) {
		return Matrix{}, nil, syntax(len(lines), "", "the matrix ends before the row of %s", h.names[len(m.Cells)])
	}
	return m, at, nil
}

func (m *Matrix) parseRow(at int, line string, h header) error {
	name := h.names[len(m.Cells)]
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), name)
	if !ok || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return syntax(at, line, "not the row of %s", name)
	}
	row := make([]Link, 0, len(h.names))
	for len(row) < len(h.names) {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			return syntax(at, line, "the row of %s has %d cells, not %d", name, len(row), len(h.names))
		}
		cell, after, ok := cutCell(rest)
		if !ok {
			word, _, _ := strings.Cut(strings.Fields(rest)[0], "\t")
			return syntax(at, word, "cell %d of %s, %s, is no known connection", len(row)+1, name, h.names[len(row)])
		}
		row, rest = append(row, cell), after
	}
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return syntax(at, rest, "the row of %s goes on without a space", name)
	}
	m.Cells = append(m.Cells, row)
	return m.parseTail(at, name, rest, h)
}

// parseTail reads what follows the cells. In a container any of it may be blank, so values are
// told apart by the tabs before them; where tabs have become blanks, only by their number.
func (m *Matrix) parseTail(at int, name, rest string, h header) error {
	words := strings.Fields(rest)
	for _, w := range words {
		if !listValue().MatchString(w) {
			return syntax(at, w, "not a list of CPUs or NUMA nodes, in the row of %s", name)
		}
	}
	if len(words) > len(h.tails) {
		return syntax(at, words[len(h.tails)], "the row of %s is too long", name)
	}
	if _, gpu := gpuNumber(name); !gpu {
		return nil
	}
	values, sure := tailValues(rest, words, h)
	if !sure {
		m.note("It is not certain to which column %q of %s belongs; it was left out.", strings.Join(words, " "), name)
	}
	m.CPUAffinity = append(m.CPUAffinity, known(values[0]))
	m.NUMAAffinity = append(m.NUMAAffinity, known(values[1]))
	m.GPUNUMA = append(m.GPUNUMA, known(values[2]))
	return nil
}

func known(s string) string {
	if s == "N/A" {
		return ""
	}
	return s
}

// tailValues assigns words to columns. sure is false if some may belong to several.
func tailValues(rest string, words []string, h header) (values [3]string, sure bool) {
	if len(words) == len(h.tails) {
		copy(values[:], words)
		return values, true
	}
	if len(words) == 0 {
		return values, true
	}
	if h.spacing || !strings.Contains(rest, "\t") {
		// Only "GPU NUMA ID" is ever N/A while others are blank.
		if len(words) == 1 && words[0] == "N/A" {
			return values, true
		}
		return values, false
	}
	fields := strings.Split(rest, "\t")[1:]
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	// There are two tabs before the value of "GPU NUMA ID".
	if len(fields) > 3 && fields[2] == "" {
		fields = slices.Delete(fields, 2, 3)
	}
	for i, f := range fields {
		switch {
		case strings.Contains(f, " "), f != "" && i >= len(h.tails):
			return [3]string{}, false
		case f != "":
			values[i] = f
		}
	}
	return values, true
}
