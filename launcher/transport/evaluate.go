package transport

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gorun/hostfile"
)

// evaluation finds the directives that apply to one host: the first of each kind, and
// all of those that add up.
type evaluation struct {
	c     *sshConfig
	h     hostfile.Host
	final string // second pass: the host to which the first one led
	done  bool   // all passes are over

	values       map[string]*directive
	identities   []*directive
	certificates []*directive
	unused       []string
	odd          []*directive // with keywords that gorun does not know
	specific     bool         // a value that says where to go stands in a block that is not for all hosts
	problem      *ConfigError // first directive that cannot be ignored
}

// block is where the walk stands: whether the directives apply, and to whom else.
type block struct {
	applies bool
	general bool // the block is for all hosts
}

// evaluate finds what applies to a host. As in ssh the files are gone through a second
// time, with the name that the first led to, if a block or CanonicalizeHostname asks for it.
func (c *sshConfig) evaluate(ctx context.Context, h hostfile.Host, values map[string]*directive) (*evaluation, *ConfigError) {
	e := &evaluation{c: c, h: h, values: values}
	if err := e.pass(ctx); err != nil {
		return e, err
	}
	host, again, err := e.canonicalize(ctx)
	if err != nil {
		return e, err
	}
	if again || c.twice {
		e.final = host
		if err := e.pass(ctx); err != nil {
			return e, err
		}
	}
	e.final, e.done = host, true
	return e, nil
}

func (e *evaluation) pass(ctx context.Context) *ConfigError {
	for _, file := range e.c.files {
		if err := e.walk(ctx, file, block{true, true}); err != nil {
			return err
		}
	}
	return nil
}

// walk takes the directives of one file. A block in an included file applies only
// where the Include does. As with ssh a keyword must be known wherever it stands.
func (e *evaluation) walk(ctx context.Context, ds []directive, outer block) (err *ConfigError) {
	b := outer
	for i := range ds {
		d := &ds[i]
		switch {
		case d.key == "host" || d.key == "match":
			if b, err = e.enter(ctx, d, outer); err != nil {
				return err
			}
		case d.odd:
			if err := e.doubt(d); err != nil {
				return err
			}
		case d.key == "include" && (b.applies || e.c.odd):
			for _, file := range d.included {
				if err := e.walk(ctx, file, b); err != nil {
					return err
				}
			}
		case b.applies && d.key != "include":
			e.take(d, b)
		}
	}
	return nil
}

// doubt is told of a keyword that gorun does not know. ssh refuses a file with one, unless
// an IgnoreUnknown that stands before it says otherwise. gorun does if it is a known one
// misspelt; else it may be that of a newer ssh, or of another's.
func (e *evaluation) doubt(d *directive) *ConfigError {
	if i := e.values["ignoreunknown"]; i != nil && matchList(strings.ToLower(i.args[0]), d.key) {
		return nil
	}
	if like := misspelt(d.key); like != "" {
		return d.errorf("unknown keyword %q; did you mean %s?", d.key, like)
	}
	if !slices.Contains(e.odd, d) {
		e.odd = append(e.odd, d)
	}
	return nil
}

func (e *evaluation) enter(ctx context.Context, d *directive, outer block) (block, *ConfigError) {
	if !outer.applies {
		return outer, nil
	}
	if d.key == "host" {
		general := strings.Trim(strings.Join(d.args, ""), "*") == ""
		return block{matchPatterns(d.args, cmp.Or(e.final, e.h.Name)), general && outer.general}, nil
	}
	applies, general, err := e.match(ctx, d)
	return block{applies, general && outer.general}, err
}

// take notes a directive of a block that applies.
func (e *evaluation) take(d *directive, b block) {
	k := keywords[d.key]
	slot := d.key
	if slot == "proxycommand" || slot == "proxyjump" {
		slot = "proxy" // the first of the two wins
	}
	taken := e.values[slot] != nil && !(d.key == "proxycommand" && e.noJump())
	if k.usage == 0 || k.usage == idle || taken || e.final != "" && slot == "hostname" {
		return
	}
	if len(d.args) == 0 || d.args[0] == "" {
		e.object(d.errorf("%s has no value", k.name))
		return
	}
	switch arg := strings.ToLower(d.args[0]); {
	case slot == "identityfile":
		e.identities = addFile(e.identities, d)
		return
	case slot == "certificatefile":
		e.certificates = addFile(e.certificates, d)
		return
	case k.usage == barring && arg != "none" && arg != "no":
		e.object(d.errorf("%s is not supported", k.name))
	case k.usage == lacking && arg != "none" && arg != "no":
		e.unused = append(e.unused, fmt.Sprintf("%s (%s:%d)", k.name, d.file, d.line))
	}
	e.values[slot] = d
	switch slot {
	case "hostname", "user", "port", "proxy":
		e.specific = e.specific || !b.general
	}
}

// addFile adds a file once: the second pass sees every line again.
func addFile(have []*directive, d *directive) []*directive {
	if slices.ContainsFunc(have, func(h *directive) bool { return h == d || h.args[0] == d.args[0] }) {
		return have
	}
	return append(have, d)
}

