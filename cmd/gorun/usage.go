package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gorun/envsync"
)

// seeHelp is the hint when there is none better.
const seeHelp = "gorun --help lists the flags, with examples"

// usageError is a mistake on the command line, found before anything is done.
type usageError struct {
	msg   string
	hints []string
}

func (e *usageError) Error() string { return e.msg }

// badValue says which flag the error of its value belongs to. first is the first use
// of the same flag, which may be spelled in another way.
func badValue(u, first use, err error) error {
	if e, ok := errors.AsType[*usageError](err); ok {
		return &usageError{u.typed + ": " + e.msg, e.hints}
	}
	if errors.Is(err, errContradiction) {
		e := &usageError{first.text() + " and " + u.text() + " contradict each other", nil}
		switch {
		case u.name == "host" || u.name == "exclude":
			e.hints = []string{"write one list: " + u.typed + " " + shellQuote(first.value+","+u.value)}
		case first.typed == "-c" || u.typed == "-c": // srun's is something else
			e.hints = []string{"-c is the number of ranks, as -np; --cpus-per-rank N binds each to N cores"}
		}
		return e
	}
	return &usageError{fmt.Sprintf("%s: %v", u.typed, err), nil}
}

// check settles o, and finds what is wrong with it before anything is done: slips of the pen first,
// as they explain what is wrong otherwise.
func (o *options) check() error {
	for _, check := range []func() error{o.settle, o.checkSettings} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, p := range o.programs() {
		for _, check := range []func() error{p.checkSettings, p.checkHosts, p.checkProgram} {
			if err := check(); err != nil {
				return p.at(err)
			}
		}
	}
	return o.checkTogether()
}

// checkSettings looks for a program where a variable's name belongs, and for what is
// no name at all.
func (o *options) checkSettings() error {
	for _, s := range o.settings {
		if name, _, _ := strings.Cut(s.Text, "="); strings.Contains(name, "/") {
			return &usageError{fmt.Sprintf("%s %q: that is not the name of a variable", s.Flag, envsync.Conceal(name)),
				[]string{"write -x NAME to send a variable as it is here, -x NAME=VALUE to set it; the program comes after the flags"}}
		}
	}
	_, _, err := envsync.Policy{Set: o.settings}.Build()
	if e, ok := errors.AsType[*envsync.SettingError](err); ok {
		return &usageError{e.Error(), hintList(e.Hint)}
	}
	return err
}

// checkHosts looks for a list that was cut by a space.
func (o *options) checkHosts() error {
	if o.hosts == "" || len(o.program) == 0 || o.marked {
		return nil
	}
	list := strings.TrimRight(o.hosts, ",:")
	if list == o.hosts {
		return o.checkSlotsAsProgram()
	}
	end, next := o.hosts[len(list):], o.program[0]
	hint := "write -H " + shellQuote(list)
	if len(o.program) > 1 && !strings.Contains(next, "/") {
		hint = "write the list without spaces: -H " + shellQuote(envsync.Conceal(o.rejoined()))
	}
	return &usageError{fmt.Sprintf("-H %q ends in %q", o.hosts, end), []string{hint}}
}

// rejoined is the list of hosts with the words behind it that belong to it.
func (o *options) rejoined() string {
	list := o.hosts
	for _, word := range o.program[:len(o.program)-1] {
		if !strings.HasSuffix(list, ",") && !strings.HasSuffix(list, ":") && !strings.HasPrefix(word, ",") && !strings.HasPrefix(word, ":") {
			break
		}
		list += word
	}
	return list
}

// checkSlotsAsProgram looks for "host:4" where the program belongs.
func (o *options) checkSlotsAsProgram() error {
	name := o.program[0]
	host, slots, ok := strings.Cut(name, ":")
	if !ok || len(o.program) == 1 || strings.Contains(host, "/") || slots == "" || strings.Trim(slots, "0123456789") != "" {
		return nil
	}
	return &usageError{fmt.Sprintf("%q stands where the program belongs", name),
		[]string{"write the list without spaces: -H " + shellQuote(o.hosts+","+name), "if it is the program, put -- before it"}}
}

// checkProgram looks at what stands after the flags.
func (o *options) checkProgram() error {
	if len(o.program) == 0 && len(o.more) > 0 {
		return &usageError{`no program before ":"`, []string{"each program comes after its flags: gorun -np 1 ./a : -np 3 ./b"}}
	}
	if len(o.program) == 0 && (o.showEnv || o.preflight.only) {
		return nil
	}
	if len(o.program) == 0 {
		return &usageError{"no program given", []string{"the program comes after the flags: gorun -np 4 ./app", seeHelp}}
	}
	name := o.program[0]
	if name == "" {
		return &usageError{"the program's name is empty", []string{"is a variable of your script unset?"}}
	}
	if o.marked {
		return nil
	}
	variable, value, ok := strings.Cut(name, "=")
	variable = strings.TrimSpace(variable)
	if ok && isVariable(variable) {
		shown := envsync.Show(envsync.Var{Name: variable, Value: value})
		return &usageError{fmt.Sprintf("%q stands where the program belongs", shown),
			[]string{"to set a variable write -x " + shellQuote(shown), "if it is the program, put -- before it"}}
	}
	return otherLauncher(o.program, o.np > 0 || o.ppn > 0 || o.hosts != "" || o.hostfile != "")
}

