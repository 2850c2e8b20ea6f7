package preflight

import (
	"cmp"
	"time"
)

// Limits are the numbers that checks compare with. The zero value of a field stands for
// its default, which Defaults has.
type Limits struct {
	Skew       time.Duration // clocks may differ by less
	Nofile     int64         // open files that a rank should be allowed
	Threads    int64         // processes and threads that a rank should have room for
	ShmPerRank int64         // bytes of /dev/shm that a rank needs free, for each other rank of its host
	Shm        int64         // bytes of /dev/shm that a host needs free at least
	TmpFree    int64         // bytes
	Memory     float64       // part of the median of available memory that each host must have
	Load       float64       // processes that want a CPU, for each CPU
	GPUMemory  int64         // bytes of a GPU that may be in use before the job
	RemapRows  int64         // uncorrectable rows that may have been remapped
	Corrected  int64         // ECC errors that were corrected, since the driver was loaded
	Disk       float64       // part of a disk that may be in use
	Slow       float64       // times the median that latency may be
	Bandwidth  float64       // part of the median that bandwidth must reach
	Fatal      []int         // XIDs that exclude a host
}

// Defaults has the defaults, from the sources named at each check.
func Defaults() Limits {
	return Limits{
		Skew:       time.Second,
		Nofile:     65536,
		Threads:    256,
		ShmPerRank: 10 << 20,
		Shm:        1 << 30,
		TmpFree:    64 << 20,
		Memory:     0.5,
		Load:       1,
		GPUMemory:  512 << 20,
		RemapRows:  512,
		Corrected:  10_000_000,
		Disk:       0.95,
		Slow:       3,
		Bandwidth:  0.5,
		Fatal:      []int{48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120},
	}
}

// orDefaults returns l with the defaults of what is zero. An empty Fatal that is not nil
// stays: no XID is fatal then.
func (l Limits) orDefaults() Limits {
	d := Defaults()
	if l.Fatal == nil {
		l.Fatal = d.Fatal
	}
	l.Skew = cmp.Or(l.Skew, d.Skew)
	l.Nofile = cmp.Or(l.Nofile, d.Nofile)
	l.Threads = cmp.Or(l.Threads, d.Threads)
	l.ShmPerRank = cmp.Or(l.ShmPerRank, d.ShmPerRank)
	l.Shm = cmp.Or(l.Shm, d.Shm)
	l.TmpFree = cmp.Or(l.TmpFree, d.TmpFree)
	l.Memory = cmp.Or(l.Memory, d.Memory)
	l.Load = cmp.Or(l.Load, d.Load)
	l.GPUMemory = cmp.Or(l.GPUMemory, d.GPUMemory)
	l.RemapRows = cmp.Or(l.RemapRows, d.RemapRows)
	l.Corrected = cmp.Or(l.Corrected, d.Corrected)
	l.Disk = cmp.Or(l.Disk, d.Disk)
	l.Slow = cmp.Or(l.Slow, d.Slow)
	l.Bandwidth = cmp.Or(l.Bandwidth, d.Bandwidth)
	return l
}
