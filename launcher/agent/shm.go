package agent

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	shmDir    = "/dev/shm"
	shmList   = "shm"                  // in the job directory: what a sweep has to remove
	shmLimit  = 500 * time.Millisecond // for a look before ranks are stopped
	shmEvery  = 30 * time.Second       // between looks, after the first few
	stillMap  = 2 * time.Second        // for the search for other processes that map a file
	mapsChunk = 256 << 10
)

// shmFirst are the times of the first looks after the start. Programs map what they
// share early.
func shmFirst() []time.Duration {
	return []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second}
}

// fileID names a file for as long as it exists.
type fileID struct{ dev, ino uint64 }

// sharedFile is a file in /dev/shm.
type sharedFile struct {
	path string
	id   fileID
}

// shmWatch remembers the shared-memory files that the job's processes were seen to
// map and that did not exist before the job: what a killed process leaves in
// /dev/shm stays there for ever otherwise. A file mapped only between two looks
// escapes it.
type shmWatch struct {
	list   string // file to which what is found is added
	before map[string]fileID
	pids   func() []proc // the job's processes

	mu   sync.Mutex
	seen map[fileID]string // guarded by mu
}

// newShmWatch must be called before the ranks are started.
func newShmWatch(dir string, pids func() []proc) *shmWatch {
	w := &shmWatch{list: dir + "/" + shmList, before: map[string]fileID{}, pids: pids, seen: map[fileID]string{}}
	d, err := os.Open(shmDir)
	if err != nil {
		return w
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if id, _, ok := statFile(shmDir + "/" + n); ok {
			w.before[n] = id
		}
	}
	return w
}

// news reports whether /dev/shm has an entry that it had not at the start.
func (w *shmWatch) news() bool {
	d, err := os.Open(shmDir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if id, _, ok := statFile(shmDir + "/" + n); ok && w.before[n] != id {
			return true
		}
	}
	return false
}

// statFile returns what path itself is, without following a link.
func statFile(path string) (id fileID, st unix.Stat_t, ok bool) {
	if unix.Lstat(path, &st) != nil {
		return fileID{}, st, false
	}
	return fileID{st.Dev, st.Ino}, st, true
}

// run looks at its times until stop is closed.
func (w *shmWatch) run(stop <-chan struct{}) {
	start := time.Now()
	times := shmFirst()
	for {
		wait := shmEvery
		if len(times) > 0 {
			wait, times = times[0]-time.Since(start), times[1:]
		}
		select {
		case <-stop:
			return
		case <-time.After(wait):
			w.look()
		}
	}
}

// look notes what the job's processes map now. It reads the process table only when
// there is something to be found: every job looks at least once, short ones too.
func (w *shmWatch) look() {
	if !w.news() {
		return
	}
	for _, p := range w.pids() {
		for _, f := range mapped(p.pid) {
			w.note(f)
		}
	}
}

// lookBriefly is look that gives up waiting: the maps of a process that hangs in the
// kernel cannot be read.
func (w *shmWatch) lookBriefly() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.look()
	}()
	select {
	case <-done:
	case <-time.After(shmLimit):
	}
}

// note remembers f, in memory and for a sweep, if it is new since the start.
func (w *shmWatch) note(f sharedFile) {
	top, _, _ := strings.Cut(strings.TrimPrefix(f.path, shmDir+"/"), "/")
	if id, ok := w.before[top]; ok && (id == f.id || top != f.path[len(shmDir)+1:]) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[f.id]; ok {
		return
	}
	if id, st, ok := statFile(f.path); !ok || id != f.id || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	w.seen[f.id] = f.path
	out, err := os.OpenFile(w.list, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return // only a sweep would need it
	}
	defer out.Close()
	fmt.Fprintf(out, "%d %d %q\n", f.id.dev, f.id.ino, f.path)
}

// files returns what has been noted.
func (w *shmWatch) files() []sharedFile {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []sharedFile
	for id, path := range w.seen {
		out = append(out, sharedFile{path, id})
	}
	return out
}

// readShmList reads what note has written to the list in a job directory. It believes
// nobody else's.
func readShmList(dir string) []sharedFile {
	if checkOwn(dir) != nil {
		return nil
	}
	b, err := os.ReadFile(dir + "/" + shmList)
	if err != nil {
		return nil
	}
	var out []sharedFile
	for line := range strings.Lines(string(b)) {
		var f sharedFile
		if n, _ := fmt.Sscanf(line, "%d %d %q\n", &f.id.dev, &f.id.ino, &f.path); n == 3 && strings.HasPrefix(f.path, shmDir+"/") {
			out = append(out, f)
		}
	}
	return out
}

// removeShared removes the files that are still those that were noted, belong to us
// and are mapped by no process. It returns what it could not remove, for people.
func removeShared(files []sharedFile) (left []string) {
	want := map[fileID]string{}
	for _, f := range files {
		if id, st, ok := statFile(f.path); ok && id == f.id && int(st.Uid) == os.Geteuid() {
			want[f.id] = f.path
		}
	}
	if len(want) == 0 {
		return nil
	}
	inUse := make(chan map[fileID]bool, 1)
	go func() { inUse <- mappedByAny() }()
	select {
	case used := <-inUse:
		for id, path := range want {
			if !used[id] {
				unix.Unlink(path)
			}
		}
	case <-time.After(stillMap):
		for _, path := range want {
			left = append(left, fmt.Sprintf("%s: cannot tell whether it is in use", clean(path)))
		}
	}
	return left
}

// mappedByAny returns the files in /dev/shm that some process maps.
func mappedByAny() map[fileID]bool {
	out := map[fileID]bool{}
	for _, pid := range pids() {
		for _, f := range mapped(pid) {
			out[f.id] = true
		}
	}
	return out
}

// mapped returns the files in /dev/shm that a process maps.
func mapped(pid int) []sharedFile {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []sharedFile
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 16<<10), mapsChunk)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(" "+shmDir+"/")) {
			if f, ok := parseMap(lines.Text()); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// parseMap reads a line of /proc/PID/maps about an existing file in /dev/shm:
//
//	7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42    /dev/shm/name
func parseMap(line string) (f sharedFile, ok bool) {
	at := strings.Index(line, " "+shmDir+"/")
	fields := strings.Fields(line[:max(at, 0)])
	if len(fields) != 5 || strings.HasSuffix(line, " (deleted)") {
		return f, false
	}
	major, minor, _ := strings.Cut(fields[3], ":")
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	ino, err3 := strconv.ParseUint(fields[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return f, false
	}
	path := strings.ReplaceAll(line[at+1:], `\012`, "\n")
	return sharedFile{path, fileID{unix.Mkdev(uint32(a), uint32(b)), ino}}, true
}
