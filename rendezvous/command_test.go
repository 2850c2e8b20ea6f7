package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// runCommand runs Command in this process.
func runCommand(ctx context.Context, stdin string, args ...string) (exit int, stdout, stderr string) {
	var out, errs bytes.Buffer
	exit = Command(ctx, args, strings.NewReader(stdin), &out, &errs)
	return exit, out.String(), errs.String()
}

func TestCommandUsage(t *testing.T) {
	t.Setenv("GORUN_STORE", "")
	for _, row := range []struct {
		name, args string
		exit       int
		want       string // in stderr
	}{
		{"nothing", "", 2, "what? put, get, try, barrier, uid or check-env"},
		{"unknown", "fetch k", 2, `unknown command "fetch"`},
		{"get-without-key", "get", 2, "get: which KEY?"},
		{"put-without-key", "put", 2, "put: which KEY?"},
		{"put-too-much", "put k a b", 2, "put: 3 words are too many"},
		{"check-env-too-much", "check-env a", 2, "check-env: 1 words are too many"},
		{"barrier-too-much", "barrier a b", 2, "barrier: 2 words are too many"},
		{"unknown-option", "get k --fast", 2, `unknown option "--fast"`},
		{"unknown-option-with-value", "get k --pass=hunter2", 2, `unknown option "--pass" (`},
		{"key-with-dash", "get -5", 2, `unknown option "-5" (a KEY or VALUE that begins with - goes after --)`},
		{"value-with-dash", "put k -5", 2, "unknown option (a VALUE that begins with - goes after --)"},
		{"long", "get " + strings.Repeat("x", 290) + " --from " + strings.Repeat("y", 5000), 2,
			`option --from: "` + strings.Repeat("y", 284) + " ... " + strings.Repeat("y", 126) + `" is not a number from 0` + "\n"},
		{"option-without-value", "get k --timeout", 2, `option "--timeout" without a value`},
		{"bad-timeout", "get k --timeout soon", 2, `option --timeout: "soon" is not a time`},
		{"no-timeout", "get k --timeout 0", 2, `option --timeout: "0" is too short`},
		{"negative-timeout", "get k --timeout=-5s", 2, `option --timeout: "-5s" is too short`},
		{"timeout-not-a-number", "get k --timeout nan", 2, `option --timeout: "nan" is too short`},
		{"bad-epoch", "get k --epoch -1", 2, `option --epoch: "-1" is not a number from 0`},
		{"bad-from", "get k --from x", 2, `option --from: "x" is not a number from 0`},
		{"from-elsewhere", "put k v --from 1", 2, "put: --from is for get only"},
		{"not-under-gorun", "get k", 125, "not under gorun: GORUN_STORE is not set"},
	} {
		t.Run(row.name, func(t *testing.T) {
			exit, stdout, stderr := runCommand(t.Context(), "", strings.Fields(row.args)...)
			if exit != row.exit || stdout != "" || !strings.HasPrefix(stderr, "gorun store: "+row.want) {
				t.Errorf("got %d, %q, %q; want %d, %q", exit, stdout, stderr, row.exit, row.want)
			}
			if !strings.Contains(stderr, "gorun store: hint: ") {
				t.Errorf("got %q; want a hint", stderr)
			}
		})
	}
}

func TestCommandHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"get", "--help"}, {"help"}} {
		exit, stdout, stderr := runCommand(t.Context(), "", args...)
		if exit != 0 || stdout != help || stderr != "" {
			t.Errorf("%q: got %d, %q, %q; want the help", args, exit, stdout, stderr)
		}
	}
	for i, line := range strings.Split(help, "\n") {
		if len(line) > 100 {
			t.Errorf("line %d has %d characters", i+1, len(line))
		}
	}
}

