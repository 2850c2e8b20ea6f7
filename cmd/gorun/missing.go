package main

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
	"gorun/launcher"
)

// This file says what may be meant by the name of a program that is not there.

// slip is the hint about the first program that hosts lack and that looks like something
// else, or "".
func (o *options) slip(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		missing := func(f launcher.PrepareFailure) bool {
			return f.Code == 127 && strings.Contains(f.Text, strconv.Quote(p.program[0]))
		}
		if hint := p.meant(); hint != "" && slices.ContainsFunc(e.Failures, missing) {
			return hint
		}
	}
	return ""
}

// meant is what o's program may be instead of one, or "".
func (o *options) meant() string {
	name, rest := o.program[0], o.program[1:]
	if name == "python" {
		return "many systems have no python but python3: write " + typed(append([]string{"python3"}, rest...)...)
	}
	if _, err := exec.LookPath(name); err == nil || o.here(name) {
		return ""
	}
	if list := o.split(); list != "" {
		return "hosts have commas between, and no spaces: -H " + shellQuote(list)
	}
	if hint := ownWords(name, len(rest)); hint != "" {
		return hint
	}
	return shellWords(name, rest)
}

// split is -H's list with the words behind it that look like more of its hosts, as the
// shell makes them of node{1,2}; "" if there are none.
func (o *options) split() string {
	names := strings.Split(o.hosts, ",")
	n := 0
	for n < len(o.program)-1 && numbered(o.program[n], names[len(names)-1]) {
		n++
	}
	if n == 0 {
		return ""
	}
	return strings.Join(append([]string{o.hosts}, o.program[:n]...), ",")
}

// numbered reports whether a and b differ in their numbers only.
func numbered(a, b string) bool {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return a != b && plain(a) == plain(b) && plain(a) != a && plain(b) != b && plain(a) != ""
}

// ownWords is the hint about a word that some programs take for a flag.
func ownWords(name string, args int) string {
	switch {
	case name == "help":
		return "gorun --help lists the flags"
	case name == "version" && args == 0:
		return "write gorun --version"
	case name == "completion" && args < 2:
		return "write gorun --completion bash, zsh or fish"
	}
	return ""
}

// shellWords is the hint about a program that only a shell can make something of.
func shellWords(name string, rest []string) string {
	line := envsync.Conceal(strings.TrimSpace(name + " " + typed(rest...)))
	switch words := strings.Fields(name); {
	case strings.HasPrefix(name, "~"):
		return "a shell makes a home directory of ~, but not within quotes: leave them out"
	case strings.ContainsAny(name, "|&;<>()$`*?[]{}'\"\\\n"):
		return "no shell reads the line on the hosts; to have one do so: " + typed("sh", "-c", line)
	case len(words) > 1:
		return "quotes make one word of it: write " + typed(slices.Concat(words, rest)...)
	case name == "cd":
		return "cd is a command of the shell itself; -wdir DIR is the directory of the ranks"
	case slices.Contains([]string{"source", ".", "export", "alias", "ulimit", "umask", "set", "unset", "eval", "exec", "type"}, name):
		return name + " is a command of the shell itself: " + typed("bash", "-c", line+" && PROGRAM")
	case name == "module":
		return "module is a function of the login shell: " + typed("bash", "-lc", line+" && PROGRAM")
	}
	return ""
}
