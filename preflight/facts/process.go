package facts

import (
	"context"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxProcesses = 8192 // that are looked at
	maxStuck     = 16   // that are told

	// quietLoad is the load under which no process can have waited in the kernel for a
	// minute: one that does makes up 0.63.
	quietLoad = 0.5

	lookAgain     = 20 * time.Millisecond  // between two looks at a process that waits in the kernel
	lookAgainFull = 150 * time.Millisecond // in Full
	flagKthread   = 0x00200000             // PF_KTHREAD
)

// stat is what /proc/PID/stat says of a process.
type stat struct {
	name    string
	state   string
	flags   uint64
	threads int64
	start   string // when it began: with the PID it names a process for ever
	ticks   string // of CPU that it has used
}

// parseStat reads a line of /proc/PID/stat. A process may have blanks and parentheses in
// its name.
func parseStat(line string) (out stat, ok bool) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return out, false
	}
	fields := strings.Fields(line[end+1:]) // from the third on
	if len(fields) < 20 {
		return out, false
	}
	flags, err1 := strconv.ParseUint(fields[6], 10, 64)
	threads, err2 := strconv.ParseInt(fields[17], 10, 64)
	if err1 != nil || err2 != nil {
		return out, false
	}
	return stat{
		name: line[open+1 : end], state: fields[0], flags: flags, threads: threads, start: fields[19],
		ticks: fields[11] + " " + fields[12],
	}, true
}

// ownerID is the user whose path is; -1 if it cannot be told.
func (s *source) ownerID(path string) int {
	var st unix.Stat_t
	if unix.Stat(s.at(path), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// stuck returns the processes that wait in the kernel, at two looks, and have not run in
// between. Threads of the kernel wait so without harm.
func stuck(ctx context.Context, s *source, full bool, load float64) (out []Process) {
	if !full && load < quietLoad {
		return nil
	}
	first := map[int]stat{}
	pids := s.numbered("/proc", "")
	for _, pid := range pids[:min(len(pids), maxProcesses)] {
		if st, ok := waits(s, pid); ok && ctx.Err() == nil {
			first[pid] = st
		}
	}
	if len(first) == 0 {
		return nil
	}
	wait := lookAgain
	if full {
		wait = lookAgainFull
	}
	if !pause(ctx, wait) {
		return nil
	}
	users := userNames(s)
	for _, pid := range pids {
		before, ok := first[pid]
		if !ok || len(out) == maxStuck {
			continue
		}
		if now, ok := waits(s, pid); ok && now.start == before.start && now.ticks == before.ticks {
			dir := "/proc/" + strconv.Itoa(pid)
			out = append(out, Process{PID: pid, Name: brief(now.name), State: "D", User: users.name(s.ownerID(dir)), Wait: waitChannel(s, dir)})
		}
	}
	return out
}

func waits(s *source, pid int) (stat, bool) {
	st, ok := parseStat(s.text("/proc/" + strconv.Itoa(pid) + "/stat"))
	return st, ok && st.state == "D" && st.flags&flagKthread == 0
}

// waitChannel is the kernel's function in which a process waits; "" for those who may
// not know.
func waitChannel(s *source, dir string) string {
	if w := s.text(dir + "/wchan"); w != "0" {
		return brief(w)
	}
	return ""
}

// pause waits, and reports whether ctx is still not done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// users has the names of users that are in /etc/passwd.
type users map[int]string

func userNames(s *source) users { return parsePasswd(s.text("/etc/passwd")) }

func parsePasswd(text string) users {
	out := users{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 || fields[0] == "" {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		if _, known := out[uid]; err == nil && !known {
			out[uid] = brief(fields[0])
		}
	}
	return out
}

// name is a user's name, or the number of one who has none.
func (u users) name(uid int) string {
	switch name := u[uid]; {
	case name != "":
		return name
	case uid < 0:
		return ""
	}
	return strconv.Itoa(uid)
}
