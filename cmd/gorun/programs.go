package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
)

// This file is about jobs of several programs. Each is a part of the command line
// between bare ":" words, or a line of the file of --app. All parts are read by the
// same parser; what is no program's own may stand in the first only, or in all alike.

// readPrograms reads the programs behind the first, which line has been read up to, or
// those of --app's file. Its errors are *usageError.
func (o *options) readPrograms(line commandLine) error {
	if o.appFile != "" {
		return o.readAppFile(line)
	}
	for next := line.next; next != nil; {
		more, err := o.readPart(next, line.uses, "")
		if err != nil {
			return err
		}
		next = more.next
	}
	return nil
}

// readPart adds the first program of args to o; before are the flags of the whole job, and
// where the part's place in --app's file.
func (o *options) readPart(args []string, before []use, where string) (commandLine, error) {
	part := defaultOptions()
	part.where = where
	if o.appFile == "" { // else what is configured stands before --app
		part.config.layers = o.config.ofEach(o.said["hostfile"])
	}
	line, err := part.read(args)
	if err != nil {
		return line, err
	}
	for _, u := range line.uses {
		if err := o.checkUse(u, before); err != nil {
			return line, err
		}
	}
	if len(line.program) == 0 && where == "" {
		return line, &usageError{`no program after ":"`, []string{`a ":" stands between two programs; if it is an argument, put -- before its program`}}
	}
	o.more = append(o.more, part)
	return line, nil
}

// checkUse refuses a flag of a further program that is not for each of them, unless it
// repeats what the job has been given before.
func (o *options) checkUse(u use, before []use) error {
	said := false
	for _, b := range before {
		if b.name == u.name && u.name != "app" {
			said = true
			if alike(b, u) {
				return nil
			}
		}
	}
	var each []string
	for _, f := range new(options).rows() {
		if f.each && f.name() == u.name {
			return nil
		}
		if f.each {
			each = append(each, f.spelled()[0])
		}
	}
	place := "before the first program"
	if o.appFile != "" {
		place = "on the command line"
	}
	e := &usageError{fmt.Sprintf("%s is for the whole job: write it %s", u.typed, place), nil}
	if said {
		e.msg = fmt.Sprintf("%s is for the whole job, which has another value", u.text())
	}
	e.hints = []string{"a program may have its own " + strings.Join(each, ", ")}
	return e
}

// alike reports whether two uses of one flag say the same.
func alike(a, b use) bool {
	fs := new(options).flagSet()
	if a.value == b.value {
		return true
	}
	return fs.Lookup(a.name).Value.Type() != listType && fs.Set(a.name, a.value) == nil && fs.Set(b.name, b.value) == nil
}

// programs are the parts of the command line that have a program.
func (o *options) programs() []options {
	if o.appFile != "" {
		return o.more
	}
	return append([]options{*o}, o.more...)
}

// sortSettings sorts what was typed into what every program gets and, by program, what it
// gets alone. With one program the order counts, else its own setting does.
func (o *options) sortSettings() (all []envsync.Setting, own [][]envsync.Setting) {
	if o.appFile != "" {
		all = slices.Clone(o.settings)
	}
	parts := o.programs()
	own = make([][]envsync.Setting, len(parts))
	if len(parts) == 1 {
		return append(all, parts[0].settings...), own
	}
	for i, p := range parts {
		for _, s := range p.settings {
			if s.Flag == "-genv" || s.Flag == "-genvlist" || s.Flag == "--gmca" {
				all = append(all, s)
			} else {
				own[i] = append(own[i], s)
			}
		}
	}
	return all, own
}

// policy is the environment that every program gets; env is gorun's own.
func (o *options) policy(env environment) envsync.Policy {
	all, _ := o.sortSettings()
	p := envsync.Policy{Environ: env, Config: o.config.env, Set: all, All: o.envAll, Forward: o.config.forward.prefixes}
	if o.envNone {
		p.Forward = []string{}
	}
	return p
}

