package report

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorun/preflight"
	"gorun/preflight/facts"
)

// chromium runs the browser without a window and returns what it prints.
func chromium(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("scripts/need slow installs it: %v", err)
		}
		t.Skipf("scripts/need slow installs it: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("chromium took over two minutes"))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--hide-scrollbars", "--allow-file-access-from-files", "--user-data-dir=" + t.TempDir()}, args...)...)
	cmd.WaitDelay = time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v, %v\n%s", cmd, err, context.Cause(ctx), stderr.String())
	}
	return string(out)
}

// browserPages are what is looked at.
func browserPages() map[string]Page {
	four := full(page(4, preflight.Shape{Drop: true}, false, oneBad, warning))
	many := full(pages()["many"])
	for i := range 20 {
		many.Hosts[i*9].GPU.Switches = nil // behind a hypervisor
	}
	return map[string]Page{"4": four, "16": full(pages()["healthy"]), "48": full(page(48, preflight.Shape{}, false, noGo, notKnown)), "256": many, "kinds": kindsPage(), "hostile": hostilePage(), "rows": rowsPage()}
}

// rowsPage has 256 hosts of which no two came out the same.
func rowsPage() Page {
	var found []preflight.Finding
	for i, name := range hostNames(256) {
		for bit, check := range []string{"clock", "mtu", "hca-port", "xid", "nvlink", "shm", "libnccl", "bandwidth"} {
			if i>>bit&1 != 0 {
				found = append(found, preflight.Finding{Check: check, Title: "something is odd with " + name, Verdict: preflight.Warn, Hosts: []string{name}})
			}
		}
	}
	p := page(256, preflight.Shape{}, false, found...)
	for i, c := range p.Report.Checks {
		for _, f := range found {
			if f.Check == c.ID {
				p.Report.Checks[i].Hosts[f.Hosts[0]] = f.Verdict
			}
		}
	}
	p.Report.Findings = p.Report.Findings[:3]
	return p
}

// kindsPage has hosts that are drawn in other ways.
func kindsPage() Page {
	p := full(page(4, preflight.Shape{}, false))
	cube := &p.Hosts[0] // V100: NVLinks between some GPUs, no tree
	cube.GPU.Switches, cube.GPU.Topo = nil, cubeMesh
	for i := range cube.GPU.Devices {
		d := &cube.GPU.Devices[i]
		d.Name, d.Path, d.NVLinks, d.NVActive = "Tesla V100-SXM2-32GB", "", 6, 6
	}
	cube.RDMA.Devices = cube.RDMA.Devices[:4]
	pcie := &p.Hosts[1] // no NVLink; two GPUs and four NICs below each of two switches
	pcie.GPU.Switches, pcie.GPU.Topo, pcie.GPU.Devices = nil, "", pcie.GPU.Devices[:4]
	for i := range pcie.GPU.Devices {
		d := &pcie.GPU.Devices[i]
		d.Name, d.NVLinks, d.NVActive, d.NUMA = "NVIDIA L40S", 0, 0, -1
		d.Path = fmt.Sprintf("pci0000:%d0/0000:%d0:01.0/0000:11:00.0/0000:12:0%d.0/0000:13:00.0", i/2, i/2, i)
	}
	for i := range pcie.RDMA.Devices {
		d := &pcie.RDMA.Devices[i]
		d.NUMA, d.Path = -1, fmt.Sprintf("pci0000:%d0/0000:%d0:01.0/0000:11:00.0/0000:12:0%d.0/0000:13:00.0", i/4, i/4, i)
		d.Ports[0].Layer = "Ethernet"
	}
	p.Hosts[2].RDMA.Devices = nil
	p.Hosts[3] = facts.Host{Name: "gpu03"}
	return p
}

