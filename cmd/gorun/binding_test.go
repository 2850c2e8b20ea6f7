package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestBinding(t *testing.T) {
	tests := []struct{ line, want string }{ // what, cores of each rank, reported
		{"", `"" 0 false`},
		{"--bind-to none", `"none" 0 false`},
		{"--bind-to CORE", `"core" 0 false`},
		{"-bindto numa --report-bindings", `"numa" 0 true`},
		{"--bind-to package", `"socket" 0 false`},
		{"--bind-to core:2", `"core" 2 false`},
		{"--bind-to core:if-supported,report", `"core" 0 true`},
		{"--bind-to hwthread --cpus-per-rank 2", `"hwthread" 2 false`},
		{"--cpus-per-proc 4", `"core" 4 false`},
		{"--map-by slot:PE=4", `"core" 4 false`},
		{"--map-by ppr:2:node:pe=4,OVERSUBSCRIBE", `"core" 4 false`},
		{"--map-by slot:PE=4 --cpus-per-rank 4 --bind-to core:4", `"core" 4 false`},
	}
	for _, tt := range tests {
		o := given(t, append(strings.Fields(tt.line), "./app")...)
		if got := fmt.Sprintf("%q %d %v", o.bindTo.to, o.bindTo.cores, o.reportBindings || o.bindTo.report); got != tt.want {
			t.Errorf("%s: got %s; want %s", tt.line, got, tt.want)
		}
	}
}

func TestBindingRefused(t *testing.T) {
	tests := []struct{ line, msg, hint string }{
		{"--bind-to cores", `--bind-to: "cores" is nothing to bind to`, "--bind-to none"},
		{"--bind-to l3cache", "--bind-to: gorun does not bind to l3cache", "numa"},
		{"--bind-to core:overload-allowed", "--bind-to: gorun has no modifier OVERLOAD-ALLOWED", "leave it out"},
		{"--bind-to core:x", "--bind-to: gorun has no modifier X", "core:N"},
		{"--bind-to core:0", `--bind-to: "0" is not a number of cores`, ""},
		{"--cpus-per-rank 99999", `--cpus-per-rank: "99999" is not a number of cores`, ""},
		{"--map-by slot:PE=x", `--map-by: "x" is not a number of cores`, ""},
		{"--map-by slot:HWTCPUS", "--map-by: gorun has no modifier HWTCPUS", "--bind-to hwthread"},
		{"--map-by slot:PE=2 --cpus-per-rank 4", "PE=2 and --cpus-per-rank 4 contradict each other", ""},
		{"--bind-to core:2 --map-by :PE=4", "--bind-to core:2 and PE=4 contradict each other", ""},
		{"--bind-to none --cpus-per-rank 4", "--cpus-per-rank 4 and --bind-to none contradict each other", "core or hwthread"},
		{"--bind-to numa:2", "--bind-to numa:2 and --bind-to numa contradict each other", "core or hwthread"},
		{"--bind-to core --bind-to numa", "--bind-to=core and --bind-to=numa contradict each other", ""},
	}
	for _, tt := range tests {
		_, err := parseOptions(append(strings.Fields(tt.line), "./app"))
		e, ok := errors.AsType[*usageError](err)
		if !ok || e.msg != tt.msg || !strings.Contains(strings.Join(e.hints, "\n"), tt.hint) {
			t.Errorf("%s: got %#v; want %q and a hint with %q", tt.line, err, tt.msg, tt.hint)
		}
	}
}

// FuzzParseBinding checks that any value is a usage error or a binding that hosts know.
func FuzzParseBinding(f *testing.F) {
	for _, s := range []string{"core", "core:2", "NUMA:report", "socket:if-supported,", ":", "core:2:3", "none:\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := parseBinding(s)
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok {
				t.Fatalf("%q: error %v of another type", s, err)
			}
			return
		}
		if !strings.Contains(" none core hwthread numa socket ", " "+b.to+" ") || b.cores < 0 || b.cores > mostCores {
			t.Fatalf("%q: got %+v", s, b)
		}
	})
}
