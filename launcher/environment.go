package launcher

import (
	"fmt"
	"slices"
	"strings"

	"gorun/envsync"
)

// environment is what every rank gets beside its own names: the job map, and what the
// ranks of one App have beside it or instead.
type environment struct {
	job   []envsync.Var
	apps  [][]envsync.Var          // by App
	hosts map[string][]envsync.Var // by name, what a host's ranks get over the job map
}

// environment builds what the Job and its Apps ask for, and the account of it. It refuses,
// before any connection, what no exec could take and what NCCL would take for something
// else.
func (j Job) environment() (environment, []envsync.Note, error) {
	env, notes, err := j.build()
	if err != nil {
		return env, notes, err
	}
	warnings, err := envsync.Judge(j.lint(env), j.Rigor)
	return env, append(notes, warnings...), err
}

// build is environment without a look at what NCCL makes of it. What the only App asks
// for is in the job map.
func (j Job) build() (environment, []envsync.Note, error) {
	policy := j.Env
	policy.Set = slices.Concat(j.terminalKind(), policy.Set)
	if len(j.Apps) == 1 {
		policy.Set = slices.Concat(policy.Set, j.Apps[0].Set)
	}
	job, common, err := policy.Build()
	if err != nil {
		return environment{}, nil, err
	}
	job = withoutConfFile(job)
	notes := slices.Clone(common)
	env := environment{job: job, apps: make([][]envsync.Var, len(j.Apps))}
	for i, a := range j.Apps {
		whole := job
		if len(j.Apps) > 1 && len(a.Set) > 0 {
			policy.Set = slices.Concat(j.terminalKind(), j.Env.Set, a.Set)
			var more []envsync.Note
			if whole, more, err = policy.Build(); err != nil {
				return environment{}, nil, err
			}
			whole = withoutConfFile(whole)
			env.apps[i] = beside(job, whole)
			notes = append(notes, notesOf(j.appName(i), beside(common, more))...)
		}
		if err := envsync.CheckSize(a.Args, texts(whole)); err != nil {
			return environment{}, nil, err
		}
	}
	env.hosts, err = j.hostEnvironments(job)
	return env, notes, err
}

// hostEnvironments is what each host's ranks get over job. What -x and -genv ask for is
// for all hosts.
func (j Job) hostEnvironments(job []envsync.Var) (map[string][]envsync.Var, error) {
	asked := map[string]bool{}
	for _, v := range job {
		asked[v.Name] = strings.HasPrefix(v.Origin, "-")
	}
	hosts := map[string][]envsync.Var{}
	for name, vars := range j.HostEnv {
		if err := envsync.CheckSize(nil, texts(vars)); err != nil {
			return nil, err
		}
		hosts[name] = slices.DeleteFunc(slices.Clone(vars), func(v envsync.Var) bool { return asked[v.Name] })
	}
	return hosts, nil
}

// uniform reports whether all programs' ranks get the same NCCL settings, but for those
// of which every process may have its own.
func (e environment) uniform() bool {
	for i := range e.apps {
		if e.digestOf(i, "") != e.digestOf(0, "") {
			return false
		}
	}
	return true
}

// digest is that of all ranks, but for what hosts have of their own; the zero Digest if
// programs have different ones.
func (e environment) digest() envsync.Digest {
	if !e.uniform() {
		return envsync.Digest{}
	}
	return e.digestOf(0, "")
}

// digestOf is that of an App's ranks on a host; of a host that is not named if host is "".
func (e environment) digestOf(app int, host string) envsync.Digest {
	return envsync.DigestOf(texts(slices.Concat(e.job, e.hosts[host], e.apps[app])))
}

// lookup is the value that all ranks, or those of some App, get for name; "" if none do.
func (e environment) lookup(name string) string {
	for _, vars := range slices.Backward(append(e.apps, e.job)) {
		if v := lookup(vars, name); v != "" {
			return v
		}
	}
	return ""
}

// beside lists what more has and list has not.
func beside[T comparable](list, more []T) []T {
	known := make(map[T]bool, len(list))
	for _, v := range list {
		known[v] = true
	}
	var out []T
	for _, v := range more {
		if !known[v] {
			out = append(out, v)
		}
	}
	return out
}

// appName is how to call an App: by its program, and by its place if others run the same.
func (j Job) appName(i int) string {
	name := quoteArg(envsync.Conceal(j.Apps[i].Args[0]))
	for k, a := range j.Apps {
		if k != i && a.Args[0] == j.Apps[i].Args[0] {
			return fmt.Sprintf("program %d (%s)", i+1, name)
		}
	}
	return name
}

// notesOf says which program the notes are about.
func notesOf(name string, notes []envsync.Note) []envsync.Note {
	for i := range notes {
		notes[i].Text = name + ": " + notes[i].Text
	}
	return notes
}
