package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/transport"
)

// clean removes gorun's cached program here and on the hosts that args name.
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

// cleanHosts removes gorun's cached program from the hosts. Its error is a
// *launcher.HostsError if some could not be reached.
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
	var mu sync.Mutex
	failed := &launcher.HostsError{Good: len(hosts)}
	var g errgroup.Group
	g.SetLimit(o.fanout)
	for _, h := range hosts {
		g.Go(func() error {
			if err := d.Clean(ctx, h); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed.Hosts = append(failed.Hosts, launcher.HostFailure{Host: h.Name, Err: err})
				failed.Good--
			}
			return nil
		})
	}
	g.Wait()
	for _, w := range d.Warnings() {
		c.console.warn(w)
	}
	if len(failed.Hosts) == 0 {
		return nil
	}
	return failed
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
