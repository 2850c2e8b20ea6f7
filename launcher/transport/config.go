package transport

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits of what is read of ssh's files.
const (
	maxConfig       = 8 << 20 // bytes of all files
	maxConfigFiles  = 1000    // a file that is included twice is two
	maxIncludeDepth = 16      // as OpenSSH
)

const systemConfig = "/etc/ssh/ssh_config"

// sshConfig is the ssh_config files in the order in which they count. It does not
// change once loaded.
//
// gorun reads them itself, rather than with a library or by running ssh -G, because a
// message must name file and line of a directive, also inside an included file, because
// a process for each host is dear, and because there may be no ssh client.
type sshConfig struct {
	files [][]directive
	named string // the file that Options.Config names, or "none"; "": the files are the usual ones
	twice bool   // a block somewhere asks for a second pass
	odd   bool   // a line somewhere has a keyword that gorun does not know
	home  string
	user  string // this user
	agent string // SSH_AUTH_SOCK

	read, bytes int      // files and bytes so far
	reading     []string // the file being read, and those that include it

	world world
}

// directive is one line of an ssh_config file.
type directive struct {
	key      string // lower case, by its newest name
	args     []string
	rest     string // the arguments as they stand in the file, for those that are commands
	file     string
	line     int
	odd      bool          // no keyword that gorun knows
	included [][]directive // of an Include, by file
}

func (d *directive) errorf(format string, args ...any) *ConfigError {
	return &ConfigError{File: d.file, Line: d.line, Msg: fmt.Sprintf(format, args...)}
}

