package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	hungLook = 50 * time.Millisecond  // between two looks at a process
	hungScan = 300 * time.Millisecond // for the first look at all processes
	oldSMI   = time.Minute            // how long ago an nvidia-smi that hangs was started, at least
	longSMI  = time.Second            // for how long it is watched

	// ticks is in how many parts of a second /proc counts, on every architecture.
	ticks = 100
)

// sleeper is a thread in state D. It is equal to itself at a later look if it has not run
// since.
type sleeper struct {
	pid  int
	dir  string // of the thread
	stat stat
}

// hung lists processes that wait in the kernel without an end, and have to do with
// NVIDIA's driver: by their name, or since they have its files open. State D as such is no
// trouble, processes are in it for moments. It takes half a second at most.
func (s *source) hung() []Process {
	until := time.Now().Add(hungScan)
	var first []sleeper
	for _, pid := range s.numbered("/proc", "") {
		if p, ok := s.sleeper(pid); ok && s.onDriver(p) {
			first = append(first, p)
		}
		if len(first) == maxStuck || time.Now().After(until) {
			break
		}
	}
	if len(first) > 0 {
		<-time.After(hungLook)
	}
	return s.processes(slices.DeleteFunc(first, s.ran))
}

// sleeper looks whether a process, or a thread of it, is in state D.
func (s *source) sleeper(pid int) (sleeper, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	st, ok := parseStat(s.text(dir + "/stat"))
	if !ok || st.flags&flagKthread != 0 {
		return sleeper{}, false
	}
	if st.state == "D" {
		return sleeper{pid, dir, st}, true
	}
	if st.threads < 2 {
		return sleeper{}, false
	}
	for _, tid := range s.list(dir + "/task") {
		thread := dir + "/task/" + tid
		if st, ok := parseStat(s.text(thread + "/stat")); ok && st.state == "D" {
			return sleeper{pid, thread, st}, true
		}
	}
	return sleeper{}, false
}

// ran reports whether p has run since it was looked at, or is gone.
func (s *source) ran(p sleeper) bool {
	now, ok := parseStat(s.text(p.dir + "/stat"))
	return !ok || now != p.stat
}

// onDriver reports whether a process has to do with NVIDIA's driver, as far as this user
// may see what it has open.
func (s *source) onDriver(p sleeper) bool {
	if strings.HasPrefix(p.stat.name, "nvidia-") || p.stat.name == fabricComm {
		return true
	}
	dir := fmt.Sprintf("/proc/%d/fd/", p.pid)
	return slices.ContainsFunc(s.list(dir), func(fd string) bool {
		return strings.HasPrefix(s.link(dir+fd), "/dev/nvidia")
	})
}

func (s *source) processes(of []sleeper) []Process {
	if len(of) == 0 {
		return nil
	}
	names := userNames(s)
	var out []Process
	for _, p := range of {
		user := names.name(s.ownerID(fmt.Sprintf("/proc/%d", p.pid)))
		out = append(out, Process{PID: p.pid, Name: cmp.Or(s.comm(p.pid), brief(p.stat.name)), User: user, State: "D", Wait: waitChannel(s, p.dir)})
	}
	return out
}

// hungSMI lists nvidia-smi that have never ended: started a minute ago and more, in state
// D, and not run for a second. Where none is in state D it takes no time. Its result is
// empty if ctx ends before.
func (s *source) hungSMI(ctx context.Context) []Process {
	var old []sleeper
	for _, pid := range s.numbered("/proc", "") {
		if s.comm(pid) != "nvidia-smi" {
			continue
		}
		if p, ok := s.sleeper(pid); ok && s.age(p.stat) >= oldSMI {
			old = append(old, p)
		}
	}
	for until := time.Now().Add(longSMI); len(old) > 0 && time.Now().Before(until); {
		if !pause(ctx, hungLook) {
			return nil
		}
		// Who runs uses CPU, if little; who runs in a loop ends this call, too.
		old = slices.DeleteFunc(old, s.ran)
	}
	return s.processes(old)
}

// age is how long ago a process was started; 0 if that is not told.
func (s *source) age(of stat) time.Duration {
	uptime, _, _ := strings.Cut(s.text("/proc/uptime"), ".")
	up, err := strconv.ParseInt(uptime, 10, 32)
	started, err2 := strconv.ParseInt(of.start, 10, 64)
	if err != nil || err2 != nil {
		return 0
	}
	return time.Duration(up-started/ticks) * time.Second
}

// comm is a process's name; "" if there is no such process.
func (s *source) comm(pid int) string {
	return brief(s.text(fmt.Sprintf("/proc/%d/comm", pid)))
}

// owner names the user of a process; "" if there is no such process.
func (s *source) owner(pid int) string {
	id := s.ownerID(fmt.Sprintf("/proc/%d", pid))
	if id < 0 {
		return ""
	}
	return userNames(s).name(id)
}
