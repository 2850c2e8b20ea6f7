package hostfile

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	tests := []struct{ name, expr, want string }{
		{"name", "a", "a"},
		{"suffix", "node[001-004,7]-ib0", "node001-ib0 node002-ib0 node003-ib0 node004-ib0 node7-ib0"},
		{"two-brackets", "a[1-2]b[1-2]", "a1b1 a1b2 a2b1 a2b2"},
		{"touching-brackets", "r[1-2][01-02]", "r101 r102 r201 r202"},
		{"padding", "n[09-11]", "n09 n10 n11"},
		{"padding-grows", "n[98-101]", "n98 n99 n100 n101"},
		{"padding-overflows", "n[08-11,099-100]", "n08 n09 n10 n11 n099 n100"},
		{"zero", "n[0-2]", "n0 n1 n2"},
		{"order-and-repeats", "n[3,1-3,2]", "n3 n1 n2 n3 n2"},
		{"both-widths", "n[001,1]", "n001 n1"},
		{"step", "n[1-10/3]", "n1 n4 n7 n10"},
		{"step-padded", "n[01-10/4]", "n01 n05 n09"},
		{"bracket-first", "[1-2]a", "1a 2a"},
		{"one-number", "n[5]", "n5"},
		{"list", "a[1-2],b,c[3]", "a1 a2 b c3"},
		{"large-numbers", "n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names, err := Expand(tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
	if names, err := Expand("gpu[001-128,200]-ib0"); err != nil || len(names) != 129 || names[128] != "gpu200-ib0" || names[9] != "gpu010-ib0" {
		t.Errorf("got %v, %v; want 129 names, gpu001-ib0 to gpu128-ib0 and gpu200-ib0", names, err)
	}
}

func TestExpandErrors(t *testing.T) {
	const blanks = "write a range without blanks, as n[1-4,7]"
	const numbers = "brackets hold numbers and ranges, as n[1-4,7]"
	const missing = "a number is missing in the brackets"
	tests := []struct {
		name, expr, want, hint string
		col                    int
	}{
		{"empty", "", "a name is missing", "", 1},
		{"empty-item", "a,,b", `"a,,b": a name is missing`, "", 3},
		{"backwards", "n[5-3]", `"5-3": bad range: start is after end`, "", 3},
		{"empty-brackets", "n[]", missing, "", 3},
		{"comma-at-end", "n[1,]", missing, "", 5},
		{"comma-first", "n[,1]", missing, "", 3},
		{"letters", "n[a-c]", `"a-c": bad range: not a number or first-last`, numbers, 3},
		{"no-end", "n[1-]", `"1-": bad range: not a number or first-last`, numbers, 3},
		{"no-start", "n[-1]", `"-1": bad range: not a number or first-last`, numbers, 3},
		{"three-ends", "n[1-2-3]", `"1-2-3": bad range: not a number or first-last`, numbers, 3},
		{"sign", "n[+1]", `"+1": bad range: not a number or first-last`, numbers, 3},
		{"too-large", "n[1234567890123456789]", `"1234567890123456789": bad range: not a number or first-last`, numbers, 3},
		{"unclosed", "n[1-2", `"[1-2": [ without a ] after it`, blanks, 2},
		{"unclosed-second", "n[1-2]m[", `"[": [ without a ] after it`, blanks, 8},
		{"unopened", "n1-2]", `"]": ] without a [ before it`, "", 5},
		{"nested", "n[1[2]]", `"[1[2]]": a [ inside brackets`, "", 2},
		{"step-zero", "n[1-9/0]", `"1-9/0": bad range: the step must be a number above 0, as 1-10/3`, "", 3},
		{"step-word", "n[1-9/x]", `"1-9/x": bad range: the step must be a number above 0, as 1-10/3`, "", 3},
		{"step-alone", "n[4/2]", `"4/2": bad range: the step must be a number above 0, as 1-10/3`, "", 3},
		{"widths-differ", "n[1-010]", `"1-010": bad range: the ends have different leading zeros`, "write 001-010", 3},
		{"width-shrinks", "n[001-10]", `"001-10": bad range: the ends have different leading zeros`, "write 01-10", 3},
		{"second-expression", "a,n[3-1]", `"3-1": bad range: start is after end`, "", 5},
		{"many-ranges", strings.Repeat("[1]", 9), `"` + strings.Repeat("[1]", 9) + `": more than 8 ranges in a name`, "", 1},
		{"many-names", "n[0-99999999]", `"0-99999999": more than 65536 names`, "", 3},
		{"many-names-by-product", "n[1-256][1-256][1-2]", `"n[1-256][1-256][1-2]": more than 65536 names`, "", 1},
		{"many-names-by-list", "n[1-65536],m", `"n[1-65536],m": more than 65536 names`, "", 12},
		{"many-numbers", "n[1-65536,1]", `"1-65536,1": more than 65536 names`, "", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names, err := Expand(tt.expr)
			if err == nil {
				t.Fatalf("got %v; want error %s", names, tt.want)
			}
			checkError(t, err, tt.want, tt.hint)
			if se := err.(*SyntaxError); se.Col != tt.col {
				t.Errorf("got column %d; want %d", se.Col, tt.col)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"slots", "slots", 0}, {"slot", "slots", 1}, {"solts", "slots", 2}, {"", "port", 4}, {"kitten", "sitting", 3},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q): got %d; want %d", tt.a, tt.b, got, tt.want)
		}
		if got := distance(tt.b, tt.a); got != tt.want {
			t.Errorf("distance(%q, %q): got %d; want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"a", "gpu[001-003,7]-ib0", "a[1-2]b[1-2],c", "n[5-3]", "n[]", "n[1-10/3]", "n[[1]]", "][", "[0-65535]", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		names, err := Expand(expr)
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		if len(names) == 0 || len(names) > MaxHosts {
			t.Fatalf("%q: got %d names", expr, len(names))
		}
		if i := slices.IndexFunc(names, func(s string) bool { return s == "" || strings.ContainsAny(s, "[],") }); i >= 0 {
			t.Fatalf("%q: got name %q", expr, names[i])
		}
		again, err := Expand(strings.Join(names, ","))
		if err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q: got %q; expanded again %q, %v", expr, names, again, err)
		}
	})
}