func (o *options) rigor() envsync.Rigor {
	switch {
	case o.envStrict:
		return envsync.Strict
	case o.envLax:
		return envsync.Lax
	}
	return envsync.Usual
}

// ranks is the size of the job, 0 if that is not said.
func (o *options) ranks() int {
	total := 0
	for _, p := range o.programs() {
		if p.np == 0 {
			return 0
		}
		total += p.np
	}
	return total
}

// apps are the programs as the launcher wants them, and the hosts of the job. dir is the
// current directory.
func (o *options) apps(dir string, env environment) ([]launcher.App, []hostfile.Host, error) {
	parts := o.programs()
	_, own := o.sortSettings()
	hosts, lists, err := o.readAllHosts(env)
	if err != nil {
		return nil, nil, err
	}
	apps := make([]launcher.App, len(parts))
	for i, p := range parts {
		apps[i] = launcher.App{Args: p.program, NP: p.np, Set: own[i], Hosts: lists[i]}
		if o.appFile != "" { // then -wdir is for those that have none of their own
			p.wdir = cmp.Or(p.wdir, o.wdir)
		}
		apps[i].Dir = absolute(dir, p.wdir)
	}
	return apps, hosts, nil
}

// readAllHosts reads the hosts of the job and, by program, those that it may use, or none
// if it may use all.
func (o *options) readAllHosts(env environment) (hosts []hostfile.Host, lists [][]hostfile.Host, err error) {
	parts := o.programs()
	lists = make([][]hostfile.Host, len(parts))
	if len(parts) == 1 && o.appFile == "" {
		hosts, err = readHosts(*o, env)
		return hosts, lists, err
	}
	whole := *o
	if o.appFile == "" {
		whole.hosts = "" // the first program's
	}
	if hosts, err = namedHosts(whole, env); err != nil {
		return nil, nil, err
	}
	narrow := hostfile.Filters(hosts)
	for i, p := range parts {
		switch {
		case p.hosts == "":
			continue
		case hosts != nil:
			lists[i], err = narrow(p.hosts)
		default:
			lists[i], err = namedHosts(options{hosts: p.hosts, ppn: o.ppn}, env)
		}
		if err != nil {
			return nil, nil, p.at(err)
		}
	}
	return o.ofPrograms(hosts, lists)
}

// ofPrograms leaves out of the hosts what no program may use. Where there are none, the
// programs' lists say what hosts there are.
func (o *options) ofPrograms(hosts []hostfile.Host, lists [][]hostfile.Host) ([]hostfile.Host, [][]hostfile.Host, error) {
	named, lists, err := hostfile.Union(lists...)
	all := slices.ContainsFunc(lists, func(l []hostfile.Host) bool { return l == nil })
	switch {
	case err != nil:
		return nil, nil, err
	case hosts == nil:
		hosts = named
	case !all:
		used := map[string]bool{}
		for _, h := range named {
			used[h.Name] = true
		}
		hosts = slices.DeleteFunc(hosts, func(h hostfile.Host) bool { return !used[h.Name] })
	}
	hosts, err = o.withoutExcluded(hosts)
	return hosts, lists, err
}

// at says of an error in which line of --app's file it is, if it is in one.
func (o *options) at(err error) error {
	if err == nil || o.where == "" {
		return err
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		return &usageError{o.where + ": " + e.msg, e.hints}
	}
	return fmt.Errorf("%s: %w", o.where, err)
}

// commands are the programs with their arguments, together with ":" between them and, if
// there are several, one by one. Secrets are hidden.
func (o *options) commands() (all []string, each [][]string) {
	all = []string{}
	for i, p := range o.programs() {
		if i > 0 {
			all = append(all, ":")
		}
		all, each = append(all, envsync.HideArgs(p.program)...), append(each, envsync.HideArgs(p.program))
	}
	if len(each) == 1 {
		return all, nil
	}
	return all, each
}

// programOf names the program of an App, "" if the job has but one.
func (o *options) programOf(app int) string {
	parts := o.programs()
	if len(parts) == 1 || app >= len(parts) {
		return ""
	}
	return envsync.Conceal(parts[app].program[0])
}
