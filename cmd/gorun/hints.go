package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gorun/launcher"
	"gorun/launcher/transport"
)

// hostHints says what may help with hosts that could not be used. A hint for several
// hosts is given once, with the first as its example.
func hostHints(failures []launcher.HostFailure) []string {
	var hints []string
	seen := map[string]bool{}
	for _, f := range failures {
		kind, hint := hostHint(f, failures)
		if hint != "" && !seen[kind] {
			seen[kind] = true
			hints = append(hints, hint)
		}
		if e, ok := errors.AsType[*transport.HostError](f.Err); ok {
			for _, u := range e.Unused {
				if !seen[u] {
					seen[u] = true
					hints = append(hints, fmt.Sprintf("not used by gorun, though it applies to %s: %s", f.Host, u))
				}
			}
			for _, d := range e.Doubts {
				if !seen[d] {
					seen[d] = true
					hints = append(hints, d)
				}
			}
		}
	}
	return hints
}

// hostHint returns a hint for f, one of all failures, and its kind, by which equal ones are
// known.
func hostHint(f launcher.HostFailure, all []launcher.HostFailure) (kind, hint string) {
	if e, ok := errors.AsType[*transport.HostKeyError](f.Err); ok {
		return fmt.Sprint("key", e.Problem, e.File != "", e.Command != ""), hostKeyHint(e, all)
	}
	if e, ok := errors.AsType[*transport.AuthError](f.Err); ok {
		hint := authHint(f, e)
		if cmd, _, ok := strings.Cut(hint, ", as in: "); ok { // it names one host of all
			return cmd, hint
		}
		return hint, hint
	}
	if e, ok := errors.AsType[*net.DNSError](f.Err); ok {
		return "name", "is the name right? getent hosts " + shellQuote(e.Name)
	}
	if errors.Is(f.Err, syscall.ECONNREFUSED) {
		return "refused", "does sshd run there, on that port? another port is --ssh-port N, or port=N in the hostfile"
	}
	if e, ok := errors.AsType[*transport.DroppedError](f.Err); ok {
		if e.NotSSH() {
			return "not-ssh", "does sshd listen on that port? another port goes into the hostfile as port=N"
		}
		return "dropped", "--fanout N makes fewer connections at once; --connect-timeout TIME tries for longer"
	}
	if _, ok := errors.AsType[*transport.TimeoutError](f.Err); ok {
		return "timeout", "--connect-timeout TIME waits for longer, -v shows how far each host came"
	}
	if e, ok := errors.AsType[*transport.HostError](f.Err); ok && len(e.Rsh) > 0 {
		return "rsh", rshHint(e)
	}
	if e, ok := errors.AsType[*transport.ShellError](f.Err); ok && !e.Local {
		return "shell", fmt.Sprintf("what does this print? ssh %s%s exec /bin/sh -c pwd", configFlag(f.Err), shellQuote(f.Host))
	}
	return "", ""
}

// rshHint says how to have --rsh pass on input and output as it must, or how to try
// whether it does.
func rshHint(e *transport.HostError) string {
	if errors.Is(e, transport.ErrTerminal) {
		return "drop -t/-tt from --rsh, or RequestTTY from ssh_config: gorun's protocol needs a clean pipe"
	}
	shell := is(errors.AsType[*transport.ShellError](e.Err))
	if !shell && !is(errors.AsType[*transport.TimeoutError](e.Err)) {
		return ""
	}
	var words []string
	for _, w := range e.Rsh {
		words = append(words, shellQuote(w))
	}
	return "does this print ok? echo ok | " + strings.Join(words, " ")
}

// hostKeyHint is the hint for all the hosts whose keys have the same problem as e.
func hostKeyHint(e *transport.HostKeyError, all []launcher.HostFailure) string {
	switch {
	case e.Problem == transport.HostKeyUnknown && e.File != "":
		return "new hosts are trusted once this file can be read: " + shellQuote(e.File)
	case e.Problem == transport.HostKeyUnknown && e.Command != "":
		return forKeys(all, e.Problem, "if that is the right key: ", "if those are the right keys: ") + "; or trust new hosts with --accept-new-host-keys"
	case e.Problem == transport.HostKeyUnknown:
		return "to trust hosts that are new: --accept-new-host-keys"
	case e.Problem == transport.HostKeyChanged:
		return forKeys(all, e.Problem, "if the host was reinstalled: ", "if they were reinstalled: ")
	}
	return ""
}

// maxCommands is how many commands of one kind a hint names.
const maxCommands = 4

