package envsync

import (
	"net/netip"
	"strconv"
	"strings"
)

// interfaces looks at a list of interfaces or adapters: prefixes of names, or names if
// "=" stands in front, or all others if "^" does; "^=" is both.
func (l *linter) interfaces(v Var, kind Kind) {
	text, exclude := strings.CutPrefix(v.Value, "^")
	text, exact := strings.CutPrefix(text, "=")
	front := v.Value[:len(v.Value)-len(text)]
	if len(v.Value) == 1 && v.Name == "NCCL_SOCKET_IFNAME" {
		l.wrong(v, "", "NCCL ignores a value of one character, and chooses an interface itself")
		return
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if odd := strings.IndexAny(name, "^=! \t;[]*"); odd >= 0 {
			l.oddName(v, front, names, name[odd])
			return
		}
	}
	switch {
	case kind == Interfaces && v.Name == "NCCL_SOCKET_IFNAME" && exclude && text != "" && !excludesLo(names, exact):
		l.warn(v, "write "+cutShort(v.Name+"="+shown(v.Value))+",lo",
			"it leaves lo, which NCCL then takes first, as it does not prefer other interfaces to it when it is told what to exclude")
	case kind == Devices && !exact && !exclude:
		l.adapters(v, names)
	}
}

// oddName says why what is in one of names cannot be in a name.
func (l *linter) oddName(v Var, front string, names []string, odd byte) {
	bare := make([]string, len(names))
	for i, n := range names {
		bare[i] = strings.Trim(n, "^=! \t;")
	}
	marks := ""
	if strings.ContainsAny(front+strings.Join(names, ""), "^!") {
		marks = "^"
	}
	if strings.Contains(front+strings.Join(names, ""), "=") {
		marks += "="
	}
	hint := cutShort("write " + v.Name + "=" + shown(marks+strings.Join(bare, ",")))
	switch odd {
	case '^', '=':
		l.wrong(v, hint, "NCCL takes ^, = or ^= once and in front of all; elsewhere %c is part of a name", odd)
	case '!':
		l.wrong(v, hint, "NCCL takes ! for part of a name; ^ excludes")
	case ';':
		l.wrong(v, strings.ReplaceAll(hint, ";", ","), "NCCL takes ; for part of a name; commas stand between names")
	case '[', ']', '*':
		l.wrong(v, "write the names out, or the beginning that they share", "NCCL knows no patterns: %c is part of a name", odd)
	default:
		l.wrong(v, hint, "NCCL takes the blank for part of a name")
	}
}

// excludesLo reports whether a list of what to exclude has the loopback interface.
func excludesLo(names []string, exact bool) bool {
	for _, n := range names {
		n, _, _ = strings.Cut(n, ":")
		if n == "lo" || n == "l" && !exact {
			return true
		}
	}
	return false
}

// adapters warns of a name that is the beginning of others there may be: where a host has
// more than ten adapters of a kind, mlx5_1 is also mlx5_10. Of the second digit no more
// than a 1 is usual.
func (l *linter) adapters(v Var, names []string) {
	for _, n := range names {
		name, _, _ := strings.Cut(n, ":")
		if strings.HasSuffix(name, "_1") {
			l.warn(v, cutShort("write "+v.Name+"=="+shown(v.Value)), "%s is a prefix, and stands for %s0 to %s9, too, where there are such", quoted(name), shown(name), shown(name))
			return
		}
	}
}

// path looks at the name of a file.
func (l *linter) path(v Var) {
	switch {
	case strings.HasPrefix(v.Value, "~"):
		l.wrong(v, "write the whole path", "NCCL takes ~ for part of the name")
	case strings.Contains(v.Value, "$"):
		l.warn(v, "", "NCCL takes $ for part of the name")
	case v.Name == "NCCL_DEBUG_FILE" && v.Value != "" && !strings.Contains(v.Value, "%p") && !strings.HasPrefix(v.Value, "/dev/"):
		l.warn(v, "write %h.%p into the name, for the host and the process", "all ranks that share the file write over each other's log")
	}
}

// address looks at host:port.
func (l *linter) address(v Var) {
	if v.Value == "" && v.Name != "NCCL_COMM_ID" {
		return
	}
	const forms = "write it as 10.0.0.1:5000, [fd00::1]:5000 or host:5000"
	bad := func(format string, args ...any) {
		if v.Name == "NCCL_COMM_ID" {
			l.wrong(v, forms, format, args...)
		} else {
			l.warn(v, forms, format, args...)
		}
	}
	host, port, ok := cutPort(v.Value)
	n, err := strconv.Atoi(port)
	_, bracketless := netip.ParseAddr(v.Value)
	switch {
	case v.Value == "":
		bad("it is empty, which NCCL refuses; unset it where it is not wanted")
	case strings.Count(v.Value, ":") > 1 && bracketless == nil:
		bad("an IPv6 address needs brackets")
	case !ok || host == "":
		bad("it is no address with a port")
	case port == "":
		bad("there is no port, and NCCL takes one nobody asked for")
	case err != nil || n < 0 || n > 65535 || n == 0 && v.Name == "NCCL_COMM_ID":
		bad("%s is no port", quoted(port))
	case strings.ContainsAny(host, " \t,"):
		bad("%s is no host", quoted(host))
	}
}

// cutPort cuts an address into host and port; ok is false if it has not that form.
func cutPort(address string) (host, port string, ok bool) {
	if inside, found := strings.CutPrefix(address, "["); found {
		host, port, ok = strings.Cut(inside, "]")
		return host, strings.TrimPrefix(port, ":"), ok && (port == "" || port[0] == ':')
	}
	host, port, _ = strings.Cut(address, ":")
	return host, port, !strings.Contains(port, ":")
}

// text looks at the few variables of the kind Text with a form of their own.
func (l *linter) text(v Var) {
	switch v.Name {
	case "NCCL_NET":
		if v.Value == "" {
			l.wrong(v, "leave it unset where no network is to be chosen", "it is empty, which is the name of no network")
		}
	case "NCCL_IB_ADDR_RANGE":
		if _, err := netip.ParsePrefix(v.Value); err != nil && v.Value != "" {
			l.wrong(v, "write it as 10.0.0.0/8", "it is no range of addresses, and NCCL ignores it")
		}
	case "NCCL_THREAD_THRESHOLDS":
		if strings.Contains(v.Value, ",") {
			l.wrong(v, "write blanks between them", "NCCL reads numbers up to the first comma")
		}
	}
}
