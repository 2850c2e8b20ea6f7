package transport

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gorun/hostfile"
)

// settings is what ssh_config and the hostfile say about one host.
type settings struct {
	name             string // as the user gave it
	hostname         string // to connect to
	port             int
	user             string
	jumps            []hostfile.Host // ProxyJump: to be passed in this order
	command          string          // ProxyCommand: makes the connection; "": none
	alias            string          // HostKeyAlias
	identities       []string
	certificates     []string // CertificateFile
	agent            string   // socket of ssh-agent; "": none
	noKeys           string   // the directive that forbids keys: "PubkeyAuthentication no (file:3)"; "": none
	neverAsk         bool     // BatchMode: for no passphrase
	identitiesOnly   bool
	explicit         bool // identities come from IdentityFile, not from the default names
	algorithms       algorithms
	family           string // AddressFamily: v4, v6 or any
	bindAddress      string
	bindInterface    string
	trustLoopback    bool // NoHostAuthenticationForLocalhost
	userKnownHosts   []string
	globalKnownHosts []string
	acceptNew        bool
	hashKnownHosts   bool
	doubts           []string     // what gorun does not know, and ssh might: "file:3: unknown keyword ..."
	unused           []string     // directives that apply and that gorun does not use: "CertificateFile (file:3)"
	config           string       // the ssh_config file in the place of the usual ones, or "none"; "": those
	elsewhere        bool         // the hostfile, or a Host block that is not for all hosts, says where to connect or as whom
	problem          *ConfigError // a directive that forbids to connect: nil if none
}

// shown is the host to connect to, for messages: as the user gave it, if letters' case is
// all that is different.
func (s *settings) shown() string {
	if strings.EqualFold(s.hostname, s.name) {
		return s.name
	}
	return s.hostname
}

// target is host:port, for messages.
func (s *settings) target() string { return net.JoinHostPort(s.shown(), strconv.Itoa(s.port)) }

// address is what is dialled, for messages: user@host:port.
func (s *settings) address() string { return s.user + "@" + s.target() }

// lookup returns the settings for h. It may run programs that the files ask for. The
// error is a *ConfigError unless ctx ended; settings.problem need not matter, for a host
// that is this machine is not connected to.
func (c *sshConfig) lookup(ctx context.Context, h hostfile.Host, o lookupOptions) (*settings, error) {
	specific := h.User != "" || h.Port != 0
	h.Port = cmp.Or(h.Port, o.port)
	given := map[string]*directive{}
	if name := jumpName(o.jumps); name != "" {
		given["proxy"] = &directive{key: "proxyjump", args: []string{name}, rest: name, file: "ProxyJump"}
	}
	e, err := c.evaluate(ctx, h, given)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	s := &settings{name: h.Name, hostname: e.final, doubts: e.doubts(), unused: e.unused, problem: e.problem, config: c.named, elsewhere: e.specific || specific}
	if err := e.fill(s); err != nil {
		return nil, err
	}
	s.acceptNew = s.acceptNew || o.acceptNew
	return s, nil
}

// doubts are the lines for the user about keywords that gorun does not know.
func (e *evaluation) doubts() []string {
	var out []string
	for _, d := range e.odd {
		out = append(out, fmt.Sprintf("%s:%d: unknown keyword %q is skipped", d.file, d.line, cleanLine(d.key, 60)))
	}
	return out
}

// lookupOptions is what gorun's flags say about all hosts.
type lookupOptions struct {
	port      int // of hosts that have none of their own; 0: ssh_config's
	acceptNew bool
	jumps     []hostfile.Host // instead of what ssh_config says, for a host in a chain; none: ssh_config's
}

