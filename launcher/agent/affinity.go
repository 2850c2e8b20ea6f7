package agent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A cpuMask is a set of CPUs as the kernel takes it: package unix knows 1024 CPUs only, and
// Linux refuses to tell of more than fit.
type cpuMask [maxList / 64]uint64

// affinity lists the CPUs that this thread may run on; nil: they are not known.
func affinity() []int {
	var mask cpuMask
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return nil
	}
	var out []int
	for i := range int(n) * 8 {
		if mask[i/64]>>(i%64)&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// setAffinity lets this thread, and what it forks from now on, run on cpus only.
func setAffinity(cpus []int) error {
	var mask cpuMask
	for _, c := range cpus {
		mask[c/64] |= 1 << (c % 64)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return errno
	}
	return nil
}

// bindThread binds the thread of the forker for the rank that it forks next. A rank that
// cannot be bound, because the CPUs have gone since they were chosen, runs where the
// agent may.
func (j *job) bindThread(r *rank) {
	if r.cpus == nil {
		return
	}
	if err := setAffinity(r.cpus); err != nil {
		setAffinity(j.allowed)
		j.bindFailures = append(j.bindFailures, fmt.Sprintf("rank %d: %v", r.n, err))
	}
}

// unbindThread undoes bindThread.
func (j *job) unbindThread() {
	if len(j.ranks) > 0 && j.ranks[0].cpus != nil {
		setAffinity(j.allowed)
	}
}

// bindTrouble is a line about ranks that could not be bound, "" without any.
func (j *job) bindTrouble() string {
	n := len(j.bindFailures)
	switch n {
	case 0:
		return ""
	case 1:
		return "not bound: " + j.bindFailures[0]
	}
	return fmt.Sprintf("not bound: %s (and %d more of this host's ranks)", j.bindFailures[0], n-1)
}
