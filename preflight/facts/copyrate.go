package facts

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	copyLimit   = 2 * time.Second // of the item
	copyThreads = 128
	copyMost    = 512 << 20 // bytes of memory that all buffers take
	copyPiece   = 1 << 20   // of what is copied at once, and of a buffer at least
	copyLarge   = 64 << 20  // of a buffer at most, as touching it takes time
)

// collectCopyRate measures how fast memory is copied, by one core and by all. It takes
// some hundredths of a second, in which nothing else should run.
func collectCopyRate(ctx context.Context, s *source, h *Host) error {
	_, available := parseMeminfo(s.text("/proc/meminfo"))
	_, cores := cpus(s)
	before, allowed := maxProcs()
	threads := copyingThreads(cores, allowed)
	size := fitting(threads, bufferSize(passesCaches, lastCache(s)), available)
	if size == 0 {
		return fmt.Errorf("there is too little memory for %d buffers", 2*threads)
	}
	all, err := unix.Mmap(-1, 0, 2*threads*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	defer unix.Munmap(all)
	unix.Madvise(all, unix.MADV_HUGEPAGE) // quicker to touch, where the kernel has them
	if threads > before {
		runtime.GOMAXPROCS(threads)
		defer runtime.GOMAXPROCS(before)
	}
	start := time.Now()
	c := copier{func() time.Duration { return time.Since(start) }, copyMemory}
	h.System.CopyOne = c.alone(ctx, all[:2*size])
	h.System.CopyAll = c.together(ctx, threads, all)
	return context.Cause(ctx)
}

// maxProcs is how many threads Go runs at once, and how many it would by default: that
// heeds the affinity mask and the CPU limit of the cgroup.
func maxProcs() (now, allowed int) {
	now = runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	return now, runtime.GOMAXPROCS(now)
}

// copyingThreads is how many threads copy together on cores of which no more than allowed
// can be kept busy. More would have the rate of all for a while, until the limit on CPU
// time holds them up, which a short look does not see.
func copyingThreads(cores, allowed int) int { return max(1, min(cores, allowed, copyThreads)) }

// bufferSize is how large a buffer must be for copies to be from memory to memory.
// Touching a large one takes much longer than copying it.
func bufferSize(passesCaches bool, lastCache int64) int64 {
	if passesCaches {
		return copyPiece
	}
	return min(max(copyPiece, lastCache), copyLarge)
}

// fitting is how large a buffer may be, of two for each thread, if so many bytes are
// wanted and so many are available; 0: there is no room.
func fitting(threads int, want, available int64) int {
	most := min(copyMost, available/8) / int64(2*threads)
	return int(min(want, most)) / copyPiece * copyPiece
}

// lastCache is the size of the last cache of the first CPU.
func lastCache(s *source) int64 {
	text := strings.TrimSuffix(s.text("/sys/devices/system/cpu/cpu0/cache/index3/size"), "K")
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return max(n, 0) << 10
}
