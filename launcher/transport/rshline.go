package transport

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gorun/hostfile"
)

// rsh is a parsed Options.Rsh: a command that runs another one on a host.
type rsh struct {
	words []string // with placeholders
}

// Placeholders of Options.Rsh. The first three may stand inside a word; the others are
// words, of which one stands where the command for the host goes.
const (
	holdHost    = "host"
	holdUser    = "user"
	holdPort    = "port"
	holdCommand = "command" // one word, for a shell on the host that makes words of it
	holdSh      = "sh"      // the words /bin/sh -c COMMAND, which no shell on the host touches
)

// CheckRsh says what is wrong with an Options.Rsh, or with its use for hosts; nil if
// nothing is.
func CheckRsh(line string, hosts ...hostfile.Host) error {
	r, err := parseRsh(line)
	if err != nil {
		return err
	}
	here := thisMachine()
	for _, h := range hosts {
		if here.is(h) {
			continue
		}
		if _, err := r.argv(h, "cat"); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

// parseRsh reads an Options.Rsh.
func parseRsh(line string) (*rsh, error) {
	words, err := splitWords(line)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("there is no command")
	}
	r := &rsh{words: words}
	commands := r.count(holdCommand) + r.count(holdSh)
	hosts := r.count(holdHost)
	for i, word := range words {
		_, err := fill(word, func(name string) (string, error) {
			switch name {
			case holdHost, holdUser, holdPort:
				if i == 0 {
					return "", fmt.Errorf("{%s} cannot be in the command's name", name)
				}
				return "", nil
			case holdCommand, holdSh:
				if word != "{"+name+"}" || i == 0 {
					return "", fmt.Errorf("{%s} must be a word of its own, behind the command's name", name)
				}
				return "", nil
			}
			return "", fmt.Errorf("unknown placeholder {%s}; there are {host}, {user}, {port}, {command} and {sh}, and {{ is a brace", name)
		})
		if err != nil {
			return nil, err
		}
	}
	switch {
	case commands > 1:
		return nil, errors.New("the command for the host goes to one place only: {command} or {sh}")
	case commands == 1 && hosts == 0:
		return nil, errors.New("where {command} or {sh} is, {host} must be, too")
	}
	if hosts == 0 {
		r.words = append(r.words, "{host}")
	}
	if commands == 0 {
		r.words = append(r.words, "{"+wayOf(words)+"}")
	}
	return r, nil
}

// wayOf guesses by its name how a command passes on what is to be run: rsh, ssh and the
// like join the words behind the host's name and give them to the login shell there; what
// enters a container runs them as they are.
func wayOf(words []string) string {
	direct := []string{"docker", "podman", "nerdctl", "kubectl", "oc", "crictl", "lxc", "incus", "nsenter", "chroot"}
	before := []string{"sudo", "doas", "env"}
	for _, w := range words {
		name := filepath.Base(w)
		switch {
		case slices.Contains(direct, name):
			return holdSh
		case !slices.Contains(before, name) && !strings.HasPrefix(w, "-") && !strings.Contains(w, "="):
			return holdCommand
		}
	}
	return holdCommand
}

// count is how often a placeholder occurs.
func (r *rsh) count(name string) int {
	n := 0
	for _, w := range r.words {
		fill(w, func(found string) (string, error) {
			if found == name {
				n++
			}
			return "", nil
		})
	}
	return n
}

// argv is the command line that runs command on h.
func (r *rsh) argv(h hostfile.Host, command string) ([]string, error) {
	if strings.HasPrefix(h.Target(), "-") {
		return nil, fmt.Errorf("%q is not a host name", h.Target())
	}
	values := map[string]string{holdHost: h.Target(), holdUser: h.User, holdPort: ""}
	if h.Port != 0 {
		values[holdPort] = strconv.Itoa(h.Port)
	}
	for _, name := range []string{holdUser, holdPort} {
		switch used := r.count(name) > 0; {
		case used && values[name] == "":
			return nil, fmt.Errorf("there is {%s}, and the hostfile gives this host no %s=", name, name)
		case !used && values[name] != "":
			return nil, fmt.Errorf("the hostfile gives this host %s=%s, and there is no {%s}", name, values[name], name)
		}
	}
	var argv []string
	for _, w := range r.words {
		switch w {
		case "{" + holdCommand + "}":
			argv = append(argv, command)
		case "{" + holdSh + "}":
			argv = append(argv, "/bin/sh", "-c", command)
		default:
			text, err := fill(w, func(name string) (string, error) { return values[name], nil })
			if err != nil {
				return nil, err
			}
			argv = append(argv, text)
		}
	}
	return argv, nil
}

// fill replaces every {name} in word by what value says, and {{ by {.
func fill(word string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(word, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if after, double := strings.CutPrefix(rest, "{"); double {
			b.WriteByte('{')
			word = after
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("no } behind %q; {{ is a brace", "{"+rest)
		}
		text, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		word = after
	}
}

// splitWords splits a line as a shell does: by blanks, with '…', "…" and \. As no shell
// is there, what one would do more is refused.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false // also an empty word, if quoted
	if strings.IndexByte(line, 0) >= 0 {
		return nil, errors.New("it holds a NUL byte")
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case strings.IndexByte(" \t\n", c) >= 0:
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
			continue
		case c == '\'' || c == '"':
			n, err := quoted(&word, line[i:])
			if err != nil {
				return nil, err
			}
			i += n - 1
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == '\\':
			return nil, errors.New(`it ends in \`)
		case strings.IndexByte("$`|&;<>()*?", c) >= 0 || strings.IndexByte("~#", c) >= 0 && !begun:
			return nil, fmt.Errorf("%q: no shell reads this line; put the character in single quotes, or the line into a script", c)
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted adds to word what is between the quotes with which text begins, and returns
// the length of both and what is between.
func quoted(word *strings.Builder, text string) (int, error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return i + 1, nil
		case quote == '"' && (c == '$' || c == '`'):
			return 0, fmt.Errorf("%q: no shell reads this line; put the character in single quotes, or the line into a script", c)
		case quote == '"' && c == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\", text[i+1]) >= 0:
			i++
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, fmt.Errorf("no %c behind %q", quote, text)
}
