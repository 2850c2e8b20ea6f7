package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gorun/envsync"
	"gorun/launcher"
)

// options is the command line of a launch: flags, then the program. Zero values are
// those of flags that were not given, but for what defaultOptions sets.
type options struct {
	np, ppn         int    // 0: not given
	hostfile, hosts string // "": not given
	wdir            string
	oversubscribe   bool
	iface           string
	acceptNew       bool
	fanout          int
	connectTimeout  time.Duration

	settings []envsync.Setting // -x and -genv as typed
	envAll   bool
	backend  string

	tag       bool
	outputDir string
	stdin     int // a rank, launcher.StdinNone or launcher.StdinAll

	timeout   time.Duration // 0: none
	grace     time.Duration
	keepGoing bool
	lostAfter time.Duration

	verbose bool
	dryRun  bool
	result  string
	version bool
	help    bool

	program []string
	marked  bool // "--" stood before the program
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

// spellings maps what users type, without dashes, to the names in the flag set.
func spellings() map[string]string {
	m := map[string]string{}
	for _, group := range []string{
		"np n c", "hostfile machinefile f", "host H", "ppn npernode N", "wdir wd",
		"oversubscribe", "interface", "accept-new-host-keys", "fanout", "connect-timeout",
		"x", "genv", "genvall", "backend",
		"tag-output l", "output-dir", "stdin",
		"timeout", "kill-grace", "keep-going", "lost-after",
		"v vv verbose", "dry-run", "result", "version V", "help h",
	} {
		words := strings.Fields(group)
		for _, w := range words {
			m[w] = words[0]
		}
	}
	return m
}

// flagSet returns a flag set that stores into o.
func (o *options) flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	o.whereFlags(fs)
	o.environmentFlags(fs)
	o.outputFlags(fs)
	o.failureFlags(fs)
	o.diagnosisFlags(fs)
	return fs
}

func (o *options) whereFlags(fs *pflag.FlagSet) {
	value(fs, "np", &o.np, ranks)
	value(fs, "ppn", &o.ppn, ranks)
	value(fs, "hostfile", &o.hostfile, text)
	value(fs, "host", &o.hosts, text)
	value(fs, "wdir", &o.wdir, text)
	value(fs, "interface", &o.iface, text)
	value(fs, "fanout", &o.fanout, count)
	value(fs, "connect-timeout", &o.connectTimeout, positive)
	yes(fs, "oversubscribe", &o.oversubscribe)
	yes(fs, "accept-new-host-keys", &o.acceptNew)
}

func (o *options) environmentFlags(fs *pflag.FlagSet) {
	fs.Var(&settings{"-x", &o.settings}, "x", "")
	fs.Var(&settings{"-genv", &o.settings}, "genv", "")
	yes(fs, "genvall", &o.envAll)
	value(fs, "backend", &o.backend, backendName)
}

func (o *options) outputFlags(fs *pflag.FlagSet) {
	yes(fs, "tag-output", &o.tag)
	value(fs, "output-dir", &o.outputDir, text)
	value(fs, "stdin", &o.stdin, stdinTarget)
}

func (o *options) failureFlags(fs *pflag.FlagSet) {
	value(fs, "timeout", &o.timeout, positive)
	value(fs, "kill-grace", &o.grace, duration)
	value(fs, "lost-after", &o.lostAfter, silence)
	yes(fs, "keep-going", &o.keepGoing)
}

func (o *options) diagnosisFlags(fs *pflag.FlagSet) {
	yes(fs, "v", &o.verbose)
	yes(fs, "dry-run", &o.dryRun)
	value(fs, "result", &o.result, text)
	yes(fs, "version", &o.version)
	yes(fs, "help", &o.help)
}

// parseOptions reads a launch's command line, without the name of gorun itself, and
// checks it. Its errors are *usageError.
func parseOptions(args []string) (options, error) {
	o, _, err := readOptions(args)
	if err != nil || o.help || o.version {
		return o, err
	}
	return o, o.check()
}

// readOptions reads a command line flag by flag. Its errors are *usageError.
func readOptions(args []string) (options, commandLine, error) {
	o := defaultOptions()
	fs := o.flagSet()
	line, err := parseLine(fs, args)
	for _, u := range line.uses {
		if u.name == "result" { // a mistake elsewhere is written there too
			fs.Set(u.name, u.value)
		}
	}
	if err != nil {
		return o, line, err
	}
	first := map[string]use{}
	for _, u := range line.uses {
		if _, ok := first[u.name]; !ok {
			first[u.name] = u
		}
		if err := fs.Set(u.name, u.value); err != nil {
			return o, line, badValue(u, first[u.name], err)
		}
	}
	o.program, o.marked = line.program, line.marked
	return o, line, nil
}

// policy is the environment that the options ask for; env is gorun's own.
func (o *options) policy(env environment) envsync.Policy {
	return envsync.Policy{Environ: env, Set: o.settings, All: o.envAll}
}

// workDir is the ranks' working directory; dir is the current one.
func (o *options) workDir(dir string) string {
	if o.wdir == "" {
		return dir
	}
	return absolute(dir, o.wdir)
}

// here reports whether name, which has no slash, is a file in the working directory.
func (o *options) here(name string) bool {
	info, err := os.Stat(filepath.Join(o.wdir, name))
	return !strings.Contains(name, "/") && err == nil && info.Mode().IsRegular()
}
