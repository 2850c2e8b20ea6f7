package transport

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// Tokens, variables and ~ in ssh_config.

// expand expands ${VARIABLES} and %tokens, in one pass as ssh does: what a variable
// holds is not looked at again.
func (e *evaluation) expand(s string) (string, error) {
	if strings.Contains(s, "${") {
		// A value of a variable must not be taken for tokens.
		quoted := func(name string) (string, bool) {
			v, ok := e.c.world.getenv(name)
			return strings.ReplaceAll(v, "%", "%%"), ok
		}
		var err error
		if s, err = expandVars(s, quoted); err != nil {
			return "", err
		}
	}
	return e.percent(s)
}

// percent expands %tokens.
func (e *evaluation) percent(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	return percent(s, e.tokens())
}

// path expands the name of a file.
func (e *evaluation) path(name string) (string, error) {
	name, err := e.c.tilde(name)
	if err != nil {
		return "", err
	}
	return e.expand(name)
}

// tilde replaces ~ and ~user at the beginning. A % in a home's name is no token.
func (c *sshConfig) tilde(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, "~")
	if !ok {
		return name, nil
	}
	who, rest, _ := strings.Cut(rest, "/")
	home := c.home
	if who != "" {
		u, err := user.Lookup(who)
		if err != nil {
			return "", fmt.Errorf("%q: there is no user %q", name, who)
		}
		home = u.HomeDir
	}
	return filepath.Join(strings.ReplaceAll(home, "%", "%%"), rest), nil
}

// expandVars replaces ${NAME}; a name that is not set is an error.
func expandVars(s string, getenv func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return "", errors.New("${ without a name and }")
		}
		v, ok := getenv(name)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		b.WriteString(v)
		s = rest
	}
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

// hereTokens are the tokens that are about this machine and its user.
func (c *sshConfig) hereTokens() map[byte]string {
	short, _, _ := strings.Cut(c.world.hostname, ".")
	return map[byte]string{'d': c.home, 'u': c.user, 'i': strconv.Itoa(c.world.uid), 'l': c.world.hostname, 'L': short}
}

// tokens are all tokens, by what is known so far of the host.
func (e *evaluation) tokens() map[byte]string {
	t := e.c.hereTokens()
	t['n'], t['h'], t['p'], t['r'], t['j'] = e.h.Name, e.hostname(), e.port(), e.user(), e.jumpHost()
	t['k'] = cmp.Or(e.value("hostkeyalias"), t['h'])
	if e.done {
		t['k'] = cmp.Or(strings.ToLower(e.value("hostkeyalias")), t['n'])
	}
	sum := sha1.Sum([]byte(t['l'] + t['h'] + t['p'] + t['r'] + t['j']))
	t['C'] = hex.EncodeToString(sum[:])
	return t
}
