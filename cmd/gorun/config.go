package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gorun/envsync"
)

// config is what configuration files and GORUN_* variables say, which flags override.
type config struct {
	layers     [][]use           // of the flags that the keys stand for; a later layer wins
	env        []envsync.Setting // [env], a later one wins
	hosts      []hostTable       // [[host]], a later one wins
	forward    forwarded
	thresholds []configuredThreshold // of [preflight], a later one wins
	files      []configFile          // in the order in which they were looked for
	unknown    []string              // GORUN_* variables that say nothing, each with what may be meant
}

// forwarded is the list of prefixes by which names of the launch environment are sent.
type forwarded struct {
	prefixes []string // nil: the defaults
	origin   string
}

// configFile is a file that is looked for.
type configFile struct {
	name  string
	named bool // by --config: it must be there, and is trusted
	local bool // it is in the current directory, which may be a stranger's
	read  bool // it was there
}

const (
	systemConfig = "/etc/gorun/config.toml"
	localConfig  = "gorun.toml"
	maxConfig    = 256 << 10 // bytes; more than anybody writes
)

// goWithout is how to be rid of a file that cannot be used.
const goWithout = "--config none reads no configuration file"

// config reads the configuration below line. Its error is a *usageError.
func (c *command) config(line commandLine) (config, error) {
	var conf config
	home, _ := c.account()
	for _, f := range configFiles(line, c.env, home) {
		if err := conf.readFile(f, home); err != nil {
			return conf, err
		}
	}
	conf.readEnvironment(c.env)
	return conf, nil
}

// configFiles lists the files to look for, those that win last.
func configFiles(line commandLine, env environment, home string) []configFile {
	named := env.get("GORUN_CONFIG")
	for _, u := range line.uses {
		if u.name == "config" {
			named = u.value
		}
	}
	if named == "none" {
		return nil
	}
	files := []configFile{{name: systemConfig}}
	dir := env.get("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as XDG has it, a relative one does not count
		dir = filepath.Join(home, ".config")
	}
	if filepath.IsAbs(dir) {
		files = append(files, configFile{name: filepath.Join(dir, "gorun", "config.toml")})
	}
	if named != "" {
		return append(files, configFile{name: named, named: true})
	}
	return append(files, configFile{name: localConfig, local: true})
}

// readFile adds what f says, if it is there.
func (conf *config) readFile(f configFile, home string) error {
	data, info, err := readRegular(f.name, maxConfig)
	if !f.named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		conf.files = append(conf.files, f)
		return nil
	}
	if err == nil && !f.named {
		err = trusted(info)
	}
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		e := place{file: f.name}.errorf("%v", err)
		if !f.named {
			e.hints = []string{goWithout}
		}
		return e
	}
	f.read = true
	conf.files = append(conf.files, f)
	entries, err := readTOML(f.name, data)
	if err != nil {
		return err
	}
	conf.layers = append(conf.layers, nil)
	r := configReader{config: conf, file: f, home: home, flags: configured()}
	for _, e := range entries {
		if err := r.entry(e); err != nil {
			return err
		}
	}
	return r.checkHosts()
}

// readRegular reads a file of at most limit bytes. It waits for no writer: a FIFO and a
// device are errors.
func readRegular(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return nil, nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("not a regular file")
	}
	tooLarge := fmt.Errorf("larger than %s, which such a file is not", sizeText(limit))
	if info.Size() > limit {
		return nil, nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit { // it grows, or is one of those of which no size is known
		err = tooLarge
	}
	return data, info, err
}

// trusted refuses a file that somebody else may have written, or can: nobody has named
// it, and it says what gorun does.
func trusted(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("not read, as it belongs to another user (%d); --config names a file that is to be trusted", st.Uid)
	case info.Mode()&0o002 != 0:
		return errors.New("not read, as everybody may write to it; chmod o-w makes it one's own")
	}
	return nil
}

// configured returns the flags of the table that have keys.
func configured() []flag {
	return slices.DeleteFunc(new(options).rows(), func(f flag) bool { return f.key == "" })
}

// variable is the environment variable that stands for the flag.
func (f flag) variable() string {
	return "GORUN_" + strings.ToUpper(strings.ReplaceAll(f.name(), "-", "_"))
}

// readEnvironment adds what GORUN_* variables say. Those that are a rank's own say
// nothing: gorun may be started by a rank.
func (conf *config) readEnvironment(env environment) {
	var uses []use
	flags := configured()
	names := []string{"CONFIG"}
	ofRank := env.get("GORUN_RANK") != ""
	seen := map[string]bool{} // of a repeated name the first counts
	for _, f := range flags {
		names = append(names, strings.TrimPrefix(f.variable(), "GORUN_"))
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		rest, own := strings.CutPrefix(name, "GORUN_")
		i := slices.Index(names, rest)
		before := seen[name]
		seen[name] = true
		switch {
		case !own || name == "GORUN_CONFIG" || value == "" || before:
		case i > 0 && !(ofRank && envsync.RankName(name)):
			uses = append(uses, use{name: flags[i-1].name(), value: value, typed: name, origin: name})
		case !envsync.RankName(name):
			if near := nearest(rest, names); near != "" {
				conf.unknown = append(conf.unknown, fmt.Sprintf("%s says nothing to gorun: did you mean GORUN_%s?", name, near))
			}
		}
	}
	conf.layers = append(conf.layers, uses)
}

// keep drops what is about other flags than those that wanted reports, and checks the
// values of the rest, also of those that are overridden.
func (conf *config) keep(wanted func(name string) bool) error {
	for i, layer := range conf.layers {
		conf.layers[i] = slices.DeleteFunc(layer, func(u use) bool { return !wanted(u.name) })
		if err := new(options).take(conf.layers[i]); err != nil {
			return err
		}
	}
	return nil
}

// ofEach returns the layers with what each of several programs may have for itself, and
// that does not clash with uses of later layers.
func (conf *config) ofEach(over []use) [][]use {
	each := map[string]bool{}
	for _, f := range configured() {
		each[f.name()] = f.each
	}
	var layers [][]use
	for i, layer := range conf.layers {
		layers = append(layers, slices.DeleteFunc(slices.Clone(layer), func(u use) bool {
			return !each[u.name] || slices.ContainsFunc(over, func(later use) bool { return later.layer > i && clash(u, later) })
		}))
	}
	return layers
}
