package transport

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/hostfile"
)

// parseJump reads the value of a ProxyJump: hosts with commas between, in the order in
// which they are passed. "none" is no host.
func parseJump(value string) ([]hostfile.Host, error) {
	value, _, _ = strings.Cut(value, "#")
	if value = strings.TrimSpace(value); strings.EqualFold(value, "none") {
		return nil, nil
	}
	var hops []hostfile.Host
	for text := range strings.SplitSeq(value, ",") {
		h, err := parseHop(text)
		if err != nil {
			return nil, err
		}
		hops = append(hops, h)
	}
	return hops, nil
}

// parseHop reads [user@]host[:port] or ssh://[user@]host[:port].
func parseHop(text string) (h hostfile.Host, err error) {
	rest, uri := strings.CutPrefix(text, "ssh://")
	if uri {
		rest = strings.TrimSuffix(rest, "/")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		h.User, rest = rest[:at], rest[at+1:]
		if h.User == "" {
			return h, fmt.Errorf("no user before @ in %q", text)
		}
	}
	port := ""
	if after, bracketed := strings.CutPrefix(rest, "["); bracketed {
		end := strings.IndexByte(after, ']')
		if end < 0 {
			return h, fmt.Errorf("no ] in %q", text)
		}
		h.Name, rest = after[:end], after[end+1:]
		if rest != "" && rest[0] != ':' {
			return h, fmt.Errorf("no : behind ] in %q", text)
		}
		port = strings.TrimPrefix(rest, ":")
	} else if strings.Count(rest, ":") == 1 || uri {
		h.Name, port, _ = strings.Cut(rest, ":")
	} else {
		h.Name = rest // an IPv6 address has more colons
	}
	if h.Name == "" || strings.HasPrefix(h.Name, "-") || strings.ContainsAny(h.Name, " \t/@") {
		return h, fmt.Errorf("%q names no host", text)
	}
	if port != "" {
		if h.Port, err = strconv.Atoi(port); err != nil || h.Port < 1 || h.Port > 65535 {
			return h, fmt.Errorf("bad port in %q", text)
		}
	}
	return h, nil
}

// jumpHost is the last of the hosts in front of this one, as far as that is known; "" if
// there is none.
func (e *evaluation) jumpHost() string {
	d := e.values["proxy"]
	if d == nil || d.key != "proxyjump" {
		return ""
	}
	hops, err := parseJump(d.rest)
	if err != nil || len(hops) == 0 {
		return ""
	}
	return hops[len(hops)-1].Name
}

// noJump reports whether "ProxyJump none" has been read: it leaves room for a ProxyCommand.
func (e *evaluation) noJump() bool {
	d := e.values["proxy"]
	return d != nil && d.key == "proxyjump" && strings.EqualFold(d.args[0], "none")
}

// proxied reports whether something else than a connection of one's own leads to the host.
func (e *evaluation) proxied() bool {
	d := e.values["proxy"]
	return d != nil && !strings.EqualFold(d.args[0], "none")
}
