package hostfile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// randomExpr makes a bracket expression and, on its own, the names it stands for.
func randomExpr(rnd *rand.Rand) (expr string, names []string) {
	names = []string{""}
	for range 1 + rnd.IntN(3) {
		literal := []string{"", "n", "-ib", ".x."}[rnd.IntN(4)]
		var group, numbers []string
		for range 1 + rnd.IntN(3) {
			text, some := randomRange(rnd)
			group = append(group, text)
			numbers = append(numbers, some...)
		}
		expr += literal + "[" + strings.Join(group, ",") + "]"
		var all []string
		for _, name := range names {
			for _, number := range numbers {
				all = append(all, name+literal+number)
			}
		}
		names = all
	}
	return expr, names
}

// randomRange makes a number, a range or a range with a step, and its numbers.
func randomRange(rnd *rand.Rand) (text string, numbers []string) {
	first, width := rnd.IntN(120), 1+rnd.IntN(3)
	pad := func(n int) string { return fmt.Sprintf("%0*d", width, n) }
	last, step := first, 1
	switch rnd.IntN(3) {
	case 0:
		text = pad(first)
	case 1:
		last = first + rnd.IntN(12)
		text = pad(first) + "-" + pad(last)
	case 2:
		last, step = first+rnd.IntN(12), 1+rnd.IntN(5)
		text = fmt.Sprintf("%s-%s/%d", pad(first), pad(last), step)
	}
	for n := first; n <= last; n += step {
		numbers = append(numbers, pad(n))
	}
	return text, numbers
}

func TestExpandAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		expr, want := randomExpr(rnd)
		got, err := Expand(expr)
		if len(want) > MaxHosts {
			if err == nil {
				t.Fatalf("%s: got %d names; want an error", expr, len(got))
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %q; want %q", expr, got, want)
		}
	}
}

// The slots of plain and counted lines do not depend on the order of the lines.
func TestSlotsAddInAnyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	text := []string{"a", "a", "b:2", "a:3", "b", "c", "d:0", "A", "d"}
	want := map[string]int{"a": 6, "b": 3, "c": -1, "d": 1}
	for range 50 {
		rnd.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		for _, h := range parsed(t, strings.Join(text, "\n")) {
			if name := strings.ToLower(h.Name); h.Slots != want[name] {
				t.Fatalf("%q: got %d slots for %s; want %d", text, h.Slots, name, want[name])
			}
		}
		for _, h := range listed(t, strings.Join(text, ",")) {
			name := strings.ToLower(h.Name)
			if h.Slots != max(want[name], 1) {
				t.Fatalf("%q in a list: got %d slots for %s; want %d", text, h.Slots, name, max(want[name], 1))
			}
			if h.Bare != (name == "c") {
				t.Fatalf("%q in a list: got Bare %t for %s", text, h.Bare, name)
			}
		}
	}
}

// Contradicting lines are an error whichever comes first.
func TestContradictionsInAnyOrder(t *testing.T) {
	pairs := [][2]string{
		{"a slots=2", "a slots=2"},
		{"a slots=2", "a"},
		{"a slots=2", "a:2"},
		{"a slots=2", "a max_slots=2"},
		{"a max_slots=2", "a"},
		{"a:*", "a"},
		{"a:*", "a:2"},
		{"a port=1", "a port=2"},
		{"x@a", "y@a"},
		{"a user=x", "y@a:2"},
		{"[fd00::1]:22", "fd00:0::1 port=23"},
	}
	for _, pair := range pairs {
		for _, text := range []string{pair[0] + "\nb\n" + pair[1], pair[1] + "\nb\n" + pair[0]} {
			hosts, err := Parse("hosts", strings.NewReader(text))
			if err == nil {
				t.Errorf("%q: got %v; want an error", text, hosts)
			} else if !strings.HasPrefix(err.Error(), "hosts:3:1: ") || !strings.Contains(err.Error(), "hosts:1") {
				t.Errorf("%q: got %q; want both lines in it", text, err)
			}
		}
	}
}

// What generators in the field write.
func TestParseGenerated(t *testing.T) {
	var gke, hydra strings.Builder
	for i := range 16 {
		fmt.Fprintf(&gke, "workers-%d.gke.internal port=222 slots=8\n", i)
		fmt.Fprintf(&hydra, " 192.148.3.%d\n", 180+i)
	}
	tests := []struct {
		name, text  string
		slots, port int
	}{
		{"open-mpi-with-port", gke.String(), 8, 222},
		{"indented-addresses", hydra.String(), -1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts := parsed(t, tt.text)
			if len(hosts) != 16 {
				t.Fatalf("got %d hosts; want 16", len(hosts))
			}
			for _, h := range hosts {
				if h.Slots != tt.slots || h.Port != tt.port {
					t.Errorf("got %+v; want slots %d, port %d", h, tt.slots, tt.port)
				}
			}
		})
	}
}

func TestSyntaxErrorText(t *testing.T) {
	tests := []struct {
		name string
		err  SyntaxError
		want string
	}{
		{"line", SyntaxError{File: "f", Line: 3, Col: 5, Text: "x\ny", Msg: "bad"}, `f:3:5: "x\ny": bad`},
		{"line-without-text", SyntaxError{File: "f", Line: 3, Col: 5, Msg: "bad"}, `f:3:5: bad`},
		{"file", SyntaxError{File: "f", Msg: "bad"}, `f: bad`},
		{"item", SyntaxError{File: ListName, Line: 2, Col: 9, Text: "x", Msg: "bad"}, `-H: item 2: "x": bad`},
		{"list", SyntaxError{File: ListName, Msg: "bad"}, `-H: bad`},
		{"expression", SyntaxError{Col: 2, Text: "x", Msg: "bad", Hint: "not shown"}, `"x": bad`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for n := range 8 {
		text := strings.Repeat("x", 74+n) + strings.Repeat("é", 20)
		got := clip(text)
		if !utf8.ValidString(got) || len(got) > maxText+3 || !strings.HasSuffix(got, "...") || len(got) < maxText {
			t.Errorf("got %q of %q", got, text)
		}
	}
	if got := clip(strings.Repeat("x", maxText)); len(got) != maxText {
		t.Errorf("got %q; want it whole", got)
	}
	if got := clip(strings.Repeat("\x80", 200)); len(got) > maxText+3 {
		t.Errorf("got %d bytes; want at most %d", len(got), maxText+3)
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"slots", "max_slots", "user", "port"}
	tests := []struct{ name, word, want string }{
		{"exact", "port", "port"},
		{"one-off", "slot", "slots"},
		{"two-off", "solts", "slots"},
		{"short-word", "prt", "port"},
		{"short-word-far", "pt", ""},
		{"far", "binding", ""},
		{"empty", "", ""},
		{"long", strings.Repeat("slots", 100), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := nearest(tt.word, candidates); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}