// unchanged is why nothing stands before lines in files.
const unchanged = "the files of --output-dir are named by rank and hold its bytes unchanged"

// checkTogether finds flags that contradict each other.
func (o *options) checkTogether() error {
	np := o.ranks()
	for _, p := range o.programs() {
		if np == 0 && len(o.programs()) > 1 && p.np == 0 && p.hosts == "" && o.ppn == 0 {
			return p.at(&usageError{fmt.Sprintf("%q has no -np", envsync.Conceal(p.program[0])),
				[]string{"of several programs each needs the number of its ranks: -np 1 ./a : -np 3 ./b"}})
		}
	}
	if np > 0 && o.stdin >= np {
		if !o.laterThan("np", "stdin") {
			return &usageError{fmt.Sprintf("--stdin %d: with -np %d the last rank is %d", o.stdin, np, np-1), nil}
		}
		o.stdin = 0
	}
	if o.sshConfig != "" && o.sshConfig != "none" && !readable(o.sshConfig) {
		return &usageError{"--ssh-config " + shellQuote(o.sshConfig) + ": there is no such file that can be read", nil}
	}
	if err := o.preflight.check(o); err != nil {
		return err
	}
	return o.checkPairs()
}

// checkPairs finds two flags of the whole job that contradict each other.
func (o *options) checkPairs() error {
	switch {
	case o.tag && o.outputDir != "":
		return &usageError{"-l and --output-dir exclude each other", []string{unchanged}}
	case o.fold && o.outputDir != "":
		return &usageError{"--fold and --output-dir exclude each other", []string{unchanged}}
	case o.stamp && o.outputDir != "":
		return &usageError{"--timestamp-output and --output-dir exclude each other", []string{unchanged}}
	case o.oversubscribe && o.noOversubscribe:
		return &usageError{"--oversubscribe and --nooversubscribe contradict each other", nil}
	case o.envAll && o.envNone:
		return &usageError{"-genvall and -genvnone contradict each other", nil}
	case o.envStrict && o.envLax:
		return &usageError{"--env-strict and --env-lax contradict each other", nil}
	case o.quiet && o.verbose:
		return &usageError{"-q and -v contradict each other", nil}
	case o.rsh != "" && o.sshPort != 0:
		return &usageError{"--ssh-port is for gorun's own ssh, and --rsh is used instead", []string{fmt.Sprintf("an ssh client takes it as -p: --rsh 'ssh -p %d {host}'", o.sshPort)}}
	case o.rsh != "" && o.sshConfig != "":
		return &usageError{"--ssh-config is for gorun's own ssh, and --rsh is used instead", []string{"an ssh client takes it as -F: --rsh 'ssh -F FILE {host}'"}}
	case o.rsh != "" && o.retryHosts != 0:
		return &usageError{"--retry-hosts is for gorun's own ssh, and --rsh is used instead", nil}
	case o.dryRun && o.result != "":
		return &usageError{"--result and --dry-run exclude each other", []string{"a dry run has no result"}}
	case o.dryRun && o.events != "":
		return &usageError{"--events and --dry-run exclude each other", []string{"nothing happens in a dry run"}}
	case o.showEnv && (o.dryRun || o.result != "" || o.events != ""):
		return &usageError{"--show-env excludes --dry-run, --result and --events", []string{"it prints variables, and nothing happens"}}
	case o.result != "" && o.result == o.events:
		return &usageError{"--result and --events write the same file", nil}
	}
	return nil
}

// isVariable reports whether s can be the name of an environment variable.
func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// absolute makes path absolute, seen from dir.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// absolutePattern is absolute for the path of ranks' files: a % in dir is only that, and
// a slash at its end stays.
func absolutePattern(dir, pattern string) string {
	if pattern == "" || filepath.IsAbs(pattern) {
		return pattern
	}
	return strings.ReplaceAll(dir, "%", "%%") + "/" + pattern
}

// shellQuote writes s so that a POSIX shell reads it as one word.
func shellQuote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// hintList is the hint alone, or no hints.
func hintList(hint string) []string {
	if hint == "" {
		return nil
	}
	return []string{hint}
}

// readable reports whether a file can be opened for reading. It waits for no writer.
func readable(name string) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}
