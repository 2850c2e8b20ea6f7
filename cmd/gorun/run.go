package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"os/user"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/agent"
	"gorun/rendezvous"
)

// command is one run of gorun: what it was called with.
type command struct {
	env            environment
	stdin          *os.File
	stdout, stderr io.Writer
	console        console
}

// run is main without the process: args come without the program's name, and the exit
// code is returned. The agent comes first: starting it quickly matters.
func run(ctx context.Context, args, env []string, stdin *os.File, stdout, stderr io.Writer) int {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	c := &command{env: env, stdin: stdin, stdout: stdout, stderr: stderr, console: console{stderr}}
	switch word {
	case "agent":
		return agent.Main(ctx, args[1:], stdin, stdout, stderr)
	case "store":
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		return rendezvous.Command(ctx, args[1:], stdin, stdout, stderr)
	case "bench":
		return c.fail(&usageError{"gorun bench needs the program gorun-bench, which this version does not come with",
			[]string{"to run a program of that name: gorun -- bench"}}, options{})
	case "clean":
		return c.clean(ctx, args[1:])
	}
	return c.launch(ctx, args)
}

// launch runs a job.
func (c *command) launch(ctx context.Context, args []string) int {
	o, err := parseOptions(args)
	switch {
	case err != nil:
		return c.fail(err, o)
	case o.help:
		io.WriteString(c.stdout, helpText)
		return 0
	case o.version:
		printVersion(c.stdout)
		return 0
	}
	if o.result != "" {
		if err := checkResultPath(o.result); err != nil {
			return c.fail(err, o)
		}
	}
	res, err := c.job(ctx, o)
	return c.end(o, res, err)
}

// job makes a Job of the options and runs it, or shows what it would do.
func (c *command) job(ctx context.Context, o options) (*launcher.Result, error) {
	dir, err := workDir(c.env)
	if err != nil {
		return nil, err
	}
	job, err := newJob(o, c.env, dir)
	if err != nil {
		return nil, err
	}
	if o.dryRun {
		return nil, launcher.DryRun(c.stdout, job)
	}
	catchPipe()
	signals, stop := watchSignals()
	defer stop()
	tty := openTerminal()
	defer tty.close()
	world, err := c.world(o, signals, tty)
	if err != nil {
		return nil, err
	}
	return launcher.Run(ctx, job, world)
}

// world connects a job to this process.
func (c *command) world(o options, signals <-chan os.Signal, tty *terminal) (launcher.IO, error) {
	exe, err := os.Executable()
	w := launcher.IO{
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, StdoutTerminal: isTerminal(c.stdout), StderrTerminal: isTerminal(c.stderr),
		Signals: signals, Suspend: suspend, Prompt: tty.prompt(),
		Log: c.console.logger(o.verbose), Verbose: o.verbose > 0, Exe: exe,
	}
	w.Color = wantColor(c.env, w.StdoutTerminal)
	w.Home, w.User = c.account()
	return w, err
}

// account is the home directory, which HOME may move, and the name of gorun's user.
func (c *command) account() (home, name string) {
	home, name = c.env.get("HOME"), c.env.get("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
		if home == "" {
			home = u.HomeDir
		}
	}
	return home, name
}

// end says how the job went, writes --result and returns the exit code.
func (c *command) end(o options, res *launcher.Result, err error) int {
	var r report
	code := 0
	if res != nil || err != nil {
		code = exitCode(res, err)
	}
	if err != nil {
		r = errorReport(err, o)
	}
	if res != nil && (err == nil || res.Signal != 0) {
		r.add(resultReport(res, o))
	}
	c.console.print(r)
	if o.result == "" {
		return code
	}
	f := resultFile{Gorun: ownVersion(), ExitCode: code, Message: r.lines, Command: envsync.HideArgs(o.program), Failures: failuresOf(err), Result: res}
	if err := writeResult(o.result, f); err != nil {
		c.console.warn("the result could not be written: " + err.Error())
		if code == 0 {
			code = exitTrouble
		}
	}
	return code
}

// fail reports err and returns its exit code.
func (c *command) fail(err error, o options) int {
	c.console.print(errorReport(err, o))
	return errorCode(err)
}

// newJob makes a Job of the options. dir is the current directory.
func newJob(o options, env environment, dir string) (launcher.Job, error) {
	hosts, err := readHosts(o)
	return launcher.Job{
		Hosts: hosts, Apps: []launcher.App{{Args: o.program, NP: o.np}}, PerHost: o.ppn, Oversubscribe: o.oversubscribe,
		Env: o.policy(env), Dir: o.workDir(dir), Backend: o.backend, Interface: o.iface,
		Stdin: o.stdin, Tag: o.tag, OutputDir: absolute(dir, o.outputDir),
		Timeout: o.timeout, Grace: o.grace, ConnectTimeout: o.connectTimeout, LostAfter: o.lostAfter,
		Fanout: o.fanout, KeepGoing: o.keepGoing, AcceptNewHostKeys: o.acceptNew,
	}, err
}

// readHosts reads -hostfile and -H; none of them means this machine, no host.
func readHosts(o options) ([]hostfile.Host, error) {
	var file, list []hostfile.Host
	var err error
	if o.hostfile != "" {
		if file, err = hostfile.ParseFile(o.hostfile); err != nil {
			return nil, hostfileError(err)
		}
	}
	if o.hosts == "" {
		return file, nil
	}
	if list, err = hostfile.ParseList(o.hosts); err != nil || file == nil {
		return list, err
	}
	return hostfile.Filter(file, list)
}
