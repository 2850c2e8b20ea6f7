package cpu

import (
	"fmt"
	"strings"
)

// StarMax is the length in bytes up to which an AllReduce uses the star unless
// GORUN_ALGO says otherwise. With p ranks a ring takes 2(p-1) messages in a row and a
// star two, but 2(p-1) times the bytes go through the star's centre: both grow alike
// with p, so that the limit is a length, about that which a link carries in the time
// of a message (30 µs at 10 Gbit/s).
const StarMax = 32 << 10

// algorithm is a way to do a collective. Its values travel in messages.
type algorithm uint8

const (
	auto algorithm = iota // only in a choice
	star
	ring
	tree
	dissemination
)

var algorithms = [...]string{"auto", "star", "ring", "tree", "dissemination"}

func (a algorithm) String() string {
	if int(a) >= len(algorithms) {
		return fmt.Sprintf("algorithm %d", uint8(a))
	}
	return algorithms[a]
}

// choice is what GORUN_ALGO chose; a field that is auto was not chosen.
type choice struct {
	allreduce algorithm
}

// parseChoice reads GORUN_ALGO.
func parseChoice(s string) (choice, error) {
	var c choice
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		switch collective, algo, _ := strings.Cut(item, ":"); {
		case collective != "allreduce":
			return choice{}, fmt.Errorf("GORUN_ALGO: %q: want allreduce:ring or allreduce:star", item)
		case algo == "ring":
			c.allreduce = ring
		case algo == "star":
			c.allreduce = star
		default:
			return choice{}, fmt.Errorf("GORUN_ALGO: %q: allreduce has ring and star", item)
		}
	}
	return c, nil
}

// forAllReduce returns the algorithm for so many bytes, the same on all ranks.
func (c choice) forAllReduce(bytes int) algorithm {
	switch {
	case c.allreduce != auto:
		return c.allreduce
	case bytes <= StarMax:
		return star
	}
	return ring
}

// Explain implements backend.Comm.
func (c *comm) Explain(bytes int) string {
	algo := c.session.algo.forAllReduce(bytes)
	switch {
	case c.size == 1:
		return "copy (one rank)"
	case c.session.algo.allreduce != auto:
		return fmt.Sprintf("%v (chosen by GORUN_ALGO)", algo)
	case algo == star:
		return fmt.Sprintf("%v (at most %d bytes)", algo, StarMax)
	}
	return fmt.Sprintf("%v (more than %d bytes)", algo, StarMax)
}
