package probe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxWords = 64 << 10               // bytes kept of what a program prints
	killWait = 200 * time.Millisecond // for a killed program to be gone
)

// program is a program that was started without input, in a process group of its own. It
// ends with this process. Its environment is this process's, with messages in English.
type program struct {
	words capped
	done  chan struct{} // closed when it has ended

	mu     sync.Mutex
	err    error // guarded by mu: why it could not be started
	pid    int   // guarded by mu; 0: not yet started, or ended
	killed bool  // guarded by mu
}

// start starts a program. It does not wait for that.
func start(path string, args ...string) *program {
	p := &program{done: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &p.words, &p.words
	cmd.WaitDelay = killWait / 2 // a child of the program may hold its output open
	go p.follow(cmd)
	return p
}

// follow starts the program and waits for its end.
func (p *program) follow(cmd *exec.Cmd) {
	defer close(p.done)
	// The program is killed when the thread ends that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
		return
	}
	p.mu.Lock()
	p.pid = cmd.Process.Pid
	late := p.killed
	p.mu.Unlock()
	if late {
		p.kill()
	}
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	// What it has left behind in its group ends with it. The group's number cannot be
	// another's while the program has not been waited for.
	p.kill()
	p.mu.Lock()
	p.pid = 0
	p.mu.Unlock()
	// How it ended says nothing that its words do not: whoever reaps orphans in this
	// process may have been faster.
	_ = cmd.Wait()
}

// kill ends the process group. It may be called at any time.
func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.pid > 0 {
		// An error means that it is gone.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// end kills what is left of the program and returns its words. It waits for a moment
// only, if the kernel does not let go of it.
func (p *program) end() string {
	p.kill()
	left := time.NewTimer(killWait)
	defer left.Stop()
	select {
	case <-p.done:
	case <-left.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err.Error()
	}
	return p.words.text()
}

// wait returns whether the program has ended before ctx.
func (p *program) wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// capped keeps the first maxWords bytes that are written to it.
type capped struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf.Write(b[:min(len(b), maxWords-c.buf.Len())])
	return len(b), nil
}

func (c *capped) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
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
