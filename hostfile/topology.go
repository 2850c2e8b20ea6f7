package hostfile

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Topology says which hosts are near each other, as a file of its own tells it.
type Topology struct {
	labels map[string]Host // by sameHost; only the labels count
}

// ParseTopologyFile reads a topology file: Slurm's topology.conf, or a hostfile of which only
// the labels rack, switch and domain count. It blocks as long as reading does. The error is
// as ParseFile's.
func ParseTopologyFile(path string) (*Topology, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("topology file %s: %w", path, cause(err))
	}
	defer f.Close()
	return ParseTopology(path, f)
}

// ParseTopology reads a topology file from r; name is its name in errors.
func ParseTopology(name string, r io.Reader) (*Topology, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("topology file %s: %w", name, cause(err))
	}
	text, err := decode(name, data)
	if err != nil {
		return nil, err
	}
	var hosts []Host
	if ofSlurm(text) {
		hosts, err = parseSlurm(name, text)
	} else {
		hosts, err = Parse(name, strings.NewReader(text))
	}
	if err != nil {
		return nil, err
	}
	t := &Topology{labels: make(map[string]Host, len(hosts))}
	for _, h := range hosts {
		t.labels[sameHost(h.Name)] = h
	}
	return t, nil
}

// Label returns hosts with the labels that t has for them, which count more than their own,
// and the names of those that are not in t.
func (t *Topology) Label(hosts []Host) (labelled []Host, unnamed []string) {
	labelled = slices.Clone(hosts)
	for i := range labelled {
		h := &labelled[i]
		l, ok := t.labels[sameHost(h.Name)]
		if !ok {
			unnamed = append(unnamed, h.Name)
			continue
		}
		for _, s := range []struct {
			label string
			to    *string
		}{{l.Rack, &h.Rack}, {l.Switch, &h.Switch}, {l.Domain, &h.Domain}} {
			if s.label != "" {
				*s.to = s.label
			}
		}
	}
	return labelled, unnamed
}

// Order returns the indexes of hosts so that those of one domain, of one rack, and of one
// switch at each level follow each other, and are else as they were: groups come in the
// order of their first host. A domain stays together even if it is in several racks.
func Order(hosts []Host) []int {
	first := map[string]int{} // host of each domain
	keys := make([][]string, len(hosts))
	for i, h := range hosts {
		place := h.place()
		if h.Domain != "" {
			if _, ok := first[h.Domain]; !ok {
				first[h.Domain] = i
			}
			// A domain is where its first host is, and below that where each is.
			place = slices.Concat(hosts[first[h.Domain]].place(), []string{"domain " + h.Domain}, place)
		}
		keys[i] = place
	}
	all := make([]int, len(hosts))
	for i := range all {
		all[i] = i
	}
	return together(all, keys, 0)
}

// maxLevels is how many levels of switches count.
const maxLevels = 16

// place is where h is, from what is largest.
func (h Host) place() []string {
	return append([]string{h.Rack}, strings.SplitN(h.Switch, "/", maxLevels)...)
}

// together groups hosts by their keys from level on.
func together(hosts []int, keys [][]string, level int) []int {
	if len(hosts) < 2 {
		return hosts
	}
	var order []string
	groups := map[string][]int{}
	deeper := false
	for _, i := range hosts {
		key := "" // of a host that has none at this level
		if level < len(keys[i]) {
			key, deeper = "="+keys[i][level], true
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	if !deeper {
		return hosts
	}
	var out []int
	for _, key := range order {
		out = append(out, together(groups[key], keys, level+1)...)
	}
	return out
}
