package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/launcher"
)

// options is the command line of a launch: flags, then the program. Zero values are
// those of flags that were not given, but for what defaultOptions sets.
type options struct {
	np, ppn         int    // 0: not given
	hostfile, hosts string // "": not given
	exclude         string
	defaultHostfile string
	wdir            string
	mapBy           mapping
	bySlot, byNode  bool
	rankBy          launcher.Order // "": not given
	mesh            string         // as launcher.Mesh writes it; "": not given
	topology        string         // a file; "": not given
	orderHosts      string         // "": not given
	gpuBind         string         // "": not given
	oversubscribe   bool
	noOversubscribe bool
	bindTo          binding
	coresPerRank    int // 0: not given
	reportBindings  bool
	iface           string
	acceptNew       bool
	fanout          int
	connectTimeout  time.Duration
	rsh             string // "": gorun's own ssh
	sshPort         int    // 0: ssh_config's
	sshConfig       string // "": the usual files
	retryHosts      time.Duration

	settings []envsync.Setting // -x, -env and -genv as typed
	envAll   bool
	envNone  bool
	prefix   string
	backend  string
	pmi      string // one of launcher's PMI constants; "": not given

	tag, stamp bool
	fold       bool
	noStatus   bool
	pty        bool
	outputDir  string // a pattern
	stdin      int    // a rank, launcher.StdinNone or launcher.StdinAll

	timeout   time.Duration // 0: none
	grace     time.Duration
	keepGoing bool
	lostAfter time.Duration
	noGossip  bool
	envStrict bool
	envLax    bool

	verbose bool
	quiet   bool
	layout  bool
	pidTo   string
	dryRun  bool
	result  string
	events  string // "-" for stdout
	version bool
	help    bool

	completion string // a shell

	bcast   bool
	preload []string

	configFile string // "none": none at all
	showConfig bool
	showEnv    bool
	config     config
	said       map[string][]use // by the name of the flag: what counts for it
	lastName   use              // the -x right before the program, if any

	preflight preflightOptions
	typed     []string // the command line, without the name of gorun itself

	appFile string // the programs are in it
	program []string
	marked  bool      // "--" stood before the program
	more    []options // the programs behind the first, each with what is its own
	where   string    // of a program from a file: "FILE:LINE"
}

func defaultOptions() options {
	return options{
		grace:          launcher.DefaultGrace,
		connectTimeout: launcher.DefaultConnectTimeout,
		lostAfter:      launcher.DefaultLostAfter,
		fanout:         launcher.DefaultFanout,
		backend:        "cpu",
	}
}

// options reads a launch's command line, without the name of gorun itself, over the
// configuration, and checks it. Its errors are *usageError.
func (c *command) options(args []string) (options, error) {
	o, _, err := c.readOptions(args, func(string) bool { return true })
	if err != nil || o.informs() || o.showConfig {
		return o, err
	}
	err = o.check()
	return o, err
}

// informs reports whether gorun is asked about itself, and starts nothing.
func (o *options) informs() bool {
	return o.help || o.version || o.completion != "" || o.preflight.explain != ""
}

// readOptions reads a command line, and the file of --app if it names one, over what the
// configuration says of the flags that wanted reports by name. Its errors are *usageError.
func (c *command) readOptions(args []string, wanted func(name string) bool) (options, commandLine, error) {
	o := defaultOptions()
	line, err := o.read(args)
	if err != nil || o.informs() {
		return o, line, err
	}
	conf, err := c.config(line)
	if err == nil {
		err = conf.keep(wanted)
	}
	if err != nil {
		return o, line, err
	}
	o = defaultOptions()
	o.config = conf
	if line, err = o.read(args); err == nil {
		err = o.readPrograms(line)
	}
	return o, line, err
}

// read reads the flags up to a program, and the program, over o.config. Its errors are
// *usageError.
func (o *options) read(args []string) (commandLine, error) {
	fs := o.flagSet()
	line, err := parseLine(fs, args)
	for _, u := range line.uses {
		if u.name == "result" { // a mistake elsewhere is written there too
			fs.Set(u.name, u.value)
		}
	}
	if err != nil {
		return line, err
	}
	o.program, o.marked = line.program, line.marked
	if n := len(line.uses); n > 0 && line.uses[n-1].name == "x" && !line.marked {
		o.lastName = line.uses[n-1]
	}
	return line, o.take(winning(append(slices.Clone(o.config.layers), line.uses)...))
}

// take stores uses in o.
func (o *options) take(uses []use) error {
	fs := o.flagSet()
	o.said = map[string][]use{}
	for _, u := range uses {
		o.said[u.name] = append(o.said[u.name], u)
		if err := homeless(u); err != nil {
			return err
		}
		if err := fs.Set(u.name, u.value); err != nil {
			return badValue(u, o.said[u.name][0], err)
		}
	}
	return nil
}

// homeless is the error of a path that still begins with the ~ for which a shell was to
// put the home directory; nil if u is none.
func homeless(u use) error {
	if u.value != "~" && !strings.HasPrefix(u.value, "~/") {
		return nil
	}
	for _, f := range new(options).rows() {
		if f.name() == u.name && (f.complete == aFile || f.complete == aDirectory) {
			return &usageError{fmt.Sprintf("%s: %q: no shell has put the home directory for the ~", u.typed, u.value),
				[]string{"a shell does so where a word begins with it: " + dashed(u.name) + " ~/...; elsewhere write the whole path"}}
		}
	}
	return nil
}

// sshFiles are the ssh_config files that --ssh-config asks for, nil for the usual ones.
func (o *options) sshFiles() []string {
	switch o.sshConfig {
	case "":
		return nil
	case "none":
		return []string{}
	}
	return []string{o.sshConfig}
}

// placed reports whether nothing depends on the current directory: ranks have another, and
// their output does not go there.
func (o *options) placed() bool {
	inside := func(p options) bool { return !filepath.IsAbs(cmp.Or(p.wdir, o.wdir)) }
	return !slices.ContainsFunc(o.programs(), inside) && (o.outputDir == "" || filepath.IsAbs(o.outputDir))
}

// here reports whether name, which has no slash, is a file in the working directory.
func (o *options) here(name string) bool {
	info, err := os.Stat(filepath.Join(o.wdir, name))
	return !strings.Contains(name, "/") && err == nil && info.Mode().IsRegular()
}
