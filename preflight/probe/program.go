package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/preflight/child"
)

const (
	maxWords = 64 << 10               // bytes kept of what a program prints
	killWait = 200 * time.Millisecond // for a killed program to be gone
)

// program is a program that was started. Its words are what it prints, to either output.
type program struct {
	*child.Process
	words *child.Output
}

// start starts a program. It does not wait for that.
func start(path string, args ...string) program {
	words := &child.Output{Most: maxWords}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = words, words
	return program{child.Start(cmd, killWait), words}
}

// end kills what is left of the program and returns its words. How it ended says nothing
// that these do not.
func (p program) end() string {
	p.End()
	if err := p.Failure(); err != nil {
		return err.Error()
	}
	return string(p.words.Bytes())
}

// find returns the path of a program in PATH, or where systems keep programs; "" if there
// is none.
func find(name string) string {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/perftest/bin")
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); filepath.IsAbs(file) && err == nil && info.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return ""
}

// oneLine is text in one line of printable characters, at most so many bytes of it.
func oneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
	if text = strings.ToValidUTF8(text, "?"); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
