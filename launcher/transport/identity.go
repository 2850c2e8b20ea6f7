package transport

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// identify returns a name that no other build of gorun has, gorun-<16 digits>, and the
// binary's size, which is part of the name. It is made of the ID that go build gives, which
// ends in a hash of what was built: to hash the file would be the most costly part of a
// launch on one host. A binary without such an ID is hashed. One that was patched afterwards
// and is as large as before keeps its name.
func identify(f *os.File) (name string, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	if id := buildID(f); id != "" {
		fmt.Fprintln(h, id, info.Size()) // strip leaves the ID as it is
	} else if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return "", 0, err
	}
	return "gorun-" + hex.EncodeToString(h.Sum(nil))[:16], info.Size(), nil
}

const (
	goNote  = ".note.go.buildid"
	maxNote = 4 << 10
)

// buildID is the ID that go build has given an ELF program: hashes of what it was built
// from and, last, of what came out. It is "" if there is none, or another one: builders
// other than go build may give all their programs the same.
func buildID(f io.ReaderAt) string {
	file, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	section := file.Section(goNote)
	if section == nil || section.Size > maxNote {
		return ""
	}
	note, err := section.Data()
	if err != nil {
		return ""
	}
	// The note: sizes of owner and ID, a type, the owner "Go\0\0", the ID.
	_, id, ok := bytes.Cut(note, []byte("Go\x00\x00"))
	hash := `[A-Za-z0-9_-]{20}`
	if whole := regexp.MustCompile(`^` + hash + `(/` + hash + `){3}`).Find(id); ok && whole != nil {
		return string(whole)
	}
	return ""
}

// loaderOf is the dynamic loader that an ELF program asks for, "" if it asks for none or
// is something else.
func loaderOf(f io.ReaderAt) string {
	file, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), 4<<10))
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
