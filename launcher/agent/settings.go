package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// Limits of the look for NCCL settings.
const (
	maxConf       = 64 << 10               // bytes of a file of settings; others have hundreds
	maxEntries    = 96 << 10               // bytes of variables of a session
	helloPatience = 150 * time.Millisecond // for the files before hello goes without them
	filePatience  = 3 * time.Second        // for a file: its server may be dead
)

// settler finds out which NCCL settings this host has of its own, for whoever runs there:
// those of the session, of files and of the login shell's profile files. One goroutine
// does it beside all else; files that cannot be read in time are told as such.
type settler struct {
	session   []string
	etc, home string // directories of the host's files and of the user's
	shell     loginShell
	send      func(wire.Settings) // another answer than that in hello
	end       <-chan struct{}     // closed when nobody wants to know any more

	first   chan settled  // capacity 1: what hello tells
	greeted chan struct{} // to be closed when that has been told: nothing is sent before
	asks    chan wire.Ask // capacity 1
	settled chan struct{} // closed when all is known that needs no Ask
	done    chan struct{} // closed when the goroutine has ended
}

// settled is what hello tells.
type settled struct {
	now  *wire.Settings // nil: not known yet
	more bool
}

// start begins the look.
func (s *settler) start() {
	s.first, s.greeted, s.asks = make(chan settled, 1), make(chan struct{}), make(chan wire.Ask, 1)
	s.settled, s.done = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.end
		cancel()
	}()
	go func() {
		defer close(s.done)
		now := s.look(ctx)
		close(s.settled)
		for {
			select {
			case ask := <-s.asks:
				user := ""
				if len(ask.ConfFile) > 0 {
					user = within(string(ask.Dir), string(ask.ConfFile))
				}
				now.Files = s.read(ctx, user)
				s.send(now)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// look finds out what can be known without the head, and tells it.
func (s *settler) look(ctx context.Context) (now wire.Settings) {
	now.Session = entries(s.session, nil)
	given, _ := lookup(s.session, "NCCL_CONF_FILE")
	profile, known, asks := s.scan(ctx), make(chan struct{}), false
	go func() {
		defer close(known)
		now.Files = s.read(ctx, given)
		if answer := <-profile; answer != nil {
			asks = *answer
		} else {
			now.Trouble = "its profile files cannot be read: " + noAnswer
		}
	}()
	untold := true
	select {
	case <-known:
		files := now
		s.first <- settled{&files, asks}
		untold = false
	case <-time.After(helloPatience):
		s.first <- settled{nil, true}
	}
	<-known
	if asks {
		s.login(ctx, &now)
	}
	select {
	case <-s.greeted:
	case <-ctx.Done():
		return now
	}
	if asks || untold {
		s.send(now)
	}
	return now
}

// scan has the profile files looked at; nil comes if that takes too long.
func (s *settler) scan(ctx context.Context) <-chan *bool {
	found, answer := make(chan bool, 1), make(chan *bool, 1)
	go func() { found <- s.profiled() }() // a dead file server may hold it up for ever
	go func() {
		ctx, cancel := context.WithTimeout(ctx, filePatience)
		defer cancel()
		select {
		case b := <-found:
			answer <- &b
		case <-ctx.Done():
			answer <- nil
		}
	}()
	return answer
}

// login adds what the login shell's profile files set.
func (s *settler) login(ctx context.Context, now *wire.Settings) {
	environ, err := s.shell.environ(ctx)
	if err != nil {
		now.Trouble = cut(clean(err.Error()))
		return
	}
	now.Login = entries(environ, s.session)
	here, _ := lookup(s.session, "NCCL_CONF_FILE")
	if given, _ := lookup(environ, "NCCL_CONF_FILE"); given != here {
		now.Files = s.read(ctx, given)
	}
}

// entries are the NCCL settings of environ that known has not.
func entries(environ, known []string) (out []wire.Bytes) {
	size := 0
	seen := map[string]bool{}
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if !ok || seen[name] || !envsync.HostSetting(name) {
			continue
		}
		seen[name] = true
		if old, there := lookup(known, name); there && old == value {
			continue
		}
		if size += len(e); size > maxEntries {
			break
		}
		out = append(out, wire.Bytes(e))
	}
	return out
}

const noAnswer = "the file system gave no answer"

// read reads the files that NCCL does, in its order: what NCCL_CONF_FILE names, if that is
// given, else the user's, then the host's. Those that are not there are left out.
func (s *settler) read(ctx context.Context, given string) (out []wire.ConfFile) {
	ctx, cancel := context.WithTimeout(ctx, filePatience)
	defer cancel()
	files := []wire.ConfFile{{Path: wire.Bytes(s.home + "/.nccl.conf"), User: true}, {Path: wire.Bytes(s.etc + "/nccl.conf")}}
	if given != "" {
		files[0].Path = wire.Bytes(given)
	}
	texts := make([]chan wire.ConfFile, len(files))
	for i, f := range files {
		texts[i] = make(chan wire.ConfFile, 1)
		go func() { // a dead file server may hold it up for ever
			var err error
			if f.Text, err = readSmall(string(f.Path), maxConf); err != nil {
				f.Trouble = clean(err.Error())
			}
			texts[i] <- f
		}()
	}
	for i, f := range files {
		select {
		case f = <-texts[i]:
		case <-ctx.Done():
			f.Trouble = "cannot be read: " + noAnswer
		}
		if f.Trouble != "" || f.Text != nil {
			out = append(out, f)
		}
	}
	return out
}

// readSmall returns the text of a regular file, nil if there is none. It does not wait for
// the other end of a pipe.
func readSmall(name string, most int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, bare(err)
	case name == os.DevNull:
		return nil, nil
	case fi.IsDir():
		return nil, errDirectory
	case !fi.Mode().IsRegular():
		return nil, errors.New("is no regular file")
	case fi.Size() > int64(most):
		return nil, fmt.Errorf("has %d bytes, more than the %d that gorun reads", fi.Size(), most)
	}
	// Files of /proc and the like say no size, and those on disks may grow.
	var text bytes.Buffer
	text.Grow(int(fi.Size()) + bytes.MinRead)
	text.ReadFrom(io.LimitReader(f, int64(most))) // what has been read before an error counts
	return text.Bytes(), nil
}

// homeDir is where NCCL looks for the user's file: in the home directory that the user
// database names, whatever HOME says. Users of a directory service are in no file; then
// HOME counts.
func homeDir(environ []string) string {
	text, _ := readSmall("/etc/passwd", 1<<20)
	self := fmt.Sprint(os.Getuid())
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) == 7 && f[2] == self && path.IsAbs(f[5]) {
			return f[5]
		}
	}
	home, _ := lookup(environ, "HOME")
	return home
}
