package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// cargo is what is brought to the hosts: files of this machine, by name in the job's
// directory there. It does not change once it is read.
type cargo struct {
	files    []freight
	at       map[[2]string]int // their indices, by name and path
	programs []string          // by app: the file that is its program; "": it is not sent
	room     chan struct{}
	sent     atomic.Int64 // bytes of content that left for hosts
}

// freight is one file of a cargo.
type freight struct {
	name   string
	path   string // absolute
	size   int64
	exec   bool
	empty  bool // a directory with nothing in it
	needed bool // named by --preload, or in a directory that is
	list   []byte
	root   bcast.Root
}

const (
	maxFreight = 10_000 // files of a job
	mostReads  = 16     // pieces that are in memory at once
)

// FileError says why a file cannot be sent to the hosts.
type FileError struct {
	Path    string // as the user wrote it, or found below that
	Program bool   // it was to be run by ranks
	Err     error
}

func (e *FileError) Error() string {
	if e.Program {
		return fmt.Sprintf("--bcast: program %q: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("--preload %q: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// ChangedError is a file that is not what it was when the job began.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%q was changed while it was sent", e.Path)
}

// ships reports whether files are brought to the hosts.
func (j Job) ships() bool { return j.Bcast || len(j.Preload) > 0 }

// loadCargo finds out what the job sends, without reading any of it; nil for nothing.
// Names count from dir.
func loadCargo(job Job, dir string) (*cargo, error) {
	if !job.ships() {
		return nil, nil
	}
	c := &cargo{at: map[[2]string]int{}, programs: make([]string, len(job.Apps)), room: make(chan struct{}, mostReads)}
	for i, a := range job.Apps {
		if !job.Bcast {
			break
		}
		name, err := c.addProgram(a.Args[0], dir)
		if err != nil {
			return nil, &FileError{a.Args[0], true, bareError(err)}
		}
		c.programs[i] = name
	}
	for _, p := range job.Preload {
		path := p
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := c.add(path, nameOf(path, dir), nil); err != nil {
			var at *fs.PathError
			if errors.As(err, &at) && at.Path != path {
				p = at.Path
			}
			return nil, &FileError{p, false, bareError(err)}
		}
	}
	return c, c.checkNames()
}

// nameOf is the name that the file at path has on the hosts: seen from dir, or only the
// last word of it if it is not below dir.
func nameOf(path, dir string) string {
	if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) {
		return name
	}
	return filepath.Base(path)
}

func (c *cargo) addProgram(name, dir string) (string, error) {
	path := name
	if !strings.Contains(name, "/") {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			return "", cmp.Or(errors.Unwrap(err), err)
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case fi.IsDir():
		return "", errors.New("is a directory")
	case fi.Mode()&0o111 == 0:
		return "", errors.New("permission denied (not executable)")
	}
	name = nameOf(path, dir)
	return name, c.addFile(path, name, fi, false)
}

// add adds what is at path: a file, what a symbolic link leads to, or all that is below
// a directory. above are the directories that it was found in.
func (c *cargo) add(path, name string, above []fs.FileInfo) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return c.addFile(path, name, fi, true)
	}
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, fi) }) {
		return &fs.PathError{Path: path, Err: errors.New("a symbolic link leads back to a directory that it is in")}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(entries) == 0 && name != "." {
		return c.put(freight{name: name, path: path, empty: true})
	}
	for _, e := range entries {
		if err := c.add(filepath.Join(path, e.Name()), filepath.Join(name, e.Name()), append(above, fi)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cargo) addFile(path, name string, fi fs.FileInfo, needed bool) error {
	var err error
	switch {
	case !fi.Mode().IsRegular():
		err = fmt.Errorf("is a %s, not a file or a directory", kindOf(fi.Mode()))
	case fi.Size() > bcast.MaxSize:
		err = fmt.Errorf("has %d bytes; the most is %d", fi.Size(), int64(bcast.MaxSize))
	default:
		return c.put(freight{name: name, path: path, size: fi.Size(), exec: fi.Mode()&0o111 != 0, needed: needed})
	}
	return &fs.PathError{Path: path, Err: err}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// put adds f, unless it is there already.
func (c *cargo) put(f freight) error {
	key := [2]string{f.name, f.path}
	if i, ok := c.at[key]; ok {
		c.files[i].needed = c.files[i].needed || f.needed
		return nil
	}
	if len(c.files) == maxFreight {
		return &fs.PathError{Path: f.path, Err: fmt.Errorf("more than %d files are to be sent; an archive of them is one file", maxFreight)}
	}
	c.at[key] = len(c.files)
	c.files = append(c.files, f)
	return nil
}

// checkNames refuses two files of which one is in the other's way.
func (c *cargo) checkNames() error {
	by := map[string]*freight{}
	for i := range c.files {
		f := &c.files[i]
		if other := by[f.name]; other != nil {
			return &FileError{f.path, false, fmt.Errorf("it would have the same name on the hosts as %q: %q", other.path, f.name)}
		}
		by[f.name] = f
	}
	for name, f := range by {
		for above := filepath.Dir(name); above != "."; above = filepath.Dir(above) {
			if other := by[above]; other != nil && !other.empty {
				return &FileError{f.path, false, fmt.Errorf("%q has the name of its directory on the hosts, %q", other.path, above)}
			}
		}
	}
	return nil
}

func bareError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// size is how many bytes of content there are.
func (c *cargo) size() (bytes int64) {
	for _, f := range c.files {
		bytes += f.size
	}
	return bytes
}

// read reads every file to find out what it is. read is told how many bytes more have
// been read.
func (c *cargo) read(ctx context.Context, read func(n int)) error {
	for i := range c.files {
		f := &c.files[i]
		if f.empty {
			continue
		}
		list, err := f.listOf(ctx, read)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return &ChangedError{f.path}
		}
		if err != nil {
			return &FileError{f.path, !f.needed, bareError(err)}
		}
		f.list, f.root = list, bcast.RootOf(f.size, list)
	}
	return nil
}

func (f *freight) listOf(ctx context.Context, read func(n int)) ([]byte, error) {
	r, err := f.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	list, err := bcast.List(ctx, r, f.size, read)
	if err != nil {
		return nil, err
	}
	if fi, err := r.Stat(); err != nil || fi.Size() != f.size {
		return nil, io.ErrUnexpectedEOF
	}
	return list, nil
}

// open opens the file. It may have become a pipe, which must not hold us up.
func (f *freight) open() (*os.File, error) {
	return os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// manifest is the cargo as hosts are told of it: one frame for all of them.
func (c *cargo) manifest() (wire.Frame, error) {
	out := make([]wire.File, len(c.files))
	for i, f := range c.files {
		out[i] = wire.File{
			Name: wire.Bytes(f.name), Path: wire.Bytes(f.path), Size: f.size, Root: f.root[:], Exec: f.exec, Empty: f.empty, Needed: f.needed,
		}
	}
	return wire.Encode(wire.Message{Files: &wire.Files{List: out}})
}
