package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// environmentOf is the environment in the result that gorun has written.
func environmentOf(t *testing.T, path string) (proven, notProven int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var res struct {
		Environment struct {
			Proven    int `json:"proven"`
			NotProven int `json:"not_proven"`
		} `json:"environment"`
	}
	if err := json.Unmarshal(text, &res); err != nil {
		t.Fatal(err)
	}
	return res.Environment.Proven, res.Environment.NotProven
}

// A wrapper that changes a setting in some ranks only ends the job, and is named. The
// job would last for ever.
func TestWrapperUnsetsVariable(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	path := filepath.Join(shared(t), "result")
	args := []string{"-hostfile", hostfile(t, nodes, "slots=2"), "-x", "NCCL_ALGO=Ring", "--kill-grace", "1", "--result", path}
	e := gorun(t, sh(args, `test $RANK = 3 && unset NCCL_ALGO; exec sleep 1000`))
	e.want(t, 125, "NCCL_ALGO differs between ranks: not set in rank 3 on "+nodes[1]+", Ring in rank",
		"  rank 3 on "+nodes[1]+": NCCL_ALGO not set", "(as gorun gave it)")
	if proven, not := environmentOf(t, path); proven+not != 4 || proven > 3 {
		t.Errorf("proven in %d, not in %d; want the odd rank not", proven, not)
	}
}

// The child of a wrapper that stays is what counts.
func TestWrapperThatForks(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	args := []string{"-H", nodes[0] + ":2", "-x", "NCCL_ALGO=Ring", "--kill-grace", "1"}
	e := gorun(t, sh(args, `test $RANK = 1 && export NCCL_ALGO=Tree; sleep 1000 & wait`))
	e.want(t, 125, "NCCL_ALGO differs between ranks: Tree in rank 1 on "+nodes[0])
}

// What all ranks do alike is nobody's fault, also if some do it later than others.
func TestWrapperChangesAlike(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	args := []string{"-v", "-H", strings.Join(nodes, ","), "-x", "NCCL_ALGO=Ring"}
	e := gorun(t, sh(args, `test $RANK = 0 && sleep 1.5; export NCCL_ALGO=Tree; exec sleep 4`))
	e.want(t, 0, "environment proven in ")
	if strings.Contains(e.stderr, "differs") {
		t.Errorf("a difference is told of:\n%s", e.stderr)
	}
}

// A program that starts itself anew with other settings does so in all ranks, at different
// times.
func TestProgramStartsItselfAnew(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := filepath.Join(programs, "starts-itself-anew")
	text := `#!/usr/bin/perl
if (!defined $ENV{NCCL_PROTO}) { select(undef, undef, undef, $ENV{RANK} == 0 ? 2.5 : 0); $ENV{NCCL_PROTO} = "LL"; exec $0 }
sleep 5;
`
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	e := gorun(t, []string{"-v", "-H", strings.Join(nodes, ","), "starts-itself-anew"})
	e.want(t, 0, "environment proven in ")
	if strings.Contains(e.stderr, "differs") {
		t.Errorf("a difference is told of:\n%s", e.stderr)
	}
}

func TestShortJobIsNotProven(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	path := filepath.Join(shared(t), "result")
	e := gorun(t, []string{"-H", nodes[0] + ":2", "--result", path, "true"})
	e.want(t, 0)
	if proven, not := environmentOf(t, path); proven != 0 || not != 2 {
		t.Errorf("proven in %d, not in %d; want in none of 2", proven, not)
	}
}

// A process that the agent may not read is counted, and nothing else: a program that can
// be run but not read lets no other process of its user see what it was started with.
func TestUnreadableEnvironment(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(programs, "unreadable-sleep")
	if err := os.WriteFile(file, sleep, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	if err := os.Chmod(file, 0o711); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(shared(t), "result")
	e := gorun(t, []string{"-H", nodes[0] + ":2", "--result", path, "unreadable-sleep", "2"})
	e.want(t, 0)
	if proven, not := environmentOf(t, path); proven != 0 || not != 2 {
		t.Errorf("proven in %d, not in %d; want in none of 2", proven, not)
	}
}

func TestCheckEnv(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	args := []string{"-H", strings.Join(nodes, ","), "-x", "NCCL_ALGO=Ring"}
	gorun(t, sh(args, `$GORUN_EXE store check-env`)).want(t, 0)
	e := gorun(t, sh(args, `test $RANK = 1 && export NCCL_ALGO=Tree; $GORUN_EXE store check-env --timeout 20; echo code $?`))
	e.want(t, 0, "NCCL settings differ between ranks: NCCL_ALGO is ")
	if n := strings.Count(e.stdout, "code 1"); n != 2 {
		t.Errorf("%d ranks got code 1; want both:\n%s", n, e.stdout)
	}
}
