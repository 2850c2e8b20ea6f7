package launcher

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorun/envsync"
)

// set writes settings of -x.
func set(texts ...string) []envsync.Setting {
	var out []envsync.Setting
	for _, t := range texts {
		out = append(out, envsync.Setting{Flag: "-x", Text: t})
	}
	return out
}

func TestEnvironmentOfPrograms(t *testing.T) {
	environ := []string{"NCCL_DEBUG=WARN", "PATH=/bin"}
	tests := []struct {
		name string
		job  []envsync.Setting
		apps [][]envsync.Setting
		want string // the job's | each App's
		warn string // a warning's beginning
	}{
		{"one", set("A=1"), [][]envsync.Setting{set("B=2")}, "NCCL_DEBUG=WARN A=1 B=2|", ""},
		{"two", set("A=1"), [][]envsync.Setting{nil, set("B=2")}, "NCCL_DEBUG=WARN A=1||B=2", ""},
		{"instead", set("A=1"), [][]envsync.Setting{set("A=2"), set("A=1")}, "NCCL_DEBUG=WARN A=1|A=2|", "p0: A: set twice"},
		{"nccl-differs", nil, [][]envsync.Setting{set("NCCL_ALGO=Ring"), nil}, "NCCL_DEBUG=WARN|NCCL_ALGO=Ring|",
			"NCCL_ALGO=Ring (-x): the programs get different values: Ring for p0, not set for p1; -genv NCCL_ALGO VALUE sets one for all of them"},
		{"nccl-alike-in-other-letters", nil, [][]envsync.Setting{set("NCCL_ALGO=Ring"), set("NCCL_ALGO=ring")}, "NCCL_DEBUG=WARN|NCCL_ALGO=Ring|NCCL_ALGO=ring", ""},
		{"nccl-differs-harmlessly", nil, [][]envsync.Setting{set("NCCL_DEBUG=INFO"), nil}, "NCCL_DEBUG=WARN|NCCL_DEBUG=INFO|", ""},
		{"nccl-alike", nil, [][]envsync.Setting{set("NCCL_DEBUG=INFO"), set("NCCL_DEBUG=INFO")}, "NCCL_DEBUG=WARN|NCCL_DEBUG=INFO|NCCL_DEBUG=INFO", ""},
		{"not-set-here", nil, [][]envsync.Setting{nil, set("NOPE")}, "NCCL_DEBUG=WARN||", "p1: -x NOPE: not set here"},
		{"told-once", set("NOPE"), [][]envsync.Setting{nil, set("B=2")}, "NCCL_DEBUG=WARN||B=2", "-x NOPE: not set here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := Job{Env: envsync.Policy{Environ: environ, Set: tt.job}}
			for i, s := range tt.apps {
				job.Apps = append(job.Apps, App{Args: []string{fmt.Sprint("p", i)}, NP: 1, Set: s})
			}
			env, notes, err := job.environment()
			got := []string{strings.TrimSuffix(strings.Join(texts(env.job), " "), " NCCL_CONF_FILE=/dev/null")}
			for _, vars := range env.apps {
				got = append(got, strings.Join(texts(vars), " "))
			}
			if err != nil || strings.Join(got, "|") != tt.want {
				t.Errorf("got %q, %v; want %q", strings.Join(got, "|"), err, tt.want)
			}
			var warnings []string
			for _, n := range notes {
				if n.Level == "warn" {
					warnings = append(warnings, n.Text)
				}
			}
			if tt.warn == "" && warnings != nil || tt.warn != "" && (len(warnings) != 1 || !strings.HasPrefix(warnings[0], tt.warn)) {
				t.Errorf("got warnings %q; want one that begins with %q", warnings, tt.warn)
			}
		})
	}
}

func TestEnvironmentRefuses(t *testing.T) {
	job := Job{Apps: []App{{Args: []string{"a"}}, {Args: []string{"b"}, Set: set("=1")}}}
	if _, _, err := job.environment(); !errors.As(err, new(*envsync.SettingError)) {
		t.Errorf("got %v; want a SettingError", err)
	}
	job.Apps[1].Set = set("BIG=" + strings.Repeat("x", envsync.MaxString))
	if _, _, err := job.environment(); !errors.As(err, new(*envsync.SizeError)) {
		t.Errorf("got %v; want a SizeError", err)
	}
}

func TestEnvironmentLookup(t *testing.T) {
	env := environment{job: []envsync.Var{{Name: "A", Value: "1"}}, apps: [][]envsync.Var{nil, {{Name: "A", Value: "2"}, {Name: "B", Value: "3"}}}}
	if got := env.lookup("A") + env.lookup("B") + env.lookup("C"); got != "13" {
		t.Errorf("got %q; want the job's A, the program's B, and nothing for C", got)
	}
}
