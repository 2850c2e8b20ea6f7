package output

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const maxOpen = 512 // of a job's files at a time

// files writes every stream to a file of its own, all from one goroutine: they are
// below one directory, so most likely on one file system.
type files struct {
	names   []string // by rank, without ending
	most    int      // files open at a time
	written func(rank, which, n int)
	failed  func(err error, dest string)

	wake chan struct{} // capacity 1
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	streams [3][]file // guarded by mu, as what follows
	dirty   []*file   // those that have bytes to write, or must be closed, in order
	flight  int       // bytes of the write in progress
	closing bool      // nothing more comes
	gone    bool      // nobody waits for what is left

	open []*file // of run; oldest first
}

// file is one stream and its file.
type file struct {
	ring
	queued, ended bool
	rank, which   int

	f   *os.File // of run; nil while not open
	err error    // of run; the first one
}

// newFiles makes an empty file for each stream, and the directories it is in.
func newFiles(o Options) (*files, error) {
	fs := &files{
		names: o.Files, most: maxOpen, written: o.Written, failed: o.Failed,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := fs.clear(); err != nil {
		return nil, err
	}
	for _, which := range []int{stdout, stderr} {
		fs.streams[which] = make([]file, len(fs.names))
		for i := range fs.streams[which] {
			s := &fs.streams[which][i]
			s.rank, s.which = i, which
			// Not through a link, and not into a file of another job that starts now.
			f, err := os.OpenFile(fs.path(s), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil {
				return nil, err
			}
		}
	}
	return fs, nil
}

func (fs *files) path(s *file) string {
	return fs.names[s.rank] + [...]string{stdout: ".out", stderr: ".err"}[s.which]
}

// clear makes the directories that are missing and removes what an earlier job has
// left there: every rank's files where they are called rank.N, else those whose names
// come again.
func (fs *files) clear() error {
	plain := map[string]bool{} // by directory
	for _, name := range fs.names {
		dir := filepath.Dir(name)
		plain[dir] = plain[dir] || isOutput(filepath.Base(name)+".out")
	}
	for _, dir := range slices.Sorted(maps.Keys(plain)) {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if plain[dir] {
			if err := removeOld(dir); err != nil {
				return err
			}
		}
	}
	for _, name := range fs.names {
		if err := errors.Join(remove(name+".out"), remove(name+".err")); err != nil {
			return err
		}
	}
	return nil
}

// removeOld removes what is called as a rank's files from dir.
func removeOld(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isOutput(e.Name()) {
			if err := remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file, which may be missing, but no directory.
func remove(path string) error {
	if err := syscall.Unlink(path); err != nil && err != syscall.ENOENT {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// isOutput reports whether name is one that a rank's file has in a plain directory.
func isOutput(name string) bool {
	n, ok := strings.CutPrefix(name, "rank.")
	n, out := strings.CutSuffix(n, ".out")
	n, err := strings.CutSuffix(n, ".err")
	return ok && out != err && n != "" && strings.Trim(n, "0123456789") == ""
}

func (fs *files) write(rank, which int, p []byte) {
	fs.mu.Lock()
	if s := &fs.streams[which][rank]; !fs.closing {
		s.push(p)
		fs.queueLocked(s)
	}
	fs.mu.Unlock()
	fs.poke()
}

func (fs *files) end(rank, which int) {
	fs.mu.Lock()
	fs.endLocked(&fs.streams[which][rank])
	fs.mu.Unlock()
	fs.poke()
}

func (fs *files) endLocked(s *file) {
	s.ended = true
	fs.queueLocked(s)
}

func (fs *files) queueLocked(s *file) {
	if !s.queued {
		s.queued = true
		fs.dirty = append(fs.dirty, s)
	}
}

// close ends every stream; run then writes what is left and ends.
func (fs *files) close() *drain {
	fs.mu.Lock()
	for which := range fs.streams {
		for i := range fs.streams[which] {
			fs.endLocked(&fs.streams[which][i])
		}
	}
	fs.closing = true
	fs.mu.Unlock()
	fs.poke()
	return &drain{"the ranks' files", fs.done, fs.quit}
}

func (fs *files) quit() (left int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.gone = true
	left = fs.flight
	for which := range fs.streams {
		for i := range fs.streams[which] {
			left += fs.streams[which][i].n
		}
	}
	return left
}

func (fs *files) poke() {
	select {
	case fs.wake <- struct{}{}:
	default:
	}
}

// run writes what the streams hold until fs is closed.
func (fs *files) run() {
	defer close(fs.done)
	var todo []*file
	buf := make([]byte, 0, batchSize)
	for {
		fs.mu.Lock()
		todo, fs.dirty = fs.dirty, todo[:0]
		end := fs.gone || fs.closing && len(todo) == 0
		fs.mu.Unlock()
		if end {
			return
		}
		if len(todo) == 0 {
			<-fs.wake
		}
		for _, s := range todo {
			buf = fs.step(s, buf[:0])
		}
	}
}

// step writes a piece of what s holds, or closes it at its end; buf is for use.
func (fs *files) step(s *file, buf []byte) []byte {
	fs.mu.Lock()
	n := min(s.n, batchSize)
	buf = s.appendFirst(buf, n)
	s.drop(n)
	s.queued = false
	fs.flight = n
	if s.n > 0 {
		fs.queueLocked(s)
	}
	last, gone := s.ended && s.n == 0, fs.gone
	fs.mu.Unlock()
	if gone {
		return buf
	}
	if n > 0 {
		fs.try(s, func() error { return fs.put(s, buf) })
		fs.written(s.rank, s.which, n)
	}
	if last && s.f != nil {
		fs.shut(s)
	}
	return buf
}

// try runs f unless the file has failed before, and tells of a first failure.
func (fs *files) try(s *file, f func() error) {
	if s.err != nil {
		return
	}
	if s.err = f(); s.err != nil {
		fs.failed(s.err, fs.path(s))
	}
}

func (fs *files) put(s *file, p []byte) error {
	if s.f == nil {
		for len(fs.open) >= fs.most {
			fs.shut(fs.open[0])
		}
		f, err := os.OpenFile(fs.path(s), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		s.f = f
		fs.open = append(fs.open, s)
	}
	return writeAll(s.f, p)
}

// shut closes the file, which a later put opens again.
func (fs *files) shut(s *file) {
	f := s.f
	s.f = nil
	for i, o := range fs.open {
		if o == s {
			fs.open = append(fs.open[:i], fs.open[i+1:]...)
			break
		}
	}
	fs.try(s, f.Close) // some file systems tell of a full disk only here
}