func TestParseCommand(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		op   string
		rest []string
		wait time.Duration
	}{
		{"plain", []string{"get", "k"}, "get", []string{"k"}, DefaultTimeout},
		{"seconds", []string{"--timeout", "2.5", "get", "k"}, "get", []string{"k"}, 2500 * time.Millisecond},
		{"unit", []string{"get", "-timeout=2m", "k"}, "get", []string{"k"}, 2 * time.Minute},
		{"forever", []string{"get", "k", "--timeout", "1e300"}, "get", []string{"k"}, maxTimeout},
		{"after-dashes", []string{"put", "--", "-k", "--timeout"}, "put", []string{"-k", "--timeout"}, DefaultTimeout},
		{"standard-input", []string{"put", "k", "-"}, "put", []string{"k", "-"}, DefaultTimeout},
		{"empty-value", []string{"put", "k", ""}, "put", []string{"k", ""}, DefaultTimeout},
		{"default-name", []string{"barrier"}, "barrier", []string{"default"}, DefaultTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd, err := parseCommand(row.args)
			if err != nil {
				t.Fatal(err)
			}
			if cmd.op != row.op || strings.Join(cmd.args, "|") != strings.Join(row.rest, "|") || cmd.timeout != row.wait {
				t.Errorf("got %+v; want %s %q, %v", cmd, row.op, row.rest, row.wait)
			}
		})
	}
}

func TestCommandKeys(t *testing.T) {
	j := newTestJob(t, 2)
	for _, row := range []struct {
		name   string
		rank   int
		stdin  string
		args   []string
		exit   int
		stdout string
		stderr string
	}{
		{"try-nothing", 0, "", []string{"try", "k"}, 1, "", ""},
		{"put", 0, "", []string{"put", "k", "value"}, 0, "", ""},
		{"get", 1, "", []string{"get", "k"}, 0, "value", ""},
		{"try", 1, "", []string{"try", "k"}, 0, "value", ""},
		{"put-again", 1, "", []string{"put", "k", "value"}, 0, "", ""},
		{"put-other", 1, "", []string{"put", "k", "other"}, 1, "", "gorun store: key \"k\" already has another value, put by rank 0 on node1\n"},
		{"epoch", 1, "", []string{"try", "k", "--epoch", "1"}, 1, "", ""},
		{"put-from-stdin", 0, "a\n\x00b", []string{"put", "in"}, 0, "", ""},
		{"get-as-it-is", 1, "", []string{"get", "in"}, 0, "a\n\x00b", ""},
		{"put-from-dash", 0, "c", []string{"put", "dash", "-"}, 0, "", ""},
		{"get-dash", 1, "", []string{"get", "dash"}, 0, "c", ""},
		{"put-dashed-value", 0, "", []string{"put", "--", "minus", "-"}, 0, "", ""},
		{"put-empty", 0, "no", []string{"put", "empty", ""}, 0, "", ""},
		{"get-empty", 1, "", []string{"get", "empty"}, 0, "", ""},
		{"put-too-long", 0, strings.Repeat("x", MaxValue+1), []string{"put", "long"}, 1, "", "gorun store: a value of 65537 bytes; the limit is 65536\n"},
		{"get-late", 0, "", []string{"get", "never", "--timeout", "0.1", "--from", "1"}, 1, "", "gorun store: key \"never\": rank 1 on node1 has not written it (waited 0.1 s)\n"},
		{"get-from-nobody", 0, "", []string{"get", "never", "--from", "2"}, 1, "", "gorun store: get \"never\": no rank 2 in a job of 2\n"},
		{"barrier-late", 0, "", []string{"barrier", "b", "--timeout", "100ms"}, 1, "", "gorun store: barrier \"b\": 1 of 2 ranks has not come: rank 1 on node1 (waited 0.1 s)\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			j.setenv(row.rank)
			exit, stdout, stderr := runCommand(t.Context(), row.stdin, row.args...)
			if exit != row.exit || stdout != row.stdout || stderr != row.stderr {
				t.Errorf("got %d, %q, %q; want %d, %q, %q", exit, stdout, stderr, row.exit, row.stdout, row.stderr)
			}
		})
	}
}

