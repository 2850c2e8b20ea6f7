package topo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAllSamplesAreRead(t *testing.T) {
	for _, tt := range []struct {
		number             string
		gpus, all          int
		cell               string // row, column, what is there
		cpu, numa, gpuNUMA string // of the last GPU
	}{
		{"01", 8, 12, "GPU0 mlx5_1 PHB", "20-39,60-79", "", ""},
		{"02", 4, 8, "GPU2 mlx5_2 NODE", "32-63", "1", ""},
		{"03", 2, 4, "mlx5_0 mlx5_1 PIX", "0-23", "0", ""},
		{"04", 3, 3, "GPU1 GPU0 NV4", "0-31,64-95", "0", ""},
		{"05", 2, 4, "GPU1 mlx5_1 NODE", "64-127", "1", ""},
		{"06", 4, 8, "GPU3 GPU2 NV3", "64-127", "8", ""},
		{"07", 8, 18, "GPU2 mlx5_1 PXB", "64-127,192-254", "1", ""},
		{"08", 4, 4, "GPU0 GPU3 PHB", "0-47", "0", ""},
		{"10", 8, 16, "GPU7 mlx5_8 PIX", "48-95,144-191", "1", ""},
		{"12", 4, 12, "GPU0 mlx5_7 SYS", "72-143", "1,19-25,27-33", "26"},
		{"14", 2, 2, "GPU0 GPU1 PHB", "0-63", "0", ""},
		{"16", 4, 4, "GPU0 GPU2 SYS", "0-23", "", ""},
		{"18", 7, 8, "GPU6 mlx4_0 PHB", "0-13,28-41", "0", ""},
		{"19", 8, 20, "GPU4 mlx5_8 PIX", "1,3,5,7,9,11", "1", ""},
		{"21", 2, 10, "GPU1 NIC7 PXB", "", "", ""},
		{"24", 8, 20, "GPU7 mlx5_11 PIX", "1,3,5,7,9,11", "1", ""},
		{"25", 8, 20, "GPU3 mlx5_5 PIX", "0-191", "0", ""},
	} {
		t.Run("sample-"+tt.number, func(t *testing.T) {
			m := parsed(t, tt.number)
			if m.GPUs != tt.gpus || len(m.Cells) != tt.all {
				t.Fatalf("got %d GPUs of %d devices; want %d of %d", m.GPUs, len(m.Cells), tt.gpus, tt.all)
			}
			w := strings.Fields(tt.cell)
			i, j := m.Index(w[0]), m.Index(w[1])
			if i < 0 || j < 0 || m.Cells[i][j].String() != w[2] {
				t.Errorf("%s: got names %q at %d, %d", tt.cell, m.Names, i, j)
			}
			last := tt.gpus - 1
			if got := [3]string{m.CPUAffinity[last], m.NUMAAffinity[last], m.GPUNUMA[last]}; got != [3]string{tt.cpu, tt.numa, tt.gpuNUMA} {
				t.Errorf("last GPU: got %q; want %q, %q, %q", got, tt.cpu, tt.numa, tt.gpuNUMA)
			}
		})
	}
}

func TestEverySampleIsInTheTable(t *testing.T) {
	if got := len(samples(t)); got != 17 {
		t.Errorf("got %d samples; want 17: give the new one a row", got)
	}
}

// damage is the H20 sample with a part replaced, and how often that is there.
func damage(t *testing.T, old, new string, times int) string {
	t.Helper()
	s := sample(t, "10")
	if strings.Count(s, old) < 1 {
		t.Fatalf("the sample has no %q", old)
	}
	return strings.Replace(s, old, new, times)
}

func TestDamagedMatricesAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"nothing", "", 0, "no line that names GPUs"},
		{"an-error-of-nvidia-smi", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 0, "NVIDIA-SMI has failed"},
		{"a-help-text", "Failed to run topology matrix\n", 0, "Failed to run"},
		{"a-short-row", damage(t, "GPU2\tNV18\t", "GPU2\t", 1), 4, "cell 16 of GPU2"},
		{"a-row-without-tail-and-a-cell-short", damage(t, "NIC2\tNODE\t", "NIC2\t", 1), 12, "row of NIC2 has 15 cells, not 16"},
		{"a-long-row", damage(t, "NIC2\tNODE\t", "NIC2\tNODE\tNODE\t", 1), 12, ""},
		{"asymmetric", damage(t, "NIC0\tPIX\t", "NIC0\tNODE\t", 1), 2, "PIX in one direction and NODE in the other"},
		{"fewer-nvlinks-one-way", damage(t, "GPU1\tNV18\t", "GPU1\tNV17\t", 1), 2, "NV18 in one direction"},
		{"x-off-the-diagonal", damage(t, "GPU0\t X \tNV18\t", "GPU0\t X \t X \t", 1), 2, "X"},
		{"no-x-on-the-diagonal", damage(t, "GPU0\t X \t", "GPU0\tPIX\t", 1), 2, "PIX where only"},
		{"a-row-missing", damage(t, "\nGPU3\t", "\n#\t", 1), 5, "not the row of GPU3"},
		{"rows-swapped", strings.NewReplacer("\nGPU3", "\nGPU4", "\nGPU4", "\nGPU3").Replace(sample(t, "10")), 5, "not the row of GPU3"},
		{"an-end-in-the-middle", sample(t, "10")[:700], 0, ""},
		{"a-name-missing", damage(t, "\tNIC7\tCPU", "\tCPU", 1), 2, ""},
		{"a-name-twice", damage(t, "\tNIC7\tCPU", "\tNIC6\tCPU", 1), 1, "named twice"},
		{"a-word-of-other-tools", damage(t, "NV18", "MTL18", 1), 2, `"MTL18"`},
		{"nvlink-to-a-nic", strings.ReplaceAll(sample(t, "03"), "PIX", "NV2 "), 4, "not both GPUs"},
		{"links-that-no-gpu-has", strings.ReplaceAll(sample(t, "10"), "NV18", "NV180"), 2, "NV180"},
		{"no-links", strings.ReplaceAll(sample(t, "10"), "NV18", "NV0"), 2, "NV0"},
		{"glued-to-the-affinity", strings.ReplaceAll(sample(t, "04"), "\t0-31", "0-31"), 2, ""},
		{"affinity-of-words", damage(t, "0-47,96-143", "all", 1), 2, "not a list"},
		{"too-many-values", damage(t, "\tN/A", "\tN/A\t7", 1), 2, "too long"},
		{"unknown-column", damage(t, "GPU NUMA ID", "GPU NUMA ID\tPower", 1), 1, "unknown column"},
		{"columns-in-another-order", damage(t, "CPU Affinity\tNUMA Affinity", "NUMA Affinity\tCPU Affinity", 1), 1, "not where it belongs"},
		{"a-gpu-after-nics", damage(t, "\tNIC7\tCPU", "\tGPU9\tCPU", 1), 1, "a GPU after"},
		{"a-row-too-many", damage(t, "\n\nLegend", "\nNIC8\tSYS\n\nLegend", 1), 18, "a row that"},
		{"two-names-of-a-nic", damage(t, "  NIC1: mlx5_2", "  NIC1: mlx5_2\n  NIC1: mlx5_9", 1), 0, "two names"},
		{"mig-in-the-header", damage(t, "\tNIC7\tCPU", "\tMIG0\tCPU", 1), 1, "not the name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseMatrix(tt.text)
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("got %v, %v; want a *SyntaxError", m.Names, err)
			}
			if tt.line != 0 && se.Line != tt.line || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got line %d: %v; want line %d and %q", se.Line, err, tt.line, tt.want)
			}
		})
	}
}

