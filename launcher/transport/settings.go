package transport

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
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
	alias            string // HostKeyAlias
	identities       []string
	identitiesOnly   bool
	explicit         bool // identities come from IdentityFile, not from the default names
	userKnownHosts   []string
	globalKnownHosts []string
	acceptNew        bool
	hashKnownHosts   bool
	unused           []string     // directives that apply and that gorun does not use: "CertificateFile (file:3)"
	elsewhere        bool         // the hostfile, or a Host block that is not for all hosts, says where to connect or as whom
	problem          *ConfigError // a directive that forbids to connect: nil if none
}

// address is what is dialled, for messages: user@host:port.
func (s *settings) address() string {
	return s.user + "@" + net.JoinHostPort(s.hostname, strconv.Itoa(s.port))
}

// Directives that must not be ignored: following the connection without them would
// go elsewhere or trust a key that ssh would not. "none" and "no" switch them off.
var unsupported = map[string]string{
	"proxycommand":         "ProxyCommand",
	"proxyjump":            "ProxyJump",
	"canonicalizehostname": "CanonicalizeHostname",
	"revokedhostkeys":      "RevokedHostKeys",
}

// Directives that are not used, and are mentioned when the host cannot be reached.
// Values that ask for the default are not worth a word.
var unusedNames = map[string]string{
	"addressfamily": "AddressFamily", "bindaddress": "BindAddress", "bindinterface": "BindInterface",
	"certificatefile": "CertificateFile", "ciphers": "Ciphers", "hostkeyalgorithms": "HostKeyAlgorithms",
	"identityagent": "IdentityAgent", "kexalgorithms": "KexAlgorithms", "knownhostscommand": "KnownHostsCommand",
	"macs": "MACs", "pkcs11provider": "PKCS11Provider", "preferredauthentications": "PreferredAuthentications",
	"pubkeyacceptedalgorithms": "PubkeyAcceptedAlgorithms", "pubkeyauthentication": "PubkeyAuthentication",
	"securitykeyprovider": "SecurityKeyProvider",
}

var used = map[string]bool{
	"hostname": true, "user": true, "port": true, "identityfile": true, "identitiesonly": true,
	"userknownhostsfile": true, "globalknownhostsfile": true, "hostkeyalias": true,
	"stricthostkeychecking": true, "hashknownhosts": true,
}

// lookup returns the settings for h. The error is a *ConfigError; settings.problem
// need not matter, for a host that is this machine is not connected to.
func (c *sshConfig) lookup(h hostfile.Host, acceptNew bool) (*settings, error) {
	e := &evaluation{c: c, h: h, values: map[string]*directive{}}
	e.pass()
	if e.wantFinal {
		e.final = strings.ToLower(e.hostname())
		e.pass()
	}
	s := &settings{name: h.Name, unused: e.unused, problem: e.problem, elsewhere: e.specific || h.User != "" || h.Port != 0}
	if err := e.fill(s); err != nil {
		return nil, err
	}
	s.acceptNew = s.acceptNew || acceptNew
	return s, nil
}

func (e *evaluation) fill(s *settings) *ConfigError {
	steps := []func(*settings) *ConfigError{e.fillPlace, e.fillIdentities, e.fillHostKeys}
	for _, step := range steps {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluation) fillPlace(s *settings) *ConfigError {
	s.user, s.port = cmp.Or(e.h.User, e.value("user"), e.c.user), e.h.Port
	if d := e.values["port"]; d != nil && s.port == 0 {
		n, err := strconv.Atoi(d.args[0])
		if err != nil || n < 1 || n > 65535 {
			return d.errorf("bad Port %q", d.args[0])
		}
		s.port = n
	}
	s.port = cmp.Or(s.port, 22)
	s.hostname = e.h.Name
	if d := e.values["hostname"]; d != nil {
		name, err := percent(d.args[0], map[byte]string{'h': e.h.Name})
		if err != nil {
			return d.errorf("HostName: %v", err)
		}
		s.hostname = name
	}
	s.hostname = strings.ToLower(s.hostname)
	s.alias = strings.ToLower(e.value("hostkeyalias"))
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
		if d.args[0] == "none" {
			s.explicit = true
			continue
		}
		name, err := e.path(d.args[0], s)
		if err != nil {
			return d.errorf("IdentityFile: %v", err)
		}
		s.identities, s.explicit = append(s.identities, name), true
	}
	if !s.explicit {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			s.identities = append(s.identities, filepath.Join(e.c.home, ".ssh", name))
		}
	}
	return nil
}

func (e *evaluation) fillHostKeys(s *settings) (err *ConfigError) {
	if s.hashKnownHosts, err = yesNo(e.values["hashknownhosts"]); err != nil {
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
	s.userKnownHosts, err = e.paths("userknownhostsfile", s, home("known_hosts"), home("known_hosts2"))
	if err == nil {
		s.globalKnownHosts, err = e.paths("globalknownhostsfile", s, "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
	}
	return err
}

func (e *evaluation) paths(key string, s *settings, defaults ...string) ([]string, *ConfigError) {
	d := e.values[key]
	if d == nil {
		return defaults, nil
	}
	var names []string
	for _, arg := range d.args {
		if arg == "none" {
			continue
		}
		name, err := e.path(arg, s)
		if err != nil {
			return nil, d.errorf("%s: %v", key, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// path expands ~ and tokens in the name of a file.
func (e *evaluation) path(name string, s *settings) (string, error) {
	if strings.Contains(name, "${") {
		return "", fmt.Errorf("%q: environment variables are not supported yet", name)
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(strings.ReplaceAll(e.c.home, "%", "%%"), rest)
	} else if strings.HasPrefix(name, "~") {
		return "", fmt.Errorf("%q: other users' homes are not supported yet", name)
	}
	return percent(name, map[byte]string{
		'd': e.c.home, 'u': e.c.user, 'h': s.hostname, 'r': s.user, 'n': s.name,
		'p': strconv.Itoa(s.port), 'k': cmp.Or(s.alias, s.name),
	})
}

// percent expands %x tokens.
func percent(s string, tokens map[byte]string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", fmt.Errorf("%q ends in %%", s)
		}
		v, ok := tokens[s[i]]
		if s[i] == '%' {
			v, ok = "%", true
		}
		if !ok {
			return "", fmt.Errorf("%q: token %%%c is not supported", s, s[i])
		}
		b.WriteString(v)
	}
	return b.String(), nil
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
	return false, d.errorf("bad %s %q: want yes or no", d.key, d.args[0])
}
