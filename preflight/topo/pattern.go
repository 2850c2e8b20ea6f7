package topo

import (
	"regexp"
	"sync"
)

// pattern returns what compiles a regular expression when it is called first: those of
// this package would cost each start of gorun and of its agents, and most hosts have no use
// for them.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
