package preflight

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

type builder func(name string, i int) facts.Host

// cluster returns the Input of a job on n healthy hosts "gpu01", "gpu02", …, each of
// whose GPUs, or of eight CPUs, has a rank.
func cluster(build builder, n int) Input {
	in := Input{Mode: Full}
	for i := range n {
		name := fmt.Sprintf("gpu%02d", i+1)
		h := Host{Name: name, Facts: build(name, i), Ranks: 8, Skew: Skew{Known: true, Uncertain: 1e6}}
		in.Job.GPU = len(h.Facts.GPU.Devices) > 0
		in.Job.Ranks += h.Ranks
		in.Hosts = append(in.Hosts, h)
	}
	in.Job.SharedDir = true
	return in
}

// firing is a cluster that one check must find fault with.
type firing struct {
	check, name string
	build       builder // nil: factstest.H100
	hosts       int     // 0: four
	wreck       func(in *Input)
	verdict     Verdict // of the check; "" none worse than info
	blamed      string  // hosts that its finding names, with blanks between
	title       string  // part of its title
	evidence    string  // part of a line of its evidence
	remedy      string  // part of its remedy
	also        string  // other hosts that other checks may name
}

// on returns a wreck of the host that has the index.
func on(index int, wreck func(h *Host)) func(in *Input) {
	return func(in *Input) { wreck(&in.Hosts[index]) }
}

// all returns a wreck of all hosts.
func all(wreck func(h *Host)) func(in *Input) {
	return func(in *Input) {
		for i := range in.Hosts {
			wreck(&in.Hosts[i])
		}
	}
}

func unknownOn(index int, item string) func(in *Input) {
	return on(index, func(h *Host) { h.Facts.Unknown = map[string]string{item: "it did not answer in 5s"} })
}

func firings() []firing {
	return slices.Concat(hostFirings(), gpuFirings(), gpuLinkFirings(), systemFirings(), softwareFirings())
}

func TestChecksFire(t *testing.T) {
	for _, row := range firings() {
		t.Run(row.check+"/"+row.name, func(t *testing.T) {
			build, n := row.build, row.hosts
			if build == nil {
				build = factstest.H100
			}
			if n == 0 {
				n = 4
			}
			in := cluster(build, n)
			row.wreck(&in)
			row.compare(t, Judge(in))
		})
	}
}

// compare looks at the finding of row's check, and that nobody else is blamed by any.
func (row firing) compare(t *testing.T, r Report) {
	t.Helper()
	want := strings.Fields(row.blamed)
	result := r.Checks[slices.IndexFunc(r.Checks, func(c Result) bool { return c.ID == row.check })]
	if row.verdict == "" {
		if rank(result.Verdict) < rank(Info) {
			t.Errorf("got %q; want nothing worse than info: %+v", result.Verdict, r.Findings)
		}
		return
	}
	if result.Verdict != row.verdict {
		t.Errorf("got verdict %q; want %q: %+v", result.Verdict, row.verdict, r.Findings)
	}
	found := false
	for _, f := range r.Findings {
		if f.Check == row.check && f.Verdict == row.verdict {
			found = true
			t.Logf("%s\n%s\n%s", f.Title, strings.Join(f.Evidence, "\n"), f.Remedy)
			row.compareText(t, f, want)
		}
		for _, host := range f.Hosts {
			if rank(f.Verdict) < rank(Info) && !slices.Contains(want, host) && !strings.Contains(row.also, host) {
				t.Errorf("%s is named, too: %+v", host, f)
			}
		}
	}
	if !found && row.verdict != Unknown {
		t.Errorf("no finding of %s", row.check)
	}
}

func (row firing) compareText(t *testing.T, f Finding, want []string) {
	t.Helper()
	if !slices.Equal(f.Hosts, want) {
		t.Errorf("got hosts %v; want %v: %s", f.Hosts, want, f.Title)
	}
	if !strings.Contains(f.Title, row.title) {
		t.Errorf("got title %q; want %q in it", f.Title, row.title)
	}
	if text := strings.Join(f.Evidence, "\n"); !strings.Contains(text, row.evidence) {
		t.Errorf("got evidence %q; want %q in it", text, row.evidence)
	}
	if !strings.Contains(f.Remedy, row.remedy) || hostWord.MatchString(f.Remedy) {
		t.Errorf("got remedy %q; want %q in it, and hosts' names", f.Remedy, row.remedy)
	}
}

