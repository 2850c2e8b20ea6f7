package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Exit codes of a rank that cannot start, by the shell's convention.
const (
	codeOurs      = 125
	codeCannotRun = 126
	codeNotFound  = 127
)

// defaultPath is searched when a rank has no PATH, as execvp(3) does.
const defaultPath = "/bin:/usr/bin"

// A startError says why a rank, or the host, cannot start.
type startError struct {
	code int
	text string
}

func (e *startError) Error() string { return e.text }

func cannotRun(format string, args ...any) error {
	return &startError{codeCannotRun, fmt.Sprintf(format, args...)}
}

// findProgram finds what a rank is to run: name as it is if it has a slash, else in
// the rank's PATH; relative places are below dir. The errors are *startError.
func findProgram(name, dir, path string, hasPath bool) (string, error) {
	if name == "" {
		return "", &startError{codeNotFound, "the program's name is empty"}
	}
	if strings.Contains(name, "/") {
		full := within(dir, name)
		if err := runnable(full); errors.Is(err, os.ErrNotExist) {
			text := fmt.Sprintf("program %q not found", name)
			if full != name {
				text += " in directory " + dir
			}
			return "", &startError{codeNotFound, text}
		} else if err != nil {
			return "", cannotRun("program %q: %v", name, err)
		}
		return full, nil
	}
	if !hasPath {
		path = defaultPath
	}
	return searchPath(name, dir, path)
}

// searchPath returns the first runnable file called name. As in a shell, one that
// cannot run is passed over, and is the error if nothing else is found.
func searchPath(name, dir, path string) (string, error) {
	var refused error
	for entry := range strings.SplitSeq(path, ":") {
		full := within(dir, entry+"/"+name)
		if entry == "" { // the working directory
			full = within(dir, name)
		}
		err := runnable(full)
		if err == nil {
			return full, nil
		}
		if refused == nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDirectory) {
			refused = cannotRun("program %q: %s: %v", name, full, err)
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &startError{codeNotFound, fmt.Sprintf("program %q not found; PATH searched: %s", name, path)}
}

// within makes path absolute; it does not tidy it up, as a ".." behind a symbolic
// link is no step back.
func within(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

var (
	errDirectory = errors.New("is a directory")
	errDenied    = errors.New("permission denied (not executable)")
	errNoexec    = errors.New("permission denied (the file system is mounted noexec)")
)

// runnable reports why path could not be executed, as far as a look at it tells. A
// file that is not there is os.ErrNotExist.
func runnable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return os.ErrNotExist
	case err != nil:
		return bare(err)
	case fi.IsDir():
		return errDirectory
	case !fi.Mode().IsRegular():
		return errors.New("is no regular file")
	}
	if unix.Access(path, unix.X_OK) != nil {
		var fs unix.Statfs_t
		if fi.Mode()&0o111 != 0 && unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0 {
			return errNoexec
		}
		return errDenied
	}
	return format(path)
}

// bare takes the operation and the path off an error of package os.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
