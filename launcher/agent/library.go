package agent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
)

// Limits of what is read of libraries: they have hundreds of megabytes.
const (
	maxNotes    = 8 << 10  // bytes of an ELF file's notes
	maxSegments = 64       // of an ELF file
	sampleSize  = 64 << 10 // what stands for a file without a build ID
	maxHeader   = 64 << 10 // bytes of an nccl.h
	maxCache    = 16 << 20 // bytes of ld.so.cache

	libraryLimit = time.Second
)

// libraryIdentity says which library the file is: its version, as far as its name or the
// nccl.h beside it tells, and its build ID. It reads some kilobytes, and takes as long as
// the file system does. The zero Library says that it cannot be read.
func libraryIdentity(file string) wire.Library {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return wire.Library{}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return wire.Library{}
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		real = file
	}
	return wire.Library{Path: wire.Bytes(file), Version: libraryVersion(real), Build: build(f, fi.Size())}
}

// build is what tells a library from others of its name.
func build(f *os.File, size int64) string { return cmp.Or(buildID(f), sample(f, size)) }

// mappedIdentity is libraryIdentity of a file that a process maps: its path is the one in
// that process's file system, and no link. A file is read once, whoever maps it.
func (l *looker) mappedIdentity(pid int, file string) wire.Library {
	there := fmt.Sprintf("/proc/%d/root%s", pid, file)
	f, err := os.OpenFile(there, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return wire.Library{}
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return wire.Library{}
	}
	key := fileKey{st.Dev, st.Ino}
	l.mu.Lock()
	known, ok := l.libraries[key]
	l.mu.Unlock()
	if ok {
		return known
	}
	found := wire.Library{Path: wire.Bytes(file), Version: libraryVersion(there), Build: build(f, st.Size)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.libraries[key] = found
	return found
}

// fileKey tells a file from all others of a host.
type fileKey struct{ device, inode uint64 }

// libraryVersion is the version that a library's name ends in, or that of the nccl.h of
// an installation of NCCL as a wheel or an archive is: lib/libnccl.so.2, include/nccl.h.
func libraryVersion(file string) string {
	if m := regexp.MustCompile(`\.so\.(\d+\.\d+[0-9.]*)$`).FindStringSubmatch(file); m != nil {
		return m[1]
	}
	if !strings.HasPrefix(path.Base(file), "libnccl.so") {
		return ""
	}
	header, _ := readSmall(path.Join(path.Dir(path.Dir(file)), "include/nccl.h"), maxHeader)
	var parts []string
	for _, name := range []string{"MAJOR", "MINOR", "PATCH"} {
		m := regexp.MustCompile(`(?m)^#define NCCL_` + name + ` +(\d+)`).FindSubmatch(header)
		if m == nil {
			return ""
		}
		parts = append(parts, string(m[1]))
	}
	return strings.Join(parts, ".")
}

// sample stands for the content of a file without a build ID.
func sample(r io.ReaderAt, size int64) string {
	buf := make([]byte, sampleSize)
	n, _ := r.ReadAt(buf, 0)
	sum := sha256.Sum256(fmt.Appendf(buf[:n:n], " %d", size))
	return "sha256-" + hex.EncodeToString(sum[:8])
}

// buildID is the build ID of an ELF file of this machine's kind, "" if it has none.
func buildID(r io.ReaderAt) string {
	var head elf.Header64
	if err := binary.Read(io.NewSectionReader(r, 0, 64), binary.LittleEndian, &head); err != nil {
		return ""
	}
	if string(head.Ident[:4]) != elf.ELFMAG || head.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64) || head.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB) {
		return ""
	}
	for i := range min(int64(head.Phnum), maxSegments) {
		var p elf.Prog64
		if err := binary.Read(io.NewSectionReader(r, int64(head.Phoff)+i*int64(head.Phentsize), 56), binary.LittleEndian, &p); err != nil {
			return ""
		}
		if elf.ProgType(p.Type) != elf.PT_NOTE || p.Off > 1<<62 {
			continue
		}
		notes := make([]byte, min(p.Filesz, maxNotes))
		n, _ := r.ReadAt(notes, int64(p.Off))
		if id := findBuildID(notes[:n]); id != "" {
			return id
		}
	}
	return ""
}

