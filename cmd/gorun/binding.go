package main

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/launcher"
)

// A binding is the value of --bind-to, in the grammars of Open MPI and Hydra:
// WHAT[:MODIFIER], where core:N is N cores for each rank.
type binding struct {
	to     string // one of launcher's Bind constants; "": not said
	cores  int    // 0: not said
	report bool
}

const bindHint = "write --bind-to none, core, hwthread, numa or socket"

// parseBinding reads the value of --bind-to. Letters count without case, as in mpirun.
func parseBinding(s string) (binding, error) {
	var b binding
	what, modifiers, _ := strings.Cut(strings.ToLower(s), ":")
	switch what {
	case launcher.BindNone, launcher.BindCore, launcher.BindThread, launcher.BindNUMA, launcher.BindSocket:
		b.to = what
	case "package":
		b.to = launcher.BindSocket
	case "l1cache", "l2cache", "l3cache", "board", "cpu-list", "user", "rr", "node", "machine":
		return b, &usageError{"gorun does not bind to " + what, []string{bindHint}}
	default:
		return b, &usageError{fmt.Sprintf("%q is nothing to bind to", what), []string{bindHint}}
	}
	for m := range strings.FieldsFuncSeq(modifiers, func(r rune) bool { return r == ',' || r == ':' }) {
		if err := b.modify(m); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (b *binding) modify(word string) error {
	wrong := func(hint string) error {
		return &usageError{fmt.Sprintf("gorun has no modifier %s", strings.ToUpper(word)), []string{hint}}
	}
	switch {
	case word == "if-supported": // gorun always acts so
	case word == "report":
		b.report = true
	case word == "overload-allowed":
		return wrong("leave it out: gorun binds no ranks where there are more of them than cores, and goes on")
	case strings.Trim(word, "0123456789") == "":
		n, err := coreCount(word)
		b.cores = n
		return err
	default:
		return wrong("write core:N for N cores each")
	}
	return nil
}

// mostCores is more than any host has.
const mostCores = 65536

// coreCount is a number of cores for each rank.
func coreCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > mostCores {
		return 0, &usageError{fmt.Sprintf("%q is not a number of cores", s), []string{"it is a whole number, 1 or more"}}
	}
	return n, nil
}

// settleBinding makes one of the flags about binding, or says that they contradict each
// other.
func (o *options) settleBinding() error {
	said := ""
	for _, f := range []struct {
		cores int
		flag  string
	}{
		{o.bindTo.cores, fmt.Sprintf("--bind-to %s:%d", o.bindTo.to, o.bindTo.cores)},
		{o.mapBy.cores, fmt.Sprintf("PE=%d", o.mapBy.cores)},
		{o.coresPerRank, fmt.Sprintf("--cpus-per-rank %d", o.coresPerRank)},
	} {
		switch {
		case f.cores == 0:
		case said != "" && o.bindTo.cores != f.cores:
			return &usageError{said + " and " + f.flag + " contradict each other", nil}
		default:
			o.bindTo.cores, said = f.cores, f.flag
		}
	}
	if said == "" {
		return nil
	}
	switch o.bindTo.to {
	case "":
		o.bindTo.to = launcher.BindCore
	case launcher.BindNone, launcher.BindNUMA, launcher.BindSocket:
		return &usageError{fmt.Sprintf("%s and --bind-to %s contradict each other", said, o.bindTo.to),
			[]string{"a number of cores for each rank goes with --bind-to core or hwthread"}}
	}
	return nil
}
