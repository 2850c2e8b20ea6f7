package envsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// brief writes vars in one line: NAME=value@origin.
func brief(vars []Var) string {
	var parts []string
	for _, v := range vars {
		parts = append(parts, fmt.Sprintf("%s=%s@%s", v.Name, v.Value, v.Origin))
	}
	return strings.Join(parts, " ")
}

// warnings are the texts of the notes that are always shown.
func warnings(notes []Note) []string {
	var texts []string
	for _, n := range notes {
		if n.Level == "warn" {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// infos are the texts of the notes for -v.
func infos(notes []Note) []string {
	var texts []string
	for _, n := range notes {
		if n.Level == "info" {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

func x(texts ...string) []Setting {
	var set []Setting
	for _, text := range texts {
		set = append(set, Setting{"-x", text})
	}
	return set
}

func TestBuild(t *testing.T) {
	tests := []struct {
		name   string
		policy Policy
		want   string
		warn   []string
	}{
		{
			name: "nothing",
		},
		{
			name: "default-prefixes",
			policy: Policy{Environ: []string{"A=1", "NCCL_DEBUG=INFO", "UCX_TLS=rc", "GLOO_X=1", "OMP_NUM_THREADS=4", "KMP_AFFINITY=x", "TORCH_HOME=/t",
				"PYTHONPATH=/p", "OMPI_X=1", "TORCHELASTIC_RUN_ID=1", "NCCL=1", "nccl_debug=x"}},
			want: "NCCL_DEBUG=INFO@environment UCX_TLS=rc@environment GLOO_X=1@environment OMP_NUM_THREADS=4@environment " +
				"KMP_AFFINITY=x@environment TORCH_HOME=/t@environment PYTHONPATH=/p@environment",
		},
		{
			name:   "own-prefixes",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO", "MY_A=1"}, Forward: []string{"MY_"}},
			want:   "MY_A=1@environment",
		},
		{
			name:   "no-prefixes",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO"}, Forward: []string{}},
		},
		{
			name:   "value",
			policy: Policy{Set: x("A=1", "B=", "C=a=b c\td")},
			want:   "A=1@-x B=@-x C=a=b c\td@-x",
		},
		{
			name:   "genv",
			policy: Policy{Set: []Setting{{"-genv", "A=B"}, {"-genv", "C=-l x"}}},
			want:   "A=B@-genv C=-l x@-genv",
		},
		{
			name:   "value-from-here",
			policy: Policy{Environ: []string{"FOO=bar", "EMPTY="}, Set: x("FOO", "EMPTY")},
			want:   "FOO=bar@-x EMPTY=@-x",
		},
		{
			name:   "not-set-here",
			policy: Policy{Environ: []string{"FOOD=1"}, Set: x("FOO")},
			warn:   []string{"-x FOO: not set here, so not sent"},
		},
		{
			name:   "set-wins-over-forwarded",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO", "NCCL_ALGO=Ring"}, Set: x("NCCL_DEBUG=WARN")},
			want:   "NCCL_DEBUG=WARN@-x NCCL_ALGO=Ring@environment",
		},
		{
			name:   "later-wins",
			policy: Policy{Set: []Setting{{"-x", "A=1"}, {"-x", "B=2"}, {"-genv", "A=3"}}},
			want:   "A=3@-genv B=2@-x",
			warn:   []string{"A: set twice, to different values; the later one counts, of -genv"},
		},
		{
			name:   "same-value-twice",
			policy: Policy{Set: x("A=1", "A=1")},
			want:   "A=1@-x",
		},
		{
			name:   "glob",
			policy: Policy{Environ: []string{"FOO_A=1", "BAR=2", "FOO_B=3", "FOO=4"}, Set: x("FOO_*")},
			want:   "FOO_A=1@-x FOO_B=3@-x",
		},
		{
			name:   "glob-question-and-class",
			policy: Policy{Environ: []string{"A1=1", "A2=2", "A33=3", "B1=4", "B9=5"}, Set: x("A?", "B[1-3]")},
			want:   "A1=1@-x A2=2@-x B1=4@-x",
		},
		{
			name:   "glob-of-nccl",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO"}, Set: x("NCCL_*"), Forward: []string{}},
			want:   "NCCL_DEBUG=INFO@-x",
		},
		{
			name:   "glob-without-match",
			policy: Policy{Environ: []string{"A=1"}, Set: x("FOO*")},
			warn:   []string{`-x "FOO*": no variable set here matches, nothing sent`},
		},
		{
			name:   "glob-of-open-mpi",
			policy: Policy{Environ: []string{"OMPI_MCA_btl=tcp", "OMPI_MCA_orte_launch=1", "OMPI_COMM_WORLD_RANK=0"}, Set: x("OMPI_*")},
			want:   "OMPI_MCA_btl=tcp@-x",
			warn:   []string{`-x "OMPI_*": not sent, because each belongs to this host or to one process and must be named by itself: OMPI_MCA_orte_launch`},
		},
		{
			name:   "glob-leaves-bound",
			policy: Policy{Environ: []string{"CUDA_HOME=/cuda", "CUDA_VISIBLE_DEVICES=0"}, Set: x("CUDA_*")},
			want:   "CUDA_HOME=/cuda@-x",
			warn:   []string{`-x "CUDA_*": not sent, because each belongs to this host or to one process and must be named by itself: CUDA_VISIBLE_DEVICES`},
		},
		{
			name:   "glob-of-all",
			policy: Policy{Environ: []string{"A=1", "HOME=/root", "RANK=0"}, Set: x("*")},
			want:   "A=1@-x",
		},
		{
			name:   "glob-after-value",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO"}, Set: x("NCCL_DEBUG=WARN", "NCCL_*")},
			want:   "NCCL_DEBUG=INFO@-x",
			warn:   []string{"NCCL_DEBUG: set twice, to different values; the later one counts, of -x"},
		},
		{
			name:   "bound-by-name",
			policy: Policy{Environ: []string{"HOME=/h", "SLURM_PROCID=0"}, Set: x("HOME", "CUDA_VISIBLE_DEVICES=1", "SLURM_PROCID")},
			want:   "HOME=/h@-x CUDA_VISIBLE_DEVICES=1@-x SLURM_PROCID=0@-x",
		},
		{
			name:   "rank-names",
			policy: Policy{Environ: []string{"RANK=3"}, Set: x("RANK", "LOCAL_RANK=1")},
			warn: []string{"-x RANK: gorun sets RANK for each rank; the value given is not used",
				"-x LOCAL_RANK: gorun sets LOCAL_RANK for each rank; the value given is not used"},
		},
		{
			name:   "where-ranks-meet",
			policy: Policy{Environ: []string{"MASTER_ADDR=here", "MASTER_PORT=1"}, All: true, Set: x("MASTER_PORT=29500", "MASTER_*")},
			want:   "MASTER_PORT=29500@-x",
		},
		{
			name:   "host-id-stays",
			policy: Policy{Environ: []string{"NCCL_HOSTID=me", "NCCL_DEBUG=INFO"}},
			want:   "NCCL_DEBUG=INFO@environment",
			warn:   []string{"NCCL_HOSTID is set here and not sent: it belongs to this host or to one process; -x NCCL_HOSTID sends it"},
		},
		{
			name:   "host-id-by-name",
			policy: Policy{Environ: []string{"NCCL_HOSTID=me"}, Set: x("NCCL_HOSTID")},
			want:   "NCCL_HOSTID=me@-x",
		},
		{
			name: "all",
			policy: Policy{All: true, Environ: []string{"A=1", "PATH=/bin", "HOME=/h", "HOSTNAME=head", "SSH_AUTH_SOCK=/s", "XDG_RUNTIME_DIR=/x", "PWD=/",
				"DISPLAY=:0", "RANK=0", "PMI_FD=3", "SLURM_PROCID=0", "SLURM_JOB_ID=7", "NCCL_DEBUG=INFO", "OMPI_MCA_btl=tcp", "_=/usr/bin/env"}},
			want: "A=1@environment PATH=/bin@environment SLURM_JOB_ID=7@environment NCCL_DEBUG=INFO@environment OMPI_MCA_btl=tcp@environment",
		},
		{
			name:   "all-and-set",
			policy: Policy{All: true, Environ: []string{"A=1", "B=2"}, Set: x("A=3")},
			want:   "A=3@-x B=2@environment",
		},
		{
			name:   "first-of-repeated",
			policy: Policy{Environ: []string{"NCCL_DEBUG=INFO", "NCCL_DEBUG=WARN", "A=1", "A=2"}, Set: x("A")},
			want:   "NCCL_DEBUG=INFO@environment A=1@-x",
		},
		{
			name:   "odd-environment",
			policy: Policy{All: true, Environ: []string{"", "=C:=x", "NOVALUE", "a.b=1", "BASH_FUNC_f%%=() { :; }"}},
			want:   "a.b=1@environment BASH_FUNC_f%%=() { :; }@environment",
		},
		{
			name:   "not-utf-8",
			policy: Policy{Environ: []string{"NCCL_X=\xff\xfe", "B=\x80"}, Set: x("A=\xff\n", "B")},
			want:   "NCCL_X=\xff\xfe@environment A=\xff\n@-x B=\x80@-x",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job, notes, err := tt.policy.Build()
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(job); got != tt.want {
				t.Errorf("got\n  %q\nwant\n  %q", got, tt.want)
			}
			if got := warnings(notes); !slices.Equal(got, tt.warn) {
				t.Errorf("got warnings\n  %q\nwant\n  %q", got, tt.warn)
			}
		})
	}
}

func TestBuildErrors(t *testing.T) {
	tests := []struct{ name, flag, text, want, hint string }{
		{"empty", "-x", "", `-x "": no name`, "write -x NAME=VALUE, or -x NAME to send the value it has here"},
		{"no-name", "-x", "=x", `-x "=x": no name`, "write -x NAME=VALUE, or -x NAME to send the value it has here"},
		{"digit", "-x", "1A=3", `-x "1A=3": a name cannot start with a digit`, "names are letters, digits and _"},
		{"blank", "-x", "A B", `-x "A B": a blank in the name`, "write NAME=VALUE without blanks around =, and one variable for each -x"},
		{"blank-before-equals", "-genv", "A =1", `-genv "A =1": a blank in the name`, "write NAME=VALUE without blanks around =, and one variable for each -genv"},
		{"comma", "-x", "A,B_2", `-x "A,B_2": several names`, "write -x A -x B_2"},
		{"comma-value", "-x", "A,B=1", `-x "A,B=1": not a name`, "write one variable for each -x"},
		{"comma-at-end", "-x", "A,", `-x "A,": not a name`, "write one variable for each -x"},
		{"dollar", "-x", "$A", `-x "$A": not a name`, "write the name without $"},
		{"flag", "-x", "-np", `-x "-np": not a name`, "-x needs NAME or NAME=VALUE after it"},
		{"dash", "-x", "A-B=1", `-x "A-B=1": not a name`, "names are letters, digits and _"},
		{"not-ascii", "-x", "É=1", `-x "É=1": not a name`, "names are letters, digits and _"},
		{"not-utf-8", "-x", "\xff=1", `-x "\xff=1": not a name`, "names are letters, digits and _"},
		{"control", "-x", "A\x1b=1", `-x "A\x1b=1": not a name`, "names are letters, digits and _"},
		{"zero-byte", "-x", "A=1\x002", `-x "A=1\x002": a value cannot have a zero byte`, ""},
		{"glob-with-value", "-x", "NCCL_*=1", `-x "NCCL_*=1": a pattern cannot be given a value`, `write -x "NCCL_*" to send what is set here`},
		{"bad-glob", "-x", "NCCL_[a", `-x "NCCL_[a": bad pattern`, "* is any text, ? one character, [a-z] one of these"},
		{"secret", "-x", "1API_TOKEN=hunter2", `-x "1API_TOKEN=<hidden>": a name cannot start with a digit`, "names are letters, digits and _"},
		{"secret-behind-colon", "-x", "API_TOKEN:hunter2", `-x "API_TOKEN:<hidden>": not a name`, "write one variable for each -x"},
		{"secret-behind-name", "-x", "A,API_TOKEN=hunter2", `-x "A,API_TOKEN=<hidden>": not a name`, "write one variable for each -x"},
		{"secret-behind-pattern", "-x", "API_KEY* =hunter2", `-x "API_KEY*<hidden>": a pattern cannot be given a value`, `write -x "API_KEY*<hidden>" to send what is set here`},
		{"secret-behind-dollar", "-x", "$API_KEY=hunter2", `-x "$API_KEY=<hidden>": not a name`, "write the name without $"},
		{"secret-behind-dash", "-x", "API_KEY-hunter2", `-x "API_KEY-<hidden>": not a name`, "names are letters, digits and _"},
		{"secret-behind-blank", "-x", "API_TOKEN =hunter2", `-x "API_TOKEN <hidden>": a blank in the name`, "write NAME=VALUE without blanks around =, and one variable for each -x"},
		{"long", "-x", "1=" + strings.Repeat("x", 1000), `-x "1=` + strings.Repeat("x", 78) + `...": a name cannot start with a digit`, "names are letters, digits and _"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job, notes, err := Policy{Set: []Setting{{"-x", "OK=1"}, {tt.flag, tt.text}}}.Build()
			se, ok := errors.AsType[*SettingError](err)
			if !ok {
				t.Fatalf("got %v, %v; want a *SettingError", job, err)
			}
			if se.Error() != tt.want || se.Hint != tt.hint {
				t.Errorf("got\n  %s\n  %s\nwant\n  %s\n  %s", se, se.Hint, tt.want, tt.hint)
			}
			if job != nil || notes != nil {
				t.Errorf("got %v, %v with the error; want nothing", job, notes)
			}
		})
	}
}

func TestBuildAccount(t *testing.T) {
	environ := []string{
		"PATH=/bin", "LD_LIBRARY_PATH=/lib", "CUDA_VISIBLE_DEVICES=0", "OMPI_MCA_btl=tcp", "I_MPI_DEBUG=5", "HOME=/h", "EDITOR=vi",
		"NCCL_DEBUG=INFO", "HF_TOKEN=hunter2", "NCCL_X=a\nb",
	}
	_, notes, err := Policy{Environ: environ, Set: x("HF_TOKEN", "LD_LIBRARY_PATH")}.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"sent: NCCL_DEBUG=INFO (environment)",
		`sent: NCCL_X="a\nb" (environment)`,
		"sent: HF_TOKEN=<hidden> (-x)",
		"sent: LD_LIBRARY_PATH=/lib (-x)",
		"set here and not sent (-x NAME sends it): PATH, CUDA_VISIBLE_DEVICES, OMPI_MCA_btl, I_MPI_DEBUG",
	}
	if got := infos(notes); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}

	_, notes, err = Policy{Environ: []string{"HOME=/h", "A=1", "CUDA_VISIBLE_DEVICES=0", "SSH_TTY=/t", "RANK=1"}, Set: x("HOME"), All: true}.Build()
	if err != nil {
		t.Fatal(err)
	}
	want = []string{
		"sent: A=1 (environment)",
		"sent: HOME=/h (-x)",
		"set here and not sent, because each belongs to this host or to one process: CUDA_VISIBLE_DEVICES, SSH_TTY",
	}
	if got := infos(notes); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Names of the environment may be anything; notes stay lines of text.
func TestBuildCleansNotes(t *testing.T) {
	environ := []string{"LOCAL_\x1b[31m=1", "CUDA_\n=2", "NCCL_\a=3", "I_MPI_\xff=4"}
	policies := map[string]Policy{
		"forward": {Environ: environ, Forward: []string{"LOCAL_"}},
		"glob":    {Environ: environ, Set: x("LOCAL_*", "NCCL_?")},
		"all":     {Environ: environ, All: true},
	}
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			_, notes, err := p.Build()
			if err != nil || len(notes) == 0 {
				t.Fatalf("got %v, %v; want notes", notes, err)
			}
			for _, n := range notes {
				if shown(n.Text) != n.Text {
					t.Errorf("got %q; want it without control characters", n.Text)
				}
			}
		})
	}
}

