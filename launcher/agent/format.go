package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// headLen is how much of a program's file is looked at: what the kernel reads, and
// room for an ELF program's table of segments.
const headLen = 4096

// format reports why the kernel would refuse the file's content: its interpreter is
// missing, it is for another machine, or it is no program at all. What it cannot
// read or does not know it passes: then exec itself tells.
func format(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // executable, but not readable
	}
	defer f.Close()
	var buf [headLen]byte
	n, err := io.ReadFull(f, buf[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil
	}
	p, err := inspect(buf[:n], machines(runtime.GOARCH))
	if err != nil && !foreignFormats() {
		return err
	}
	if p.interpreter == "" {
		return nil
	}
	if _, err := os.Stat(p.interpreter); err != nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) {
		return fmt.Errorf("bad interpreter %q: no such file%s", p.interpreter, p.hint)
	}
	return nil
}

// foreignFormats reports whether the kernel was taught to run other files, for
// example those of other machines by an emulator.
func foreignFormats() bool {
	entries, _ := os.ReadDir("/proc/sys/fs/binfmt_misc")
	for _, e := range entries {
		if e.Name() != "register" && e.Name() != "status" {
			return true
		}
	}
	return false
}

// program is what the head of a file tells of how it is run.
type program struct {
	interpreter string // absolute path of a file that must exist; "" if none
	hint        string
}

// inspect reads the first bytes of a program's file. ours are the ELF machine numbers
// that can run here, none if that is not known.
func inspect(b []byte, ours []uint16) (program, error) {
	switch {
	case len(b) == 0:
		return program{}, errors.New("the file is empty")
	case bytes.HasPrefix(b, []byte("#!")):
		return inspectScript(b[2:]), nil
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return inspectELF(b, ours)
	}
	return program{}, errors.New("exec format error (neither a program nor a script that begins with #!)")
}

// inspectScript reads what follows "#!". Only an absolute path is judged.
func inspectScript(b []byte) program {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.Trim(line, " \t")
	if i := bytes.IndexAny(line, " \t\x00"); i >= 0 {
		line = line[:i]
	}
	if len(line) == 0 || line[0] != '/' || len(line) > 255 {
		return program{}
	}
	p := program{interpreter: string(line)}
	if strings.HasSuffix(p.interpreter, "\r") {
		p.hint = " (the line ends in CR LF)"
	}
	return p
}

// machines lists the ELF machine numbers that a kernel of this architecture runs.
func machines(arch string) []uint16 {
	switch arch {
	case "amd64":
		return []uint16{62, 3} // x86-64, and 32-bit programs
	case "arm64":
		return []uint16{183, 40}
	case "riscv64":
		return []uint16{243}
	case "ppc64le":
		return []uint16{21}
	}
	return nil
}

// machineNames are those of machines that a cluster may mix.
func machineName(m uint16) string {
	switch m {
	case 3:
		return "386"
	case 21:
		return "ppc64"
	case 40:
		return "arm"
	case 62:
		return "amd64"
	case 183:
		return "arm64"
	case 243:
		return "riscv64"
	}
	return fmt.Sprintf("ELF machine %d", m)
}

// inspectELF looks at the machine and at the dynamic loader (PT_INTERP), whose
// absence the kernel reports as if the program itself were missing.
func inspectELF(b []byte, ours []uint16) (program, error) {
	if len(b) < 64 || (b[4] != 1 && b[4] != 2) || (b[5] != 1 && b[5] != 2) {
		return program{}, errors.New("exec format error (damaged ELF file)")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[5] == 2 {
		order = binary.BigEndian
	}
	if m := order.Uint16(b[18:]); len(ours) > 0 && m != ours[0] && (len(ours) < 2 || m != ours[1]) {
		return program{}, fmt.Errorf("exec format error (the program is for %s, this host is %s)", machineName(m), runtime.GOARCH)
	}
	return program{interpreter: elfLoader(b, order, b[4] == 2), hint: " (the program's dynamic loader)"}, nil
}

// elfLoader returns the path in the PT_INTERP segment, "" if there is none within b.
func elfLoader(b []byte, order binary.ByteOrder, wide bool) string {
	const ptInterp = 3
	at, size, count := uint64(order.Uint32(b[28:])), uint64(order.Uint16(b[42:])), int(order.Uint16(b[44:]))
	if wide {
		at, size, count = order.Uint64(b[32:]), uint64(order.Uint16(b[54:])), int(order.Uint16(b[56:]))
	}
	for range count {
		if size < 32 || (wide && size < 56) || at > uint64(len(b)) || size > uint64(len(b))-at {
			return ""
		}
		seg := b[at : at+size]
		at += size
		if order.Uint32(seg) != ptInterp {
			continue
		}
		from, n := uint64(order.Uint32(seg[4:])), uint64(order.Uint32(seg[16:]))
		if wide {
			from, n = order.Uint64(seg[8:]), order.Uint64(seg[32:])
		}
		if from > uint64(len(b)) || n > uint64(len(b))-from {
			return ""
		}
		return strings.TrimRight(string(b[from:from+n]), "\x00")
	}
	return ""
}