func (e *evaluation) object(err *ConfigError) {
	if e.problem == nil {
		e.problem = err
	}
}

func (e *evaluation) value(key string) string {
	if d := e.values[key]; d != nil {
		return d.args[0]
	}
	return ""
}

// user is whom to log in as, as far as that is known.
func (e *evaluation) user() string { return cmp.Or(e.h.User, e.value("user"), e.c.user) }

func (e *evaluation) port() string {
	if e.h.Port != 0 {
		return strconv.Itoa(e.h.Port)
	}
	return cmp.Or(e.value("port"), "22")
}

// hostname is the host to connect to, as far as that is known.
func (e *evaluation) hostname() string {
	if e.final != "" {
		return e.final
	}
	if name := e.value("hostname"); name != "" {
		if name, err := percent(name, map[byte]string{'h': e.h.Name}); err == nil {
			return name
		}
	}
	return e.h.Name
}

// match evaluates a Match line: all of its criteria must be met.
func (e *evaluation) match(ctx context.Context, d *directive) (met, general bool, err *ConfigError) {
	met, general = true, true
	if len(d.args) == 0 {
		return false, false, d.errorf("Match has no criteria")
	}
	for i := 0; i < len(d.args); i++ {
		c, ok := readCriterion(d.args[i:])
		if !ok {
			return false, false, d.errorf("Match %s has no value", d.args[i])
		}
		i += c.words - 1
		general = general && c.name != "host" && c.name != "originalhost"
		if !met && c.name == "exec" {
			continue // as with ssh, nothing is run in vain
		}
		one, why := e.meets(ctx, c)
		if why != nil {
			return false, false, d.errorf("Match %s: %v", c.name, why)
		}
		met = met && one != c.negated
	}
	return met, general, nil
}

// criterion is one of a Match line.
type criterion struct {
	name    string // lower case
	value   string
	negated bool
	words   int // that it takes
}

// readCriterion reads the first of some words of a Match line. The value follows as a
// word of its own or behind "=".
func readCriterion(words []string) (c criterion, ok bool) {
	c.words = 1
	name, value, joined := strings.Cut(words[0], "=")
	name, c.negated = strings.CutPrefix(name, "!")
	c.name, c.value = strings.ToLower(name), value
	switch c.name {
	case "all", "canonical", "final":
		return c, true
	}
	if !joined {
		if len(words) == 1 {
			return c, false
		}
		c.value, c.words = words[1], 2
	}
	return c, c.value != "" || c.name == "tagged" || c.name == "command"
}

// asksTwice reports whether a Match line asks for a second pass.
func asksTwice(d *directive) bool {
	for i := 0; i < len(d.args); {
		c, ok := readCriterion(d.args[i:])
		if ok && c.name == "final" && !c.negated {
			return true
		}
		i += c.words
	}
	return false
}

// What gorun is to `Match command` and `Match sessiontype`.
const (
	remoteCommand = "gorun agent"
	sessionType   = "exec"
)

func (e *evaluation) meets(ctx context.Context, c criterion) (bool, error) {
	switch c.name {
	case "all":
		return true, nil
	case "canonical", "final": // either is every second pass
		return e.final != "", nil
	case "host":
		return matchHost(c.value, e.hostname()), nil
	case "originalhost":
		return matchHost(c.value, e.h.Name), nil
	case "user":
		return matchList(c.value, e.user()), nil
	case "localuser":
		return matchList(c.value, e.c.user), nil
	case "tagged":
		tag := e.value("tag")
		return tag == c.value || tag != "" && matchList(c.value, tag), nil
	case "command":
		return matchList(c.value, remoteCommand), nil
	case "sessiontype":
		return matchList(c.value, sessionType), nil
	case "localnetwork":
		return e.inNetwork(c.value)
	case "version":
		version, err := e.c.world.version(ctx)
		return err == nil && matchList(c.value, version), err
	case "exec":
		return e.execs(ctx, c.value)
	}
	return false, fmt.Errorf("gorun does not know this criterion")
}

// execs runs the command of a Match exec.
func (e *evaluation) execs(ctx context.Context, value string) (bool, error) {
	command, err := e.command(value)
	if err != nil {
		return false, err
	}
	ok, err := e.c.world.exec(ctx, command)
	if err != nil {
		return false, fmt.Errorf("%q: %w", cleanLine(command, 200), err)
	}
	return ok, nil
}

// inNetwork reports whether this machine has an address in one of some networks.
func (e *evaluation) inNetwork(list string) (bool, error) {
	var nets []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil || p != p.Masked() {
			return false, fmt.Errorf("%q is not a network", text)
		}
		nets = append(nets, p)
	}
	return slices.ContainsFunc(e.c.world.networks(), func(a netip.Addr) bool {
		return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) })
	}), nil
}

// matchList is for a list of patterns with commas between.
func matchList(list, s string) bool { return matchPatterns(strings.Split(list, ","), s) }

// matchHost is for names of hosts in a Match line: unlike in a Host line, case does not matter.
func matchHost(list, name string) bool {
	return matchList(strings.ToLower(list), strings.ToLower(name))
}