// forKeys lists the commands that make good a problem with hosts' keys, behind the words
// for one host, or for several.
func forKeys(failures []launcher.HostFailure, problem transport.HostKeyProblem, one, several string) string {
	var commands []string
	for _, f := range failures {
		e, ok := errors.AsType[*transport.HostKeyError](f.Err)
		if !ok || e.Problem != problem {
			continue
		}
		command := e.Command
		if problem == transport.HostKeyChanged {
			command = "ssh-keygen -R " + shellQuote(e.Name) + " -f " + shellQuote(e.File)
		}
		if command != "" && !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	if len(commands) == 1 {
		return one + commands[0]
	}
	more := ""
	if n := len(commands) - maxCommands; n > 0 {
		more = fmt.Sprintf("; and so for %d more", n)
	}
	return several + strings.Join(commands[:min(len(commands), maxCommands)], "; ") + more
}

// authHint says how to have the right key offered.
func authHint(f launcher.HostFailure, e *transport.AuthError) string {
	keys := e.Methods == nil || slices.Contains(e.Methods, "publickey")
	file := "~/.ssh/config"
	if configFlag(f.Err) != "" {
		file = "the file of --ssh-config"
	}
	switch {
	case !e.Partial && otherLogin(f.Err, e) != "":
		return fmt.Sprintf("gorun itself logs in with keys only; ssh may know better, by %s: --rsh %s", otherLogin(f.Err, e), shellQuote("ssh "+configFlag(f.Err)+"-o BatchMode=yes {host}"))
	case e.Partial:
		return "gorun logs in with keys only; a second factor must be lifted for these hosts"
	case !keys:
		return "gorun logs in with keys only, which that server does not take"
	case e.NoKeys != "":
		return "gorun logs in with keys only; PubkeyAuthentication yes in a Host block for the host, above that line, allows them"
	case strings.Contains(e.Text, "Too many authentication failures"):
		return "in " + file + ", IdentityFile with IdentitiesOnly yes offers only the right key"
	case e.Unsigned():
		return "ssh-add asks for a key's passphrase once and keeps it in ssh-agent"
	case len(e.Offered) == 0 && exposed(e.Skipped) != "":
		return "chmod 600 " + shellQuote(exposed(e.Skipped)) + " makes that key one's own again"
	case len(e.Offered) == 0:
		return "ssh-add adds a key to ssh-agent; IdentityFile in " + file + " names another file"
	}
	return fmt.Sprintf("ssh-copy-id puts a key there, as in: ssh-copy-id %s%s%s", configFlag(f.Err), portFlag(f.Err), shellQuote(e.User+"@"+f.Host))
}

// otherLogin names a way to log in that gorun has not got and that the server offers or
// ssh_config asks for; "" if there is none.
func otherLogin(err error, e *transport.AuthError) string {
	for _, m := range e.Methods {
		if m == "hostbased" || strings.HasPrefix(m, "gssapi") {
			return m
		}
	}
	if h, ok := errors.AsType[*transport.HostError](err); ok {
		for _, u := range h.Unused {
			switch name, _, _ := strings.Cut(u, " "); name {
			case "HostbasedAuthentication", "PKCS11Provider":
				return name
			}
		}
	}
	return ""
}

// exposed returns the file of the first key that was not offered because others may read it.
func exposed(skipped []transport.Key) string {
	for _, k := range skipped {
		if strings.HasPrefix(k.Why, "others may read it") {
			return k.Source
		}
	}
	return ""
}

// configFlag returns "-F FILE " if the host was dialled by another configuration than the
// user's own ssh reads.
func configFlag(err error) string {
	if e, ok := errors.AsType[*transport.HostError](err); ok && e.Config != "" {
		return "-F " + shellQuote(e.Config) + " "
	}
	return ""
}

// portFlag returns "-p N " if the host was dialled at another port than ssh's.
func portFlag(err error) string {
	e, ok := errors.AsType[*transport.HostError](err)
	if !ok {
		return ""
	}
	_, port, err := net.SplitHostPort(e.Addr[strings.LastIndex(e.Addr, "@")+1:])
	if err != nil || port == "22" {
		return ""
	}
	return "-p " + port + " "
}

// waitHint says what else may help with hosts that could not be reached, of which some may
// be coming up; "" if that is no reason.
func (o *options) waitHint(failures []launcher.HostFailure) string {
	passing := func(f launcher.HostFailure) bool { return transport.Passing(f.Err) }
	if o.retryHosts > 0 || !slices.ContainsFunc(failures, passing) {
		return ""
	}
	return "hosts that are coming up: --retry-hosts TIME; hosts to do without: --exclude LIST, or --drop-bad for whichever do not answer"
}

// dirHint says what helps where hosts lack the current directory: what the programs need
// of it can be sent.
func (o *options) dirHint() string {
	for _, p := range o.programs() {
		for i, w := range p.program {
			info, err := os.Stat(w)
			switch {
			case err != nil || !info.Mode().IsRegular():
			case i == 0 && strings.Contains(w, "/"):
				return fmt.Sprintf("--bcast brings %s to hosts that lack this directory; -wdir DIR names another, which each of them must have", typed(w))
			case i > 0 && filepath.IsLocal(w):
				return fmt.Sprintf("--preload %s brings it to hosts that lack this directory; -wdir DIR names another, which each of them must have", typed(w))
			}
		}
	}
	return "the working directory must exist on every host; -wdir DIR names another than this one, as in -wdir /"
}
