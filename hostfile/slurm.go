package hostfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file reads Slurm's topology.conf: switches with the hosts or switches below each
// (topology/tree), and blocks, which are NVLink domains (topology/block).

// ofSlurm reports whether text is a topology.conf: some line begins as there.
func ofSlurm(text string) bool {
	for line := range strings.Lines(text) {
		key, _, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "switchname", "blockname", "blocksizes":
			if ok {
				return true
			}
		}
	}
	return false
}

// slurmTree is what a topology.conf says.
type slurmTree struct {
	file     string
	switches map[string]bool
	parent   map[string]string    // of a switch; the first that names it
	named    map[string]slurmWord // switches that are named as lower ones, and where
	hosts    []Host
	at       map[string]int // of a host in hosts, by sameHost
	mentions int
}

// slurmWord is key=value and the line it is in.
type slurmWord struct {
	key, value string
	line       int
}

func (t *slurmTree) wrong(w slurmWord, hint, format string, args ...any) error {
	return &SyntaxError{File: t.file, Line: w.line, Col: 1, Text: clip(w.key + "=" + w.value), Msg: fmt.Sprintf(format, args...), Hint: hint}
}

func parseSlurm(file, text string) ([]Host, error) {
	t := &slurmTree{file: file, switches: map[string]bool{}, parent: map[string]string{}, named: map[string]slurmWord{}, at: map[string]int{}}
	for rest, number := text, 1; rest != ""; {
		var line string
		start := number
		line, rest, number = joined(rest, number)
		line, _, _ = strings.Cut(line, "#")
		if err := t.line(line, start); err != nil {
			return nil, err
		}
	}
	return t.finish()
}

// joined cuts the first line off text, which is line number of the file, with those behind
// it that a backslash at its end joins with it.
func joined(text string, number int) (line, rest string, next int) {
	var b strings.Builder
	for more := true; more; number++ {
		var part string
		part, text, _ = strings.Cut(text, "\n")
		part, more = strings.CutSuffix(strings.TrimRight(part, "\r \t"), `\`)
		b.WriteString(part)
		more = more && text != ""
	}
	return b.String(), text, number
}

// line reads a line without its comment.
func (t *slurmTree) line(text string, number int) error {
	var words []slurmWord
	for _, field := range strings.Fields(text) {
		key, value, ok := strings.Cut(field, "=")
		w := slurmWord{strings.ToLower(key), strings.Trim(value, `"`), number}
		if !ok || key == "" || value == "" {
			return &SyntaxError{File: t.file, Line: number, Col: 1, Text: clip(field), Msg: "not a Key=value", Hint: "write lists without blanks, as in Nodes=gpu[1-4,7]"}
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return nil
	}
	first, rest := words[0], words[1:]
	switch first.key {
	case "blocksizes":
		return nil
	case "switchname", "blockname":
	default:
		return t.wrong(first, "a line begins with SwitchName=, BlockName= or BlockSizes=", "unknown key")
	}
	if m := checkLabel(first.value); m != nil {
		return t.wrong(first, m.hint, "%s", m.msg)
	}
	block := first.key == "blockname"
	if !block {
		if t.switches[first.value] {
			return t.wrong(first, "", "this switch is there twice")
		}
		t.switches[first.value] = true
	}
	for _, w := range rest {
		if err := t.below(first.value, block, w); err != nil {
			return err
		}
	}
	return nil
}

// below reads what a line says of its switch or block.
func (t *slurmTree) below(name string, block bool, w slurmWord) error {
	switch {
	case w.key == "linkspeed" || w.key == "blocksizes":
		return nil
	case w.key == "nodes":
		return t.addHosts(name, block, w)
	case w.key == "switches" && !block:
		return t.addSwitches(name, w)
	}
	return t.wrong(w, "the keys are SwitchName, Switches, Nodes, LinkSpeed, BlockName and BlockSizes", "unknown key")
}

func (t *slurmTree) expand(w slurmWord) ([]string, error) {
	names, err := Expand(w.value)
	if err != nil {
		e := *err.(*SyntaxError)
		e.File, e.Line, e.Col = t.file, w.line, 1
		return nil, &e
	}
	if t.mentions += len(names); t.mentions > maxMentions {
		return nil, t.wrong(w, "", "more than %d names in the file", maxMentions)
	}
	return names, nil
}

func (t *slurmTree) addHosts(name string, block bool, w slurmWord) error {
	names, err := t.expand(w)
	if err != nil {
		return err
	}
	for _, host := range names {
		if m := checkName(host); m != nil {
			return t.wrong(w, m.hint, "%s", m.msg)
		}
		i, ok := t.at[sameHost(host)]
		if !ok {
			i = len(t.hosts)
			t.at[sameHost(host)] = i
			t.hosts = append(t.hosts, Host{Name: host, Slots: -1, File: t.file, Line: w.line})
		}
		label := &t.hosts[i].Switch
		if block {
			label = &t.hosts[i].Domain
		}
		if *label != "" && *label != name {
			return t.wrong(w, "", "%s is below %s and below %s", host, *label, name)
		}
		*label = name
	}
	return nil
}

func (t *slurmTree) addSwitches(name string, w slurmWord) error {
	names, err := t.expand(w)
	if err != nil {
		return err
	}
	for _, lower := range names {
		if _, ok := t.parent[lower]; !ok { // in a fat tree a switch is below several
			t.parent[lower], t.named[lower] = name, w
		}
	}
	return nil
}

// finish gives each host the whole path of its switch.
func (t *slurmTree) finish() ([]Host, error) {
	for _, lower := range slices.Sorted(maps.Keys(t.named)) {
		if !t.switches[lower] {
			return nil, t.wrong(t.named[lower], "", "there is no switch %q", clip(lower))
		}
	}
	paths := map[string]string{}
	for i := range t.hosts {
		h := &t.hosts[i]
		path, ok := paths[h.Switch]
		if !ok && h.Switch != "" {
			var err error
			if path, err = t.path(h.Switch); err != nil {
				return nil, err
			}
			paths[h.Switch] = path
		}
		h.Switch = path
	}
	if len(t.hosts) == 0 {
		return nil, &SyntaxError{File: t.file, Msg: "no hosts in it"}
	}
	return t.hosts, nil
}

// path is a switch with those above it, the highest first.
func (t *slurmTree) path(name string) (string, error) {
	path := []string{name}
	for {
		w := t.named[name]
		above, ok := t.parent[name]
		switch {
		case !ok:
			slices.Reverse(path)
			return strings.Join(path, "/"), nil
		case slices.Contains(path, above):
			return "", t.wrong(w, "", "the switch %q is below itself", clip(above))
		case len(path) == maxLevels:
			return "", t.wrong(w, "", "more than %d levels of switches", maxLevels)
		}
		path, name = append(path, above), above
	}
}
