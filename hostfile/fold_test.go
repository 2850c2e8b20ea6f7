package hostfile

import (
	"slices"
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	tests := map[string]struct{ names, want string }{
		"none":     {"", ""},
		"one":      {"gpu7", "gpu7"},
		"run":      {"gpu1 gpu2 gpu3", "gpu[1-3]"},
		"gap":      {"gpu1 gpu2 gpu5", "gpu[1-2,5]"},
		"padded":   {"gpu08 gpu09 gpu10 gpu11", "gpu[08-11]"},
		"carry":    {"gpu9 gpu10", "gpu[9-10]"},
		"mixed":    {"login gpu1 b2 gpu2", "login,gpu[1-2],b2"},
		"order":    {"gpu3 gpu1 gpu2", "gpu[3,1-2]"},
		"numbers":  {"10.0.0.1 10.0.0.2", "10.0.0.[1-2]"},
		"long":     {"a12345678901234567890", "a12345678901234567890"},
		"brackets": {"a[1", "a[1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Fold(strings.Fields(tt.names)); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// What Fold writes, Expand reads as the same names.
func FuzzFold(f *testing.F) {
	f.Add("gpu01 gpu02 gpu10 gpu9 x a1b a2b")
	f.Add("0 1 2 007 08")
	f.Fuzz(func(t *testing.T, text string) {
		names := strings.Fields(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == ' ' {
				return r
			}
			return -1
		}, text))
		if len(names) == 0 {
			return
		}
		got, err := Expand(Fold(names))
		if err != nil {
			t.Fatalf("%q: %v", Fold(names), err)
		}
		want := slices.Sorted(slices.Values(names))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%q became %q, which is %q", names, Fold(names), got)
		}
	})
}
