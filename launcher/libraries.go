package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorun/hostfile"
	"gorun/launcher/wire"
)

// libraries is what the hosts have of NCCL's libraries: programs load them by themselves,
// so that a file which only some hosts have changes what NCCL does there.
type libraries struct {
	told  int             // hosts that have told
	hosts []hostLibraries // those of them that were looked at
}

type hostLibraries struct {
	index int
	name  string
	found []wire.Library
}

// take takes over what a host, of that index, has. Hosts tell in any order.
func (l *libraries) take(index int, host string, p *wire.Prepared) {
	l.told++
	if !p.Unlooked {
		l.hosts = append(l.hosts, hostLibraries{index, host, p.Libraries})
	}
}

// libraryLine says what there is of one library. Those that are odd are told to everyone.
type libraryLine struct {
	odd  bool
	text string
}

// lines compares the hosts. It has a line for each library that any of them has.
func (l *libraries) lines() []libraryLine {
	slices.SortFunc(l.hosts, func(a, b hostLibraries) int { return a.index - b.index })
	var names []string
	for _, h := range l.hosts {
		for _, lib := range h.found {
			if !slices.Contains(names, lib.Name) {
				names = append(names, lib.Name)
			}
		}
	}
	var out []libraryLine
	for _, name := range names {
		out = append(out, l.line(name))
	}
	return out
}

// line compares one library. A profiler changes nothing, and a program may bring its own
// NCCL along: that only some hosts have these is not odd.
func (l *libraries) line(name string) libraryLine {
	groups := map[string][]string{} // hosts by version and build
	var order, without []string
	text := map[string]string{}
	for _, h := range l.hosts {
		i := slices.IndexFunc(h.found, func(lib wire.Library) bool { return lib.Name == name })
		if i < 0 || len(h.found[i].Path) == 0 {
			without = append(without, h.name)
			continue
		}
		lib := h.found[i]
		key := cmp.Or(lib.Version, lib.Build)
		if groups[key] == nil {
			order = append(order, key)
			what := "version " + lib.Version
			if lib.Version == "" {
				what = "build " + lib.Build[:min(len(lib.Build), 15)]
			}
			text[key] = fmt.Sprintf("%s (%s)", what, quoteArg(string(lib.Path)))
		}
		groups[key] = append(groups[key], h.name)
	}
	var parts []string
	for _, key := range order {
		parts = append(parts, text[key]+" on "+hostfile.Fold(groups[key]))
	}
	if order == nil {
		return libraryLine{true, fmt.Sprintf("%s: none on %s; NCCL goes on without it, unless the program brings it along", quoteArg(name), hostfile.Fold(without))}
	}
	profiler := strings.Contains(name, "-profiler")
	line := libraryLine{odd: len(order) > 1 && !profiler}
	if len(without) > 0 {
		parts = append(parts, "none on "+hostfile.Fold(without))
		line.odd = !profiler && (line.odd || !strings.HasPrefix(name, "libnccl.so"))
	}
	line.text = fmt.Sprintf("%s: %s", quoteArg(name), strings.Join(parts, ", "))
	if line.odd {
		line.text += "; NCCL loads what it finds, and may then behave differently on each"
	}
	return line
}

// maxLibraries bounds what a host may say it has: NCCL, and its kinds of plugins.
const maxLibraries = 16

// Limits of what is said of one, in bytes.
const maxVersion, maxBuild = 256, 200

// checkLibraries refuses what no host has.
func checkLibraries(found []wire.Library) error {
	for _, lib := range found {
		if len(lib.Name) > maxLog || len(lib.Path) > maxLog || len(lib.Version) > maxVersion || len(lib.Build) > maxBuild {
			return fmt.Errorf("it has a library with a path of %d bytes", len(lib.Path))
		}
	}
	if len(found) > maxLibraries {
		return fmt.Errorf("it has %d libraries of NCCL", len(found))
	}
	return nil
}

// strict is the error of a job that allows for no difference; nil if there is none, or not
// all of so many hosts have told.
func (l *libraries) strict(hosts int) error {
	if l.told < hosts {
		return nil
	}
	e := &LibrariesError{}
	for _, line := range l.lines() {
		if line.odd {
			e.Lines = append(e.Lines, line.text)
		}
	}
	if e.Lines == nil {
		return nil
	}
	return e
}

// tellLibraries tells what the hosts' libraries are, once all hosts have.
func (r *run) tellLibraries() {
	for _, l := range r.libraries.lines() {
		level := "info"
		if l.odd {
			level = "warn"
		}
		r.note(level, l.text)
	}
}
