package report

import (
	"fmt"
	"strings"
)

// Sizes in pixels of what is drawn of a machine.
const (
	boxW, boxH = 104, 40
	gap        = 8
	head       = 20 // for a title
	drop       = 44 // from the NUMA nodes to the NVSwitches
	barH       = 28
)

// kindsShown is how many kinds of hosts are drawn: where more are, no two hosts are alike.
const kindsShown = 12

func (h *markup) machines(p Page) {
	kinds, plain := machines(p.Hosts)
	if len(kinds) == 0 {
		return
	}
	h.f("<section id=\"topology\"><h2>Topology</h2>\n")
	for i, m := range kinds {
		if i == kindsShown {
			h.f("<p>%s of hosts more.</p>\n", count(len(kinds)-i, "kind"))
			break
		}
		h.f(`<div class="machine"><h3>%s <small>%s: %s</small></h3>`, cut(m.what, 400), count(len(m.hosts), "host"), folded(m.hosts))
		h.draw(m)
		h.f("</div>\n")
	}
	if len(plain) > 0 {
		h.f("<p>Without GPUs and HCAs, or nothing is known of them: %s.</p>\n", folded(plain))
	}
	h.f("</section>\n")
}

// drawing is where things of one machine stand.
type drawing struct {
	*markup
	rows int         // of NICs, of the bridge with most
	at   map[int]int // x of the middle of a GPU, by index
	gpuY int         // lower edge of GPUs
	x    int         // that is free
	m    *machine
}

func (h *markup) draw(m *machine) {
	d := &drawing{markup: &markup{}, at: map[int]int{}, m: m}
	for _, n := range m.domains {
		for _, b := range n.bridges {
			d.rows = max(d.rows, (len(b.nics)+b.columns()-1)/b.columns())
		}
	}
	d.gpuY = head*2 + gap*2 + d.rows*(boxH+gap) + boxH
	bottom := d.gpuY + gap*2
	for _, n := range m.domains {
		if d.x > 0 {
			d.f(`<line class="wire" x1="%d" y1="%d" x2="%d" y2="%d"/>`, d.x-gap*2, bottom/2, d.x, bottom/2)
		}
		d.domain(n, bottom)
	}
	height := d.nvlinks(bottom)
	// It shrinks with the window, but not until it is illegible.
	width := d.x - gap*2 + 2
	h.f("\n<div class=\"wide\"><svg style=\"width:%dpx;min-width:%dpx\" viewBox=\"0 0 %d %d\" role=\"img\">%s</svg></div>",
		width, min(width, 800), width, height, raw(d.b.String()))
}

// columns is how many boxes stand side by side below a bridge.
func (b bridge) columns() int { return max(1, len(b.gpus), min(len(b.nics), 2)) }

func (d *drawing) domain(n domain, bottom int) {
	inner := 0
	for _, b := range n.bridges {
		inner += b.width() + gap
	}
	width := max(inner+gap, 150)
	name := fmt.Sprintf("NUMA node %d", n.id)
	if n.id < 0 {
		name = "NUMA node not known"
	}
	d.f(`<rect class="numa" x="%d" y="1" width="%d" height="%d" rx="5"/><text class="name" x="%d" y="15">%s</text>`, d.x+1, width-1, bottom-2, d.x+gap, name)
	if n.cpus != "" && width > 250 {
		d.f(`<text class="soft" x="%d" y="15">CPUs %s</text>`, d.x+gap+108, short(n.cpus, (width-160)/7))
	}
	x := d.x + gap
	for _, b := range n.bridges {
		d.bridge(b, x)
		x += b.width() + gap
	}
	d.x += width + gap*2
}

func (b bridge) width() int { return b.columns()*(boxW+gap) + gap }

