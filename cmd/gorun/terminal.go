package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gorun/launcher"
)

// terminal asks the user for secrets, on the controlling terminal whatever standard
// input and output are. Its methods may be called from several goroutines.
type terminal struct {
	file *os.File

	asking sync.Mutex // held by the one prompt that is on the screen

	mu     sync.Mutex
	before *term.State // while a prompt has echo switched off; guarded by mu
	closed bool        // guarded by mu
}

// openTerminal returns nil if gorun has no controlling terminal.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: f}
}

// prompt returns ask, or nil if there is no terminal.
func (t *terminal) prompt() func(string) ([]byte, error) {
	if t == nil {
		return nil
	}
	return t.ask
}

// ask prints prompt and reads a line without echo. It blocks until the line is there;
// close makes the terminal usable again meanwhile. A process in the background would
// be stopped for reading the terminal, so ask fails there.
func (t *terminal) ask(prompt string) ([]byte, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	fd := int(t.file.Fd())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil, errors.New("gorun is in the background and cannot ask")
	}
	if err := t.begin(fd); err != nil {
		return nil, err
	}
	defer t.end()
	fmt.Fprint(t.file, prompt)
	line, err := term.ReadPassword(fd)
	fmt.Fprint(t.file, "\r\n")
	return line, err
}

func (t *terminal) begin(fd int) error {
	state, err := term.GetState(fd)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	t.before = state
	return err
}

func (t *terminal) end() {
	t.mu.Lock()
	t.before = nil
	t.mu.Unlock()
}

// close restores the terminal if a prompt is still on the screen. The goroutine that
// reads it stays blocked: nothing but the process's end releases it.
func (t *terminal) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.before != nil {
		term.Restore(int(t.file.Fd()), t.before)
		fmt.Fprint(t.file, "\r\n")
	}
}

// size is that of the terminal's window, 0 if it has none.
func (t *terminal) size() (rows, cols int) {
	if t == nil {
		return 0, 0
	}
	cols, rows, _ = term.GetSize(int(t.file.Fd()))
	return rows, cols
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isPipe reports whether whoever reads w may write it to the terminal itself, at any time.
func isPipe(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// usualWidth is taken for that of a terminal that does not know its own.
const usualWidth = 80

// width returns what tells the width of the terminal that w writes to, 0 while gorun is in
// the background, and less while the terminal does not echo: then somebody, who need not be
// gorun, asks for a secret, or a rank has it for itself. It is nil if there is none, or if
// lines cannot be taken away from it.
func (c *command) width(w launcher.IO) func() int {
	out := c.stderr
	if !w.StderrTerminal {
		out = c.stdout
	}
	f, ok := out.(*os.File)
	if kind := c.env.get("TERM"); !ok || !w.StderrTerminal && !w.StdoutTerminal || kind == "" || kind == "dumb" {
		return nil
	}
	fd := int(f.Fd())
	return func() int {
		if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() {
			return 0
		}
		if state, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil && state.Lflag&unix.ECHO == 0 {
			return -1
		}
		if n, _, err := term.GetSize(fd); err == nil && n > 0 {
			return n
		}
		return usualWidth
	}
}

// wantColor follows no-color.org and TERM=dumb.
func wantColor(env environment, terminal bool) bool {
	return terminal && env.get("NO_COLOR") == "" && env.get("TERM") != "dumb"
}
