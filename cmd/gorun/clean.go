package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/transport"
)

// clean removes gorun's cached program here and on the hosts that args name, where no job
// uses it.
func (c *command) clean(ctx context.Context, args []string) int {
	o, err := c.parseClean(args)
	switch {
	case err != nil:
		return c.fail(err, o)
	case o.help:
		return c.show(cleanHelp)
	}
	hosts, err := readHosts(o, c.env)
	if err != nil {
		return c.fail(err, o)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hosts = append([]hostfile.Host{{Name: "localhost", Slots: -1}}, hosts...)
	done := make(chan error, 1)
	go func() { done <- c.cleanHosts(ctx, o, hosts) }()
	select {
	case err := <-done:
		return c.cleaned(err, o)
	case s := <-signals:
		cancel()
		<-done
		n := int(s.(syscall.Signal))
		c.console.print(report{lines: []string{fmt.Sprintf("ended by %s; not every host was cleaned", signalName(n))}})
		return 128 + n
	}
}

// cleaned says how it went and returns the exit code.
func (c *command) cleaned(err error, o options) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*launcher.HostsError](err); ok {
		c.console.print(hostsReport(e, "nothing was removed there"))
		return exitTrouble
	}
	return c.fail(err, o)
}

// cleanHosts removes gorun's cached program from the hosts, and says what it did. Its error
// is a *launcher.HostsError if some could not be reached.
//
// All hosts are looked at before anything is removed: they may share a home directory,
// and what is run from there is seen only on the host that runs it.
func (c *command) cleanHosts(ctx context.Context, o options, hosts []hostfile.Host) error {
	tty := openTerminal()
	defer tty.close()
	home, user := c.account()
	d, err := transport.New(transport.Options{
		ConnectTimeout: o.connectTimeout, AcceptNewHostKeys: o.acceptNew, Fanout: o.fanout, Home: home, User: user, Rsh: o.rsh,
		Port: o.sshPort, Config: o.sshFiles(),
		AgentSocket: c.env.get("SSH_AUTH_SOCK"), Prompt: tty.prompt(), Logger: logger(o.verbose, &c.console),
	})
	if err != nil {
		return err
	}
	defer d.Close()
	w := cleaning{hosts: hosts, errs: make([]error, len(hosts)), fanout: o.fanout}
	inUse := make([][]uint64, len(hosts))
	if len(hosts) > 1 {
		w.each(func(i int) (err error) { inUse[i], err = d.InUse(ctx, hosts[i]); return err })
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(inUse...))))
	cleaned := make([]transport.Cleaned, len(hosts))
	w.each(func(i int) (err error) { cleaned[i], err = d.Clean(ctx, hosts[i], all); return err })
	for _, w := range d.Warnings() {
		c.console.warn(w)
	}
	var r report
	for _, g := range w.groups(cleaned) {
		r.linef("%s: %s", hostfile.Fold(g.hosts), g.text)
	}
	c.console.print(r)
	return w.failure()
}

// cleaning is what is done on hosts at a time.
type cleaning struct {
	hosts  []hostfile.Host
	errs   []error // by host; where there is one, nothing more is done
	fanout int
}

// each does something on every host that has not failed.
func (w *cleaning) each(do func(host int) error) {
	var g errgroup.Group
	g.SetLimit(w.fanout)
	for i := range w.hosts {
		if w.errs[i] == nil {
			g.Go(func() error { w.errs[i] = do(i); return nil })
		}
	}
	g.Wait()
}

// failure is the error of the hosts that failed, if there are any.
func (w *cleaning) failure() error {
	e := &launcher.HostsError{}
	for i, err := range w.errs {
		if err != nil {
			e.Hosts = append(e.Hosts, launcher.HostFailure{Host: w.hosts[i].Name, Err: err})
		}
	}
	if e.Good = len(w.hosts) - len(e.Hosts); len(e.Hosts) == 0 {
		return nil
	}
	return e
}

// cleanGroup is hosts of which the same is to be said.
type cleanGroup struct {
	text  string
	hosts []string
}

// groups folds what was done, in the order of the hosts.
func (w *cleaning) groups(cleaned []transport.Cleaned) []cleanGroup {
	var out []cleanGroup
	for i, h := range w.hosts {
		if w.errs[i] != nil {
			continue
		}
		text := cleanText(cleaned[i])
		at := slices.IndexFunc(out, func(g cleanGroup) bool { return g.text == text })
		if at < 0 {
			at, out = len(out), append(out, cleanGroup{text: text})
		}
		out[at].hosts = append(out[at].hosts, h.Name)
	}
	return out
}

// cleanText says what was removed from a host, and what was not.
func cleanText(c transport.Cleaned) string {
	removed := "nothing to remove"
	if what := cachedText(c.Programs, c.Files); what != "" {
		removed = "removed " + what
	}
	parts := []string{removed}
	if what := cachedText(c.Running, c.Used); what != "" {
		parts = append(parts, "kept "+what+": a job runs there")
	}
	if what := cachedText(c.Elsewhere, 0); what != "" {
		parts = append(parts, "kept "+what+": a job on another host runs it")
	}
	return strings.Join(parts, "; ")
}

// cachedText counts what is in the caches.
func cachedText(programs, files int) string {
	var parts []string
	if programs > 0 {
		parts = append(parts, plural(programs, "version")+" of gorun")
	}
	if files > 0 {
		parts = append(parts, plural(files, "file"))
	}
	return strings.Join(parts, " and ")
}

// cleans reports whether gorun clean takes the flag of that name.
func cleans(name string) bool {
	return slices.Contains(strings.Fields("hostfile host exclude connect-timeout fanout accept-new-host-keys ssh-port ssh-config rsh config verbose help"), name)
}

// namesHosts reports whether the flag of that name says which hosts there are. For
// clean only the command line does: what is not named is not touched.
func namesHosts(name string) bool { return name == "hostfile" || name == "host" || name == "exclude" }

// parseClean reads the command line of gorun clean.
func (c *command) parseClean(args []string) (options, error) {
	o, line, err := c.readOptions(args, func(name string) bool { return cleans(name) && !namesHosts(name) })
	if err != nil || o.help {
		return o, err
	}
	for _, u := range line.uses {
		if !cleans(u.name) {
			return o, &usageError{"gorun clean has no flag " + u.typed, []string{"gorun clean --help"}}
		}
	}
	if len(line.program) > 0 {
		return o, &usageError{"gorun clean takes no argument " + shellQuote(envsync.Conceal(line.program[0])),
			[]string{"name hosts by -H LIST or -hostfile FILE", "to run a program named clean: gorun -- clean"}}
	}
	return o, nil
}
