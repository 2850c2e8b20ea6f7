package facts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gorun/preflight/child"
)

const (
	maxOutput = 16 << 20    // of what a program prints
	killWait  = time.Second // for a killed program to be gone

	lastSignal = 64
)

// exitError says that a program ended otherwise than well.
type exitError struct {
	name string // of the program
	code int    // 128+signal if one ended it
	text string // its words, in one line
}

func (e *exitError) Error() string {
	what := fmt.Sprintf("%s ended with code %d", e.name, e.code)
	if e.code > 128 && e.code <= 128+lastSignal { // others, as 255, a program gives itself
		what = fmt.Sprintf("%s was ended by %v", e.name, syscall.Signal(e.code-128))
	}
	if e.text != "" {
		what += ": " + e.text
	}
	return what
}

// errHung is in the error of a program that was still there after it had been killed: it
// waits in the kernel.
var errHung = errors.New("it cannot be killed")

// runProgram runs a program without input, and returns what it has printed to its
// standard output, also when it fails. It is killed when ctx is done; runProgram then
// returns within killWait, with the context's cause, even if the kernel does not let go of
// the program.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, words := &child.Output{Most: maxOutput}, &child.Output{Most: maxOutput}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, words
	p := child.Start(cmd, killWait)
	name = filepath.Base(name)
	if !p.Wait(ctx) {
		err := fmt.Errorf("%s: %w", name, context.Cause(ctx))
		if !p.End() {
			err = fmt.Errorf("%w; %w", err, errHung)
		}
		return out.Bytes(), err
	}
	err := p.Err()
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		err = &exitError{name, exitCode(exit), complaint(out.Bytes(), words.Bytes())}
	} else if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return out.Bytes(), err
}

func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// complaint is what a program that failed has said, in one line: nvidia-smi prints its
// errors to the standard output.
func complaint(out, words []byte) string {
	if strings.TrimSpace(string(words)) == "" {
		words = out[:min(len(out), 2048)]
	}
	return brief(string(words))
}
