package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/envsync"
	"gorun/launcher"
)

// This file says what may be meant by a program that is not there, or cannot be run.

// slip is the hint about the first program that hosts lack and that looks like something
// else, or "".
func (o *options) slip(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		if hint := p.meant(); hint != "" && lacked(p.program[0], e) {
			return hint
		}
	}
	return ""
}

// lacked reports whether a host has no program of that name.
func lacked(name string, e *launcher.PrepareError) bool {
	return slices.ContainsFunc(e.Failures, func(f launcher.PrepareFailure) bool { return lackedBy(name, f) })
}

func lackedBy(name string, f launcher.PrepareFailure) bool {
	return f.Code == 127 && strings.Contains(f.Text, strconv.Quote(name))
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

// onlyHere is where a program is here that hosts do not have, or "".
func (o *options) onlyHere(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		name := p.program[0]
		path, err := exec.LookPath(name)
		missing := func(f launcher.PrepareFailure) bool {
			return f.Host != "localhost" && lackedBy(name, f)
		}
		if err == nil && !o.bcast && slices.ContainsFunc(e.Failures, missing) {
			return path
		}
	}
	return ""
}

// valueAsProgram is the hint about -x NAME VALUE, if VALUE is a program that is missing, or "".
func (o *options) valueAsProgram(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		name := p.program[0]
		if u := p.lastName; u.value != "" && !strings.ContainsAny(u.value, "=*?[") && lacked(name, e) {
			return fmt.Sprintf("if %s is the value of %s: %s %s", shellQuote(envsync.Conceal(name)), u.value, u.typed, shellQuote(envsync.Conceal(u.value+"="+name)))
		}
	}
	return ""
}

// script is the hint about a script that cannot be run by itself, or "".
func (o *options) script(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		name := p.program[0]
		for _, f := range e.Failures {
			if !strings.Contains(f.Text, strconv.Quote(name)) {
				continue
			}
			if hint := p.scriptHint(name, f); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// scriptHint says why a host may have failed to run the script of that name, which is o's
// program.
func (o *options) scriptHint(name string, f launcher.PrepareFailure) string {
	interpreter := map[string]string{".py": "python3", ".sh": "bash"}[filepath.Ext(name)]
	unrunnable := f.Code == 126 || f.Code == 127 && o.here(name) && unix.Access(filepath.Join(o.wdir, name), unix.X_OK) != nil
	switch {
	case strings.HasSuffix(f.Text, "(the line ends in CR LF)"): // another interpreter would stumble, too
		return "Windows ends lines so; to change that: " + typed("sed", "-i", `s/\r$//`, name)
	case strings.Contains(f.Text, "bad interpreter") && interpreter != "":
		return fmt.Sprintf("the first line of the script names a program that is not there; with #!/usr/bin/env %s it is %s of the PATH", interpreter, interpreter)
	case interpreter != "" && unrunnable:
		return fmt.Sprintf("write %s; by itself it runs only with #!/usr/bin/env %s as its first line, after chmod +x", typed(append([]string{interpreter}, o.program...)...), interpreter)
	}
	return ""
}

// programHints says what may help with a program that cannot be sent to the hosts.
func (o *options) programHints(e *launcher.FileError) []string {
	if !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, exec.ErrNotFound) {
		return nil
	}
	if o.here(e.Path) {
		return []string{"did you mean ./" + e.Path + "?"}
	}
	for _, p := range o.programs() {
		if hint := p.meant(); hint != "" && p.program[0] == e.Path {
			return []string{hint}
		}
	}
	return []string{"--bcast takes the program from this machine: from the PATH, or from the current directory if it has a slash"}
}

// nearby is the program that is missing and a file in its working directory, or "".
func (o *options) nearby(e *launcher.PrepareError) string {
	for _, p := range o.programs() {
		if name := p.program[0]; lacked(name, e) && p.here(name) {
			return name
		}
	}
	return ""
}
