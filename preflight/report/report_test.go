package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gorun/preflight"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: want -, got +; -update writes it anew\n%s", path, diff)
	}
}

func textOf(t *testing.T, p Page, o TextOptions) string {
	t.Helper()
	var b strings.Builder
	if err := Text(&b, p, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for name, p := range pages() {
		t.Run(name, func(t *testing.T) {
			got := textOf(t, p, TextOptions{Width: 100})
			golden(t, name+".txt", got)
			if !strings.HasSuffix(got, "\n"+p.Decision.Headline()+"\n") {
				t.Errorf("got %q; want the headline as last line", got)
			}
		})
	}
	golden(t, "verbose.txt", textOf(t, full(pages()["one-bad"]), TextOptions{Width: 100, Verbose: true}))
	golden(t, "brief.txt", textOf(t, pages()["one-bad"], TextOptions{Brief: true}))
	golden(t, "colour.txt", textOf(t, pages()["one-bad"], TextOptions{Color: true}))
}

func TestTextKeepsWidth(t *testing.T) {
	for name, p := range pages() {
		for _, width := range []int{60, 80, 120} {
			lines := strings.Split(textOf(t, p, TextOptions{Width: width, Color: true}), "\n")
			for _, line := range lines[:len(lines)-2] { // the headline is one line
				if columns(line) > width {
					t.Errorf("%s: got a line of %d columns; want %d: %q", name, columns(line), width, line)
				}
			}
		}
	}
}

func TestJSON(t *testing.T) {
	for name, p := range pages() {
		t.Run(name, func(t *testing.T) {
			var b, indented bytes.Buffer
			if err := JSON(&b, p); err != nil {
				t.Fatal(err)
			}
			if bytes.Count(b.Bytes(), []byte("\n")) != 1 {
				t.Errorf("got %q; want one line", b.String())
			}
			if err := json.Indent(&indented, b.Bytes(), "", " "); err != nil {
				t.Fatal(err)
			}
			if name != "many" {
				golden(t, name+".json", indented.String())
			}
		})
	}
}

func TestJSONOfMatrices(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, full(page(3, preflight.Shape{}, false))); err != nil {
		t.Fatal(err)
	}
	if want := `"latency_s":[[null,9.87e-05,2.31e-05],`; !strings.Contains(b.String(), want) {
		t.Errorf("got %s; want %s in it", b.String(), want)
	}
}

func TestJSONOfNothing(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, Page{}); err != nil {
		t.Fatal(err)
	}
	if want := `"hosts":[],"checks":[],"findings":[]`; !strings.Contains(b.String(), want) {
		t.Errorf("got %s; want %s in it", b.String(), want)
	}
}

// Every field that JSON writes is described.
func TestJSONIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/preflight-json.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name, p := range pages() {
		var b bytes.Buffer
		if name != "many" {
			p = full(p)
		}
		if err := JSON(&b, p); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		fields(v, names)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !strings.HasPrefix(name, "gpu") && !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/preflight-json.md does not say what `%s` is", name)
		}
	}
}

// fields adds the names of all fields in v.
func fields(v any, names map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			fields(e, names)
		}
	case map[string]any:
		for name, e := range v {
			names[name] = true
			fields(e, names)
		}
	}
}

const hostile = "<script>alert(1)</script>\"'&\x1b[31m\x00\u202e\xff\n"

