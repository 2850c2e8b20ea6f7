package facts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"golang.org/x/sys/unix"
)

// maxFile is how much of a file of the kernel is read.
const maxFile = 1 << 20

// source is how items read the host. Its methods take paths as they are on the host:
// "/proc/cmdline". They may block as long as the kernel lets them; who calls them keeps
// the item's limit.
type source struct {
	root   string   // the host's root directory; "" is the real one
	path   []string // where programs are looked for; nil: PATH and programDirs
	access func(path string, mode uint32) error
	last   atomic.Pointer[string] // the latest path that was looked at: where it hangs, if it does
	common *common                // what all items of a collection have from one look; nil: each looks for itself

	// run runs a program, as runProgram does.
	run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// hostSource is this host itself.
func hostSource() *source {
	return &source{run: runProgram, access: access}
}

// access says whether this process may open path, without opening it: that may hang in a
// driver.
func access(path string, mode uint32) error {
	return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
}

// at returns where path of the host is found here.
func (s *source) at(path string) string {
	s.last.Store(&path)
	if s.root == "" {
		return path
	}
	return filepath.Join(s.root, path)
}

// read returns the content of a file, and at most max bytes of it. Directories, devices
// without data and pipes that nobody writes give what there is, without waiting.
func (s *source) read(path string, max int) ([]byte, error) {
	fd, err := openRead(s.at(path))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf := pages.Get().(*[4096]byte)
	defer pages.Put(buf)
	var out []byte
	for len(out) < max {
		most := min(len(buf), max-len(out))
		n, err := readSome(fd, buf[:most])
		if errors.Is(err, unix.EAGAIN) || err == nil && n == 0 {
			break
		}
		if err != nil {
			return out, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		out = append(out, buf[:n]...)
		if n < most && strings.HasPrefix(path, "/sys/") {
			break // sysfs gives at once what fits into a page, so that this was all
		}
	}
	return out, nil
}

// pages are buffers for files of the kernel, most of which are a few bytes long.
var pages = sync.Pool{New: func() any { return new([4096]byte) }}

// openRead opens a file for reading, such that reads do not wait. Go's own files would
// wait for more data in the poller.
func openRead(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func readSome(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// text returns the content of a small file without the blanks around it; "" if it cannot
// be read.
func (s *source) text(path string) string {
	b, err := s.read(path, maxFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number in a small file: decimal, or hexadecimal after 0x. ok is
// false if there is none.
func (s *source) number(path string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s.text(path), 0, 64)
	return n, err == nil
}

// list returns the names in a directory, sorted; none if it cannot be read.
func (s *source) list(path string) []string {
	d, err := os.Open(s.at(path))
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(1 << 16)
	slices.Sort(names)
	return names
}

// numbered returns the numbers in names of a directory that are prefix and a number, in
// order; with "" the numbers alone, as of processes in /proc.
func (s *source) numbered(dir, prefix string) []int {
	var out []int
	for _, name := range s.list(dir) {
		digits, ok := strings.CutPrefix(name, prefix)
		n, err := strconv.Atoi(digits)
		if ok && err == nil && n >= 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// exists reports whether path is there.
func (s *source) exists(path string) bool {
	_, err := os.Lstat(s.at(path))
	return err == nil
}

// link returns what a symbolic link says; "" if it is none or cannot be read.
func (s *source) link(path string) string {
	target, err := os.Readlink(s.at(path))
	if err != nil {
		return ""
	}
	return target
}

// real returns path without symbolic links; "" if it is not there.
func (s *source) real(path string) string {
	full, err := filepath.EvalSymlinks(s.at(path))
	if err != nil {
		return ""
	}
	if s.root == "" {
		return full
	}
	root, err := filepath.EvalSymlinks(s.root)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(full, root)
}

// openable says whether this user may open path so: unix.R_OK, unix.W_OK, or both.
func (s *source) openable(path string, mode uint32) error {
	return s.access(s.at(path), mode)
}

// programDirs are where programs are besides PATH, which is short in a session without a
// login shell.
func programDirs() []string {
	return []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/bin", "/usr/local/nvidia/bin", "/opt/bin",
		"/run/nvidia/driver/usr/bin", "/usr/lib/wsl/lib"}
}

// program returns the path of a program; "" if it is not installed.
func (s *source) program(name string) string {
	dirs := s.path
	if dirs == nil && s.root == "" {
		dirs = filepath.SplitList(os.Getenv("PATH"))
	}
	if s.path == nil {
		dirs = slices.Concat(dirs, programDirs())
	}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(s.at(path))
		if err == nil && info.Mode().IsRegular() && s.openable(path, unix.X_OK) == nil {
			return path
		}
	}
	return ""
}

// brief is text in one line of at most 300 characters, without control characters.
func brief(text string) string {
	var out []rune
	for _, r := range text {
		switch {
		case len(out) == 300:
			return string(out) + "…"
		case unicode.IsSpace(r):
			if len(out) > 0 && out[len(out)-1] != ' ' {
				out = append(out, ' ')
			}
		case unicode.IsPrint(r):
			out = append(out, r)
		}
	}
	return strings.TrimSpace(string(out))
}
