package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorun/preflight"
	"gorun/preflight/facts"
)

func htmlOf(t testing.TB, p Page) string {
	t.Helper()
	var b strings.Builder
	if err := HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// harmless are the only elements that a page has.
var harmless = strings.Fields(`html head meta title style body main header section article h1 h2 h3 p dl dt dd b small span i code pre
	details summary div table thead tbody tr th td ul li svg g rect line path text tspan`)

// readPage reads a page strictly, fails if it is not well-formed or holds what could run
// or load something, and returns its text.
func readPage(t testing.TB, page string) string {
	t.Helper()
	d, ids := xml.NewDecoder(strings.NewReader(page)), map[string]bool{}
	var text strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			if !slices.Contains(harmless, token.Name.Local) {
				t.Errorf("got <%s>; want no such element", token.Name.Local)
			}
			for _, a := range token.Attr {
				name := a.Name.Local
				if strings.HasPrefix(name, "on") || name == "href" || name == "src" || name == "style" && strings.Contains(a.Value, "url") {
					t.Errorf("got %s=%q in <%s>; want nothing that runs or loads", name, a.Value, token.Name.Local)
				}
				if name == "id" && ids[a.Value] {
					t.Errorf("got id %q twice", a.Value)
				} else if name == "id" {
					ids[a.Value] = true
				}
			}
		}
	}
}

func TestHTML(t *testing.T) {
	for name, p := range pages() {
		t.Run(name, func(t *testing.T) {
			text := readPage(t, htmlOf(t, p))
			for _, f := range p.Report.Findings {
				if !strings.Contains(text, f.Title) || !strings.Contains(text, f.Remedy) {
					t.Errorf("got no %q and %q; want them on the page", f.Title, f.Remedy)
				}
			}
			for _, want := range []string{p.Decision.Headline(), "NCCL_SOCKET_IFNAME='=eth0'", "Hosts and checks"} {
				if !strings.Contains(text, want) {
					t.Errorf("got no %q; want it on the page", want)
				}
			}
		})
	}
}

func TestHTMLOfDrawings(t *testing.T) {
	text := readPage(t, htmlOf(t, kindsPage()))
	for _, want := range []string{"8 × Tesla V100-SXM2-32GB", "GPU0 to GPU3: NV2", "NVLink: NV2 of 8 pairs, NV1 of 8 pairs, of 28", "NUMA node not known",
		"4 × NVIDIA L40S, 8 × 400 Gb/s RoCE", "4 NVSwitches", "18 links", "nothing is known of them: gpu03"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q; want it on the page", want)
		}
	}
	text = readPage(t, htmlOf(t, full(pages()["one-bad"])))
	for _, want := range []string{"17 of 18 links", "HCA DOWN", "1 host: gpu02", "gpu00 to gpu01: 99 µs"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q; want it on the page", want)
		}
	}
}

func TestHTMLOfHostileHosts(t *testing.T) {
	text := readPage(t, htmlOf(t, hostilePage()))
	if !strings.Contains(text, `<script>alert(1)</script>"'&\x1b[31m\x00\u202e\xff\n`) {
		t.Error("the page lacks the text of the hosts")
	}
}

func TestHTMLOfNothing(t *testing.T) {
	readPage(t, htmlOf(t, Page{}))
	p := Page{Latency: [][]float64{{}, nil, {1}}, Bandwidth: [][]float64{{0}}, Hosts: []facts.Host{{}, {GPU: facts.GPU{Devices: make([]facts.Device, 2)}}}}
	readPage(t, htmlOf(t, p))
}

// Figures that differ at random make the largest file.
func TestHTMLOfManyHosts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{256, 600} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := page(n, preflight.Shape{}, false)
			for range n {
				row := make([]float64, n)
				for x := range row {
					row[x] = 1e-5 * (1 + 9*random.Float64())
				}
				p.Latency, p.Bandwidth = append(p.Latency, row), append(p.Bandwidth, row)
			}
			if page := htmlOf(t, p); len(page) > 5e6 {
				t.Errorf("got %d bytes; want 5 MB at most", len(page))
			}
		})
	}
}

func TestRowsAreFolded(t *testing.T) {
	var got []string
	for _, r := range rows(pages()["many"].Report) {
		got = append(got, folded(r.hosts))
	}
	want := []string{"gpu[100-139]", "gpu200", "gpu[003-014]", "gpu[000-002,015-099,140-199,201-255]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestColumnsAreFolded(t *testing.T) {
	var checks []preflight.Result
	for _, area := range []string{"hosts", "gpu"} {
		for i := range 30 {
			checks = append(checks, preflight.Result{ID: fmt.Sprint(area, i), Area: area, Verdict: preflight.OK})
		}
	}
	checks[3].Verdict = preflight.Skipped
	checks[40].Verdict, checks[40].Hosts = preflight.Warn, map[string]preflight.Verdict{"gpu01": preflight.Warn}
	var got []string
	for _, c := range columnsOf(checks) {
		got = append(got, c.name)
	}
	if want := []string{"hosts, 30 checks", "gpu, 29 checks", "gpu10"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if got := columnsOf(checks[:wide]); len(got) != wide {
		t.Errorf("got %d columns of few checks; want %d", len(got), wide)
	}
}

func TestAbove(t *testing.T) {
	tests := []struct{ name, path, want string }{
		{"switch", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", "pci0000:10/0000:10:01.0/0000:11:00.0"},
		{"two-switches", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0", "pci0000:10/0000:10:01.0/0000:11:00.0"},
		{"root-port", "pci0000:10/0000:10:01.0/0000:11:00.0", ""},
		{"hyper-v", "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500/pci0001:00/0001:00:00.0", ""},
		{"sys", "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"},
		{"none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := above(tt.path); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func FuzzHTML(f *testing.F) {
	f.Add(hostile, "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", cubeMesh, 3, -1, 1.5)
	f.Add("]]>", "", "GPU0", -7, 99, -1.0)
	f.Fuzz(func(t *testing.T, name, path, text string, index, numa int, x float64) {
		p := full(page(3, preflight.Shape{}, false, preflight.Finding{Check: name, Title: text, Verdict: preflight.Warn, Hosts: []string{name}, Evidence: []string{text}, Remedy: path}))
		p.Report.Hosts[1], p.Latency[0][1], p.Latency[1] = name, x, p.Latency[1][:1]
		p.Hosts[0].GPU.Topo, p.Hosts[0].GPU.Switches = text, nil
		for i := range p.Hosts[0].GPU.Devices {
			d := &p.Hosts[0].GPU.Devices[i]
			d.Path, d.Name, d.Index, d.NUMA, d.NVLinks = path, name, d.Index*index, numa+i%2, index
		}
		readPage(t, htmlOf(t, p))
	})
}

func BenchmarkHTML(b *testing.B) {
	p := full(pages()["many"])
	for b.Loop() {
		htmlOf(b, p)
	}
}