// loadConfig reads the files that opts name. As with ssh, one of the default files that
// cannot be read is as good as none; unread is told, unless it is not there.
func loadConfig(opts Options, w world, unread func(name string, err error)) (*sshConfig, error) {
	c := &sshConfig{home: opts.Home, user: opts.User, agent: opts.AgentSocket, world: w}
	files := opts.Config
	switch {
	case files == nil:
		files = []string{filepath.Join(opts.Home, ".ssh", "config"), systemConfig}
	case len(files) == 0:
		c.named = "none"
	default:
		c.named = files[0]
	}
	for _, name := range files {
		base := filepath.Join(opts.Home, ".ssh")
		if strings.HasPrefix(name, "/etc/ssh/") {
			base = "/etc/ssh"
		}
		ds, err := c.load(name, base, 0)
		if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == name && e.Err != errNotRegular && opts.Config == nil {
			if !missing(err) {
				unread(name, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, ds)
	}
	return c, nil
}

// load reads one file and those it includes. Relative includes are looked up in base.
func (c *sshConfig) load(name, base string, depth int) ([]directive, error) {
	c.reading = append(c.reading, name)
	defer func() { c.reading = c.reading[:len(c.reading)-1] }()
	data, err := readConfigFile(name, maxConfig-c.bytes, name == systemConfig)
	if err != nil {
		return nil, err
	}
	if c.read, c.bytes = c.read+1, c.bytes+len(data); c.read > maxConfigFiles {
		return nil, &ConfigError{File: name, Msg: fmt.Sprintf("more than %d files are included", maxConfigFiles)}
	}
	var ds []directive
	for i, text := range strings.Split(data, "\n") {
		d, err := parseDirective(text)
		if err != nil {
			return nil, &ConfigError{File: name, Line: i + 1, Msg: err.Error()}
		}
		if d.key == "" {
			continue
		}
		d.file, d.line = name, i+1
		d.odd = !known(d.key)
		c.odd = c.odd || d.odd
		c.twice = c.twice || d.key == "match" && asksTwice(&d)
		if d.key == "include" {
			if err := c.include(&d, base, depth); err != nil {
				return nil, err
			}
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// readConfigFile returns a file's text. Like ssh it refuses one that others may write,
// unless it is the system's: in some containers that belongs to nobody.
func readConfigFile(name string, limit int, system bool) (string, error) {
	data, st, err := readFile(name, int64(limit))
	if errors.Is(err, errTooLong) {
		return "", &ConfigError{File: name, Msg: fmt.Sprintf("with this file more than %d bytes are to be read", maxConfig)}
	}
	if err != nil {
		return "", err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case system:
	case ok && sys.Uid != 0 && int(sys.Uid) != os.Getuid():
		return "", &ConfigError{File: name, Msg: "belongs to another user"}
	case st.Mode().Perm()&0o022 != 0:
		return "", &ConfigError{File: name, Msg: fmt.Sprintf("may be written by others (mode %04o)", st.Mode().Perm())}
	}
	return string(data), nil
}

func (c *sshConfig) include(d *directive, base string, depth int) error {
	if len(d.args) == 0 {
		return d.errorf("Include names no file")
	}
	if depth >= maxIncludeDepth {
		return d.errorf("Include is nested more than %d deep", maxIncludeDepth)
	}
	for _, arg := range d.args {
		pattern, err := c.includePath(arg)
		if err != nil {
			return d.errorf("Include %q: %v", arg, err)
		}
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(base, pattern)
		}
		names, err := filepath.Glob(pattern)
		if err != nil {
			return d.errorf("Include %q: bad pattern", pattern)
		}
		for _, name := range names {
			if notIncluded(name, pattern) {
				continue
			}
			if i := slices.Index(c.reading, name); i >= 0 {
				return d.errorf("includes itself%s", byWayOf(c.reading[i:len(c.reading)-1]))
			}
			ds, err := c.load(name, base, depth+1)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a dangling link, or a file that has just been removed
			}
			if err != nil {
				return err
			}
			d.included = append(d.included, ds)
		}
	}
	return nil
}

func byWayOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " by way of " + strings.Join(names, " and ")
}

// includePath expands what an Include names. The files are read once for all hosts, so
// tokens that are about a host cannot stand there.
func (c *sshConfig) includePath(arg string) (string, error) {
	path, err := expandVars(arg, c.world.getenv)
	if err == nil {
		path, err = percent(path, c.hereTokens())
	}
	if err != nil {
		return "", err
	}
	return c.tilde(path)
}

// notIncluded reports whether a name that matches an Include's pattern is left out: a
// directory, as ssh reads nothing in it, and a hidden file that is not asked for.
func notIncluded(name, pattern string) bool {
	if strings.HasPrefix(filepath.Base(name), ".") && !strings.HasPrefix(filepath.Base(pattern), ".") {
		return true
	}
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// parseDirective reads one line: keyword, blanks or one "=", arguments. The key is
// empty for a blank line or a comment.
func parseDirective(text string) (directive, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" || text[0] == '#' {
		return directive{}, nil
	}
	end := strings.IndexAny(text, " \t\"=")
	if end < 0 {
		key := strings.ToLower(text)
		return directive{key: cmp.Or(otherNames[key], key)}, nil
	}
	rest := strings.TrimLeft(text[end:], " \t")
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = after
	}
	key := strings.ToLower(text[:end])
	args, err := splitArgs(rest)
	return directive{key: cmp.Or(otherNames[key], key), args: args, rest: strings.TrimLeft(rest, " \t=")}, err
}

// splitArgs splits as ssh does: at blanks, with quotes and backslash escapes; a word
// that begins with "#" ends the line.
func splitArgs(s string) ([]string, error) {
	var args []string
	for {
		s = strings.TrimLeft(s, " \t\r\f")
		if s == "" || s[0] == '#' {
			return args, nil
		}
		word, rest, err := cutWord(s)
		if err != nil {
			return nil, err
		}
		args, s = append(args, word), rest
	}
}

func cutWord(s string) (word, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case ch == '\\' && i+1 < len(s) && escapable(s[i+1], quote):
			i++
			b.WriteByte(s[i])
		case quote == 0 && (ch == '"' || ch == '\''):
			quote = ch
		case quote != 0 && ch == quote:
			quote = 0
		case quote == 0 && strings.IndexByte(" \t\r\f", ch) >= 0:
			return b.String(), s[i:], nil
		default:
			b.WriteByte(ch)
		}
	}
	if quote != 0 {
		return "", "", fmt.Errorf("a quote (%c) is not closed", quote)
	}
	return b.String(), "", nil
}

func escapable(ch, quote byte) bool {
	return ch == '\'' || ch == '"' || ch == '\\' || ch == ' ' && quote == 0
}

// matchPattern reports whether s matches a pattern of ssh's, in which * stands for
// any text and ? for one byte.
func matchPattern(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchPatterns reports whether s matches one of the patterns and none of those that
// begin with "!".
func matchPatterns(patterns []string, s string) bool {
	matched := false
	for _, p := range patterns {
		p, negated := strings.CutPrefix(p, "!")
		if p == "" || !matchPattern(p, s) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}
