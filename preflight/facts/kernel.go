package facts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxKernel = 256     // errors of a kind that are kept
	maxLines  = 32      // lines of a kind that are kept
	maxRecord = 8192    // bytes of a record of /dev/kmsg (CONSOLE_EXT_LOG_MAX)
	maxLog    = 1 << 20 // records that are read
)

// kernelWords are what other lines of the kernel's log are known by.
func kernelWords() []string {
	return []string{
		"Detected insufficient power on the PCIe slot",
		"available PCIe bandwidth, limited by",
		"High Temperature",                 // "Port module event ... High Temperature"
		"Out of memory: Killed process",    // of the host
		"Memory cgroup out of memory: Kil", // of a container or a session
		"GPU has fallen off the bus",
		"RmInitAdapter failed",
		"API mismatch",
		"ERROR detected invalid context, skipping further processing", // nvidia-peermem
		"Uncorrected (Fatal) error",                                   // PCIe AER
		"Uncorrectable (Fatal) error",                                 // since Linux 6.7
		" 1 UE ",                                                      // EDAC: of memory
		"[Hardware Error]: Machine check events logged",
		"blocked for more than", // a task in state D
	}
}

// logReader gathers what is known of the kernel's log.
type logReader struct {
	kernel Kernel // but for its lines
	words  []string
	lines  []logLine
}

// logLine is a line that is known by one of the words.
type logLine struct {
	at   float64
	word int
	text string
}

func newLogReader() *logReader { return &logReader{words: kernelWords()} }

// result is what was gathered.
func (r *logReader) result() Kernel {
	for _, l := range r.lines {
		r.kernel.Lines = append(r.kernel.Lines, fmt.Sprintf("[%.6f] %s", l.at, l.text))
	}
	return r.kernel
}

// line takes a message, without its prefix.
func (r *logReader) line(at float64, text string) {
	if x, ok := parseXID(text, "NVRM: Xid ("); ok {
		x.At = at
		r.kernel.XIDs = latest(append(r.kernel.XIDs, x))
		return
	}
	if _, rest, ok := strings.Cut(text, "nvidia-nvswitch"); ok {
		if x, ok := parseXID(rest, "SXid ("); ok {
			x.At = at
			r.kernel.SXIDs = latest(append(r.kernel.SXIDs, x))
			return
		}
	}
	word := slices.IndexFunc(r.words, func(word string) bool { return strings.Contains(text, word) })
	if word >= 0 {
		r.keep(logLine{at, word, brief(text)})
	}
}

// keep keeps a line, but for what has just been said, and drops the oldest of its kind if
// there are many: those of boot must not give way to others.
func (r *logReader) keep(l logLine) {
	if n := len(r.lines); n > 0 && r.lines[n-1].text == l.text {
		return
	}
	same := func(k logLine) bool { return k.word == l.word }
	count, first := 0, slices.IndexFunc(r.lines, same)
	for _, k := range r.lines {
		if same(k) {
			count++
		}
	}
	if count == maxLines {
		r.lines = slices.Delete(r.lines, first, first+1)
	}
	r.lines = append(r.lines, l)
}

// latest drops the oldest of what is too many.
func latest[T any](list []T) []T { return list[max(0, len(list)-maxKernel):] }

// parseXID reads what follows start in an error of the GPU driver or of an NVSwitch:
//
//	NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
//	nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
func parseXID(text, start string) (XID, bool) {
	_, rest, ok := strings.Cut(text, start)
	place, rest, ok2 := strings.Cut(rest, "):")
	bdf := parseBDF(place)
	if !ok || !ok2 || bdf == "" {
		return XID{}, false
	}
	number, words, _ := strings.Cut(strings.TrimSpace(rest), ",")
	code, err := strconv.Atoi(number)
	if err != nil || code < 0 {
		return XID{}, false
	}
	return XID{BDF: bdf, Code: code, Text: brief(words)}, true
}

// record takes a record of /dev/kmsg: "6,1234,5678901,-;message", and lines of its
// device behind that, which begin with a blank.
func (r *logReader) record(record string) {
	line, _, _ := strings.Cut(record, "\n")
	prefix, text, ok := strings.Cut(line, ";")
	fields := strings.Split(prefix, ",")
	if !ok || len(fields) < 3 {
		return
	}
	micros, err := strconv.ParseUint(fields[2], 10, 63)
	if err != nil {
		return
	}
	r.line(float64(micros)/1e6, text)
}

// journal takes a line of journalctl -o short-monotonic: "[   12.345678] host kernel: message".
func (r *logReader) journal(line string) {
	stamp, text, ok := strings.Cut(strings.TrimPrefix(line, "["), "] ")
	at, err := strconv.ParseFloat(strings.TrimSpace(stamp), 64)
	_, message, named := strings.Cut(text, " kernel: ")
	if ok && err == nil && named && at >= 0 && at < 1e12 {
		r.line(at, message)
	}
}

// collectKernel reads the kernel's log since boot into h.Kernel: from /dev/kmsg, or, where
// that is denied and a GPU of NVIDIA or an HCA makes it worth running a program, from the
// journal.
func collectKernel(ctx context.Context, src *source, h *Host) error {
	reader := newLogReader()
	err := src.readKmsg(ctx, reader)
	if err != nil && ctx.Err() == nil && src.hasHardware() && src.readJournal(ctx, reader) {
		err = nil
	}
	h.Kernel = reader.result()
	return err
}

// hasHardware reports whether there is any of what the log is searched for.
func (s *source) hasHardware() bool {
	return s.lookNVIDIA().any() || len(s.list("/sys/class/infiniband")) > 0
}

// readKmsg reads the log from its first record to its present end.
func (s *source) readKmsg(ctx context.Context, r *logReader) error {
	fd, err := openRead(s.at("/dev/kmsg"))
	if err != nil {
		return kmsgError(err)
	}
	defer unix.Close(fd)
	buf := make([]byte, maxRecord)
	rest := "" // of a plain file, whose reads end anywhere
	for range maxLog {
		if ctx.Err() != nil {
			return fmt.Errorf("the kernel's log: %w", context.Cause(ctx))
		}
		n, err := readSome(fd, buf)
		switch {
		case errors.Is(err, unix.EPIPE):
			continue // records were overwritten before we read them
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return kmsgError(err)
		case n == 0:
			r.record(rest)
			return nil
		}
		lines := strings.Split(rest+string(buf[:n]), "\n")
		for _, line := range lines[:len(lines)-1] {
			r.record(line)
		}
		rest = lines[len(lines)-1]
		rest = rest[:min(len(rest), maxRecord)]
	}
	return nil
}

// kmsgError says why the log cannot be read.
func kmsgError(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return errors.New("this user may not read the kernel's log (kernel.dmesg_restrict)")
	case errors.Is(err, unix.ENOENT):
		return errors.New("there is no /dev/kmsg here, as in most containers")
	}
	return fmt.Errorf("/dev/kmsg: %w", err)
}

// readJournal reads the log that journald keeps, and reports whether it may.
func (s *source) readJournal(ctx context.Context, r *logReader) bool {
	path := s.program("journalctl")
	if path == "" {
		return false
	}
	ctx, cancel := within(ctx)
	defer cancel()
	out, err := s.run(ctx, path, "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic")
	// Without permission it shows nothing, and exits 0 or 1.
	if err != nil || len(out) == 0 {
		return false
	}
	for line := range strings.Lines(string(out)) {
		r.journal(strings.TrimSuffix(line, "\n"))
	}
	return true
}
