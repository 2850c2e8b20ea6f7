package facts

import (
	"cmp"
	"debug/elf"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLibc is how much of a C library is searched for its version.
const maxLibc = 8 << 20

// libraryDirs are where libraries are on the usual systems.
func libraryDirs() []string {
	return []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
		"/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}

// libc is the C library that programs on this host find: "glibc 2.36", "musl".
func libc(s *source) string {
	versioned := regexp.MustCompile(`^libc-(\d+\.\d+)\.so$`)
	for _, dir := range libraryDirs() {
		file := s.real(dir + "/libc.so.6")
		if file == "" {
			continue
		}
		if m := versioned.FindStringSubmatch(path.Base(file)); m != nil {
			return "glibc " + m[1]
		}
		return cmp.Or(glibcVersion(s.at(file)), "glibc")
	}
	for _, name := range s.list("/lib") {
		if strings.HasPrefix(name, "ld-musl-") {
			return "musl"
		}
	}
	return ""
}

// glibcVersion looks for what the library says of itself among its constants, which come
// after its code.
func glibcVersion(file string) string {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range slices.Backward(e.Progs) {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W != 0 {
			continue
		}
		if v := scanVersion(io.LimitReader(p.Open(), maxLibc)); v != "" {
			return "glibc " + v
		}
	}
	return ""
}

// scanVersion returns the number after "release version" in what r has.
func scanVersion(r io.Reader) string {
	const overlap = 64
	words := regexp.MustCompile(`release version (\d+\.\d+)[. ]`)
	buf := make([]byte, 64<<10)
	for kept := 0; ; {
		n, err := io.ReadFull(r, buf[kept:])
		n += kept
		if m := words.FindSubmatch(buf[:n]); m != nil {
			return string(m[1])
		}
		if err != nil {
			return ""
		}
		kept = copy(buf, buf[n-overlap:n])
	}
}

// rdmaCore is the version of rdma-core, in which that of libibverbs ends:
// libibverbs.so.1.14.44.0 is of 44.0.
func rdmaCore(s *source) string {
	for _, dir := range libraryDirs() {
		if file := s.real(dir + "/libibverbs.so.1"); file != "" {
			return verbsVersion(path.Base(file))
		}
	}
	return ""
}

func verbsVersion(name string) string {
	m := regexp.MustCompile(`^libibverbs\.so\.\d+\.\d+\.([0-9a-z]+\.[0-9a-z]+)$`).FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1]
}

// ofed is the version of the vendor's drivers. Those of the kernel say none, or one of
// two that mean nothing.
func ofed(s *source) string {
	version := brief(s.text("/sys/module/mlx5_core/version"))
	if slices.Contains([]string{"5.0-0", "3.0-1"}, version) {
		return ""
	}
	return version
}
