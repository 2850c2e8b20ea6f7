package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorun/launcher"
)

// A mapping is the value of --map-by, in Open MPI's grammar: WHAT[:MODIFIER,...].
type mapping struct {
	by      launcher.Order // "": not said
	perHost int            // of ppr:N:node; 0: not said
	over    bool           // OVERSUBSCRIBE
	never   bool           // NOOVERSUBSCRIBE
	cores   int            // PE=N; 0: not said
}

const mapHint = "write --map-by slot, --map-by node or --map-by ppr:N:node"

// parseMapping reads the value of --map-by. Letters count without case, as in mpirun.
func parseMapping(s string) (mapping, error) {
	var m mapping
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == ':' || r == ',' })
	if len(words) == 0 {
		return m, &usageError{fmt.Sprintf("%q says nothing", s), []string{mapHint}}
	}
	if s[0] != ':' {
		n, err := m.what(words)
		if err != nil {
			return m, err
		}
		words = words[n:]
	}
	for _, w := range words {
		if err := m.modify(w); err != nil {
			return m, err
		}
	}
	if m.over && m.never {
		return m, &usageError{"OVERSUBSCRIBE and NOOVERSUBSCRIBE contradict each other", nil}
	}
	return m, nil
}

// what reads what is mapped by, at the beginning of words, and returns how many it took.
func (m *mapping) what(words []string) (int, error) {
	switch words[0] {
	case "slot", "core", "hwthread": // over the hosts these are the same
		m.by = launcher.BySlot
	case "node", "host":
		m.by = launcher.ByNode
	case "ppr":
		return 3, m.ppr(words[1:])
	case "numa", "socket", "package", "board", "l1cache", "l2cache", "l3cache", "dist":
		return 0, &usageError{fmt.Sprintf("gorun does not map by %s", words[0]),
			[]string{"--map-by slot puts the ranks on the same hosts"}}
	case "seq", "rankfile":
		return 0, &usageError{fmt.Sprintf("gorun does not map by %s", words[0]),
			[]string{"ranks follow the order of the hostfile; a program of its own for each host goes as -H a -np 1 ./app : -H b -np 2 ./app"}}
	default:
		return 0, &usageError{fmt.Sprintf("%q is nothing to map by", words[0]), []string{mapHint}}
	}
	return 1, nil
}

// ppr reads N:node.
func (m *mapping) ppr(words []string) error {
	if len(words) < 2 {
		return &usageError{"ppr needs a number and what it counts in", []string{"write ppr:N:node for N ranks on each host"}}
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 || n > mostRanks {
		return &usageError{fmt.Sprintf("%q is not a number of ranks", words[0]), []string{"write ppr:N:node for N ranks on each host"}}
	}
	if words[1] != "node" && words[1] != "host" {
		return &usageError{fmt.Sprintf("gorun counts no ranks per %s", words[1]), []string{"write ppr:N:node for N ranks on each host"}}
	}
	m.perHost = n
	return nil
}

// modify reads a modifier.
func (m *mapping) modify(word string) error {
	wrong := func(hint string) error {
		return &usageError{fmt.Sprintf("gorun has no modifier %s", strings.ToUpper(word)), []string{hint}}
	}
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "pe":
		n, err := coreCount(value)
		m.cores = n
		return err
	case "oversubscribe":
		m.over = true
	case "nooversubscribe":
		m.never = true
	case "span":
		return wrong("leave it out: --map-by slot fills one host after the other, --map-by node takes them in turn")
	case "nolocal":
		return wrong("leave this host out: --exclude LIST")
	case "hwtcpus":
		return wrong("--bind-to hwthread counts hardware threads")
	case "corecpus":
		return wrong("leave it out: --bind-to core counts cores")
	case "inherit", "noinherit":
		return wrong("leave it out: a job of gorun's starts no further ones")
	case "display", "displaydevel", "displayalloc", "donotlaunch":
		return wrong("--dry-run prints the layout and starts nothing")
	default:
		return wrong("it has PE=N, OVERSUBSCRIBE and NOOVERSUBSCRIBE")
	}
	return nil
}

// parseRanking reads the value of --rank-by.
func parseRanking(s string) (launcher.Order, error) {
	switch strings.ToLower(s) {
	case "slot", "fill":
		return launcher.BySlot, nil
	case "node", "host":
		return launcher.ByNode, nil
	}
	hint := "write --rank-by slot or --rank-by node"
	if slices.Contains([]string{"core", "hwthread", "numa", "socket", "package", "board", "l1cache", "l2cache", "l3cache"}, strings.ToLower(s)) {
		hint = "--rank-by slot numbers the ranks of a host together"
	}
	return "", &usageError{fmt.Sprintf("gorun does not rank by %q", s), []string{hint}}
}

// settle makes one of the flags that say the same in different ways, or says that they
// contradict each other.
func (o *options) settle() error {
	contradict := func(a, b string) error { return &usageError{a + " and " + b + " contradict each other", nil} }
	said := "--map-by " + string(o.mapBy.by)
	for _, f := range []struct {
		given bool
		flag  string
		by    launcher.Order
	}{{o.bySlot, "-byslot", launcher.BySlot}, {o.byNode, "-bynode", launcher.ByNode}} {
		switch {
		case !f.given:
		case o.mapBy.by != "" && o.mapBy.by != f.by:
			return contradict(said, f.flag)
		default:
			o.mapBy.by, said = f.by, f.flag
		}
	}
	if n := o.mapBy.perHost; n > 0 {
		if o.ppn > 0 && o.ppn != n {
			return contradict(fmt.Sprintf("-ppn %d", o.ppn), fmt.Sprintf("--map-by ppr:%d:node", n))
		}
		o.ppn = n
	}
	if o.oversubscribe && o.mapBy.never {
		return contradict("--oversubscribe", "NOOVERSUBSCRIBE")
	}
	o.oversubscribe = o.oversubscribe || o.mapBy.over
	if err := o.settleMesh(); err != nil {
		return err
	}
	return o.settleBinding()
}
