package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// mostThreads bounds the CPUs that the agent's own goroutines use at once: the
// host's CPUs are there for the ranks. It begins with one, which makes a start
// cheaper, and takes more when its ranks have printed busyAfter bytes.
const (
	mostThreads = 4
	busyAfter   = 1 << 20
)

// Main is the command "gorun agent", which gorun runs on every host: "NONCE
// [--remove DIR]" serves one head on stdin and stdout, "sweep JOBID" removes what a
// killed agent has left. It returns the exit code. It takes the process over: see
// Serve.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == "sweep" {
		return sweepMain(ctx, args[1], stdout, stderr)
	}
	cfg, err := parseArgs(args)
	if err != nil {
		fmt.Fprintf(stderr, "gorun agent: %v\n", err)
		return exitUsage
	}
	if cfg.Exe, err = os.Executable(); err != nil {
		fmt.Fprintf(stderr, "gorun agent: %v\n", err)
		return exitLost
	}
	refresh(cfg.Exe)
	cfg.Environ, cfg.Log = os.Environ(), stderr
	cfg.Threads = min(runtime.GOMAXPROCS(1), mostThreads)
	r, w := io.Reader(stdin), io.Writer(stdout)
	if f, ok := pollable(stdin); ok {
		r = f
	}
	if f, ok := pollable(stdout); ok {
		w = f
	}
	return Serve(ctx, r, w, cfg)
}

// refresh dates exe to now if it is gorun's binary in a cache (~/.cache/gorun): an
// installation keeps the newest of these, and so those last used. It may fail.
func refresh(exe string) {
	dir, name := filepath.Split(exe)
	if strings.HasSuffix(dir, "/.cache/gorun/") && strings.HasPrefix(name, "gorun-") {
		unix.UtimesNanoAt(unix.AT_FDCWD, exe, nil, 0) // nil: the file server's now, the same for all hosts
	}
}

func sweepMain(ctx context.Context, jobID string, stdout, stderr io.Writer) int {
	n, err := Sweep(ctx, jobID)
	if n > 0 {
		fmt.Fprintf(stdout, "killed %d processes\n", n)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gorun agent: sweep: %v\n", err)
		return exitLost
	}
	return exitDone
}

// minNonce is the length of a nonce, in hexadecimal digits.
const minNonce = 16

// parseArgs reads NONCE [--remove DIR].
func parseArgs(args []string) (Config, error) {
	const usage = "usage: gorun agent NONCE [--remove DIR] | gorun agent sweep JOBID (gorun runs it by itself)"
	if len(args) != 1 && (len(args) != 3 || args[1] != "--remove") {
		return Config{}, errors.New(usage)
	}
	cfg := Config{Nonce: args[0]}
	if len(cfg.Nonce) < minNonce || strings.Trim(cfg.Nonce, "0123456789abcdefABCDEF") != "" {
		return Config{}, errors.New(usage)
	}
	if len(args) == 3 {
		cfg.Remove = args[2]
	}
	return cfg, nil
}

// pollable returns a copy of x, if that is a pipe or a socket, whose reads and writes
// end when it is closed: without that a blocked write would outlive the link.
func pollable(x any) (*os.File, bool) {
	f, ok := x.(*os.File)
	if !ok {
		return nil, false
	}
	if fi, err := f.Stat(); err != nil || fi.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil, false // O_NONBLOCK would stay set on a terminal
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil || unix.SetNonblock(fd, true) != nil {
		return nil, false
	}
	return os.NewFile(uintptr(fd), f.Name()), true
}