func TestUglyMatricesAreReadAsIfTheyWereNot(t *testing.T) {
	clean := fmt.Sprint(*parsed(t, "10"))
	for _, tt := range []struct{ name, text string }{
		{"colours-in-a-pipe", "\x1b[0m" + damage(t, "\tGPU0\tGPU1", "\t\x1b[4mGPU0\tGPU1", 1)},
		{"colours-before-the-tab", damage(t, "\tGPU0\tGPU1", "\x1b[4m\tGPU0\tGPU1", 1)},
		{"colour-after-the-last-name", damage(t, "GPU NUMA ID", "GPU NUMA ID\x1b[0m", 1)},
		{"lines-of-windows", strings.ReplaceAll(sample(t, "10"), "\n", "\r\n")},
		{"glued-names", damage(t, "NIC4\tNIC5\tNIC6", "NIC4NIC5NIC6", 1)},
		{"glued-cells", strings.NewReplacer("\tPIX\tNODE", "\tPIXNODE", "NV18\tNV18", "NV18NV18").Replace(sample(t, "10"))},
		{"a-glued-row-name", damage(t, "NIC3\tNODE", "NIC3NODE", 1)},
		{"a-shell-around-it", "gpu01$ nvidia-smi topo -m\n" + sample(t, "10") + "\ngpu01$ exit\nConnection to gpu01 closed.\n"},
		{"no-tab-before-the-names", strings.TrimPrefix(sample(t, "10"), "\t")},
		{"blank-lines-between-rows", damage(t, "\nNIC", "\n\nNIC", -1)},
		{"hard-spaces", strings.ReplaceAll(sample(t, "10"), " X ", "\u00a0X\u00a0")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.text
			m, err := ParseMatrix(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m); got != clean {
				t.Errorf("got %s; want %s", got, clean)
			}
		})
	}
}

func TestBlanksInPlaceOfTabsChangeNothing(t *testing.T) {
	for _, number := range samples(t) {
		want := parsed(t, number)
		got, err := ParseMatrix(strings.ReplaceAll(sample(t, number), "\t", "        "))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(*want) {
			t.Errorf("sample %s: got %v, %v; want %v", number, got, err, *want)
		}
	}
}

func TestEmptyAffinityIsUnknownAndNothingElse(t *testing.T) {
	head := "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
	for _, tt := range []struct {
		name, tail, cpu, numa, gpu string
		notes                      int
	}{
		{"all-blank-but-the-last", "\t\t\t\tN/A", "", "", "", 0},
		{"last-is-a-number", "\t\t\t\t2", "", "", "2", 0},
		{"numa-blank", "\t0-31\t\t\tN/A", "0-31", "", "", 0},
		{"cpus-blank", "\t\t1\t\tN/A", "", "1", "", 0},
		{"nothing", "", "", "", "", 0},
		{"tabs-only", "\t\t\t\t", "", "", "", 0},
		{"one-word-and-blanks", "    0-31", "", "", "", 1},
		{"two-words-and-blanks", "    0-31     N/A", "", "", "", 1},
		{"in-a-container", "                   N/A", "", "", "", 0},
		{"all", "\t0-31\t0\t\t2", "0-31", "0", "2", 0},
		{"list-cut-at-a-comma", "\t0-31,\t0\t\t2", "0-31,", "0", "2", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseMatrix(head + "GPU0\t X \tNV4" + tt.tail + "\nGPU1\tNV4\t X \t0-1\t0\t\tN/A\n")
			if err != nil {
				t.Fatal(err)
			}
			got := [3]string{m.CPUAffinity[0], m.NUMAAffinity[0], m.GPUNUMA[0]}
			if got != [3]string{tt.cpu, tt.numa, tt.gpu} || len(m.Notes) != tt.notes {
				t.Errorf("got %q, notes %q; want %q, %q, %q and %d notes", got, m.Notes, tt.cpu, tt.numa, tt.gpu, tt.notes)
			}
		})
	}
}

func TestPCIOnly(t *testing.T) {
	for _, number := range samples(t) {
		m := parsed(t, number)
		if got, want := m.PCIOnly, number == "24"; got != want {
			t.Errorf("sample %s: got PCIOnly %v; want %v", number, got, want)
		}
		if got, want := m.ShowsNVLink(), number != "24" && number != "18"; got != want {
			t.Errorf("sample %s: got ShowsNVLink %v; want %v", number, got, want)
		}
	}
}

func TestNUMAOff(t *testing.T) {
	for _, number := range samples(t) {
		got := slices.ContainsFunc(parsed(t, number).Notes, func(s string) bool { return strings.Contains(s, "numa=off") })
		if want := number == "25"; got != want {
			t.Errorf("sample %s: got a note on numa=off %v; want %v", number, got, want)
		}
	}
}

