package pmi

import (
	"fmt"
	"slices"
	"strings"
)

// block is a part of a mapping: count nodes from first on, each with so many ranks.
type block struct{ first, count, ranks int }

// Mapping is the PMI_process_mapping of a job: it says which ranks share a host. nodes are
// the numbers of the ranks' hosts. It is empty when a client would have no room for it.
//
// Only triples are used. The forms without them that newer versions of MPICH know crash
// older ones.
func Mapping(nodes []int) string {
	blocks := period(blocksOf(nodes))
	var b strings.Builder
	b.WriteString("(vector")
	for _, k := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.first, k.count, k.ranks)
		if b.Len() >= maxValue-1 {
			return ""
		}
	}
	return b.String() + ")"
}

func blocksOf(nodes []int) (blocks []block) {
	for i := 0; i < len(nodes); {
		run := 1
		for i+run < len(nodes) && nodes[i+run] == nodes[i] {
			run++
		}
		k := block{nodes[i], 1, run}
		i += run
		if last := len(blocks) - 1; last >= 0 && blocks[last].ranks == run && blocks[last].first+blocks[last].count == k.first {
			blocks[last].count++
			continue
		}
		blocks = append(blocks, k)
	}
	return blocks
}

// period is the shortest list of which blocks is a repetition: a reader begins anew when
// it has come to the end and there are more ranks.
func period(blocks []block) []block {
	for n := 1; n <= len(blocks)/2; n++ {
		if len(blocks)%n == 0 && slices.Equal(blocks[n:], blocks[:len(blocks)-n]) {
			return blocks[:n]
		}
	}
	return blocks
}
