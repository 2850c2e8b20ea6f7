package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorun/launcher"
)

func TestMapping(t *testing.T) {
	tests := []struct{ line, want string }{ // by, rank by, per host, oversubscribed
		{"", `"" "" 0 false`},
		{"--map-by slot", `"slot" "" 0 false`},
		{"--map-by NODE", `"node" "" 0 false`},
		{"--map-by core", `"slot" "" 0 false`},
		{"--mapby node --rankby slot", `"node" "slot" 0 false`},
		{"--map-by ppr:2:node", `"" "" 2 false`},
		{"--map-by ppr:2:host:oversubscribe", `"" "" 2 true`},
		{"--map-by :OVERSUBSCRIBE", `"" "" 0 true`},
		{"--map-by node:NOOVERSUBSCRIBE", `"node" "" 0 false`},
		{"--map-by node,oversubscribe", `"node" "" 0 true`},
		{"-bynode", `"node" "" 0 false`},
		{"-byslot -byslot --rank-by node", `"slot" "node" 0 false`},
		{"-bynode --map-by node --map-by NODE", `"node" "" 0 false`},
		{"-bynode --map-by :OVERSUBSCRIBE", `"node" "" 0 true`},
		{"-bynode --map-by ppr:2:node -ppn 2", `"node" "" 2 false`},
		{"--rank-by fill", `"" "slot" 0 false`},
	}
	for _, tt := range tests {
		o := given(t, append(strings.Fields(tt.line), "./app")...)
		if got := fmt.Sprintf("%q %q %d %v", o.mapBy.by, o.rankBy, o.ppn, o.oversubscribe); got != tt.want {
			t.Errorf("%s: got %s; want %s", tt.line, got, tt.want)
		}
	}
}

func TestMappingRefused(t *testing.T) {
	tests := []struct{ line, msg, hint string }{
		{"--map-by nod", `--map-by: "nod" is nothing to map by`, "ppr:N:node"},
		{"--map-by :", `--map-by: ":" says nothing`, "ppr:N:node"},
		{"--map-by socket", "--map-by: gorun does not map by socket", "the same hosts"},
		{"--map-by seq", "--map-by: gorun does not map by seq", "order of the hostfile"},
		{"--map-by ppr", "--map-by: ppr needs a number and what it counts in", "ppr:N:node"},
		{"--map-by ppr:2", "--map-by: ppr needs a number and what it counts in", "ppr:N:node"},
		{"--map-by ppr:x:node", `--map-by: "x" is not a number of ranks`, "ppr:N:node"},
		{"--map-by ppr:0:node", `--map-by: "0" is not a number of ranks`, "ppr:N:node"},
		{"--map-by ppr:99999999999999999999:node", `--map-by: "99999999999999999999" is not a number of ranks`, "ppr:N:node"},
		{"--map-by ppr:2:socket", "--map-by: gorun counts no ranks per socket", "ppr:N:node"},
		{"--map-by node:NOLOCAL", "--map-by: gorun has no modifier NOLOCAL", "--exclude"},
		{"--map-by slot:SPAN", "--map-by: gorun has no modifier SPAN", "leave it out"},
		{"--map-by node:2", "--map-by: gorun has no modifier 2", "OVERSUBSCRIBE"},
		{"--map-by :OVERSUBSCRIBE,NOOVERSUBSCRIBE", "--map-by: OVERSUBSCRIBE and NOOVERSUBSCRIBE contradict each other", ""},
		{"--map-by node --map-by slot", "--map-by=node and --map-by=slot contradict each other", ""},
		{"--map-by node -byslot", "--map-by node and -byslot contradict each other", ""},
		{"-bynode -byslot", "-byslot and -bynode contradict each other", ""},
		{"-ppn 3 --map-by ppr:2:node", "-ppn 3 and --map-by ppr:2:node contradict each other", ""},
		{"--oversubscribe --map-by :NOOVERSUBSCRIBE", "--oversubscribe and NOOVERSUBSCRIBE contradict each other", ""},
		{"--rank-by socket", `--rank-by: gorun does not rank by "socket"`, "slot numbers the ranks of a host together"},
		{"--rank-by x", `--rank-by: gorun does not rank by "x"`, "--rank-by slot or"},
	}
	for _, tt := range tests {
		_, err := parseOptions(append(strings.Fields(tt.line), "./app"))
		e, ok := errors.AsType[*usageError](err)
		if !ok || e.msg != tt.msg || !strings.Contains(strings.Join(e.hints, "\n"), tt.hint) {
			t.Errorf("%s: got %#v; want %q and a hint with %q", tt.line, err, tt.msg, tt.hint)
		}
	}
}

// FuzzParseMapping checks that any value is a usage error or a mapping that can be laid out.
func FuzzParseMapping(f *testing.F) {
	for _, s := range []string{"slot", "ppr:2:node:OVERSUBSCRIBE", ":NOOVERSUBSCRIBE", "ppr:", ",:,", "node:\xff", "PPR:01:HOST,oversubscribe=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMapping(s)
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok {
				t.Fatalf("%q: error %v of another type", s, err)
			}
			return
		}
		if m.perHost < 0 || m.over && m.never || m.by != "" && m.by != launcher.BySlot && m.by != launcher.ByNode {
			t.Fatalf("%q: got %+v", s, m)
		}
	})
}
