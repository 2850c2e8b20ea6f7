package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gorun/launcher"
	"gorun/preflight"
)

// maxAxes is how many axes a mesh may have, maxAxis how long their names may be.
const (
	maxAxes = 8
	maxAxis = 16
)

const meshHint = "write the axes with their sizes, the outermost first: --mesh dp=4,pp=2,tp=8; dp=* is as many as fit"

// parseMesh reads the value of --mesh, and returns it as launcher.Mesh writes it. An axis
// without a size, or of size * or -1, is as large as there are ranks for.
func parseMesh(s string) (string, error) {
	m, err := readMesh(s)
	if err == nil {
		return m.String(), nil
	}
	hint := meshHint
	if meant := withSigns(s); meant != s {
		if _, err := readMesh(meant); err == nil {
			hint = fmt.Sprintf("did you mean --mesh %s?", shellQuote(meant))
		}
	}
	return "", &usageError{err.Error(), []string{hint}}
}

// signless is an axis with its size right behind its name, or with a wrong sign between.
var signless = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([A-Za-z]+)\s*[-:_]?\s*([0-9]+|\*)\s*$`)
})

// withSigns is a mesh with a "=" between each name and its size.
func withSigns(s string) string {
	axes := strings.Split(s, ",")
	for i, item := range axes {
		axes[i] = signless().ReplaceAllString(item, "$1=$2")
	}
	return strings.Join(axes, ",")
}

func readMesh(s string) (m launcher.Mesh, err error) {
	seen := map[string]bool{}
	product := 1
	for item := range strings.SplitSeq(s, ",") {
		a, err := parseAxis(item)
		switch {
		case err != nil:
			return nil, err
		case seen[a.Name]:
			return nil, fmt.Errorf("the axis %s is there twice", a.Name)
		case a.Size == 0 && m.Open():
			return nil, fmt.Errorf("%s: only one axis can be as many as fit", item)
		case len(m) == maxAxes:
			return nil, fmt.Errorf("a mesh has at most %d axes", maxAxes)
		case product*max(a.Size, 1) > launcher.MaxRanks:
			return nil, fmt.Errorf("%s: a job has at most %d ranks", item, launcher.MaxRanks)
		}
		seen[a.Name] = true
		product *= max(a.Size, 1)
		m = append(m, a)
	}
	return m, nil
}

func parseAxis(item string) (launcher.Axis, error) {
	name, text, sized := strings.Cut(item, "=")
	a := launcher.Axis{Name: strings.ToLower(strings.TrimSpace(name))}
	text = strings.TrimSpace(text)
	switch {
	case !sized && signless().MatchString(item):
		return a, fmt.Errorf("%q is no axis: a = belongs before its size", item)
	case a.Name == "":
		return a, fmt.Errorf("%q: an axis needs a name", item)
	case len(a.Name) > maxAxis || strings.Trim(a.Name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || a.Name[0] < 'a':
		return a, fmt.Errorf("%q is no name of an axis: it has at most %d letters and digits, a letter first", a.Name, maxAxis)
	case a.Name == "local" || a.Name == "node":
		return a, fmt.Errorf("an axis cannot be called %s: GORUN_%s_RANK is something else", a.Name, strings.ToUpper(a.Name))
	case !sized || text == "*" || text == "-1":
		return a, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > launcher.MaxRanks {
		return a, fmt.Errorf("%q is no size of an axis", text)
	}
	a.Size = n
	return a, nil
}

// meshOf is a mesh as parseMesh returns it; nil for "".
func meshOf(s string) launcher.Mesh {
	if s == "" {
		return nil
	}
	var m launcher.Mesh
	for item := range strings.SplitSeq(s, ",") {
		a, err := parseAxis(item)
		if err != nil {
			return nil
		}
		m = append(m, a)
	}
	return m
}

// settleMesh finds what cannot be in a mesh, and takes the number of ranks from it. GPUs for each
// rank take a preflight.
func (o *options) settleMesh() error {
	if o.gpuBind == bindOne {
		if o.preflight.mode == preflight.Off {
			return &usageError{"--gpu-bind one and --preflight off contradict each other", []string{"which GPUs a host has is found out by preflight"}}
		}
		o.preflight.bindGPUs = true
	}
	m := meshOf(o.mesh)
	switch {
	case m == nil:
		return nil
	case o.appFile != "" || len(o.more) > 0:
		return &usageError{"--mesh is for a job of one program", nil}
	case cmp.Or(o.rankBy, o.mapBy.by) == launcher.ByNode:
		flag := "--rank-by node"
		if o.rankBy == "" {
			flag = "--map-by node"
		}
		return &usageError{fmt.Sprintf("--mesh and %s contradict each other", flag), []string{"the last axis of a mesh is of ranks next to each other, which are to share a host"}}
	case o.np > 0:
		return o.checkMeshSize(m)
	case !m.Open():
		o.np = m.Multiple()
	}
	return nil
}

// checkMeshSize compares a mesh with the number of ranks that is asked for.
func (o *options) checkMeshSize(m launcher.Mesh) error {
	_, err := m.Fit(o.np)
	np := fmt.Sprintf("%s %d", o.typedFlag("np"), o.np)
	switch {
	case err == nil:
		return nil
	case m.Open():
		return &usageError{fmt.Sprintf("--mesh %s needs a multiple of %d ranks, which %s is not", m, m.Multiple(), np), nil}
	}
	whole := m.Multiple()
	m[0].Size = 0
	return &usageError{fmt.Sprintf("--mesh %s has %s, and %s asks for others", o.mesh, plural(whole, "rank"), np),
		[]string{fmt.Sprintf("without -np the mesh says how many ranks there are; --mesh '%s' takes as many as fit", m)}}
}
