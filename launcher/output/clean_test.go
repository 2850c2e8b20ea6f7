package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"text", "héllo, wörld\t— 世界 🎉", "héllo, wörld\t— 世界 🎉"},
		{"line-ends", "a\r\nb", `a\r\nb`},
		{"colour", "\x1b[31mred", `\x1b[31mred`},
		{"nul-and-delete", "\x00\x7f", `\x00\x7f`},
		{"c1-control", "\u009b31m", `\u009b31m`},
		{"direction", "a\u202eb", `a\u202eb`},
		{"tag-letter", "\U000e0041", `\U000e0041`},
		{"not-utf8", "a\xff\xc3", `a\xff\xc3`},
		{"real-replacement", "\ufffd\x01", "\ufffd\\x01"},
		{"backslash", `C:\new`, `C:\new`},
		{"spaces", "a\u00a0b\u3000", "a\u00a0b\u3000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[0m\r\n\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r < 0x20 && r != '\t' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("Clean(%q): got %q; want no control characters", s, got)
		}
		if again := Clean(got); again != got {
			t.Errorf("Clean(%q): got %q; want it unchanged", got, again)
		}
		plain(s)
	})
}

func TestTail(t *testing.T) {
	many := func(from, to int) (l []string) {
		for i := from; i <= to; i++ {
			l = append(l, fmt.Sprintf("line %d", i))
		}
		return l
	}
	text := func(from, to int) string { return strings.Join(many(from, to), "\n") + "\n" }
	tests := []struct {
		name string
		acts []act
		want []string
	}{
		{"nothing", nil, nil},
		{"only-newlines", []act{err(0, "\n\r\n")}, nil},
		{"stdout", []act{out(0, "a\nb\n")}, []string{"a", "b"}},
		{"stderr-wins", []act{out(0, "a\n"), err(0, "b"), out(0, "c\n")}, []string{"b"}},
		{"ten-of-many", []act{err(0, text(1, 100))}, many(91, 100)},
		{"ten-of-many-writes", []act{err(0, text(1, 20)), err(0, text(21, 60))}, many(51, 60)},
		{"unfinished", []act{err(0, "a\nb"), err(0, "c")}, []string{"a", "bc"}},
		{"end-of-blank-lines", []act{err(0, "a\n\nb\n\n\n")}, []string{"a", "", "b"}},
		{"crlf", []act{err(0, "a\r\nb\r\n")}, []string{"a", "b"}},
		{"progress-bar", []act{err(0, "\r 1%|#\r 2%|##\r")}, []string{" 2%|##"}},
		{"colours", []act{err(0, "\x1b[1;31merror\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\a\x1b(B!\x1b")}, []string{"error link!"}},
		{"broken-escape", []act{err(0, "a\x1b[3")}, []string{"a3"}},
		{"controls", []act{err(0, "a\x00\xff\a")}, []string{`a\x00\xff\x07`}},
		{"long-line", []act{err(0, "a\n"+strings.Repeat("x", 10_000))}, []string{"…" + strings.Repeat("x", 4096)}},
		{"beginning-gone", []act{err(0, strings.Repeat("x", 10_000)), err(0, "\ny")}, []string{"y"}},
		{"stdout-long-stderr-short", []act{out(0, strings.Repeat("x", 10_000)), err(0, "y")}, []string{"y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mustNew(t, Options{Hosts: three})
			for _, a := range tt.acts {
				a(m)
			}
			if diff := cmp.Diff(tt.want, m.Tail(0)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := m.Tail(1); got != nil {
				t.Errorf("another rank: got %q; want nil", got)
			}
			mustClose(t, m)
			if diff := cmp.Diff(tt.want, m.Tail(0)); diff != "" {
				t.Errorf("after Close (-want +got):\n%s", diff)
			}
		})
	}
	m := mustNew(t, Options{Hosts: three})
	defer mustClose(t, m)
	if m.Tail(-1) != nil || m.Tail(3) != nil {
		t.Errorf("Tail of an unknown rank: got lines; want nil")
	}
}

// TestTailMemory: thousands of ranks that print a lot cost little.
func TestTailMemory(t *testing.T) {
	for _, ranks := range []int{1, 1000, 4096, 10_000, 100_000} {
		var one tail
		for range 100 {
			one.add(stdout, make([]byte, 1000), tailSize(ranks))
			one.add(stderr, make([]byte, 1000), tailSize(ranks))
		}
		got := len(one.out.buf) + len(one.err.buf)
		if want := max(32<<20/ranks, 1<<10); got > min(want, 4<<10) {
			t.Errorf("%d ranks: got %d bytes each; want at most %d", ranks, got, want)
		}
	}
}

func TestRing(t *testing.T) {
	var r ring
	var want []byte
	for i := range 2000 {
		p := []byte(strings.Repeat(string(rune('a'+i%26)), i%97+1))
		r.push(p)
		want = append(want, p...)
		n := i * 7 % (len(want) + 1)
		if got := r.appendFirst(nil, n); string(got) != string(want[:n]) {
			t.Fatalf("step %d: got other bytes than those pushed", i)
		}
		r.drop(n)
		want = want[n:]
	}
	if r.n != len(want) {
		t.Errorf("got %d bytes; want %d", r.n, len(want))
	}
	r.drop(r.n)
	if r.push(make([]byte, 2*ringKeep)); r.n != 2*ringKeep {
		t.Errorf("got %d bytes; want %d", r.n, 2*ringKeep)
	}
	if r.drop(r.n); r.buf != nil {
		t.Errorf("an empty ring keeps %d bytes; want none of a big one", len(r.buf))
	}
}
