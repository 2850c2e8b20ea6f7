package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// torchJob is what a line for torchrun or DeepSpeed says.
type torchJob struct {
	perHost, hosts arg      // the flags that say them; without a value: not said
	hostfile       []string // the flag and its value
	flags          []string
	excludes       bool // one of flags does
	module, bare   bool // -m, --no-python
	program        []string
}

// torchLine is the line for gorun that does what the arguments of torchrun, or of
// DeepSpeed's launcher, ask for, as hints. ok is false if they are none, or are not
// understood to the last.
func torchLine(args []string) (hints []string, ok bool) {
	j := torchJob{}
	known := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := cut(args[0])
		args = args[1:]
		takes, theirs := torchFlag(a)
		if takes < 0 || takes == 1 && !a.valued && len(args) == 0 {
			return nil, false
		}
		if takes == 1 && !a.valued {
			a.value, args = args[0], args[1:]
		}
		if a.word == "exclude" && strings.Contains(a.value, ":") { // some GPUs of a host
			return nil, false
		}
		known = known || theirs
		j.take(a)
	}
	if len(args) == 0 || !known {
		return nil, false
	}
	j.program = args
	return j.hints(), true
}

// torchFlag says how many values a flag of torchrun's takes, -1 if it is none or one that
// gorun has no answer to, and whether gorun has none of that name.
func torchFlag(a arg) (takes int, theirs bool) {
	switch strings.ReplaceAll(a.word, "_", "-") {
	case "nproc-per-node", "nnodes", "num-gpus", "num-nodes", "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint",
		"rdzv-id", "rdzv-conf", "local-addr", "role", "max-restarts", "monitor-interval", "start-method":
		return 1, true
	case "standalone", "use-env", "use_env", "no-ssh-check", "force-multi":
		return 0, true
	case "m", "module", "no-python":
		return 0, false
	case "log-dir", "hostfile", "machinefile", "exclude":
		return 1, false
	}
	return -1, false
}

// take notes what a flag says that matters to gorun, which meets for itself.
func (j *torchJob) take(a arg) {
	switch strings.ReplaceAll(a.word, "_", "-") {
	case "nproc-per-node", "num-gpus":
		j.perHost = a
	case "nnodes", "num-nodes":
		j.hosts = a
	case "m", "module":
		j.module = true
	case "no-python":
		j.bare = true
	case "log-dir":
		j.flags = append(j.flags, "--output-dir", a.value)
	case "hostfile", "machinefile":
		j.hostfile = []string{a.typed, a.value}
	case "exclude": // which DeepSpeed reads with @ between hosts
		j.flags, j.excludes = append(j.flags, a.typed, strings.ReplaceAll(a.value, "@", ",")), true
	}
}

// hints are the line for gorun and what is to be known about it.
func (j *torchJob) hints() []string {
	where, more := j.where()
	line := slices.Concat([]string{"gorun"}, where, j.flags, j.python())
	return append([]string{"the whole line: " + typed(line...)}, more...)
}

// where is how gorun is told the hosts and the ranks on them, and what is to be known
// about that.
func (j *torchJob) where() (flags, notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	perHost, _ := ranks(j.perHost.value) // 0: not said
	hosts, _ := ranks(j.hosts.value)
	total, err := ranks(fmt.Sprint(hosts * perHost))
	switch said := j.perHost.value; {
	case said == "gpu" || said == "auto":
		note("without -ppn a host gets a rank for each slot that the hostfile gives it or, if that says nothing, for each GPU")
	case perHost == 0 && said != "":
		note("-ppn N is the number of ranks on each host, for %s", typed(j.perHost.typed, j.perHost.value))
	}
	switch {
	case j.hostfile != nil && err == nil: // the first hosts of the file get them
		return append(j.hostfile, "-np", fmt.Sprint(total), "-ppn", fmt.Sprint(perHost)), notes
	case j.hostfile != nil && j.hosts.value != "":
		note("all hosts of %s are used; -H host1,host2 selects from them, for %s", typed(j.hostfile[1]), typed(j.hosts.typed, j.hosts.value))
	case j.hostfile == nil && j.hosts.value != "" && hosts != 1:
		j.hostfile = []string{"-hostfile", "FILE"}
		note("FILE names the hosts, %s of them, one a line; the line is typed once, on any machine", strings.Replace(j.hosts.value, ":", " to ", 1))
	case j.hostfile == nil && j.excludes:
		j.hostfile = []string{"-hostfile", "FILE"}
		note("FILE names the hosts, one a line")
	}
	switch {
	case perHost == 0:
		return j.hostfile, notes
	case j.hostfile == nil:
		return []string{"-np", fmt.Sprint(perHost)}, notes
	}
	return append(j.hostfile, "-ppn", fmt.Sprint(perHost)), notes
}

// torchHints adds to an unknown flag's error the whole line for gorun if args are
// torchrun's.
func torchHints(err error, args []string) error {
	e, ok := errors.AsType[*usageError](err)
	if hints, theirs := torchLine(args); ok && theirs && strings.HasPrefix(e.msg, "unknown flag") {
		e.hints = append(hints, e.hints...)
	}
	return err
}

// python is the program with its interpreter.
func (j *torchJob) python() []string {
	switch {
	case j.module:
		return append([]string{"python3", "-m"}, j.program...)
	case j.bare || filepath.Ext(j.program[0]) != ".py":
		return j.program
	}
	return append([]string{"python3"}, j.program...)
}

// torchModule finds torch's launcher in "python -m torch.distributed.run ...".
func torchModule(program []string) (module string, rest []string) {
	if !strings.HasPrefix(filepath.Base(program[0]), "python") || len(program) < 3 || program[1] != "-m" {
		return "", nil
	}
	switch program[2] {
	case "torch.distributed.run", "torch.distributed.launch":
		return program[2], program[3:]
	}
	return "", nil
}
