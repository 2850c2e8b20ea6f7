package report

import (
	"fmt"
	"strings"
)

// scale says how figures of a matrix are shown.
type scale struct {
	unit func(float64) string
	more bool // more is better
}

// edges part figures by how many times worse than the median they are.
var edges = [...]float64{0.5, 0.7, 0.9, 1.1, 1.4, 2, 3, 5}

// step is 0 for the best figures, len(edges) for the worst.
func (s scale) step(x, median float64) int {
	worse := x / median
	if s.more {
		worse = median / x
	}
	for i, edge := range edges {
		if worse < edge {
			return i
		}
	}
	return len(edges)
}

// limits says which figures are of a step, around the median.
func (s scale) limits(step int, median float64) string {
	at := func(i int) string {
		if s.more {
			return s.unit(median / edges[i])
		}
		return s.unit(median * edges[i])
	}
	under, over := "under ", "over "
	if s.more {
		under, over = over, under
	}
	switch step {
	case 0:
		return under + at(0)
	case len(edges):
		return over + at(len(edges)-1)
	}
	return at(step-1) + " – " + at(step)
}

// most is how many rows and columns a picture has: of more hosts, some share one.
const most = 256

// picture is a matrix as it is drawn.
type picture struct {
	n, block int // rows and columns; hosts in each
	cell     int // pixels
	m        [][]float64
	median   float64
	scale
}

func newPicture(m [][]float64, s scale) (picture, summary, bool) {
	sum, ok := spread(m)
	if !ok {
		return picture{}, sum, false
	}
	p := picture{block: (len(m) + most - 1) / most, median: sum.median, scale: s}
	p.n = (len(m) + p.block - 1) / p.block
	p.m = make([][]float64, p.n)
	for y := range p.m {
		p.m[y] = make([]float64, p.n)
		for x := range p.m[y] {
			p.m[y][x] = p.worst(m, y, x)
		}
	}
	switch {
	case p.n <= 10:
		p.cell = 64
	case p.n <= 16:
		p.cell = 50
	case p.n <= 40:
		p.cell = 24
	default:
		p.cell = max(4, 1040/p.n)
	}
	return p, sum, true
}

// worst is the worst figure of a block of m; 0: none was measured.
func (p picture) worst(m [][]float64, by, bx int) (worst float64) {
	for y := by * p.block; y < min(len(m), (by+1)*p.block); y++ {
		for x := bx * p.block; x < min(len(m[y]), (bx+1)*p.block); x++ {
			if v := m[y][x]; measured(v) && (worst == 0 || (v > worst) != p.more) {
				worst = v
			}
		}
	}
	return worst
}

func (h *markup) heat(id, title, what string, hosts []string, m [][]float64, s scale) {
	p, sum, ok := newPicture(m, s)
	if !ok {
		return
	}
	h.f(`<section id="%s"><h2>%s</h2><p>%s `, raw(id), title, what)
	pair := func(at [2]int) string { return cut(nth(hosts, at[0]), 80) + " to " + cut(nth(hosts, at[1]), 80) }
	h.f("Median %s, least %s (%s), most %s (%s).", s.unit(sum.median), s.unit(sum.least), pair(sum.leastAt), s.unit(sum.most), pair(sum.mostAt))
	if p.block > 1 {
		h.f(" A square is the worst of %d × %d pairs.", p.block, p.block)
	}
	h.f("</p>\n")
	h.legend(p)
	h.drawHeat(p, hosts)
	h.f("</section>\n")
}

func (h *markup) legend(p picture) {
	h.f(`<p class="legend">`)
	for step := range len(edges) + 1 {
		h.f(`<span><i class="h%d"></i>%s</span> `, step, p.limits(step, p.median))
	}
	h.f("<span><i class=\"hx\"></i>not measured</span></p>\n")
}

// drawHeat draws squares: a few each with its figure, more with a text that the mouse
// brings up, and many as one path for each colour, which keeps the file small.
func (h *markup) drawHeat(p picture, hosts []string) {
	every := 1 // how many squares have one name
	for every*p.cell < 11 {
		every *= 2
	}
	left := 20
	for i := 0; i < p.n; i += every {
		left = max(left, 10+7*columns(cut(p.name(hosts, i), 20)))
	}
	side := p.n * p.cell
	h.f(`<div class="wide"><svg class="heat" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`, left+side+2, left+side+2, left+side+2, left+side+2)
	for i := 0; i < p.n; i += every {
		at := left + i*p.cell + min(p.cell, every*p.cell)/2 + 4
		h.f(`<text x="%d" y="%d" text-anchor="end">%s</text>`, left-5, at, cut(p.name(hosts, i), 20))
		h.f(`<text transform="translate(%d %d) rotate(-90)">%s</text>`, at, left-5, cut(p.name(hosts, i), 20))
	}
	h.f(`<g transform="translate(%d %d)">`, left, left)
	if p.n <= 64 {
		h.squares(p, hosts)
	} else {
		h.paths(p)
	}
	h.f("</g></svg></div>\n")
}

func (p picture) name(hosts []string, i int) string { return nth(hosts, i*p.block) }

func (p picture) class(y, x int) string {
	if !measured(p.m[y][x]) {
		return "hx"
	}
	return fmt.Sprintf("h%d", p.step(p.m[y][x], p.median))
}

func (h *markup) squares(p picture, hosts []string) {
	gap := 1
	for y := range p.n {
		for x := range p.n {
			text := "not measured"
			if measured(p.m[y][x]) {
				text = p.unit(p.m[y][x])
			}
			if x == y && !measured(p.m[y][x]) {
				continue
			}
			h.f(`<g><title>%s to %s: %s</title><rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`,
				cut(p.name(hosts, y), 40), cut(p.name(hosts, x), 40), text, raw(p.class(y, x)), x*p.cell, y*p.cell, p.cell-gap, p.cell-gap)
			if value, unit, ok := strings.Cut(text, " "); ok && p.cell >= 50 && measured(p.m[y][x]) {
				h.f(`<text class="on-%s" x="%d" y="%d" text-anchor="middle">%s<tspan class="unit" x="%d" dy="13">%s</tspan></text>`,
					raw(p.class(y, x)), x*p.cell+p.cell/2, y*p.cell+p.cell/2, value, x*p.cell+p.cell/2, unit)
			}
			h.f("</g>")
		}
		h.f("\n")
	}
}

// paths draws runs of squares of one colour.
func (h *markup) paths(p picture) {
	runs := map[string]*strings.Builder{}
	for y := range p.n {
		for x := 0; x < p.n; {
			class, end := p.class(y, x), x+1
			for end < p.n && p.class(y, end) == class {
				end++
			}
			if runs[class] == nil {
				runs[class] = &strings.Builder{}
			}
			fmt.Fprintf(runs[class], "M%d %dh%dv%dH%dz", x*p.cell, y*p.cell, (end-x)*p.cell, p.cell, x*p.cell)
			x = end
		}
	}
	for step := range len(edges) + 2 {
		class := fmt.Sprintf("h%d", step)
		if step > len(edges) {
			class = "hx"
		}
		if run := runs[class]; run != nil {
			h.f("<path class=\"%s\" d=\"%s\"/>\n", raw(class), raw(run.String()))
		}
	}
}
