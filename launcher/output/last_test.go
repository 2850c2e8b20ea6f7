package output

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLast(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name   string
		chunks []string // "e:" before what goes to stderr
		want   string
	}{
		{"nothing", nil, ""},
		{"line", []string{"step 1\n"}, "step 1"},
		{"lines", []string{"step 1\nstep 2\nstep 3\n"}, "step 3"},
		{"unfinished", []string{"step 1\nstep"}, "step"},
		{"in-pieces", []string{"st", "ep", " 7", "\n"}, "step 7"},
		{"after-pieces", []string{"st", "ep", "\n", "next\n"}, "next"},
		{"empty-lines", []string{"step 1\n\n\n", "\n"}, "step 1"},
		{"progress-bar", []string{"\r10 %", "\r20 %"}, "20 %"},
		{"progress-bar-that-ends-in-cr", []string{"10 %\r", "20 %\r"}, "20 %"},
		{"other-stream", []string{"half of a", "e:warning\n", "line\n"}, "line"},
		{"end-of-line-of-the-other-stream", []string{"half of a", "e:\n", " line"}, "half of a line"},
		{"cleaned", []string{"a\x1b[31mred\x1b[0m\x07\n"}, `ared\x07`},
		{"long", []string{"begin" + long + "\n"}, "…" + long[:256]},
		{"long-in-pieces", []string{"begin", long[:200], long[:200]}, "…" + long[:256]},
		{"short-after-long", []string{long + "\n", "short\n"}, "short"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := New(Options{Hosts: []string{"a", "b"}})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close(context.Background())
				for _, c := range tt.chunks {
					time.Sleep(time.Second)
					text, isErr := strings.CutPrefix(c, "e:")
					which := stdout
					if isErr {
						which = stderr
					}
					m.Write(1, which, []byte(text))
				}
				line, at := m.Last(1)
				if line != tt.want {
					t.Errorf("got %q; want %q", line, tt.want)
				}
				if len(tt.chunks) > 0 && !at.Equal(time.Now()) || len(tt.chunks) == 0 && !at.IsZero() {
					t.Errorf("it came at %v; now is %v", at, time.Now())
				}
				if line, at := m.Last(0); line != "" || !at.IsZero() {
					t.Errorf("rank 0 has %q at %v; it has printed nothing", line, at)
				}
				if line, _ := m.Last(2); line != "" {
					t.Errorf("rank 2 has %q; there is none", line)
				}
			})
		})
	}
}