// hostilePage has texts everywhere that must not be shown as they are.
func hostilePage() Page {
	long := hostile + strings.Repeat("x<b>", 2500)
	p := full(page(3, preflight.Shape{Drop: true}, false, preflight.Finding{Check: hostile, Title: long, Verdict: preflight.NoHost, Hosts: []string{hostile, long}, Evidence: []string{long}, Remedy: hostile}))
	p.Report.Hosts[0], p.Report.Hosts[1] = hostile, long
	p.Report.Checks[0].Title, p.Report.Checks[0].Text, p.Report.Checks[0].ID, p.Report.Checks[0].Area = hostile, long, hostile, hostile
	p.Report.Checks[0].Hosts = map[string]preflight.Verdict{hostile: preflight.Verdict(hostile)}
	p.Decision = preflight.Decide(p.Report, preflight.Shape{Drop: true}, false)
	p.Layout = []Place{{hostile, []int{0}}, {long, nil}}
	p.Remarks, p.Command, p.Version = []string{hostile}, []string{hostile, long}, hostile
	for i := range p.Hosts {
		h := &p.Hosts[i]
		h.Name = p.Report.Hosts[i]
		for k := range h.GPU.Devices {
			h.GPU.Devices[k].Name, h.GPU.Devices[k].Path = hostile, hostile+"/"+long
		}
		for k := range h.RDMA.Devices {
			h.RDMA.Devices[k].Name, h.RDMA.Devices[k].Ports[0].State, h.RDMA.Devices[k].Ports[0].Layer = long, hostile, hostile
		}
		for k := range h.System.NUMA {
			h.System.NUMA[k].CPUs = long
		}
		h.GPU.Topo = hostile
	}
	return p
}

func TestTextOfHostileHosts(t *testing.T) {
	got := textOf(t, hostilePage(), TextOptions{Width: 80, Verbose: true})
	if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && unclean(r) }); i >= 0 {
		t.Errorf("got %q; want no control characters", got[i:min(len(got), i+20)])
	}
	for _, line := range strings.Split(got, "\n") {
		if len(line) > 2*longest {
			t.Errorf("got a line of %d bytes; want it cut", len(line))
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	p := page(4, preflight.Shape{}, false, warning)
	for name, render := range map[string]func(*strings.Builder) error{
		"text": func(b *strings.Builder) error { return Text(b, p, TextOptions{Verbose: true}) },
		"json": func(b *strings.Builder) error { return JSON(b, p) },
		"html": func(b *strings.Builder) error { return HTML(b, p) },
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := render(&b); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), "hunter2") || !strings.Contains(b.String(), "hidden") {
				t.Errorf("got %q; want no hunter2 in it", b.String())
			}
		})
	}
}

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "gpu01", "gpu01"},
		{"empty", "", ""},
		{"control", "a\x1b[0m\r\n\tb", `a\x1b[0m\r\n b`},
		{"direction", "\u202eabc", `\u202eabc`},
		{"bad-byte", "a\xffb", `a\xffb`},
		{"replacement", "a\ufffdb", "a\ufffdb"},
		{"long", strings.Repeat("é", longest), strings.Repeat("é", longest/2-1) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := clean(tt.in); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add(hostile, "gpu01", 40)
	f.Fuzz(func(t *testing.T, a, b string, width int) {
		p := page(3, preflight.Shape{}, false, preflight.Finding{Check: a, Title: b, Verdict: preflight.Warn, Hosts: []string{a, b}, Evidence: []string{a + b}, Remedy: a})
		var out strings.Builder
		if err := Text(&out, p, TextOptions{Width: width}); err != nil || strings.ContainsAny(out.String(), "\x1b\x00\r") {
			t.Errorf("got %q, %v; want no control characters", out.String(), err)
		}
	})
}

// Hosts that a title names are not named again, however their list is written.
func TestHostsAreNamedOnce(t *testing.T) {
	hosts := []string{"login", "gpu1", "gpu2"}
	for title, again := range map[string]bool{"login,gpu[1-2] are busy": false, "login, gpu[1-2] are busy": false, "hosts are busy": true} {
		p := Page{Report: preflight.Report{Findings: []preflight.Finding{{Check: "load", Title: title, Verdict: preflight.Info, Hosts: hosts}}}}
		if got := strings.Contains(textOf(t, p, TextOptions{}), "on login, gpu[1-2]\n"); got != again {
			t.Errorf("%q: hosts are named again: %v; want %v", title, got, again)
		}
	}
}
