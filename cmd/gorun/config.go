package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gorun/envsync"
)

// config is what configuration files and GORUN_* variables say, which flags override.
type config struct {
	layers  [][]use           // of the flags that the keys stand for; a later layer wins
	env     []envsync.Setting // [env], a later one wins
	forward forwarded
	files   []configFile // in the order in which they were looked for
	unknown []string     // GORUN_* variables that say nothing, each with what may be meant
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
	maxConfig    = 1 << 20 // bytes; more than anybody writes
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
	return nil
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
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d KiB, which is no configuration", limit>>10)
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
		case i > 0:
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

// ofEach returns the layers with what each of several programs may have for itself.
func (conf *config) ofEach() [][]use {
	each := map[string]bool{}
	for _, f := range configured() {
		each[f.name()] = f.each
	}
	var layers [][]use
	for _, layer := range conf.layers {
		layers = append(layers, slices.DeleteFunc(slices.Clone(layer), func(u use) bool { return !each[u.name] }))
	}
	return layers
}

// winning returns the uses that count: those of the last layer that has the flag. Of two
// flags that exclude each other that of the later layer counts.
func winning(layers ...[]use) []use {
	last := map[string]int{}
	for i, layer := range layers {
		for _, u := range layer {
			last[u.name] = i
			for _, other := range excluded(u) {
				if j, ok := last[other]; ok && j < i {
					delete(last, other)
				}
			}
		}
	}
	var uses []use
	for i, layer := range layers {
		for _, u := range layer {
			if j, ok := last[u.name]; ok && j == i {
				uses = append(uses, u)
			}
		}
	}
	return uses
}

// excluded names the flags that cannot be had together with u.
func excluded(u use) []string {
	if on, err := strconv.ParseBool(u.value); err == nil && !on {
		return nil
	}
	var others []string
	if kind, _, _ := strings.Cut(strings.ToLower(u.value), ":"); u.name == "bind-to" && kind != "core" && kind != "hwthread" {
		others = append(others, "cpus-per-rank")
	} else if u.name == "map-by" && kind == "ppr" {
		others = append(others, "ppn")
	}
	for _, pair := range [][2]string{
		{"output-dir", "tag-output"}, {"output-dir", "timestamp-output"}, {"output-dir", "fold"}, {"dry-run", "result"}, {"dry-run", "events"},
		{"map-by", "bynode"}, {"map-by", "byslot"}, {"bynode", "byslot"}, {"oversubscribe", "nooversubscribe"}, {"genvall", "genvnone"}, {"quiet", "verbose"}, {"app", "np"}, {"rsh", "ssh-config"}, {"rsh", "ssh-port"}, {"rsh", "retry-hosts"},
	} {
		switch u.name {
		case pair[0]:
			others = append(others, pair[1])
		case pair[1]:
			others = append(others, pair[0])
		}
	}
	return others
}

// configReader adds the entries of one file to a config.
type configReader struct {
	*config
	file  configFile
	home  string
	flags []flag
}

// entry adds e.
func (r *configReader) entry(e entry) error {
	switch {
	case e.path[0] == "env":
		return r.variable(e)
	case e.key() == "forward":
		return r.prefixes(e)
	}
	i := slices.IndexFunc(r.flags, func(f flag) bool { return f.key == e.key() })
	switch {
	case i >= 0 && e.value != nil:
		return r.flag(r.flags[i], e)
	case i >= 0:
		return e.at.errorf("%s is a table here, and takes one value", e.key())
	case e.value == nil && e.array == 0 && slices.ContainsFunc(r.flags, func(f flag) bool { return strings.HasPrefix(f.key, e.key()+".") }):
		return nil // a section
	}
	return r.unknownKey(e)
}

// key is the path as one word.
func (e entry) key() string { return strings.Join(e.path, ".") }

// kind says what a TOML value is.
func (e entry) kind() string {
	switch v := e.value.(type) {
	case nil:
		return "a table"
	case string:
		return "text"
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "a date"
}

// unknownKey is the error for a key that stands for nothing.
func (r *configReader) unknownKey(e entry) error {
	what := "key"
	if e.value == nil {
		what = "table"
	}
	err := e.at.errorf("unknown %s %q", what, e.key())
	word := strings.ReplaceAll(e.path[len(e.path)-1], "_", "-")
	whole := map[string]string{"env": "env", "forward": "forward", "host": "[[host]]"} // by what may be meant
	for _, f := range r.flags {
		section, last, sectioned := strings.Cut(f.key, ".")
		whole[f.key] = f.key
		if sectioned {
			whole[section], whole[last] = "["+section+"]", f.key
		}
		for _, w := range spellingsOf(f) {
			whole[w] = f.key
		}
	}
	near := nearest(e.key(), slices.Sorted(maps.Keys(whole)))
	if near == "" {
		near = nearest(word, slices.Sorted(maps.Keys(whole)))
	}
	err.hints = []string{"gorun --show-config lists the keys"}
	if near != "" {
		err.hints = []string{fmt.Sprintf("did you mean %s?", whole[near])}
	}
	return err
}

// spellingsOf returns a flag's spellings without dashes.
func spellingsOf(f flag) []string {
	var words []string
	for _, w := range f.spelled() {
		words = append(words, bare(w))
	}
	return words
}

// variable adds a variable of [env].
func (r *configReader) variable(e entry) error {
	switch {
	case len(e.path) == 1 && e.value == nil && e.array == 0:
		return nil
	case len(e.path) != 2:
		return e.at.errorf("env is a table of variables: [env], and NAME = \"value\" in it")
	}
	value, err := e.text()
	if err != nil {
		return err
	}
	s := envsync.Setting{Flag: e.at.String(), Text: e.path[1] + "=" + value}
	_, _, err = envsync.Policy{Set: []envsync.Setting{s}}.Build()
	if bad, ok := errors.AsType[*envsync.SettingError](err); ok {
		return e.at.errorf("variable %q: %s", envsync.Conceal(e.path[1]), bad.Msg)
	}
	if strings.Contains(e.path[1], "=") {
		return e.at.errorf("variable %q: a name cannot have a = in it", envsync.Conceal(e.path[1]))
	}
	r.env = append(r.env, s)
	return nil
}

// text is the value of an entry that is text; a whole number is as good.
func (e entry) text() (string, error) {
	switch v := e.value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", e.wrong(`text: "..."`)
}

// wrong is the error of a value of the wrong type.
func (e entry) wrong(want string) *usageError {
	return e.at.errorf("%s is %s, and must be %s", envsync.Conceal(e.key()), e.kind(), want)
}

// prefixes reads the key forward.
func (r *configReader) prefixes(e entry) error {
	list, ok := e.value.([]any)
	if !ok {
		return e.wrong(`a list of prefixes of names: ["NCCL_", "UCX_"]`)
	}
	prefixes := []string{}
	for _, v := range list {
		s, ok := v.(string)
		if !ok || !isVariable(s) {
			return e.at.errorf("forward: %v is not the beginning of a variable's name", shownItem(v))
		}
		prefixes = append(prefixes, s)
	}
	r.forward = forwarded{prefixes, e.at.String()}
	return nil
}

func shownItem(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// flag adds a key that stands for the flag f.
func (r *configReader) flag(f flag, e entry) error {
	if f.guarded && r.file.local {
		err := e.at.errorf("%s is not taken from a %s in the current directory", e.key(), localConfig)
		err.hints = []string{"write it into ~/.config/gorun/config.toml, or name this file: --config " + localConfig}
		return err
	}
	values := []any{e.value}
	if list, ok := e.value.([]any); ok && f.value.Type() == listType {
		values = list
	}
	for _, v := range values {
		one := entry{e.path, v, e.at, e.array}
		value, err := one.flagValue(f)
		if err != nil {
			return err
		}
		if f.complete == aFile || f.complete == aDirectory {
			value = f.seenFrom(filepath.Dir(r.file.name), r.home, value)
		}
		last := &r.layers[len(r.layers)-1]
		*last = append(*last, use{name: f.name(), value: value, typed: e.at.errorf("%s", e.key()).msg, origin: e.at.String()})
	}
	return nil
}

// flagValue writes the value as it would be typed for the flag f.
func (e entry) flagValue(f flag) (string, error) {
	kind := f.value.Type()
	switch v := e.value.(type) {
	case bool:
		if kind == "bool" {
			return strconv.FormatBool(v), nil
		}
	case string:
		if kind != "bool" {
			return v, nil
		}
	case int64:
		if kind != "bool" && kind != "string" {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if kind != "bool" && kind != "string" {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	switch kind {
	case "bool":
		return "", e.wrong("true or false, without quotes")
	case "string", listType:
		return "", e.wrong(`text: "..."`)
	case "time.Duration":
		return "", e.wrong(`a time: 60, 1.5, "500ms", "2m"`)
	}
	return "", e.wrong("a number, or text in quotes")
}

// seenFrom is a path of a configuration file as seen from the current directory: it is
// relative to the file's own directory, and ~ is the home directory.
func (f flag) seenFrom(dir, home, path string) string {
	escape := func(s string) string { return s }
	if f.name() == "output-dir" { // a pattern
		escape = func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	}
	switch {
	case strings.HasPrefix(path, "~/"):
		return escape(home) + path[1:]
	case path == "" || dir == "." || filepath.IsAbs(path):
		return path
	}
	return escape(dir) + "/" + path
}