// A policy is a value: building from it changes nothing it holds.
func TestBuildKeepsPolicy(t *testing.T) {
	p := Policy{Environ: []string{"NCCL_A=1", "B=2"}, Set: x("B", "NCCL_A=2"), Forward: []string{"NCCL_"}}
	first, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, second) || !slices.Equal(p.Environ, []string{"NCCL_A=1", "B=2"}) || p.Set[1].Text != "NCCL_A=2" {
		t.Errorf("got %v, then %v, of %+v", first, second, p)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("FOO=1", "NCCL_A=1\x00B=2", false)
	f.Add("NCCL_*", "NCCL_A=1\x00NCCL_A=2", true)
	f.Add("1A=3", "", false)
	f.Add("[", "A=1", true)
	f.Add("A[!a]*", "AB=1", false)
	f.Add("MY_TOKEN=hunter2", "HOME=/", true)
	f.Fuzz(func(t *testing.T, text, environ string, all bool) {
		p := Policy{Environ: strings.Split(environ, "\x00"), Set: x(text, "LAST=1"), All: all}
		job, notes, err := p.Build()
		if err != nil {
			if se, ok := errors.AsType[*SettingError](err); !ok || se.Msg == "" || strings.ContainsAny(se.Error(), "\n\x1b") {
				t.Fatalf("got error %v", err)
			}
			return
		}
		checkJob(t, p, job)
		for _, n := range notes {
			if n.Level != "warn" && n.Level != "info" || strings.ContainsAny(n.Text, "\n\x1b") {
				t.Fatalf("got note %q", n)
			}
		}
	})
}

// checkJob fails unless every name comes once and every value is one that p has.
func checkJob(t *testing.T, p Policy, job []Var) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range job {
		if seen[v.Name] || v.Name == "" || RankName(v.Name) && !meeting(v.Name) {
			t.Fatalf("got %q in %q", v, job)
		}
		seen[v.Name] = true
		entry := v.Name + "=" + v.Value
		here := slices.Contains(p.Environ, entry)
		set := slices.ContainsFunc(p.Set, func(s Setting) bool { return s.Text == entry })
		if v.Origin == FromEnvironment && !here || !here && !set {
			t.Fatalf("got %q, which nobody set", v)
		}
		if v.Origin == FromEnvironment && bound(v.Name) {
			t.Fatalf("got %q, which is bound to this host", v)
		}
	}
	if !seen["LAST"] {
		t.Fatalf("got %q; want the last setting in it", job)
	}
}
