package main

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed peers.txt
var peersText string

// A peer is a group of flags that other launchers have and gorun has not, with what
// to do instead, or why nothing is needed.
type peer struct {
	words []string // without dashes, "-" for "_"
	hint  string
}

// peers reads peers.txt, which happens only when a flag is unknown.
func peers() []peer {
	var all []peer
	for l := range strings.Lines(peersText) {
		if words, hint, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && l[0] != '#' {
			all = append(all, peer{strings.Fields(words), hint})
		}
	}
	return all
}

// peerHints is what peers say about word.
func peerHints(word string) []string {
	var hints []string
	for _, p := range peers() {
		if slices.Contains(p.words, word) {
			hints = append(hints, p.hint)
		}
	}
	return hints
}
