package topo

import (
	"strings"
)

var (
	legendWord = pattern(`^\s+(NV#|SYS|SOC|PHB|PXB|PIX|NODE|X)\s*=\s*\S`)
	nicLegend  = pattern(`^\s*(NIC\d+)\s*:(.*)$`)
	hcaName    = pattern(`^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$`)
)

// parseLegend reads what follows the rows: which words there are, and the names of NICs. Text that
// is neither is somebody else's, but for another row, which means that the header was not whole.
func (m *Matrix) parseLegend(lines []string, from int) error {
	nv, soc := false, false
	named := map[string]string{}
	for i := from; i < len(lines); i++ {
		line := lines[i]
		if w := legendWord().FindStringSubmatch(line); w != nil {
			m.Legend = m.Legend || w[1] != "X"
			nv, soc = nv || w[1] == "NV#", soc || w[1] == "SOC"
		} else if w := nicLegend().FindStringSubmatch(line); w != nil {
			if err := m.addName(named, i+1, w[1], strings.TrimSpace(w[2])); err != nil {
				return err
			}
		} else if err := m.refuseRow(i+1, line); err != nil {
			return err
		}
	}
	// The drivers that said SOC knew no NVLink.
	m.PCIOnly = m.Legend && !nv && !soc && !m.HasNVLink()
	m.applyNames(named)
	return nil
}

// refuseRow refuses a line that has the form of a row of the matrix.
func (m *Matrix) refuseRow(at int, line string) error {
	f := strings.Fields(line)
	if len(f) < 2 || !knownName().MatchString(f[0]) {
		return nil
	}
	if _, rest, ok := cutCell(f[1]); ok && rest == "" {
		return syntax(at, line, "a row that the line with the names does not have")
	}
	return nil
}

func (m *Matrix) addName(named map[string]string, at int, nic, hca string) error {
	if old, ok := named[nic]; ok && old != hca {
		return syntax(at, nic, "two names: %q and %q", old, hca)
	}
	named[nic] = hca
	return nil
}

// applyNames takes the names of the legend that can be names: with some forty NICs, nvidia-smi
// has been seen to print parts of its header there.
func (m *Matrix) applyNames(named map[string]string) {
	times := map[string]int{}
	for _, hca := range named {
		times[hca]++
	}
	var missing []string
	for i := m.GPUs; i < len(m.Columns); i++ {
		col := m.Columns[i]
		hca, ok := named[col]
		switch {
		case !strings.HasPrefix(col, "NIC"):
		case !ok:
			missing = append(missing, col)
		case !hcaName().MatchString(hca) || len(hca) > 63:
			m.note("The legend names %s %q, which is not the name of a device; it was not believed.", col, hca)
		case times[hca] > 1:
			m.note("The legend gives several NICs the name %q; it was not believed for %s.", hca, col)
		default:
			m.Names[i] = hca
		}
	}
	if len(missing) > 0 {
		m.note("The legend does not name %s.", strings.Join(missing, ", "))
	}
}