const cubeMesh = `	GPU0	GPU1	GPU2	GPU3	GPU4	GPU5	GPU6	GPU7	CPU Affinity	NUMA Affinity
GPU0	 X 	NV1	NV1	NV2	NV2	SYS	SYS	SYS	0-47	0
GPU1	NV1	 X 	NV2	NV1	SYS	NV2	SYS	SYS	0-47	0
GPU2	NV1	NV2	 X 	NV2	SYS	SYS	NV1	SYS	0-47	0
GPU3	NV2	NV1	NV2	 X 	SYS	SYS	SYS	NV1	0-47	0
GPU4	NV2	SYS	SYS	SYS	 X 	NV1	NV1	NV2	48-95	1
GPU5	SYS	NV2	SYS	SYS	NV1	 X 	NV2	NV1	48-95	1
GPU6	SYS	SYS	NV1	SYS	NV1	NV2	 X 	NV2	48-95	1
GPU7	SYS	SYS	SYS	NV1	NV2	NV1	NV2	 X 	48-95	1

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
`

// measure is a page around a report that says how large that comes out in windows of
// some widths, what sticks out, and how many scripts it has.
const measure = `<!DOCTYPE html><body style="margin:0"><p id="out">none</p>
<script>
const said = [];
for (const width of [1280, 800, 400]) {
  const f = document.createElement("iframe");
  f.style = "border:0;height:900px;width:" + width + "px";
  f.src = "%s";
  f.onload = () => {
    const d = f.contentDocument, e = d.documentElement, wide = [];
    for (const n of d.querySelectorAll("main *")) {
      const r = n.getBoundingClientRect();
      if (r.right > e.clientWidth + 1 && !n.parentNode.closest(".wide, .grid")) wide.push(n.tagName + "." + n.className);
    }
    said.push("size=" + [width, e.scrollWidth, e.scrollHeight, d.querySelectorAll("svg").length, d.scripts.length].join(",") + " wide=" + wide.slice(0, 5).join("+") + ";");
    out.textContent = said.join(" ");
  };
  document.body.append(f);
}
</script>`

var sizes = regexp.MustCompile(`size=(\d+),(\d+),(\d+),(\d+),(\d+) wide=([^;]*);`)

// REPORT_SHOTS names a folder that keeps the pages and pictures, to look at.
func TestSlowBrowser(t *testing.T) {
	for name, p := range browserPages() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if keep := os.Getenv("REPORT_SHOTS"); keep != "" {
				dir = keep
			}
			file := filepath.Join(dir, name+".html")
			if err := os.WriteFile(file, []byte(htmlOf(t, p)), 0o644); err != nil {
				t.Fatal(err)
			}
			if name == "4" || name == "256" {
				dom := chromium(t, "--dump-dom", "file://"+file)
				for _, want := range []string{"<h1>" + p.Decision.Headline(), "Hosts and checks", "Topology", "4 NVSwitches", "Latency", "Bandwidth", "ranks 8-15"} {
					if !strings.Contains(dom, want) {
						t.Errorf("the page as the browser sees it lacks %q", want)
					}
				}
			}
			shot(t, filepath.Join(dir, name+".png"), file, 1280, 3000)
			checkSizes(t, dir, name, file)
		})
	}
}

func checkSizes(t *testing.T, dir, name, file string) {
	t.Helper()
	wrapper := filepath.Join(dir, name+"-measure.html")
	if err := os.WriteFile(wrapper, fmt.Appendf(nil, measure, "file://"+file), 0o644); err != nil {
		t.Fatal(err)
	}
	dom := chromium(t, "--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom", "file://"+wrapper)
	all := sizes.FindAllStringSubmatch(dom, -1)
	if len(all) != 3 {
		t.Fatalf("got sizes %q; want them at three widths", all)
	}
	for _, m := range all {
		if m[1] != m[2] || m[6] != "" {
			t.Errorf("at %s pixels the page is %s wide, by %s; want nothing to stick out", m[1], m[2], m[6])
		}
		if m[5] != "0" {
			t.Errorf("got %s scripts; want none", m[5])
		}
		if height, _ := strconv.Atoi(m[3]); height < 1500 || height > 40000 {
			t.Errorf("at %s pixels the page is %d high; want some screens", m[1], height)
		}
	}
}

// shot takes a picture, and looks that it is one of more than a blank page.
func shot(t *testing.T, png, file string, width, height int) {
	t.Helper()
	chromium(t, fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+png, "file://"+file)
	data, err := os.ReadFile(png)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 40000 || !strings.HasPrefix(string(data), "\x89PNG") {
		t.Errorf("got a picture of %d bytes, %s; want one with something on it", len(data), base64.StdEncoding.EncodeToString(data[:min(16, len(data))]))
	}
}
