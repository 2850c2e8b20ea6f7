package main

import (
	"errors"
	"io/fs"
	"os/exec"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/output"
)

// Exit codes of gorun's own; the others are those of ranks and 128+signal.
const (
	exitUsage        = 2
	exitTimeout      = 124
	exitTrouble      = 125 // gorun itself failed
	exitStdoutClosed = 141 // as a program that SIGPIPE kills
)

// cause is what a job ended by.
type cause string

const (
	causeNone         cause = "ended well"
	causeTimeout      cause = "timeout"
	causeSignal       cause = "signal"
	causeRank         cause = "rank failed"
	causeStdoutClosed cause = "stdout closed"
	causeOutput       cause = "output lost"
	causeLost         cause = "host lost"
	causeDiffer       cause = "environments differ"
)

// causeOf picks the one cause that the exit code and the headline are about. A job
// that its user or its limit ended did so whatever its ranks did before.
func causeOf(res *launcher.Result) cause {
	switch {
	case res.Timeout:
		return causeTimeout
	case res.Signal != 0:
		return causeSignal
	case len(res.Differ) > 0:
		return causeDiffer
	case res.First != nil:
		return causeRank
	case len(res.Lost) > 0:
		return causeLost
	case res.StdoutClosed:
		return causeStdoutClosed
	case res.OutputError != "":
		return causeOutput
	}
	return causeNone
}

// exitCode is the only place that makes an exit code of what launcher.Run returned.
func exitCode(res *launcher.Result, err error) int {
	if res != nil && res.Signal != 0 {
		return 128 + res.Signal
	}
	if err != nil {
		return errorCode(err)
	}
	switch causeOf(res) {
	case causeTimeout:
		return exitTimeout
	case causeRank:
		if res.First.Signal != 0 {
			return 128 + res.First.Signal
		}
		if res.First.Fault != "" {
			return max(res.First.Code, 1)
		}
		return res.First.Code
	case causeStdoutClosed:
		return exitStdoutClosed
	case causeOutput, causeLost, causeDiffer:
		return exitTrouble
	}
	return 0
}

// errorCode is the code for a job that did not run.
func errorCode(err error) int {
	if e, ok := errors.AsType[*launcher.PrepareError](err); ok {
		return e.Failures[0].Code
	}
	if e, ok := errors.AsType[*verdictError](err); ok {
		return e.code()
	}
	if isUsage(err) {
		return exitUsage
	}
	if e, ok := errors.AsType[*launcher.FileError](err); ok {
		return fileCode(e)
	}
	return exitTrouble
}

// fileCode is the code for a file that cannot be sent to the hosts: a program is missing
// or cannot be run there, as it cannot here; another file is a mistake on the command line.
func fileCode(e *launcher.FileError) int {
	switch {
	case !e.Program:
		return exitUsage
	case errors.Is(e, fs.ErrNotExist) || errors.Is(e, exec.ErrNotFound):
		return 127
	}
	return 126
}

// is drops what errors.AsType has found.
func is(_ any, ok bool) bool { return ok }

// isUsage reports whether err is about what the user wrote.
func isUsage(err error) bool {
	return is(errors.AsType[*usageError](err)) ||
		is(errors.AsType[*hostfile.SyntaxError](err)) ||
		is(errors.AsType[*envsync.SettingError](err)) ||
		is(errors.AsType[*envsync.LintError](err)) ||
		is(errors.AsType[*envsync.SizeError](err)) ||
		is(errors.AsType[*launcher.SlotsError](err)) ||
		is(errors.AsType[*launcher.CountError](err)) ||
		is(errors.AsType[*launcher.MeshError](err)) ||
		is(errors.AsType[*launcher.StdinError](err)) ||
		is(errors.AsType[*output.PatternError](err)) ||
		is(errors.AsType[*launcher.UnknownSlotsError](err))
}