func TestLostNVLink(t *testing.T) {
	for _, number := range samples(t) {
		if a, b := parsed(t, number).missesNVLink(); a != "" {
			t.Errorf("sample %s: got %s and %s; want none", number, a, b)
		}
	}
	m, err := ParseMatrix(strings.ReplaceAll(sample(t, "10"), "NV18", "SYS"))
	if err != nil || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "NVLinks are down") {
		t.Errorf("got notes %q, %v; want one on NVLinks that are down", m.Notes, err)
	}
}

// manyNICs is the matrix of a host with 42 NICs, whose legend is damaged as was seen of one.
func manyNICs() string {
	var b strings.Builder
	names := []string{"GPU0", "GPU1"}
	for i := range 42 {
		names = append(names, fmt.Sprintf("NIC%d", i))
	}
	b.WriteString("\t" + strings.Join(names, "\t") + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for i, name := range names {
		b.WriteString(name)
		for j := range names {
			cell := map[bool]string{true: " X ", false: "SYS"}[i == j]
			if i < 2 && j < 2 && i != j {
				cell = "NV12"
			}
			b.WriteString("\t" + cell)
		}
		b.WriteString(map[bool]string{true: "\t0-63\t0\t\tN/A\n", false: "\n"}[i < 2])
	}
	b.WriteString("\nNIC Legend:\n\n  NIC0: \tNIC38\tNIC39\t\x1b[0m\n  NIC1: CPU Affinity\n")
	for i := 2; i < 42; i++ {
		fmt.Fprintf(&b, "  NIC%d: mlx5_%d\n", i, i)
	}
	return b.String()
}

func TestLegendThatCannotBeIsNotBelieved(t *testing.T) {
	m, err := ParseMatrix(manyNICs())
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Names[2:5]; !slices.Equal(got, []string{"NIC0", "NIC1", "mlx5_2"}) {
		t.Errorf("got names %q; want NIC0, NIC1, mlx5_2", got)
	}
	if len(m.Notes) != 2 || !strings.Contains(m.Notes[1], "NIC1") {
		t.Errorf("got notes %q; want one each for NIC0 and NIC1", m.Notes)
	}
}

func TestNamesThatTwoNICsHaveAreNotBelieved(t *testing.T) {
	m, err := ParseMatrix(damage(t, "NIC1: mlx5_2", "NIC1: mlx5_1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if m.Names[8] != "NIC0" || m.Names[9] != "NIC1" || len(m.Notes) != 2 {
		t.Errorf("got %q, notes %q; want NIC0 and NIC1 without names", m.Names, m.Notes)
	}
}

func TestMIGRowsArePassedOver(t *testing.T) {
	m, err := ParseMatrix(damage(t, "\nGPU1", "\nMIG 1g.10gb Device 0\nGPU1", 1))
	if err != nil || m.GPUs != 8 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "MIG") {
		t.Errorf("got %d GPUs, notes %q, %v; want 8 and a note on MIG", m.GPUs, m.Notes, err)
	}
}

func TestOneGPU(t *testing.T) {
	m, err := ParseMatrix("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t0\t\tN/A\n")
	if err != nil || m.GPUs != 1 || m.CPUAffinity[0] != "0-7" {
		t.Errorf("got %+v, %v; want one GPU", m, err)
	}
}

func FuzzParseMatrix(f *testing.F) {
	for _, number := range samples(f) {
		f.Add(sample(f, number))
	}
	f.Add(manyNICs())
	f.Add("\tGPU0\tCPU Affinity\nGPU0\t X \t\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMatrix(text)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("got %v; want a *SyntaxError with a line of the text", err)
			}
			return
		}
		n := len(m.Columns)
		if len(m.Cells) != n || len(m.Names) != n || m.GPUs < 1 || m.GPUs > n || len(m.CPUAffinity) != m.GPUs || len(m.NUMAAffinity) != m.GPUs || len(m.GPUNUMA) != m.GPUs {
			t.Fatalf("not complete: %+v", m)
		}
		for i, row := range m.Cells {
			if len(row) != n || row[i].Kind != Self {
				t.Fatalf("row %d is not complete: %v", i, row)
			}
			for j, c := range row {
				if c != m.Cells[j][i] || !c.Known() {
					t.Fatalf("not symmetric at %d, %d: %s", i, j, c)
				}
			}
		}
		use(New(nil, nil, &m))
	})
}
