package facts

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxHash     = 64 << 20 // bytes of a program that is hashed
	maxHashFull = 1 << 30
	maxPrograms = 64
	hashChunk   = 256 << 10
)

// collectPrograms looks the job's programs up as exec would, and hashes them.
func collectPrograms(o Order) func(context.Context, *source, *Host) error {
	return func(ctx context.Context, s *source, h *Host) error {
		var troubles []error
		for _, arg := range o.Programs[:min(len(o.Programs), maxPrograms)] {
			p, err := program(ctx, s, o, arg)
			h.Programs = append(h.Programs, p)
			if err != nil {
				troubles = append(troubles, fmt.Errorf("%s: %w", p.Path, err))
			}
		}
		return errors.Join(troubles...)
	}
}

func program(ctx context.Context, s *source, o Order, arg string) (Program, error) {
	p := Program{Arg: arg, Path: findProgram(s, o, arg)}
	if p.Path == "" {
		return p, nil
	}
	// A pipe of that name would wait for its writer.
	f, err := os.OpenFile(s.at(p.Path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return p, errors.New(reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return p, err
	}
	p.Size = info.Size()
	start := make([]byte, 2)
	n, _ := f.ReadAt(start, 0)
	p.Script, p.NCCL = string(start[:n]) == "#!", loadsNCCL(f)
	limit := int64(maxHash)
	if o.Full {
		limit = maxHashFull
	}
	if p.Size <= limit {
		p.SHA256, err = hash(ctx, f, p.Size, limit)
	}
	return p, err
}

// loadsNCCL reports whether a program names libnccl among the libraries that it needs.
func loadsNCCL(f io.ReaderAt) bool {
	e, err := elf.NewFile(f)
	if err != nil {
		return false
	}
	needs, err := e.ImportedLibraries()
	return err == nil && slices.ContainsFunc(needs, func(name string) bool { return strings.HasPrefix(name, "libnccl.so") })
}

// findProgram returns the path of a program, "" if there is none: one with a slash is
// that file, seen from the working directory; others are looked for in the path.
func findProgram(s *source, o Order, arg string) string {
	if strings.Contains(arg, "/") {
		file := arg
		if !filepath.IsAbs(file) {
			if file = filepath.Join(o.Dir, arg); !filepath.IsAbs(file) {
				return ""
			}
		}
		if runnable(s, file) {
			return file
		}
		return ""
	}
	search := o.Path
	if search == "" {
		search = os.Getenv("PATH")
	}
	if o.Prepend != "" {
		search = o.Prepend + string(filepath.ListSeparator) + search
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(o.Dir, dir) // "" is the working directory
		}
		if file := filepath.Join(dir, arg); filepath.IsAbs(file) && arg != "" && runnable(s, file) {
			return file
		}
	}
	return ""
}

func runnable(s *source, file string) bool {
	info, err := os.Stat(s.at(file))
	return err == nil && info.Mode().IsRegular() && s.openable(file, unix.X_OK) == nil
}

// hash is the SHA-256 of what r has, which is size bytes or so; "" if that is more than
// limit, or ctx ends.
func hash(ctx context.Context, r io.Reader, size, limit int64) (string, error) {
	h, buf := sha256.New(), make([]byte, min(max(size+1, 4<<10), hashChunk))
	for total := int64(0); ; {
		n, err := r.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", errors.New(reason(err))
		case total > limit:
			return "", nil // it grows
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
	}
}
