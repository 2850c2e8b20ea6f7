package agent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// Limits of what is read of a rank's processes: their environments, arguments and maps
// are what anybody has made of them.
const (
	maxEnviron  = 16 << 20 // bytes of an environment; Linux allows 6 MiB
	maxMaps     = 16 << 20 // bytes of all maps of a rank
	maxSettings = 1024     // watched names of a process
	maxCmdline  = 4 << 10
)

// setting is the value of a watched variable: its beginning, and a hash of all that it means.
type setting struct {
	text string // nothing of a secret
	sum  string
}

// watched reports whether name is one of which ranks must not have different values.
func watched(name string) bool {
	if len(name) > wire.MaxName {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	class := envsync.ClassOf(name)
	return class == envsync.ClassJob || class == envsync.ClassHost
}

// own reports whether name tells a rank's process who it is.
func own(name string) bool { return name == "GORUN_JOB_ID" || name == "GORUN_RANK" }

func newSetting(name, value string) setting {
	sum := sha256.Sum256([]byte(envsync.Meaning(name, value)))
	s := setting{sum: hex.EncodeToString(sum[:8])}
	if !envsync.Hidden(name) {
		s.text = strings.Clone(value[:min(len(value), wire.MaxValue)])
	}
	return s
}

// environ is what matters of an environment.
type environ struct {
	values map[string]setting // of the watched names, and the rank's own
	digest envsync.Digest
	pmix   bool // another launcher started the process
}

// readEnviron reads an environment as /proc has it: entries that end in a NUL. As getenv
// does, it takes the first of a repeated name. ok is false if there is more than a sane
// program has.
func readEnviron(r io.Reader) (e environ, ok bool) {
	e.values = map[string]setting{}
	var nccl []string
	s := bufio.NewScanner(io.LimitReader(r, maxEnviron))
	s.Buffer(nil, envsync.MaxString+2)
	s.Split(splitNUL)
	total := 0
	for s.Scan() {
		total += len(s.Bytes()) + 1
		name, value, isVar := strings.Cut(s.Text(), "=")
		e.pmix = e.pmix || strings.HasPrefix(name, "PMIX_")
		if _, seen := e.values[name]; seen || !isVar || !watched(name) && !own(name) {
			continue
		}
		if len(e.values) == maxSettings {
			return e, false
		}
		e.values[name] = newSetting(name, value)
		nccl = append(nccl, s.Text())
	}
	e.digest = envsync.DigestOf(nccl)
	return e, s.Err() == nil && total < maxEnviron
}

// splitNUL cuts at NULs, as a bufio.SplitFunc.
func splitNUL(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// planned is what matters of the environment that a rank is started with.
func planned(env []string) environ {
	e, _ := readEnviron(strings.NewReader(strings.Join(env, "\x00")))
	return e
}

// glimpse is what one look tells of a rank.
type glimpse struct {
	rank     int
	readable bool
	gone     bool    // its process has ended meanwhile
	key      procKey // of its effective process, as all that follows
	file     string  // that it runs
	cmdline  string  // its beginning
	program  string  // stands for that and the arguments, but for numbers in these
	library  string  // the libnccl that it maps; "": none
	version  string  // of that, and
	build    string  // what tells it from others, as far as is known
	mpi      string  // the library of Open MPI that it maps, if that matters; "": none
	environ  environ
}

// glance reads the environment of a rank's effective process: the oldest that maps
// libnccl, else the oldest without living children. known is the one of the last look
// and its libnccl, which is not looked for again.
func (l *looker) glance(rank int, procs []proc, known procKey, library string) glimpse {
	g := glimpse{rank: rank}
	p, file := l.effective(procs, known, library)
	g.key, g.library = p.key(), file
	dir := strconv.Itoa(p.pid)
	env, err := l.proc.Open(dir + "/environ")
	if err != nil {
		g.gone = ended(err)
		return g
	}
	defer env.Close()
	e, ok := readEnviron(env)
	g.environ = e
	// This one last: a process that ends has an empty environment, and then no file.
	if g.file, err = fs.ReadLink(l.proc, dir+"/exe"); err != nil || !ok {
		g.gone = err != nil && ended(err)
		return g
	}
	if g.library != "" {
		identity := l.mappedIdentity(p.pid, g.library)
		g.version, g.build = identity.Version, identity.Build
	}
	if l.alone && !e.pmix {
		room := int64(maxMaps)
		g.mpi = l.mapped(p.pid, &room, isOpenMPI)
	}
	g.readable = true
	g.cmdline = l.head(dir+"/cmdline", maxCmdline)
	g.program = programKeyOf(g.file, g.cmdline)
	return g
}

// ended reports whether a file of /proc could not be read as its process is no more.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// effective returns the process of a rank that counts, and the libnccl that it maps.
func (l *looker) effective(procs []proc, known procKey, library string) (proc, string) {
	procs = oldestFirst(procs)
	if library != "" {
		for _, p := range procs {
			if p.key() == known {
				return p, library
			}
		}
	}
	room := int64(maxMaps)
	for _, p := range procs[:min(len(procs), maxSeen)] {
		if file := l.mapped(p.pid, &room, isNCCL); file != "" {
			return p, file
		}
	}
	parents := map[int]bool{}
	for _, p := range procs {
		parents[p.ppid] = true
	}
	for _, p := range procs {
		if !parents[p.pid] {
			return p, ""
		}
	}
	return procs[0], ""
}

// mapped returns the path of the library of a kind that a process maps, "" if there is
// none. It reads no more than room, which it lowers.
func (l *looker) mapped(pid int, room *int64, kind func(file string) bool) string {
	f, err := l.proc.Open(strconv.Itoa(pid) + "/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: *room}
	defer func() { *room = limited.N }()
	s := bufio.NewScanner(limited)
	for s.Scan() {
		if i := bytes.IndexByte(s.Bytes(), '/'); i >= 0 {
			if file := string(s.Bytes()[i:]); kind(file) {
				return file
			}
		}
	}
	return ""
}

// isNCCL reports whether a mapped file is NCCL's library, and no plugin of it.
func isNCCL(file string) bool {
	base := path.Base(file)
	return base == "libnccl.so" || strings.HasPrefix(base, "libnccl.so.")
}

// head returns the beginning of a file of /proc.
func (l *looker) head(name string, most int64) string {
	f, err := l.proc.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, most))
	return string(b)
}

// programKeyOf stands for a program and its arguments, in which numbers do not count:
// they may be the rank's.
func programKeyOf(file, cmdline string) string {
	h := sha256.New()
	io.WriteString(h, file+"\x00")
	digits := false
	for _, c := range []byte(cmdline) {
		number := '0' <= c && c <= '9'
		switch {
		case !number:
			h.Write([]byte{c})
		case !digits:
			h.Write([]byte{'0'})
		}
		digits = number
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
