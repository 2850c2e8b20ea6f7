package launcher

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gorun/envsync"
)

// TestDryRun compares with testdata/dryrun.txt. Rewrite it with:
// go test ./launcher -run TestDryRun -rewrite
func TestDryRun(t *testing.T) {
	job := Job{
		Hosts: hostsOf(2, 1), Apps: []App{{Args: []string{"./train", "--name", "a b", "$HOME", "", "é", "\x1b"}}}, Dir: "/home/me/my run", Backend: "cpu",
		Env: envsync.Policy{
			Environ: []string{"NCCL_DEBUG=INFO", "API_TOKEN=very-secret", "PATH=/bin"},
			Set:     []envsync.Setting{{Flag: "-x", Text: "API_TOKEN"}, {Flag: "-x", Text: "LINES2=a\nb"}, {Flag: "-x", Text: "UNSET_HERE"}},
		},
	}
	var b strings.Builder
	if err := DryRun(&b, job, 4, 0); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/dryrun.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if strings.Contains(b.String(), "very-secret") || strings.Contains(b.String(), "\x1b") {
		t.Error("a secret or a control character is shown")
	}
}

// Without a host, a dry run takes this machine as a launch would.
func TestDryRunOnThisMachine(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		np, cores, gpus, ranks int
	}{
		{"as-many-as-asked-for", 3, 4, 0, 3},
		{"one-for-each-core", 0, 4, 0, 4},
		{"one-for-each-gpu", 0, 4, 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			job := Job{Apps: []App{{Args: []string{"app"}, NP: tt.np}}, Dir: "/"}
			if err := DryRun(&b, job, tt.cores, tt.gpus); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); !strings.HasPrefix(got, count(tt.ranks, "rank")+" on 1 host\n") || strings.Count(got, "  localhost  ") != tt.ranks {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestDryRunRefuses(t *testing.T) {
	app := []App{{Args: []string{"app"}}}
	tests := []struct {
		name string
		job  Job
		want any
	}{
		{"unknown-slots", Job{Hosts: hostsOf(1, -1, -1), Apps: app}, new(*UnknownSlotsError)},
		{"slots", Job{Hosts: hostsOf(1), Apps: []App{{Args: []string{"app"}, NP: 2}}}, new(*SlotsError)},
		{"stdin", Job{Hosts: hostsOf(1), Apps: app, Stdin: 1}, new(*StdinError)},
		{"setting", Job{Hosts: hostsOf(1), Apps: app, Env: envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "=x"}}}}, new(*envsync.SettingError)},
		{"long-argument", Job{Hosts: hostsOf(1), Apps: []App{{Args: []string{strings.Repeat("x", envsync.MaxString+1)}}}}, new(*envsync.SizeError)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := DryRun(&b, tt.job, 4, 0); !errors.As(err, tt.want) || b.Len() > 0 {
				t.Errorf("got %v, and %q written; want a %T", err, b.String(), tt.want)
			}
		})
	}
}

// The texts of errors, which cmd/gorun prints when it has nothing better.
func TestErrorTexts(t *testing.T) {
	many := make([]string, 10)
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	tests := []struct {
		err  error
		want string
	}{
		{&HostsError{Hosts: []HostFailure{{"a", errors.New("refused")}}}, "a: refused"},
		{&HostsError{Hosts: make([]HostFailure, 3)}, "3 hosts cannot be used"},
		{&PrepareError{Failures: []PrepareFailure{{Host: "a", Text: "no app"}, {Host: "b"}}}, "a: no app"},
		{&SlotsError{Need: 3, Have: 2}, "need 3 slots, hosts offer 2"},
		{&UnknownSlotsError{[]string{"a", "b"}}, "slots of a, b are known to the hosts only"},
		{&UnknownSlotsError{many}, "slots of a, b, c, d, e, f, g, h and 2 more are known to the hosts only"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q; want %q", got, tt.want)
		}
	}
}

func TestDryRunHidesSecrets(t *testing.T) {
	job := Job{Apps: []App{{Args: []string{"app", "--api-key=hunter2"}, NP: 1}}, Stdin: StdinNone}
	var b strings.Builder
	if err := DryRun(&b, job, 4, 0); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "--api-key=<hidden>") {
		t.Errorf("got\n%s\nwant the value of --api-key hidden", got)
	}
}
