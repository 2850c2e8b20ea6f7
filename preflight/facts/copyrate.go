package facts

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	copyLimit   = 2 * time.Second        // of the item
	copyWindow  = 10 * time.Millisecond  // in which copies count
	copyLongest = 100 * time.Millisecond // where other processes disturb that
	copyFewest  = 16                     // pieces that count at least
	copyThreads = 128
	copyMost    = 512 << 20 // bytes of memory that all buffers take
	copyPiece   = 1 << 20   // of what is copied at once, and of a buffer at least
	copyBuffer  = 1 << 20   // of a buffer where copies pass the caches
	copyLarge   = 64 << 20  // of one at most elsewhere, as touching it takes time
)

// passesCaches is whether Go copies a piece so that what is written does not stay in the
// caches. Then it is read from memory, too, when it is copied back, however small a buffer
// is. Touching large ones takes much longer than copying them.
const passesCaches = runtime.GOARCH == "amd64"

// collectCopyRate measures how fast memory is copied, by one core and by all. It takes
// some hundredths of a second, in which nothing else should run.
func collectCopyRate(ctx context.Context, s *source, h *Host) error {
	_, available := parseMeminfo(s.text("/proc/meminfo"))
	_, cores := cpus(s)
	threads := max(1, min(cores, copyThreads))
	size := fitting(threads, bufferSize(s), available)
	if size == 0 {
		return fmt.Errorf("there is too little memory for %d buffers", 2*threads)
	}
	all, err := unix.Mmap(-1, 0, 2*threads*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	defer unix.Munmap(all)
	unix.Madvise(all, unix.MADV_HUGEPAGE) // quicker to touch, where the kernel has them
	if h.System.CopyOne, err = copyRate(ctx, 1, all[:2*size]); err != nil {
		return err
	}
	h.System.CopyAll, err = copyRate(ctx, threads, all)
	return err
}

// bufferSize is how large a buffer must be for copies to be from memory to memory.
func bufferSize(s *source) int64 {
	if passesCaches {
		return copyBuffer
	}
	return min(max(copyBuffer, lastCache(s)), copyLarge)
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

// copyRate is how many bytes per second so many threads copy together, each within its
// part of memory.
func copyRate(ctx context.Context, threads int, memory []byte) (float64, error) {
	before := runtime.GOMAXPROCS(0)
	if threads > before {
		runtime.GOMAXPROCS(threads)
		defer runtime.GOMAXPROCS(before)
	}
	rates := make([]float64, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	part := len(memory) / threads
	for k := range threads {
		mine := memory[k*part : (k+1)*part]
		done.Go(func() {
			touch(mine)
			ready.Done()
			ready.Wait()
			rates[k] = copies(ctx, mine)
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

// copies copies one half of memory to the other for a while, to and fro, and returns the
// bytes per second of those pieces that are quicker than three quarters: the others may
// have taken longer as another process had the core for some time. If those vary much,
// too, it goes on.
func copies(ctx context.Context, memory []byte) float64 {
	var took []time.Duration
	for start := time.Now(); ctx.Err() == nil; {
		for window := time.Now(); ctx.Err() == nil && (len(took) < copyFewest || time.Since(window) < copyWindow); {
			took = append(took, toAndFro(memory)...)
		}
		slices.Sort(took)
		if len(took) > 0 && took[len(took)/4] <= 3*took[0]/2 || time.Since(start) >= copyLongest {
			break
		}
	}
	if len(took) == 0 {
		return 0
	}
	return copyPiece / max(took[len(took)/4], 1).Seconds()
}

// toAndFro copies one half of memory to the other and back, and returns how long each piece
// has taken.
func toAndFro(memory []byte) (took []time.Duration) {
	from, to := memory[:len(memory)/2], memory[len(memory)/2:]
	for range 2 {
		for at := 0; at < len(from); at += copyPiece {
			began := time.Now()
			copy(to[at:at+copyPiece], from[at:])
			took = append(took, time.Since(began))
		}
		from, to = to, from
	}
	return took
}
