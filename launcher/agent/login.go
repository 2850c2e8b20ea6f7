package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a look at the login shell.
const (
	loginLimit = 4 * time.Second // for the shell to tell its environment: a module may be on a slow file server
	maxLogin   = 1 << 20         // bytes that it prints
	maxProfile = 256 << 10       // bytes of a profile file
	reapLimit  = time.Second     // for what it leaves behind to vanish
)

// loginShell is the user's shell as it begins when the user logs in. gorun runs no such
// shell on hosts: what only profile files set would be in no rank.
type loginShell struct {
	path    string
	session []string         // the environment that it gets
	mark    string           // no text that it prints by itself
	fork    func(func())     // calls a function on the thread that forks, and returns when that is done
	alien   map[procKey]bool // descended from this process before
	limit   time.Duration
}

// profiled reports whether the login shell's profile files may set NCCL settings: they
// speak of such names, or load modules, which may. To know it for certain the shell must
// be run, and that takes as long as the user's profile does.
func (s *settler) profiled() bool {
	for _, name := range profiles(s.etc, s.home, s.shell.path) {
		text, _ := readSmall(name, maxProfile)
		if speaksOfNCCL(text) {
			return true
		}
	}
	return false
}

// profiles lists the files that such a shell may read when a user logs in.
func profiles(etc, home, shell string) []string {
	var system, own []string
	switch path.Base(shell) {
	case "zsh":
		system = []string{"zshenv", "zprofile", "zsh/zshenv", "zsh/zprofile", "zsh/zlogin", "profile"}
		own = []string{".zshenv", ".zprofile", ".zlogin", ".profile"}
	case "csh", "tcsh":
		system = []string{"csh.cshrc", "csh.login"}
		own = []string{".tcshrc", ".cshrc", ".login"}
	case "fish":
		system = []string{"fish/config.fish"}
		own = []string{".config/fish/config.fish"}
	default:
		system = []string{"profile", "bash.bashrc", "bashrc"}
		own = []string{".bash_profile", ".bash_login", ".profile", ".bashrc"}
	}
	var out []string
	for _, f := range system {
		out = append(out, etc+"/"+f)
	}
	entries, _ := os.ReadDir(etc + "/profile.d")
	for _, e := range entries {
		out = append(out, etc+"/profile.d/"+e.Name())
	}
	for _, f := range own {
		if home != "" {
			out = append(out, home+"/"+f)
		}
	}
	return out
}

// speaksOfNCCL reports whether a profile file sets NCCL settings, or loads modules.
func speaksOfNCCL(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimLeft(line, " \t")
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		if bytes.Contains(line, []byte("NCCL_")) {
			return true
		}
		for _, loads := range []string{"module load ", "module add ", "module use ", "ml ", "spack load "} {
			if bytes.HasPrefix(line, []byte(loads)) {
				return true
			}
		}
	}
	return false
}

// environ runs the shell, and returns the environment of what it starts. It is over when
// the limit is, or ctx ends. Then nothing that the shell has started is left.
func (l loginShell) environ(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	pid, err := l.start(w)
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be run: %w", l.path, err)
	}
	defer l.clear(pid)
	r.SetReadDeadline(time.Now().Add(l.limit))
	defer context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })()
	return l.readEnviron(r)
}

// start forks the shell. That its first argument begins with a dash is what makes any
// shell one that reads the profile files. What it is to do means the same to all of them.
func (l loginShell) start(w *os.File) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	script := fmt.Sprintf("echo %s; cat /proc/self/environ; echo %s", l.mark, l.mark)
	l.fork(func() {
		pid, err = syscall.ForkExec(l.path, []string{"-" + path.Base(l.path), "-c", script}, &syscall.ProcAttr{
			Env: l.session, Files: []uintptr{null.Fd(), w.Fd(), null.Fd()},
			Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	})
	return pid, err
}

// readEnviron reads what comes between the marks. What a profile file has started may
// hold the pipe open for long.
func (l loginShell) readEnviron(r *os.File) ([]string, error) {
	var text []byte
	buf := make([]byte, 16<<10)
	for len(text) <= maxLogin {
		n, err := r.Read(buf)
		text = append(text, buf[:n]...)
		if environ, ok := between(text, l.mark+"\n"); ok {
			return environ, nil
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("%s did not begin within %v", l.path, l.limit)
		case err != nil:
			return nil, fmt.Errorf("%s ended before it had read all of its profile files, or cannot run cat", l.path)
		}
	}
	return nil, fmt.Errorf("%s printed more than %d bytes", l.path, maxLogin)
}

// between returns the environment that stands between two marks, as the kernel writes it.
func between(text []byte, mark string) (environ []string, ok bool) {
	_, rest, ok := bytes.Cut(text, []byte(mark))
	if !ok {
		return nil, false
	}
	body, _, ok := bytes.Cut(rest, []byte(mark))
	if !ok {
		return nil, false
	}
	for e := range strings.SplitSeq(string(body), "\x00") {
		if strings.Contains(e, "=") {
			environ = append(environ, e)
		}
	}
	return environ, true
}

// clear ends the shell, and whatever its profile files have started in any group: no rank
// runs yet, so all that descends from this process is theirs.
func (l loginShell) clear(pid int) {
	unix.Kill(-pid, unix.SIGKILL)
	late := time.Now().Add(reapLimit)
	for wait := pollFirst; !l.gone(pid) && time.Now().Before(late); wait = min(2*wait, pollMost) {
		<-time.After(wait)
	}
}

// gone reports whether nothing is left of the shell, and sends KILL to what is.
func (l loginShell) gone(pid int) bool {
	waitChild(pid, 0)
	return killBelow(l.alien)
}

// killBelow sends KILL to what descends from this process, but for aliens and what
// descends from those, and reaps. It reports whether nothing was left.
func killBelow(aliens map[procKey]bool) bool {
	if !hasChildren() {
		return true
	}
	all, alien := processes(), map[int]bool{}
	for _, p := range all {
		if aliens[p.key()] {
			alien[p.pid] = true
		}
	}
	gone := true
	for _, p := range below(all, map[int]bool{os.Getpid(): true}, alien) {
		waitChild(p.pid, 0) // of those that are children of this process
		if p.live() {
			p.signal(unix.SIGKILL)
			gone = false
		}
	}
	return gone
}
