package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// check decides for every rank what it will run and with which environment, and
// says what stands in the way of any. Equal failures are told once: with Rank -1 if
// they hold for all ranks of the host, else for the lowest rank, with the number of
// the others. It may take as long as the file systems it looks at.
func (j *job) check(session []string, exe string) []wire.Failure {
	if err := checkPty(j.plan); err != nil {
		return []wire.Failure{{Rank: -1, Code: codeOurs, Text: cut(err.Error())}}
	}
	session = sessionEnv(session, j.plan.Unset)
	own := append([]string{"GORUN_EXE=" + exe}, j.mpi.names()...)
	if j.files != "" {
		own = append(own, "GORUN_FILES="+j.files)
	}
	dirs, found, linked := map[string]error{}, programs{}, map[string]string{}
	var failures []wire.Failure
	for _, r := range j.ranks {
		r.env = envsync.Merge(session, []string{"PWD=" + r.dir}, texts(j.plan.Env), append(texts(r.plan.Env), own...))
		r.env = envsync.Prepend(r.env, texts(j.plan.Prepend))
		j.complete(r)
		err := r.check(dirs, found, j.files)
		if err == nil {
			err = j.checkMPI(r, linked)
		}
		if err != nil {
			f := wire.Failure{Rank: r.n, Code: codeOurs, Text: clean(err.Error())}
			if se, ok := errors.AsType[*startError](err); ok {
				f.Code = se.code
			}
			failures = append(failures, f)
		}
	}
	return fold(failures, len(j.ranks))
}

// complete gives a rank what neither the session nor the job has set.
func (j *job) complete(r *rank) {
	var names []string
	r.env, names = envsync.Complete(r.env, texts(r.plan.Lack))
	for _, name := range names {
		if !slices.Contains(j.lacked, name) {
			j.lacked = append(j.lacked, name)
		}
	}
}

// checkDir reports why ranks cannot have dir as their working directory.
func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	switch {
	case !strings.HasPrefix(dir, "/"):
		return fmt.Errorf("working directory %q is not absolute", dir)
	case err != nil:
		return fmt.Errorf("working directory %q: %w", dir, bare(err))
	case !fi.IsDir():
		return fmt.Errorf("working directory %q: is no directory", dir)
	case unix.Access(dir, unix.X_OK) != nil:
		return fmt.Errorf("working directory %q: permission denied", dir)
	}
	return nil
}

// sessionEnv is the session's environment as a rank may inherit it: without the
// plan's unset names, and without the names of the session's working directory.
func sessionEnv(session, unset []string) []string {
	return slices.DeleteFunc(slices.Clone(session), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "PWD" || name == "OLDPWD" || slices.Contains(unset, name)
	})
}

// check looks at the rank's working directory, refuses strings that no exec would take,
// and finds the program. What it learns goes into dirs and found: ranks mostly run the
// same program. files is the directory of what was brought here.
func (r *rank) check(dirs map[string]error, found programs, files string) error {
	err, known := dirs[r.dir]
	if !known {
		err = checkDir(r.dir)
		dirs[r.dir] = err
	}
	if err != nil {
		return err
	}
	for i, s := range r.argv {
		if strings.IndexByte(s, 0) >= 0 {
			return cannotRun("argument %d has a NUL byte", i)
		}
	}
	for _, v := range r.env {
		if strings.IndexByte(v, 0) >= 0 {
			name, _, _ := strings.Cut(v, "=")
			return cannotRun("environment variable %q has a NUL byte", name)
		}
	}
	if err := envsync.CheckSize(r.argv, r.env); err != nil {
		return &startError{codeCannotRun, err.Error()}
	}
	if len(r.plan.Shipped) > 0 {
		r.path, err = found.find(programKey{name: shipped(within(files, string(r.plan.Shipped)))})
		return err
	}
	path, hasPath := lookup(r.env, "PATH")
	r.path, err = found.find(programKey{r.argv[0], r.dir, path, hasPath})
	return err
}

// shipped is the path of a program that was brought here; one that this host had is run
// as the file it is, beside what else is there.
func shipped(path string) string {
	if original, err := os.Readlink(path); err == nil {
		return original
	}
	return path
}

// programs remembers what was found.
type programs map[programKey]foundProgram

type programKey struct {
	name, dir, path string
	hasPath         bool
}

type foundProgram struct {
	path string
	err  error
}

func (p programs) find(k programKey) (string, error) {
	f, ok := p[k]
	if !ok {
		f.path, f.err = findProgram(k.name, k.dir, k.path, k.hasPath)
		p[k] = f
	}
	return f.path, f.err
}

// Limits of what a host tells of its failures: the head takes no long messages.
const (
	maxFailures = 32
	maxText     = 4 << 10
)

// fold tells equal failures once; ranks is how many this host has.
func fold(failures []wire.Failure, ranks int) []wire.Failure {
	type reason struct {
		code int
		text string
	}
	groups := map[reason][]int{}
	var order []reason
	for _, f := range failures {
		k := reason{f.Code, f.Text}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], f.Rank)
	}
	var out []wire.Failure
	for _, k := range order {
		f := wire.Failure{Rank: slices.Min(groups[k]), Code: k.code, Text: cut(k.text)}
		switch n := len(groups[k]); {
		case n == ranks:
			f.Rank = -1
		case n > 1:
			f.Text += fmt.Sprintf(" (and %d more of this host's ranks)", n-1)
		}
		if out = append(out, f); len(out) == maxFailures && len(order) > maxFailures {
			out[len(out)-1].Text += fmt.Sprintf(" (and %d more failures)", len(order)-maxFailures)
			break
		}
	}
	return out
}

func cut(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
