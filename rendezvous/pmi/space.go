package pmi

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/rendezvous"
)

// A fence is the n-th barrier of a job. What has been put before it must be seen by all
// who come behind it. On its way from one host to the others it takes three steps, so
// that a host has one message for it and not one for each key and host:
//
//  1. Before the last of a host's ranks enters the barrier, the host's puts go to the
//     store as one value, or several if they are many: a table.
//  2. When the barrier has been released, node 0 fetches the tables of all hosts, and
//     puts all of them together into the store: the pieces.
//  3. A host that is asked for a key that it has not seen yet fetches pieces, one after
//     the other, until it has it.
//
// Keys in the store, all below prefix: "FENCE" is the barrier, "FENCE/NODE" the last
// table of a host, which begins with the number of those before it, "FENCE/NODE/I";
// "FENCE/all/0" is the first piece, which begins with the number of pieces.

// prefix is what the names in the store begin with.
const prefix = Prefix

func fenceName(fence int) string          { return prefix + strconv.Itoa(fence) }
func lastTable(fence, node int) string    { return fmt.Sprintf("%s/%d", fenceName(fence), node) }
func pieceName(fence, i int) string       { return fmt.Sprintf("%s/all/%d", fenceName(fence), i) }
func tableName(fence, node, i int) string { return fmt.Sprintf("%s/%d", lastTable(fence, node), i) }

// mostTable bounds a table or piece without the number before it.
const mostTable = rendezvous.MaxValue - 32

// space is what a host knows of a job's keys and values.
type space struct {
	alone bool // the job has no other host
	node  int

	values map[string]string
	twice  map[string]bool // keys that two ranks have put with different values

	fence  int             // this host's ranks have entered so many barriers
	fresh  strings.Builder // put since then and not in the store, as lines "KEY VALUE\n"
	tables int             // already in the store for the fence to come

	loaded []progress // by fence
}

// progress is how much of a fence's pieces has been seen.
type progress struct {
	pieces int // 0: not known yet
	seen   int
}

func newSpace(alone bool, node int) *space {
	return &space{alone: alone, node: node, values: map[string]string{}, twice: map[string]bool{}}
}

// put adds a rank's pair. It returns what must go to the store first, if that is much.
func (s *space) put(key, value string) (table *rendezvous.Request, err error) {
	if old, ok := s.values[key]; ok {
		if old != value {
			return nil, fmt.Errorf("key %s has another value already", key)
		}
		return nil, nil
	}
	s.values[key] = value
	if s.alone {
		return nil, nil
	}
	if cost := len(key) + len(value) + 2; s.fresh.Len()+cost > mostTable {
		table = &rendezvous.Request{Op: "put", Key: tableName(s.fence, s.node, s.tables), Value: []byte(s.fresh.String())}
		s.fresh.Reset()
		s.tables++
	}
	s.fresh.WriteString(key + " " + value + "\n")
	return table, nil
}

// enter begins the next fence: all of this host's ranks are about to be in the barrier.
// It returns what must go to the store before, nil if nothing was put.
func (s *space) enter() (table *rendezvous.Request) {
	if s.fresh.Len() > 0 {
		text := strconv.Itoa(s.tables) + "\n" + s.fresh.String()
		table = &rendezvous.Request{Op: "put", Key: lastTable(s.fence, s.node), Value: []byte(text)}
	}
	s.fence++
	s.fresh.Reset()
	s.tables = 0
	return table
}

// find looks for a key on behalf of a rank that is behind so many fences. If it is not
// known, and there may be more of them in the store, missing names a piece to load.
func (s *space) find(key string, fences int) (value, missing string, err error) {
	if s.twice[key] {
		return "", "", fmt.Errorf("key %s was put with two values", key)
	}
	if value, ok := s.values[key]; ok {
		return value, "", nil
	}
	if s.alone {
		return "", "", nil
	}
	for len(s.loaded) < fences {
		s.loaded = append(s.loaded, progress{})
	}
	for fence, p := range s.loaded[:fences] {
		if p.pieces == 0 || p.seen < p.pieces {
			return "", pieceName(fence, p.seen), nil
		}
	}
	return "", "", nil
}

// load takes a piece that find has named, possibly for several ranks at once.
func (s *space) load(name string, piece []byte) error {
	var fence, i int
	if _, err := fmt.Sscanf(strings.TrimPrefix(name, prefix), "%d/all/%d", &fence, &i); err != nil || fence < 0 || fence >= len(s.loaded) {
		return fmt.Errorf("no piece is called %q", name)
	}
	p := &s.loaded[fence]
	if i != p.seen {
		return nil // another rank's request was faster
	}
	text := string(piece)
	if i == 0 {
		count, rest, _ := strings.Cut(text, "\n")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return fmt.Errorf("%q begins with %.20q", name, count)
		}
		p.pieces, text = n, rest
	}
	p.seen++
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			return fmt.Errorf("%q has a line %.80q", name, line)
		}
		if old, ok := s.values[key]; ok && old != value {
			s.twice[key] = true
		}
		s.values[key] = value
	}
	return nil
}

// cut makes pieces of tables' lines.
func cut(fence int, lines []string) []rendezvous.Request {
	texts := []string{""}
	var b strings.Builder
	for _, text := range lines {
		for line := range strings.Lines(text) {
			if b.Len()+len(line) > mostTable {
				texts[len(texts)-1] = b.String()
				texts = append(texts, "")
				b.Reset()
			}
			b.WriteString(line)
		}
	}
	texts[len(texts)-1] = b.String()
	texts[0] = strconv.Itoa(len(texts)) + "\n" + texts[0]
	out := make([]rendezvous.Request, len(texts))
	for i, text := range texts {
		out[i] = rendezvous.Request{Op: "put", Key: pieceName(fence, i), Value: []byte(text)}
	}
	return out
}
