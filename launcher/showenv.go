package launcher

import (
	"fmt"
	"io"
	"slices"

	"gorun/envsync"
)

// ShowEnv writes the variables that the ranks of job will get, by program and by host, as
// far as they are known without a connection: value, origin, class, what the table
// knows of it, and what envsync.Lint finds, which is no error here. Hidden values are
// not shown.
func ShowEnv(w io.Writer, job Job) error {
	env, notes, err := job.build()
	if err != nil {
		return err
	}
	for _, n := range notes {
		if n.Level == "warn" {
			fmt.Fprintf(w, "warning: %s\n", n.Text)
		}
	}
	hosts := []string{"localhost"}
	if len(job.Hosts) > 0 {
		hosts = hosts[:0]
	}
	for _, h := range job.Hosts {
		hosts = append(hosts, h.Name)
	}
	found := map[envsync.Var][]envsync.Finding{}
	for _, f := range job.lint(env) {
		found[f.Var] = append(found[f.Var], f)
	}
	printShared(w, job, env, hosts, func(w io.Writer, vars []envsync.Var) {
		for _, v := range vars {
			fmt.Fprintf(w, "  %s\n", envsync.Explain(v))
			printMeaning(w, v)
			for _, f := range found[v] {
				printFinding(w, f, job.Rigor)
			}
		}
	})
	fmt.Fprintf(w, "\neach rank its own:\n")
	printNames(w, ownNames(job))
	const unless = "unless it is set here or on the host"
	names := []string{unbuffered}
	if len(job.Hosts) > 1 {
		names = append(names, glooInterface)
	}
	fmt.Fprintf(w, "\neach rank, %s:\n", unless)
	printNames(w, names)
	if !job.binds() && slices.ContainsFunc(job.Apps, App.python) {
		fmt.Fprintf(w, "\neach rank that shares its host with another, %s:\n", unless)
		printNames(w, []string{ompThreads})
	}
	return nil
}

// printMeaning writes what is known of a variable of NCCL's.
func printMeaning(w io.Writer, v envsync.Var) {
	def, ok := envsync.Lookup(v.Name)
	if !ok {
		return
	}
	facts := "in every version"
	if def.Since != "" {
		facts = "since " + def.Since
	}
	if def.SameHost {
		facts += "; decides between ranks of a host"
	}
	if def.Default != "" {
		facts += "; default: " + def.Default
	}
	fmt.Fprintf(w, "      %s  (%s)\n", def.Meaning, facts)
}

// printFinding writes a finding with what a launch would make of it.
func printFinding(w io.Writer, f envsync.Finding, rigor envsync.Rigor) {
	level := "warning"
	if _, err := envsync.Judge([]envsync.Finding{f}, rigor); err != nil {
		level = "error"
	}
	fmt.Fprintf(w, "      %s: %s\n", level, f.Msg)
	if f.Hint != "" {
		fmt.Fprintf(w, "      hint: %s\n", f.Hint)
	}
}

// ownNames are the variables that gorun sets for each rank.
func ownNames(job Job) []string {
	var names []string
	digest := envsync.Digest{Job: "x", Host: "x"}
	for _, v := range envsync.RankVars(envsync.RankInfo{JobID: "x", MasterAddr: "x", MasterPort: 1, Backend: job.Backend, EnvDigest: digest, Dir: "x"}) {
		names = append(names, v.Name)
	}
	for _, v := range job.pmiVars(0, 1) {
		names = append(names, v.Name)
	}
	if job.Bcast || len(job.Preload) > 0 {
		names = append(names, "GORUN_FILES")
	}
	return append(names, "GORUN_HOST_ADDR", "GORUN_EXE")
}

// printNames writes names in lines of moderate length.
func printNames(w io.Writer, names []string) {
	const width = 78
	line := " "
	for _, n := range names {
		if len(line)+1+len(n) > width {
			fmt.Fprintln(w, line)
			line = " "
		}
		line += " " + n
	}
	fmt.Fprintln(w, line)
}
