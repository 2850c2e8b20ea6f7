package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"syscall"
	"time"

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
	release        func()           // lets signals be watched by a job
	signals        <-chan os.Signal // watched by a job; nil before it
	events         *eventLog        // of --events; nil: none
}

// run is main without the process: args come without the program's name, and the exit
// code is returned. The agent comes first: starting it quickly matters.
func run(ctx context.Context, args, env []string, stdin *os.File, stdout, stderr io.Writer) int {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	c := &command{env: env, stdin: stdin, stdout: stdout, stderr: stderr, console: console{w: stderr}}
	switch word {
	case "agent":
		return agent.Main(ctx, args[1:], stdin, stdout, stderr)
	case "clean":
		exitBy(0, syscall.SIGQUIT)
		return c.clean(ctx, args[1:])
	}
	c.release = exitBy(0, endSignals()...)
	switch word {
	case "store":
		return rendezvous.Command(ctx, args[1:], stdin, stdout, stderr)
	case "bench":
		return c.fail(&usageError{"gorun bench needs the program gorun-bench, which this version does not come with",
			[]string{"to run a program of that name: gorun -- bench"}}, options{})
	}
	return c.launch(ctx, args)
}

// launch runs a job.
func (c *command) launch(ctx context.Context, args []string) int {
	o, err := c.options(args)
	o.typed = args
	switch {
	case err != nil && checkResult(o.result) == nil:
		return c.end(o, nil, err)
	case err != nil:
		return c.fail(err, o)
	case o.help:
		return c.show(helpText)
	case o.version:
		return c.show(versionLine())
	case o.completion != "":
		return c.show(completionScript(o.completion))
	case o.preflight.explain != "":
		return c.explain(o)
	}
	c.tellConfig(o)
	switch {
	case o.showConfig:
		return c.show(o.showConfiguration())
	case o.showEnv:
		return c.print(o, launcher.ShowEnv)
	case o.dryRun:
		return c.dryRun(o)
	}
	if err := checkResult(o.result); err != nil {
		return c.fail(err, o)
	}
	if c.events, err = openEvents(o.events, c.stdout, o.concealIn); err != nil {
		return c.end(o, nil, err)
	}
	if err := o.preflight.checkFiles(); err != nil {
		return c.end(o, nil, err)
	}
	if o.preflight.facts != "" {
		return c.end(o, nil, c.judgeAgain(o))
	}
	res, err := c.survey(ctx, o)
	return c.end(o, res, err)
}

// show prints text and returns the exit code.
func (c *command) show(text string) int {
	if _, err := io.WriteString(c.stdout, text); err != nil {
		return c.fail(err, options{})
	}
	return 0
}

// print shows what write says of a job that is not run.
func (c *command) print(o options, write func(io.Writer, launcher.Job) error) int {
	var text strings.Builder
	job, err := c.newJob(o)
	if err == nil {
		err = write(&text, job)
	}
	if err != nil {
		return c.fail(err, o)
	}
	return c.show(text.String())
}

// job makes a Job of the options and runs it.
func (c *command) job(ctx context.Context, o options) (*launcher.Result, error) {
	job, err := c.newJob(o)
	if err != nil {
		return nil, err
	}
	if err := checkOutputDir(job.OutputDir); err != nil {
		return nil, err
	}
	if err := o.examine(&job); err != nil {
		return nil, err
	}
	if err := c.reportPID(o.pidTo); err != nil {
		return nil, err
	}
	catchPipe()
	c.signals = watchSignals()
	c.release()
	tty := openTerminal()
	defer tty.close()
	world, err := c.world(o, tty)
	if err != nil {
		return nil, err
	}
	return launcher.Run(ctx, job, world)
}

// reportPID writes this process's number where --report-pid says.
func (c *command) reportPID(where string) error {
	line := fmt.Sprintln(os.Getpid())
	var err error
	switch where {
	case "":
	case "-":
		_, err = io.WriteString(c.stdout, line)
	case "+":
		_, err = io.WriteString(c.stderr, line)
	default:
		write := func(where string, line []byte) error { return os.WriteFile(where, line, 0o666) }
		if isStream(where) {
			write = writeInto
		}
		if err = write(where, []byte(line)); err != nil {
			err = &usageError{"--report-pid: " + err.Error(), nil}
		}
	}
	return err
}