// findBuildID looks for the GNU build ID among notes, each of which is the lengths of its
// owner and of its text, its kind, and both padded to four bytes.
func findBuildID(notes []byte) string {
	const kindBuildID = 3
	padded := func(n uint32) int { return int(min(n, maxNotes)+3) &^ 3 }
	for len(notes) >= 12 {
		owner, text, kind := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:]), binary.LittleEndian.Uint32(notes[8:])
		notes = notes[12:]
		if padded(owner)+int(min(text, maxNotes)) > len(notes) {
			return ""
		}
		if kind == kindBuildID && bytes.HasPrefix(notes, []byte("GNU\x00")) && text <= 64 {
			return hex.EncodeToString(notes[padded(owner):][:text])
		}
		notes = notes[min(padded(owner)+padded(text), len(notes)):]
	}
	return ""
}

// libraries returns the libraries that decide how NCCL behaves on this host, of those that
// ranks with that environment and working directory would find: NCCL itself, and its
// plugins, which it loads when they are there; one that the environment names and that is
// not there has no path. What a program brings along for itself, by
// a run path, is not among them. It takes as long as the file systems do.
func libraries(env []string, dir string) (out []wire.Library) {
	value, _ := lookup(env, "LD_LIBRARY_PATH")
	finder := libraryFinder{dir: dir, path: value}
	for _, names := range append([][]string{{"libnccl.so.2"}}, pluginNames(env)...) {
		l := wire.Library{}
		for _, name := range names {
			if l = libraryIdentity(finder.find(name)); len(l.Path) > 0 {
				break
			}
		}
		l.Name = names[len(names)-1]
		if asked := len(names) > 1 || strings.Contains(l.Name, "/"); asked || len(l.Path) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// pluginNames lists what NCCL tries to load for each kind of plugin, in order.
func pluginNames(env []string) (out [][]string) {
	for _, kind := range []string{"net", "tuner", "profiler", "env", "gin", "rma"} {
		value, set := lookup(env, "NCCL_"+strings.ToUpper(kind)+"_PLUGIN")
		value, _, _ = strings.Cut(value, ",")
		switch {
		case !set:
			out = append(out, []string{"libnccl-" + kind + ".so"})
		case value == "" || value == "none" || value == "STATIC_PLUGIN":
		case strings.Contains(value, "/"):
			out = append(out, []string{value})
		default:
			out = append(out, []string{value, "libnccl-" + kind + "-" + value + ".so"})
		}
	}
	return out
}

// libraryFinder finds libraries as the dynamic loader of the C library does, but for the
// directories that a program names itself.
type libraryFinder struct {
	dir   string            // working directory
	path  string            // LD_LIBRARY_PATH
	cache map[string]string // nil: not read yet
}

// find returns the file that the loader would take, "" if there is none.
func (f *libraryFinder) find(name string) string {
	if strings.Contains(name, "/") {
		return within(f.dir, name)
	}
	if f.path != "" {
		for dir := range strings.FieldsFuncSeq(f.path, func(r rune) bool { return r == ':' || r == ';' }) {
			if file := within(f.dir, dir+"/"+name); isFile(file) {
				return file
			}
		}
	}
	if f.cache == nil {
		text, _ := readSmall("/etc/ld.so.cache", maxCache)
		f.cache = parseCache(text)
	}
	if file := f.cache[name]; file != "" && isFile(file) {
		return file
	}
	for _, dir := range []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		if file := dir + "/" + name; isFile(file) {
			return file
		}
	}
	return ""
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// parseCache returns the paths of the libraries of NCCL in an ld.so.cache, by name; of
// several the first counts, which is the one for the best machine. The file is a header,
// entries of offsets, and the texts to which these point.
func parseCache(text []byte) map[string]string {
	const magic, header, entry = "glibc-ld.so.cache1.1", 48, 24
	out := map[string]string{}
	start := bytes.Index(text, []byte(magic)) // an older table may come first
	if start < 0 {
		return out
	}
	text = text[start:]
	if len(text) < header {
		return out
	}
	n := min(int(binary.LittleEndian.Uint32(text[20:])), (len(text)-header)/entry)
	for i := range n {
		e := text[header+i*entry:]
		name := textAt(text, binary.LittleEndian.Uint32(e[4:]))
		if !strings.HasPrefix(name, "libnccl") || out[name] != "" {
			continue
		}
		out[name] = textAt(text, binary.LittleEndian.Uint32(e[8:]))
	}
	return out
}

// textAt returns the text that begins at an offset, and ends at a zero byte.
func textAt(text []byte, at uint32) string {
	if int64(at) >= int64(len(text)) {
		return ""
	}
	end := bytes.IndexByte(text[at:], 0)
	if end < 0 {
		return ""
	}
	return string(text[at:][:min(end, 4096)])
}
