package facts

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxStale = 64                 // files that are told
	staleAge = time.Minute        // a younger file may be about to be mapped
	maxMaps  = 16 << 20           // bytes of the memory map of one process
	initPID  = "pid:[4026531836]" // the host's own namespace of processes
	initIPC  = "ipc:[4026531839]"
)

// fileID names a file for as long as it exists.
type fileID struct{ dev, ino uint64 }

// staleShm returns the files of NCCL and of gorun in /dev/shm that no process maps, and
// how many bytes they hold. A file counts only if that is certain: if the memory maps of
// all processes of its owner, and of root's if these can be read, have been seen.
func staleShm(ctx context.Context, s *source, now time.Time) (names []string, use int64) {
	type candidate struct {
		name string
		size int64
		uid  int
	}
	files := map[fileID]candidate{}
	owners := map[int]bool{}
	for _, name := range s.list("/dev/shm") {
		if !strings.HasPrefix(name, "nccl-") && !strings.HasPrefix(name, "gorun-") {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(s.at("/dev/shm/"+name), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || now.Sub(time.Unix(st.Ctim.Unix())) < staleAge {
			continue
		}
		files[fileID{st.Dev, st.Ino}] = candidate{name, st.Blocks * 512, int(st.Uid)}
		owners[int(st.Uid)] = true
	}
	if len(files) == 0 || !seesAllProcesses(s) {
		return nil, 0
	}
	mapped, unsure := mappedFiles(ctx, s, owners)
	for id, f := range files {
		if mapped[id] || unsure[f.uid] || len(names) == maxStale || ctx.Err() != nil {
			continue
		}
		names = append(names, path.Clean(plain(f.name, 255)))
		use += f.size
	}
	return names, use
}

// seesAllProcesses reports whether those that could use this /dev/shm are in /proc. They
// are on a host, and in a container that has both for itself; not in one that shares the
// host's memory but not its processes.
func seesAllProcesses(s *source) bool {
	pid, ipc := s.link("/proc/self/ns/pid"), s.link("/proc/self/ns/ipc")
	return pid != "" && ipc != "" && (pid == initPID) == (ipc == initIPC)
}

// mappedFiles returns the files in /dev/shm that processes of the owners and of root map
// or hold open, and the owners of whom some process could not be looked at.
func mappedFiles(ctx context.Context, s *source, owners map[int]bool) (mapped map[fileID]bool, unsure map[int]bool) {
	mapped, unsure = map[fileID]bool{}, map[int]bool{}
	for _, pid := range s.numbered("/proc", "") {
		dir := "/proc/" + strconv.Itoa(pid)
		uid := s.ownerID(dir)
		if ctx.Err() != nil {
			return mapped, owners
		}
		if !owners[uid] && uid != 0 {
			continue
		}
		text, err := s.read(dir+"/maps", maxMaps)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil || len(text) == maxMaps {
			unsure[uid] = unsure[uid] || s.exists(dir)
			continue
		}
		for line := range strings.Lines(string(text)) {
			if id, ok := parseMap(line); ok {
				mapped[id] = true
			}
		}
		s.openFiles(dir, mapped)
	}
	return mapped, unsure
}

// openFiles adds the files in /dev/shm that a process holds open: it may map them yet.
func (s *source) openFiles(dir string, to map[fileID]bool) {
	for _, fd := range s.list(dir + "/fd") {
		if !strings.HasPrefix(s.link(dir+"/fd/"+fd), "/dev/shm/") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(s.at(dir+"/fd/"+fd), &st) == nil {
			to[fileID{st.Dev, st.Ino}] = true
		}
	}
}

// parseMap reads a line of /proc/PID/maps about a file in /dev/shm:
//
//	7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42    /dev/shm/name
func parseMap(line string) (id fileID, ok bool) {
	at := strings.Index(line, " /dev/shm/")
	fields := strings.Fields(line[:max(at, 0)])
	if len(fields) != 5 {
		return id, false
	}
	major, minor, _ := strings.Cut(fields[3], ":")
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	ino, err3 := strconv.ParseUint(fields[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return id, false
	}
	return fileID{unix.Mkdev(uint32(a), uint32(b)), ino}, true
}