func TestChecksAreSilent(t *testing.T) {
	for _, c := range []struct {
		name  string
		build builder
		hosts int
	}{
		{"h100-4", factstest.H100, 4}, {"h100-16", factstest.H100, 16}, {"roce-4", factstest.RoCE, 4}, {"plain-4", factstest.Plain, 4},
		{"h100-1", factstest.H100, 1}, {"h100-2", factstest.H100, 2}, {"plain-1", factstest.Plain, 1}, {"plain-0", factstest.Plain, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range Judge(cluster(c.build, c.hosts)).Findings {
				if rank(f.Verdict) < rank(Info) && ours(f.Check) {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

// ours reports whether a check is of an area that this file's tables are of.
func ours(id string) bool {
	at := slices.IndexFunc(Checks(), func(c Check) bool { return c.ID == id })
	return slices.Contains([]string{"hosts", "gpu", "system", "software"}, Checks()[at].Area)
}

func TestEveryCheckIsWholeAndFires(t *testing.T) {
	fires := map[string]bool{}
	for _, row := range firings() {
		fires[row.check] = fires[row.check] || row.verdict != "" && row.verdict != Unknown
	}
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.ID == "" || c.Area == "" || c.Title == "" || c.run == nil || seen[c.ID] {
			t.Errorf("check %q: it is not complete, or its ID is used twice", c.ID)
		}
		seen[c.ID] = true
		if n := strings.Count(c.Explain, ". ") + 1; ours(c.ID) && (n < 3 || n > 8) {
			t.Errorf("check %q: got %d sentences that explain it; want 3 to 8", c.ID, n)
		}
		if strings.HasSuffix(c.Title, ".") {
			t.Errorf("check %q: its title has a full stop", c.ID)
		}
		if ours(c.ID) && !fires[c.ID] {
			t.Errorf("check %q: no test makes it fire", c.ID)
		}
	}
}

func TestGoodTexts(t *testing.T) {
	r := Judge(cluster(factstest.H100, 16))
	for _, c := range r.Checks {
		t.Logf("%-16s %-8s %s", c.ID, c.Verdict, c.Text)
		if ours(c.ID) && c.Text == "" {
			t.Errorf("%s: it says nothing when all is well", c.ID)
		}
	}
	at := slices.IndexFunc(r.Checks, func(c Result) bool { return c.ID == "gpu-count" })
	if got, want := r.Checks[at].Text, "8 × NVIDIA H100 80GB HBM3 on each of 16 hosts"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestUnknownIsJoined(t *testing.T) {
	in := cluster(factstest.H100, 4)
	unknownOn(2, facts.ItemGPU)(&in)
	in.Hosts[2].Facts.GPU.Devices = nil
	r := Judge(in)
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == Unknown && strings.Contains(f.Title, "GPUs") {
			n++
			if got, want := f.Title, "gpu03 does not tell its GPUs: it did not answer in 5s"; got != want {
				t.Errorf("got %q; want %q", got, want)
			}
		}
	}
	if n != 1 {
		t.Errorf("got %d findings that GPUs are unknown; want 1", n)
	}
	for _, c := range r.Checks {
		if (c.ID == "gpu-ecc" || c.ID == "gpu-free") && c.Hosts["gpu03"] != Unknown {
			t.Errorf("%s: got %q; want unknown", c.ID, c.Hosts["gpu03"])
		}
	}
}

func TestEvidenceIsFolded(t *testing.T) {
	in := cluster(factstest.H100, 100)
	for i := range in.Hosts {
		in.Hosts[i].Facts.GPU.Devices[3].Uncorrected = int64(i/2 + 1)
	}
	for _, f := range Judge(in).Findings {
		if f.Check != "gpu-ecc" {
			continue
		}
		if got, want := len(f.Evidence), maxEvidence+1; got != want {
			t.Errorf("got %d lines; want %d", got, want)
		}
		if got, want := f.Evidence[0], "gpu[01-02]: GPU 3 (0000:61:00.0): 1 uncorrected ECC errors since the driver was loaded"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
		if got, want := f.Evidence[maxEvidence], "and 30 more"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

func TestFindingsAreClean(t *testing.T) {
	in := cluster(factstest.H100, 4)
	in.Hosts[1].Facts.System.Kernel = "5\x1b[31m.15\n\x00" + strings.Repeat("x", 10000) + "\xff"
	in.Hosts[1].Facts.Unknown = map[string]string{facts.ItemKernel: "\x07bell"}
	b, err := json.Marshal(Judge(in))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); strings.Contains(text, `\u001b`) || strings.Contains(text, `\u0007`) || strings.Contains(text, strings.Repeat("x", 1000)) {
		t.Errorf("control characters or long text came through")
	}
}

func FuzzJudge(f *testing.F) {
	for _, build := range []builder{factstest.H100, factstest.RoCE, factstest.Plain} {
		a, b := small(build("a", 0)), small(build("b", 1))
		f.Add(a, b, a, 3)
		f.Add(b, b, a, 2)
	}
	in := cluster(factstest.H100, 1)
	wreckAll(&in.Hosts[0], 7)
	f.Add(small(in.Hosts[0].Facts), []byte(`{}`), []byte(`{"unknown":{"gpu":"","disks":"x"}}`), 8)
	f.Add([]byte(`{}`), []byte(`{"gpu":{"devices":[{"index":-5}]}}`), []byte(`{"system":{"cpus":-1,"load":1e300}}`), -1)
	f.Fuzz(func(t *testing.T, a, b, c []byte, ranks int) {
		in := Input{Mode: Full, Job: Job{GPU: ranks%2 == 0, SharedDir: true}}
		for i, text := range [][]byte{a, b, c} {
			var h facts.Host
			if json.Unmarshal(text, &h) != nil {
				continue
			}
			in.Hosts = append(in.Hosts, Host{Name: fmt.Sprint("h", i), Facts: h, Ranks: ranks})
		}
		r := Judge(in)
		for _, f := range r.Findings {
			if f.Title == "" || f.Check == "" || f.Verdict == "" {
				t.Errorf("got %+v; want a whole finding", f)
			}
		}
	})
}

func BenchmarkJudge1000(b *testing.B) {
	for _, kind := range []string{"healthy", "all-wrong"} {
		b.Run(kind, func(b *testing.B) {
			in := cluster(factstest.H100, 1000)
			if kind == "all-wrong" {
				for i := range in.Hosts {
					wreckAll(&in.Hosts[i], i)
				}
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				Judge(in)
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/(1<<20), "MiB/op")
			b.ReportMetric(float64(after.HeapSys)/(1<<20), "heap-MiB")
		})
	}
}

// small is a host as JSON with two GPUs and HCAs, which a fuzzer is quicker with.
func small(h facts.Host) []byte {
	h.GPU.Devices, h.GPU.PCI, h.GPU.Topo = h.GPU.Devices[:min(2, len(h.GPU.Devices))], h.GPU.PCI[:min(2, len(h.GPU.PCI))], "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n"
	if h.GPU.P2P != "" {
		h.GPU.P2P = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tNS\tX\n"
	}
	h.RDMA.Devices, h.PCI.Devices = h.RDMA.Devices[:min(2, len(h.RDMA.Devices))], h.PCI.Devices[:1]
	h.Kernel.XIDs = h.Kernel.XIDs[:min(4, len(h.Kernel.XIDs))]
	b, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	return b
}

// wreckAll makes a host differ from all others in everything.
func wreckAll(h *Host, i int) {
	f := &h.Facts
	f.System.Kernel, f.System.CPUs, f.System.Libc = fmt.Sprint("k", i), i, fmt.Sprint("libc ", i)
	f.GPU.Driver = fmt.Sprint("550.", i)
	f.GPU.Topo = strings.Replace(f.GPU.Topo, "Legend", fmt.Sprintf("Legend %d\n\nLegend", i), 1)
	for k := range f.GPU.Devices {
		d := &f.GPU.Devices[k]
		d.VBIOS, d.Uncorrected, d.NVActive, d.Persist = fmt.Sprint(i), int64(i), i%18, "Disabled"
		d.Users = []facts.GPUUser{{PID: i, Name: "python", User: "bob", Type: "C", Memory: 1 << 30}}
	}
	for k := range 256 {
		f.Kernel.XIDs = append(f.Kernel.XIDs, facts.XID{At: float64(k), BDF: f.GPU.PCI[k%8], Code: []int{79, 45, 13, 31}[k%4]})
	}
	f.NCCL[0].Version, f.Programs[0].SHA256 = fmt.Sprint("2.", i), fmt.Sprint("hash", i)
	f.Disks[0].Free, f.Disks[2].ID = int64(i), fmt.Sprint("nfs ", i)
}
