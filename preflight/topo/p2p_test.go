package topo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const p2pLegend = `
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  DR   = Disabled by regkey
  U    = Unknown
`

// p2pMatrix is as nvidia-smi prints it: with a leading blank and a tab at the end of lines.
func p2pMatrix(n int, cell func(y, x int) string) string {
	var b strings.Builder
	b.WriteString(" ")
	for x := range n {
		fmt.Fprintf(&b, "\tGPU%d", x)
	}
	for y := range n {
		fmt.Fprintf(&b, "\t\n GPU%d", y)
		for x := range n {
			word := "X"
			if x != y {
				word = cell(y, x)
			}
			b.WriteString("\t" + word)
		}
	}
	return b.String() + "\t\n" + p2pLegend
}

func always(word string) func(y, x int) string { return func(int, int) string { return word } }

// Two RTX 5090, from noonghunna/club-3090#1229; the second has blanks in place of tabs (#1130).
const (
	rtx5090      = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n" + p2pLegend
	rtx5090Blank = "        GPU0    GPU1\n GPU0   X       GNS\n GPU1   GNS     X\n" + p2pLegend
)

// sockets is a host whose chipset does not let GPUs of different sockets reach each other.
func sockets(y, x int) string {
	if y/2 == x/2 {
		return StatusOK
	}
	return "CNS"
}

func TestParseP2P(t *testing.T) {
	for _, row := range []struct {
		name, text string
		from, to   int
		want       string
	}{
		{"consumer-cards", rtx5090, 0, 1, "GNS"},
		{"blanks", rtx5090Blank, 1, 0, "GNS"},
		{"h100", p2pMatrix(8, always(StatusOK)), 7, 2, StatusOK},
		{"one-socket", p2pMatrix(4, sockets), 2, 3, StatusOK},
		{"two-sockets", p2pMatrix(4, sockets), 1, 2, "CNS"},
		{"one-direction", p2pMatrix(2, func(y, _ int) string { return []string{"OK", "DR"}[y] }), 1, 0, "DR"},
		{"colours", strings.Replace(rtx5090, " \tGPU0\tGPU1\t", " \t\x1b[4mGPU0\tGPU1\x1b[0m\t", 1), 0, 1, "GNS"},
		{"some-of-the-gpus", "GPU3 GPU7\r\nGPU3 X TNS\r\nGPU7 TNS X\r\n", 3, 7, "TNS"},
		{"itself", rtx5090, 1, 1, ""},
		{"other-gpu", rtx5090, 0, 2, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := ParseP2P(row.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Status(row.from, row.to); got != row.want {
				t.Errorf("got %q; want %q", got, row.want)
			}
		})
	}
	if got := (P2P{}).Status(0, 1); got != "" {
		t.Errorf("of nothing: got %q; want nothing", got)
	}
}

func TestParseP2PErrors(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"empty", "", "no line that names GPUs only"},
		{"old-driver", "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n", "no line that names GPUs only"},
		{"topo-m", sample(t, "14"), "no line that names GPUs only"},
		{"cut", rtx5090[:25], "ends before the row of GPU1"},
		{"cut-in-a-row", rtx5090[:20], "not a cell for each GPU"},
		{"other-row", strings.Replace(rtx5090, " GPU1\tGNS", " GPU2\tGNS", 1), "not the row of GPU1"},
		{"new-word", strings.Replace(rtx5090, "X\tGNS", "X\tXYZ", 1), "the cell of GPU1 is no known status"},
		{"no-self", strings.Replace(rtx5090, "GPU0\tX", "GPU0\tOK", 1), "X belongs where"},
		{"self-elsewhere", strings.Replace(rtx5090, "X\tGNS", "X\tX", 1), "X belongs where"},
		{"twice", strings.Replace(rtx5090, "GPU1", "GPU0", 1), "named twice"},
		{"too-many", p2pMatrix(maxGPUs+1, always("OK")), "at most 64 are believable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := ParseP2P(row.text)
			if _, ok := errors.AsType[*SyntaxError](err); !ok || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v; want a *SyntaxError with %q", err, row.want)
			}
		})
	}
}

func FuzzParseP2P(f *testing.F) {
	for _, text := range []string{rtx5090, rtx5090Blank, p2pMatrix(4, sockets), p2pMatrix(8, always(StatusOK)), sample(f, "14")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseP2P(text)
		if err != nil {
			if se, ok := errors.AsType[*SyntaxError](err); !ok || se.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("got %v; want a *SyntaxError with a line of the text", err)
			}
			return
		}
		for a := range p.at {
			for b := range p.at {
				if got := p.Status(a, b); (a == b) != (got == "") || got == "X" {
					t.Fatalf("GPU%d GPU%d: got %q", a, b, got)
				}
			}
		}
	})
}
