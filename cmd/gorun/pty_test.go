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

// startAtTerminal runs gorun in the foreground of a terminal with so many rows and columns,
// of which keyboard is the other side. There is no shell, as under ssh -t.
func startAtTerminal(t *testing.T, rows, cols uint16, args ...string) (p *process, keyboard *os.File) {
	t.Helper()
	return startOnTerminal(t, rows, cols, func(c *exec.Cmd) { c.Args = append(c.Args, args...) })
}

// startOnTerminal runs the program that change says as the terminal's first.
func startOnTerminal(t *testing.T, rows, cols uint16, change func(*exec.Cmd)) (p *process, keyboard *os.File) {
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
		change(c)
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

// TestSuspendedByAShell: ^Z stops gorun and what it runs, and the shell has its terminal
// back.
func TestSuspendedByAShell(t *testing.T) {
	t.Parallel()
	const script = `gorun -np 1 --stdin none sh -c 'trap "echo interrupted; exit 0" INT; trap ": >on" CONT; : >up; while :; do sleep 0.05; done'
		: >stopped; until test -e go; do sleep 0.05; done; fg`
	p, keyboard := startOnTerminal(t, 24, 80, func(c *exec.Cmd) { c.Path, c.Args = "/bin/sh", []string{"sh", "-mc", script} })
	p.waitFiles("up")
	keyboard.WriteString("\x1a") // ^Z
	p.waitFiles("stopped")
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	p.waitFiles("on")
	keyboard.WriteString("\x03") // ^C
	if stdout, stderr := p.end(130); !strings.Contains(stdout, "interrupted\n") {
		t.Errorf("stdout %q, stderr %q; want the rank to be interrupted", stdout, stderr)
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
	keyboard.WriteString("\x1a") // ^Z: no shell would ever continue this gorun
	keyboard.WriteString("\x03") // ^C
	if stdout, stderr := p.end(130); strings.Count(stdout, "interrupted\n") != 2 || !strings.Contains(stderr, "SIGINT") {
		t.Errorf("stdout %q, stderr %q; want both ranks to be interrupted", stdout, stderr)
	}
}
