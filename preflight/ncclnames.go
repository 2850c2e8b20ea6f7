package preflight

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// ncclNames is a value of NCCL_IB_HCA or NCCL_SOCKET_IFNAME: "^" in front excludes, then
// "=" wants whole names, else each item is the beginning of a name. ":2" after an item
// means only that port (NCCL, parseStringList and matchIfList).
type ncclNames struct {
	exclude, exact bool
	items          []ncclName
}

// ncclName is an item of such a list.
type ncclName struct {
	name string
	port int // -1: any
}

func parseNCCLNames(text string) ncclNames {
	var l ncclNames
	text, l.exclude = strings.CutPrefix(text, "^")
	text, l.exact = strings.CutPrefix(text, "=")
	for item := range strings.SplitSeq(text, ",") {
		name, port, has := strings.Cut(item, ":")
		if name == "" {
			continue
		}
		n := ncclName{name, -1}
		if has {
			n.port = leadingNumber(port)
		}
		l.items = append(l.items, n)
	}
	return l
}

// leadingNumber reads a number as C's atoi does: what does not begin with one is 0.
func leadingNumber(text string) int {
	text = strings.TrimLeft(text, " \t")
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return 0
	}
	return n
}

// takes reports whether item n means name, at port; -1: at any.
func (l ncclNames) takes(n ncclName, name string, port int) bool {
	if l.exact && n.name != name || !strings.HasPrefix(name, n.name) {
		return false
	}
	return n.port == -1 || port == -1 || n.port == port
}

// match reports whether NCCL takes name, at port.
func (l ncclNames) match(name string, port int) bool {
	listed := len(l.items) == 0 || slices.ContainsFunc(l.items, func(n ncclName) bool { return l.takes(n, name, port) })
	return listed != l.exclude
}

// choice is a host's names, of which a value for all hosts must take one and no other, or
// several and no others.
type choice struct {
	want   []string // to be taken
	others []string // must not be taken
}

// fits reports whether value takes what each host wants and nothing else.
func fits(value string, all []choice) bool {
	l := parseNCCLNames(value)
	for _, c := range all {
		for _, name := range c.want {
			if !l.match(name, -1) {
				return false
			}
		}
		for _, name := range c.others {
			if l.match(name, -1) {
				return false
			}
		}
	}
	return true
}

// mostNames is how many names a value may list before it is better not to give one.
const mostNames = 64

// oneValue finds a value that holds on all hosts: the names themselves if they are the
// same everywhere, else what they begin with, else the list of all, else the list of what
// is not wanted; "" if there is none.
func oneValue(all []choice) string {
	var want, others []string
	for _, c := range all {
		want, others = append(want, c.want...), append(others, c.others...)
	}
	want, others = unique(want), unique(others)
	if len(want) == 0 || len(want) > mostNames || len(others) > mostNames {
		return ""
	}
	exact := "=" + strings.Join(want, ",")
	values := []string{exact}
	if prefix := commonPrefix(want); len(want) > 1 && len(prefix) > 1 {
		values = []string{prefix, exact}
	}
	for _, value := range append(values, "^="+strings.Join(others, ",")) {
		if fits(value, all) {
			return value
		}
	}
	return ""
}

// setting writes a variable with such a value as a shell takes it. NCCL's own "=" is quoted:
// behind the other one it would look like a slip.
func setting(name, value string) string {
	if strings.ContainsAny(value, "=^") {
		value = "'" + value + "'"
	}
	return name + "=" + value
}

// meant is setting with what a "=" in front of the value means.
func meant(name, value string) string {
	text := setting(name, value)
	names, exact := strings.CutPrefix(value, "=")
	switch {
	case exact && strings.Contains(names, ","):
		text += " (exactly these)"
	case exact:
		text += " (exactly " + names + ")"
	}
	return text
}

func unique(names []string) []string {
	slices.SortFunc(names, naturally)
	return slices.Compact(names)
}

// naturally puts mlx5_2 before mlx5_10.
func naturally(a, b string) int {
	const digits = "0123456789"
	return cmp.Or(
		cmp.Compare(strings.TrimRight(a, digits), strings.TrimRight(b, digits)),
		cmp.Compare(len(a), len(b)),
		cmp.Compare(a, b),
	)
}

func commonPrefix(names []string) string {
	prefix := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}