func TestCommandCancelled(t *testing.T) {
	j := newTestJob(t, 1)
	j.setenv(0)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "it waits", func() bool { return j.waits(0) == 1 })
		cancel()
	}()
	if exit, _, stderr := runCommand(ctx, "", "get", "never"); exit != exitStop {
		t.Errorf("got %d, %q; want %d", exit, stderr, exitStop)
	}
}

func TestCommandCancelledWhileReading(t *testing.T) {
	j := newTestJob(t, 1)
	j.setenv(0)
	never, feed := io.Pipe()
	defer feed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "it is connected", func() bool { return j.peers(0) == 1 })
		cancel()
	}()
	var stderr bytes.Buffer
	if exit := Command(ctx, []string{"put", "k"}, never, io.Discard, &stderr); exit != exitStop {
		t.Errorf("got %d, %q; want %d", exit, stderr.String(), exitStop)
	}
}

func TestCommandGone(t *testing.T) {
	j := newTestJob(t, 1)
	j.setenv(0)
	go func() {
		eventually(t, "it waits", func() bool { return j.waits(0) == 1 })
		j.servers[0].Close()
	}()
	exit, _, stderr := runCommand(t.Context(), "", "get", "never")
	if want := "gorun store: " + ErrGone.Error() + "\n"; exit != exitGone || stderr != want {
		t.Errorf("got %d, %q; want %d, %q", exit, stderr, exitGone, want)
	}
}

// script runs a shell script as rank.
func (j *testJob) script(rank int, text string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Env = j.env(rank)
	cmd.Stderr = os.Stderr
	return cmd
}

// Barriers in a row with one name, an exchange and an ID, each from a new process.
func TestCommandInScripts(t *testing.T) {
	j := newTestJob(t, 2, 1)
	text := `
set -e
$GORUN_EXE store put addr/$GORUN_RANK "host of $GORUN_RANK"
for i in 1 2 3; do $GORUN_EXE store barrier; done
$GORUN_EXE store barrier other
for rank in 0 1 2; do $GORUN_EXE store try addr/$rank; echo; done
$GORUN_EXE store uid
$GORUN_EXE store uid
$GORUN_EXE store barrier
`
	outputs := make([]string, 3)
	var running sync.WaitGroup
	for rank := range outputs {
		running.Go(func() {
			out, err := j.script(rank, text).Output()
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
			outputs[rank] = string(out)
		})
	}
	running.Wait()
	lines := strings.Split(outputs[0], "\n")
	if len(lines) != 6 || lines[2] != "host of 2" || len(lines[3]) != 256 || lines[4] != lines[3] {
		t.Errorf("rank 0: got %q", lines)
	}
	if outputs[1] != outputs[0] || outputs[2] != outputs[0] {
		t.Errorf("outputs differ: %q", outputs)
	}
}

// kill -9 of a process that waits in a barrier; the rank's next process enters for it.
func TestCommandKilled(t *testing.T) {
	j := newTestJob(t, 1, 1)
	victim := exec.Command("/proc/self/exe", "store", "barrier")
	victim.Env = j.env(0)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the victim waits", func() bool { return j.waits(0) == 1 })
	victim.Process.Signal(syscall.SIGKILL)
	victim.Wait()
	eventually(t, "the victim has left", func() bool { return j.waits(0) == 0 })

	err := j.client(1).Barrier(within(t, 50*time.Millisecond), "default")
	if code(err) != CodeDeadline {
		t.Errorf("rank 1 alone: got %v; want code %q", err, CodeDeadline)
	}
	results := make(chan error, 2)
	for rank := range 2 {
		go func() { results <- j.script(rank, "$GORUN_EXE store barrier").Run() }()
	}
	if err := errors.Join(<-results, <-results); err != nil {
		t.Error(err)
	}
}