// world connects a job to this process.
func (c *command) world(o options, tty *terminal) (launcher.IO, error) {
	exe, err := os.Executable()
	w := launcher.IO{
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, StdoutTerminal: isTerminal(c.stdout), StderrTerminal: isTerminal(c.stderr),
		Signals: c.signals, Suspend: suspend, Prompt: tty.prompt(), Window: tty.size,
		Log: func(lines io.Writer) *slog.Logger { return logger(o.verbose, lines) }, Verbose: o.verbose, Exe: exe,
	}
	w.Color = wantColor(c.env, w.StdoutTerminal)
	w.Width = c.width(w)
	w.Status = !o.noStatus && w.Width != nil && w.StderrTerminal && !isPipe(c.stdout)
	if c.events != nil {
		w.Events = c.events.add
	}
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

// lastWords is how long a reader of standard error may take to read how the job ended,
// when somebody or its limit ended it.
const lastWords = time.Second

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
	if res != nil {
		c.console.inLine = res.Unfinished
		if res.Hurried {
			c.console.limit = lastWords
		}
	}
	c.console.signals = c.signals
	c.console.print(r)
	if c.signals != nil {
		exitBy(code, endSignals()...)
	}
	code = c.endEvents(code, r)
	if o.result == "" {
		return code
	}
	f := resultFile{Gorun: ownVersion(), ExitCode: code, Message: r.lines, Failures: failuresOf(err, o), Result: res}
	f.Command, f.Programs = o.commands()
	if err := writeResult(o.result, f); err != nil {
		c.console.warn("the result could not be written: " + err.Error())
		if code == 0 {
			code = exitTrouble
		}
	}
	return code
}

// endEvents writes the last event and returns the exit code.
func (c *command) endEvents(code int, r report) int {
	if c.events == nil {
		return code
	}
	limit := cmp.Or(c.console.limit, streamPatience)
	if err := c.events.close(launcher.Event{Event: "end", Exit: &code, Message: r.lines}, limit); err != nil {
		c.console.warn("the events could not be written: " + err.Error())
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

// newJob makes a Job of the options.
func (c *command) newJob(o options) (launcher.Job, error) {
	dir, err := workDir(c.env)
	if err != nil && o.placed() {
		dir, err = "/", nil
	}
	if err != nil {
		return launcher.Job{}, err
	}
	path, origin := o.findDefault(c.env)
	o.hostfile = cmp.Or(o.hostfile, path)
	if origin != "" && o.verbose {
		c.console.print(report{lines: []string{"the hosts are those of " + path + ", which " + origin + " names"}})
	}
	apps, hosts, err := o.apps(dir, c.env)
	if e, ok := errors.AsType[*usageError](err); ok && origin != "" {
		e.hints = append(e.hints, origin+" names "+path+", as neither -hostfile nor -H names a host")
	}
	if text := unused(c.env); err == nil && len(hosts) == 0 && text != "" {
		c.console.warn(text)
	}
	if err == nil {
		hosts, err = c.arrangeHosts(o, hosts)
	}
	o.config.complete(hosts)
	for _, a := range apps {
		o.config.complete(a.Hosts)
	}
	return launcher.Job{
		Hosts: hosts, Apps: apps, HostEnv: o.config.hostEnv(hosts), PerHost: o.ppn, Oversubscribe: o.oversubscribe, MapBy: o.mapBy.by, RankBy: o.rankBy,
		Mesh:   meshOf(o.mesh),
		BindTo: o.bindTo.to, CoresPerRank: o.bindTo.cores, ReportBindings: o.reportBindings || o.bindTo.report,
		Env: o.policy(c.env), Prefix: o.prefix, Dir: dir, Bcast: o.bcast, Preload: o.preload, Backend: o.backend, PMI: o.pmi, Interface: o.iface,
		Stdin: o.stdin, Pty: o.pty, Tag: o.tag, Stamp: o.stamp, OutputDir: absolutePattern(dir, o.outputDir),
		Timeout: o.timeout, Grace: o.grace, ConnectTimeout: o.connectTimeout, LostAfter: o.lostAfter, NoGossip: o.noGossip, Rigor: o.rigor(),
		Fanout: o.fanout, KeepGoing: o.keepGoing, AcceptNewHostKeys: o.acceptNew, Rsh: o.rsh,
		SSHPort: o.sshPort, SSHConfig: o.sshFiles(), RetryHosts: o.retryHosts,
		ShowLayout: o.layout, Fold: o.fold,
	}, err
}
