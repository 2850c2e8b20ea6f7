package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gorun/hostfile"
	"gorun/preflight"
	"gorun/preflight/probe"
)

// nearRatio is by how much the latency between groups of hosts must be above that inside
// them for the groups to be real: less is what any network varies by.
const nearRatio = 1.5

// labelByLatency gives hosts without any label the groups that a full preflight's latencies show: as
// the names of switches. It reports whether it did. Hosts are those of in with these indexes.
func labelByLatency(hosts []hostfile.Host, use []int, in preflight.Input) bool {
	if in.Mode != preflight.Full || slices.ContainsFunc(hosts, func(h hostfile.Host) bool { return h.Rack+h.Switch+h.Domain != "" }) {
		return false
	}
	results := make([]probe.Result, len(in.Hosts))
	for i, h := range in.Hosts {
		results[i] = probe.Result{From: i, Links: h.Links}
	}
	m := probe.Gather(len(results), results)
	latency := make([][]time.Duration, len(use))
	for a, i := range use {
		latency[a] = make([]time.Duration, len(use))
		for b, j := range use {
			latency[a][b] = min(cmp.Or(m.Latency[i][j], m.Latency[j][i]), cmp.Or(m.Latency[j][i], m.Latency[i][j]))
		}
	}
	groups := nearby(latency)
	for k, g := range groups {
		hosts[k].Switch = fmt.Sprint("group ", g)
	}
	return groups != nil
}

// nearby parts hosts into groups by the round trips between them, and returns the number of
// each host's group; nil if there are none: each latency inside a group is less than each
// between groups, by nearRatio at least, and some group has several hosts. Of the possible
// ways it takes the one with the largest step. A latency of 0 was not measured, and then
// there are no groups.
func nearby(latency [][]time.Duration) []int {
	var all []time.Duration
	for i, row := range latency {
		for _, l := range row[i+1:] {
			if l <= 0 {
				return nil
			}
			all = append(all, l)
		}
	}
	slices.Sort(all)
	limit, step := time.Duration(0), nearRatio
	for k := 1; k < len(all); k++ {
		if r := float64(all[k]) / float64(all[k-1]); r >= step {
			limit, step = all[k-1], r
		}
	}
	if limit == 0 {
		return nil
	}
	group := make([]int, len(latency))
	for i := range group {
		group[i] = i
		for j := range i {
			if latency[j][i] <= limit {
				group[i] = group[j]
				break
			}
		}
	}
	for i, row := range latency {
		for j, l := range row[i+1:] {
			if (l <= limit) != (group[i] == group[i+1+j]) {
				return nil // near to two that are not near to each other
			}
		}
	}
	return group
}
