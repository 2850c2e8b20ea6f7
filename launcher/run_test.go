package launcher

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/output"
)

func rankText(r RankResult) string {
	switch r.State {
	case StateExited:
		return fmt.Sprintf("exited %d", r.Code)
	case StateKilled:
		return fmt.Sprintf("killed %d", r.Signal)
	}
	return r.State
}

func TestRunWell(t *testing.T) {
	w := newWorld(t, "prints", 2, 1)
	w.io.Verbose = true
	w.job.Env = envsync.Policy{Environ: []string{"NCCL_DEBUG=WARN"}}
	res := w.good()
	w.wantStates(res, "exited 0, exited 0, exited 0")
	lines := strings.Split(w.stdout.String(), "\n")
	for _, want := range []string{"out of 0 on node 0", "out of 1 on node 0", "out of 2 on node 1"} {
		if !contains(lines, want) {
			t.Errorf("stdout: got %q; want %q", lines, want)
		}
	}
	for _, want := range []string{"gorun: localhost: agent ", "ready after", "gorun: 127.0.0.1: 1 rank started\n", "gorun: localhost: 2 ranks started\n", "err of 2\n"} {
		if !strings.Contains(w.stderr.String(), want) {
			t.Errorf("stderr: got %q; want %q", w.stderr, want)
		}
	}
	if len(res.JobID) != 16 || res.EnvDigest == "" || res.Elapsed <= 0 || res.First != nil || res.Others+res.Stopped+res.Signal != 0 || res.Timeout {
		t.Errorf("got %+v", res)
	}
	if got, want := fmt.Sprint(res.Hosts), "[{localhost 2 2 } {127.0.0.1 1 1 }]"; got != want {
		t.Errorf("hosts: got %s; want %s", got, want)
	}
	if res.Ranks[2].Host != "127.0.0.1" || res.Ranks[2].Rank != 2 {
		t.Errorf("rank 2: got %+v", res.Ranks[2])
	}
}

func TestLogsOfAgents(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		t.Run(fmt.Sprintf("verbose-%v", verbose), func(t *testing.T) {
			w := newWorld(t, "logs", 1)
			w.io.Verbose = verbose
			w.good()
			if want := `gorun: warning: localhost: a \x1b[1mwarning\nof two lines` + "\n"; !strings.Contains(w.stderr.String(), want) {
				t.Errorf("stderr: got %q; want %q", w.stderr, want)
			}
			if got := strings.Contains(w.stderr.String(), "gorun: localhost: only with -v\n"); got != verbose {
				t.Errorf("stderr: got %q", w.stderr)
			}
		})
	}
}

// A line of the log does not land inside a rank's line.
func TestLogKeepsToLines(t *testing.T) {
	w := newWorld(t, "pauses-in-a-line", 1)
	var log *slog.Logger
	w.io.Log = func(lines io.Writer) *slog.Logger {
		log = slog.New(slog.NewTextHandler(lines, nil))
		return log
	}
	go func() {
		for w.stderr.String() == "" && w.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		log.Info("trying again", "host", "a\nb")
		for !strings.Contains(w.stderr.String(), "again") && w.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		os.WriteFile(filepath.Join(w.dir, "logged"), nil, 0o600)
	}()
	w.good()
	want := regexp.MustCompile(`^first half, \ngorun: time=\S+ level=INFO msg="trying again" host="a\\nb"\nsecond half\n$`)
	if got := w.stderr.String(); !want.MatchString(got) {
		t.Errorf("stderr: got %q", got)
	}
}

func TestStore(t *testing.T) {
	w := newWorld(t, "store", 1, 1)
	w.job.KeepGoing = true
	w.wantStates(w.good(), "exited 0, exited 0")
}

// Settings that cannot be are refused before any connection.
func TestRunRefuses(t *testing.T) {
	one := []hostfile.Host{{Name: "nowhere.invalid", Slots: 1, File: "hosts", Line: 1}}
	app := []App{{Args: []string{"app"}, NP: 1}}
	tests := []struct {
		name string
		job  Job
		want any
	}{
		{"setting", Job{Hosts: one, Apps: app, Env: envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "1A=3"}}}}, new(*envsync.SettingError)},
		{"long-argument", Job{Hosts: one, Apps: []App{{Args: []string{"app", strings.Repeat("x", envsync.MaxString+1)}}}}, new(*envsync.SizeError)},
		{"slots", Job{Hosts: one, Apps: []App{{Args: []string{"app"}, NP: 2}}}, new(*SlotsError)},
		{"stdin", Job{Hosts: one, Apps: app, Stdin: 1}, new(*StdinError)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := Run(t.Context(), tt.job, IO{Exe: "/none", Home: t.TempDir(), User: "nobody"})
			if res != nil || !errors.As(err, tt.want) {
				t.Errorf("got %v, %v; want a %T", res, err, tt.want)
			}
		})
	}
}

// Run itself, with the waits that users have.
func TestRunIsTheWholeJob(t *testing.T) {
	w := newWorld(t, "well", 1)
	res, err := Run(t.Context(), w.job, w.io)
	if err != nil || states(res) != "exited 0" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestWarningsOfTheEnvironment(t *testing.T) {
	w := newWorld(t, "well", 1)
	w.job.Env = envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "NOT_SET_ANYWHERE"}}}
	w.good()
	if got := w.stderr.String(); !strings.HasPrefix(got, "gorun: warning: ") || !strings.Contains(got, "NOT_SET_ANYWHERE") {
		t.Errorf("stderr: got %q", got)
	}
}

// Programs that need MASTER_PORT are to know why it is missing.
func TestNoMasterPort(t *testing.T) {
	w := newWorld(t, "no-port", 1)
	w.good()
	if want := "gorun: warning: localhost has no free port for MASTER_PORT, which is not set\n"; !strings.Contains(w.stderr.String(), want) {
		t.Errorf("stderr: got %q; want %q", w.stderr, want)
	}
}

func TestOutputDir(t *testing.T) {
	w := newWorld(t, "prints", 1, 1)
	w.job.OutputDir = filepath.Join(w.dir, "out")
	w.good()
	got, err := os.ReadFile(filepath.Join(w.job.OutputDir, "rank.1.out"))
	if err != nil || string(got) != "out of 1 on node 1\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOutputDirOfAPattern(t *testing.T) {
	w := newWorld(t, "prints", 1, 1)
	w.job.OutputDir = filepath.Join(w.dir, "%j", "%h-%l")
	res := w.good()
	got, err := os.ReadFile(filepath.Join(w.dir, res.JobID, "127.0.0.1-0.out"))
	if err != nil || string(got) != "out of 1 on node 1\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Two ranks of one file's name are found when it is known where the ranks are, and
// before anything is started.
func TestOutputDirOfAPatternTooShort(t *testing.T) {
	w := newWorld(t, "not-asked", 1, 1)
	w.job.OutputDir = filepath.Join(w.dir, "%l")
	res, err := w.run()
	if e, ok := errors.AsType[*output.PatternError](err); !ok || !w.has("done") || len(res.Ranks) != 0 {
		t.Errorf("got %+v, %v, %v", res, err, e)
	}
}

// A directory that cannot be made is found before anything is started.
func TestOutputDirCannotBeMade(t *testing.T) {
	w := newWorld(t, "not-asked", 1)
	w.job.OutputDir = "/dev/null/out"
	w.job.Stdin = 0
	w.stdinOf("x")
	res, err := w.run()
	if err == nil || !w.has("done") || len(res.Ranks) != 0 {
		t.Errorf("got %+v, %v", res, err)
	}
}
