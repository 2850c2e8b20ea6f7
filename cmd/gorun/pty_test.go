package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startAtTerminal runs gorun as a shell does, in the foreground of a terminal with so
// many rows and columns, of which keyboard is the other side.
func startAtTerminal(t *testing.T, rows, cols uint16, args ...string) (p *process, keyboard *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	resize(t, keyboard, rows, cols)
	return startWith(t, func(c *exec.Cmd) {
		c.Args = append(c.Args, args...)
		c.Stdin, c.SysProcAttr = screen, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}), keyboard
}

func resize(t *testing.T, terminal *os.File, rows, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}

// read waits until a rank has written text to a file.
func (p *process) read(name, text string) {
	p.t.Helper()
	var got []byte
	if !until(patience, func() bool { got, _ = os.ReadFile(filepath.Join(p.dir, name)); return string(got) == text }) {
		p.t.Fatalf("%s has %q; want %q", name, got, text)
	}
}

// TestTerminalOfRanks: the ranks' terminals are as large as gorun's, and keys pressed
// there are signals of gorun's, which passes them on.
func TestTerminalOfRanks(t *testing.T) {
	t.Parallel()
	const sizes = `size() { stty size <&1 >new.$RANK; mv new.$RANK size.$RANK; }; trap size WINCH; trap 'echo interrupted; exit 0' INT; size; while :; do sleep 0.05; done`
	p, keyboard := startAtTerminal(t, 50, 132, "--pty", "-np", "2", "--oversubscribe", "--stdin", "none", "sh", "-c", sizes)
	p.read("size.0", "50 132\n")
	p.read("size.1", "50 132\n")
	resize(t, keyboard, 1, 1)
	p.read("size.0", "1 1\n")
	p.read("size.1", "1 1\n")
	keyboard.WriteString("\x1a") // ^Z
	pid := strconv.Itoa(p.cmd.Process.Pid)
	if !until(patience, func() bool { return processState(pid) == "T" }) {
		t.Fatalf("gorun is in state %q; want T", processState(pid))
	}
	p.signal(syscall.SIGCONT)
	if !until(patience, func() bool { return processState(pid) != "T" }) {
		t.Fatal("gorun does not go on")
	}
	keyboard.WriteString("\x03") // ^C
	if stdout, stderr := p.end(130); strings.Count(stdout, "interrupted\n") != 2 || !strings.Contains(stderr, "SIGINT") {
		t.Errorf("stdout %q, stderr %q; want both ranks to be interrupted", stdout, stderr)
	}
}
