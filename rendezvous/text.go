package rendezvous

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error texts name at most so many hosts, and so many ranges of ranks on each.
const (
	maxHosts  = 8
	maxRanges = 16
)

// rankText names a rank and its host. The rank may be one that a program made up.
func (e *Engine) rankText(rank int) string {
	if rank < 0 || rank >= len(e.hostOf) {
		return fmt.Sprintf("rank %d (of %d)", rank, len(e.hostOf))
	}
	return fmt.Sprintf("rank %d on %s", rank, e.hosts[e.hostOf[rank]])
}

func (e *Engine) getText(w *wait) string {
	if w.from < 0 {
		return fmt.Sprintf("key %v: no rank has written it%s", w.name, e.goneText(e.ranks))
	}
	text := fmt.Sprintf("key %v: %s has not written it", w.name, e.rankText(w.from))
	if w.from < len(e.hostOf) && (e.over[w.from] || e.gone(w.from)) {
		text += "; it is gone"
	}
	return text
}

// meetingText says who keeps a barrier waiting. Ranks that left again are named
// only when all have come: they left because others did not come. Who has not come
// stays so when a host leaves, so the text is made once for all hosts whose
// deadlines pass.
func (e *Engine) meetingText(n name, m *meeting) string {
	if m.text != "" {
		return m.text
	}
	missing, left := e.absent(m)
	size := len(e.hostOf)
	switch count := total(missing); {
	case count == 0:
		return fmt.Sprintf("barrier %v: all %d ranks came, but some left before the others came: %s", n, size, e.listRanks(left)) + e.goneText(left)
	case count == 1:
		m.text = fmt.Sprintf("barrier %v: 1 of %d ranks has not come: %s", n, size, e.listRanks(missing))
	default:
		m.text = fmt.Sprintf("barrier %v: %d of %d ranks have not come: %s", n, count, size, e.listRanks(missing))
	}
	m.text += e.goneText(missing)
	return m.text
}

// goneText says which of the ranks that a text has named are gone.
func (e *Engine) goneText(byHost [][]int) string {
	gone := make([][]int, len(byHost))
	for host, ranks := range byHost {
		gone[host] = slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return !e.over[rank] && !e.gone(rank) })
	}
	switch n := total(gone); {
	case n == 0:
		return ""
	case n < total(byHost):
		return "; gone: " + e.listRanks(gone)
	case n == 1:
		return "; it is gone"
	}
	return "; all are gone"
}

func total(byHost [][]int) (n int) {
	for _, ranks := range byHost {
		n += len(ranks)
	}
	return n
}

// listRanks lists ranks by host: "rank 3 on node2, ranks 5-6 on node3".
func (e *Engine) listRanks(byHost [][]int) string {
	var parts []string
	more := 0
	for host, ranks := range byHost {
		switch {
		case len(ranks) == 0:
		case len(parts) == maxHosts:
			more++
		case len(ranks) == 1:
			parts = append(parts, e.rankText(ranks[0]))
		default:
			parts = append(parts, fmt.Sprintf("ranks %s on %s", ranges(ranks), e.hosts[host]))
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case more == 1:
		text += " and those of 1 more host"
	case more > 1:
		text += fmt.Sprintf(" and those of %d more hosts", more)
	}
	return text
}

// ranges writes ascending numbers as "0-3,7".
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if len(parts) == maxRanges {
			parts = append(parts, "...")
			break
		}
		part := strconv.Itoa(list[i])
		if j > i {
			part += "-" + strconv.Itoa(list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