func (e *evaluation) fill(s *settings) *ConfigError {
	steps := []func(*settings) *ConfigError{e.fillPlace, e.fillRoute, e.fillAlgorithms, e.fillIdentities, e.fillHostKeys}
	for _, step := range steps {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluation) fillPlace(s *settings) *ConfigError {
	n, err := strconv.Atoi(e.port())
	if err != nil || n < 1 || n > 65535 {
		return e.values["port"].errorf("bad Port %q", e.port())
	}
	s.port, s.user = n, e.user()
	s.alias = strings.ToLower(e.value("hostkeyalias"))
	return nil
}

// fillRoute says how to get there.
func (e *evaluation) fillRoute(s *settings) (wrong *ConfigError) {
	if d := e.values["addressfamily"]; d != nil && !slices.Contains([]string{"any", "inet", "inet6"}, strings.ToLower(d.args[0])) {
		return d.errorf("bad AddressFamily %q: want any, inet or inet6", d.args[0])
	}
	s.family = addrFamily(e.value("addressfamily"))
	s.bindAddress, s.bindInterface = e.value("bindaddress"), e.value("bindinterface")
	var err error
	d := e.values["proxy"]
	switch {
	case d == nil || strings.EqualFold(d.rest, "none"):
	case d.key == "proxyjump":
		s.jumps, err = parseJump(d.rest)
	case d.rest == "-":
		return d.errorf("ProxyCommand -: gorun's own input and output are not a connection")
	default:
		s.command, err = e.command(d.rest)
	}
	if err != nil {
		return d.errorf("%s: %v", keywords[d.key].name, err)
	}
	return nil
}

func (e *evaluation) fillIdentities(s *settings) *ConfigError {
	d := e.values["identitiesonly"]
	only, err := yesNo(d)
	if err != nil {
		return err
	}
	s.identitiesOnly = only
	for _, d := range e.identities {
		if strings.EqualFold(d.args[0], "none") {
			s.explicit = true
			continue
		}
		name, err := e.path(d.args[0])
		if err != nil {
			return d.errorf("IdentityFile: %v", err)
		}
		s.identities, s.explicit = append(s.identities, name), true
	}
	if !s.explicit {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"} {
			s.identities = append(s.identities, filepath.Join(e.c.home, ".ssh", name))
		}
	}
	for _, d := range e.certificates {
		name, err := e.path(d.args[0])
		if err != nil {
			return d.errorf("CertificateFile: %v", err)
		}
		s.certificates = append(s.certificates, name)
	}
	return e.fillAgent(s)
}

// fillAgent finds the socket of ssh-agent. "$NAME" is the older way to write a variable.
func (e *evaluation) fillAgent(s *settings) (wrong *ConfigError) {
	if s.neverAsk, wrong = yesNo(e.values["batchmode"]); wrong != nil {
		return wrong
	}
	if d := e.values["pubkeyauthentication"]; d != nil && slices.Contains([]string{"no", "false"}, strings.ToLower(d.args[0])) {
		s.noKeys = fmt.Sprintf("%s %s (%s:%d)", keywords[d.key].name, d.args[0], d.file, d.line)
	}
	d := e.values["identityagent"]
	if d == nil || d.args[0] == "SSH_AUTH_SOCK" {
		s.agent = e.c.agent
		return nil
	}
	value := d.args[0]
	if strings.EqualFold(value, "none") {
		return nil
	}
	if name, ok := strings.CutPrefix(value, "$"); ok && !strings.HasPrefix(name, "{") {
		value = "${" + name + "}"
	}
	path, err := e.path(value)
	if err != nil {
		return d.errorf("IdentityAgent: %v", err)
	}
	s.agent = path
	return nil
}

func (e *evaluation) fillHostKeys(s *settings) (err *ConfigError) {
	if s.hashKnownHosts, err = yesNo(e.values["hashknownhosts"]); err != nil {
		return err
	}
	if s.trustLoopback, err = yesNo(e.values["nohostauthenticationforlocalhost"]); err != nil {
		return err
	}
	if d := e.values["stricthostkeychecking"]; d != nil {
		switch strings.ToLower(d.args[0]) {
		case "yes", "true", "ask":
		case "no", "false", "off", "accept-new":
			s.acceptNew = true
		default:
			return d.errorf("bad StrictHostKeyChecking %q", d.args[0])
		}
	}
	home := func(name string) string { return filepath.Join(e.c.home, ".ssh", name) }
	s.userKnownHosts, err = e.paths("userknownhostsfile", home("known_hosts"), home("known_hosts2"))
	if err == nil {
		s.globalKnownHosts, err = e.paths("globalknownhostsfile", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
	}
	return err
}

func (e *evaluation) paths(key string, defaults ...string) ([]string, *ConfigError) {
	d := e.values[key]
	if d == nil {
		return defaults, nil
	}
	var names []string
	for _, arg := range d.args {
		if strings.EqualFold(arg, "none") {
			continue
		}
		name, err := e.path(arg)
		if err != nil {
			return nil, d.errorf("%s: %v", keywords[key].name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

func yesNo(d *directive) (bool, *ConfigError) {
	if d == nil {
		return false, nil
	}
	switch strings.ToLower(d.args[0]) {
	case "yes", "true":
		return true, nil
	case "no", "false":
		return false, nil
	}
	return false, d.errorf("bad %s %q: want yes or no", keywords[d.key].name, d.args[0])
}
