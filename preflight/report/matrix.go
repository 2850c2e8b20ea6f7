package report

import (
	"fmt"
	"slices"
)

// summary is what a matrix has.
type summary struct {
	median, least, most float64
	leastAt, mostAt     [2]int // row and column
}

// spread summarises what was measured; false: nothing was.
func spread(m [][]float64) (s summary, ok bool) {
	var all []float64
	for y, row := range m {
		for x, v := range row {
			if !measured(v) {
				continue
			}
			if len(all) == 0 || v < s.least {
				s.least, s.leastAt = v, [2]int{y, x}
			}
			if len(all) == 0 || v > s.most {
				s.most, s.mostAt = v, [2]int{y, x}
			}
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return s, false
	}
	slices.Sort(all)
	s.median = all[len(all)/2]
	return s, true
}

// seconds writes a time of x seconds with two or three digits.
func seconds(x float64) string {
	switch {
	case x < 1e-6:
		return digits(x*1e9) + " ns"
	case x < 1e-3:
		return digits(x*1e6) + " µs"
	case x < 1:
		return digits(x*1e3) + " ms"
	}
	return digits(x) + " s"
}

// rate writes x bytes per second likewise.
func rate(x float64) string {
	switch {
	case x < 1e6:
		return digits(x/1e3) + " kB/s"
	case x < 1e9:
		return digits(x/1e6) + " MB/s"
	}
	return digits(x/1e9) + " GB/s"
}

func digits(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func nth(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("host %d", i)
}
