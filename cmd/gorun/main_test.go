package main

import (
	"errors"
	goflag "flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// quickRace keeps the race detector from waiting a second at each process's end.
const quickRace = "atexit_sleep_ms=0"

// waiting is how many tests one CPU can take along.
const waiting = 2

// TestMain makes commands of this binary for the scripts and tests: gorun itself,
// which is also the agent that it starts, and small programs for ranks.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", quickRace)
	// Tests mostly wait, for ranks that sleep or for programs to end: as many at once as
	// there are CPUs leave these idle. -parallel on the command line counts more.
	goflag.Set("test.parallel", strconv.Itoa(waiting*runtime.GOMAXPROCS(0)))
	testscript.Main(m, map[string]func(){
		"gorun":    main,
		"showargs": showArgs,
		"askpass":  askPassphrase,
	})
}

// showArgs prints its arguments quoted, one a line.
func showArgs() {
	for _, a := range os.Args[1:] {
		fmt.Println(strconv.Quote(a))
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir) // testscript's own does not exist
			e.Setenv("GORACE", quickRace)
			repository, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			e.Setenv("REPO", repository)
			return os.WriteFile(filepath.Join(e.WorkDir, "help.txt"), []byte(helpText), 0o644)
		},
	})
}

// scriptCode is "code N COMMAND...": runs the command, which must end with code N.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("got exit code %d; want %s\n%s%s", got, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}
