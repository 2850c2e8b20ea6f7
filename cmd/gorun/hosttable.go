package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
)

// A hostTable is one [[host]] of a configuration: what is so on the hosts that it matches.
type hostTable struct {
	at    place
	array int // which of its file's [[tables]] it is
	match string
	names map[string]bool // that match stands for, in lower case
	globs []string        // of match, in lower case
	user  string          // "": not given
	port  int             // 0: not given
	env   []envsync.Var
}

// host adds what an entry says of hosts.
func (r *configReader) host(e entry) error {
	switch {
	case len(e.path) == 1 && e.value == nil && e.array > 0:
		r.hosts = append(r.hosts, hostTable{at: e.at, array: e.array})
		return nil
	case len(e.path) == 1 || e.array == 0:
		return e.at.errorf("host is a list of tables: [[host]], and match = \"gpu[01-08]\" in it")
	}
	t := &r.hosts[len(r.hosts)-1]
	switch word := e.path[1]; {
	case word == "env" && len(e.path) == 2 && e.value == nil:
		return nil
	case word == "env" && len(e.path) == 3:
		return t.variable(e)
	case len(e.path) > 2:
	case word == "match":
		return t.setMatch(e)
	case word == "user":
		return t.setUser(e)
	case word == "port":
		port, ok := e.value.(int64)
		if !ok || port < 1 || port > 65535 {
			return e.wrong("a number from 1 to 65535")
		}
		t.port = int(port)
		return nil
	}
	err := e.at.errorf("unknown key %q", e.key())
	err.hints = []string{"a [[host]] has match, user, port and env"}
	return err
}

// checkHosts finds tables of the last file that match nothing.
func (r *configReader) checkHosts() error {
	for _, t := range r.hosts {
		if t.match == "" {
			err := t.at.errorf("a [[host]] that matches no host")
			err.hints = []string{`write match = "gpu[01-08]" into it; "*" matches every host`}
			return err
		}
	}
	return nil
}

// setMatch reads names with bracket ranges, * and ?, and commas between.
func (t *hostTable) setMatch(e entry) error {
	text, ok := e.value.(string)
	if !ok || text == "" {
		return e.wrong(`names of hosts: "gpu[01-08],login*"`)
	}
	t.match, t.names = text, map[string]bool{}
	names, err := hostfile.Expand(text)
	if err != nil {
		return e.at.errorf("host.match: %v", err)
	}
	if strings.Contains(text, `\`) {
		return e.at.errorf("host.match: %q is no list of hosts' names", text)
	}
	for _, n := range names {
		switch n = strings.ToLower(strings.TrimSpace(n)); {
		case n == "":
			return e.at.errorf("host.match: %q: a name is missing", text)
		case strings.ContainsAny(n, "*?"):
			t.globs = append(t.globs, n)
		default:
			t.names[n] = true
		}
	}
	return nil
}

func (t *hostTable) setUser(e entry) error {
	user, ok := e.value.(string)
	if !ok {
		return e.wrong("the name of a user")
	}
	hosts, err := hostfile.ParseList(user + "@host")
	if err != nil || len(hosts) != 1 || hosts[0].User != user {
		return e.at.errorf("host.user: %q is not the name of a user", user)
	}
	t.user = user
	return nil
}

// variable adds a variable of the table, which must be one that may differ between hosts.
func (t *hostTable) variable(e entry) error {
	v, err := e.variable()
	switch {
	case err != nil:
		return err
	case envsync.RankName(v.Name):
		return e.at.errorf("variable %q: gorun sets it for each rank", v.Name)
	case !envsync.PerHost(v.Name):
		err := e.at.errorf("variable %q must be the same on every host", v.Name)
		err.hints = []string{"write it into [env]"}
		return err
	}
	t.env = append(t.env, v)
	return nil
}

func (t hostTable) matches(name string) bool {
	name = strings.ToLower(name)
	return t.names[name] || slices.ContainsFunc(t.globs, func(g string) bool { ok, _ := path.Match(g, name); return ok })
}

// complete gives hosts the users and ports of the configuration, where their list gives none.
func (conf *config) complete(hosts []hostfile.Host) {
	for i := range hosts {
		h := &hosts[i]
		for _, t := range slices.Backward(conf.hosts) {
			if t.matches(h.Name) {
				if h.User == "" {
					h.User = t.user
				}
				if h.Port == 0 {
					h.Port = t.port
				}
			}
		}
	}
}

// hostEnv is what the configuration sets on each host alone, by name; of a repeated
// variable the last counts.
func (conf *config) hostEnv(hosts []hostfile.Host) map[string][]envsync.Var {
	if len(hosts) == 0 { // this machine
		hosts = []hostfile.Host{{Name: "localhost"}}
	}
	env := map[string][]envsync.Var{}
	for _, h := range hosts {
		for _, t := range conf.hosts {
			if t.matches(h.Name) {
				env[h.Name] = append(env[h.Name], t.env...)
			}
		}
	}
	return env
}

// show writes the table as one line of TOML.
func (t hostTable) show() string {
	parts := []string{"match = " + tomlString(t.match)}
	if t.user != "" {
		parts = append(parts, "user = "+tomlString(t.user))
	}
	if t.port != 0 {
		parts = append(parts, fmt.Sprintf("port = %d", t.port))
	}
	for _, v := range t.env {
		if envsync.Hidden(v.Name) {
			v.Value = "<hidden>"
		}
		parts = append(parts, fmt.Sprintf("env.%s = %s", v.Name, tomlString(v.Value)))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
