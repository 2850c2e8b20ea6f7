package facts

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	copyLimit   = 2 * time.Second        // of the item
	copyWindow  = 100 * time.Millisecond // in which copies count
	copyThreads = 128
	copyMost    = 512 << 20 // bytes of memory that all buffers take
	copyLeast   = 1 << 20   // of a buffer
	copyBuffer  = 32 << 20  // of one that is copied alone, unless the cache is larger
	copyLarge   = 64 << 20  // of one at most, as touching it takes time
)

// collectCopyRate measures how fast memory is copied, by one core and by all. It takes
// some tenths of a second, in which nothing else should run.
func collectCopyRate(ctx context.Context, s *source, h *Host) error {
	_, available := parseMeminfo(s.text("/proc/meminfo"))
	_, cores := cpus(s)
	cache, sharing := lastCache(s)
	threads := max(1, min(cores, copyThreads))
	var err error
	if h.System.CopyOne, err = copyRate(ctx, 1, fitting(1, min(max(copyBuffer, cache), copyLarge), available)); err != nil {
		return err
	}
	// Sharers are threads, of which a core has two as a rule.
	part := min(max(4<<20, 2*cache/int64(max(1, sharing/2))), copyLarge/2)
	h.System.CopyAll, err = copyRate(ctx, threads, fitting(threads, part, available))
	return err
}

// fitting is how large a buffer may be, of two for each thread, if so many bytes are
// wanted and so many are available; 0: there is no room.
func fitting(threads int, want, available int64) int {
	most := min(copyMost, available/8) / int64(2*threads)
	if most < copyLeast {
		return 0
	}
	return int(min(want, most) &^ 4095)
}

// lastCache is the size of the last cache of the first CPU, and how many CPUs share it.
func lastCache(s *source) (size int64, sharing int) {
	const dir = "/sys/devices/system/cpu/cpu0/cache/index3/"
	text := strings.TrimSuffix(s.text(dir+"size"), "K")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
		size = n << 10
	}
	return size, max(1, len(parseList(s.text(dir+"shared_cpu_list"))))
}

// copyRate is how many bytes per second so many threads copy together, each from one
// buffer of its own to another.
func copyRate(ctx context.Context, threads, size int) (float64, error) {
	if size == 0 {
		return 0, fmt.Errorf("there is too little memory for %d buffers", 2*threads)
	}
	all, err := unix.Mmap(-1, 0, 2*threads*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	defer unix.Munmap(all)
	unix.Madvise(all, unix.MADV_HUGEPAGE) // quicker to touch, where the kernel has them
	before := runtime.GOMAXPROCS(0)
	if threads > before {
		runtime.GOMAXPROCS(threads)
		defer runtime.GOMAXPROCS(before)
	}
	rates := make([]float64, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	for k := range threads {
		from, to := all[2*k*size:(2*k+1)*size], all[(2*k+1)*size:(2*k+2)*size]
		done.Go(func() {
			touch(from)
			copy(to, from)
			ready.Done()
			ready.Wait()
			rates[k] = copies(ctx, to, from)
		})
	}
	done.Wait()
	total := 0.0
	for _, r := range rates {
		total += r
	}
	return total, context.Cause(ctx)
}

// touch writes to each page: until then all are one page of zeros.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = byte(i >> 12)
	}
}

// copies copies for a while, and returns the bytes per second.
func copies(ctx context.Context, to, from []byte) float64 {
	start, n := time.Now(), 0
	for {
		copy(to, from)
		n++
		if took := time.Since(start); took >= copyWindow || ctx.Err() != nil {
			return float64(n) * float64(len(from)) / took.Seconds()
		}
	}
}
