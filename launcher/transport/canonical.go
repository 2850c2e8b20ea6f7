package transport

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// canonicalize returns the host that the first pass leads to, and whether the files must
// be gone through again for it.
func (e *evaluation) canonicalize(ctx context.Context) (host string, again bool, err *ConfigError) {
	host = e.h.Name
	if d := e.values["hostname"]; d != nil {
		name, err := percent(d.args[0], map[byte]string{'h': host})
		if err != nil {
			return "", false, d.errorf("HostName: %v", err)
		}
		host = name
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	host = strings.ToLower(host)
	rules, err := e.canonRules()
	if err != nil || !rules.on {
		return host, false, err
	}
	if looksLikeAddr(host) || e.proxied() && !rules.always {
		return host, true, nil
	}
	return e.canonicalName(ctx, host, rules)
}

// looksLikeAddr reports whether a name can only be an address.
func looksLikeAddr(name string) bool {
	return strings.ContainsAny(name, "%:") || strings.Trim(name, "0123456789.") == ""
}

// canonRules are CanonicalizeHostname and the directives around it.
type canonRules struct {
	on, always bool
	domains    []string
	maxDots    int
	fallback   bool
	cnames     [][2]string // patterns of names, and of the names they may stand for
}

func (e *evaluation) canonRules() (r canonRules, err *ConfigError) {
	d := e.values["canonicalizehostname"]
	if r.always = d != nil && strings.EqualFold(d.args[0], "always"); r.always {
		r.on = true
	} else if r.on, err = yesNo(d); err != nil || !r.on {
		return r, err
	}
	r.fallback, r.maxDots = true, 1
	if d := e.values["canonicalizefallbacklocal"]; d != nil {
		if r.fallback, err = yesNo(d); err != nil {
			return r, err
		}
	}
	if d := e.values["canonicalizemaxdots"]; d != nil {
		n, bad := strconv.Atoi(d.args[0])
		if bad != nil {
			return r, d.errorf("bad CanonicalizeMaxDots %q", d.args[0])
		}
		r.maxDots = n
	}
	if d := e.values["canonicaldomains"]; d != nil && !strings.EqualFold(d.args[0], "none") {
		for _, arg := range d.args {
			r.domains = append(r.domains, strings.TrimSuffix(strings.ToLower(arg), "."))
		}
	}
	if d := e.values["canonicalizepermittedcnames"]; d != nil && !strings.EqualFold(d.args[0], "none") {
		for _, arg := range d.args {
			from, to, ok := strings.Cut(strings.ToLower(arg), ":")
			if arg == "*" {
				from, to, ok = "*", "*", true
			}
			if !ok || to == "" {
				return r, d.errorf("bad CanonicalizePermittedCNAMEs %q: want NAMES:NAMES", arg)
			}
			r.cnames = append(r.cnames, [2]string{from, to})
		}
	}
	return r, nil
}

// canonicalName looks a name up in each of the domains.
func (e *evaluation) canonicalName(ctx context.Context, host string, r canonRules) (string, bool, *ConfigError) {
	d := e.values["canonicalizehostname"]
	family := e.value("addressfamily")
	candidates := []string{host}
	if !strings.HasSuffix(host, ".") {
		if strings.Count(host, ".") > r.maxDots {
			return e.followAlias(ctx, host, family, r)
		}
		candidates = nil
		for _, domain := range r.domains {
			candidates = append(candidates, host+"."+domain+".")
		}
	}
	for _, name := range candidates {
		cname, err := e.c.world.canon(ctx, name, addrFamily(family))
		if err != nil {
			return "", false, d.errorf("CanonicalizeHostname: looking up %q: %v", name, err)
		}
		if cname != "" {
			return r.follow(strings.TrimSuffix(name, "."), cname), true, nil
		}
	}
	if !r.fallback {
		return "", false, d.errorf("CanonicalizeHostname: there is no host %q in %s", host, orNothing(r.domains))
	}
	return e.followAlias(ctx, host, family, r)
}

// followAlias is for a name that is left as it is: it may still stand for another.
func (e *evaluation) followAlias(ctx context.Context, host, family string, r canonRules) (string, bool, *ConfigError) {
	if len(r.cnames) == 0 {
		return host, true, nil
	}
	cname, err := e.c.world.canon(ctx, host, addrFamily(family))
	if err != nil {
		return "", false, e.values["canonicalizehostname"].errorf("CanonicalizePermittedCNAMEs: looking up %q: %v", host, err)
	}
	return r.follow(host, cname), true, nil
}

// follow returns the name to use for a host that its name service calls cname.
func (r canonRules) follow(host, cname string) string {
	cname = strings.TrimSuffix(cname, ".")
	for _, rule := range r.cnames {
		if cname != "" && matchList(rule[0], host) && matchList(rule[1], cname) {
			return strings.ToLower(cname)
		}
	}
	return host
}

// addrFamily is the end of getent's database: v4, v6 or any.
func addrFamily(value string) string {
	switch strings.ToLower(value) {
	case "inet":
		return "v4"
	case "inet6":
		return "v6"
	}
	return "any"
}

func orNothing(domains []string) string {
	if len(domains) == 0 {
		return "CanonicalDomains, which names none"
	}
	return fmt.Sprintf("CanonicalDomains %s", strings.Join(domains, " "))
}
