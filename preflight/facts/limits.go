package facts

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxNprocLook is the limit on processes above which nobody counts those that there are:
// it takes a look at every process, and the limit is none.
const maxNprocLook = 131072

// collectLimits reads the limits of this process, which its children inherit.
func collectLimits(ctx context.Context, s *source, h *Host) error {
	l := &h.Limits
	l.Memlock, l.MemlockHard = limit(unix.RLIMIT_MEMLOCK)
	l.LockAny = mayLock(s.text("/proc/self/status"))
	l.Nofile, l.NofileHard = limit(unix.RLIMIT_NOFILE)
	l.Nproc, _ = limit(unix.RLIMIT_NPROC)
	l.Stack, _ = limit(unix.RLIMIT_STACK)
	l.Core, _ = limit(unix.RLIMIT_CORE)
	if l.Nproc >= 0 && l.Nproc <= maxNprocLook && unix.Getuid() != 0 {
		l.NprocUsed = threads(ctx, s, unix.Getuid())
	}
	return nil
}

// mayLock reports whether a process whose /proc/PID/status this is has the capability to
// lock memory without a limit.
func mayLock(status string) bool {
	const capIPCLock = 14
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && set>>capIPCLock&1 == 1
		}
	}
	return false
}

// limit returns a soft and a hard limit, -1 for none.
func limit(which int) (soft, hard int64) {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) != nil {
		return -1, -1
	}
	return finite(l.Cur), finite(l.Max)
}

func finite(n uint64) int64 {
	if n > 1<<62 {
		return -1
	}
	return int64(n)
}

// threads counts the threads of a user.
func threads(ctx context.Context, s *source, uid int) (n int64) {
	for _, pid := range s.numbered("/proc", "") {
		if ctx.Err() != nil {
			return n
		}
		dir := "/proc/" + strconv.Itoa(pid)
		if s.ownerID(dir) != uid {
			continue
		}
		if st, ok := parseStat(s.text(dir + "/stat")); ok {
			n += st.threads
		}
	}
	return n
}