func (d *drawing) bridge(b bridge, x int) {
	class, name := raw("root"), "no PCIe switch"
	if b.switched {
		class, name = "switch", "PCIe switch"
	}
	top := head + 2
	d.f(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="4"/><text class="soft" x="%d" y="%d">%s</text>`,
		class, x, top, b.width(), d.gpuY+gap-top, x+gap, top+14, name)
	for i, nic := range b.nics {
		row := d.rows - (len(b.nics)-1)/b.columns() - 1 + i/b.columns()
		d.box(nic, "nic", x+gap+i%b.columns()*(boxW+gap), top+head+row*(boxH+gap))
	}
	for i, g := range b.gpus {
		gx := x + gap + i*(boxW+gap)
		d.at[g.index] = gx + boxW/2
		d.box(g, "gpu", gx, d.gpuY-boxH)
	}
}

func (d *drawing) box(b box, class raw, x, y int) {
	if b.bad {
		class = "badbox"
	}
	d.f(`<g><title>%s: %s</title><rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="3"/><text class="name" x="%d" y="%d" text-anchor="middle">%s</text><text class="soft" x="%d" y="%d" text-anchor="middle">%s</text></g>`,
		cut(b.name, 100), cut(b.line, 100), class, x, y, boxW, boxH, x+boxW/2, y+17, short(b.name, 13), x+boxW/2, y+32, short(b.line, 16))
}

// short is the first characters of s.
func short(s string, most int) string {
	r := []rune(cut(s, 200))
	if len(r) <= most {
		return string(r)
	}
	return strings.TrimSpace(string(r[:most-1])) + "…"
}

// nvlinks draws what is below the GPUs, and returns where it ends.
func (d *drawing) nvlinks(bottom int) int {
	switch {
	case d.m.switches > 0:
		return d.bar(bottom, count(d.m.switches, "NVSwitch"))
	case d.m.alike():
		return d.bar(bottom, fmt.Sprintf("NVLink: NV%d between any two", d.m.pairs[0].links))
	case len(d.m.pairs) > 0:
		return d.arcs(bottom)
	}
	for _, n := range d.m.domains {
		for _, b := range n.bridges {
			for _, g := range b.gpus {
				if g.links != "" {
					return d.bar(bottom, "NVLink; between which GPUs is not known")
				}
			}
		}
	}
	return bottom + 1
}

// bar draws switches, and what connects each GPU with them.
func (d *drawing) bar(bottom int, text string) int {
	top := bottom + drop - gap
	for _, n := range d.m.domains {
		for _, b := range n.bridges {
			for _, g := range b.gpus {
				d.riser(g, bottom, top)
			}
		}
	}
	d.f(`<rect class="nvswitch" x="1" y="%d" width="%d" height="%d" rx="4"/><text class="name" x="%d" y="%d" text-anchor="middle">%s</text>`,
		top, d.x-gap*2-1, barH, (d.x-gap*2)/2, top+19, text)
	return top + barH + 2
}

func (d *drawing) riser(g box, bottom, top int) {
	if g.links == "" {
		return
	}
	x, width, class, fill := d.at[g.index], 3, raw("nvlink"), raw("soft")
	if g.cut {
		class, fill = "badbox", "name"
	}
	d.f(`<line class="%s" stroke-width="%d" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="%s" x="%d" y="%d">%s</text>`,
		class, width, x, d.gpuY, x, top, fill, x+6, bottom+22, g.links+" links")
}

// arcs draws a line for each pair of GPUs, the farther ones the lower.
func (d *drawing) arcs(bottom int) int {
	deepest := 0
	for _, p := range d.m.pairs {
		a, okA := d.at[p.a]
		b, okB := d.at[p.b]
		if !okA || !okB {
			continue
		}
		depth := 30 + max(a-b, b-a)/6
		deepest = max(deepest, depth/2)
		d.f(`<g><title>GPU%d to GPU%d: NV%d</title><path class="nvlink" stroke-width="%.1f" d="M%d %dQ%d %d %d %d"/></g>`,
			p.a, p.b, p.links, 1+float64(min(p.links, 18))/4, a, d.gpuY, (a+b)/2, d.gpuY+depth*2, b, d.gpuY)
	}
	y := max(bottom, d.gpuY+deepest*2) + 16
	d.f(`<text class="soft" x="%d" y="%d">NVLink: %s</text>`, gap, y, d.kinds())
	return y + 8
}

// kinds says how many pairs have how many NVLinks.
func (d *drawing) kinds() string {
	var parts []string
	for links := 64; links >= 0; links-- {
		n := 0
		for _, p := range d.m.pairs {
			if min(p.links, 64) == links {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("NV%d of %s", links, count(n, "pair")))
		}
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(", of %d", d.m.gpus*(d.m.gpus-1)/2)
}
