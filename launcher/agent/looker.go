package agent

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"gorun/launcher/wire"
)

// Limits of what is read of a rank.
const (
	maxTasks = 256  // threads of a process
	maxSeen  = 64   // processes
	maxOpen  = 4096 // open files of a process
	maxName  = 256  // bytes of a file's path
)

// looker reads what /proc tells of ranks. Its methods may be called from any goroutine.
type looker struct {
	proc  fs.FS
	alone bool // ranks that speak with Open MPI's launcher alone would not find each other

	mu        sync.Mutex
	tables    map[string]map[uint64]socket // guarded by mu; by network namespace
	libraries map[fileKey]wire.Library     // guarded by mu; of those that processes map
}

// see adds to s what its process's files tell, and the sockets of all of the rank's
// processes.
func (l *looker) see(s wire.Sight, procs []proc) wire.Sight {
	dir := strconv.Itoa(s.PID)
	task, state := l.task(s.PID)
	if state != 0 {
		s.State = string(state)
	}
	s.Channel = channel(l.text(task + "/wchan"))
	c := parseCall(l.text(task + "/syscall"))
	s.Call = c.name
	var waited uint64
	if c.fd >= 0 {
		target, _ := fs.ReadLink(l.proc, dir+"/fd/"+strconv.Itoa(c.fd))
		s.File, waited = fileName(c.fd, target), socketInode(target)
	}
	plug(&s, l.sockets(procs), waited)
	return s
}

func (l *looker) text(name string) string {
	b, _ := fs.ReadFile(l.proc, name)
	return strings.TrimSpace(string(b))
}

// task returns the directory of the thread that tells most, and its state; 0 if that is
// not known. One that hangs in the kernel tells more than one that runs, and that more
// than the main one.
func (l *looker) task(pid int) (dir string, state byte) {
	self := strconv.Itoa(pid)
	dir = path.Join(self, "task", self)
	tasks, _ := fs.ReadDir(l.proc, path.Join(self, "task"))
	for _, t := range tasks[:min(len(tasks), maxTasks)] {
		p, ok := parseStat([]byte(l.text(path.Join(self, "task", t.Name(), "stat"))))
		switch {
		case !ok:
		case state == 0 && t.Name() == self:
			state = p.state
		case p.state == 'D' && state != 'D', p.state == 'R' && state != 'D' && state != 'R':
			dir, state = path.Join(self, "task", t.Name()), p.state
		}
	}
	return dir, state
}

// channel is what /proc/PID/wchan says, "" where the kernel does not tell.
func channel(s string) string {
	if s == "0" {
		return ""
	}
	return clean(s[:min(len(s), maxName)])
}

// fileName says what a process's file is, by what its link in /proc/PID/fd says.
func fileName(fd int, target string) string {
	if strings.HasPrefix(target, "pipe:") && fd <= 2 {
		return [...]string{"its standard input", "its standard output", "its standard error"}[fd]
	}
	target = target[:min(len(target), maxName)]
	kind, _, ok := strings.Cut(target, ":[")
	switch {
	case strings.HasPrefix(target, "/"):
		return clean(target)
	case !ok:
		return clean(strings.TrimPrefix(target, "anon_inode:"))
	case kind == "anon_inode":
		return clean(strings.TrimSuffix(strings.TrimPrefix(target, "anon_inode:["), "]"))
	}
	return "a " + clean(kind)
}

// socketInode is N of "socket:[N]", else 0.
func socketInode(target string) uint64 {
	number, ok := strings.CutPrefix(target, "socket:[")
	if !ok {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return n
}

// sockets returns the TCP sockets of processes, each once.
func (l *looker) sockets(procs []proc) []socket {
	var out []socket
	seen := map[uint64]bool{}
	for _, p := range procs[:min(len(procs), maxSeen)] {
		inodes := l.inodes(p.pid)
		if len(inodes) == 0 {
			continue
		}
		table := l.table(p.pid)
		for _, n := range inodes {
			if s, ok := table[n]; ok && !seen[n] {
				seen[n] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// inodes lists the sockets that a process has open.
func (l *looker) inodes(pid int) []uint64 {
	dir := strconv.Itoa(pid) + "/fd"
	files, _ := fs.ReadDir(l.proc, dir)
	var out []uint64
	for _, f := range files[:min(len(files), maxOpen)] {
		target, _ := fs.ReadLink(l.proc, dir+"/"+f.Name())
		if n := socketInode(target); n != 0 {
			out = append(out, n)
		}
	}
	return out
}

// table returns the TCP sockets of a process's network namespace, which is read once.
func (l *looker) table(pid int) map[uint64]socket {
	dir := strconv.Itoa(pid)
	space, err := fs.ReadLink(l.proc, dir+"/ns/net")
	if err != nil {
		space = dir
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	table, ok := l.tables[space]
	if !ok {
		table = map[uint64]socket{}
		for _, name := range []string{"/net/tcp", "/net/tcp6"} {
			if f, err := l.proc.Open(dir + name); err == nil {
				readTable(f, table)
				f.Close()
			}
		}
		l.tables[space] = table
	}
	return table
}
